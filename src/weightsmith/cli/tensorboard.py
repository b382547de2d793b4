"""The history of a run for TensorBoard, written epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.core.errors import MissingExtra

if TYPE_CHECKING:
    from weightsmith.training.run import EpochEnd, Hook

__all__ = ["tensorboard_log"]

# Columns of the history under the names that TensorBoard groups into panels.
_PANELS = {
    "train_loss": "loss/train",
    "validation_loss": "loss/validation",
    "train_accuracy": "accuracy/train",
    "validation_accuracy": "accuracy/validation",
    "rate": "rate",
    "penalty": "penalty",
    "clipped": "clipped",
}


@contextmanager
def tensorboard_log(folder: Path | None) -> Iterator[tuple[Hook, ...]]:
    """Yield the hook that writes each epoch into ``folder``; none without a folder."""
    if folder is None:
        yield ()
        return
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError as error:
        raise MissingExtra("--tensorboard", "tensorboard") from error
    with SummaryWriter(str(folder)) as writer:

        def after(end: EpochEnd) -> None:
            for name, panel in (*_PANELS.items(), *((name, name) for name in end.row.extra)):
                value = end.row.value(name)
                if value is not None:
                    writer.add_scalar(panel, value, end.row.epoch)

        yield (after,)
