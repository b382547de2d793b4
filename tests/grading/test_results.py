"""Records of grading: the same columns for every layer, exact JSON, sums that add up."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from weightsmith.core.errors import UnknownName
from weightsmith.core.statistics import Interval
from weightsmith.grading.classes import ClassShares
from weightsmith.grading.fits.alternatives import Alternative
from weightsmith.grading.fits.cuts import Hill, SmallestDistance
from weightsmith.grading.fits.powerlaw import PowerLaw, SliceFit
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.grading.grade import grade
from weightsmith.grading.metrics import LayerMetrics
from weightsmith.grading.results import (
    Coverage,
    Grades,
    LayerGrade,
    Measure,
    Omitted,
    Status,
    Verdict,
    VerdictKind,
)

METRICS = LayerMetrics(
    lambda_max=9.0,
    lambda_smallest=0.25,
    norm=20.0,
    log_norm=1.3,
    log_spectral_norm=0.95,
    stable_rank=2.2,
    log_stable_rank=1.36,
    rank=10,
    rank_loss=0,
    weak_rank_loss=0,
    entropy=0.8,
    sv_max=3.0,
    sv_min=0.5,
    Q=2.0,
    alpha_weighted=2.4,
    log_alpha_norm=2.6,
)


def fitted(name: str = "fc", **changes: object) -> LayerGrade:
    values: dict[str, object] = {
        "name": name,
        "kind": "Linear",
        "shape": (20, 10),
        "parameters": 200,
        "N": 20,
        "M": 10,
        "matrices": 1,
        "evals": 10,
        "status": Status.FITTED,
        "verdict": Verdict(VerdictKind.WELL_TRAINED, "α = 2.50"),
        "fit": PowerLaw(2.5, 0.1 + 0.2, 1 / 3, 0.07, 9, 10, Hill(0.9)),
        "interval": Interval(2.5, 2.1, 3.3, 0.95, "bootstrap"),
        "goodness": Goodness(p=0.42, resamples=400, rejected=False),
        "alternatives": (
            Alternative("lognormal", -1.5, -0.7, 0.48, "neither", {"mu": 0.1, "sigma": 1.0}),
            Alternative("exponential", 3.5, 2.2, 0.03, "power law", {"rate": 0.5}),
        ),
        "metrics": METRICS,
        "slices": (SliceFit(0, 10, 2.5, 1 / 3, 0.07, 9, 9.0),),
        "eigenvalues": np.array([0.25, 1 / 3, np.pi, 9.0]),
    }
    return LayerGrade(**{**values, **changes})


def zero(name: str = "dead") -> LayerGrade:
    return LayerGrade(
        name,
        "Conv2d",
        (4, 4, 3, 3),
        144,
        4,
        4,
        9,
        36,
        Status.ZERO,
        Verdict(VerdictKind.CANNOT_BE_FITTED, "zero: all weights are zero"),
        "all weights are zero",
    )


def grades(*layers: LayerGrade) -> Grades:
    return Grades(
        "net",
        {"conv": "pooled", "base": None, "fold": False},
        layers,
        (Measure("alpha", 2.5, 1, "mean of α over layers"), Measure("spikes", None, 0, "none")),
        Coverage(len(layers), 1, 400, 200, (Omitted("dead", 144, "zero"), Omitted("fc.bias", 56, "bias"))),
        ("a note",),
    )


def test_every_layer_has_the_same_columns_in_the_same_order():
    assert list(fitted().row()) == list(zero().row()) == list(fitted(slice=3, goodness=None, metrics=None).row())


def test_a_row_holds_only_plain_finite_values():
    for layer in (fitted(), zero()):
        json.dumps(layer.row(), allow_nan=False)
        assert all(value is None or isinstance(value, str | int | float) for value in layer.row().values())


def test_a_row_has_each_number_under_its_name():
    row = fitted(slice=4, tied_with=("head", "tail"), notes=("one", "two")).row()
    expected = {
        "name": "fc",
        "slice": 4,
        "kind": "Linear",
        "status": "fitted",
        "N": 20,
        "M": 10,
        "matrices": 1,
        "evals": 10,
        "parameters": 200,
        "alpha": 2.5,
        "alpha_low": 2.1,
        "alpha_high": 3.3,
        "xmin": 1 / 3,
        "D": 0.07,
        "sigma": 0.1 + 0.2,
        "tail": 9,
        "p_fit": 0.42,
        "ratio_lognormal": -0.7,
        "p_lognormal": 0.48,
        "ratio_exponential": 2.2,
        "p_exponential": 0.03,
        "ratio_truncated_power_law": None,
        "verdict": "well trained",
        "because": "α = 2.50",
        "reason": None,
        "tied_with": "head, tail",
        "notes": "one; two",
        **METRICS.to_dict(),
    }
    assert {key: row[key] for key in expected} == expected
    absent = {"spikes", "soft_rank", "noise_threshold", "twin_distance", "traps", "alpha_fixed_aspect", "universality"}
    assert all(row[key] is None for key in absent)


def test_a_layer_without_a_fit_has_no_number_but_its_sizes():
    row = zero().row()
    numbers = {key for key, value in row.items() if isinstance(value, int | float)}
    assert numbers == {"N", "M", "matrices", "evals", "parameters"}
    assert not zero().fitted
    assert (zero().alpha, zero().alpha_low, zero().alpha_high) == (None, None, None)
    assert zero().eigenvalues.size == 0


def test_default_eigenvalues_are_not_shared():
    assert zero().eigenvalues is not zero().eigenvalues


def test_json_gives_back_every_bit():
    made = grades(fitted(), zero(), fitted("other", fit=PowerLaw(3.0, 0.2, 0.1, 0.05, 9, 10, SmallestDistance())))
    again = Grades.from_json(made.to_json())
    assert again == made
    assert again.to_json() == made.to_json()
    assert again.layers[0].eigenvalues.tobytes() == made.layers[0].eigenvalues.tobytes()
    assert again.layers[0].fit.cut == Hill(0.9)
    assert again.layers[2].fit.cut == SmallestDistance()
    assert again.layers[0].status is Status.FITTED
    assert again.layers[1].verdict.kind is VerdictKind.CANNOT_BE_FITTED


def test_layers_and_measures_are_found_by_name():
    made = grades(fitted("a", slice=0), fitted("a", slice=1), zero("b"))
    assert made["a"].slice == 0
    assert made["b"].status is Status.ZERO
    assert made.measure("alpha").value == 2.5
    assert made.summary == {"alpha": 2.5, "spikes": None}
    with pytest.raises(UnknownName, match="did you mean 'alpha'"):
        made.measure("alpa")
    with pytest.raises(UnknownName, match="unknown layer 'c'"):
        made["c"]


def test_verdicts_are_counted():
    made = grades(fitted("a"), fitted("b"), zero("c"))
    assert made.verdicts() == {VerdictKind.CANNOT_BE_FITTED: 1, VerdictKind.WELL_TRAINED: 2}
    assert grades().verdicts() == {}


def test_the_table_is_json_and_has_what_is_promised():
    made = grades(fitted(), zero())
    table = json.loads(json.dumps(made.to_table(), allow_nan=False))
    assert {"layers", "summary", "coverage"} <= set(table)
    assert [row["name"] for row in table["layers"]] == ["fc", "dead"]
    assert table["summary"] == made.summary
    assert table["meaning"]["alpha"] == "mean of α over layers"
    assert table["coverage"]["line"] == made.coverage.line
    assert table["coverage"]["left_out"][0] == {"name": "dead", "parameters": 144, "reason": "zero"}


def test_the_coverage_line():
    assert Coverage(22, 17, 272_474, 252_464).line == (
        "17 of 22 layers fitted, with 252,464 of 272,474 parameters (92.66 %)"
    )
    assert Coverage(0, 0, 0, 0).line == "0 of 0 layers fitted, with 0 of 0 parameters"


def test_every_status_and_verdict_has_a_word_of_its_own():
    for kinds in (Status, VerdictKind):
        assert len({member.value for member in kinds}) == len(kinds)


def test_words_lean_where_there_is_no_hard_verdict():
    torch.manual_seed(0)
    (found,) = grade({"w.weight": torch.randn(40, 30)}, evidence="fast").layers
    shares = ClassShares(0.0, 0.19, 0.81)
    leaning = dataclasses.replace(found, verdict=Verdict(VerdictKind.CANNOT_SAY, "by hand"), shares=shares)
    assert leaning.words == "leans weakly trained (81 %)"
    assert leaning.row()["words"] == leaning.words
    assert leaning.row()["share_weakly_trained"] == 0.81
    assert dataclasses.replace(leaning, verdict=Verdict(VerdictKind.WEAKLY_TRAINED, "")).words == "weakly trained"
    rejected = dataclasses.replace(leaning, goodness=Goodness(0.01, 99, True))
    assert rejected.words == "cannot say (power law rejected)"


def test_an_interval_that_may_be_too_narrow_says_why():
    torch.manual_seed(0)
    (found,) = grade({"w.weight": torch.randn(400, 300)}, evidence="fast").layers

    def reason(tail: int, spikes: int) -> str | None:
        fit, bulk = dataclasses.replace(found.fit, tail=tail), dataclasses.replace(found.bulk, spikes=spikes)
        return dataclasses.replace(found, fit=fit, bulk=bulk, verdict=Verdict(VerdictKind.CANNOT_SAY, "by hand")).narrow

    assert reason(42, 20) == "of 42 eigenvalues in the tail only 20 are beyond what noise reaches"
    assert reason(42, 21) is None
    assert reason(20, 20) == "the tail has 20 of 300 eigenvalues"
    assert reason(21, 21) is None
    assert dataclasses.replace(found, interval=None).narrow is None
    assert found.row()["interval_may_be_narrow"] == found.narrow


def test_the_name_of_a_verdict_in_files_of_version_0_1_is_read():
    written = Verdict(VerdictKind.NO_HEAVY_TAIL, "").to_dict()
    assert written["kind"] == "looks like noise"
    assert Verdict.from_dict(written | {"kind": "no heavy tail"}).kind is VerdictKind.NO_HEAVY_TAIL
    with pytest.raises(ValueError, match="looks like noise"):
        Verdict.from_dict(written | {"kind": "another"})


def test_records_without_shares_are_read():
    torch.manual_seed(0)
    found = grade({"w.weight": torch.randn(40, 30)}, evidence="fast")
    written = found.to_dict()
    for layer in written["layers"]:
        del layer["shares"]
    old = Grades.from_dict(written)
    assert old.layers[0].shares is None
    assert dataclasses.replace(old.layers[0], shares=found.layers[0].shares) == found.layers[0]
