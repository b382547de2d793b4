"""Margin-normalised product norms.

Scaling the last layer up scales the product of all norms and changes no decision, so the product alone says little.
Divided by the margin it shows how far the network separates the classes relative to the size of its weights:

    mᵢ = f_y(xᵢ) − max_{j≠y} f_j(xᵢ)               the margin of input i with class y
    γ  = the 10 % quantile of all mᵢ               (interpolated linearly between order statistics)
    value = Σ_l log₁₀ ‖W_l‖² − 2·log₁₀ γ = log₁₀ Π_l ‖W_l‖² / γ²

with the spectral norm (‖W‖₂² = λ_max) and with the Frobenius norm (‖W‖_F² = Σλ). It is the logarithm of the leading
factor in the bound of Bartlett, Foster & Telgarsky (NeurIPS 2017, theorem 1.1), without its correction for ‖W‖₂,₁; γ as
a quantile and squared norms follow Jiang et al. (ICLR 2020). Smaller is better. A convolution counts once, with λ_max
and Σλ over all kernel positions, without 1/N and without the factor ½.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Origin, Record
from weightsmith.core.seeds import pinned_threads
from weightsmith.data.datasets import Data, as_data
from weightsmith.grading.results import Grades, Measure
from weightsmith.grading.spectra.spectrum import spectrum
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.networks.evaluation import labels_for, scores
from weightsmith.networks.files import load
from weightsmith.networks.held import held_network
from weightsmith.networks.layers.walk import walk

__all__ = ["MarginStatus", "Margins", "margins", "with_margins"]


class MarginStatus(enum.Enum):
    """Whether there is a margin-normalised norm."""

    MEASURED = "measured"
    NOT_POSITIVE = "margin not positive"
    """The quantile of the margins is 0 or less: at least that share of inputs is misclassified; log γ is undefined."""
    NON_FINITE = "non-finite"
    """A weight or an output is NaN or infinite."""
    NO_LAYERS = "no layers"
    """No layer with a weight other than zero."""


@dataclass(frozen=True, eq=False)
class Margins(Record):
    """Log₁₀ of the products of squared norms, plain and divided by the squared margin.

    ``margin`` is γ, the ``quantile`` of the margins, in the units of the network's outputs; ``right`` counts inputs
    with a positive margin. ``log_spectral`` and ``log_frobenius`` are Σ log₁₀ ‖W‖² over ``layers`` layers,
    ``margin_spectral`` and ``margin_frobenius`` the same minus 2·log₁₀ γ. Zero layers would make every product zero;
    they are left out and named in ``left_out``.
    """

    data: str
    split: str
    images: int
    right: int
    quantile: float
    margin: float | None
    status: MarginStatus
    reason: str | None
    layers: int
    left_out: tuple[str, ...]
    log_spectral: float | None
    log_frobenius: float | None
    margin_spectral: float | None
    margin_frobenius: float | None
    folded: bool
    normalisation: str
    notes: tuple[str, ...]
    origin: Origin

    def __repr__(self) -> str:
        return f"<Margins: {self}>"

    def __str__(self) -> str:
        """One line: the margin, or why there is none, and the norms divided by it."""
        said = self.reason if self.margin is None or self.reason else f"margin {self.margin:.4g}"
        sums = (
            "" if self.margin_spectral is None else f", log₁₀ of norms² / margin² {self.margin_spectral:.4g} (spectral)"
        )
        return f"{self.right:,} of {self.images:,} right on {self.data} ({self.split}), {said}{sums}"


def margins(
    network: nn.Module | str | Path,
    data: Any,
    *,
    split: str | None = None,
    quantile: float = 0.1,
    fold: bool = False,
    batch: int = 64,
    threads: int = 1,
    device: str = "cpu",
    progress: StepCallback | None = None,
) -> Margins:
    """The margin-normalised product norms of ``network`` (or a file that ``load`` reads) over one split of ``data``.

    The default ``split`` is the training split, for which the bound is stated, or the only one there is. ``fold`` takes
    the norms of a copy with batch norm folded into its layers: before a batch norm the scale of weights is arbitrary.
    Inputs are normalised as the network's card says; ``progress`` is called with (images done, images in all).
    """
    if not 0 < quantile < 1:
        raise OptionError(f"quantile must be > 0 and < 1, not {quantile!r}")
    network = held_network(network)
    if not isinstance(network, nn.Module):
        network = load(network)
    known = as_data(data, splits=(split or "train",))
    chosen = split or (next(iter(known.splits)) if len(known.splits) == 1 else "train")
    part = known.split(chosen)
    outputs = scores(network, part.x, batch=batch, threads=threads, device=device, progress=progress)
    found = _margins(outputs, _labels(known, part.y, network, outputs.shape[1]))
    with pinned_threads(threads):
        norms, zero = _squared_norms(fold_batch_norm(network).network if fold else network)
    gamma = float(np.quantile(found, quantile)) if np.isfinite(found).all() else None
    status, reason = _status(gamma, norms, quantile, len(found) - int(np.isfinite(found).sum()))
    known_norms = status in (MarginStatus.MEASURED, MarginStatus.NOT_POSITIVE)
    spectral, frobenius = _log_products(norms) if known_norms else (None, None)
    shift = None if gamma is None or status is not MarginStatus.MEASURED else -2 * math.log10(gamma)
    return Margins(
        data=known.name,
        split=chosen,
        images=len(found),
        right=int((found > 0).sum()),
        quantile=float(quantile),
        margin=gamma,
        status=status,
        reason=reason,
        layers=len(norms),
        left_out=zero,
        log_spectral=spectral,
        log_frobenius=frobenius,
        margin_spectral=None if spectral is None or shift is None else spectral + shift,
        margin_frobenius=None if frobenius is None or shift is None else frobenius + shift,
        folded=fold,
        normalisation=str(card_of(network).normalisation),
        notes=(*card_of(network).notes, *known.notes, *_of_batch_norm(network, fold)),
        origin=Origin(inputs={"network": weights_digest(network), "data": part.digest()}),
    )


def with_margins(grades: Grades, found: Margins) -> Grades:
    """The grades with two more baselines, ``margin_spectral_norm`` and ``margin_norm``; a status becomes a note."""
    over = f"− 2·log10 γ, γ the {100 * found.quantile:g} % quantile of the margin on {found.data} ({found.split})"
    folded = ", batch norm folded" if found.folded else ""
    measures = tuple(
        Measure(name, value, found.layers, f"sum over layers of log10 {norm}² {over}{folded}", baseline=True)
        for name, value, norm in (
            ("margin_spectral_norm", found.margin_spectral, "‖W‖₂"),
            ("margin_norm", found.margin_frobenius, "‖W‖_F"),
        )
    )
    notes = (*grades.notes, *((f"no margin-normalised norm: {found.reason}",) if found.reason else ()))
    return dataclasses.replace(grades, measures=(*grades.measures, *measures), notes=notes)


def _margins(outputs: Tensor, labels: Tensor) -> NDArray[np.float64]:
    """f_y − max_{j≠y} f_j of each row; NaN where the outputs are not finite."""
    values = outputs.double()
    own = values.gather(1, labels[:, None]).squeeze(1)
    others = values.scatter(1, labels[:, None], -math.inf).amax(dim=1)
    gaps = torch.where(values.isfinite().all(dim=1), own - others, math.nan)
    array: NDArray[np.float64] = gaps.numpy()
    return array


def _labels(data: Data, labels: Tensor, network: nn.Module, count: int) -> Tensor:
    if count < 2:
        raise DataMismatch(f"the network has {count} output: a margin needs at least two classes")
    return labels_for(card_of(network), data, labels, count)[1]


def _squared_norms(network: nn.Module) -> tuple[list[tuple[float, float]], tuple[str, ...]]:
    """(λ_max, Σλ) of each layer that is not zero, NaN for one with NaN or infinity; and the names of zero layers."""
    norms: list[tuple[float, float]] = []
    zero: list[str] = []
    for layer in walk(network):
        if not bool(layer.matrices.isfinite().all()):
            norms.append((math.nan, math.nan))
            continue
        values = spectrum(layer.matrices).parts
        if values.any():
            norms.append((float(values.max()), float(values.sum())))
        else:
            zero.append(layer.name)
    return norms, tuple(zero)


def _status(
    gamma: float | None, norms: list[tuple[float, float]], quantile: float, strange: int
) -> tuple[MarginStatus, str | None]:
    """The status, and the first reason why there is no value."""
    broken = sum(not math.isfinite(total) for _, total in norms)
    if broken or gamma is None:
        where = f"{broken} of {len(norms)} layers" if broken else f"the outputs for {strange} inputs"
        return MarginStatus.NON_FINITE, f"{where} hold NaN or infinity"
    if not norms:
        return MarginStatus.NO_LAYERS, "no layer has a weight other than zero"
    if gamma <= 0:
        share = f"{100 * quantile:g} %"
        return MarginStatus.NOT_POSITIVE, f"the {share} quantile of the margins is {gamma:.4g}: it has no logarithm"
    return MarginStatus.MEASURED, None


def _log_products(norms: list[tuple[float, float]]) -> tuple[float, float]:
    spectral, frobenius = (math.fsum(math.log10(pair[which]) for pair in norms) for which in (0, 1))
    return spectral, frobenius


def _of_batch_norm(network: nn.Module, fold: bool) -> tuple[str, ...]:
    if fold or not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules()):
        return ()
    return ("the scale of weights before a batch norm does not change the outputs: fold=True removes it",)
