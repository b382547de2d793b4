from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.spiking.networks import SpikeRecorder, inputs, network

from weightsmith.core.errors import OptionError
from weightsmith.spiking.simulation.exits import Exit, Margin
from weightsmith.spiking.simulation.reference import Stepper
from weightsmith.spiking.simulation.responses import UNDECIDED
from weightsmith.spiking.simulation.sources import source_of


def _outputs(found, x, steps, seed):
    """What the last node gives at each step: (images, steps, classes)."""
    stepper, source = Stepper(found, torch.float64), source_of(found, x, seed, 0)
    state, last = stepper.begin(len(x)), found.nodes[-1].name
    each = [stepper.step(state, source.step(slice(None), step))[0][last] for step in range(steps)]
    return torch.stack(each, dim=1).numpy()


def _ends(output, rule):
    """The number of steps after which one image (steps, classes) ends: the rule written out."""
    steps, classes = output.shape
    for t in range(1, steps):
        sums = [math.fsum(output[:t, c]) for c in range(classes)]
        best = max(range(classes), key=lambda c: (sums[c], -c))
        second = max((c for c in range(classes) if c != best), key=lambda c: (sums[c], -c))
        noise = sum(math.fsum(output[:t, c] ** 2) - sums[c] ** 2 / t for c in (best, second))
        lead = sums[best] - sums[second]
        if t >= rule.least and lead > 0 and lead >= rule.errors * math.sqrt(max(noise, 0)):
            return t
    return steps


@pytest.mark.parametrize("path", ["auto", "events", "steps"])
@pytest.mark.parametrize("rule", [Margin(2.0), Margin(3.5, least=5), Margin(0.7, least=2)], ids=str)
def test_the_margin_rule_by_an_independent_loop(rule, path):
    found = network("mlp")
    x = inputs(found, 40)
    output = _outputs(found, x, 60, seed=2)
    expected = [_ends(image, rule) for image in output]
    got = found.run(x, 60, seed=2, early=rule, precision="float64", path=path)
    assert got.ended.tolist() == expected
    assert len(set(expected)) > 3
    # Answers are those of a full run up to the end of each image, and stay from there on.
    full = found.run(x, 60, seed=2, precision="float64", path=path)
    for image, end in enumerate(expected):
        assert np.array_equal(got.answers[image, :end], full.answers[image, :end])
        assert set(got.answers[image, end:]) <= {got.answers[image, end - 1]}
        assert got.scores[image] == pytest.approx(output[image, :end].sum(axis=0), rel=1e-12, abs=1e-12)


def test_spikes_after_the_end_are_not_counted():
    found, rule, recorder = network("conv"), Margin(1.5, least=3), SpikeRecorder(inputs=True)
    x = inputs(found, 30)
    got = found.run(x, 50, early=rule, precision="float64")
    found.run(x, 50, precision="float64", observers=[recorder])
    assert got.ended.min() < 10 < got.ended.max()
    alive = np.arange(50) < got.ended[:, None]
    for name, train in recorder.trains.items():
        counts = np.abs(train.astype(int)).sum(axis=(2, 3)) * alive
        if name == "input":
            assert np.array_equal(got.inputs_per_step, counts.sum(axis=0))
        else:
            assert np.array_equal(got.spikes_per_step[name], counts.sum(axis=0))
            assert np.array_equal(got.spikes_per_image[name], counts.sum(axis=1))
            assert got.rates()[name] == pytest.approx(counts.sum() / (got.ended.sum() * got.units[name]), rel=1e-12)


def test_images_do_not_end_before_the_least_number_of_steps():
    found = network("mlp")
    got = found.run(inputs(found, 20), 40, early=Margin(1e-9, least=13))
    assert got.ended.tolist() == [13] * 20
    assert found.run(inputs(found, 20), 12, early=Margin(1e-9, least=13)).ended.tolist() == [12] * 20


def test_a_silent_network_never_ends():
    found = network("wide mlp").with_factor(1e6)
    got = found.run(inputs(found, 3), 40, early=Margin(1.0))
    assert got.ended.tolist() == [40] * 3
    assert (got.answers == UNDECIDED).all()


def test_text_form_and_ranges():
    assert Exit.parse("margin:3") == Margin(3.0, least=8)
    assert Exit.parse("margin:2.5,least=4") == Margin(2.5, least=4)
    for bad in ("margin:0", "margin:-1", "margin", "margin:3,least=1", "margin:nan"):
        with pytest.raises(OptionError):
            Exit.parse(bad)
