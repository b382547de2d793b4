"""The descriptions of evaluations whose targets are labels or values."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import Interval, wilson
from weightsmith.networks.target_evaluation import LabelEvaluation, RegressionEvaluation, ValueErrors
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import BLUE, GREY, house_style, new_figure
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import accuracy, counted, facts_of, percent, percent_within, significant
from weightsmith.reporting.sections.evaluating import below, unanswered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["label_section", "regression_section", "residual_figure"]

_MOST_DRAWN = 4  # values, each in a figure of its own


def label_section(evaluation: LabelEvaluation, name: str, *, least_accuracy: float | None = None) -> Section:
    """The description of labels that are on or off; ``least_accuracy`` is the required accuracy in per cent."""
    parts: list[Part] = [Notes(evaluation.notes)] if evaluation.notes else []
    settings = {"data": evaluation.data, "split": evaluation.split, "normalisation": evaluation.normalisation}
    parts += [_labels(evaluation, name), facts_of(settings, evaluation.origin)]
    rows, single = counted(evaluation.images, "row"), len(evaluation.classes) == 1
    what = "are right" if single else f"have all {len(evaluation.classes)} labels right"
    lead = (
        f"{evaluation.correct:,} of {rows} of the {evaluation.split} split of {evaluation.data} {what}: "
        f"{percent_within(evaluation.accuracy)}."
    )
    chips = [("accuracy", accuracy(evaluation.accuracy, evaluation.images, evaluation.split))]
    if not single and evaluation.labels_right is not None:
        chips.append(("single labels right", percent_within(evaluation.labels_right)))
    if evaluation.loss is not None:
        chips.append(("loss per label", significant(evaluation.loss)))
    look_at = (*unanswered(evaluation), *below(evaluation.accuracy.value, least_accuracy))
    return Section(f"Evaluation: {name}", lead, tuple(parts), tuple(chips), look_at=look_at)


def _labels(evaluation: LabelEvaluation, name: str) -> Table:
    columns = (
        Column("label"),
        Column("rows", "that have it", numeric=True),
        Column("recall", "found ÷ rows", numeric=True),
        Column("95 % interval", "Wilson’s, of the recall", numeric=True),
        Column("called so", "rows predicted to have it", numeric=True, spare=2),
        Column("precision", "found ÷ called so", numeric=True),
        Column("without it", "rows without it that are not called so ÷ all rows without it", numeric=True, spare=1),
        Column("F1", "2 · found ÷ (rows + called so)", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    counts = zip(evaluation.classes, evaluation.positives, evaluation.called, evaluation.found, strict=True)
    for label, size, called, found in counts:
        recall, precision = found / size if size else None, found / called if called else None
        both = 2 * found / (size + called) if size + called else None
        span, others = wilson(found, size) if size else None, evaluation.images - evaluation.not_finite - size
        without = (others - called + found) / others if others > 0 else None
        rows.append(
            (
                label,
                size,
                Shown(recall, percent(recall)),
                None if span is None else Shown(span.high - span.low, f"[{100 * span.low:.1f}, {100 * span.high:.1f}]"),
                called,
                Shown(precision, percent(precision)),
                Shown(without, percent(without)),
                Shown(both, percent(both)),
            )
        )
    return Table("Labels", columns, tuple(rows), file=f"{name}-labels")


def regression_section(evaluation: RegressionEvaluation, name: str, *, least_accuracy: float | None = None) -> Section:
    """The description of predicted values: R², errors in their own units, and residuals."""
    if least_accuracy is not None:
        raise UsageError("--least-accuracy needs classes: a regression has errors and R², not an accuracy")
    parts: list[Part] = [Notes(evaluation.notes)] if evaluation.notes else []
    parts += [_residuals(each, name) for each in evaluation.values[:_MOST_DRAWN]]
    settings = {"data": evaluation.data, "split": evaluation.split, "normalisation": evaluation.normalisation}
    parts += [_values(evaluation, name), facts_of(settings, evaluation.origin)]
    first, rows = evaluation.values[0], f"{counted(evaluation.images, 'row')} of the {evaluation.split} split"
    errors = f"{first.name} is off by {_within(first.rmse)} (root mean square)" if len(evaluation.values) == 1 else ""
    lead = (
        f"{percent_within(evaluation.r2)} of the variance is explained (R²) on {rows} of {evaluation.data}"
        f"{'; ' if errors else ''}{errors}."
    )
    chips = [("R²", accuracy(evaluation.r2, evaluation.images, evaluation.split))]
    if len(evaluation.values) == 1:
        chips += [("RMSE", _within(first.rmse)), ("MAE", _within(first.mae))]
    look_at = [
        f"{each.name}: answers are worse than the mean of these rows (R² {percent(each.r2.value)})"
        for each in evaluation.values
        if each.r2.high < 0
    ]
    return Section(f"Evaluation: {name}", lead, tuple(parts), tuple(chips), look_at=tuple(look_at))


def _within(interval: Interval) -> str:
    value, low, high = (significant(each) for each in (interval.value, interval.low, interval.high))
    return f"{value} [{low}, {high}]"


def _values(evaluation: RegressionEvaluation, name: str) -> Table:
    columns = (
        Column("value"),
        Column("RMSE", "root of the mean squared error, in its unit, with a 95 % interval", numeric=True),
        Column("MAE", "mean absolute error", numeric=True),
        Column("R²", "share of its variance that is explained", numeric=True),
        Column("bias", "mean residual, target − answer", numeric=True, spare=1),
        Column("deviation", "of the targets: the RMSE of their mean", numeric=True, spare=2),
        Column("residuals", "5, 25, 50, 75 and 95 %", spare=3),
    )
    rows = tuple(
        (
            each.name,
            Shown(each.rmse.value, _within(each.rmse)),
            Shown(each.mae.value, _within(each.mae)),
            Shown(each.r2.value, percent_within(each.r2)),
            Shown(each.bias.value, _within(each.bias)),
            Shown(each.deviation, significant(each.deviation)),
            ", ".join(significant(value) for value in each.quantiles),
        )
        for each in evaluation.values
    )
    return Table("Errors", columns, rows, file=f"{name}-errors")


def _residuals(errors: ValueErrors, name: str) -> Drawing:
    rows: list[dict[str, Cell]] = [
        {"target": target, "answer": answer, "residual": target - answer} for target, answer in errors.points
    ]
    how = (
        "How to read it: each point is a row; the closer to the line at 0, the better its prediction. A slope or "
        "a bend means that large or small values are missed systematically, a funnel that errors grow with the "
        "prediction."
    )
    figure = functools.partial(residual_figure, errors)
    return Drawing(f"Residuals of {errors.name}", how, figure, rows, file=f"{name}-residuals")


def residual_figure(errors: ValueErrors) -> Figure:
    """Target − answer against the answer, for rows spread over the split; dashed is the root mean squared error."""
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.2)
        axes.axhline(0, color=GREY, linewidth=0.9)
        for end in (-errors.rmse.value, errors.rmse.value):
            axes.axhline(end, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        answers = [answer for _, answer in errors.points]
        axes.plot(
            answers, [target - answer for target, answer in errors.points], "o", color=BLUE, markersize=2.8, alpha=0.6
        )
        axes.set_xlabel(f"answer for {shown(errors.name, 30)}")
        axes.set_ylabel("residual: target − answer")
    return figure
