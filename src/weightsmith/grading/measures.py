"""Measures of a whole network: α-hat in all its variants, means of the metrics, and the norms that need no fit.

α-hat = Σ_l α_l · log₁₀ λ_l,max (Martin & Mahoney, seed 004, eq. 3). The document leaves open, or later tools changed,
whether it is a sum or a mean, whether a convolution counts once (its eigenvalues pooled) or once per kernel position,
and whether X = WᵀW is divided by N (eq. 2). α itself is the same with and without 1/N; log λ_max is not. Each
combination is a measure with its own name and a description.

Only layers with a fit are counted, and each measure states how many.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.results import LayerGrade, Measure

__all__ = ["measure_network"]

_Terms = Sequence[float]


def measure_network(layers: Iterable[LayerGrade]) -> tuple[Measure, ...]:
    """All measures; most have no value if no layer has a fit."""
    layers = tuple(layers)
    fitted = [layer for layer in layers if layer.fit is not None]
    exponents = [layer.fit.alpha for layer in fitted if layer.fit is not None]
    share = statistics.fmean(HEAVIEST <= alpha <= LIGHTEST for alpha in exponents) if exponents else None
    return (
        _mean("alpha", exponents, "mean of α over layers"),
        Measure("alpha_median", statistics.median(exponents) if exponents else None, len(fitted), "median of α"),
        Measure(
            "alpha_in_range",
            share,
            len(fitted),
            "share of layers with α in [2, 6], where layers are called well trained",
        ),
        *_alpha_hats(fitted),
        *_metrics(fitted),
        *_evidence(fitted),
        *_baselines(fitted),
        *_products(layers),
    )


def _alpha_hats(fitted: Sequence[LayerGrade]) -> list[Measure]:
    metrics = [layer.metrics for layer in fitted if layer.metrics is not None]
    weighted = [found.alpha_weighted for found in metrics if found.alpha_weighted is not None]
    found = [
        _mean(
            "alpha_weighted",
            weighted,
            "mean over layers of α·log10 λ_max, eigenvalues as in the table (by default that of WeightWatcher)",
        )
    ]
    ways = [("kernel position", "", _of_slices(fitted), sum(bool(layer.slices) for layer in fitted))]
    if all(layer.slice is None for layer in fitted):
        ways.append(("layer", "_pooled", _of_layers(fitted), len(fitted)))
    for unit, name, terms, count in ways:
        for suffix, divided, text in (("", True, "X = WᵀW/N"), ("_raw", False, "X = WᵀW, no 1/N")):
            values = [
                alpha * (math.log10(largest) - (math.log10(rows) if divided else 0.0)) for alpha, largest, rows in terms
            ]
            eq3 = " (eq. 3 as printed)" if not name and divided else ""
            what = f"over {unit}s of α·log10 λ_max, {text}"
            found.append(_sum(f"alpha_hat{name}{suffix}", values, f"sum {what}{eq3}", count))
            if not name:
                plain = [value / alpha for value, (alpha, _, _) in zip(values, terms, strict=True)]
                meaning = f"sum over {unit}s of log10 λ_max, {text}: alpha_hat{suffix} with α left out"
                found.append(_sum(f"lambda_hat{suffix}", plain, meaning, count, baseline=True))
            found.append(_mean(f"alpha_hat{name}_mean{suffix}", values, f"mean {what}", count))
    return found


def _of_slices(fitted: Sequence[LayerGrade]) -> list[tuple[float, float, int]]:
    """α, λ_max of WᵀW and N of every matrix with a fit of its own."""
    return [(part.alpha, part.lambda_max, layer.N) for layer in fitted for part in layer.slices]


def _of_layers(fitted: Sequence[LayerGrade]) -> list[tuple[float, float, int]]:
    return [
        (layer.fit.alpha, layer.metrics.lambda_max / layer.factor, layer.N)
        for layer in fitted
        if layer.fit is not None and layer.metrics is not None
    ]


def _metrics(fitted: Sequence[LayerGrade]) -> list[Measure]:
    def over(name: str) -> list[float]:
        found = [getattr(layer.metrics, name) for layer in fitted if layer.metrics is not None]
        return [value for value in found if value is not None]

    return [
        _mean("log_alpha_norm", over("log_alpha_norm"), "mean over layers of log10 Σ λ^α"),
        _mean("stable_rank", over("stable_rank"), "mean over layers of Σλ / λ_max", baseline=True),
        _median("log_stable_rank", over("log_stable_rank"), "median over layers of log Σλ / log λ_max, eq. 6"),
        _mean("entropy", over("entropy"), "mean over layers of −Σ p ln p / ln(rank), p = λ/Σλ", baseline=True),
        _sum("rank_loss", over("rank_loss"), "sum over layers of eigenvalues that are zero to rounding", len(fitted)),
    ]


def _evidence(fitted: Sequence[LayerGrade]) -> list[Measure]:
    bulks = [layer.bulk for layer in fitted if layer.bulk is not None]
    twins = [layer.twin for layer in fitted if layer.twin is not None]
    aspects = [layer.aspect.alpha for layer in fitted if layer.aspect is not None]
    found = []
    if bulks:
        found.append(_mean("soft_rank", [bulk.soft_rank for bulk in bulks], "mean over layers of bulk edge / λ_max"))
        found.append(_sum("spikes", [bulk.spikes for bulk in bulks], "eigenvalues beyond the noise, sum over layers"))
    if twins:
        text = "mean over layers of the distance between a layer's spectrum and that of its permuted weights"
        found.append(_mean("twin_distance", [twin.distance for twin in twins], text))
        found.append(_sum("traps", [twin.traps for twin in twins], "correlation traps, sum over layers"))
    if aspects:
        found.append(_mean("alpha_fixed_aspect", aspects, "mean over layers of α of sub-matrices of one aspect ratio"))
    return found


def _baselines(fitted: Sequence[LayerGrade]) -> list[Measure]:
    """Baselines without a power law, over the same layers as α."""
    metrics = [layer.metrics for layer in fitted if layer.metrics is not None]
    table = "eigenvalues as in the table"
    return [
        _mean("log_norm", [m.log_norm for m in metrics], f"mean over layers of log10 Σλ, {table}", baseline=True),
        _mean(
            "log_spectral_norm",
            [m.log_spectral_norm for m in metrics],
            f"mean over layers of log10 λ_max, {table}",
            baseline=True,
        ),
    ]


def _products(layers: Sequence[LayerGrade]) -> list[Measure]:
    """Eq. 5 over all layers with a norm, fitted or not: the product needs every layer."""
    known = [(layer.metrics, math.log10(layer.factor)) for layer in layers if layer.metrics is not None]
    frobenius = [(found.log_norm - factor) / 2 for found, factor in known]
    spectral = [(found.log_spectral_norm - factor) / 2 for found, factor in known]
    which = "over all layers but zero ones"
    return [
        _sum("log_product_norm", frobenius, f"log10 of the product {which} of ‖W‖_F (eq. 5)", baseline=True),
        _sum("log_product_spectral_norm", spectral, f"log10 of the product {which} of ‖W‖₂ (eq. 5)", baseline=True),
    ]


def _median(name: str, terms: _Terms, meaning: str) -> Measure:
    """A median, for metrics with a pole (eq. 6 at λ_max = 1)."""
    return Measure(name, statistics.median(terms) if terms else None, len(terms), meaning, baseline=True)


def _mean(name: str, terms: _Terms, meaning: str, layers: int | None = None, *, baseline: bool = False) -> Measure:
    value = math.fsum(terms) / len(terms) if terms else None
    return Measure(name, value, len(terms) if layers is None else layers, meaning, baseline)


def _sum(name: str, terms: _Terms, meaning: str, layers: int | None = None, *, baseline: bool = False) -> Measure:
    value = math.fsum(terms) if terms else None
    return Measure(name, value, len(terms) if layers is None else layers, meaning, baseline)
