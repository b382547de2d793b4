"""The data containers: a Split is inputs with their classes, Data are up to three splits.

Pixels stay uint8 ``(n, c, h, w)`` until a network's normalisation makes floats of them, so a data set takes a quarter
of the memory and every network brings its own normalisation. Table rows are floats ``(n, f)``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.records import digest_of
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.splits import group_split, stratified_split

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["SPLITS", "Data", "Split"]

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Inputs ``x`` (uint8 or floats; images ``(n, c, h, w)`` or rows ``(n, f)``) and their classes ``y`` (int64)."""

    x: Tensor
    y: Tensor
    groups: Tensor | None = None
    """A number for each row: rows with the same one (of a person, a recording …) are never divided."""

    def __post_init__(self) -> None:
        import torch

        if self.groups is not None and self.groups.shape != self.y.shape:
            raise DataMismatch(f"{len(self.y)} rows need as many groups, not {tuple(self.groups.shape)}")

        if self.x.ndim not in (2, 4) or 0 in self.x.shape:
            raise DataMismatch(
                f"inputs must be rows (n, features) or images (n, channels, height, width), not {tuple(self.x.shape)}"
                + ("; grey images get their channel by x[:, None], sequences go in as rows" if self.x.ndim == 3 else "")
            )
        if self.x.dtype != torch.uint8 and not self.x.is_floating_point():
            raise DataMismatch(f"inputs must be uint8 pixels or floats, not {self.x.dtype}")
        if self.y.dtype != torch.int64 or self.y.shape != self.x.shape[:1]:
            raise DataMismatch(
                f"{len(self.x)} inputs need as many int64 labels, not {self.y.dtype} of shape {tuple(self.y.shape)}"
            )
        if int(self.y.min()) < 0:
            raise DataMismatch(f"labels are classes counted from 0, not {int(self.y.min())}")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Split({len(self)} × {tuple(self.x.shape[1:])} {self.x.dtype})"

    def take(self, rows: Any) -> Split:
        """The split of these rows only, in this order; ``rows`` is what indexes a tensor (numbers, a slice …)."""
        import torch

        from weightsmith.data.streams.rows import view

        index = rows if isinstance(rows, slice) else torch.as_tensor(rows)
        return Split(view(self.x, index), self.y[index], None if self.groups is None else self.groups[index])

    def divided(self, sizes: Sequence[float], seed: int) -> tuple[NDArray[np.int64], ...]:
        """Row numbers of disjoint stratified parts, by fractions or counts; groups stay whole where there are any."""
        if self.groups is None:
            return stratified_split(self.y, sizes, seed)
        return group_split(self.y, self.groups, [size / sum(sizes) for size in sizes], seed)

    def digest(self) -> str:
        """SHA-256 of the inputs and the labels: their types, shapes and values (files, if streamed and over 2 GB)."""
        from weightsmith.data.streams.rows import StreamedRows

        inputs = self.x.digest() if isinstance(self.x, StreamedRows) else digest_of(self.x.cpu().numpy())
        return digest_of(inputs + digest_of(self.y.cpu().numpy()))


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """Up to three splits with class names, the set's own normalisation, its origin, and notes."""

    name: str
    train: Split | None = None
    validation: Split | None = None
    test: Split | None = None
    classes: tuple[str, ...] = ()
    normalisation: Normalisation = NONE
    origin: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        present = self.splits
        if not present:
            raise UsageError(f"{self.name}: data need at least one split ({', '.join(SPLITS)})")
        for name, part in present.items():
            if tuple(part.x.shape[1:]) != self.input_shape:
                raise DataMismatch(
                    f"{self.name}: {name} inputs have shape {tuple(part.x.shape[1:])}, others {self.input_shape}"
                )
            if self.classes and int(part.y.max()) >= len(self.classes):
                raise DataMismatch(
                    f"{self.name}: {name} has the label {int(part.y.max())}, but there are {len(self.classes)} classes"
                )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(part)}" for name, part in self.splits.items())
        return f"Data({self.name!r}, {sizes}, input {self.input_shape}, {len(self.classes)} classes)"

    @property
    def splits(self) -> dict[str, Split]:
        """The splits there are, by name, in the order train, validation, test."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: ``(c, h, w)`` or ``(f,)``."""
        return tuple(next(iter(self.splits.values())).x.shape[1:])

    def split(self, name: str) -> Split:
        """The split called ``name``; the error says how to get one that is absent."""
        if name not in SPLITS:
            raise UnknownName("split", name, SPLITS)
        if name not in self.splits:
            way = {"validation": "make one with with_validation(0.1)", "test": "make one with with_test(0.2)"}
            hint = way.get(name, "load it") if self.train is not None else "load it"
            raise UsageError(f"{self.name} has no {name} split here, only {', '.join(self.splits)}; {hint}")
        return self.splits[name]

    def with_validation(self, fraction: float, seed: int = 0) -> Data:
        """The same data with a stratified ``fraction`` of the training rows moved into the validation split."""
        return self._moved("validation", fraction, seed)

    def with_test(self, fraction: float, seed: int = 0) -> Data:
        """The same data with a stratified ``fraction`` of the training rows moved into the test split."""
        return self._moved("test", fraction, seed)

    def _moved(self, name: str, fraction: float, seed: int) -> Data:
        if name in self.splits:
            raise UsageError(f"{self.name} has a {name} split already")
        if not 0 < fraction < 1:
            raise UsageError(f"the fraction moved into the {name} split must lie between 0 and 1, not {fraction}")
        train = self.split("train")
        kept, moved = train.divided((1 - fraction, fraction), seed)
        parts = {"train": train.take(kept), name: train.take(moved)}
        whole = "stratified" if train.groups is None else "whole groups, stratified"
        note = f"{name} split: {len(moved)} of {len(train)} training rows, {whole}, seed {seed}"
        return dataclasses.replace(self, **parts, notes=(*self.notes, note))  # type: ignore[arg-type]

    def digest(self) -> str:
        """SHA-256 of the splits and the class names; the same whichever file form they were read from."""
        parts = [f"{name}={part.digest()}" for name, part in self.splits.items()]
        return digest_of("\n".join([*parts, *self.classes]))
