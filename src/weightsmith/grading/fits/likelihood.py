"""Compiled maximum-likelihood fits of the alternatives to a power law.

Everything works on d = ln(λ/λ_min) ≥ 0, where the power law is the exponential density k·e^(−k·d), k = α − 1, which is
a limit of both families here:

    lognormal               density ∝ exp(−(d − μ)²/2σ²)
    truncated power law     density ∝ exp(−k·d − b·(e^d − 1 − d)),  k = α + β·λ_min − 1,  b = β·λ_min

The second is λ^(−α)·e^(−βλ) written so that no large terms cancel: e^d − 1 − d is about d²/2 if the tail is narrow
(there α and β are huge and of opposite effect) and about λ/λ_min if it is long.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["bends", "inverse_mills", "lognormal_edge", "truncated_fit"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_INVERSE_FACTORIALS = tuple(1.0 / math.factorial(i) for i in range(19, 1, -1))
_DROP = 40.0  # e^-40 is beyond the last bit of a double
_LEAST_PANELS = 4
_MOST_STEPS = 100
_MOST_HALVINGS = 40
_ENOUGH = 1e-12  # of F: far below what matters in a likelihood ratio


@njit(cache=True, nogil=True, error_model="numpy")
def _bend(d: float) -> float:
    """e^d − 1 − d, accurate to the last digits also for small d."""
    if d > 1.0:
        return math.exp(d) - 1.0 - d
    total = 0.0
    for factor in _INVERSE_FACTORIALS:
        total = total * d + factor
    return total * d * d


@njit(cache=True, nogil=True, error_model="numpy")
def bends(excess: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^d − 1 − d for each d."""
    values = np.empty_like(excess)
    for i in range(excess.size):
        values[i] = _bend(excess[i])
    return values


@njit(cache=True, nogil=True, error_model="numpy")
def _fraction(edge: float) -> float:
    """c = 2/(h + 3/(h + 4/(h + …))) of h = ``edge`` > 0, with which the inverse Mills ratio is h + 1/(h + c)."""
    rest = edge
    for i in range(10 + int(600.0 / (edge * edge)), 2, -1):
        rest = edge + i / rest
    return 2.0 / rest


@njit(cache=True, nogil=True, error_model="numpy")
def inverse_mills(edge: float) -> tuple[float, float, float]:
    """For Z standard normal beyond h = ``edge``: ln of φ(h)/P(Z > h), E[Z − h] and E[(Z − h)²]."""
    if edge > 3.0:  # Laplace's continued fraction: the differences below would cancel
        c = _fraction(edge)
        return math.log(edge + 1.0 / (edge + c)), 1.0 / (edge + c), c / (edge + c)
    log_ratio = -0.5 * edge * edge - 0.5 * math.log(2.0 * math.pi) - math.log(0.5 * math.erfc(edge / math.sqrt(2.0)))
    mean = math.exp(log_ratio) - edge
    return log_ratio, mean, 1.0 - edge * mean


@njit(cache=True, nogil=True, error_model="numpy")
def _shape_above(edge: float, shape: float) -> float:
    """E[d²]/E[d]² of a normal variable truncated at 0, with h = −μ/σ = ``edge``, minus ``shape``."""
    _, mean, square = inverse_mills(edge)
    return square / (mean * mean) - shape


@njit(cache=True, nogil=True, error_model="numpy")
def lognormal_edge(shape: float) -> float:
    """The h = −μ/σ at which E[d²]/E[d]² of a normal variable truncated at 0 is ``shape``, between 1 and 2.

    It grows with h, from 1 to the 2 of the exponential density (A. C. Cohen, Ann. Math. Stat. 21 (1950) 557).
    """
    low, high = -1.0, 1.0
    below, above = _shape_above(low, shape), _shape_above(high, shape)
    while below > 0.0:
        low, high, above = 2.0 * low, low, below
        below = _shape_above(low, shape)
    while above < 0.0:
        high, low, below = 2.0 * high, high, above
        above = _shape_above(high, shape)
    for _ in range(_MOST_STEPS):  # the Illinois method: the secant, weighted so that both ends move
        middle = (low * above - high * below) / (above - below)
        if not low < middle < high or high - low <= 1e-15 * max(abs(low), abs(high)):
            break
        value = _shape_above(middle, shape)
        if value < 0.0:
            low, below, above = middle, value, 0.5 * above
        elif value > 0.0:
            high, above, below = middle, value, 0.5 * below
        else:
            return middle
    return low if abs(below) < abs(above) else high


@njit(cache=True, nogil=True, error_model="numpy")
def _exponent(x: float, slope: float, cutoff: float, unit: float, mean_bend: float) -> float:
    """−κ·x − c·t(x), the logarithm of the density before it is normalised; d = unit·x, t = (e^d − 1 − d)/mean_bend."""
    return -slope * x - cutoff * _bend(unit * x) / mean_bend


@njit(cache=True, nogil=True, error_model="numpy")
def _support(slope: float, cutoff: float, unit: float, mean_bend: float) -> tuple[float, float, float]:
    """The ends between which the (log-concave) density is within e^-40 of its peak, and the logarithm of the peak."""
    mode = 0.0
    if slope < 0.0:  # −κ = c·t'(x), t' = unit·(e^d − 1)/mean_bend
        mode = math.log1p(-slope * mean_bend / (cutoff * unit)) / unit
    top = _exponent(mode, slope, cutoff, unit, mean_bend)
    bound = top - _DROP
    left = 0.0
    if _exponent(0.0, slope, cutoff, unit, mean_bend) < bound:
        inside = mode
        for _ in range(30):
            middle = 0.5 * (left + inside)
            if _exponent(middle, slope, cutoff, unit, mean_bend) < bound:
                left = middle
            else:
                inside = middle
    step = 1.0
    while _exponent(mode + step, slope, cutoff, unit, mean_bend) > bound:
        step *= 2.0
    while step > 1e-300 and _exponent(mode + 0.5 * step, slope, cutoff, unit, mean_bend) < bound:
        step *= 0.5
    right, inside = mode + step, mode + 0.5 * step
    for _ in range(6):
        middle = 0.5 * (right + inside)
        if _exponent(middle, slope, cutoff, unit, mean_bend) < bound:
            right = middle
        else:
            inside = middle
    return left, right, top


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(
    slope: float, cutoff: float, unit: float, mean_bend: float
) -> tuple[float, float, float, float, float, float]:
    """ln of the normaliser, E[x], E[t], Var x, Cov(x, t) and Var t, by Gauss–Legendre panels over the support."""
    left, right, top = _support(slope, cutoff, unit, mean_bend)
    # The fall of e^(−e^d) has unit length in d: no panel is much longer.
    panels = max(_LEAST_PANELS, min(int(0.5 * (right - left) * unit) + 1, 1000))
    half = 0.5 * (right - left) / panels
    size = panels * _NODES.size
    mass, xs, ts = np.empty(size), np.empty(size), np.empty(size)
    total, x_mean, t_mean = 0.0, 0.0, 0.0
    index = 0
    for panel in range(panels):
        centre = left + (2 * panel + 1) * half
        for node in range(_NODES.size):
            x = centre + half * _NODES[node]
            t = _bend(unit * x) / mean_bend
            m = _WEIGHTS[node] * math.exp(-slope * x - cutoff * t - top)
            mass[index], xs[index], ts[index] = m, x, t
            total += m
            x_mean += m * x
            t_mean += m * t
            index += 1
    x_mean /= total
    t_mean /= total
    xx, xt, tt = 0.0, 0.0, 0.0
    for i in range(size):
        xx += mass[i] * (xs[i] - x_mean) ** 2
        xt += mass[i] * (xs[i] - x_mean) * (ts[i] - t_mean)
        tt += mass[i] * (ts[i] - t_mean) ** 2
    return top + math.log(total * half), x_mean, t_mean, xx / total, xt / total, tt / total


@njit(cache=True, nogil=True, error_model="numpy")
def _start(slope: float, cutoff: float, unit: float, mean_bend: float) -> tuple[float, float]:
    """The best of a few starting points: the given one, and others that fit tails over many decades."""
    least = np.inf
    best = slope, cutoff
    for guess in ((slope, cutoff), (1.0, 0.1), (0.7, 0.01), (0.3, 0.02), (-0.3, 0.05), (-1.0, 0.1)):
        value = guess[0] + guess[1] + _moments(guess[0], guess[1], unit, mean_bend)[0]
        if value < least:
            least, best = value, guess
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def truncated_fit(unit: float, mean_bend: float, slope: float, cutoff: float) -> tuple[float, float, float, bool]:
    """κ, c and ln Z of the best truncated power law, and whether it was found.

    ``unit`` is the mean of d and ``mean_bend`` that of e^d − 1 − d: with x = d/unit and t = (e^d − 1 − d)/mean_bend,
    both of mean one, the density of x is exp(−κ·x − c·t)/Z and −ln L per value is F = κ + c + ln Z(κ, c), which is
    convex. Newton's method, damped; ``slope`` and ``cutoff`` are a guess. It also ends where c falls below 1e-12: F is
    then that of the power law.
    """
    slope, cutoff = _start(slope, cutoff, unit, mean_bend)
    found = _moments(slope, cutoff, unit, mean_bend)
    for _ in range(_MOST_STEPS):
        norm, x_mean, t_mean, xx, xt, tt = found
        x_gap, t_gap = x_mean - 1.0, t_mean - 1.0
        area = xx * tt - xt * xt
        if not area > 0.0:
            break
        cutoff_step = max((xx * t_gap - xt * x_gap) / area, -0.9 * cutoff)  # c stays positive
        slope_step = (x_gap - xt * cutoff_step) / xx
        gain = slope_step * x_gap + cutoff_step * t_gap  # about twice the decrease of F in this step
        before = slope + cutoff + norm
        scale = 1.0
        for _ in range(_MOST_HALVINGS):
            new_slope, new_cutoff = slope + scale * slope_step, cutoff + scale * cutoff_step
            found = _moments(new_slope, new_cutoff, unit, mean_bend)
            # Near the end the gain is lost in the rounding of F, and the full step is the best one.
            if gain < _ENOUGH or new_slope + new_cutoff + found[0] <= before - 1e-4 * scale * gain:
                break
            scale *= 0.5
        else:
            break
        slope, cutoff = new_slope, new_cutoff
        if gain < _ENOUGH or cutoff < _ENOUGH:
            return slope, cutoff, found[0], True
    return slope, cutoff, found[0], False
