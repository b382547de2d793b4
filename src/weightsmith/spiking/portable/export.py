"""Write a spiking network as a plain torch module: one Python file and its weights, checked spike for spike.

The file is a copy of ``_module.py`` in this folder, which imports nothing of this package; the weights are those of
:func:`~weightsmith.spiking.files.save_spiking`. The written module is loaded and run in float64, and every spike
of every population is compared with our own engine.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.core.seeds import pinned_threads, torch_stream
from weightsmith.core.storage import write_atomic
from weightsmith.spiking.files import checked_spiking, save_spiking
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.portable import _module as template
from weightsmith.spiking.simulation.simulate import simulate
from weightsmith.spiking.simulation.sources import Draws, source_of

__all__ = ["PopulationCheck", "TorchExport", "export_torch"]

_IMAGES = 2


@dataclasses.dataclass(frozen=True, eq=False)
class PopulationCheck(Record):
    """Spikes of a population over all images and steps, and the number of them that differ."""

    name: str
    ours: int
    theirs: int
    differ: int


@dataclasses.dataclass(frozen=True, eq=False)
class TorchExport(Record):
    """The files that were written, and the comparison of the module with our engine.

    ``scores`` is the largest difference between output sums, as a share of the largest sum.
    """

    file: str
    weights: str
    neuron: str
    images: int
    steps: int
    populations: tuple[PopulationCheck, ...]
    scores: float

    @property
    def differ(self) -> int:
        """Spikes that differ, in all populations."""
        return sum(each.differ for each in self.populations)


def export_torch(
    network: SpikingNetwork, path: str | Path, *, x: Tensor | None = None, steps: int = 8, seed: int = 0
) -> TorchExport:
    """Write ``network`` to ``path`` (``.py``) and its weights beside it (``.safetensors``), and compare the spikes.

    The comparison runs ``steps`` steps on the inputs ``x`` as they come from the data, or on two random ones.
    """
    checked_spiking(network, "export_torch")
    path = Path(path)
    if path.suffix != ".py":
        raise UsageError(f"{path}: a torch module is written to a file that ends in .py")
    if steps < 1:
        raise UsageError(f"steps must be at least 1, not {steps!r}")
    if x is None:
        x = torch.rand(_IMAGES, *network.input_shape, generator=torch_stream(seed, "torch export"))
    weights = save_spiking(network, path.with_suffix(".safetensors"))
    write_atomic(path, _source(weights.name))
    watch = _Spikes()
    ours = simulate(network, x, steps, seed=seed, precision="float64", observers=(watch,))
    with pinned_threads(1):
        scores, spikes = _loaded(path, weights)(_inputs(network, x, steps, seed), steps)
    far = np.abs(scores.numpy() - ours.scores).max() / max(float(np.abs(ours.scores).max()), 1e-30)
    checks = tuple(_compared(name, watch.whole(name, len(x), steps), _shown(spikes[name])) for name in spikes)
    return TorchExport(path.name, weights.name, str(network.neuron), len(x), steps, checks, float(far))


def _source(weights: str) -> str:
    """The text of the module, naming its weights in the example."""
    text = Path(template.__file__).read_text(encoding="utf-8")
    return text.replace('"network.safetensors"', f'"{weights}"')


def _loaded(path: Path, weights: Path) -> Any:
    """The module loaded from the written file, in float64."""
    spec = importlib.util.spec_from_file_location(f"_written_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.SpikingModule(weights).double()


def _inputs(network: SpikingNetwork, x: Tensor, steps: int, seed: int) -> Tensor:
    """The data unchanged; for Poisson input the spikes drawn for every step."""
    source = source_of(network, x, seed, 0)
    if not isinstance(source, Draws):
        return x
    return torch.stack([source.step(slice(None), step) for step in range(steps)], dim=1)


def _compared(name: str, ours: NDArray[Any], theirs: NDArray[Any]) -> PopulationCheck:
    return PopulationCheck(name, int((ours != 0).sum()), int((theirs != 0).sum()), int((ours != theirs).sum()))


def _shown(spikes: Tensor) -> NDArray[Any]:
    """(images, steps, channels, …) as observers receive them: (images, steps, positions, channels)."""
    rows = spikes.flatten(3).transpose(2, 3) if spikes.dim() > 3 else spikes[:, :, None]
    found: NDArray[Any] = rows.numpy()
    return found


class _Spikes:
    """An observer that keeps all spikes."""

    membranes = inputs = False

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[NDArray[np.int64], int, NDArray[Any]]]] = {}

    def see(
        self,
        population: str,
        images: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Keep a copy."""
        del membranes
        self._parts.setdefault(population, []).append((images.copy(), step, spikes.astype(np.int8)))

    def whole(self, name: str, images: int, steps: int) -> NDArray[np.int8]:
        """All spikes of a population."""
        parts = self._parts[name]
        found = np.zeros((images, steps, *parts[0][2].shape[2:]), np.int8)
        for rows, step, spikes in parts:
            found[rows, step : step + spikes.shape[1]] = spikes
        return found
