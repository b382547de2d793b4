from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.responses import UNDECIDED
from weightsmith.spiking.simulation.tally import INPUTS, Tally


def _run(outputs, counts, cuts, early=None, blocks=1):
    """All of a run, block by block and part by part as the engines hand it in."""
    images, steps, classes = outputs.shape
    tally = Tally(images, steps, classes, {"relu": 4}, early)
    for block in np.array_split(np.arange(images), blocks):
        rows, start = block, 0
        for end in (*cuts, steps):
            if len(rows) == 0 or end == start:
                continue
            part = {name: count[rows, start:end] for name, count in counts.items()}
            going = tally.add(rows, start, outputs[rows, start:end], part)
            start = end
            if start < steps:
                rows = rows[going]
    return tally.responses({"conv": "events"})


def _random(images=7, steps=20, classes=3, seed=0):
    generator = np.random.default_rng(seed)
    outputs = generator.integers(-3, 4, (images, steps, classes)).astype(np.float32)
    outputs[:, :2] = 0
    counts = {name: generator.integers(0, 5, (images, steps)) for name in ("relu", INPUTS)}
    return outputs, counts


@pytest.mark.parametrize("cuts", [(), (1,), (8, 16), tuple(range(1, 20))])
@pytest.mark.parametrize("blocks", [1, 3])
def test_sums_answers_and_spikes(cuts, blocks):
    outputs, counts = _random()
    got = _run(outputs, counts, cuts, blocks=blocks)
    sums = outputs.astype(np.float64).cumsum(axis=1)
    assert np.array_equal(got.scores, sums[:, -1])
    for image in range(7):
        for step in range(20):
            expected = int(sums[image, step].argmax()) if sums[image, step].any() else UNDECIDED
            assert got.answers[image, step] == expected
    assert (got.answers[:, :2] == UNDECIDED).all()
    assert np.array_equal(got.spikes_per_step["relu"], counts["relu"].sum(axis=0))
    assert np.array_equal(got.spikes_per_image["relu"], counts["relu"].sum(axis=1))
    assert np.array_equal(got.inputs_per_step, counts[INPUTS].sum(axis=0))
    assert got.ended.tolist() == [20] * 7
    assert (got.steps, got.units, got.paths) == (20, {"relu": 4}, {"conv": "events"})


def test_negative_sums_are_answers_too():
    outputs = np.full((1, 2, 3), -1.0)
    outputs[0, :, 1] = -0.5
    assert _run(outputs, {}, ()).answers.tolist() == [[1, 1]]


def test_of_equal_sums_the_first_is_the_answer():
    assert _run(np.array([[[0.0, 2.0, 2.0]]]), {}, ()).answers.tolist() == [[1]]


def test_sums_are_kept_in_double_precision():
    outputs = np.zeros((1, 3, 2), np.float32)
    outputs[0, :, 0] = [2**24, 1, 1]
    assert _run(outputs, {}, ()).scores[0, 0] == 2**24 + 2


def test_what_never_fired_counts_zero():
    got = _run(*_random()[:1], {}, ())
    assert got.inputs_per_step is None
    assert got.spikes_per_step["relu"].tolist() == [0] * 20
    assert got.spikes_per_image["relu"].tolist() == [0] * 7


def _slow(outputs, rule):
    """The step after which each image ends."""
    ended = []
    for image in outputs.astype(np.float64):
        end = len(image)
        for t in range(rule.least, len(image)):
            sums, squares = image[:t].sum(axis=0), (image[:t] ** 2).sum(axis=0)
            first = int(sums.argmax())
            second = int(np.where(np.arange(len(sums)) == first, -np.inf, sums).argmax())
            spread = np.maximum(squares - sums**2 / t, 0)
            lead = sums[first] - sums[second]
            if lead > 0 and lead >= rule.errors * np.sqrt(spread[[first, second]].sum()):
                end = t
                break
        ended.append(end)
    return ended


whole_numbers = arrays.arrays(np.float64, (4, 12, 3), elements=st.integers(-2, 3).map(float))


@settings(deadline=None, max_examples=60)
@given(whole_numbers, st.sets(st.integers(1, 11)), st.sampled_from([Margin(1.0, least=2), Margin(2.5, least=4)]))
def test_early_ends_do_not_depend_on_the_cut(outputs, cuts, rule):
    counts = {"relu": np.ones((4, 12), int)}
    got = _run(outputs, counts, sorted(cuts), rule)
    assert got.ended.tolist() == _slow(outputs, rule)
    for image, end in enumerate(got.ended):
        assert got.spikes_per_image["relu"][image] == end
        assert np.array_equal(got.scores[image], outputs[image, :end].sum(axis=0))
        assert set(got.answers[image, end:]) <= {got.answers[image, end - 1]}
    assert got.spikes_per_step["relu"].tolist() == [int((got.ended > step).sum()) for step in range(12)]


def test_one_class_has_no_lead():
    got = _run(np.ones((2, 10, 1)), {}, (), Margin(0.1, least=2))
    assert got.ended.tolist() == [10, 10]


def test_the_rows_that_go_on_are_reported():
    outputs = np.zeros((3, 8, 2))
    outputs[:, :, 0] = [[1.0], [0.0], [1.0]]
    tally = Tally(3, 16, 2, {}, Margin(2.0, least=4))
    going = tally.add(np.arange(3), 0, outputs, {})
    assert going.tolist() == [False, True, False]
    assert Tally(3, 16, 2, {}, None).add(np.arange(3), 0, outputs, {}).tolist() == [True] * 3


def test_memory_grows_by_the_answers_only():
    """Two bytes for every image and step, and one number for every step and name."""
    small, large = (Tally(10, steps, 3, {"relu": 4}, None).responses({}) for steps in (100, 1000))
    assert small.answers.itemsize == 2
    assert large.answers.nbytes - small.answers.nbytes == 2 * 10 * 900
    assert large.scores.nbytes == small.scores.nbytes
