"""The spectrum of a layer: the eigenvalues of X = WᵀW for each of its matrices.

With W of N × M and N ≥ M (a matrix that is wider than tall is transposed), X has M eigenvalues λ = σ², the squares of
W's singular values. They come from the Gram matrix of the smaller side, built in blocks, and a symmetric eigenvalue
routine: about a quarter of the work of a singular value decomposition. The price is that eigenvalues below
λ_max · N · ε are rounding noise; they count as zero and are left out of every fit. ``method="svd"`` resolves smaller
ones, and serves as a check.

>>> found = spectrum(torch.diag(torch.tensor([3.0, 2.0, 0.0]))[None])
>>> found.eigenvalues, found.rank
(array([4., 9.]), 2)
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.memory import check_memory
from weightsmith.core.records import Record
from weightsmith.grading.choices import Method, Precision

__all__ = ["Spectrum", "spectrum"]

_BLOCK = 1 << 22  # values that are converted at a time: 32 MB in float64
_SMALL, _SMALLEST = 128, 32  # sizes up to which several matrices, and a single one, are decomposed as a stack
_LARGE = {"float64": 1536, "float32": 3072}  # from this size on two stages are faster than LAPACK's one
# Range of the largest weight in which sums of squares do not overflow; others are scaled by a power of two first.
_SAFE = {"float64": (1e-100, 1e100), "float32": (1e-12, 1e12)}


@dataclass(frozen=True, eq=False)
class Spectrum(Record):
    """The eigenvalues of a layer.

    ``eigenvalues`` are the positive ones of all matrices, ascending; ``parts`` has one row of M per matrix, ascending,
    zeros included. ``rows`` is N, ``columns`` M, ``rank`` the number of positive eigenvalues.
    """

    eigenvalues: NDArray[np.float64]
    parts: NDArray[np.float64]
    rows: int
    columns: int
    rank: int
    method: str

    @property
    def matrices(self) -> int:
        """How many matrices the layer has: kernel positions of a convolution, gates of a recurrent layer."""
        return len(self.parts)

    def scaled(self, factor: float) -> Spectrum:
        """All eigenvalues times ``factor``, as if the weights were multiplied by its root."""
        if factor == 1:
            return self
        return dataclasses.replace(self, eigenvalues=self.eigenvalues * factor, parts=self.parts * factor)

    def part(self, index: int) -> Spectrum:
        """The spectrum of one matrix of the layer."""
        own = self.parts[index : index + 1]
        positive = own[own > 0]
        return dataclasses.replace(self, eigenvalues=positive, parts=own, rank=positive.size)


def spectrum(
    matrices: Tensor,
    *,
    precision: Precision = "float64",
    method: Method = "gram",
    device: str = "cpu",
    largest: float | None = None,
) -> Spectrum:
    """The spectrum of a stack of matrices (count, rows, columns) with finite values, the largest within 10^±140.

    ``precision="float32"`` takes about half the time; large eigenvalues keep six digits, those below a ten-thousandth
    of the largest lose theirs. On a ``device`` other than the CPU, torch does the decomposition. ``largest`` is the
    largest absolute value, if known.
    """
    if matrices.dim() != 3 or 0 in matrices.shape:
        raise UsageError(f"a spectrum needs a stack of matrices (count, rows, columns), not {tuple(matrices.shape)}")
    matrices = matrices.detach()
    if largest is None:
        largest = max(abs(float(value)) for value in torch.aminmax(matrices))
    smallest_safe, largest_safe = _SAFE[precision]
    # The power of two that brings the weights near one, if their squares would overflow or underflow.
    exponent = math.frexp(largest)[1] if largest and not smallest_safe < largest < largest_safe else 0
    count, rows, columns = matrices.shape
    if method == "svd":
        parts = _by_svd(matrices, exponent, precision, device)
    elif device != "cpu":
        parts = _by_torch(matrices, exponent, precision, device)
    elif min(rows, columns) <= (_SMALL if count > 1 else _SMALLEST):
        parts = _by_stack(matrices, exponent, precision)
    else:
        parts = np.stack([_by_gram(matrix, exponent, precision) for matrix in matrices])
    tall, wide = max(rows, columns), min(rows, columns)
    # Rounding moves the eigenvalues of a product by ε·λ_max, singular values by ε·σ_max: their squares by far less.
    rounding = tall * float(np.finfo(precision).eps)
    noise = parts[:, -1:] * (rounding**2 if method == "svd" else rounding)
    parts[parts <= np.maximum(noise, 0.0)] = 0.0
    if exponent:
        with np.errstate(over="ignore", under="ignore"):
            parts = np.ldexp(parts, 2 * exponent)
    positive = np.sort(parts[parts > 0])
    return Spectrum(positive, parts, tall, wide, positive.size, f"{method} {precision}")


def _values(part: Tensor, exponent: int, precision: Precision) -> NDArray[Any]:
    """Weights as an array of the given type, scaled, contiguous."""
    if exponent:  # scaled in float64: the power of two may be outside the range of the narrower type
        part = torch.ldexp(part.to(torch.float64), torch.tensor(-exponent))
    array: NDArray[Any] = part.to(getattr(torch, precision)).contiguous().numpy()
    return array


def _by_gram(matrix: Tensor, exponent: int, precision: Precision) -> NDArray[np.float64]:
    """Eigenvalues of one matrix; W is converted and multiplied block by block, so that it is never copied whole."""
    from scipy.linalg import blas, eigh

    rank_update = blas.dsyrk if precision == "float64" else blas.ssyrk
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    size = tall.shape[1]
    check_memory(
        f"the spectrum of a {len(tall):,} × {size:,} matrix in {precision}",
        (size * size + _BLOCK) * np.dtype(precision).itemsize,
        "precision='float32' needs half as much, and layers= leaves the layer out",
    )
    gram = np.zeros((size, size), dtype=precision, order="F")
    for rows in torch.split(tall, max(1, _BLOCK // size)):
        block = _values(rows, exponent, precision)
        gram = rank_update(1.0, block.T, beta=1.0, c=gram, overwrite_c=True)
    if size >= _LARGE[precision]:
        from weightsmith.grading.spectra.large import eigenvalues_of

        return eigenvalues_of(gram)
    values = eigh(gram, eigvals_only=True, driver="evd", lower=False, overwrite_a=True, check_finite=False)
    ascending: NDArray[np.float64] = values.astype(np.float64, copy=False)
    return ascending


def _by_stack(matrices: Tensor, exponent: int, precision: Precision) -> NDArray[np.float64]:
    """Eigenvalues of small matrices, all of them together."""
    from weightsmith.grading.spectra.small import eigenvalues_of_stack

    stack = _values(matrices, exponent, precision)
    turned = stack.transpose(0, 2, 1)
    left, right = (turned, stack) if stack.shape[1] >= stack.shape[2] else (stack, turned)
    values, found = eigenvalues_of_stack((left @ right).astype(np.float64, copy=False))
    ascending: NDArray[np.float64] = values if found else np.linalg.eigvalsh(left @ right).astype(np.float64)
    return ascending


def _by_torch(matrices: Tensor, exponent: int, precision: Precision, device: str) -> NDArray[np.float64]:
    stack = torch.from_numpy(_values(matrices, exponent, precision)).to(device)
    gram = stack.mT @ stack if stack.shape[1] >= stack.shape[2] else stack @ stack.mT
    values: NDArray[np.float64] = torch.linalg.eigvalsh(gram).to("cpu", torch.float64).numpy()
    return values


def _by_svd(matrices: Tensor, exponent: int, precision: Precision, device: str) -> NDArray[np.float64]:
    stack = torch.from_numpy(_values(matrices, exponent, precision)).to(device)
    singular = torch.linalg.svdvals(stack).to("cpu", torch.float64)
    values: NDArray[np.float64] = singular.square().flip(-1).contiguous().numpy()
    return values
