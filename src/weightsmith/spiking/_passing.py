"""What a gate let pass, worked out from the spikes in front of it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import Gate, Shape

__all__ = ["Passing"]

_AT_ONCE = 1 << 22  # values that are looked at together


class Passing:
    """Follows a gate through a run: keeps how often each unit in front of it has fired, of the present images only."""

    def __init__(self, gate: Gate, shape: Shape) -> None:
        self.gate = gate
        self._space = shape[1:]
        self._images = np.empty(0, np.int64)
        self._counts = np.empty((0, 1, 1), np.float32)

    def passed(self, images: NDArray[np.int64], step: int, spikes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Of spikes (images, steps, positions, channels) in front of the gate those that leave it."""
        self._go_on(images, step, spikes)
        slab = max(1, _AT_ONCE // max(1, spikes[0].size))
        parts = [self._slab(slice(start, start + slab), spikes) for start in range(0, len(images), slab)]
        return np.concatenate(parts)

    def _go_on(self, images: NDArray[np.int64], step: int, spikes: NDArray[np.uint8]) -> None:
        if step == 0:
            self._counts = np.zeros((len(images), *spikes.shape[2:]), np.float32)
        elif not np.array_equal(images, self._images):  # some have ended
            places = {image: place for place, image in enumerate(self._images.tolist())}
            if any(image not in places for image in images.tolist()):
                raise UsageError(f"{self.gate.name}: images are shown from step {step} on; a gate needs all steps")
            self._counts = self._counts[[places[image] for image in images.tolist()]]
        self._images = np.array(images)

    def _slab(self, rows: slice, spikes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        fired = spikes[rows].astype(np.float32)
        counts = fired.cumsum(axis=1)
        counts += self._counts[rows, None]
        self._counts[rows] = counts[:, -1]
        images, steps, _, channels = fired.shape

        def as_images(values: NDArray[np.float32]) -> torch.Tensor:
            flat = torch.from_numpy(values).reshape(images * steps, *self._space, channels)
            return flat.permute(0, 3, 1, 2).contiguous()

        gate = self.gate
        _, leaders = functional.max_pool2d(
            as_images(counts), gate.kernel, gate.stride, gate.padding, return_indices=True
        )
        leaving = as_images(fired).flatten(2).gather(2, leaders.flatten(2))
        found: NDArray[np.uint8] = leaving.transpose(1, 2).to(torch.uint8).numpy()
        return found.reshape(images, steps, -1, channels)
