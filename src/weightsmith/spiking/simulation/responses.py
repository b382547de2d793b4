"""The responses of a spiking network: answers after every step for every image, and spike counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNDECIDED", "Responses"]

UNDECIDED = -1  # in answers: no spike has reached the output yet


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Responses:
    """Answers after each step and spike counts of the populations.

    ``answers[i, t]`` is the class with the largest sum for image i after step t + 1, or ``UNDECIDED`` while all sums
    are zero. ``scores[i, c]`` is the sum at the last step. ``spikes_per_step[name][t]`` counts the spikes of a
    population over all images, ``spikes_per_image[name][i]`` over all steps; ``inputs_per_step`` counts the input
    spikes (None for constant currents). ``ended[i]`` is the number of steps image i was run for: fewer with an early
    exit, after which its answer stays.
    """

    steps: int
    answers: NDArray[np.int16]
    scores: NDArray[np.float64]
    ended: NDArray[np.int32]
    units: dict[str, int]
    spikes_per_step: dict[str, NDArray[np.int64]]
    spikes_per_image: dict[str, NDArray[np.int64]]
    inputs_per_step: NDArray[np.int64] | None
    paths: dict[str, str]

    @classmethod
    def joined(cls, parts: Sequence[Responses]) -> Responses:
        """The responses to all images, from those to parts of them in order."""
        first, names = parts[0], parts[0].units
        inputs = [part.inputs_per_step for part in parts if part.inputs_per_step is not None]
        paths: dict[str, set[str]] = {}
        for part in parts:
            for name, path in part.paths.items():
                paths.setdefault(name, set()).update(path.split(" and "))
        return cls(
            steps=first.steps,
            answers=np.concatenate([part.answers for part in parts]),
            scores=np.concatenate([part.scores for part in parts]),
            ended=np.concatenate([part.ended for part in parts]),
            units=first.units,
            spikes_per_step={name: sum(part.spikes_per_step[name] for part in parts) for name in names},  # type: ignore[misc]
            spikes_per_image={name: np.concatenate([part.spikes_per_image[name] for part in parts]) for name in names},
            inputs_per_step=sum(inputs[1:], inputs[0]) if inputs else None,
            paths={name: " and ".join(sorted(kinds)) for name, kinds in paths.items()},
        )

    def __repr__(self) -> str:
        return f"Responses({self.images} images, {self.steps} steps, {sum(self.spikes().values()):,} spikes)"

    @property
    def images(self) -> int:
        """The number of images."""
        return len(self.answers)

    def correct(self, labels: NDArray[np.integer]) -> NDArray[np.bool_]:
        """(images, steps): whether the answer after each step is right."""
        return np.asarray(self.answers == np.asarray(labels)[:, None])

    def spikes(self) -> dict[str, int]:
        """All spikes of each population."""
        return {name: int(counts.sum()) for name, counts in self.spikes_per_step.items()}

    def rates(self) -> dict[str, float]:
        """Spikes per neuron and step, over the steps that were run."""
        run = int(self.ended.sum())
        return {name: count / (run * self.units[name]) for name, count in self.spikes().items()}
