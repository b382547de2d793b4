"""IF and LIF of NIR as neurons of ours: what a membrane does in one step of length dt.

IF      v ← v + I                          r = 1 or r = 1/dt, both are read as this by all tools
LIF     v ← (1 − dt/τ)·v + (r·dt/τ)·I       one Euler step; v divided by its gain r·dt/τ is ours
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from weightsmith.spiking._nir_facts import Facts
from weightsmith.spiking._nir_fields import Fields
from weightsmith.spiking.graph import Neurons, Shape
from weightsmith.spiking.neurons import IF, LIF

__all__ = ["Membrane", "membrane_of", "neuron_for"]

_CLOSE = 1e-6  # τ is float32 in most files


@dataclasses.dataclass(frozen=True, eq=False)
class Membrane:
    """Threshold, leak and gain of every unit, as they follow from the file."""

    threshold: NDArray[np.float64]
    leak: NDArray[np.float64]
    resistance: NDArray[np.float64]

    def given_to(self, node: Neurons, neuron: IF | LIF) -> Neurons:
        """``node`` with the threshold, and with leaks of its own where they are not the neuron's."""
        own = bool((np.abs(self.leak - neuron.leak) > _CLOSE).any())
        leak = self.leak if own else np.full_like(self.leak, neuron.leak)
        gain = np.where(leak < 1, self.resistance * (1 - leak), 1.0)
        threshold = _compact(self.threshold / gain)
        return dataclasses.replace(node, threshold=threshold, leak=_compact(leak) if own else None)


def membrane_of(kind: str, fields: Fields, shape: Shape, dt: float) -> Membrane:
    """What the fields of an IF or LIF mean; a reset or leak to another potential than 0 is refused."""
    threshold, resistance = fields.per_unit("v_threshold", shape), fields.per_unit("r", shape)
    for key in ("v_reset", "v_leak") if kind == "LIF" else ("v_reset",):
        if fields.has(key) and fields.per_unit(key, shape).any():
            fields.refuse(f"has a {key} that is not 0")
    if (threshold <= 0).any() or (resistance <= 0).any():
        fields.refuse("has a threshold or a resistance that is not positive")
    if kind == "IF":
        if not any(np.allclose(resistance, value, rtol=_CLOSE, atol=0) for value in (1, 1 / dt)):
            fields.refuse(f"has a resistance that is neither 1 nor 1/dt (dt = {dt:g})")
        return Membrane(threshold, np.ones(shape), resistance)
    tau = fields.per_unit("tau", shape)
    if (tau <= dt).any():
        fields.refuse(f"has a time constant of {tau.min():g}, not above the step dt = {dt:g}")
    return Membrane(threshold, 1 - dt / tau, resistance)


def neuron_for(membranes: Iterable[Membrane], facts: Facts) -> IF | LIF:
    """The neuron that our own file names, or the one with the leak of the first population that leaks."""
    reset = facts.reset
    if facts.neuron is not None and facts.neuron.reset == reset:
        return facts.neuron
    leaks = [float(membrane.leak.reshape(-1)[0]) for membrane in membranes]
    leaky = next((leak for leak in leaks if leak < 1), None)
    return IF(reset=reset) if leaky is None else LIF(leaky, reset=reset)


def _compact(values: NDArray[np.float64]) -> torch.Tensor:
    """One value per channel where that is all there is."""
    rows = values.reshape(len(values), -1)
    return torch.tensor(rows[:, 0] if (rows == rows[:, :1]).all() else values)
