"""Grade one layer: a pure function, so that layers can be graded in parallel and in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.seeds import stream, subseed
from weightsmith.grading.choices import Conv, Method, Normalise, Precision
from weightsmith.grading.classes import HEAVIEST, LIGHTEST, ClassShares
from weightsmith.grading.evidence import Evidence, FastEvidence, FullEvidence, NoEvidence
from weightsmith.grading.fits.cuts import TailCut
from weightsmith.grading.fits.powerlaw import PowerLaw, SliceFit, fit_power_law, fit_slices
from weightsmith.grading.metrics import layer_metrics
from weightsmith.grading.results import LayerGrade, Status
from weightsmith.grading.spectra.spectrum import Spectrum, spectrum
from weightsmith.grading.verdicts import not_fitted, verdict
from weightsmith.networks.layers.walk import LayerWeights

__all__ = ["LEAST", "GradingOptions", "grade_layer"]

LEAST = 8
"""Fewer positive eigenvalues than this are not fitted."""
_MOST = 64  # times as many resamples where the verdict depends on them
_FLAT = 1e-5  # relative spread of eigenvalues that are equal up to the rounding of weights in float32
_SMALLEST, _LARGEST = 1e-140, 1e140  # range of the largest weight in which eigenvalues and their sum do not overflow


@dataclass(frozen=True)
class GradingOptions:
    """The options of :func:`weightsmith.grading.grade.grade` that apply to each layer."""

    conv: Conv
    normalise: Normalise
    evidence: Evidence
    cut: TailCut
    precision: Precision
    method: Method
    seed: int
    device: str


def grade_layer(layer: LayerWeights, how: GradingOptions) -> tuple[LayerGrade, ...]:
    """The grade of a layer; with ``conv="slices"`` one for each matrix of a convolution."""
    count, rows, columns = layer.matrices.shape
    low, high = (float(value) for value in torch.aminmax(layer.matrices))
    found = _examine(layer.matrices, low, high)
    if found is not None:
        status, reason = found
        size = count * min(rows, columns)
        return (LayerGrade(**_about(layer), evals=size, status=status, reason=reason, verdict=not_fitted(*found)),)
    whole = spectrum(
        layer.matrices, precision=how.precision, method=how.method, device=how.device, largest=max(-low, high)
    )
    factor = _factor(layer, how)
    if how.conv == "pooled" or not layer.kind.startswith("Conv"):
        return (_grade(_Piece(layer, layer.matrices, whole, factor), how),)
    return tuple(
        _grade(_Piece(layer, layer.matrices[index : index + 1], whole.part(index), factor, index), how)
        for index in range(count)
    )


def _examine(matrices: Tensor, low: float, high: float) -> tuple[Status, str] | None:
    """The reason why a layer has no spectrum to fit, from its smallest and its largest value."""
    if not (math.isfinite(low) and math.isfinite(high)):
        broken = matrices.numel() - int(torch.isfinite(matrices).sum())
        return Status.NON_FINITE, f"{broken:,} of {matrices.numel():,} values are NaN or infinite"
    if low == high == 0:
        return Status.ZERO, "all weights are zero"
    if low == high and matrices.numel() > 1:
        return Status.CONSTANT, f"all weights are {low:g}"
    largest = max(-low, high)
    if not _SMALLEST <= largest <= _LARGEST:
        return Status.OUT_OF_RANGE, f"its largest weight is {largest:.3g}: the squares are outside the range of float64"
    return None


def _examine_slice(matrices: Tensor) -> tuple[Status, str] | None:
    low, high = (float(value) for value in torch.aminmax(matrices))
    return _examine(matrices, low, high)


def _about(layer: LayerWeights) -> dict[str, Any]:
    count, rows, columns = layer.matrices.shape
    return {
        "name": layer.name,
        "kind": layer.kind,
        "shape": layer.shape,
        "parameters": layer.parameters,
        "N": max(rows, columns),
        "M": min(rows, columns),
        "matrices": count,
        "tied_with": layer.tied_with,
        "notes": layer.notes,
    }


def _factor(layer: LayerWeights, how: GradingOptions) -> float:
    """The factor of the eigenvalues of WᵀW.

    ``seed``: 1/N, eq. 2 of the seed. ``none``: 1, except that convolutions are scaled as in WeightWatcher, so that
    numbers are comparable: by 1/2 when pooled, by half the number of kernel positions as slices.
    """
    _, rows, columns = layer.matrices.shape
    if how.normalise == "seed":
        return 1 / max(rows, columns)
    if not layer.kind.startswith("Conv"):
        return 1.0
    return 0.5 if how.conv == "pooled" else math.prod(layer.shape[2:]) / 2


@dataclass(frozen=True)
class _Piece:
    """The unit of grading: a whole layer, or one of its matrices (``index``); ``plain`` is the spectrum of WᵀW."""

    layer: LayerWeights
    matrices: Tensor
    plain: Spectrum
    factor: float
    index: int | None = None

    def about(self) -> dict[str, Any]:
        """The fields of the grade that need no fit."""
        facts = {**_about(self.layer), "evals": self.plain.parts.size, "slice": self.index, "factor": self.factor}
        if self.index is not None:
            facts |= {"matrices": 1, "parameters": self.layer.parameters // len(self.layer.matrices)}
        return facts


def _grade(piece: _Piece, how: GradingOptions) -> LayerGrade:
    """Fit the spectrum, gather the evidence, and give a verdict."""
    scaled = piece.plain.scaled(piece.factor)
    unfit = _unfit(scaled) if piece.index is None else _examine_slice(piece.matrices) or _unfit(scaled)
    fit = None if unfit else fit_power_law(scaled.eigenvalues, how.cut)
    if fit is None:
        status, reason = unfit or (Status.FLAT, "its largest eigenvalues are all equal")
        return LayerGrade(
            **piece.about(),
            status=status,
            reason=reason,
            verdict=not_fitted(status, reason),
            metrics=layer_metrics(scaled) if scaled.rank else None,
            eigenvalues=scaled.eigenvalues,
        )
    metrics = layer_metrics(scaled, fit.alpha)
    evidence = _gather(piece, scaled, fit, how)
    return LayerGrade(
        **piece.about(),
        **evidence,
        status=Status.FITTED,
        verdict=verdict(fit, evidence, metrics.lambda_max),
        fit=fit,
        metrics=metrics,
        slices=_slices(piece, fit, how.cut),
        eigenvalues=scaled.eigenvalues,
    )


def _unfit(scaled: Spectrum) -> tuple[Status, str] | None:
    values, size = scaled.eigenvalues, scaled.parts.size
    if scaled.columns == 1:
        what = "a single row or column" if scaled.rows > 1 else "a single value"
        which = "it has" if scaled.matrices == 1 else f"its {scaled.matrices:,} matrices have"
        return Status.TOO_SMALL, f"{which} {what}: no spectrum"
    if size < LEAST:
        return Status.TOO_SMALL, f"{size} eigenvalue{'' if size == 1 else 's'}, fewer than {LEAST}"
    if values.size < LEAST:
        return Status.LOW_RANK, f"{values.size} of {size} eigenvalues differ from zero, fewer than {LEAST}"
    if values[-1] - values[0] <= _FLAT * values[-1]:
        return Status.FLAT, f"all {values.size} eigenvalues are equal to {values[-1]:.4g}"
    different = 1 + int((np.diff(values) > _FLAT * values[1:]).sum())
    if different < LEAST:
        return Status.DEGENERATE, f"{different} different eigenvalues among {values.size}, fewer than {LEAST}"
    if scaled.matrices > 1 and int((scaled.parts > 0).sum(axis=1).max()) == 1:
        return Status.DEGENERATE, f"each of its {scaled.matrices:,} matrices has rank one"
    return None


def _slices(piece: _Piece, fit: PowerLaw, cut: TailCut) -> tuple[SliceFit, ...]:
    """The fit of each matrix; for a single matrix it is ``fit``."""
    if piece.plain.matrices > 1:
        return fit_slices(piece.plain.parts, LEAST, cut)
    largest = float(piece.plain.eigenvalues[-1])
    return (SliceFit(piece.index or 0, fit.evals, fit.alpha, fit.xmin / piece.factor, fit.D, fit.tail, largest),)


def _gather(piece: _Piece, scaled: Spectrum, fit: PowerLaw, how: GradingOptions) -> dict[str, Any]:
    """The evidence that the options select; each layer has its own random stream."""
    asked = how.evidence
    if isinstance(asked, NoEvidence):
        return {}
    from weightsmith.grading.fits.alternatives import compare_tails
    from weightsmith.grading.fits.resampling import goodness_of_fit, resample_alpha
    from weightsmith.grading.random_matrix.aspect import fixed_aspect
    from weightsmith.grading.random_matrix.noise import fit_bulk, live_rows
    from weightsmith.grading.random_matrix.twin import randomised_twin
    from weightsmith.grading.random_matrix.universality import universality

    names = "grade", piece.layer.name, -1 if piece.index is None else piece.index

    def draws(purpose: str) -> np.random.Generator:
        return stream(how.seed, *names, purpose)

    if not isinstance(asked, FastEvidence | FullEvidence):
        raise TypeError(f"evidence must be none, fast or full, not {asked!r}")
    values, bulk = scaled.eigenvalues, fit_bulk(scaled, rows=live_rows(piece.matrices))
    refits = resample_alpha(
        values,
        cut=how.cut,
        resamples=asked.resamples,
        # Without spikes the verdict does not depend on α.
        most=None if bulk is not None and bulk.spikes == 0 else _MOST * asked.resamples,
        borders=(HEAVIEST, LIGHTEST),
        confidence=asked.confidence,
        fit=fit,
        seed=subseed(how.seed, *names, "interval"),
    )
    found: dict[str, Any] = {
        "interval": None if refits is None else refits.interval(asked.confidence),
        "shares": None if refits is None else ClassShares.of(refits.alphas),
        "bulk": bulk,
        "alternatives": compare_tails(values, fit),
        "universality": universality(fit.alpha, bulk),
    }
    if isinstance(asked, FullEvidence):
        found["goodness"] = goodness_of_fit(values, fit, resamples=asked.draws, rng=draws("goodness"))
        found["twin"] = randomised_twin(piece.matrices, scaled, draws("twin"), device=how.device)
        found["aspect"] = fixed_aspect(piece.matrices, scaled, aspect=asked.aspect, cut=how.cut, device=how.device)
    return found
