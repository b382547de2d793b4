"""The three lines, by layers made by hand: what is broken comes first, and only tested advice is given."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from weightsmith.grading.answer import ADVICE, advice, answer
from weightsmith.grading.classes import ClassShares
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Grades, LayerGrade, Verdict, VerdictKind


@pytest.fixture(scope="module")
def noise() -> Grades:
    draws = torch.Generator().manual_seed(0)
    return grade({f"l{n}.weight": torch.randn(100, 80, generator=draws) for n in range(3)})


def judged(layer: LayerGrade, kind: VerdictKind, shares: ClassShares | None = None, **bulk: float) -> LayerGrade:
    found = dataclasses.replace(layer.bulk, **{"spikes": 5, "soft_rank": 0.2, **bulk})
    return dataclasses.replace(layer, verdict=Verdict(kind, "by hand"), shares=shares, bulk=found)


def of(grades: Grades, *layers: LayerGrade) -> Grades:
    return dataclasses.replace(grades, layers=layers)


def test_noise_is_to_be_trained_longer(noise):
    assert [advice(layer, noise) for layer in noise.layers] == ["train longer"] * 3
    words = "l0, l1, l2: hardly different from random weights, like all larger dense layers: train the network longer"
    assert answer(noise).look.startswith(words)
    near = judged(noise.layers[0], VerdictKind.WELL_TRAINED, soft_rank=0.6)
    assert advice(near, of(noise, near)) == "train longer"
    assert "well trained" not in answer(of(noise, near)).look  # so close to noise α says nothing
    for other in (dataclasses.replace(near, evals=63), dataclasses.replace(near, kind="Conv2d")):
        assert advice(other, of(noise, other)) is None


def test_a_layer_near_noise_is_left_alone_where_another_has_learned(noise):
    near = judged(noise.layers[0], VerdictKind.WELL_TRAINED, soft_rank=0.9)
    learned = judged(noise.layers[1], VerdictKind.WELL_TRAINED, soft_rank=0.57)
    assert [advice(layer, of(noise, near, learned)) for layer in (near, learned)] == [None, None]
    small = dataclasses.replace(learned, evals=63)  # nothing was tested about such layers
    assert advice(near, of(noise, near, small)) == "train longer"


def test_few_directions_are_to_be_cut_in_dense_layers_only(noise):
    layer = judged(noise.layers[0], VerdictKind.WELL_TRAINED)
    thin = dataclasses.replace(layer, metrics=dataclasses.replace(layer.metrics, stable_rank=2.0))
    assert advice(layer, of(noise, layer)) is None
    assert advice(thin, of(noise, thin)) == "cut"  # 2 of 100 units
    many_inputs = dataclasses.replace(thin, shape=(79, 784))  # 2 of 79 units, however many inputs they read
    assert advice(many_inputs, of(noise, many_inputs)) is None
    convolution = dataclasses.replace(thin, kind="Conv2d")
    assert advice(convolution, of(noise, convolution)) is None


def test_what_was_not_tested_is_not_advised(noise):
    assert set(ADVICE) == {"train longer", "cut"}
    over = judged(noise.layers[0], VerdictKind.OVER_REGULARISED)
    assert "A remedy was tested for dense layers" in answer(of(noise, over)).look


def test_broken_layers_come_first_and_then_firm_verdicts():
    draws = torch.Generator().manual_seed(0)
    broken = grade({"a.weight": torch.full((20, 20), torch.nan), "b.weight": torch.randn(100, 80, generator=draws)})
    nan, layer = broken.layers
    weak = dataclasses.replace(judged(layer, VerdictKind.WEAKLY_TRAINED), name="weak")
    leaning = dataclasses.replace(judged(layer, VerdictKind.CANNOT_SAY, ClassShares(0, 0.1, 0.9)), name="leaning")
    good = dataclasses.replace(judged(layer, VerdictKind.WELL_TRAINED), name="good")
    found = answer(of(broken, good, leaning, weak, nan))
    assert [part.split(":")[0] for part in found.look.partition(". ")[0].split("; ")] == ["a", "weak", "leaning"]
    assert "find out why" in found.look
    assert "good" not in found.look
    assert "1 with a likely one (weakly trained: 1), 0 undecided" in found.graded


def test_where_nothing_is_wrong_nothing_is_named(noise):
    found = answer(of(noise, judged(noise.layers[0], VerdictKind.WELL_TRAINED)))
    assert found.look.startswith("nothing")
    assert all(line and "\n" not in line for line in found.lines)


def test_without_evidence_there_are_no_verdicts_to_count():
    draws = torch.Generator().manual_seed(0)
    found = answer(grade({"b.weight": torch.randn(100, 80, generator=draws)}, evidence="none"))
    assert "no verdicts without evidence" in found.graded
