from __future__ import annotations

import dataclasses

import pytest

from weightsmith.chain.tailor.configurations import KINDS, Configuration, Conversion, PruningStep
from weightsmith.reducing.surgery.sizes import Target

CUT, CONVERSION = PruningStep("groups", "macs", 0.25), Conversion("constant", "percentile", 16)


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        (Configuration(), "whole"),
        (Configuration(CUT), "reduced"),
        (Configuration(None, CONVERSION), "spiking"),
        (Configuration(CUT, CONVERSION), "reduced and spiking"),
        (Configuration(numbers="int8"), "int8"),
        (Configuration(CUT, numbers="int8"), "reduced, int8"),
    ],
)
def test_the_kind_says_what_was_done(way, kind):
    assert way.kind == kind
    assert kind in KINDS
    assert Configuration.from_json(way.to_json()) == way


def test_a_target_reads_back_as_the_size_it_was_written_for():
    for keep in (0.5, 0.3536, 0.0125):
        target = Target.parse(dataclasses.replace(CUT, keep=keep).target)
        assert (target.keep, target.measure) == (keep, "macs")


def test_no_two_ways_share_a_key():
    cuts = [
        dataclasses.replace(CUT, **change)
        for change in ({}, {"by": "error"}, {"measure": "params"}, {"keep": 0.251}, {"plan": "norm"}, {"multiple": 8})
    ]
    changes = ({}, {"steps": 17}, {"encode": "poisson"}, {"balance": "mse"}, {"neuron": "graded:5"})
    ways = [Configuration(cut, dataclasses.replace(CONVERSION, **change)) for cut in cuts for change in changes]
    ways += [Configuration(cut, numbers="int8") for cut in cuts]
    assert len({way.key for way in ways}) == len(ways)
    assert len(set(ways)) == len(ways)


def test_words():
    assert str(Configuration()) == "whole"
    assert (
        str(Configuration(dataclasses.replace(CUT, recover="fine-tune:2"))) == "groups, macs:0.25, uniform, fine-tune:2"
    )
    assert (
        str(Configuration(None, dataclasses.replace(CONVERSION, adjust="l4:1.0")))
        == "spiking, constant, percentile, l4:1.0"
    )
    cut = PruningStep("error", "params", 0.75, "error")
    assert str(Configuration(cut, numbers="int8")) == "cut to 75 % of the parameters; int8"
    fast = dataclasses.replace(cut, measure="macs", multiple=8)
    assert str(fast) == "cut to 75 % of the operations, in multiples of 8 channels"
    assert Target.parse(fast.target).multiple == 8
    graded = Conversion("constant", "percentile", 2, None, "graded:5", "weights")
    assert str(Configuration(None, graded)) == "graded:5, 2 steps"
