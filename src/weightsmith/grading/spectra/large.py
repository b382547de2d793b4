"""Eigenvalues of one large Gram matrix by two-stage band reduction, for large n faster than LAPACK's ``dsyevd``.

LAPACK brings a symmetric matrix to tridiagonal form column by column, and half of that work is products of the whole
matrix with one vector, which are limited by memory bandwidth. Here it happens in two stages (Bischof, Lang and Sun, *A
framework for symmetric band reduction*, ACM TOMS 26, 2000):

1. full → band of half width b, a panel of b columns at a time. With the panel's QR factors in the compact form
   Q = I − V T Vᵀ, and Z = A V T, X = Z − ½ V (TᵀVᵀZ), the rest becomes QᵀAQ = A − V Xᵀ − X Vᵀ: matrix products only.
2. band → tridiagonal, column by column. A reflection that clears a column spills b rows further down, where the next
   one clears the first column of the spill, and so on to the end; each in a block that fits into the cache.

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

# A constant, so that loops have a known length. Wider panels multiply faster but spill more: 48 is best near n = 2000.
_BAND = 48
_LEAD = 2 * _BAND - 1  # element (i, j) of the band, j ≤ i < j + 2b, is at j·_LEAD + i
_TOGETHER = 4  # columns whose spills follow each other closely, so that they share the part of the band in the cache
_SAFE = 400  # elements between 2^±_SAFE can be squared without overflow
_ROUNDING = 2.220446049250313e-16
_Index = np.uintp  # unsigned indices need no test for negative ones, and loops over them are vectorised

_Values = NDArray[np.float64]


def eigenvalues_of(gram: NDArray[Any]) -> _Values:
    """The ascending eigenvalues of a positive semidefinite matrix in Fortran order; only its upper triangle is read.

    ``gram`` is float64 or float32 and is overwritten. The second stage is in float64 for both.
    """
    from scipy.linalg.lapack import dsterf

    largest = float(gram.diagonal().max())  # of all elements, as the matrix is positive semidefinite
    exponent = int(np.frexp(largest)[1])
    exponent = exponent if abs(exponent) > _SAFE else 0
    if exponent:
        np.ldexp(gram, -exponent, out=gram)
    # Squared lengths below this count as zero: far below rounding, but large enough to be squared without underflow.
    negligible = (float(np.ldexp(largest, -exponent)) * _ROUNDING / 1024) ** 2
    diagonal, beside = _to_tridiagonal(_to_band(gram, negligible), len(gram), negligible)
    if len(gram) == 1:
        return np.ldexp(diagonal, exponent)
    values, missing = dsterf(diagonal, beside)
    if missing:
        raise np.linalg.LinAlgError(f"{missing} of the {len(gram)} eigenvalues of a Gram matrix did not converge")
    ascending: _Values = np.ldexp(values, exponent)
    return ascending


def _to_band(gram: NDArray[Any], negligible: float) -> _Values:
    """The first stage: the lower half of the band, flat, with room for the spills and for whole blocks at the end."""
    size = len(gram)
    band = np.zeros((size + 2 * _BAND) * (_LEAD + 1))
    multiply, update = _blas("symm", gram.dtype), _blas("syr2k", gram.dtype)
    panels, products = np.empty((size, _BAND)), np.empty((size, _BAND), gram.dtype)
    start = 0
    while size - start > _BAND + 1:
        _store(gram, start, start + _BAND, band)
        start += _BAND
        left, rest = size - start, gram[start:, start:]
        panel, x = panels[start:], products[start:]
        taus = _factor(gram, start, negligible, panel, band)
        t = _compact(panel.T @ panel, taus).astype(gram.dtype, copy=False)
        v = panel.astype(gram.dtype, copy=False)
        vt = v @ t
        # Rows of these arrays are columns to BLAS, hence the multiplication from the right and the transposition.
        multiply(b"R", b"U", _BAND, left, 1.0, rest, size, vt, _BAND, 0.0, x, _BAND)
        x -= v @ (vt.T @ x / 2)
        update(b"U", b"T", left, _BAND, -1.0, v, _BAND, x, _BAND, 1.0, rest, size)
    _store(gram, start, size, band)
    return band


def _blas(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    """A BLAS routine by its address: SciPy's wrappers copy a matrix that is part of a larger one."""
    single = dtype == np.float32
    address = get_cython_function_address("scipy.linalg.cython_blas", ("s" if single else "d") + name)
    routine = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 12)(address)
    real = ctypes.c_float if single else ctypes.c_double

    def pointer(argument: bytes | int | float | NDArray[Any]) -> Any:
        match argument:
            case bytes():
                return argument
            case int():
                return ctypes.byref(ctypes.c_int(argument))
            case float():
                return ctypes.byref(real(argument))
        return argument.ctypes.data

    return lambda *arguments: routine(*map(pointer, arguments))


@njit(cache=True, nogil=True)
def _store(gram: NDArray[Any], start: int, stop: int, band: _Values) -> None:
    """Copy the diagonal block of these rows and columns into the band."""
    for j in range(start, stop):
        for i in range(j, stop):
            band[j * _LEAD + i] = gram[j, i]


# Additions may be reordered, so that sums are vectorised; infinities must still be handled.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _factor(gram: NDArray[Any], start: int, negligible: float, panel: _Values, band: _Values) -> _Values:
    """QR of the b rows above ``start``, transposed: V into ``panel``, R into ``band``; returns the τ of I − τ v vᵀ.

    Only at the end is each column of the panel divided by its pivot, which makes it v.
    """
    rows, before = len(panel), start - _BAND
    for i in range(rows):
        for c in range(_BAND):
            panel[i, c] = gram[before + c, start + i]
    taus, scales, w, sums = np.zeros(_BAND), np.zeros(_BAND), np.zeros(_BAND), np.zeros(_BAND)
    _apply(panel, -1, w, sums)
    for k in range(min(_BAND, rows - 1)):
        first, below = panel[k, k], sums[k]
        w[:] = 0.0
        if below > negligible:
            length = -np.copysign(np.sqrt(first * first + below), first)
            taus[k], scales[k] = (length - first) / length, 1.0 / (first - length)
            for c in range(k + 1, _BAND):
                share = taus[k] * (panel[k, c] + scales[k] * sums[c])
                panel[k, c] -= share
                w[c] = scales[k] * share
            panel[k, k] = length
        _apply(panel, k, w, sums)
    for k in range(_BAND):
        for i in range(min(k + 1, rows)):
            band[(before + k) * _LEAD + start + i] = panel[i, k]
            panel[i, k] = 0.0
    for i in range(rows):
        for c in range(_BAND):
            panel[i, c] *= scales[c]
    for k in range(min(_BAND, rows)):
        panel[k, k] = 1.0
    return taus


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _apply(panel: _Values, k: int, w: _Values, sums: _Values) -> None:
    """Subtract column k times wᵀ from the rows below k, and sum the products of the next column with all columns.

    So the panel is read once per reflection. Loops run over whole rows, though w is zero up to k: a known length is
    twice as fast.
    """
    flat, begin = panel.reshape(-1), k + 2
    own, following, width = _Index(max(k, 0)), _Index(min(k + 1, _BAND - 1)), _Index(_BAND)
    groups = max(0, len(panel) - begin) // 4
    share = w[following]
    sums[:] = 0.0
    v = panel[k + 1, own]
    for c in range(_BAND):
        panel[k + 1, c] -= v * w[c]
    for i in range(begin + 4 * groups, len(panel)):
        v = panel[i, own]
        x = panel[i, following] - v * share
        for c in range(_BAND):
            panel[i, c] -= v * w[c]
            sums[c] += x * panel[i, c]
    for group in range(groups):
        r0 = _Index(begin + 4 * group) * width
        r1, r2, r3 = r0 + width, r0 + _Index(2) * width, r0 + _Index(3) * width
        v0, v1, v2, v3 = flat[r0 + own], flat[r1 + own], flat[r2 + own], flat[r3 + own]
        x0, x1 = flat[r0 + following] - v0 * share, flat[r1 + following] - v1 * share
        x2, x3 = flat[r2 + following] - v2 * share, flat[r3 + following] - v3 * share
        for column in range(_BAND):
            j = _Index(column)
            a0, a1 = flat[r0 + j] - v0 * w[j], flat[r1 + j] - v1 * w[j]
            a2, a3 = flat[r2 + j] - v2 * w[j], flat[r3 + j] - v3 * w[j]
            flat[r0 + j], flat[r1 + j], flat[r2 + j], flat[r3 + j] = a0, a1, a2, a3
            sums[j] += x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3


@njit(cache=True, nogil=True)
def _compact(products: _Values, taus: _Values) -> _Values:
    """T of I − V T Vᵀ, the product of the reflections I − τ v vᵀ, from VᵀV (Schreiber and Van Loan, 1989)."""
    t = np.zeros((_BAND, _BAND))
    for k in range(_BAND):
        t[k, k] = taus[k]
        for i in range(k):
            total = 0.0
            for j in range(i, k):
                total += t[i, j] * products[j, k]
            t[i, k] = -taus[k] * total
    return t


@njit(cache=True, nogil=True)
def _to_tridiagonal(band: _Values, size: int, negligible: float) -> tuple[_Values, _Values]:
    """The second stage: the diagonal and the subdiagonal.

    The spill of a column can be chased as soon as that of the column before is two blocks ahead.
    """
    vectors, taus, room = np.empty((_TOGETHER, _BAND)), np.empty(_TOGETHER), np.empty((2, _BAND))
    for begin in range(0, size - 2, _TOGETHER):
        for step in range(2 * _TOGETHER + (size - begin) // _BAND):
            for which in range(min(_TOGETHER, step // 2 + 1, size - 2 - begin)):
                block, column = step - 2 * which, begin + which
                first, v = column + 1 + block * _BAND, vectors[which]
                if first >= size:
                    continue
                if block == 0:
                    taus[which] = _reflect(band, column * _LEAD + first, negligible, v)
                _both_sides(band, first, v, taus[which], room[0])
                if first + _BAND < size:
                    taus[which] = _chase(band, first, negligible, taus[which], (v, room[0], room[1]))
    diagonal, beside = np.empty(size), np.empty(size - 1)
    for j in range(size):
        diagonal[j] = band[j * _LEAD + j]
    for j in range(size - 1):
        beside[j] = band[j * _LEAD + j + 1]
    return diagonal, beside


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _reflect(band: _Values, begin: int, negligible: float, v: _Values) -> float:
    """Clear all but the first of the b elements from ``begin`` on by I − τ v vᵀ: returns τ and fills ``v``."""
    x = band[begin : begin + _BAND]
    below = 0.0
    for i in range(1, _BAND):
        below += x[i] * x[i]
    first = x[0]
    tau = scale = 0.0
    if below > negligible:
        length = -np.copysign(np.sqrt(first * first + below), first)
        tau, scale = (length - first) / length, 1.0 / (first - length)
        x[0] = length
    v[0] = 1.0
    for i in range(1, _BAND):
        v[i] = x[i] * scale
        x[i] = 0.0
    return tau


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _both_sides(band: _Values, first: int, v: _Values, tau: float, p: _Values) -> None:
    """The diagonal block D from row ``first`` on becomes H D H, H = I − τ v vᵀ, its lower triangle by four columns."""
    lead, corner = _Index(_LEAD), _Index(first * (_LEAD + 1))
    p[:] = 0.0
    for j in range(0, _BAND, 4):
        c0 = corner + _Index(j) * lead
        c1, c2, c3 = c0 + lead, c0 + _Index(2) * lead, c0 + _Index(3) * lead
        v0, v1, v2, v3 = v[j], v[j + 1], v[j + 2], v[j + 3]
        for c in range(j, j + 4):
            column = corner + _Index(c) * lead
            p[c] += band[column + _Index(c)] * v[c]
            for k in range(c + 1, j + 4):
                p[k] += band[column + _Index(k)] * v[c]
                p[c] += band[column + _Index(k)] * v[k]
        s0 = s1 = s2 = s3 = 0.0
        for row in range(j + 4, _BAND):
            i = _Index(row)
            a0, a1, a2, a3 = band[c0 + i], band[c1 + i], band[c2 + i], band[c3 + i]
            p[i] += a0 * v0 + a1 * v1 + a2 * v2 + a3 * v3
            s0 += a0 * v[i]
            s1 += a1 * v[i]
            s2 += a2 * v[i]
            s3 += a3 * v[i]
        p[j] += s0
        p[j + 1] += s1
        p[j + 2] += s2
        p[j + 3] += s3
    product = 0.0
    for k in range(_BAND):
        product += p[k] * v[k]
    for k in range(_BAND):
        p[k] = tau * (p[k] - 0.5 * tau * product * v[k])
    for j in range(0, _BAND, 4):
        c0 = corner + _Index(j) * lead
        c1, c2, c3 = c0 + lead, c0 + _Index(2) * lead, c0 + _Index(3) * lead
        v0, v1, v2, v3 = v[j], v[j + 1], v[j + 2], v[j + 3]
        p0, p1, p2, p3 = p[j], p[j + 1], p[j + 2], p[j + 3]
        for c in range(j, j + 4):
            for k in range(c, j + 4):
                band[corner + _Index(c) * lead + _Index(k)] -= v[k] * p[c] + p[k] * v[c]
        for row in range(j + 4, _BAND):
            i = _Index(row)
            x, y = v[i], p[i]
            band[c0 + i] -= x * p0 + y * v0
            band[c1 + i] -= x * p1 + y * v1
            band[c2 + i] -= x * p2 + y * v2
            band[c3 + i] -= x * p3 + y * v3


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _chase(band: _Values, first: int, negligible: float, tau: float, vectors: tuple[_Values, ...]) -> float:
    """The block B below the diagonal one: B (I − τ v vᵀ), then its first column cleared by the next reflection.

    Returns the τ' of that reflection; its vector u replaces v, the first of ``vectors``. With w = τ B v, both are
    applied in one pass: B becomes B − w vᵀ − u sᵀ, s = τ' (Bᵀu − (u·w) v).
    """
    lead, corner = _Index(_LEAD), _Index(first * _LEAD + first + _BAND)
    v, w, u = vectors
    w[:] = 0.0
    for j in range(0, _BAND, 4):
        c0 = corner + _Index(j) * lead
        c1, c2, c3 = c0 + lead, c0 + _Index(2) * lead, c0 + _Index(3) * lead
        v0, v1, v2, v3 = tau * v[j], tau * v[j + 1], tau * v[j + 2], tau * v[j + 3]
        for row in range(_BAND):
            i = _Index(row)
            w[i] += band[c0 + i] * v0 + band[c1 + i] * v1 + band[c2 + i] * v2 + band[c3 + i] * v3
    for row in range(_BAND):
        band[corner + _Index(row)] -= w[row]
    tau = _reflect(band, first * _LEAD + first + _BAND, negligible, u)
    cleared = band[corner]
    common = 0.0
    for k in range(_BAND):
        common += u[k] * w[k]
    for j in range(0, _BAND, 4):
        c0 = corner + _Index(j) * lead
        c1, c2, c3 = c0 + lead, c0 + _Index(2) * lead, c0 + _Index(3) * lead
        v0, v1, v2, v3 = v[j], v[j + 1], v[j + 2], v[j + 3]
        s0 = s1 = s2 = s3 = 0.0
        for row in range(_BAND):
            i = _Index(row)
            s0 += band[c0 + i] * u[i]
            s1 += band[c1 + i] * u[i]
            s2 += band[c2 + i] * u[i]
            s3 += band[c3 + i] * u[i]
        s0, s1 = tau * (s0 - common * v0), tau * (s1 - common * v1)
        s2, s3 = tau * (s2 - common * v2), tau * (s3 - common * v3)
        for row in range(_BAND):
            i = _Index(row)
            x, y = u[i], w[i]
            band[c0 + i] -= y * v0 + x * s0
            band[c1 + i] -= y * v1 + x * s1
            band[c2 + i] -= y * v2 + x * s2
            band[c3 + i] -= y * v3 + x * s3
    # For speed the loop above also updated the first column, which was done already.
    band[corner] = cleared
    for row in range(1, _BAND):
        band[corner + _Index(row)] = 0.0
    v[:] = u
    return tau
