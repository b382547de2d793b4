from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.statistics import rank_correlation
from weightsmith.grading.comparison import Contest, GradeComparison, compare
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Coverage, Grades, Measure

ERRORS = [8.27, 7.37, 6.90, 6.61]
ACCURACY = [100 - error for error in ERRORS]
HAT = [128.9, 72.8, -45.2, -158.2]


def grades(source: str = "a", parameters: int = 10, fitted: int = 2, **values: float | None) -> Grades:
    """What a network could have been graded as; names of norms are baselines."""
    measures = tuple(
        Measure(name, value, 2, f"what {name} is", "norm" in name or "lambda" in name) for name, value in values.items()
    )
    return Grades(source, {"conv": "pooled"}, (), measures, Coverage(2, fitted, parameters, 9))


def several(sizes: list[int] | None = None, **columns: list[float | None]) -> list[Grades]:
    count = len(next(iter(columns.values())))
    sizes = sizes or [10] * count
    return [
        grades(f"n{index}", sizes[index], **{name: values[index] for name, values in columns.items()})
        for index in range(count)
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


def test_whether_alpha_tells_more_than_the_norms_is_asked_over_networks():
    """Accuracy made of the norm alone: α-hat, which follows the norm, orders well and tells nothing more."""
    rng = np.random.default_rng(0)
    norm = rng.standard_normal(24)
    accuracy = (-norm + 0.4 * rng.standard_normal(24)).tolist()
    hat = (norm + 0.4 * rng.standard_normal(24)).tolist()
    made = compare(several(alpha_hat=hat, lambda_hat=norm.tolist()), accuracy)
    (found,) = made.partials
    assert (found.measure, found.given, found.networks) == ("alpha_hat", ("lambda_hat",), 24)  # all of one depth
    assert found.plain < -0.6
    assert not found.tells
    assert GradeComparison.from_json(made.to_json()) == made
    few = compare(several(alpha_hat=hat[:4], lambda_hat=norm[:4].tolist()), accuracy[:4])
    assert few.partials[0].reason == "4 networks are too few for 1 control, 5 are needed"
    assert compare(several(alpha_hat=[1.0, 2.0], lambda_hat=[1.0, 1.0]), [1, 2]).partials == ()


def test_the_series_of_the_seed():
    """Errors and the eq. 3 sums of ResNet-20, 32, 44, 56: τ between α-hat and error is 1, p = 2/4!."""
    made = compare(
        several(alpha_hat=HAT, alpha=[4.18, 4.82, 4.55, 4.58], lambda_hat=[45, 23, -16, -65], sizes=[1, 2, 3, 4]),
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
        "Only pairs fixed beforehand are compared, each a measure with α and one without: alpha_hat with lambda_hat. "
        "alpha_hat orders the networks no better than lambda_hat: right in 6 against 6 of 6 pairs "
        "(alpha_hat: τ = -1.00, p = 0.083, n = 4; lambda_hat: τ = -1.00, p = 0.083, n = 4). "
        "The number of parameters alone does as well (τ = +1.00). "
        "4 measures were tried: the smallest p, 0.083, is 0.33 after Bonferroni's correction. "
        "With 4 networks no order can reach p < 0.05."
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


def words(hat: list[float], plain: list[float], accuracy: list[float], **more: Any) -> str:
    return compare(several(alpha_hat=hat, lambda_hat=plain, **more), accuracy).sentence


def test_what_is_said_of_alpha_hat():
    order = [1, 2, 3, 4, 5]
    down = [5, 4, 3, 2, 1]
    swapped = [5, 4, 3, 1, 2]
    assert "alpha_hat orders the networks better than lambda_hat: right in 10 against 9 of 10 pairs (" in words(
        down, swapped, order
    )
    assert "alpha_hat orders the networks worse than lambda_hat: right in 9 against 10" in words(swapped, down, order)
    assert "alpha_hat orders the networks no better than lambda_hat: right in 10" in words(down, down, order)
    assert "not as claimed: smaller values are not better." in words(order, down, order)
    assert "not as claimed" not in words(down, order, order)


def test_only_the_pairs_that_are_fixed_are_compared():
    """An α-hat that happens to be better, and a norm that does, change nothing."""
    made = compare(
        several(
            alpha_hat=[5, 4, 3, 1, 2],
            alpha_hat_mean=[5, 4, 3, 2, 1],
            lambda_hat=[4, 5, 3, 1, 2],
            alpha_weighted=[1, 2, 3, 4, 5],
            log_spectral_norm=[5, 1, 2, 3, 4],
            log_norm=[5, 4, 3, 2, 1],
        ),
        range(5),
    )
    assert made.contests == (
        Contest("alpha_hat", "lambda_hat", 5, 10, 9.0, 8.0),
        Contest("alpha_weighted", "log_spectral_norm", 5, 10, 0.0, 4.0),
    )
    assert [contest.outcome for contest in made.contests] == ["better", "worse"]
    assert "alpha_hat_mean" not in made.sentence
    assert "log_norm" not in made.sentence
    assert GradeComparison.from_json(made.to_json()) == made


def test_without_the_sum_that_has_no_alpha_the_mean_stands_in():
    made = compare(several(alpha_hat=[3, 2, 1], log_spectral_norm=[1, 2, 3]), range(3))
    assert made.contests == (Contest("alpha_hat", "log_spectral_norm", 3, 3, 3.0, 0.0),)


def test_a_contest_is_over_networks_that_have_both_values_and_ties_count_half():
    made = compare(several(alpha_hat=[None, 4.0, 4.0, 1.0], lambda_hat=[9.0, 4.0, 3.0, 3.5]), [4, 1, 2, 3])
    assert made.contests == (Contest("alpha_hat", "lambda_hat", 3, 3, 2.5, 2.0),)
    assert "right in 2.5 against 2 of 3 pairs" in made.sentence


def test_over_all_orders_of_accuracies_better_is_exactly_as_frequent_as_worse():
    """Reversing the accuracies exchanges the two, whatever the values: by chance no side is favoured."""
    networks = several(
        alpha_hat=[5.0, 1.0, 4.0, 2.0, 3.0],
        lambda_hat=[2.0, 2.0, 1.0, 4.0, 3.0],
        alpha_weighted=[1.0, 2.0, 5.0, 3.0, 4.0],
        log_spectral_norm=[5.0, 3.0, 1.0, 4.0, 2.0],
    )
    outcomes = Counter(
        (contest.measure, contest.outcome)
        for order in itertools.permutations(range(5))
        for contest in compare(networks, order).contests
    )
    for name in ("alpha_hat", "alpha_weighted"):
        assert outcomes[name, "better"] == outcomes[name, "worse"] > 20


@pytest.mark.slow
@pytest.mark.data
def test_real_networks_with_random_accuracies_favour_neither_side(shared_data):
    """The best of nine α-hats won twice as often as it lost against the best of four norms; fixed pairs do not."""
    files = sorted((shared_data / "weights").glob("*resnet*.safetensors"))
    graded = [grade(file, evidence="none") for file in files]
    rng = np.random.default_rng(0)
    outcomes: Counter[tuple[str, str]] = Counter()
    for _ in range(200):
        chosen = rng.choice(len(graded), 6, replace=False)
        found = compare([graded[index] for index in chosen], rng.permutation(6).tolist())
        outcomes.update((contest.measure, contest.outcome) for contest in found.contests)
    for name in ("alpha_hat", "alpha_weighted"):
        better, worse = outcomes[name, "better"], outcomes[name, "worse"]
        assert better + worse > 50
        assert abs(better - worse) < 3 * math.sqrt(better + worse)


def test_many_measures_are_corrected_for():
    columns = {f"m{i}": [float((i * j * 7) % 5 + j / 10) for j in range(5)] for i in range(1, 8)}
    sentence = words([5, 4, 3, 2, 1], [1, 3, 2, 5, 4], [1, 2, 3, 4, 5], **columns)
    p = 2 / math.factorial(5)
    assert f"9 measures were tried: the smallest p, {p:.2g}, is {9 * p:.2g} after Bonferroni's correction." in sentence
    assert "No measure is significant after this correction." in sentence
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
    settings = {"conv": "slices", "layers": "fc*", "base": "old.pt"}
    other = Grades("c", settings, (), (), Coverage(2, 2, 10, 9))
    assert compare([first, second, other]).notes == (
        "graded with different settings: conv = pooled, slices",
        "graded with different settings: layers = all, fc*",
        "graded with different settings: base = None, old.pt",
        "b: 1 of 2 layers have no fit and are left out of measures that need one",
    )
    assert compare([first]).coverage == ("2 of 2 layers fitted, with 9 of 10 parameters (90.00 %)",)


@pytest.mark.parametrize(
    ("key", "values"), [("conv", ("pooled", "slices")), ("normalise", ("none", "seed")), ("cut", ("ks", "erg"))]
)
def test_numbers_that_mean_different_things_order_nothing(key, values):
    both = [Grades(value, {key: value}, (), (), Coverage(2, 2, 10, 9)) for value in values]
    assert compare(both).notes == (f"graded with different settings: {key} = {', '.join(values)}",)
    with pytest.raises(DataMismatch, match=f"graded with {key} = {' and '.join(values)}: these grades are"):
        compare(both, [1, 2])


def test_other_layers_are_noted_and_still_ordered():
    both = [Grades(name, {"layers": name}, (), (), Coverage(2, 2, 10, 9)) for name in ("a*", "b*")]
    assert compare(both, [1, 2]).notes == ("graded with different settings: layers = a*, b*",)


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
    assert [contest.outcome for contest in made.contests] == ["no better", "no better"]
    assert "alpha_hat orders the networks no better than lambda_hat: right in 6 against 6 of 6 pairs" in made.sentence
