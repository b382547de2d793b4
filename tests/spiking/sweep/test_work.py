"""The execution of a sweep: cached results are not computed again, races and tests count as separate runs do."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import mcnemar
from weightsmith.spiking.conversion.balance import MaxCurrent
from weightsmith.spiking.conversion.preparing import ConversionSettings, calibration_rows, prepare
from weightsmith.spiking.conversion.subject import Subject, read_subject
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.l4.adjust import population_means
from weightsmith.spiking.neurons import IF
from weightsmith.spiking.sweep.grid import Grid
from weightsmith.spiking.sweep.work import Book, SweepWork, reached

RECIPE = ConversionSettings(IF(), Poisson(), MaxCurrent(16, 12), None, None, "float32", 12, 0)
GRID = Grid((1.0, 0.9), ("soft",), (0.3, 1.5), (1.0,))
LENGTHS = (4, 12)


@functools.cache
def subject() -> Subject:
    ready, digits = ws.spike_ready("mlp:16"), ws.data.load("digits")
    options: dict[str, Any] = {"optimiser": "adam", "schedule": 0.01, "epochs": 4}
    run = ws.train(ready.architecture, digits, normalise=ready.normalisation, **options)
    return read_subject(run, digits, images=20, seed=0)


def work(book: Book | None = None, **changes: Any) -> SweepWork:
    network = prepare(subject(), RECIPE).network
    return SweepWork(subject(), network, dataclasses.replace(RECIPE, **changes), LENGTHS, book or Book(None, {}))


# The book


def test_without_a_folder_everything_is_computed_once() -> None:
    values = iter((1, 2))
    with Book(None, {}) as book:
        found = [next(book.entries(lambda _: (next(values), 0.0), {key: None})) for key in "aab"]
        assert found == [1, 1, 2]


def test_what_is_written_is_not_computed_again(tmp_path: Path) -> None:
    with Book(tmp_path, {"seed": 0}) as book:
        assert list(book.entries(lambda task: ([task, 2.5], 0.1), {"a": 1})) == [[1, 2.5]]
    with Book(tmp_path, {"seed": 0}) as book:
        assert list(book.entries(lambda task: (task + 1, 0.1), {"a": None, "b": 4})) == [[1, 2.5], 5]
    with pytest.raises(UsageError, match="seed is 0 in the journal and 1 in this call"):
        Book(tmp_path, {"seed": 1})


def test_how_far_a_sweep_had_come(tmp_path: Path) -> None:
    assert reached(tmp_path) is None
    with Book(tmp_path, {}) as book:
        assert reached(tmp_path) is None
        sweep = work(book)
        sweep.measure_means(GRID.races()[:2], 10, None)
        assert reached(tmp_path) == ("means", 2)
        sweep.measure_means(GRID.races(), 10, None)
        _, winners = sweep.choose(GRID.races(), 20, None, None)
        assert reached(tmp_path) == ("racing", 16)  # the block of four that begins there may be the one that was cut
        sweep.test(winners, None)
        assert reached(tmp_path) == ("testing", 16)


# The work


def test_the_means_are_those_of_the_neuron_and_the_factor() -> None:
    sweep, calls = work(), []
    sweep.measure_means(GRID.races(), 10, lambda *news: calls.append(news))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert list(sweep._means) == [(leak, "soft", factor) for leak in (1.0, 0.9) for factor in (0.3, 1.5)]
    network = prepare(subject(), RECIPE).network.with_factor(1.5).with_neuron(GRID.neurons()[1])
    x = subject().train.x[calibration_rows(len(subject().train), 10, 0)]
    expected = population_means(network, network.populations[0].name, x, steps=12, seed=0)
    assert np.array_equal(sweep._means[0.9, "soft", 1.5], expected)


def test_without_adjustment_no_means_are_measured() -> None:
    sweep = work()
    sweep.measure_means(Grid((0.9,), ("soft",), (0.3,), ()).races(), 10, lambda *_: pytest.fail("nothing to measure"))
    assert sweep._means == {}


def test_races_count_as_runs_of_their_own_do() -> None:
    plain = Grid(GRID.leaks, GRID.resets, GRID.factors, ())
    table, winners = work().choose(plain.races(), 20, None, None)
    rows = calibration_rows(len(subject().train), 20, 0)
    x, labels = subject().train.x[rows], subject().train.y[rows].numpy()
    base = prepare(subject(), RECIPE).network
    right: dict[tuple[float, float], Any] = {}
    for neuron in plain.neurons():
        for factor in plain.factors:
            responses = base.with_factor(factor).with_neuron(neuron).run(x, 12)
            right[neuron.leak, factor] = responses.correct(labels).sum(axis=0)
    assert [(row.setting.leak, row.setting.factor) for row in table] == list(right)
    for row, counts in zip(table, right.values(), strict=True):
        assert row.correct == (counts[3], counts[11])
        assert (row.seen, row.lost) == (20, False)
    assert len({row.correct for row in table}) > 1
    for (leak, _, length), (best, adjusted) in winners.items():
        assert best.correct == max(right[leak, factor][length - 1] for factor in plain.factors)
        assert right[leak, best.setting.factor][length - 1] == best.correct
        assert adjusted is None


def test_winners_are_tested_with_other_spikes_and_compared_in_pairs() -> None:
    sweep = work()
    sweep.measure_means(GRID.races(), 10, None)
    _, winners = sweep.choose(GRID.races(), 16, None, None)
    tested = sweep.test(winners, None)
    base, labels = prepare(subject(), RECIPE).network, subject().judged.y.numpy()
    for chosen in sweep.compared(winners, tested):
        index = LENGTHS.index(chosen.steps)
        (neuron,) = (neuron for neuron in GRID.neurons() if neuron.leak == chosen.leak)
        network = base.with_factor(chosen.baseline.factor).with_neuron(neuron)
        alone = network.run(subject().judged.x, 12, first=len(subject().train)).correct(labels)
        without = tested[chosen.baseline.key][:, index]
        assert np.array_equal(without, alone[:, chosen.steps - 1])
        assert chosen.baseline_test.value == without.mean()
        assert chosen.adjusted is not None
        with_it = tested[chosen.adjusted.key][:, index]
        assert chosen.gain == mcnemar(with_it, without)


def test_eight_bits_are_rounded_once_for_all_factors() -> None:
    sweep = work(precision="int8")
    one, other = (sweep._base(factor).run for factor in (0.3, 1.5))
    assert one is other
    weights = [node.weight for node in one.synapses]
    assert all(torch.equal(weight, weight.round()) for weight in weights)
    neuron, settings = Grid((0.9,), ("soft",), (0.3, 1.5), ()).races()[0]
    low, high = (next(iter(sweep._thresholds(neuron, setting).values())) for setting in settings)
    assert torch.equal(low, low.round())
    assert torch.allclose(high / low, torch.tensor(5.0), rtol=0.2)
