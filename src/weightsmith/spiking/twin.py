"""The step-by-step twin as an engine: one torch step after the other, on any device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.observing import Observer
from weightsmith.spiking.sources import Currents, Source
from weightsmith.spiking.stepping import State, Stepper
from weightsmith.spiking.tally import INPUTS

__all__ = ["StepEngine"]

_BLOCK, _CHUNK = 64, 16


class StepEngine:
    """Chunks of a run, computed by a :class:`Stepper`; integers (int8) are exact in float64."""

    block, chunk = _BLOCK, _CHUNK

    def __init__(self, network: SpikingNetwork, source: Source, precision: Precision, device: str) -> None:
        try:
            place = torch.device(device)
        except RuntimeError as error:
            raise UsageError(f"device {device!r} is none that torch knows") from error
        self._stepper = Stepper(network, torch.float32 if precision == "float32" else torch.float64, str(place))
        self._network, self._source = network, source
        self._rows = torch.empty(0, dtype=torch.int64)
        self._state = State({}, {})

    def begin(self, rows: NDArray[np.int64]) -> None:
        """A new block with clean membranes."""
        self._rows = torch.from_numpy(rows)
        self._state = self._stepper.begin(len(rows))

    def advance(
        self, step: int, count: int, observers: Sequence[Observer]
    ) -> tuple[NDArray[np.floating], dict[str, NDArray[np.int64]]]:
        """The next ``count`` steps."""
        outputs: list[Tensor] = []
        counts: dict[str, list[Tensor]] = {node.name: [] for node in self._network.populations}
        if not isinstance(self._source, Currents):
            counts[INPUTS] = []
        for now in range(step, step + count):
            entering = self._source.step(self._rows, now).to(self._stepper.device)
            values, tested = self._stepper.step(self._state, entering)
            values[INPUTS] = entering
            outputs.append(values[self._network.nodes[-1].name])
            for name, kept in counts.items():
                kept.append((values[name] != 0).flatten(1).sum(dim=1))
            for observer in observers:
                if observer.inputs and INPUTS in counts:
                    observer.see(INPUTS, self._rows.numpy(), now, _shown(entering).astype(np.int8), None)
            for node in self._network.populations:
                for observer in observers:
                    wanted = _shown(tested[node.name]) if observer.membranes else None
                    fired = _shown(values[node.name]).astype(np.uint8)
                    observer.see(node.name, self._rows.numpy(), now, fired, wanted)
        stacked = {name: torch.stack(kept, dim=1).cpu().numpy() for name, kept in counts.items()}
        return torch.stack(outputs, dim=1).cpu().numpy(), stacked

    def keep(self, going: NDArray[np.bool_]) -> None:
        """Go on with these rows only."""
        mask = torch.from_numpy(going)
        self._rows = self._rows[mask]
        place = mask.to(self._stepper.device)
        self._state = State(
            {name: value[place] for name, value in self._state.membranes.items()},
            {name: value[place] for name, value in self._state.counts.items()},
        )

    def paths(self) -> dict[str, str]:
        """Every layer step by step."""
        return {node.name: "steps" for node in self._network.synapses}


def _shown(values: Tensor) -> NDArray[np.floating]:
    """(images, channels, …) as (images, 1, positions, channels)."""
    array: NDArray[np.floating] = (
        values.flatten(2).transpose(1, 2).cpu().numpy() if values.dim() > 2 else values[:, None].cpu().numpy()
    )
    return array[:, None]
