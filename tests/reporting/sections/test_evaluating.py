"""A section of an evaluation holds its counts; shares and intervals are those of the counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reporting.parts import Drawing, Table
from weightsmith.reporting.sections.evaluating import below, evaluation_section


def by_hand(confusion, *, not_finite=0, recall=None, classes=None, **more) -> Evaluation:
    cells = np.array(confusion)
    right, images = int(cells.trace()), int(cells.sum()) + not_finite
    sizes = cells.sum(1)
    by_name = {
        "data": "birds",
        "split": "test",
        "images": images,
        "correct": right,
        "not_finite": not_finite,
        "accuracy": wilson(right, images),
        "top5": None,
        "loss": None,
        "classes": tuple(classes or (f"c{index}" for index in range(len(cells)))),
        "recall": recall or tuple(float(h / n) if n else None for h, n in zip(cells.diagonal(), sizes, strict=True)),
        "confusion": tuple(map(tuple, cells.tolist())),
        "normalisation": "none",
        "notes": (),
        "origin": Origin(None, {"network": "ab" * 32}, {"weightsmith": "1.2.3"}),
    }
    return Evaluation(**(by_name | more))


@pytest.fixture(scope="module")
def evaluation():
    data = ws.data.load("digits")
    return ws.evaluate(ws.train("mlp:16", data, epochs=3, seed=0).network, data)


@pytest.fixture(scope="module")
def section(evaluation, read):
    return read(evaluation_section(evaluation, "on digits"))


def test_the_lead_and_the_chips_are_the_accuracy_with_its_interval(section, evaluation):
    share = evaluation.accuracy
    assert section.section.title == "Evaluation: on digits"
    assert section.section.lead.startswith(
        f"{evaluation.correct} of {evaluation.images} rows of the test split of digits are right: "
        f"{100 * share.value:.1f} %"
    )
    assert f"between {100 * share.low:.1f} and {100 * share.high:.1f} %" in section.section.lead
    ends = f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
    assert section.chips["accuracy"] == f"{ends} of 360 rows (test)"
    assert section.chips["among the best five"].startswith(f"{100 * evaluation.top5.value:.1f}")
    assert float(section.chips["loss"]) == pytest.approx(evaluation.loss, rel=1e-3)


def test_classes_are_counted_as_the_matrix_has_them(section, evaluation):
    cells = np.array(evaluation.confusion)
    for index, row in enumerate(section.table("Classes")):
        assert row["class"] == evaluation.classes[index]
        assert row["rows"] == cells[index].sum()
        assert row["right"] == cells[index, index]
        assert row["recall"] == evaluation.recall[index]
        assert row["called so"] == cells[:, index].sum()
        assert row["precision"] == pytest.approx(cells[index, index] / cells[:, index].sum())
        ends = wilson(int(cells[index, index]), int(cells[index].sum()))
        assert row["95 % interval"] == pytest.approx(ends.high - ends.low)
    text = section.texts("Classes")[0]["95 % interval"]
    ends = wilson(int(cells[0, 0]), int(cells[0].sum()))
    assert text == f"[{100 * ends.low:.1f}, {100 * ends.high:.1f}]"


def test_the_matrix_can_be_put_together_from_its_rows(section, evaluation):
    cells = np.zeros((10, 10), int)
    for row in section.drawing("Confusion").rows:
        cells[int(row["class"]), int(row["taken_for"])] = row["rows"]
    assert cells.tolist() == [list(row) for row in evaluation.confusion]
    assert [row["recall"] for row in section.drawing("Recall by class").rows] == list(evaluation.recall)
    section.draw_all()


def test_mistakes_come_by_how_often_they_are_made(read):
    reader = read(evaluation_section(by_hand([[8, 0, 2], [5, 5, 0], [0, 1, 0]], classes=["owl", "hen", "jay"]), "x"))
    rows = [tuple(row.values()) for row in reader.table("Mistakes")]
    assert rows == [("hen", "owl", 5, 0.5), ("owl", "jay", 2, 0.2), ("jay", "hen", 1, 1.0)]


def test_without_mistakes_there_is_no_table_of_them(read):
    reader = read(evaluation_section(by_hand([[3, 0], [0, 4]]), "x"))
    assert [table.title for table in reader.of(Table)] == ["Classes"]
    assert "No row with an answer is misclassified." in reader.prose
    assert "100.0 %" in reader.section.lead
    reader.draw_all()


def test_a_class_without_images_has_no_recall(read):
    reader = read(evaluation_section(by_hand([[3, 1], [0, 0]]), "x"))
    row = reader.table("Classes")[1]
    assert (row["rows"], row["recall"], row["95 % interval"], row["precision"]) == (0, None, None, 0.0)
    reader.draw_all()


def test_images_without_an_answer_are_named_and_not_counted_as_another_class(read):
    evaluation = by_hand([[3, 0], [0, 0]], not_finite=4, recall=(0.5, 0.0))
    reader = read(evaluation_section(evaluation, "x"))
    assert reader.section.look_at == ("4 of 7 rows gave NaN or infinity; they count as wrong",)
    assert reader.chips["without an answer"] == "4"
    assert "loss" not in reader.chips
    # Three found are half of six; of a class with nothing found the matrix cannot tell how many it has.
    assert [row["rows"] for row in reader.table("Classes")] == [6, None]
    reader.draw_all()
    silent = read(evaluation_section(by_hand([[0, 0], [0, 0]], not_finite=2, recall=(0.0, 0.0)), "x"))
    assert silent.drawings == []


def test_very_many_classes_have_no_matrix(read):
    cells = np.eye(300, dtype=int)
    cells[np.arange(300), (np.arange(300) + 1) % 300] = 1
    reader = read(evaluation_section(by_hand(cells), "x"))
    assert reader.drawings == ["Recall by class"]
    assert "A matrix of 300 classes" in reader.prose
    assert len(reader.table("Mistakes")) == 20
    reader.draw_all()


def test_names_of_classes_are_drawn_as_text(hostile, read):
    reader = read(evaluation_section(by_hand([[3, 1], [0, 2]], classes=[hostile, "b"]), hostile))
    for part in reader.of(Drawing):
        part.figure().draw_without_rendering()
    assert reader.table("Mistakes")[0]["class"] == hostile


def test_notes_and_facts(evaluation, read):
    reader = read(evaluation_section(replace(evaluation, notes=("labels by order",)), "x"))
    assert reader.notes == ["labels by order"]
    assert reader.facts["SHA-256 of network"] == evaluation.origin.inputs["network"]
    assert (reader.facts["data"], reader.facts["split"], reader.facts["seed"]) == ("digits", "test", "–")


def test_an_accuracy_at_the_bar_is_not_below_it():
    assert below(0.75, 75.0) == below(0.75, None) == []
    assert below(0.7499, 75.0) == ["accuracy 74.99 % is below the required 75 %"]
