"""Eigenvalues of one large Gram matrix, by way of a band matrix: three quarters of the time of LAPACK's ``dsyevd``.

LAPACK brings a symmetric matrix to tridiagonal form column by column, and half of that work is products of the whole
matrix with one vector, which wait for memory. Here it happens in two stages (Bischof, Lang and Sun, *A framework for
symmetric band reduction*, ACM TOMS 26, 2000):

1. full → band of half width b, a panel of b columns at a time. With the panel's QR factors in the compact form
   Q = I − V T Vᵀ, and Z = A V T, X = Z − ½ V (TᵀVᵀZ), the rest becomes QᵀAQ = A − V Xᵀ − X Vᵀ: matrix products only.
2. band → tridiagonal, column by column. A reflection that clears a column spills b rows further down, where the next
   one clears the first column of the spill, and so on to the end; all of it in a block that stays in the cache.

LAPACK's ``dsterf`` finds the eigenvalues of the tridiagonal matrix. They are exact to a few n·ε·λ_max.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

__all__ = ["eigenvalues_of"]

# Known when the loops are compiled. Wider panels multiply faster but spill more: measured best for 1000 to 4000 columns.
_BAND = 48
_LEAD = 2 * _BAND - 1  # element (i, j) of the band, j ≤ i < j + 2b, is at j·_LEAD + i
_SAFE = 400  # powers of two between which elements can be squared
_ROUNDING = 2.220446049250313e-16
_Index = np.uintp  # an index without sign needs no test for one, and loops over it are vectorised

_Values = NDArray[np.float64]


def eigenvalues_of(gram: NDArray[Any]) -> _Values:
    """The eigenvalues, ascending, of a positive semidefinite matrix in Fortran order, of which the upper triangle counts.

    ``gram`` is float64 or float32 and is used up. The second stage is in float64 for both.
    """
    from scipy.linalg.lapack import dsterf

    largest = float(gram.diagonal().max())  # of all elements, as the matrix is positive semidefinite
    exponent = int(np.frexp(largest)[1])
    exponent = 0 if abs(exponent) < _SAFE else exponent
    if exponent:
        np.ldexp(gram, -exponent, out=gram)
    # What is left out below this moves no eigenvalue by more, and squares above it have all their digits.
    negligible = float(np.square(np.ldexp(largest, -exponent) * _ROUNDING / 1024))
    band = _to_band(gram, negligible)
    diagonal, beside = _to_tridiagonal(band, len(gram), negligible)
    values, unfinished = dsterf(diagonal, beside)
    if unfinished:
        raise np.linalg.LinAlgError(f"{unfinished} of {len(gram)} eigenvalues were not found")
    ascending: _Values = np.ldexp(values, exponent)
    return ascending


def _to_band(gram: NDArray[Any], negligible: float) -> _Values:
    """The first stage: the lower half of the band, flat, with room for what spills and for whole blocks at the end."""
    size = len(gram)
    band = np.zeros((size + 2 * _BAND) * (_LEAD + 1))
    multiply, update = _routine("symm", gram.dtype), _routine("syr2k", gram.dtype)
    room = np.empty((size, _BAND))
    product = np.empty((size, _BAND), gram.dtype)
    for start in range(0, size - _BAND - 1, _BAND):
        beyond = start + _BAND
        reflectors, taus = room[beyond:], np.zeros(_BAND)
        _factor(gram, start, negligible, reflectors, taus, band)
        v = reflectors.astype(gram.dtype, copy=False)
        t = _compact(reflectors.T @ reflectors, taus).astype(gram.dtype, copy=False)
        vt, x = v @ t, product[beyond:]
        multiply(b"R", b"U", 1.0, _at(gram, beyond), vt, 0.0, x)
        x -= v @ (vt.T @ x / 2)
        update(b"U", b"T", -1.0, v, x, 1.0, _at(gram, beyond))
    _store(gram, (size - 2) // _BAND * _BAND if size > _BAND + 1 else 0, band)
    return band
