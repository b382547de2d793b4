"""The section of an evaluation: accuracy with its interval, and the confusions."""

from __future__ import annotations

from weightsmith.core.statistics import wilson
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reporting._words import number_text
from weightsmith.reporting.figures.confusion import class_sizes, confusion_figure, recall_figure
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._wording import counted, facts_of, percent, percent_within

__all__ = ["evaluation_section"]

_MOST_CLASSES = 200  # beyond, a matrix is neither readable nor small
_MOST_PAIRS = 20


def evaluation_section(evaluation: Evaluation, name: str) -> Section:
    """The section of an evaluation named ``name``."""
    parts: list[Part] = []
    notes = [*_unanswered(evaluation), *evaluation.notes]
    if notes:
        parts.append(Notes(tuple(notes)))
    if evaluation.images > evaluation.not_finite:
        parts += [*_matrix(evaluation, name), _recalls(evaluation, name), *_pairs(evaluation, name)]
    parts.append(_classes(evaluation, name))
    settings = {"data": evaluation.data, "split": evaluation.split, "normalisation": evaluation.normalisation}
    parts.append(facts_of(settings, evaluation.origin))
    return Section(f"Evaluation: {name}", _lead(evaluation), tuple(parts), _chips(evaluation))


def _lead(evaluation: Evaluation) -> str:
    share, right = evaluation.accuracy, f"{evaluation.correct:,} of {counted(evaluation.images, 'image')}"
    within = f"between {100 * share.low:.1f} and {100 * share.high:.1f} %"
    return (
        f"{right} of the {evaluation.split} split of {evaluation.data} are right: {percent(share.value)}, and with "
        f"{100 * share.confidence:g} % confidence {within} of all images like these."
    )


def _chips(evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    chips = [("accuracy", percent_within(evaluation.accuracy))]
    if evaluation.top5 is not None:
        chips.append(("among the best five", percent_within(evaluation.top5)))
    if evaluation.loss is not None:
        chips.append(("loss", number_text(evaluation.loss)))
    if evaluation.not_finite:
        chips.append(("without an answer", f"{evaluation.not_finite:,}"))
    return (*chips, ("images", f"{evaluation.images:,}"))


def _unanswered(evaluation: Evaluation) -> list[str]:
    if not evaluation.not_finite:
        return []
    gives = "image gives" if evaluation.not_finite == 1 else "images give"
    return [f"{evaluation.not_finite:,} {gives} NaN or infinity: these have no answer, and count as wrong."]


def _matrix(evaluation: Evaluation, name: str) -> list[Part]:
    if len(evaluation.classes) > _MOST_CLASSES:
        return [Prose(f"A matrix of {len(evaluation.classes):,} classes cannot be read: see the pairs below.")]
    rows: list[dict[str, Cell]] = [
        {"class": one, "taken_for": other, "images": count}
        for one, counts in zip(evaluation.classes, evaluation.confusion, strict=True)
        for other, count in zip(evaluation.classes, counts, strict=True)
        if count
    ]
    how = (
        "How to read it: a row holds the images of a class, a column what the network calls them; the pale diagonal "
        "is right, and the darker a cell beside it, the more often the one is taken for the other."
    )
    return [Drawing("Confusion", how, lambda: confusion_figure(evaluation), rows, file=f"{name}-confusion")]


def _recalls(evaluation: Evaluation, name: str) -> Drawing:
    rows: list[dict[str, Cell]] = [
        {"class": one, "recall": recall} for one, recall in zip(evaluation.classes, evaluation.recall, strict=True)
    ]
    how = (
        "How to read it: a point is the share of a class that is found, the line through it its 95 % interval; "
        "a class whose line lies below the dashed one is found less often than images are on the whole."
    )
    return Drawing("Recall by class", how, lambda: recall_figure(evaluation), rows, file=f"{name}-recall")


def _pairs(evaluation: Evaluation, name: str) -> list[Part]:
    """The most frequent confusions."""
    sizes = class_sizes(evaluation)
    found = sorted(
        (-count, one, other)
        for one, counts in enumerate(evaluation.confusion)
        for other, count in enumerate(counts)
        if count and one != other
    )
    if not found:
        return [Prose("No image with an answer is taken for another class.")]
    columns = (
        Column("class", "what the image is"),
        Column("taken for", "what the network calls it"),
        Column("images", "how many", numeric=True),
        Column("of the class", "which share of its class that is", numeric=True),
    )
    rows = []
    for less, one, other in found[:_MOST_PAIRS]:
        size = sizes[one]
        share = -less / size if size else None
        rows.append((evaluation.classes[one], evaluation.classes[other], -less, Shown(share, percent(share))))
    left = len(found) - len(rows)
    caption = f"The {len(rows)} most frequent of {len(found):,} pairs." if left else ""
    return [Table("Mistakes", columns, tuple(rows), caption, file=f"{name}-mistakes")]


def _classes(evaluation: Evaluation, name: str) -> Table:
    columns = (
        Column("class"),
        Column("images", "of this class", numeric=True),
        Column("right", "how many of them the network finds", numeric=True),
        Column("recall", "right ÷ images of the class", numeric=True),
        Column("95 % interval", "Wilson’s, of the recall; sorted by its width", numeric=True),
        Column("called so", "images of any class that the network gives this name", numeric=True),
        Column("precision", "right ÷ called so", numeric=True),
    )
    rows = tuple(_class_row(evaluation, index, size) for index, size in enumerate(class_sizes(evaluation)))
    return Table("Classes", columns, rows, file=f"{name}-classes")


def _class_row(evaluation: Evaluation, index: int, size: int | None) -> tuple[Cell | Shown, ...]:
    right, recall = evaluation.confusion[index][index], evaluation.recall[index]
    called = sum(counts[index] for counts in evaluation.confusion)
    precision = right / called if called else None
    interval: Shown | None = None
    if size:
        span = wilson(right, size)
        interval = Shown(span.high - span.low, f"[{100 * span.low:.1f}, {100 * span.high:.1f}]")
    return (
        evaluation.classes[index],
        size,
        right,
        Shown(recall, percent(recall)),
        interval,
        called,
        Shown(precision, percent(precision)),
    )
