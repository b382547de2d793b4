"""Figures of an evaluation: the confusion matrix, and the recall of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import wilson
from weightsmith.reporting.figures._matrix import MatrixWords, draw_matrix
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import BLUE, GREY, ORANGE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.networks.evaluation import Evaluation

__all__ = ["class_sizes", "confusion_figure", "recall_figure"]

_NAMED, _LONGEST = 50, 20


def confusion_figure(evaluation: Evaluation) -> Figure:
    """Images by true class (rows) and predicted class (columns).

    The diagonal is pale; errors are darker the more images they have, so that rare ones are visible. Images
    without an answer are in no cell.
    """
    cells = np.array(evaluation.confusion, dtype=np.int64)
    if not cells.any():
        raise UsageError("no image has a prediction: there is no confusion to draw")
    wrong = int(cells.sum() - cells.trace())
    title = f"{wrong:,} of {int(cells.sum()):,} images are misclassified"
    words = MatrixWords(title, "true class", "predicted class", "misclassified images")
    return draw_matrix(cells, evaluation.classes, words)


def recall_figure(evaluation: Evaluation) -> Figure:
    """The recall of each class with its 95 % Wilson interval; dashed is the accuracy over all images."""
    sizes = class_sizes(evaluation)
    known = [index for index, recall in enumerate(evaluation.recall) if recall is not None]
    if not known:
        raise UsageError("no class has an image: there is no recall to draw")
    count = len(evaluation.classes)
    with house_style():
        figure, (axes,) = new_figure(min(max(4.8, 1.6 + 0.16 * count), 9.0), 3.2)
        for index in known:
            size = sizes[index]
            if size:
                found = wilson(evaluation.confusion[index][index], size)
                axes.vlines(index, 100 * found.low, 100 * found.high, color=BLUE, linewidth=1.1, alpha=0.55)
        recalls = [100 * (evaluation.recall[index] or 0.0) for index in known]
        mark: dict[str, Any] = {"markersize": 4.5 if count <= _NAMED else 2.5}
        axes.plot(known, recalls, "o", color=BLUE, label="recall of a class", **mark)
        overall = 100 * evaluation.accuracy.value
        axes.axhline(overall, color=ORANGE, linewidth=1.0, linestyle=(0, (4, 3)), label=f"accuracy {overall:.1f} %")
        axes.set_ylim(min(0.0, *recalls) if min(recalls) < 50 else None, 101.5)
        axes.set_ylabel("recall (% of the class)")
        _name_classes(axes, evaluation.classes)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def class_sizes(evaluation: Evaluation) -> list[int | None]:
    """The number of images of each class; None if only images without an answer would show it."""
    sizes: list[int | None] = []
    for index, (row, recall) in enumerate(zip(evaluation.confusion, evaluation.recall, strict=True)):
        if recall is None:
            sizes.append(0)
        elif not evaluation.not_finite:
            sizes.append(sum(row))
        else:
            sizes.append(round(row[index] / recall) if recall else None)
    return sizes


def _name_classes(axes: Axes, classes: tuple[str, ...]) -> None:
    count = len(classes)
    axes.set_xlim(-0.6, count - 0.4)
    if count > _NAMED:
        axes.set_xlabel("class, by number")
        return
    labels = [shown(name, _LONGEST) for name in classes]
    upright = sum(len(label) + 2 for label in labels) > 70
    axes.set_xticks(range(count), labels, rotation=90 if upright else 0)
    axes.tick_params(axis="x", length=0, color=GREY)
    axes.set_xlabel("class")
