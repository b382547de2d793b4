from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from weightsmith.spiking.simulation.responses import UNDECIDED, Responses

ANSWERS = np.array([[UNDECIDED, 1, 2], [0, 0, 0]], np.int16)


def _responses(**changes):
    whole = Responses(
        steps=3,
        answers=ANSWERS,
        scores=np.zeros((2, 3)),
        ended=np.array([3, 2], np.int32),
        units={"a": 10, "b": 4},
        spikes_per_step={"a": np.array([5, 4, 1]), "b": np.array([0, 0, 2])},
        spikes_per_image={"a": np.array([7, 3]), "b": np.array([2, 0])},
        inputs_per_step=None,
        paths={},
    )
    return dataclasses.replace(whole, **changes)


def test_images_and_what_is_right():
    found = _responses()
    assert found.images == 2
    assert found.correct(np.array([2, 0])).tolist() == [[False, False, True], [True, True, True]]
    assert found.correct(np.array([1, 1], np.uint8)).tolist() == [[False, True, False], [False] * 3]


def test_spikes_and_rates():
    found = _responses()
    assert found.spikes() == {"a": 10, "b": 2}
    # Five image-steps were run: three of the first image, two of the second.
    assert found.rates() == {"a": pytest.approx(10 / 50), "b": pytest.approx(2 / 20)}


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        _responses().steps = 4
