"""Norms of weights, used by everything that grades, penalises or adjusts weights.

For a matrix W with singular values σ₁ ≥ σ₂ ≥ …

    Frobenius     ‖W‖_F  = sqrt(Σ w²) = sqrt(Σ σ²)
    spectral      ‖W‖₂   = σ₁
    stable rank   ‖W‖_F² / ‖W‖₂²      between 1 and the rank (Rudelson & Vershynin 2007)
    entrywise Lp  (Σ |w|ᵖ)^(1/p)

All of them work on a stack of matrices (…, rows, columns) and return one value each; all can be differentiated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weightsmith.core.errors import OptionError

__all__ = ["entrywise", "frobenius", "spectral", "stable_rank", "unit_norms"]


def frobenius(matrix: Tensor) -> Tensor:
    """sqrt(Σ w²) of each matrix.

    >>> frobenius(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    norm: Tensor = torch.linalg.matrix_norm(matrix, "fro")
    return norm


def spectral(matrix: Tensor) -> Tensor:
    """The largest singular value of each matrix.

    >>> spectral(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(4.)
    """
    norm: Tensor = torch.linalg.matrix_norm(matrix, 2)
    return norm


def stable_rank(matrix: Tensor) -> Tensor:
    """‖W‖_F² / ‖W‖₂² of each matrix. A zero matrix has none and is refused.

    >>> stable_rank(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(1.5625)
    """
    largest = spectral(matrix)
    if bool((largest == 0).any()):
        raise OptionError("a zero matrix has no stable rank")
    # Divided first, then squared: the other way round, weights of 1e-30 or 1e30 would under- or overflow.
    return frobenius(matrix / largest[..., None, None]).square()


def entrywise(weights: Tensor, p: float, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """(Σ |w|ᵖ)^(1/p) over all entries, or over ``dim``; the package uses p = 1, 2 and 4.

    >>> entrywise(torch.tensor([1.0, -2.0, 2.0]), 1), entrywise(torch.tensor([1.0, 1.0]), 4)
    (tensor(5.), tensor(1.1892))
    """
    # Scaled to a largest weight of 1 first: fourth powers of small or large float32 numbers under- or overflow.
    largest = weights.detach().abs().max() if weights.numel() else torch.ones(())
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    norm: Tensor = torch.linalg.vector_norm(weights / scale, p, dim=dim) * scale
    return norm


def unit_norms(weights: Tensor, p: float) -> Tensor:
    """One entrywise Lp norm per output unit: rows of a dense layer, filters of a convolution (out, in, k, …).

    >>> unit_norms(torch.tensor([[3.0, 4.0], [0.0, 1.0]]), 2)
    tensor([5., 1.])
    """
    return entrywise(weights.flatten(1), p, dim=1)
