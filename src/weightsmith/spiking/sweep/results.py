"""The results of a sweep: the accuracy of every setting, and for each neuron the best with and without L4."""

from __future__ import annotations

import dataclasses
from typing import Any

from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Comparison, Interval

__all__ = ["Chosen", "Setting", "SettingResult", "SpikeSweep"]


@dataclasses.dataclass(frozen=True, eq=False)
class Setting(Record):
    """One setting: leak, reset, threshold factor, and smoothing of the L4 adjustment (None: not adjusted)."""

    leak: float
    reset: str
    factor: float
    smoothing: float | None

    @property
    def key(self) -> str:
        """Its name in journals and tables."""
        return f"leak={self.leak} reset={self.reset} factor={self.factor} smoothing={_shown(self.smoothing)}"


@dataclasses.dataclass(frozen=True, eq=False)
class SettingResult(Record):
    """The result of a setting on the training images it saw: right answers after each requested number of steps.

    ``seen`` is less than all if it was dropped.
    """

    setting: Setting
    seen: int
    correct: tuple[int, ...]
    lost: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Chosen(Record):
    """For one neuron and number of steps: the best settings, chosen on training images, and their test accuracy.

    ``gain`` compares adjusted with baseline on the same test images and spikes (McNemar); ``cost`` compares the better
    of the two, chosen on training images, with the network. All counts are of the same test images.
    """

    leak: float
    reset: str
    steps: int
    baseline: Setting
    adjusted: Setting | None
    baseline_test: Interval
    adjusted_test: Interval | None
    gain: Comparison | None
    cost: Comparison


@dataclasses.dataclass(frozen=True, eq=False)
class SpikeSweep(Record):
    """A finished sweep."""

    settings: dict[str, Any]
    network: str
    split: str
    train_images: int
    test_images: int
    plain: Interval
    steps: tuple[int, ...]
    table: tuple[SettingResult, ...]
    chosen: tuple[Chosen, ...]
    notes: tuple[str, ...]
    origin: Origin


def _shown(smoothing: float | None) -> str:
    return "none" if smoothing is None else str(smoothing)
