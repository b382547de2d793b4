"""The rules for λ_min: properties of every tail, and the choices of other tools on the same numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.grading.fits.cuts import Hill, SmallestDistance, TailCut, UnitDeterminant
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.fits.scan import best_cut

CUTS = [SmallestDistance(), UnitDeterminant(), Hill(), Hill(0.1), Hill(1)]
levels = st.lists(st.integers(1, 6).map(float), min_size=2, max_size=40)
# Six digits, so that values that differ do so by more than a test of the last digits can hide.
numbers = st.lists(st.floats(1e-6, 1e6).map(lambda value: float(f"{value:.6g}")), min_size=2, max_size=80)
spectra = st.one_of(levels, numbers).map(lambda values: np.sort(np.array(values)))


def quantiles(law: str, n: int) -> np.ndarray:
    u = (np.arange(n) + 0.5) / n
    return {"pareto": (1 - u) ** (-1 / 1.5), "squares": (5 * u) ** 2, "exponential": -np.log(1 - u)}[law]


@settings(deadline=None)  # the first call compiles
@given(spectra, st.sampled_from(CUTS))
def test_every_tail_is_all_that_is_not_smaller_and_has_the_stated_fit(values, cut):
    fit = fit_power_law(values, cut)
    if fit is None:
        assert isinstance(cut, Hill) or values[0] == values[-1]
        return
    assert fit.cut is cut
    tail = values[values >= fit.xmin]
    assert len(tail) == fit.tail >= 2
    alpha = 1 + len(tail) / math.fsum(np.log(tail / fit.xmin))
    steps = np.arange(len(tail)) / len(tail)
    distance = np.abs(steps - (1 - (tail / fit.xmin) ** (1 - alpha))).max()
    assert (fit.alpha, fit.D) == pytest.approx((alpha, distance), rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(spectra)
def test_the_default_is_the_compiled_search(values):
    logs = np.log(values / values[-1])
    assert SmallestDistance()(logs) == best_cut(logs, 2)


@given(numbers)
def test_the_tail_of_unit_determinant_is_the_first_below_one(values):
    ordered = np.sort(np.array(values))
    fit = fit_power_law(ordered, UnitDeterminant())
    if fit is None:
        assert ordered[0] == ordered[-1]
        return
    volumes = np.cumsum(np.log(ordered / ordered.mean())[::-1])
    assert volumes[fit.tail - 1] < 1e-9
    distinct = fit.tail - int((ordered == fit.xmin).sum())
    assert (volumes[:distinct] > -1e-9).all()


# detX_constraint(rescale_eigenvalues(λ)[0], rescale=False)[0] of weightwatcher.RMT_Util, WeightWatcher 0.7.7
PEER_COUNTS = {
    ("pareto", 24): 17,
    ("pareto", 60): 38,
    ("pareto", 500): 287,
    ("pareto", 2000): 1109,
    ("squares", 24): 19,
    ("squares", 60): 46,
    ("squares", 500): 380,
    ("squares", 2000): 1520,
    ("exponential", 24): 19,
    ("exponential", 60): 46,
    ("exponential", 500): 377,
    ("exponential", 2000): 1505,
}

# WeightWatcher(model=…).analyze(ERG=True), columns detX_num and detX_val, WeightWatcher 0.7.7, on the layers of
# weightwatcher_layers.json whose eigenvalues are all above zero
PEER_LAYERS = {
    "conv": (60, 2.419259019887772),
    "heavy": (21, 4.642257974203853),
    "tall": (20, 13.235212596528411),
    "wide": (19, 19.16083433677636),
}


@pytest.mark.parametrize(("law", "n"), PEER_COUNTS)
def test_unit_determinant_is_what_weightwatcher_computes(law, n):
    fit = fit_power_law(quantiles(law, n), UnitDeterminant())
    assert fit is not None
    assert fit.tail == PEER_COUNTS[law, n]


@pytest.mark.parametrize("layer", PEER_LAYERS)
def test_unit_determinant_is_what_weightwatcher_reports(reference, unpack, layer):
    weights = unpack(reference("weightwatcher_layers")["layers"][layer])
    slices = weights.reshape(*weights.shape[:2], -1).transpose(2, 0, 1)
    values = np.sort(np.linalg.svd(slices, compute_uv=False).ravel() ** 2) * (0.5 if weights.ndim == 4 else 1.0)
    fit = fit_power_law(values, UnitDeterminant())
    assert fit is not None
    assert (fit.tail, fit.xmin) == (PEER_LAYERS[layer][0], pytest.approx(PEER_LAYERS[layer][1], rel=1e-5))


def test_nearly_equal_values_have_a_unit_determinant_too():
    """The product of all is below one by less than rounding shows; the tail is all of them."""
    for gap in (2**-52, 2**-50, 2**-40):
        fit = fit_power_law(np.array([1.0, 1.0, 1 + gap]), UnitDeterminant())
        assert fit is not None
        assert fit.tail == 3


def test_unit_determinant_does_not_overflow():
    """Of 20,000 values the product leaves float64 on both sides; the share of the tail is that of 2,000."""
    fit = fit_power_law(quantiles("squares", 20_000), UnitDeterminant())
    assert fit is not None
    assert fit.tail / 20_000 == pytest.approx(PEER_COUNTS["squares", 2000] / 2000, abs=1e-3)


@pytest.mark.parametrize(
    ("share", "n", "tail"), [(0.5, 10, 5), (0.5, 11, 6), (1, 7, 7), (0.07, 100, 7), (0.9, 10, 9), (0.01, 10, 2)]
)
def test_hill_takes_a_share(share, n, tail):
    fit = fit_power_law(np.arange(1.0, n + 1), Hill(share))
    assert fit is not None
    assert fit.tail == tail


def test_hill_at_the_median_is_alpha_pruning():
    """Its 'xmin_mid': i = int(n/2), α = 1 + (n − i)/(Σ_{j ≥ i} ln λⱼ − (n − i)·ln λᵢ)."""
    values = np.sort(np.random.default_rng(0).standard_t(3, 301) ** 2)
    logs, i = np.log(values), 150
    fit = fit_power_law(values, Hill())
    assert fit is not None
    assert fit.xmin == values[i]
    assert fit.alpha == pytest.approx(1 + 151 / (logs[i:].sum() - 151 * logs[i]), rel=1e-12)


def test_a_share_of_equal_values_has_no_slope():
    assert fit_power_law(np.array([1.0, 5.0, 5.0, 5.0]), Hill()) is None


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_cuts_have_a_text_form_and_ignore_the_scale(cut):
    assert TailCut.parse(str(cut)) == cut
    values = np.sort(np.random.default_rng(3).pareto(1.5, 90) + 0.1)
    fit, scaled = fit_power_law(values, cut), fit_power_law(values * 1e-60, cut)
    assert fit is not None
    assert scaled is not None
    assert (scaled.alpha, scaled.tail) == (pytest.approx(fit.alpha, rel=1e-9), fit.tail)


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("logs", [[], [0.0], [0.0, 0.0, 0.0]])
def test_without_spread_there_is_no_tail(cut, logs):
    assert cut(np.array(logs))[0] == -1


@pytest.mark.parametrize("share", [0, -0.5, 1.5, math.nan])
def test_a_share_is_a_share(share):
    with pytest.raises(OptionError, match="hill: share"):
        Hill(share)
