"""Mean and variance of a membrane potential below threshold, and the probability that it exceeds one.

**Shot noise**, in continuous time (J. M. Allred and K. Roy, *L⁴-norm weight adjustments for converted spiking neural
networks*, eqs. 1 and 2). Input i sends Poisson spikes at rate λᵢ, each adds wᵢ to the potential V, and V decays with
the time constant τ. Without a threshold, a time t after V = 0,

    E[V]   = τ (w·λ) (1 − e^(−t/τ))             (1)
    Var[V] = ½ τ (λ·w∘w) (1 − e^(−2t/τ))        (2)

**Steps**, as in the simulation of a network. In every step input i spikes with probability |xᵢ|, with the sign of xᵢ,
and V ← β·V + I with the leak β. After t steps

    E[V]   = (w·x) (1 − βᵗ)/(1 − β)
    Var[V] = Σ w² (|x| − x²) (1 − β²ᵗ)/(1 − β²)

A Bernoulli spike has the variance |x| − x², a Poisson spike one equal to its mean: at |x| = 1 there is no noise.
Without leak the last factors are t. The two agree where steps are short: x = λ·Δ, β = e^(−Δ/τ), Δ → 0.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.spiking.theory._checks import (
    check_fit,
    check_leak,
    check_tau,
    numbers,
    rates_of,
    signed_inputs,
    whole_steps,
)

__all__ = [
    "Lognormal",
    "Moments",
    "exceeds",
    "leak_of",
    "lognormal",
    "shot_noise",
    "std_bound",
    "step_noise",
    "time_constant",
]


class Moments(NamedTuple):
    """Mean and variance of a membrane potential: numbers for one neuron at one time, arrays for several."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]

    @property
    def std(self) -> NDArray[np.float64]:
        """The standard deviation."""
        return np.sqrt(self.variance)


class Lognormal(NamedTuple):
    """The parameters of a lognormal distribution: ln V is normal with mean ``mu`` and standard deviation ``sigma``."""

    mu: NDArray[np.float64]
    sigma: NDArray[np.float64]


def shot_noise(weights: ArrayLike, rates: ArrayLike, tau: float, time: ArrayLike | None = None) -> Moments:
    """Eqs. 1 and 2: moments of the potential a ``time`` after it was 0, or in the steady state if that is None.

    ``weights`` and ``rates`` have one value per input along their last axis; other axes are neurons and input patterns
    and follow NumPy's broadcasting rules. Axes of ``time`` come last in the result. ``tau`` may be infinite (no leak):
    the moments are then w·λ·t and (λ·w∘w)·t, and there is no steady state.

    The two neurons of the document's Figure 1, which differ in variance alone:

    >>> mean, variance = shot_noise([[2.0], [1.0]], [[1.0], [2.0]], tau=1)
    >>> mean.tolist(), variance.tolist()
    ([2.0, 2.0], [2.0, 1.0])
    """
    w, lam, tau = numbers(weights, "weights"), rates_of(rates), check_tau(tau)
    check_fit(w, lam, "rates")
    mean, variance = (w * lam).sum(-1), (w * w * lam).sum(-1)
    return Moments(np.multiply.outer(mean, _reach(tau, time)), np.multiply.outer(variance, _reach(tau / 2, time)))


def step_noise(weights: ArrayLike, inputs: ArrayLike, leak: float, steps: ArrayLike | None = None) -> Moments:
    """Eqs. 1 and 2 in discrete time, for signed Bernoulli spikes: moments after ``steps``, or in the steady state.

    Axes are those of :func:`shot_noise`, with ``inputs`` x between −1 and 1 in place of rates.

    >>> mean, variance = step_noise([1.0, 2.0], [0.5, -0.25], leak=0.5, steps=[1, 2])
    >>> mean.tolist(), variance.tolist()
    ([0.0, 0.0], [1.0, 1.25])
    """
    w, x, leak = numbers(weights, "weights"), signed_inputs(inputs), check_leak(leak)
    check_fit(w, x, "inputs")
    mean, variance = (w * x).sum(-1), (w * w * (np.abs(x) - x * x)).sum(-1)
    return Moments(
        np.multiply.outer(mean, _series(leak, steps, 1)), np.multiply.outer(variance, _series(leak, steps, 2))
    )


def time_constant(leak: float) -> float:
    """τ = −1/ln β in steps: how long a potential with ``leak`` β takes to fall to 1/e; infinite for β = 1.

    >>> round(time_constant(0.95), 3), time_constant(1.0)
    (19.496, inf)
    """
    return math.inf if check_leak(leak) == 1 else -1 / math.log(leak)


def leak_of(tau: float) -> float:
    """β = e^(−1/τ): the factor per step of a membrane with time constant ``tau`` in steps.

    >>> round(leak_of(time_constant(0.95)), 12), leak_of(float("inf"))
    (0.95, 1.0)
    """
    leak = math.exp(-1 / check_tau(tau))
    if leak == 0:
        raise OptionError(f"tau of {tau!r} steps is too short: the potential is 0 after one step")
    return leak


def std_bound(weights: ArrayLike, rates: ArrayLike, tau: float, time: ArrayLike | None = None) -> NDArray[np.float64]:
    """The upper bound of the standard deviation of eq. 2 by the L4 norm of the weights (eq. 3).

        std ≤ sqrt(½ τ ‖λ‖₂ (1 − e^(−2t/τ))) · ‖w‖₄

    Eq. 2 has λ·w∘w = ‖λ‖₂ ‖w∘w‖₂ cos(λ, w∘w), and ‖w∘w‖₂ = ‖w‖₄². The document calls std proportional to ‖w‖₄; this
    holds up to the cosine, which is 1 if the rates are proportional to w∘w and otherwise depends on the input.

    >>> float(std_bound([2.0], [1.0], tau=1)) == 2**0.5
    True
    """
    import torch

    from weightsmith.networks.layers.norms import entrywise

    w, lam, tau = numbers(weights, "weights"), rates_of(rates), check_tau(tau)
    check_fit(w, lam, "rates")
    norm = entrywise(torch.tensor(w), 4, dim=-1).numpy()
    top = np.max(
        lam, axis=-1, keepdims=True, initial=np.finfo(np.float64).tiny
    )  # squares of small rates must not underflow
    largest = np.sqrt(top[..., 0] * np.linalg.norm(lam / top, axis=-1)) * norm
    bound: NDArray[np.float64] = np.multiply.outer(largest, np.sqrt(_reach(tau / 2, time)))
    return bound


def lognormal(mean: ArrayLike, variance: ArrayLike) -> Lognormal:
    """The lognormal distribution of that mean m > 0 and variance s².

        σ² = ln(1 + s²/m²)        μ = ln m − σ²/2

    The document takes it for the distribution of a potential. It is an approximation: shot noise of equal weights has
    the skewness 4/3·s/m, a lognormal 3·s/m + (s/m)³, a normal distribution none.

    >>> mu, sigma = lognormal(2.0, 2.0)
    >>> round(float(mu), 4), round(float(sigma), 4)
    (0.4904, 0.6368)
    """
    middle, spread = _moments(mean, variance)
    if (middle <= 0).any():
        raise UsageError(
            f"a lognormal potential has a mean > 0, not {middle.min():g}; if it may be negative use kind='normal'"
        )
    squared = np.log1p(spread / middle**2)
    return Lognormal(np.log(middle) - squared / 2, np.sqrt(squared))


def exceeds(
    threshold: ArrayLike, mean: ArrayLike, variance: ArrayLike, kind: Literal["lognormal", "normal"] = "lognormal"
) -> NDArray[np.float64]:
    """The probability that a potential of that mean and variance is above ``threshold``.

    Of two potentials with equal means below the threshold, the one with the larger variance exceeds it more often:

    >>> [round(float(exceeds(4, 2, variance)), 3) for variance in (2, 1)]
    [0.08, 0.044]
    """
    from scipy.special import ndtr

    if kind not in ("lognormal", "normal"):
        raise UnknownName("distribution", kind, ["lognormal", "normal"])
    level, (middle, spread) = numbers(threshold, "thresholds"), _moments(mean, variance)
    if kind == "lognormal":
        centre, deviation = lognormal(middle, spread)
        position = np.log(level, where=level > 0, out=np.full_like(level, -np.inf))
    else:
        centre, deviation, position = middle, np.sqrt(spread), level
    still = deviation == 0
    above = np.where(still, middle > level, ndtr((centre - position) / np.where(still, 1.0, deviation)))
    return np.asarray(above, np.float64)[()]


def _moments(mean: ArrayLike, variance: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    middle, spread = numbers(mean, "means"), numbers(variance, "variances")
    if (spread < 0).any():
        raise OptionError(f"variances must be ≥ 0, not {spread.min():g}")
    return middle, spread


def _reach(tau: float, time: ArrayLike | None) -> NDArray[np.float64]:
    """τ (1 − e^(−t/τ)): the effective time over which the input is summed; t itself without leak."""
    if time is None:
        if math.isinf(tau):
            raise OptionError("without leak (tau = inf) there is no steady state: give a time, or a finite tau")
        return np.asarray(tau)
    t = numbers(time, "times")
    if (t < 0).any():
        raise OptionError(f"times must be ≥ 0, not {t.min():g}")
    return t if math.isinf(tau) else -tau * np.expm1(-t / tau)


def _series(leak: float, steps: ArrayLike | None, power: int) -> NDArray[np.float64]:
    """Σ β^(power·k) over the steps k = 0 … t−1; t itself without leak."""
    if steps is None:
        if leak == 1:
            raise OptionError("without leak (leak = 1) there is no steady state: give a number of steps, or a leak < 1")
        return np.asarray(-1 / math.expm1(power * math.log(leak)))
    t = whole_steps(steps)
    # expm1 and log: 1 − βᵗ loses digits if the leak is close to 1.
    return t if leak == 1 else np.expm1(power * t * math.log(leak)) / math.expm1(power * math.log(leak))
