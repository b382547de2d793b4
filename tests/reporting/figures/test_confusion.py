"""The figures of an evaluation show its counts and shares."""

from __future__ import annotations

import numpy as np
import pytest

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reporting.figures.confusion import class_sizes, confusion_figure, recall_figure


def evaluation(confusion, not_finite=0, recall=None, classes=None):
    cells = np.array(confusion)
    names = tuple(classes or (f"c{index}" for index in range(len(cells))))
    sizes, right = cells.sum(1), int(cells.trace())
    images = int(cells.sum()) + not_finite
    recall = recall or tuple(float(h / n) if n else None for h, n in zip(cells.diagonal(), sizes, strict=True))
    counts = tuple(map(tuple, cells.tolist()))
    share = wilson(right, images)
    expected = ("birds", "test", images, right, not_finite, share, None, None, names, recall, counts, "none", ())
    return Evaluation(*expected, Origin())


BIRDS = [[8, 0, 2], [5, 5, 0], [0, 1, 9]]


def test_cells_hold_the_counts():
    figure = confusion_figure(evaluation(BIRDS, classes=["owl", "hen", "jay"]))
    (axes,) = figure.axes
    written = {(round(t.get_position()[1]), round(t.get_position()[0])): int(t.get_text()) for t in axes.texts}
    assert written == {(r, c): n for r, row in enumerate(BIRDS) for c, n in enumerate(row) if n}
    right, wrong = (image.get_array() for image in axes.get_images())
    assert right.compressed().tolist() == [8, 5, 9]
    assert wrong.compressed().tolist() == [2, 5, 1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["owl", "hen", "jay"]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("true class", "predicted class")
    assert figure.get_suptitle() == "8 of 30 images are misclassified"


def test_many_classes_have_a_scale_instead_of_numbers():
    cells = np.eye(30, dtype=int) * 4
    cells[0, 1] = 3
    figure = confusion_figure(evaluation(cells))
    assert len(figure.axes[0].texts) == 0
    assert figure.axes[1].get_ylabel() == "misclassified images"


def test_recalls_with_their_intervals():
    figure = recall_figure(evaluation(BIRDS))
    (axes,) = figure.axes
    points, overall = axes.get_lines()
    assert list(points.get_xdata()) == [0, 1, 2]
    assert list(points.get_ydata()) == pytest.approx([80, 50, 90])
    assert overall.get_ydata()[0] == pytest.approx(100 * 22 / 30)
    ends = [segment[:, 1] for part in axes.collections for segment in part.get_segments()]
    expected = [wilson(hits, 10) for hits in (8, 5, 9)]
    assert np.array(ends) == pytest.approx(np.array([[100 * one.low, 100 * one.high] for one in expected]))
    low, high = axes.get_ylim()
    assert low <= min(end[0] for end in ends)
    assert high >= max(end[1] for end in ends)


def test_a_class_without_images_has_no_point():
    figure = recall_figure(evaluation([[4, 0, 0], [0, 0, 0], [0, 0, 2]]))
    assert list(figure.axes[0].get_lines()[0].get_xdata()) == [0, 2]


def test_very_many_classes_are_numbered():
    figure = recall_figure(evaluation(np.eye(200, dtype=int)))
    assert figure.axes[0].get_xlabel() == "class, by number"
    assert figure.get_figwidth() == 9.0


def test_sizes_of_classes():
    assert class_sizes(evaluation(BIRDS)) == [10, 10, 10]
    assert class_sizes(evaluation([[1, 0], [0, 0]])) == [1, 0]
    # With images that have no answer the matrix is short of them: only the recall tells.
    assert class_sizes(evaluation([[3, 0], [0, 0]], not_finite=5, recall=(0.5, 0.0))) == [6, None]


def test_nothing_to_draw_is_refused():
    empty = evaluation([[0, 0], [0, 0]], not_finite=3, recall=(0.0, None))
    with pytest.raises(UsageError, match="no image has a prediction"):
        confusion_figure(empty)
    with pytest.raises(UsageError, match="no class has an image"):
        recall_figure(evaluation([[0]], not_finite=1, recall=(None,)))


def test_names_from_files_are_text(hostile, letters_of):
    known = evaluation(BIRDS, classes=[hostile, "b", "c"])
    for figure in (confusion_figure(known), recall_figure(known)):
        drawn = letters_of(figure)
        assert any(text.startswith("=\"'>") for text in drawn)
        assert all(char.isprintable() or char == "\n" for text in drawn for char in text)
