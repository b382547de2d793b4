"""The order of networks: probabilities against simulation, directions for all measures, warnings for the ruined."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from weightsmith.core.statistics import Interval
from weightsmith.grading.comparison import GradeComparison, compare
from weightsmith.grading.grade import grade
from weightsmith.grading.ranking import DIRECTIONS, RankedPair, Ranking, rank_networks
from weightsmith.grading.results import Grades


def weights(seed: int, scale: float = 1.0, layers: int = 3) -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    found = {}
    for number in range(layers):
        signal = torch.randn(60, 6, generator=draws) @ torch.randn(6, 50, generator=draws)
        found[f"l{number}.weight"] = scale * (torch.randn(60, 50, generator=draws) + 0.5 * signal)
    return found


def graded(seed: int, scale: float = 1.0) -> Grades:
    return grade(weights(seed, scale))


def test_every_measure_has_a_direction():
    full = grade(weights(0), evidence="full:resamples=50,draws=50")
    assert {measure.name for measure in full.measures} <= set(DIRECTIONS)
    assert set(DIRECTIONS.values()) == {"smaller", "larger"}
    table = compare([graded(0), graded(1)]).measures
    assert {row.name for row in table if row.better is None} == {"parameters", "layers"}


def test_networks_come_in_the_order_of_the_measure():
    several = [graded(0, 3.0), graded(1, 1.0), graded(2, 2.0)]
    found = rank_networks(several, "abc")
    values = dict(zip("abc", (grades.measure("alpha_weighted").value for grades in several), strict=True))
    assert list(found.names) == sorted("abc", key=values.get) == ["b", "c", "a"]
    assert [(pair.first, pair.second) for pair in found.pairs] == [("b", "c"), ("c", "a")]
    assert "log_spectral_norm (smaller)" in found.agree
    assert found.lines[0].startswith("Best by alpha_weighted: b")
    claimed = "(smaller is claimed to be better; in brackets, how sure this order is)"
    assert found.lines[1].startswith(f"Order by alpha_weighted {claimed}: b before (")
    assert not found.warnings


def test_a_probability_is_that_of_intervals_drawn_again():
    """ln(α − 1) of every layer normal with the spread of its interval, 20,000 times."""
    several = [graded(0), graded(3)]
    found = rank_networks(several, ["a", "b"])
    rng = np.random.default_rng(0)
    drawn = []
    for grades in several:
        total = np.zeros(20_000)
        for layer in grades.layers:
            spread = math.log((layer.interval.high - 1) / (layer.interval.low - 1)) / (2 * 1.96)
            alphas = layer.alpha + (layer.alpha - 1) * spread * rng.standard_normal(20_000)
            total += alphas * layer.metrics.log_spectral_norm / 3
        drawn.append(total)
    before = np.mean(drawn[0] < drawn[1])
    expected = before if found.names[0] == "a" else 1 - before
    assert found.pairs[0].probability == pytest.approx(expected, abs=0.02)


def test_a_wider_interval_makes_the_order_less_sure():
    first, second = graded(0), graded(3)
    wide = dataclasses.replace(
        second,
        layers=tuple(
            dataclasses.replace(layer, interval=Interval(layer.alpha, 1.05, 60.0, 0.95, "wide"))
            for layer in second.layers
        ),
    )
    plain, doubtful = (rank_networks([first, other], "ab").pairs[0].probability for other in (second, wide))
    assert 0.5 <= doubtful < plain <= 1


def test_without_intervals_there_is_an_order_and_no_probability():
    found = rank_networks([grade(weights(seed), evidence="none") for seed in (0, 1)], "ab")
    assert found.pairs[0].probability is None
    assert not any("%" in line for line in found.lines[:2])
    assert rank_networks([graded(0)], "a") is None


def ruined(kind: str) -> dict[str, torch.Tensor]:
    found = weights(5)
    for name, weight in found.items():
        if kind == "scale":
            found[name] = 10 * weight
        elif kind == "rank":
            found[name] = weight * (torch.arange(50) < 25)
        else:
            found[name] = weight + 2.0 * torch.ones(60, 50)
    return found


@pytest.mark.parametrize(
    ("kind", "words"), [("scale", "largest eigenvalues"), ("rank", "of its rank"), ("spike", "stable rank")]
)
def test_a_ruined_network_does_not_win_in_silence(kind, words):
    several = [graded(0), graded(1), grade(ruined(kind))]
    (warning,) = rank_networks(several, ["a", "b", "ruined"]).warnings
    assert warning.startswith("ruined is out of line")
    assert words in warning


def test_an_untrained_network_does_not_win_in_silence():
    draws = torch.Generator().manual_seed(0)
    untrained = grade({f"l{number}.weight": torch.randn(60, 50, generator=draws) for number in range(3)})
    found = rank_networks([untrained, graded(1)], ["untrained", "trained"])
    noise = [warning for warning in found.warnings if "random weights" in warning]
    assert noise == ["3 of 3 layers of untrained do not differ from random weights: its place has no meaning"]


def test_one_layer_out_of_scale_is_named():
    """One of five layers times thirty leaves every median where it was."""
    damaged = weights(5, layers=5)
    damaged["l2.weight"] = 30 * damaged["l2.weight"]
    several = [grade(weights(seed, layers=5)) for seed in (0, 1)]
    (warning,) = rank_networks([*several, grade(damaged)], ["a", "b", "ruined"]).warnings
    assert warning.startswith("ruined is out of line: the largest eigenvalue of l2 is")


def test_noise_is_not_ranked_where_two_others_are():
    draws = torch.Generator().manual_seed(0)
    untrained = grade({f"l{number}.weight": torch.randn(60, 50, generator=draws) for number in range(3)})
    found = rank_networks([untrained, graded(0, 2.0), graded(1)], ["untrained", "a", "b"])
    assert (found.names, found.unranked) == (("b", "a"), ("untrained",))
    assert any(warning.endswith("it is not ranked") for warning in found.warnings)


def test_networks_whose_dense_layers_hardly_differ_from_noise_and_sizes_apart_are_named():
    draws = torch.Generator().manual_seed(0)
    # One direction is just beyond the noise.
    near = {f"l{n}.weight": torch.randn(100, 80, generator=draws) + 0.22 for n in range(3)}
    large = {name: torch.randn(300, 200, generator=draws) ** 3 for name in near}
    found = rank_networks([grade(near), grade(large)], ["near", "large"])
    assert "the dense layers of near hardly differ from random weights: its place means little" in found.warnings
    assert found.unranked == ()
    assert found.warnings[-1].startswith("the networks have 24,000 to 180,000 parameters")


def test_a_tie_is_neither_agreement_nor_contradiction():
    one = graded(0)
    two = dataclasses.replace(
        graded(1, 2.0),
        measures=tuple(
            dataclasses.replace(row, value=one.measure("alpha_in_range").value) if row.name == "alpha_in_range" else row
            for row in graded(1, 2.0).measures
        ),
    )
    found = rank_networks([one, two], "ab")
    assert not any(name.startswith("alpha_in_range") for name in (*found.agree, *found.differ))


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (0.99, "clearly before b"),
        (0.8, "probably before b"),
        (0.6, "a or b; they hardly differ"),
        (None, "without intervals of α"),
    ],
)
def test_the_best_in_words(probability, words):
    assert words in Ranking("alpha_weighted", ("a", "b"), (RankedPair("a", "b", probability),), (), (), ()).best


def test_the_best_says_how_many_measures_contradict():
    pairs = (RankedPair("a", "b", 0.99),)
    found = Ranking("alpha_weighted", ("a", "b"), pairs, ("log_norm",), ("alpha", "stable_rank"), ())
    assert found.best.endswith("before b; 2 of 3 other measures order the networks differently")


def test_a_ranking_reads_back_and_old_comparisons_have_none():
    found = compare([graded(0), graded(1)])
    assert GradeComparison.from_json(found.to_json()) == found
    old = found.to_dict()
    del old["ranking"]
    for row in old["measures"]:
        del row["better"]
    assert GradeComparison.from_dict(old).ranking is None
    assert isinstance(found.ranking, Ranking)
