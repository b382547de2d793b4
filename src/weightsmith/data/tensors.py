"""The data containers: a Split is inputs with their targets, Data are up to three splits.

Pixels stay uint8 ``(n, c, h, w)`` until a network's normalisation converts them to floats, so a data set takes a
quarter of the memory and every network applies its own normalisation. Table rows are floats ``(n, f)``, sequences
floats ``(n, steps, f)``, tokens int64 ``(n, steps)``. The type of the targets says what kind they are
(:mod:`weightsmith.data.targets`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.records import digest_of
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.splits import group_split, stratified_split
from weightsmith.data.targets import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["SPLITS", "Data", "Split", "check_weights"]

SPLITS = ("train", "validation", "test")


def check_weights(weights: Tensor, rows: int) -> None:
    """Refuse weights of rows that are not one finite number ≥ 0 each, or all 0."""
    if weights.shape != (rows,) or not weights.is_floating_point():
        raise DataMismatch(f"{rows} rows need a weight each, not {weights.dtype} of shape {tuple(weights.shape)}")
    if not bool(weights.isfinite().all()) or float(weights.min()) < 0 or float(weights.max()) == 0:
        raise DataMismatch("weights of rows must be finite and not negative, and not all 0")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Inputs ``x`` (images ``(n, c, h, w)``, rows ``(n, f)``, sequences ``(n, steps, f)``; uint8, floats or int64) and
    their targets ``y``: classes (int64), labels (bool, a column each) or values (float32, a column each)."""

    x: Tensor
    y: Tensor
    groups: Tensor | None = None
    """A number for each row: rows with the same number (a person, a recording …) stay in one split."""
    weights: Tensor | None = None
    """A weight for each row (float32, not negative), by which its loss is multiplied in training."""

    def __post_init__(self) -> None:
        import torch

        if self.groups is not None and self.groups.shape != self.y.shape[:1]:
            raise DataMismatch(f"{len(self.y)} rows need a group each, not groups of shape {tuple(self.groups.shape)}")
        if self.weights is not None:
            check_weights(self.weights, len(self.y))
        if self.x.ndim not in (2, 3, 4) or 0 in self.x.shape or (self.x.ndim == 3 and self.x.dtype == torch.uint8):
            raise DataMismatch(
                f"inputs must be rows (n, features), sequences (n, steps, features) or images (n, channels, height, "
                f"width), not {self.x.dtype} {tuple(self.x.shape)}"
                + ("; add the channel of grey images by x[:, None]" if self.x.ndim == 3 else "")
            )
        if self.x.dtype not in (torch.uint8, torch.int64) and not self.x.is_floating_point():
            raise DataMismatch(f"inputs must be uint8 pixels, floats or int64 tokens, not {self.x.dtype}")
        self._check_targets()

    def _check_targets(self) -> None:
        import torch

        y, rows = self.y, len(self.x)
        if y.dtype in (torch.float32, torch.bool) and y.ndim == 2 and len(y) == rows and y.shape[1]:
            if y.is_floating_point() and not bool(torch.isfinite(y).all()):
                row = int((~torch.isfinite(y)).nonzero()[0, 0])
                raise DataMismatch(f"the target of row {row} is nan or infinity")
            return
        if y.dtype != torch.int64 or y.shape != self.x.shape[:1]:
            raise DataMismatch(
                f"{rows} inputs need an int64 label, a row of bool labels or of float32 values each, not {y.dtype} of "
                f"shape {tuple(y.shape)}"
            )
        if int(y.min()) < 0:
            raise DataMismatch(f"labels are classes counted from 0, not {int(y.min())}")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Split({len(self)} × {tuple(self.x.shape[1:])} {self.x.dtype})"

    def take(self, rows: Any) -> Split:
        """The split of these rows only, in this order; ``rows`` is any index of a tensor (numbers, a slice …)."""
        import torch

        from weightsmith.data.streams.rows import view

        index = rows if isinstance(rows, slice) else torch.as_tensor(rows)
        return Split(
            view(self.x, index),
            self.y[index],
            None if self.groups is None else self.groups[index],
            None if self.weights is None else self.weights[index],
        )

    def divided(self, sizes: Sequence[float], seed: int) -> tuple[NDArray[np.int64], ...]:
        """Row numbers of disjoint parts, by fractions or counts; groups, if any, stay whole.

        Classes and a single label are stratified; several labels and values are drawn at random.
        """
        strata = self._strata
        if self.groups is None:
            return stratified_split(strata, sizes, seed)
        return group_split(strata, self.groups, [size / sum(sizes) for size in sizes], seed)

    @property
    def stratified(self) -> bool:
        """Whether the rows have classes by which they can be stratified."""
        return not self.y.is_floating_point() and (self.y.ndim == 1 or self.y.shape[1] == 1)

    @property
    def _strata(self) -> Tensor:
        if not self.stratified:
            return self.y.new_zeros(len(self.y)).long()
        return self.y if self.y.ndim == 1 else self.y[:, 0].long()

    def digest(self) -> str:
        """SHA-256 of the inputs and the labels: their types, shapes and values (files, if streamed and over 2 GB)."""
        from weightsmith.data.streams.rows import StreamedRows

        inputs = self.x.digest() if isinstance(self.x, StreamedRows) else digest_of(self.x.cpu().numpy())
        weights = "" if self.weights is None else digest_of(self.weights.cpu().numpy())
        return digest_of(inputs + digest_of(self.y.cpu().numpy()) + weights)


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """Up to three splits with class names, the set's own normalisation, its origin, and notes.

    ``classes`` are the names of the classes, or of the labels or values that are the columns of the targets.
    """

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
            self._check_names(name, part)

    def _check_names(self, name: str, part: Split) -> None:
        if (part.y.dtype, part.y.ndim) != ((first := next(iter(self.splits.values())).y).dtype, first.ndim):
            raise DataMismatch(f"{self.name}: the targets of {name} are {part.y.dtype}, others {first.dtype}")
        if self.kind is not Kind.CLASSES and part.y.shape[1] != len(self.classes):
            raise DataMismatch(
                f"{self.name}: {name} has {part.y.shape[1]} targets a row, but there are {len(self.classes)} names"
            )
        if self.kind is Kind.CLASSES and self.classes and int(part.y.max()) >= len(self.classes):
            raise DataMismatch(
                f"{self.name}: {name} has the label {int(part.y.max())}, but there are {len(self.classes)} classes"
            )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(part)}" for name, part in self.splits.items())
        what = {Kind.CLASSES: "classes", Kind.LABELS: "labels", Kind.VALUES: "values"}[self.kind]
        return f"Data({self.name!r}, {sizes}, input {self.input_shape}, {len(self.classes)} {what})"

    @property
    def kind(self) -> Kind:
        """What the targets are: classes, labels or values."""
        return kind_of(next(iter(self.splits.values())).y)

    @property
    def splits(self) -> dict[str, Split]:
        """The splits there are, by name, in the order train, validation, test."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: ``(c, h, w)``, ``(f,)``, ``(steps, f)`` or ``(steps,)``."""
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
        how = "stratified" if train.stratified else "at random"
        whole = how if train.groups is None else f"whole groups, {how}"
        note = f"{name} split: {len(moved)} of {len(train)} training rows, {whole}, seed {seed}"
        return dataclasses.replace(self, **parts, notes=(*self.notes, note))  # type: ignore[arg-type]

    def digest(self) -> str:
        """SHA-256 of the splits and the class names; the same for every file format they were read from."""
        parts = [f"{name}={part.digest()}" for name, part in self.splits.items()]
        return digest_of("\n".join([*parts, *self.classes]))
