"""Live progress of a run: a bar with loss, accuracy, rate and time left on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from weightsmith.cli.terminal import say_note
from weightsmith.core.progress import time_text

if TYPE_CHECKING:
    from weightsmith.training.run import EpochEnd, EpochRow, Hook, Progress

__all__ = ["View", "epoch_line", "training_view"]


@dataclass(frozen=True)
class View:
    """Callbacks for ``train``: ``progress`` during an epoch, ``hooks`` after it."""

    progress: Callable[[Progress], None] | None
    hooks: tuple[Hook, ...]


@contextmanager
def training_view(quiet: bool) -> Iterator[View]:
    """Show a run on stderr during the block; nothing when ``quiet``."""
    if quiet:
        yield View(None, ())
    elif sys.stderr.isatty():
        yield from _bar()
    else:
        yield _lines()


def epoch_line(row: EpochRow, epochs: int, left: float | None) -> str:
    """``epoch 3 of 10: loss 0.1861, accuracy 93.97 %, validation 0.3581, 88.89 %, rate 0.0909, 2 s left``."""
    trained, validated, what = row.train_accuracy, row.validation_accuracy, "accuracy"
    if trained is None:
        trained, validated, what = row.extra.get("train_r2"), row.extra.get("validation_r2"), "R²"
    parts = [f"loss {row.train_loss:.4f}" + ("" if trained is None else f", {what} {100 * trained:.2f} %")]
    if row.validation_loss is not None and validated is not None:
        parts.append(f"validation {row.validation_loss:.4f}, {100 * validated:.2f} %")
    parts.append(f"rate {row.rate:.4g}")
    if left:
        parts.append(f"{time_text(left)} left")
    return f"epoch {row.epoch} of {epochs}: {', '.join(parts)}".replace(" -", " −")


class _Last:
    """The last progress report; the first one shows whether a run was resumed."""

    def __init__(self) -> None:
        self._seen: Progress | None = None

    def see(self, progress: Progress) -> None:
        if self._seen is None and progress.epoch > 1:
            say_note(f"resuming after epoch {progress.epoch - 1}")
        self._seen = progress

    @property
    def epochs(self) -> int:
        return 0 if self._seen is None else self._seen.epochs

    @property
    def left(self) -> float | None:
        return None if self._seen is None else self._seen.left


def _lines() -> View:
    last = _Last()

    def after(end: EpochEnd) -> None:
        sys.stderr.write(epoch_line(end.row, last.epochs, last.left) + "\n")

    return View(last.see, (after,))


def _bar() -> Iterator[View]:
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=None),
        progress.TextColumn("{task.fields[now]}"),
        progress.TextColumn("[dim]{task.fields[validation]}[/dim]"),
    )
    last = _Last()
    with progress.Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task("train", total=None, now="", validation="")

        def during(step: Progress) -> None:
            last.see(step)
            left = "" if step.left is None else f" · {time_text(step.left)} left"
            bar.update(
                task,
                description=f"epoch {step.epoch}/{step.epochs}",
                completed=(step.epoch - 1) * step.steps + step.step,
                total=step.epochs * step.steps,
                now=f"loss {step.loss:.4f} · {100 * step.accuracy:.1f} % · rate {step.rate:.3g}{left}",
            )

        def after(end: EpochEnd) -> None:
            found = end.row.validation_accuracy
            found = end.row.extra.get("validation_r2") if found is None else found
            if found is not None:
                bar.update(task, validation=f"validation {100 * found:.1f} %")

        yield View(during, (after,))
