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


def test_no_two_ways_share_a_key_and_no_two_cuts_a_folder():
    cuts = [
        dataclasses.replace(CUT, **change)
        for change in ({}, {"by": "angles:90"}, {"measure": "params"}, {"keep": 0.251}, {"plan": "norm"})
    ]  # fmt: skip
    assert len({cut.folder for cut in cuts}) == len(cuts)
    changes = ({}, {"steps": 17}, {"encode": "poisson"}, {"balance": "max-current"}, {"adjust": "l4:1.0"})
    ways = [Configuration(cut, dataclasses.replace(CONVERSION, **change)) for cut in cuts for change in changes]
    assert len({way.key for way in ways}) == len(ways)
    assert len(set(ways)) == len(ways)


def test_a_folder_is_a_plain_name_however_long_the_options():
    cut = dataclasses.replace(CUT, by='angles:45.0,merge=outputs,centre="0.5"', recover="../" * 100, plan="a/b\\c:d")
    assert set(cut.folder) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")
    assert ".." not in cut.folder
    assert len(cut.folder) < 80


def test_words():
    assert str(Configuration()) == "whole"
    assert (
        str(Configuration(dataclasses.replace(CUT, recover="fine-tune:2"))) == "groups, macs:0.25, uniform, fine-tune:2"
    )
    assert (
        str(Configuration(None, dataclasses.replace(CONVERSION, adjust="l4:1.0")))
        == "spiking, constant, percentile, l4:1.0"
    )
