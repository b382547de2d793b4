"""The settings of a sweep: all of them, each once, in the order in which they race."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from weightsmith.core.errors import WeightsmithError
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.sweep.grid import Grid, beyond, neuron_of, widened
from weightsmith.spiking.sweep.results import Setting

VALUES: dict[str, Any] = {
    "leaks": (1.0, 0.9),
    "resets": ("soft", "hard"),
    "factors": (0.3, 0.5),
    "smoothings": (1.0, 2.0, 5.0),
}


def test_a_neuron_that_leaks_nothing_is_plain() -> None:
    assert neuron_of(1.0, "hard", delay=True) == IF(reset="hard", delay=True)
    assert neuron_of(0.9, "soft", delay=False) == LIF(0.9)


def test_every_leak_with_every_reset() -> None:
    neurons = Grid(**VALUES, delay=True).neurons()
    assert [(neuron.leak, neuron.reset) for neuron in neurons] == list(itertools.product((1.0, 0.9), ("soft", "hard")))
    assert all(neuron.delay for neuron in neurons)


def test_races_without_adjustment_come_before_those_with() -> None:
    races = Grid(**VALUES).races()
    assert [neuron for neuron, _ in races] == [neuron for neuron in Grid(**VALUES).neurons() for _ in range(2)]
    for (neuron, settings), adjusted in zip(races, itertools.cycle((False, True)), strict=False):
        smoothings = VALUES["smoothings"] if adjusted else (None,)
        assert [(s.factor, s.smoothing) for s in settings] == list(itertools.product((0.3, 0.5), smoothings))
        assert {(s.leak, s.reset) for s in settings} == {(neuron.leak, neuron.reset)}
    keys = [setting.key for _, settings in races for setting in settings]
    assert len(keys) == len(set(keys)) == 4 * 2 * 4


def test_without_smoothings_there_is_one_race_for_each_neuron() -> None:
    races = Grid(**{**VALUES, "smoothings": ()}).races()
    assert [len(settings) for _, settings in races] == [2, 2, 2, 2]
    assert all(setting.smoothing is None for _, settings in races for setting in settings)


def test_any_iterable_of_any_numbers_is_kept_as_floats() -> None:
    given = Grid(np.array([1, 0.5]), iter(["soft"]), range(1, 3), [2], delay=False)  # type: ignore[arg-type]
    assert given == Grid((1.0, 0.5), ("soft",), (1.0, 2.0), (2.0,))
    assert given.written() == {
        "leaks": [1.0, 0.5],
        "resets": ["soft"],
        "factors": [1.0, 2.0],
        "smoothings": [2.0],
        "delay": False,
    }
    assert {type(value) for value in (*given.leaks, *given.factors)} == {float}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaks": ()}, "a sweep needs at least one of leaks"),
        ({"resets": ()}, "a sweep needs at least one of resets"),
        ({"factors": ()}, "a sweep needs at least one of factors"),
        ({"factors": (0.5, 0.5)}, "factors: 0.5, 0.5 has a value twice"),
        ({"factors": (0.0,)}, "a threshold factor must be a finite number > 0, not 0.0"),
        ({"factors": (float("nan"),)}, "a threshold factor must be a finite number > 0, not nan"),
        ({"factors": (float("inf"),)}, "a threshold factor must be a finite number > 0, not inf"),
        ({"factors": ("0.5",)}, "factors are numbers, not '0.5'"),
        ({"factors": ([0.5],)}, r"factors are numbers, not \[0.5\]"),
        ({"factors": 0.5}, "factors must be a list or tuple, not 0.5"),
        ({"smoothings": None}, "smoothings must be a list or tuple, not None"),
        ({"smoothings": (float("inf"),)}, "an infinite smoothing changes nothing"),
        ({"smoothings": (-1.0,)}, "smoothing must be"),
        ({"leaks": (1.1,)}, "leak must be"),
        ({"resets": "soft"}, "resets must be a list or tuple, not 'soft'"),
        ({"resets": ("none",)}, "reset"),
        ({"resets": (1,)}, "resets are names, not 1"),
    ],
)
def test_what_no_sweep_can_have_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WeightsmithError, match=message) as caught:
        Grid(**{**VALUES, **change})
    assert "\n" not in str(caught.value)


def test_a_grid_grows_where_its_winner_lies_on_the_edge():
    race = [Setting(0.9, "soft", factor, smoothing) for factor in (0.3, 0.5) for smoothing in (1.0, 2.0, 5.0)]
    assert widened(race, [Setting(0.9, "soft", 0.3, 2.0)]) == [
        *race,
        *(Setting(0.9, "soft", 0.18, smoothing) for smoothing in (1.0, 2.0, 5.0)),
    ]
    both = widened(race, [Setting(0.9, "soft", 0.5, 5.0)])
    assert {setting.factor for setting in both} == {0.3, 0.5, 0.833}
    assert {setting.smoothing for setting in both} == {1.0, 2.0, 5.0, 12.5}
    assert len(both) == 3 * 4
    plain = [Setting(1.0, "hard", factor, None) for factor in (0.3, 0.4, 0.5)]
    assert widened(plain, [Setting(1.0, "hard", 0.4, None)]) == plain
    assert [setting.factor for setting in widened(plain, [plain[0], plain[2]])] == [0.3, 0.4, 0.5, 0.225, 0.625]


def test_values_without_a_side_have_none_beyond():
    assert beyond([0.5], 0.5) is None
    assert beyond([0.0, 1.0], 0.0) is None
    assert beyond([0.0, 1.0], 1.0) == 2.0
