"""The description of an evaluation: accuracy with its interval, and the confusions."""

from __future__ import annotations

from weightsmith.core.statistics import Interval, wilson
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reporting._words import number_text
from weightsmith.reporting.figures.confusion import class_sizes, confusion_figure, recall_figure
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._spiking_layers import shown_steps
from weightsmith.reporting.sections._wording import accuracy, counted, facts_of, percent, percent_within, significant
from weightsmith.spiking.evaluating import SpikingEvaluation

__all__ = ["below", "evaluation_section", "spiking_evaluation_section", "unanswered"]

_MOST_CLASSES = 200  # beyond, a matrix is neither readable nor small
_MOST_PAIRS = 20
_MOST_TAKEN = 3


def evaluation_section(evaluation: Evaluation, name: str, *, least_accuracy: float | None = None) -> Section:
    """The description of an evaluation named ``name``; ``least_accuracy`` is the required accuracy in per cent."""
    parts: list[Part] = [Notes(evaluation.notes)] if evaluation.notes else []
    if evaluation.images > evaluation.not_finite:
        parts += [*_matrix(evaluation, name), _recalls(evaluation, name), *_pairs(evaluation, name)]
    parts.append(_classes(evaluation, name))
    settings = {"data": evaluation.data, "split": evaluation.split, "normalisation": evaluation.normalisation}
    parts.append(facts_of(settings, evaluation.origin))
    look_at = (*unanswered(evaluation), *below(evaluation.accuracy.value, least_accuracy))
    return Section(f"Evaluation: {name}", _lead(evaluation), tuple(parts), _chips(evaluation), look_at=look_at)


def below(share: float, least_accuracy: float | None) -> list[str]:
    """A concern if the accuracy is below the required one, which is in per cent."""
    if least_accuracy is None or 100 * share >= least_accuracy:
        return []
    return [f"accuracy {100 * share:.2f} % is below the required {least_accuracy:g} %"]


def spiking_evaluation_section(
    evaluation: SpikingEvaluation, name: str, *, least_accuracy: float | None = None
) -> Section:
    """The description of a run of a spiking network: accuracy by steps, and rates."""
    columns = (Column("steps", numeric=True), Column("accuracy", numeric=True), Column("undecided", numeric=True))
    images, split, by_step = evaluation.images, evaluation.split, evaluation.steps
    shares = [Interval(row.accuracy, row.low, row.high, 0.95, "Wilson") for row in by_step]
    rows = tuple(
        (steps, Shown(shares[steps - 1].value, percent_within(shares[steps - 1])), by_step[steps - 1].undecided)
        for steps in shown_steps(len(by_step))
    )
    caption = f"On {counted(images, 'row')} ({split}), with 95 % Wilson intervals."
    steps = Table("After so many steps", columns, rows, caption, file="steps.csv")
    heads = (("neurons", ""), ("rate", "spikes per neuron and step"), ("spikes", "per image"))
    layers = Table(
        "Populations",
        (Column("layer"), *(Column(head, meaning, numeric=True) for head, meaning in heads)),
        tuple(
            (row.layer, row.neurons, *(Shown(value, significant(value)) for value in (row.rate, row.spikes)))
            for row in evaluation.layers
        ),
        file="populations.csv",
    )
    last, after = shares[-1], counted(len(by_step), "step")
    rows_of = f"{counted(images, 'row')} of the {split} split of {evaluation.data}"
    silent = [f"{row.layer} never fires" for row in evaluation.layers if not row.rate]
    settings = {"data": evaluation.data, "split": evaluation.split, "precision": evaluation.precision}
    notes = (Notes(evaluation.notes),) if evaluation.notes else ()
    return Section(
        f"Evaluation: {name}",
        f"Right on {percent(last.value)} of {rows_of} after {after}.",
        (*notes, steps, layers, facts_of(settings, evaluation.origin)),
        ((f"accuracy after {after}", accuracy(last, images, split)),),
        " · ".join([evaluation.neuron, evaluation.encode, f"seed {evaluation.origin.seed}"]),
        (*silent, *below(last.value, least_accuracy)),
    )


def _lead(evaluation: Evaluation) -> str:
    share, right = evaluation.accuracy, f"{evaluation.correct:,} of {counted(evaluation.images, 'row')}"
    within = f"between {100 * share.low:.1f} and {100 * share.high:.1f} %"
    return (
        f"{right} of the {evaluation.split} split of {evaluation.data} are right: {percent(share.value)}, and with "
        f"{100 * share.confidence:g} % confidence {within} of all rows like these."
    )


def _chips(evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    rows = (evaluation.images, evaluation.split)
    chips = [("accuracy", accuracy(evaluation.accuracy, *rows))]
    if evaluation.top5 is not None:
        chips.append(("among the best five", accuracy(evaluation.top5, *rows)))
    if evaluation.loss is not None:
        chips.append(("loss", number_text(evaluation.loss)))
    if evaluation.not_finite:
        chips.append(("without an answer", f"{evaluation.not_finite:,}"))
    return tuple(chips)


def unanswered(evaluation: Evaluation) -> list[str]:
    """A concern if rows gave NaN or infinity."""
    if not evaluation.not_finite:
        return []
    return [f"{evaluation.not_finite:,} of {evaluation.images:,} rows gave NaN or infinity; they count as wrong"]


def _matrix(evaluation: Evaluation, name: str) -> list[Part]:
    if len(evaluation.classes) > _MOST_CLASSES:
        return [Prose(f"A matrix of {len(evaluation.classes):,} classes cannot be read: see the pairs below.")]
    rows: list[dict[str, Cell]] = [
        {"class": one, "taken_for": other, "rows": count}
        for one, counts in zip(evaluation.classes, evaluation.confusion, strict=True)
        for other, count in zip(evaluation.classes, counts, strict=True)
        if count
    ]
    how = (
        "How to read it: each row of the matrix is a true class, each column a predicted class; the pale diagonal "
        "is correct, and the darker a cell off it, the more often one class is mistaken for the other."
    )
    return [Drawing("Confusion", how, lambda: confusion_figure(evaluation), rows, file=f"{name}-confusion")]


def _recalls(evaluation: Evaluation, name: str) -> Drawing:
    rows: list[dict[str, Cell]] = [
        {"class": one, "recall": recall} for one, recall in zip(evaluation.classes, evaluation.recall, strict=True)
    ]
    how = (
        "How to read it: a point is the recall of a class, the line through it its 95 % interval; a class whose "
        "line lies below the dashed one has a lower recall than the overall accuracy."
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
        return [Prose("No row with an answer is misclassified.")]
    columns = (
        Column("class", "the true class"),
        Column("taken for", "the predicted class"),
        Column("rows", "how many", numeric=True),
        Column("of the class", "share of the rows of the true class", numeric=True),
    )
    rows = []
    for less, one, other in found[:_MOST_PAIRS]:
        size = sizes[one]
        share = -less / size if size else None
        rows.append((evaluation.classes[one], evaluation.classes[other], -less, Shown(share, percent(share))))
    left = len(found) - len(rows)
    caption = f"The {len(rows)} most frequent of {len(found):,} pairs." if left else ""
    return [Table("Mistakes", columns, tuple(rows), caption, file=f"{name}-mistakes", detail=True)]


def _classes(evaluation: Evaluation, name: str) -> Table:
    columns = (
        Column("class"),
        Column("rows", "of this class", numeric=True),
        Column("right", "of them", numeric=True, spare=3),
        Column("recall", "right ÷ rows", numeric=True),
        Column("95 % interval", "Wilson’s, of the recall", numeric=True),
        Column("called so", "rows predicted as this class", numeric=True, spare=2),
        Column("precision", "right ÷ called so", numeric=True, spare=1),
        Column("most often taken for"),
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
        _taken_for(evaluation, index),
    )


def _taken_for(evaluation: Evaluation, index: int) -> str | None:
    """The classes that a class is most often mistaken for."""
    counts = enumerate(evaluation.confusion[index])
    wrong = sorted(
        ((count, evaluation.classes[other]) for other, count in counts if other != index and count), reverse=True
    )
    return ", ".join(f"{other} ({count:,} ×)" for count, other in wrong[:_MOST_TAKEN]) or None
