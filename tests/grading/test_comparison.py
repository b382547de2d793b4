from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.statistics import rank_correlation
from weightsmith.grading.comparison import GradeComparison, compare
from weightsmith.grading.results import Coverage, Grades, Measure

ERRORS = [8.27, 7.37, 6.90, 6.61]
ACCURACY = [100 - error for error in ERRORS]
HAT = [128.9, 72.8, -45.2, -158.2]


def grades(source: str = "a", parameters: int = 10, fitted: int = 2, **values: float | None) -> Grades:
    """What a network could have been graded as; names of norms are baselines."""
    measures = tuple(Measure(name, value, 2, f"what {name} is", "norm" in name) for name, value in values.items())
    return Grades(source, {"conv": "pooled"}, (), measures, Coverage(2, fitted, parameters, 9))


def several(sizes: list[int] | None = None, **columns: list[float | None]) -> list[Grades]:
    count = len(next(iter(columns.values())))
    sizes = sizes or [10] * count
    return [
        grades(f"n{place}", sizes[place], **{name: values[place] for name, values in columns.items()})
        for place in range(count)
    ]


def test_a_table_without_accuracies_keeps_the_order_of_measures():
    made = compare(several(alpha=[4.0, 3.0], alpha_hat=[1.0, None], log_norm=[2.0, 2.5], sizes=[10, 20]))
    assert made.names == ("n0", "n1")
    assert [measure.name for measure in made.measures] == ["alpha", "alpha_hat", "log_norm", "parameters", "layers"]
    assert made.measure("alpha_hat").values == (1.0, None)
    assert made.measure("parameters").values == (10, 20)
    assert [measure.baseline for measure in made.measures] == [False, False, True, True, True]
    assert (made.accuracy, made.sentence, made.measure("alpha").kendall) == (None, None, None)
    assert made.rows()[1] == {
        "measure": "alpha_hat",
        "baseline": False,
        "n0": 1.0,
        "n1": None,
        "meaning": "what alpha_hat is",
    }
    assert GradeComparison.from_json(made.to_json()) == made


def test_the_series_of_the_seed():
    """Errors and the eq. 3 sums of ResNet-20, 32, 44, 56: τ between α-hat and error is 1, p = 2/4!."""
    made = compare(
        several(alpha_hat=HAT, alpha=[4.18, 4.82, 4.55, 4.58], log_norm=[2.0, 1.83, 1.69, 1.59], sizes=[1, 2, 3, 4]),
        accuracy=ACCURACY,
    )
    hat = made.measure("alpha_hat")
    assert (hat.kendall.value, hat.spearman.value) == (-1, -1)
    assert hat.kendall.p == hat.spearman.p == pytest.approx(2 / 24)
    assert (hat.right, hat.pairs) == (6, 6)
    assert made.measure("alpha").kendall.value == pytest.approx(1 / 3)
    assert made.measure("alpha").right == 2
    assert [measure.name for measure in made.measures][-2:] == ["alpha", "layers"]
    assert made.measure("layers").reason == "all values are equal"
    assert made.sentence == (
        "The best α-hat orders the networks no better than a plain norm, which needs no fit "
        "(alpha_hat: τ = -1.00, p = 0.083, n = 4; log_norm: τ = -1.00, p = 0.083, n = 4). "
        "The number of parameters alone does as well (τ = +1.00). "
        "4 measures were tried: the smallest p, 0.083, is 0.33 after Bonferroni's correction. "
        "With 4 networks no order whatever can reach p < 0.05."
    )


def test_sorted_by_strength_whatever_the_sign():
    made = compare(several(weak=[1, 2, 4, 3, 5], wrong=[5, 4, 3, 2, 1], none=[3, 1, 2, 5, 4]), [1, 2, 3, 4, 5])
    taus = [abs(measure.kendall.value) for measure in made.measures if measure.kendall]
    assert taus == sorted(taus, reverse=True)
    assert made.measures[0].name == "wrong"
    row = made.rows()[1]
    expected = rank_correlation([1, 2, 4, 3, 5], [1, 2, 3, 4, 5])
    assert (row["measure"], row["kendall"], row["p_kendall"], row["networks"]) == (
        "weak",
        expected.value,
        expected.p,
        5,
    )


def words(hat: list[float], norm: list[float], accuracy: list[float], **more: Any) -> str:
    return compare(several(alpha_hat=hat, log_norm=norm, **more), accuracy).sentence


def test_what_is_said_of_alpha_hat():
    order = [1, 2, 3, 4, 5]
    down = [5, 4, 3, 2, 1]
    swapped = [5, 4, 3, 1, 2]
    assert words(down, swapped, order).startswith(
        "The best α-hat orders the networks better than the best plain norm, by 1 of 10 pairs (alpha_hat: τ = -1.00"
    )
    assert words(swapped, down, order).startswith("The best α-hat orders the networks worse than a plain norm")
    assert words(down, down, order).startswith("The best α-hat orders the networks no better than a plain norm")
    assert words(order, down, order).startswith("The best α-hat does not order the networks as claimed")


def test_the_printed_variant_is_told_when_another_is_better():
    made = compare(
        several(alpha_hat=[5, 4, 3, 1, 2], alpha_hat_mean=[5, 4, 3, 2, 1], log_norm=[1, 2, 3, 4, 5]), range(5)
    )
    assert "(alpha_hat_mean: τ = -1.00" in made.sentence
    assert "α-hat as eq. 3 prints it has alpha_hat: τ = -0.80" in made.sentence


def test_many_measures_are_corrected_for():
    columns = {f"m{i}": [float((i * j * 7) % 5 + j / 10) for j in range(5)] for i in range(1, 8)}
    sentence = words([5, 4, 3, 2, 1], [1, 3, 2, 5, 4], [1, 2, 3, 4, 5], **columns)
    p = 2 / math.factorial(5)
    assert f"9 measures were tried: the smallest p, {p:.2g}, is {9 * p:.2g} after Bonferroni's correction." in sentence
    assert "No measure is significant once that is counted." in sentence
    seven = list(range(7))
    assert "significant" not in words(seven[::-1], seven[::-1], seven)


def test_missing_values_and_ties_are_left_out_with_the_reason():
    made = compare(
        several(alpha_hat=[None, None, 1.0], log_norm=[3.0, None, 1.0], flat=[2.0, 2.0, 2.0]), accuracy=[90, 91, 92]
    )
    assert made.measure("alpha_hat").reason == "1 of 3 networks have a value"
    assert made.measure("log_norm").kendall.n == 2
    assert made.measure("flat").reason == "all values are equal"
    assert made.sentence == "No correlation of α-hat and of norms could be computed over 3 networks."
    equal = compare(several(alpha_hat=[1.0, 2.0], log_norm=[1.0, 2.0]), accuracy=[90, 90])
    assert equal.measure("log_norm").reason == "all accuracies are equal"


def test_equal_accuracies_are_no_pair():
    made = compare(several(log_norm=[3.0, 2.0, 1.0]), accuracy=[90, 90, 92])
    assert (made.measure("log_norm").right, made.measure("log_norm").pairs) == (2, 2)


def test_notes_say_what_does_not_compare():
    first, second = grades("a", alpha=1.0), grades("b", fitted=1, alpha=1.0)
    other = Grades("c", {"conv": "slices"}, (), (), Coverage(2, 2, 10, 9))
    assert compare([first, second, other]).notes == (
        "graded with different settings: conv = pooled, slices",
        "b: 1 of 2 layers have no fit and are in no measure",
    )
    assert compare([first]).coverage == ("2 of 2 layers fitted, with 9 of 10 parameters (90.00 %)",)


def test_names():
    assert compare([grades("x"), grades("x"), grades("y")]).names == ("x (1)", "x (2)", "y")
    assert compare([grades("x"), grades("x")], names=["dense", "tuned"]).names == ("dense", "tuned")
    with pytest.raises(UnknownName, match="unknown measure 'alfa'"):
        compare([grades(alpha=1.0)]).measure("alfa")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: compare([]), UsageError, "there is no network to compare"),
        (lambda: compare([grades()], [1, 2]), DataMismatch, "2 accuracies for 1 networks"),
        (lambda: compare([grades()], names=["a", "b"]), DataMismatch, "2 names for 1 networks"),
        (lambda: compare([grades()], [math.nan]), UsageError, r"accuracy\[0\] is nan: must be a finite number"),
        (lambda: compare([grades()], conv="slices"), UsageError, "conv: these networks are graded already"),
    ],
)
def test_wrong_calls_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_networks_are_graded_with_the_options():
    generator = torch.Generator().manual_seed(0)
    networks = [{"fc.weight": torch.randn(40, 30, generator=generator) * scale} for scale in (1, 2, 4)]
    made = compare(networks, accuracy=[3, 2, 1], names=["a", "b", "c"], evidence="none")
    norm = made.measure("log_norm")
    assert norm.kendall.value == -1
    total = sum(float(value) ** 2 for value in networks[0]["fc.weight"].flatten())
    assert norm.values[0] == pytest.approx(math.log10(total), rel=1e-6)
    assert made.measure("alpha").values[0] is not None


@pytest.mark.data
def test_the_series_of_the_seed_from_its_files(shared_data):
    """The eq. 3 sums over kernel positions without 1/N; plain norms and mere depth order the series as well."""
    files = [shared_data / "weights" / f"akamaster_resnet{depth}.safetensors" for depth in (20, 32, 44, 56)]
    made = compare(files, ACCURACY, evidence="none")
    assert made.measure("alpha_hat_raw").values == pytest.approx(HAT, abs=0.06)
    for name in ("alpha_hat", "alpha_hat_raw", "log_norm", "log_spectral_norm"):
        assert made.measure(name).kendall.value == -1, name
    assert made.measure("layers").kendall.value == 1
    assert made.sentence.startswith(
        "The best α-hat orders the networks no better than a plain norm, which needs no fit"
    )
