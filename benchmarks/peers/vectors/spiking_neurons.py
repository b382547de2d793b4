"""Spike trains of one neuron under a fixed current, in four simulators.

Each is set to v ← leak·v + I, a spike at the threshold 1, then v ← v − 1 (soft) or v ← 0 (hard). A train is a text
with one digit per step: the number of spikes in it. Two simulators have more than one meaning of a soft reset:
sinabs gives several spikes per step by default; snnTorch subtracts at the next step from the leaked membrane
(``reset_delay``, its default), or at once but a second time if the rest is still above the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import snntorch
import torch
from norse.torch import IAFFeedForwardState, IAFParameters, LIFBoxCell, LIFBoxParameters
from norse.torch.functional.iaf import iaf_feed_forward_step
from norse.torch.functional.reset import reset_subtract, reset_value
from sinabs import activation, layers
from spikingjelly.activation_based import neuron
from torch import Tensor

from benchmarks.peers.inputs import weights

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("norse", "numpy", "sinabs", "snntorch", "spikingjelly", "torch")

# 1 − leak is a power of two, so that a simulator which multiplies by it and one which divides agree to the bit.
LEAK = 0.875
STEPS = 64


def vectors() -> dict[str, Any]:
    """The current, the trains per setting and simulator, and who fires when the membrane equals the threshold."""
    current = _current()
    trains: dict[str, dict[str, str]] = {}
    at_threshold: dict[str, dict[str, int]] = {}
    for setting, simulators in _simulators().items():
        # A fresh neuron for each run, since most of them keep their membrane.
        trains[setting] = {name: _digits(build()(current)) for name, build in simulators.items()}
        at_threshold[setting] = {
            name: int(build()(torch.ones(1, dtype=torch.float64))[0]) for name, build in simulators.items()
        }
    return {
        "current": current.tolist(),
        "fires_at_threshold": at_threshold,
        "leak": LEAK,
        "threshold": 1.0,
        "trains": trains,
    }


def _current() -> Tensor:
    """Between −0.33 and 1 for most steps, every ninth 1.5 more, so that a soft reset leaves more than a threshold.

    The 3/1000 keep the membrane off the threshold: sums of multiples of 1/64 would meet it exactly.
    """
    noise = torch.from_numpy(weights(STEPS, salt=22, span=42))
    burst = torch.tensor([1.5 if step % 9 == 4 else 0.0 for step in range(STEPS)], dtype=torch.float64)
    return noise + 0.328125 + 0.003 + burst


_Run = Callable[[Tensor], Tensor]


def _simulators() -> dict[str, dict[str, Callable[[], _Run]]]:
    return {
        "if_hard": {
            "norse": _norse_iaf,
            "sinabs": lambda: _sinabs(None, activation.SingleSpike, activation.MembraneReset()),
            "snntorch": lambda: _snntorch(1.0, "zero"),
            "spikingjelly": lambda: _spikingjelly(neuron.IFNode(v_reset=0.0)),
        },
        "if_soft": {
            "sinabs": lambda: _sinabs(None, activation.SingleSpike, activation.MembraneSubtract()),
            "sinabs_several_spikes_per_step": lambda: _sinabs(
                None, activation.MultiSpike, activation.MembraneSubtract()
            ),
            "snntorch_reset_delay": lambda: _snntorch(1.0, "subtract", delay=True),
            "snntorch_no_reset_delay": lambda: _snntorch(1.0, "subtract"),
            "spikingjelly": lambda: _spikingjelly(neuron.IFNode(v_reset=None)),
        },
        "lif_hard": {
            "norse": lambda: _norse_box(reset_value),
            "sinabs": lambda: _sinabs(LEAK, activation.SingleSpike, activation.MembraneReset()),
            "snntorch": lambda: _snntorch(LEAK, "zero"),
            "spikingjelly": lambda: _spikingjelly(_lif_node(0.0)),
        },
        "lif_soft": {
            "norse": lambda: _norse_box(reset_subtract),
            "sinabs": lambda: _sinabs(LEAK, activation.SingleSpike, activation.MembraneSubtract()),
            "snntorch_reset_delay": lambda: _snntorch(LEAK, "subtract", delay=True),
            "snntorch_no_reset_delay": lambda: _snntorch(LEAK, "subtract"),
            "spikingjelly": lambda: _spikingjelly(_lif_node(None)),
        },
    }


def _digits(spikes: Tensor) -> str:
    return "".join(str(int(count)) for count in spikes)


def _spikingjelly(node: Any) -> _Run:
    return lambda current: torch.stack([node(value) for value in current])


def _lif_node(reset: float | None) -> Any:
    return neuron.LIFNode(tau=1 / (1 - LEAK), decay_input=False, v_reset=reset)


def _snntorch(leak: float, reset: str, delay: bool = False) -> _Run:
    cell = snntorch.Leaky(beta=leak, reset_mechanism=reset, reset_delay=delay)

    def run(current: Tensor) -> Tensor:
        membrane, spikes = torch.zeros(1, dtype=current.dtype), []
        for value in current:
            spike, membrane = cell(value.reshape(1), membrane)
            spikes.append(spike[0])
        return torch.stack(spikes)

    return run


def _sinabs(leak: float | None, spike: Any, reset: Any) -> _Run:
    """Without ``norm_input=False`` its LIF multiplies the current by 1 − leak."""
    options = {"spike_fn": spike, "reset_fn": reset}
    if leak is None:
        layer = layers.IAF(**options)
    else:
        layer = layers.LIF(tau_mem=-1 / math.log(leak), norm_input=False, **options)
    return lambda current: layer(current.float().reshape(1, -1, 1)).reshape(-1)


def _norse_iaf() -> _Run:
    def run(current: Tensor) -> Tensor:
        state, spikes = IAFFeedForwardState(v=torch.zeros((), dtype=current.dtype)), []
        for value in current:
            spike, state = iaf_feed_forward_step(value, state, IAFParameters())
            spikes.append(spike)
        return torch.stack(spikes)

    return run


def _norse_box(reset: Any) -> _Run:
    """One Euler step of length 1 − leak; the current is divided by it beforehand."""
    cell = LIFBoxCell(LIFBoxParameters(tau_mem_inv=torch.tensor(1.0), reset_method=reset), dt=1 - LEAK)

    def run(current: Tensor) -> Tensor:
        state, spikes = None, []
        for value in current / (1 - LEAK):
            spike, state = cell(value.reshape(1), state)
            spikes.append(spike[0])
        return torch.stack(spikes)

    return run
