"""Write the history of a run to TensorBoard while it trains."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, Self

from weightsmith.core.errors import MissingExtra
from weightsmith.training.distributed import team
from weightsmith.training.run import EpochEnd, History

__all__ = ["TensorBoard"]


class TensorBoard:
    """A hook that writes every number of an epoch's row to ``folder``, under the name of its column.

        with TensorBoard("runs/board") as board:
            ws.train(network, data, hooks=[alpha, board])

    Values of other hooks are written as well if they come before it. A resumed run continues in the same folder: events
    after the epoch at which it resumes are purged. Of several processes only the first one writes. Each epoch is on
    disk when its hook returns; :meth:`close` only ends the file.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._open: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:  # raised here, before the training, not after its first epoch
            raise MissingExtra("TensorBoard logging", "tensorboard") from error
        self._writer = SummaryWriter

    def __call__(self, end: EpochEnd) -> None:
        """Write the row of an epoch."""
        if not team().first:
            return
        if self._open is None:
            self._open = self._writer(str(self._folder), purge_step=end.row.epoch)
        for column in History((end.row,)).columns:
            value = end.row.value(column)
            if column != "epoch" and value is not None:
                self._open.add_scalar(column, value, end.row.epoch)
        self._open.flush()

    def close(self) -> None:
        """End the file; a further epoch opens another one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()
