"""Eigenvalues of many small symmetric matrices at once, compiled: twice as fast as one LAPACK call after another.

Each matrix is brought to tridiagonal form by Householder reflections (Golub & Van Loan, *Matrix Computations*,
algorithm 8.3.1). The eigenvalues of that form come from the rational QL method of Pal, Walker and Kahan, as in LAPACK's
``dsterf``. Its recurrence is a chain of divisions, each of which waits for the one before; therefore all matrices of a
stack go through it in lock step, a lane each, so that the processor works on several chains at a time. A lane that has
found its eigenvalue waits for the others.

An off-diagonal element below ε·‖T‖ counts as zero: like LAPACK's, the results are exact to a few n·ε·λ_max.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["eigenvalues_of_stack"]

_ROUNDING = 2.220446049250313e-16
_SMALLEST, _LARGEST = 1e-100, 1e100
_MOST_SWEEPS = 30  # per eigenvalue, as in LAPACK; two are usual

_Values = NDArray[np.float64]


# Additions may be reordered, so that sums are vectorised; infinities must still be handled.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _tridiagonalise(matrix: _Values, diagonal: _Values, squares: _Values) -> None:
    """The diagonal and the squared off-diagonal of QᵀAQ; the lower triangle of ``matrix`` is read and overwritten."""
    n = matrix.shape[0]
    v, p = np.empty(n), np.empty(n)
    for i in range(n - 1, 1, -1):
        row = matrix[i]
        diagonal[i] = row[i]
        beyond = 0.0
        for j in range(i - 1):
            beyond += row[j] * row[j]
        last = row[i - 1]
        squares[i - 1] = last * last + beyond
        if beyond == 0.0:
            continue
        length = np.sqrt(squares[i - 1])
        pivot = last - length if last <= 0.0 else -beyond / (last + length)
        beta = 2.0 * pivot * pivot / (beyond + pivot * pivot)
        for j in range(i - 1):
            v[j] = row[j] / pivot
            p[j] = 0.0
        v[i - 1] = 1.0
        p[i - 1] = 0.0
        for j in range(i):
            left, vj = matrix[j], v[j]
            total = left[j] * vj
            for k in range(j):
                total += left[k] * v[k]
                p[k] += left[k] * vj
            p[j] += total
        product = 0.0
        for j in range(i):
            p[j] *= beta
            product += p[j] * v[j]
        for j in range(i):
            p[j] -= 0.5 * beta * product * v[j]
        for j in range(i):
            left, vj, pj = matrix[j], v[j], p[j]
            for k in range(j + 1):
                left[k] -= vj * p[k] + pj * v[k]
    if n > 1:
        diagonal[1] = matrix[1, 1]
        squares[0] = matrix[1, 0] ** 2
    diagonal[0] = matrix[0, 0]


@njit(cache=True, nogil=True)
def _sweep(d: _Values, e: _Values, starts: _Values, shifts: _Values, state: tuple[_Values, ...]) -> None:
    """One QL step in every lane, from the last row up to the lane's start; a lane beyond its start is left alone."""
    c, s, gamma, p = state
    rows, lanes = d.shape
    for w in range(lanes):
        c[w], s[w] = 1.0, 0.0
        gamma[w] = d[rows - 1, w] - shifts[w]
        p[w] = gamma[w] * gamma[w]
    for i in range(rows - 2, int(starts.min()) - 1, -1):
        for w in range(lanes):
            # No branches, only selections between two numbers, so that this loop is vectorised over the lanes.
            active = i >= starts[w]
            square = e[i, w]
            r = p[w] + square
            whole = r != 0.0
            safe = r if whole else 1.0
            cosine = p[w] / safe if whole else 1.0
            sine = square / safe
            value = d[i, w]
            g = cosine * (value - shifts[w]) - sine * gamma[w]
            turned = cosine != 0.0
            q = g * g / (cosine if turned else 1.0) if turned else c[w] * square
            e[i + 1, w] = s[w] * r if active else e[i + 1, w]
            d[i + 1, w] = gamma[w] + (value - g) if active else d[i + 1, w]
            p[w] = q if active else p[w]
            c[w] = cosine if active else c[w]
            s[w] = sine if active else s[w]
            gamma[w] = g if active else gamma[w]


@njit(cache=True, nogil=True)
def _ready(d: _Values, e: _Values, starts: _Values, limits: _Values, shifts: _Values) -> bool:
    """Move every lane past the eigenvalues it has found and choose its next shift; False when all lanes are done."""
    rows, lanes = d.shape
    left = False
    for w in range(lanes):
        k = int(starts[w])
        while k < rows - 1 and e[k, w] <= limits[w]:
            e[k, w] = 0.0
            k += 1
        starts[w] = k if k < rows - 1 else rows
        shifts[w] = 0.0
        if k < rows - 1:
            left = True
            root = np.sqrt(e[k, w])
            slope = (d[k + 1, w] - d[k, w]) / (2.0 * root)
            length = np.sqrt(slope * slope + 1.0)
            shifts[w] = d[k, w] - root / (slope + (length if slope >= 0.0 else -length))
    return left


@njit(cache=True, nogil=True)
def eigenvalues_of_stack(stack: _Values) -> tuple[_Values, bool]:
    """Ascending eigenvalues of each matrix of (count, n, n), and whether all were found; ``stack`` is overwritten."""
    lanes, n, _ = stack.shape
    scales, limits, starts, shifts = np.ones(lanes), np.empty(lanes), np.zeros(lanes), np.empty(lanes)
    d, e = np.empty((n, lanes)), np.zeros((n + 1, lanes))
    for w in range(lanes):
        largest = 0.0
        for i in range(n):
            for j in range(i + 1):
                largest = max(largest, abs(stack[w, i, j]))
        if largest > _LARGEST or 0.0 < largest < _SMALLEST:  # the squares below must not overflow
            scales[w] = largest
            stack[w] /= largest
        column, squares = np.empty(n), np.zeros(n)
        _tridiagonalise(stack[w], column, squares)
        d[:, w], e[:n, w] = column, squares
        limits[w] = _ROUNDING**2 * (column * column + squares).max()
    state = (np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes))
    for _ in range(_MOST_SWEEPS * n):
        if not _ready(d, e, starts, limits, shifts):
            break
        _sweep(d, e, starts, shifts, state)
        for w in range(lanes):
            k = int(starts[w])
            if k < n:
                e[k, w] = state[1][w] * state[3][w]
                d[k, w] = shifts[w] + state[2][w]
    found = not _ready(d, e, starts, limits, shifts)
    values = np.empty((lanes, n))
    for w in range(lanes):
        values[w] = np.sort(d[:, w]) * scales[w]
    return values, found
