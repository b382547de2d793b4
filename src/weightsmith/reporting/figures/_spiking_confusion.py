"""The figure of answers against answers: which classes a spiking network takes for others than its network does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._matrix import MatrixWords, draw_matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.spiking.monitors.correspondence import Confusion

__all__ = ["draw_confusion"]


def draw_confusion(confusion: Confusion, classes: Sequence[str] | None = None) -> Figure:
    """Images by the class that the network (rows) and the spiking network (columns) give them.

    Agreement, the diagonal, is pale; disagreement is the darker the more images, so that it is seen where it is rare.
    A last column holds the images without an answer, if there are any. Without ``classes``, their names, they are
    numbered.
    """
    count = len(confusion.matrix)
    names = [str(place) for place in range(count)] if classes is None else list(classes)
    if len(names) != count:
        raise UsageError(f"the confusion is of {count} classes, but {len(names)} names were given")
    undecided = bool(confusion.undecided.any())
    cells = np.column_stack([confusion.matrix, confusion.undecided]) if undecided else confusion.matrix
    words = MatrixWords(
        title=_agreement(confusion, int(cells.sum())),
        rows="class by the network",
        columns="class by the spiking network",
        apart="images on which the two differ",
    )
    return draw_matrix(cells, names, words, further="undecided" if undecided else None)


def _agreement(confusion: Confusion, images: int) -> str:
    share = confusion.agreement
    within = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
    return f"Both agree on {100 * share.value:.1f} % {within} of {images:,} image{'s' * (images > 1)}"
