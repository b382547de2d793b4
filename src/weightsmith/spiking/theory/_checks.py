"""Argument checks of the theory functions: weights, rates, leaks and times."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError

__all__ = [
    "ascending",
    "check_events",
    "check_fit",
    "check_leak",
    "check_reset",
    "check_tau",
    "numbers",
    "one_neuron",
    "rates_of",
    "signed_inputs",
    "whole_steps",
]

_MOST_EVENTS = 10**8  # of one trial; more suggests a mistyped duration


def numbers(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """``values`` as a new array of finite numbers."""
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} must be numbers, not {values!r}") from error
    if not np.isfinite(array).all():
        raise UsageError(f"{what} hold NaN or infinity: they must be finite numbers")
    return array


def rates_of(rates: ArrayLike) -> NDArray[np.float64]:
    """Input rates λ ≥ 0."""
    array = numbers(rates, "rates")
    if (array < 0).any():
        raise OptionError(f"rates must be ≥ 0, not {array.min():g}; the sign belongs to the weight")
    return array


def signed_inputs(inputs: ArrayLike) -> NDArray[np.float64]:
    """Inputs x of signed Bernoulli spikes, −1 ≤ x ≤ 1."""
    array = numbers(inputs, "inputs")
    if (np.abs(array) > 1).any():
        worst = array.flat[np.abs(array).argmax()]
        raise OptionError(f"inputs must be ≥ -1 and ≤ 1, not {worst:g}: |x| is the probability of a spike in a step")
    return array


def check_fit(weights: NDArray[np.float64], inputs: NDArray[np.float64], what: str) -> None:
    """Refuse weights (…, inputs) and inputs (…, inputs) whose shapes do not match."""
    if weights.ndim == 0 or inputs.ndim == 0 or not weights.shape[-1]:
        raise DataMismatch(
            f"weights and {what} are lists with one value per input, not {weights.shape}, {inputs.shape}"
        )
    if weights.shape[-1] != inputs.shape[-1]:
        raise DataMismatch(f"weights are for {weights.shape[-1]} inputs, {what} for {inputs.shape[-1]}")
    try:
        np.broadcast_shapes(weights.shape, inputs.shape)
    except ValueError as error:
        raise DataMismatch(f"weights {weights.shape} and {what} {inputs.shape} do not match") from error


def one_neuron(weights: NDArray[np.float64], inputs: NDArray[np.float64], what: str) -> None:
    """Refuse anything but one weight and one input each."""
    check_fit(weights, inputs, what)
    if weights.ndim != 1 or inputs.ndim != 1:
        raise DataMismatch(f"one neuron is simulated at a time: weights {weights.shape}, {what} {inputs.shape}")


def check_leak(leak: float) -> float:
    """The factor per step, 0 < β ≤ 1."""
    if not 0 < leak <= 1:
        raise OptionError(f"leak must be > 0 and ≤ 1, not {leak!r}: it is the factor per step, 1 means no leak")
    return float(leak)


def check_tau(tau: float) -> float:
    """The time constant, τ > 0; infinity means no leak."""
    if not tau > 0:
        raise OptionError(f"tau must be > 0, not {tau!r}: it is the time constant of the membrane, inf means no leak")
    return float(tau)


def check_reset(reset: str) -> bool:
    """Whether the reset is hard."""
    if reset not in ("hard", "soft"):
        raise UnknownName("reset", reset, ["hard", "soft"])
    return reset == "hard"


def check_events(expected: float) -> None:
    """Refuse more input spikes than fit into memory at once."""
    if expected > _MOST_EVENTS:
        raise OptionError(f"{expected:.2g} input spikes are expected, at most {_MOST_EVENTS:.0e}: shorten the time")


def whole_steps(steps: ArrayLike) -> NDArray[np.float64]:
    """Numbers of steps, each whole and ≥ 0."""
    array = numbers(steps, "steps")
    if (array < 0).any() or (array != np.floor(array)).any():
        raise OptionError(f"steps must be whole numbers ≥ 0, not {steps!r}")
    return array


def ascending(values: NDArray[np.float64], what: str) -> NDArray[np.float64]:
    """One value as a list of one, or a list in ascending order."""
    listed = np.atleast_1d(values)
    if listed.ndim != 1 or not listed.size or (np.diff(listed) < 0).any():
        raise UsageError(f"{what} must be one number or a list in ascending order, not {values.tolist()!r}")
    return listed
