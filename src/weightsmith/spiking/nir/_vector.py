"""The test vector of a NIR file: the input, and the spike counts of our own simulator.

``NET.vector.npz`` beside ``NET.nir`` holds the input (spikes int8 of shape (images, steps, …), or float32 currents
(images, …) that flow at every step), for every population its spikes per image, the sums of the outputs, and the
digest of the NIR file. It is computed in float64.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.seeds import stream
from weightsmith.core.storage import file_digest, write_atomic
from weightsmith.data.formats.npz import read_arrays
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.simulation.responses import Responses
from weightsmith.spiking.simulation.simulate import simulate, simulate_trains
from weightsmith.spiking.simulation.sources import Draws, source_of

__all__ = ["Drive", "Vector", "drive_for", "read_vector", "run_drive", "vector_path", "write_vector"]

_IMAGES = 2  # if none are given
_ARRAYS = ("drive", "steps", "scores", "names", "spikes", "digest")


@dataclasses.dataclass(frozen=True, eq=False)
class Drive:
    """The input: spikes (images, steps, …), or currents (images, …) for ``steps`` steps."""

    values: NDArray[np.int8] | NDArray[np.float32]
    steps: int

    @property
    def images(self) -> int:
        """The number of inputs."""
        return len(self.values)

    def step(self, number: int) -> Tensor:
        """The input of one step as float32."""
        values = self.values[:, number] if self.values.dtype == np.int8 else self.values
        return torch.from_numpy(np.ascontiguousarray(values)).float()


@dataclasses.dataclass(frozen=True, eq=False)
class Vector:
    """A drive and the results of our simulator: spikes of each population per image, sums of the outputs."""

    drive: Drive
    spikes: dict[str, NDArray[np.int64]]
    scores: NDArray[np.float64]


def vector_path(path: Path) -> Path:
    """The path of the test vector of a NIR file."""
    return path.with_suffix(".vector.npz")


def drive_for(network: SpikingNetwork, x: Tensor | None, steps: int, seed: int) -> Drive:
    """Inputs encoded as the network does; without ``x``, random spikes of both signs with probability one in four."""
    if steps < 1:
        raise UsageError(f"steps must be at least 1, not {steps!r}")
    if x is None:
        drawn = stream(seed, "nir vector").random((_IMAGES, steps, *network.input_shape))
        return Drive(((drawn < 0.125).astype(np.int8) - (drawn > 0.875).astype(np.int8)), steps)
    source = source_of(network, x, seed, 0)
    if not isinstance(source, Draws):
        return Drive(source.x.float().numpy(), steps)
    trains = torch.stack([source.step(slice(None), step) for step in range(steps)], dim=1)
    return Drive(trains.to(torch.int8).numpy(), steps)


def run_drive(network: SpikingNetwork, drive: Drive) -> Responses:
    """The answers in float64."""
    if drive.values.dtype == np.int8:
        return simulate_trains(network, drive.values.astype(np.int8), precision="float64")
    plain = dataclasses.replace(network, card=Card(), encode=Constant())  # currents are encoded already
    return simulate(plain, torch.from_numpy(drive.values), drive.steps, precision="float64")


def write_vector(path: Path, vector: Vector) -> Path:
    """Write the vector of the NIR file ``path`` beside it; ``spikes`` are listed by the names in that file."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        drive=vector.drive.values,
        steps=np.int64(vector.drive.steps),
        scores=vector.scores,
        names=np.array(list(vector.spikes)),
        spikes=np.stack(list(vector.spikes.values())),
        digest=np.array(file_digest(path)),
    )
    return write_atomic(vector_path(path), file.getvalue())


def read_vector(path: Path) -> Vector:
    """The vector of the NIR file ``path``; one that belongs to another file is refused."""
    file = vector_path(path)
    drive, steps, scores, names, spikes, digest = read_arrays(file, _ARRAYS)
    if str(digest) != file_digest(path):
        raise FileRefused(file, f"does not belong to this {path.name}: export the network again")
    counted = drive.dtype == np.int8 and drive.ndim > 2
    if not (counted or drive.dtype == np.float32) or drive.size == 0 or not np.isfinite(drive).all():
        raise FileRefused(file, "its input is neither spikes nor currents")
    if steps.dtype != np.int64 or steps.shape != () or steps < 1 or (counted and drive.shape[1] != steps):
        raise FileRefused(file, "its number of steps does not fit its input")
    if names.dtype.kind != "U" or spikes.dtype != np.int64 or spikes.shape != (*names.shape, len(drive)):
        raise FileRefused(file, "does not have one count per population and image")
    if scores.dtype != np.float64 or scores.ndim != 2 or len(scores) != len(drive):
        raise FileRefused(file, "does not have one row of scores per image")
    return Vector(Drive(drive, int(steps)), dict(zip(names.tolist(), spikes, strict=True)), scores)
