"""Numbers for a whole network, each recomputed by hand from layers made by hand."""

from __future__ import annotations

import math
import statistics

import pytest

from weightsmith.grading.fits.cuts import SmallestDistance
from weightsmith.grading.fits.powerlaw import PowerLaw, SliceFit
from weightsmith.grading.measures import measure_network
from weightsmith.grading.metrics import LayerMetrics
from weightsmith.grading.random_matrix.noise import Bulk
from weightsmith.grading.results import LayerGrade, Measure, Status, Verdict, VerdictKind

log = math.log10


def layer(
    name: str,
    alpha: float,
    largest: float,
    *,
    N: int = 100,
    factor: float = 1.0,
    slices: tuple[tuple[float, float], ...] | None = None,
    norm: float = 50.0,
    slice_: int | None = None,
    log_stable_rank: float | None = 1.5,
    **evidence: object,
) -> LayerGrade:
    """A fitted layer; ``largest`` is an eigenvalue of WᵀW, ``slices`` pairs of α and λ_max."""
    pairs = ((alpha, largest),) if slices is None else slices
    scaled = largest * factor
    return LayerGrade(
        name,
        "Conv2d",
        (N, 10),
        N * 10,
        N,
        10,
        max(len(pairs), 1),
        10,
        Status.FITTED,
        Verdict(VerdictKind.NOT_JUDGED, ""),
        slice=slice_,
        factor=factor,
        fit=PowerLaw(alpha, 0.1, 1.0, 0.05, 5, 10, SmallestDistance()),
        metrics=LayerMetrics(
            lambda_max=scaled,
            lambda_smallest=0.1,
            norm=norm * factor,
            log_norm=log(norm * factor),
            log_spectral_norm=log(scaled),
            stable_rank=norm / largest,
            log_stable_rank=log_stable_rank,
            rank=9,
            rank_loss=1,
            weak_rank_loss=2,
            entropy=0.9,
            sv_max=math.sqrt(scaled),
            sv_min=0.3,
            Q=2.0,
            alpha_weighted=alpha * log(scaled),
            log_alpha_norm=alpha + 1,
        ),
        slices=tuple(SliceFit(i, 10, a, 1.0, 0.1, 5, top) for i, (a, top) in enumerate(pairs)),
        **evidence,
    )


def dead(name: str) -> LayerGrade:
    return LayerGrade(
        name, "Linear", (9, 9), 81, 9, 9, 1, 9, Status.ZERO, Verdict(VerdictKind.CANNOT_BE_FITTED, ""), "zero"
    )


CONV = layer("conv", 3.0, 8.0, N=16, factor=0.5, slices=((2.5, 6.0), (4.0, 8.0), (2.0, 0.5)), norm=30.0)
DENSE = layer("fc", 5.0, 20.0, N=64, norm=100.0)


def values(*layers: LayerGrade) -> dict[str, float | None]:
    return {measure.name: measure.value for measure in measure_network(layers)}


def test_all_variants_of_alpha_hat_by_hand():
    found = values(CONV, DENSE)
    terms = [(2.5, 6.0, 16), (4.0, 8.0, 16), (2.0, 0.5, 16), (5.0, 20.0, 64)]
    printed = [a * log(top / n) for a, top, n in terms]
    raw = [a * log(top) for a, top, _ in terms]
    pooled = [3.0 * log(8.0 / 16), 5.0 * log(20.0 / 64)]
    pooled_raw = [3.0 * log(8.0), 5.0 * log(20.0)]
    expected = {
        "alpha_hat": sum(printed),
        "alpha_hat_mean": sum(printed) / 4,
        "alpha_hat_raw": sum(raw),
        "alpha_hat_mean_raw": sum(raw) / 4,
        "alpha_hat_pooled": sum(pooled),
        "alpha_hat_pooled_mean": sum(pooled) / 2,
        "alpha_hat_pooled_raw": sum(pooled_raw),
        "alpha_hat_pooled_mean_raw": sum(pooled_raw) / 2,
        "alpha_weighted": (3.0 * log(4.0) + 5.0 * log(20.0)) / 2,  # the convolution's eigenvalues halved
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_means_norms_and_products_by_hand():
    found = values(CONV, DENSE)
    expected = {
        "alpha": 4.0,
        "alpha_median": 4.0,
        "alpha_in_range": 1.0,
        "log_alpha_norm": (4.0 + 6.0) / 2,
        "stable_rank": (30 / 8 + 5) / 2,
        "log_stable_rank": 1.5,
        "entropy": 0.9,
        "rank_loss": 2.0,
        "log_norm": (log(15) + log(100)) / 2,
        "log_spectral_norm": (log(4) + log(20)) / 2,
        # eq. 5 is about the weights themselves, whatever the table of layers multiplies eigenvalues by
        "log_product_norm": log(math.sqrt(30) * 10),
        "log_product_spectral_norm": log(math.sqrt(8) * math.sqrt(20)),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_the_same_network_without_any_scale_factor_has_the_same_alpha_hats():
    """What is printed in the table of layers is scaled; eq. 3 is not."""
    unscaled = layer("conv", 3.0, 8.0, N=16, slices=((2.5, 6.0), (4.0, 8.0), (2.0, 0.5)), norm=30.0)
    scaled, plain = values(CONV, DENSE), values(unscaled, DENSE)
    for name in scaled:
        if name.startswith("alpha_hat"):
            assert scaled[name] == pytest.approx(plain[name], rel=1e-12)
    assert scaled["alpha_weighted"] != pytest.approx(plain["alpha_weighted"])


def test_the_median_and_the_share_in_range():
    layers = [layer(f"l{a}", a, 3.0) for a in (1.9, 2.0, 3.0, 5.0, 6.1, 60.0)]
    found = values(*layers)
    assert found["alpha_in_range"] == 0.5
    assert found["alpha_median"] == 4.0
    assert found["alpha"] == pytest.approx(statistics.fmean((1.9, 2.0, 3.0, 5.0, 6.1, 60.0)))


def test_layers_without_a_fit_change_nothing():
    alone, among = measure_network([CONV, DENSE]), measure_network([dead("a"), CONV, dead("b"), DENSE, dead("c")])
    assert among == alone


def test_without_any_fit_nothing_has_a_value():
    for layers in ([], [dead("a")]):
        for measure in measure_network(layers):
            assert measure.value is None, measure.name
            assert measure.layers == 0, measure.name


def test_each_measure_says_over_how_many_layers():
    third = layer("narrow", 4.0, 2.0, slices=(), log_stable_rank=None)  # no slice has enough eigenvalues
    found = {measure.name: measure for measure in measure_network([CONV, DENSE, third])}
    assert found["alpha"].layers == 3
    assert found["alpha_hat"].layers == found["alpha_hat_raw"].layers == 2
    assert found["alpha_hat_pooled"].layers == 3
    assert found["log_stable_rank"].layers == 2
    assert found["log_stable_rank"].value == 1.5


def test_with_slices_as_rows_there_is_no_pooled_alpha_hat():
    parts = [layer("conv", a, top, N=16, slice_=i) for i, (a, top) in enumerate([(2.5, 6.0), (4.0, 8.0)])]
    found = values(*parts, DENSE)
    assert not any("pooled" in name for name in found)
    assert found["alpha_hat_raw"] == pytest.approx(2.5 * log(6) + 4 * log(8) + 5 * log(20))


def test_evidence_is_summed_where_there_is_any():
    def bulk(spikes: int, soft_rank: float) -> Bulk:
        return Bulk(
            sigma=1.0,
            low=0.1,
            high=2.0,
            threshold=2.2,
            level=0.01,
            spikes=spikes,
            soft_rank=soft_rank,
            spike_alpha=None,
        )

    layers = [layer("a", 3.0, 4.0, bulk=bulk(3, 0.5)), layer("b", 3.0, 4.0, bulk=bulk(4, 0.25)), DENSE]
    found = {measure.name: measure for measure in measure_network(layers)}
    assert (found["spikes"].value, found["spikes"].layers) == (7, 2)
    assert (found["soft_rank"].value, found["soft_rank"].layers) == (0.375, 2)
    assert "spikes" not in values(CONV, DENSE)


def test_every_measure_has_a_name_of_its_own_and_says_what_is_in_it():
    found = measure_network([CONV, DENSE])
    assert len({measure.name for measure in found}) == len(found)
    assert len({measure.meaning for measure in found}) == len(found)
    for measure in found:
        assert measure.meaning
        assert Measure.from_json(measure.to_json()) == measure
        if "alpha_hat" in measure.name:
            assert "log10" in measure.meaning
            assert ("sum" in measure.meaning) != ("mean" in measure.meaning)
            assert ("mean" in measure.meaning) == ("mean" in measure.name)
            assert ("no 1/N" in measure.meaning) == measure.name.endswith("raw")


def test_baselines_are_marked_and_need_no_fit():
    marked = {measure.name for measure in measure_network([CONV, DENSE]) if measure.baseline}
    assert {"log_norm", "log_spectral_norm", "log_product_norm", "log_product_spectral_norm"} <= marked
    assert not any("alpha" in name for name in marked)
