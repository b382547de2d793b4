"""Studies of :mod:`benchmarks.planted` with bodies as real layers have them: mostly nine times as large as the tail.

In trained ResNets the fitted tail is 10 to 16 % of the eigenvalues. Every trial plants an α of its own, with ln(α − 1)
even from α = 1.35 to 13, so that the classes of the verdicts occur about as often as they do in networks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.planted_studies import SEED, Plan, Row, Sample, pareto, with_exponential_body, with_flat_body
from weightsmith.core.seeds import stream, subseed
from weightsmith.grading.classes import HEAVIEST, LIGHTEST, ClassShares
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.fits.resampling import resample_alpha
from weightsmith.grading.random_matrix.noise import fit_bulk
from weightsmith.grading.results import interval_doubt
from weightsmith.grading.spectra.spectrum import Spectrum

__all__ = ["BODY_STUDIES"]

_SIZES = (20, 50, 100, 300)
_TIMES = 9
_BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def with_uniform_bulk(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """Nine times as many values below λ_min = 1, even between 0 and 1: the density falls at λ_min by a step."""
    return np.sort(np.concatenate([1 - rng.random(_TIMES * size), pareto(alpha, size, rng)]))


def with_exponential_bulk(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """Nine times as many below 1 with density ∝ e^(−rλ), r such that the density is continuous at 1."""
    from scipy.optimize import brentq

    rate = brentq(lambda r: r / math.expm1(r) - (alpha - 1) / _TIMES, -60.0, 60.0)
    body = -np.log1p(rng.random(_TIMES * size) * math.expm1(-rate)) / rate
    return np.sort(np.concatenate([body[body > 0], pareto(alpha, size, rng)]))


def with_lognormal_bulk(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """Nine times as many below 1, lognormal with density and slope continuous at 1: nothing marks where it ends."""
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    z = brentq(lambda z: _TIMES * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * ndtr(z), 1e-6, 10.0)
    spread = z / (alpha - 1)
    body = np.exp(-z * spread + spread * ndtri(rng.random(_TIMES * size) * ndtr(z)))
    return np.sort(np.concatenate([body[body > 0], pareto(alpha, size, rng)]))


def with_overlapping_bulk(alpha: float, size: int, rng: np.random.Generator) -> Sample:
    """Nine times as many lognormal values (median ½, σ = ½) that reach beyond 1: the tail begins inside the bulk."""
    body = np.exp(rng.normal(math.log(0.5), 0.5, _TIMES * size))
    return np.sort(np.concatenate([body, pareto(alpha, size, rng)]))


_BODIES: dict[str, Callable[[float, int, np.random.Generator], Sample]] = {
    "none": pareto,
    "flat, as many": with_flat_body,
    "exponential, as many": with_exponential_body,
    "uniform × 9": with_uniform_bulk,
    "exponential × 9": with_exponential_bulk,
    "smooth lognormal × 9": with_lognormal_bulk,
    "overlapping bulk × 9": with_overlapping_bulk,
}
_OVERLAPPING = "overlapping bulk × 9"


def _values(body: str, size: int, trial: int) -> tuple[float, Sample]:
    """The planted α of a trial and its values."""
    rng = stream(SEED, "planted", "bodies", body, size, trial, "values")
    alpha = 1 + math.exp(rng.uniform(math.log(0.35), math.log(12.0)))
    return alpha, _BODIES[body](alpha, size, rng)


def _trials(body: str, size: int, trials: int) -> list[tuple[float, float, float, float, int, str, float]]:
    """Of each trial: α, fitted α, ends of its interval, tail, the class with the largest share, that share."""
    found = []
    for trial in range(trials):
        alpha, values = _values(body, size, trial)
        where = ("planted", "bodies", body, size, trial)
        refits = resample_alpha(
            values,
            resamples=100,
            most=1600,
            borders=(HEAVIEST, LIGHTEST),
            seed=subseed(SEED, *where, "resamples"),
        )
        interval = None if refits is None else refits.interval(0.95)
        if refits is None or interval is None:
            raise AssertionError(f"no interval for {where}")
        tail = int((values >= 1).sum())
        shares = ClassShares.of(refits.alphas)
        found.append((alpha, interval.value, interval.low, interval.high, tail, shares.best, shares.share))
    return found


def bodies() -> Plan:
    """Does the 95 % interval cover where the body is large?"""

    def cell(body: str, size: int, trials: int) -> Row:
        found = _trials(body, size, trials)
        alphas, values, low, high = np.array([row[:4] for row in found]).T
        covered = 100 * float(np.mean((low <= alphas) & (alphas <= high)))
        return {
            "body": body,
            "tail": size,
            "covered, %": covered,
            "too low, %": 100 * float(np.mean(high < alphas)),
            "too high, %": 100 * float(np.mean(low > alphas)),
            "median of (α̂ − 1)/(α − 1)": float(np.median((values - 1) / (alphas - 1))),
            "median high/low": float(np.median((high - 1) / (low - 1))),
        }

    return Plan(
        "Tails of 20 to 300 eigenvalues with a body below them, and 95 % intervals as grading makes them (100 "
        "resamples, more where a verdict hangs on them).",
        {f"{body} {size}": functools.partial(cell, body, size) for body in _BODIES for size in _SIZES},
        _covered,
    )


def leaning() -> Plan:
    """Is the class that a layer leans to the true one as often as it says?"""

    def cell(body: str, trials: int) -> Row:
        found = [row for size in _SIZES for row in _trials(body, size, trials)]
        right = np.array([best == ClassShares.of(np.array([alpha])).best for alpha, *_, best, _ in found])
        said = np.array([row[-1] for row in found])
        row: Row = {"body": body}
        for low, high in zip(_BINS, (*_BINS[1:], 1.01), strict=True):
            inside = (said >= low) & (said < high)
            name = f"{100 * low:.0f} to {min(100 * high, 100):.0f} %"
            row[name] = f"{100 * said[inside].mean():.1f} / {100 * right[inside].mean():.1f} ({inside.sum()})"
        return row

    return Plan(
        "The class with the largest share, by that share: mean share in % / how often it is the true class in % "
        "(number of trials), over tails of 20, 50, 100 and 300.",
        {body: functools.partial(cell, body) for body in _BODIES},
        _calibrated,
    )


def marks() -> Plan:
    """Does the mark ~ tell intervals that cover from those that do not?"""

    def cell(body: str, trials: int) -> Row:
        covered, doubtful = [], []
        for size in _SIZES:
            for trial, (alpha, _, low, high, *_) in enumerate(_trials(body, size, trials // 4)):
                values = _values(body, size, trial)[1]
                law = fit_power_law(values)
                bulk = fit_bulk(Spectrum(values, values[None], values.size, values.size, values.size, "planted"))
                if law is None or (bulk is not None and bulk.spikes == 0):
                    continue  # it looks like noise, whatever α is
                doubtful.append(
                    interval_doubt(law.tail, values.size, None if bulk is None else bulk.spikes) is not None
                )
                covered.append(low <= alpha <= high)
        held, marked = np.array(covered), np.array(doubtful)
        row: Row = {"body": body, "trials": held.size, "marked, %": 100 * float(marked.mean())}
        for name, which in (("marked: covered, %", marked), ("not marked: covered, %", ~marked)):
            row[name] = 100 * float(held[which].mean()) if which.any() else ""
        return row

    return Plan(
        "The mark ~ of an interval that may be too narrow, on the bodies above: the values are taken as the spectrum "
        "of a square layer, whose noise is fitted as in grading; those that look like noise are left out. A quarter of "
        "the trials, over tails of 20, 50, 100 and 300.",
        {body: functools.partial(cell, body) for body in _BODIES},
        _separated,
    )


def _separated(rows: Sequence[Row]) -> str:
    """Coverage of all marked and of all other intervals."""
    parts = []
    for name, inside in (("marked", True), ("not marked", False)):
        column = f"{name}: covered, %"
        pairs = [
            (float(row["trials"]) * float(row["marked, %"] if inside else 100 - float(row["marked, %"])), row[column])
            for row in rows
            if row[column] != ""
        ]
        total = sum(count for count, _ in pairs)
        parts.append(f"{sum(count * float(share) for count, share in pairs) / total:.1f} % of those {name}")
    return (
        f"Over all bodies the 95 % interval covers α in {' and '.join(parts)}. The mark finds the intervals that fail "
        "where a bulk overlaps the tail, but most of the others carry it too: an interval without it can be relied "
        "on, one with it is doubtful and not necessarily wrong."
    )


def _covered(rows: Sequence[Row]) -> str:
    parts = []
    for body in _BODIES:
        own = [float(row["covered, %"]) for row in rows if row["body"] == body]
        parts.append(f"{body}: {min(own):.0f} to {max(own):.0f}")
    return f"Covered in %, over the sizes of the tail: {'; '.join(parts)}."


def _calibrated(rows: Sequence[Row]) -> str:
    sums: dict[str, list[float]] = {}
    for row in rows:
        for name, text in row.items():
            if name == "body" or row["body"] == _OVERLAPPING:
                continue
            said, true, count = (
                float(part) for part in str(text).replace("/", " ").replace("(", "").strip(")").split()
            )
            total = sums.setdefault(name, [0.0, 0.0, 0.0])
            for index, value in enumerate((said * count, true * count, count)):
                total[index] += value
    worst = max(abs(said - true) / count for said, true, count in sums.values())
    listed = "; ".join(f"{said / count:.1f} said, {true / count:.1f} true" for said, true, count in sums.values())
    return (
        f"Over all bodies that end where the tail begins, in %: {listed}. The largest difference is {worst:.1f} "
        "points. A bulk that overlaps the tail is another matter: no resampling of the eigenvalues can know of it."
    )


BODY_STUDIES: dict[str, Callable[[], Plan]] = {"bodies": bodies, "leaning": leaning, "marks": marks}
