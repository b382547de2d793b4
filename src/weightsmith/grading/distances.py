"""Distances between the weights of two networks, layer by layer.

For the matrices A and B of a layer in two networks (a convolution has several: sums run over all of them):

    relative    ‖A − B‖_F / ‖A‖_F
    cosine      ⟨A, B⟩ / (‖A‖_F ‖B‖_F)
    spectral    ‖A − B‖₂ / ‖A‖₂                     the largest singular value of any of the matrices
    spectrum    √Σᵢ (σᵢ(A) − σᵢ(B))² / ‖A‖_F        the singular values alone; at most ``relative`` (Mirsky 1960)
    cka         ‖YᵀX‖_F² / (‖XᵀX‖_F ‖YᵀY‖_F)        linear kernel alignment (Kornblith et al., ICML 2019)
    overlap     ‖U_kᵀ(A) U_k(B)‖_F² / k             mean squared cosine of the angles between the k largest directions

CKA is computed with the rows (outputs) as cases, one row of X and Y per case, and with the columns (inputs) as cases;
both without and with the mean over cases subtracted. It is invariant to scale and to rotations of the other side.
WeightWatcher's "cka" is the square root of the uncentred CKA over columns. Two random subspaces overlap by k/n, which
is given as ``chance``.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import OptionError
from weightsmith.core.records import Record
from weightsmith.grading.differences import pair_layers
from weightsmith.networks.layers.pending import PendingLayer
from weightsmith.networks.layers.walk import find_layers
from weightsmith.networks.weights import LeftOut

__all__ = ["DistanceStatus", "Distances", "LayerDistance", "Overlap", "Unmatched", "distances"]

_Side = tuple[Tensor, Tensor]


class DistanceStatus(enum.Enum):
    """Whether a layer could be measured in both networks."""

    MEASURED = "measured"
    ZERO = "zero"
    """All weights are zero in one network or in both: a ratio to their norm is undefined."""
    NON_FINITE = "non-finite"


@dataclass(frozen=True, eq=False)
class Overlap(Record):
    """The agreement of the ``directions`` largest singular directions: 1 if equal, ``chance_*`` if random."""

    directions: int
    outputs: float
    inputs: float
    chance_outputs: float
    chance_inputs: float


@dataclass(frozen=True, eq=False)
class LayerDistance(Record):
    """The distances of one layer, as defined above; None if undefined (see ``reason``).

    ``cka_*`` are None if one of the two is constant over the cases, ``overlap`` if one has a matrix of zeros.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    status: DistanceStatus
    reason: str | None = None
    norm: float | None = None
    relative: float | None = None
    cosine: float | None = None
    spectral: float | None = None
    spectrum: float | None = None
    cka_rows: float | None = None
    cka_columns: float | None = None
    cka_rows_centred: float | None = None
    cka_columns_centred: float | None = None
    overlap: Overlap | None = None


@dataclass(frozen=True, eq=False)
class Unmatched(Record):
    """A layer that only one of the networks has in this shape."""

    name: str
    shape: tuple[int, ...]
    reason: str


@dataclass(frozen=True, eq=False)
class Distances(Record):
    """The distances of all layers two networks have in common, and the layers that have no partner."""

    layers: tuple[LayerDistance, ...]
    unmatched: tuple[Unmatched, ...]
    directions: int

    @property
    def relative(self) -> float | None:
        """‖A − B‖_F / ‖A‖_F over all measured layers together."""
        pairs = [(d.relative, d.norm) for d in self.layers if d.relative is not None and d.norm is not None]
        whole = math.hypot(*(norm for _, norm in pairs))
        return math.hypot(*(relative * norm for relative, norm in pairs)) / whole if pairs else None

    @property
    def line(self) -> str:
        """``20 layers measured, 1 zero, 2 unmatched; relative distance 0.12``."""
        counts = [(status.value, sum(d.status is status for d in self.layers)) for status in DistanceStatus]
        parts = [f"{counts[0][1]} layers measured", *(f"{count} {what}" for what, count in counts[1:] if count)]
        parts += [f"{len(self.unmatched)} unmatched"] if self.unmatched else []
        whole = self.relative
        return ", ".join(parts) + ("" if whole is None else f"; relative distance {whole:.4g}")

    def __repr__(self) -> str:
        return f"<Distances: {self}>"

    def __str__(self) -> str:
        return self.line


def distances(a: object, b: object, *, directions: int = 10, layers: str | None = None) -> Distances:
    """The distances between ``a`` and ``b`` in all layers of the same name and shape; ``layers`` is a glob.

    ``directions`` is k of the overlap, limited by the rank of a layer. One layer of each is in memory at a time.

    >>> found = distances({"fc.weight": torch.eye(3)}, {"fc.weight": 2 * torch.eye(3)}, directions=1).layers[0]
    >>> found.relative, round(found.cosine, 12), found.spectral
    (1.0, 1.0, 1.0)
    """
    if directions < 1:
        raise OptionError(f"directions must be ≥ 1, not {directions!r}")
    pairs = pair_layers(find_layers(a, layers=layers).plans, find_layers(b).plans, "the second network")
    lonely = pairs.only_first if layers else (*pairs.only_first, *pairs.only_second)
    return Distances(
        tuple(_distance(ours, theirs, directions) for ours, theirs in pairs.matched),
        tuple(_unmatched(item) for item in lonely),
        directions,
    )


def _unmatched(item: LeftOut) -> Unmatched:
    return Unmatched(item.name, item.shape, item.reason)


def _distance(ours: PendingLayer, theirs: PendingLayer, directions: int) -> LayerDistance:
    a, b = (ours.form.stack(plan.read()).to("cpu", torch.float64) for plan in (ours, theirs))
    found = LayerDistance(ours.name, ours.form.kind, ours.shape, DistanceStatus.MEASURED)
    largest = [float(values.abs().max()) for values in (a, b)]
    for what, test in ((DistanceStatus.NON_FINITE, math.isfinite), (DistanceStatus.ZERO, bool)):
        bad = [where for where, size in zip(("the first", "the second"), largest, strict=True) if not test(size)]
        if bad:
            return dataclasses.replace(found, status=what, reason=f"{what.value} in {' and '.join(bad)} network")
    # Both are scaled to a largest weight of one, so that no square overflows; the ratios restore the scale.
    a, b = a / largest[0], b / largest[1]
    whole = max(largest)
    sizes = largest[0] / whole, largest[1] / whole
    gap = a * sizes[0] - b * sizes[1]
    norms = float(torch.linalg.vector_norm(a)), float(torch.linalg.vector_norm(b))
    sides = _decomposed(a), _decomposed(b)
    spectra = sides[0][0] * sizes[0] - sides[1][0] * sizes[1]
    measured: dict[str, Any] = {
        "norm": _product(norms[0], largest[0]),
        "relative": _ratio(float(torch.linalg.vector_norm(gap)) / norms[0], sizes[0]),
        "cosine": min(1.0, max(-1.0, float(torch.sum(a * b)) / (norms[0] * norms[1]))),
        "spectral": _ratio(math.sqrt(_largest(gap)) / float(sides[0][0].max()), sizes[0]),
        "spectrum": _ratio(float(torch.linalg.vector_norm(spectra)) / norms[0], sizes[0]),
        **_alignments(a / norms[0], b / norms[1]),
    }
    return dataclasses.replace(found, **measured, overlap=_overlap((a, b), sides, directions))


def _product(value: float, size: float) -> float | None:
    return value * size if math.isfinite(value * size) else None


def _ratio(value: float, size: float) -> float | None:
    """``value``/``size``; None if it overflows because the two networks differ too much in scale."""
    return value / size if size and math.isfinite(value / size) else None


def _decomposed(stack: Tensor) -> _Side:
    """Singular values of each matrix, ascending, and the directions of its smaller side, by the Gram matrix."""
    values, vectors = torch.linalg.eigh(_gram(stack))
    return values.clamp(min=0).sqrt(), vectors


def _largest(stack: Tensor) -> float:
    """The largest eigenvalue of all Gram matrices."""
    return max(0.0, float(torch.linalg.eigvalsh(_gram(stack)).max()))


def _gram(stack: Tensor) -> Tensor:
    return stack.mT @ stack if stack.shape[1] >= stack.shape[2] else stack @ stack.mT


def _alignments(a: Tensor, b: Tensor) -> dict[str, float | None]:
    """The four CKAs: the matrices of a layer are joined side by side for rows as cases, stacked for columns."""
    found: dict[str, float | None] = {}
    for side, turn in (("rows", (1, 0, 2)), ("columns", (2, 0, 1))):
        x, y = (values.permute(*turn).flatten(1) for values in (a, b))
        found[f"cka_{side}"] = _alignment(x, y)
        found[f"cka_{side}_centred"] = _alignment(x - x.mean(0), y - y.mean(0))
    return found


def _alignment(x: Tensor, y: Tensor) -> float | None:
    """Linear CKA of cases × features (norm one before centring), by products of the smaller side.

    None if one of them is constant: after centring only rounding errors are left of it.
    """
    if x.shape[0] <= x.shape[1]:
        kx, ky = x @ x.T, y @ y.T
        cross, norms = float(torch.sum(kx * ky)), (kx, ky)
    else:
        cross, norms = float(torch.linalg.matrix_norm(y.T @ x)) ** 2, (x.T @ x, y.T @ y)
    own, other = (float(torch.linalg.matrix_norm(gram)) for gram in norms)
    if min(own, other) <= 1e-28:
        return None
    return min(1.0, cross / (own * other))


def _overlap(stacks: tuple[Tensor, Tensor], sides: tuple[_Side, _Side], directions: int) -> Overlap | None:
    """The overlap of both sides, averaged over matrices, with at most as many directions as the lowest rank."""
    _, rows, columns = stacks[0].shape
    # The rounding error of a Gram matrix: the direction of a smaller singular value is arbitrary.
    noise = math.sqrt(max(rows, columns) * torch.finfo(torch.float64).eps)
    count = min(directions, *(int((values > noise * values.max()).sum(1).min()) for values, _ in sides))
    if count == 0:
        return None
    turned = rows < columns
    near = [vectors[:, :, -count:] for _, vectors in sides]
    far = [
        (stack.mT if turned else stack) @ own / values[:, None, -count:]
        for stack, own, (values, _) in zip(stacks, near, sides, strict=True)
    ]
    shares = [float((x.mT @ y).square().sum((1, 2)).mean()) / count for x, y in (near, far)]
    inputs, outputs = (min(1.0, share) for share in (reversed(shares) if turned else shares))
    return Overlap(count, outputs, inputs, count / rows, count / columns)
