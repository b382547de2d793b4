"""The studies of :mod:`benchmarks.planted`.

Each trial draws its sample and its resamples from streams of its own, named after study, cell and trial.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.seeds import stream, subseed
from weightsmith.grading.fits.cuts import Hill, SmallestDistance
from weightsmith.grading.fits.powerlaw import PowerLaw, fit_power_law
from weightsmith.grading.fits.resampling import alpha_interval, goodness_of_fit

__all__ = ["SEED", "TAIL_STUDIES", "Plan", "Row", "Sample", "pareto", "with_exponential_body", "with_flat_body"]

SEED = 0
_ALPHAS = (2.0, 3.0, 4.5)
_SIZES = (20, 50, 500, 5000)
_RESAMPLES = 200
_Z = 1.959963984540054  # the normal quantile of 0.975
Row = dict[str, float | int | str]
Sample = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """A study: what it asks, how each cell makes a row from so many trials, and what the rows amount to."""

    about: str
    cells: Mapping[str, Callable[[int], Row]]
    outcome: Callable[[Sequence[Row]], str] = lambda _rows: ""


def pareto(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """A tail alone: density ∝ λ^(−α) for λ ≥ 1, ascending."""
    return np.sort((1 - rng.random(size)) ** (-1 / (alpha - 1)))


def with_flat_body(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """As many values below λ_min = 1, uniform on a stretch that makes the density continuous there: a knee."""
    body = 1 - rng.random(size) / (alpha - 1)
    return np.sort(np.concatenate([body[body > 0], pareto(alpha, size, rng)]))


def with_exponential_body(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """As many values below λ_min = 1 with density ∝ e^(−αλ)."""
    body = -np.log1p(rng.random(size) * np.expm1(-alpha)) / alpha
    return np.sort(np.concatenate([body[body > 0], pareto(alpha, size, rng)]))


_BODIES = {"none": pareto, "flat": with_flat_body, "exponential": with_exponential_body}


def recovery() -> Plan:
    """Is α found, and does its 95 % interval hold the truth?"""

    def cell(body: str, size: int, alpha: float, trials: int) -> Row:
        fits, lows, highs = [], [], []
        for trial in range(trials):
            where = ("planted", "recovery", body, size, str(alpha), trial)
            values = _BODIES[body](alpha, size, stream(SEED, *where, "values"))
            interval = alpha_interval(values, resamples=_RESAMPLES, rng=stream(SEED, *where, "resamples"))
            if interval is None:
                raise AssertionError(f"no interval for {where}")
            fits.append(_fit(values))
            lows.append(interval.low)
            highs.append(interval.high)
        found, tails = np.array([fit.alpha for fit in fits]), np.array([fit.tail for fit in fits])
        low, high = np.array(lows), np.array(highs)
        sigma = (found - 1) / np.sqrt(tails)
        return {
            "body": body,
            "n": size,
            "α": alpha,
            "median α̂": float(np.median(found)),
            "mean α̂": float(found.mean()),
            "95 % of α̂": _range(found),
            "median tail": int(np.median(tails)),
            "covered, %": _percent((low <= alpha) & (alpha <= high)),
            "too low, %": _percent(high < alpha),
            "too high, %": _percent(low > alpha),
            "median width": float(np.median(high - low)),
            "α̂ ± 1.96 σ covers, %": _percent(np.abs(found - alpha) <= _Z * sigma),
        }

    keys = [key for key in itertools.product(_BODIES, _SIZES, _ALPHAS) if key[:2] != ("exponential", 5000)]  # for time
    return Plan(
        "n values follow a power law beyond λ_min = 1, with nothing below it, with as many values below it that are "
        "spread evenly, or with as many that fall off exponentially. The estimate is that of `fit_power_law`, the "
        f"interval that of `alpha_interval` with {_RESAMPLES} resamples, at 95 %. Beside it the interval that takes "
        "λ_min for known. *Too low* intervals end below the truth, *too high* ones begin above it.",
        {f"{key}": functools.partial(cell, *key) for key in keys},
        _coverage,
    )


def intervals() -> Plan:
    """Which bootstrap interval covers best? All of them from the same refits."""

    def cell(body: str, size: int, trials: int) -> Row:
        from weightsmith.grading.fits.refits import refitted_alphas

        alpha, truth = 3.0, math.log(2.0)
        held: dict[str, list[bool]] = {}
        widths: dict[str, list[float]] = {}
        for trial in range(trials):
            where = ("planted", "intervals", body, size, trial)
            values = _BODIES[body](alpha, size, stream(SEED, *where, "values"))
            seed = subseed(SEED, *where, "resamples")
            refits = np.log(refitted_alphas(np.log(values / values[-1]), seed, (0, _RESAMPLES), 8, 0.0) - 1)
            for name, (low, high) in _intervals(_fit(values), refits).items():
                held.setdefault(name, []).append(low <= truth <= high)
                widths.setdefault(name, []).append(high - low)
        row: Row = {"body": body, "n": size}
        for name, holds in held.items():
            row[f"{name}, %"] = _percent(np.array(holds))
        return row | {f"{name}, width": float(np.median(widths[name])) for name in ("bias-corrected", "normal", "mean")}

    return Plan(
        "The intervals that the same refits give on the scale ln(α − 1), α = 3: percentile, basic, bias-corrected, the "
        "estimate ± 1.96 standard deviations, and the mean of percentile and basic, on which `alpha_interval` builds, "
        "adding what other cuts leave open. How often each covers, and its median width on that scale; percentile and "
        "basic are as wide as their mean. That one was chosen among about twenty (studentised, symmetric, "
        "semi-parametric, on other scales) on random numbers other than these.",
        {f"{key}": functools.partial(cell, *key) for key in itertools.product(_BODIES, (50, 500))},
    )


def _intervals(fit: PowerLaw, refits: Sample) -> dict[str, tuple[float, float]]:
    from scipy.special import ndtr, ndtri

    centre = math.log(fit.alpha - 1)
    low, high = (float(end) for end in np.quantile(refits, [0.025, 0.975]))
    share = (np.sum(refits < centre) + 0.5) / (refits.size + 1)
    shifted = np.quantile(refits, ndtr(2 * ndtri(share) + np.array([-_Z, _Z])))
    spread, half = _Z * float(refits.std()), (high - low) / 2
    return {
        "percentile": (low, high),
        "basic": (2 * centre - high, 2 * centre - low),
        "bias-corrected": (float(shifted[0]), float(shifted[1])),
        "normal": (centre - spread, centre + spread),
        "mean": (centre - half, centre + half),
    }


def goodness() -> Plan:
    """How often is a power law ruled out, where it holds and where it does not?"""
    laws: dict[str, Callable[[int, np.random.Generator], Sample]] = {
        "power law α = 3": lambda size, rng: pareto(3.0, size, rng),
        "power law with a flat body": lambda size, rng: with_flat_body(3.0, size, rng),
        "power law with an exponential body": lambda size, rng: with_exponential_body(3.0, size, rng),
        "exponential": lambda size, rng: np.sort(15 + 8 * rng.standard_exponential(size)),
        "lognormal": _lognormal_tail,
    }

    def cell(law: str, size: int, trials: int) -> Row:
        row: Row = {"truth": law, "n": size}
        for name, cut in {"λ_min searched": SmallestDistance(), "λ_min known": Hill(1.0)}.items():
            if "body" in law and name == "λ_min known":
                continue
            ps, tails = [], []
            for trial in range(trials):
                where = ("planted", "goodness", law, size, trial)
                values = laws[law](size, stream(SEED, *where, "values"))
                fit = fit_power_law(values, cut)
                if fit is None:
                    raise AssertionError(f"no fit for {where}")
                rng = stream(SEED, *where, name)
                ps.append(goodness_of_fit(values, fit, resamples=_RESAMPLES - 1, rng=rng).p)
                tails.append(fit.tail)
            if name == "λ_min searched":
                row[f"{name}: median tail"] = int(np.median(tails))
            row[f"{name}: rejected, %"] = _percent(np.array(ps) < 0.1)
            row[f"{name}: p < 0.5, %"] = _percent(np.array(ps) < 0.5)
        return row

    return Plan(
        f"Clauset's test with {_RESAMPLES - 1} samples, rejection at p < 0.1. Under the law 10 % should be rejected, "
        "and p be below 0.5 in 50 %. The exponential has rate 0.125, the lognormal μ = 0.3 and σ = 2, both beyond 15 "
        "and with nothing below. Where λ_min is searched, the fit retreats to the end of the sample, where every "
        "smooth tail is close to a power law for a while, and the test asks about that end alone. Where λ_min is known "
        "(all n values are the tail) it sees the difference. The search also makes the test cautious: the law itself "
        "is rejected less often than it should be.",
        {f"{key}": functools.partial(cell, *key) for key in itertools.product(laws, (50, 500, 2000))},
    )


def _lognormal_tail(size: int, rng: np.random.Generator) -> Sample:
    from scipy.special import ndtri

    beyond = (math.log(15) - 0.3) / 2
    upper = 0.5 * math.erfc(beyond / math.sqrt(2))
    return np.sort(np.exp(0.3 - 2 * ndtri(upper * (1 - rng.random(size)))))


def matrices() -> Plan:
    """Eigenvalues are not independent: how does the interval compare with how much α varies between matrices?"""
    entries: dict[str, Callable[[np.random.Generator], Sample]] = {
        "Pareto, tail index 1.5": lambda rng: rng.pareto(1.5, (256, 128)) * rng.choice([-1.0, 1.0], (256, 128)),
        "Student t, 2.5 degrees": lambda rng: rng.standard_t(2.5, (256, 128)),
        "Student t, 4 degrees": lambda rng: rng.standard_t(4, (256, 128)),
        "normal": lambda rng: rng.standard_normal((256, 128)),
    }

    def cell(kind: str, trials: int) -> Row:
        found = []
        for trial in range(trials):
            where = ("planted", "matrices", kind, trial)
            matrix = entries[kind](stream(SEED, *where, "values"))
            values = np.linalg.eigvalsh(matrix.T @ matrix).astype(np.float64)
            interval = alpha_interval(values, resamples=_RESAMPLES, rng=stream(SEED, *where, "resamples"))
            if interval is None:
                raise AssertionError(f"no interval for {where}")
            found.append((interval.value, interval.low, interval.high))
        alphas, low, high = np.array(found).T
        middle = float(np.median(alphas))
        widths, spread = np.log((high - 1) / (low - 1)), np.quantile(np.log(alphas - 1), [0.025, 0.975])
        return {
            "entries": kind,
            "median α̂": middle,
            "95 % of α̂": _range(alphas),
            "width of the interval / that range": float(np.median(widths) / (spread[1] - spread[0])),
            "holds the median α̂, %": _percent((low <= middle) & (middle <= high)),
        }

    return Plan(
        "Spectra of 256×128 matrices with independent entries. No α is planted here: the yardstick is the range in "
        "which 95 % of the fitted α of such matrices lie (widths compared on the scale ln(α − 1)), and their median.",
        {kind: functools.partial(cell, kind) for kind in entries},
    )


def _fit(values: Sample) -> PowerLaw:
    fit = fit_power_law(values)
    if fit is None:
        raise AssertionError("a planted tail has no fit")
    return fit


def _percent(holds: NDArray[np.bool_]) -> float:
    return 100 * float(np.mean(holds))


def _range(values: Sample) -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{low:.3g} – {high:.3g}"


def _coverage(rows: Sequence[Row]) -> str:
    covered = sorted(float(row["covered, %"]) for row in rows)
    inside = sum(92 <= value <= 98 for value in covered)
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(f"{row['body']} {row['n']}", []).append(float(row["covered, %"]))
    pooled = ", ".join(f"{name}: {np.mean(values):.1f}" for name, values in groups.items())
    return (
        f"The interval covers the truth in {covered[0]:.2f} to {covered[-1]:.2f} % of trials, median "
        f"{np.median(covered):.2f} %; in {inside} of {len(covered)} rows this is between 92 and 98 %. Without a body "
        "the rows of one n are the same problem, since α only rescales ln λ; so read the three α together. In %, by "
        f"body and n: {pooled}."
    )


TAIL_STUDIES: dict[str, Callable[[], Plan]] = {
    "recovery": recovery,
    "intervals": intervals,
    "goodness": goodness,
    "matrices": matrices,
}
