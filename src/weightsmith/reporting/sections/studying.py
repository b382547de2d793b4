"""The section of a study: methods of reduction over folds and sizes, with baselines."""

from __future__ import annotations

from collections.abc import Iterator

from weightsmith.core.statistics import Comparison
from weightsmith.reducing.study_table import WHOLE, Study, StudySummary
from weightsmith.reporting.figures.studies import StudyFigure, figures_of_study
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import chance, counted, facts_of, points, rounded, thinned

__all__ = ["study_section"]

_LEVEL = 0.05  # of the corrected resampled t-test, whose interval agrees with its p

_WORDS = {
    "accuracy": (
        "Accuracy against the initial size",
        "each line is a method, the dashed one the networks before anything was taken out; a method that follows the "
        "dashed line within its bars costs no accuracy.",
    ),
    "size": (
        "Final against initial size",
        "a method that finds the size the task needs runs level, whatever it starts from; one that only takes out a "
        "share runs parallel to the dashed line.",
    ),
    "angle": (
        "Accuracy and size against the angle",
        "going to the right more units count as alike; the angle to take is the one just before the red line falls, "
        "and the blue line tells how many units are left there.",
    ),
    "penalty": (
        "Accuracy against the penalty",
        "going to the right units cost more, so that fewer are left; where a line begins to fall, the penalty asks for "
        "too few.",
    ),
}
"""Title and how to read it, by what a figure shows."""


def study_section(study: Study, name: str) -> Section:
    """The section of a study named ``name``."""
    parts: list[Part] = []
    if study.notes:
        parts.append(Notes(study.notes))
    parts += [_drawing(study, figure) for figure in figures_of_study(study)]
    parts += [_methods(study), *_slopes(study)]
    before = [
        ("data", study.data),
        ("rows", f"{study.rows_of_data:,}"),
        ("features", f"{study.features:,}"),
        ("classes", ", ".join(study.classes)),
    ]
    parts.append(facts_of(study.settings, study.origin, before=before))
    return Section(f"Study: {name}", _lead(study), tuple(parts), _chips(study))


def _reduced(study: Study) -> list[StudySummary]:
    return [found for found in study.summaries if found.method != WHOLE]


def _lead(study: Study) -> str:
    """What was done, and which methods cost no significant accuracy."""
    settings, found = study.settings, _reduced(study)
    methods = counted(len(dict.fromkeys(one.method for one in found)), "method")
    folds = f"{counted(int(settings['folds']), 'fold')} × {counted(int(settings['repeats']), 'repeat')}"
    sizes = ", ".join(map(str, sorted({one.hidden for one in study.summaries})))
    lead = f"{methods} reduced networks of {sizes} hidden units, trained on {study.data} over {folds}."
    tested = [one for one in found if one.against_whole is not None]
    worse = sum(one.against_whole is not None and _is_worse(one.against_whole) for one in tested)
    if tested:
        lead += (
            f" In {worse:,} of {counted(len(tested), 'case')} the loss of accuracy is more than chance (p < 0.05, "
            "corrected resampled t-test, each for itself)"
        )
        free = [one for one in tested if one.against_whole is not None and not _is_worse(one.against_whole)]
        if free:
            best = max(free, key=lambda one: one.removed)
            lead += (
                f"; without such a loss most was taken out by {best.method}, which left {best.units:.1f} of "
                f"{best.hidden:,} units"
            )
        lead += "."
    return lead


def _is_worse(comparison: Comparison) -> bool:
    """A significant loss; one that is the same in every fold has no p, and is a loss."""
    certain = comparison.p is None or comparison.p < _LEVEL
    return comparison.difference < 0 and certain


def _chips(study: Study) -> tuple[tuple[str, str], ...]:
    whole = [found for found in study.summaries if found.method == WHOLE]
    chips = [
        (f"whole, {found.hidden:,} units", f"{found.test_accuracy:.1f} ± {found.test_deviation:.1f} %")
        for found in whole[:3]
    ]
    return (*chips, ("networks", f"{len(study.rows):,}"), ("rows of data", f"{study.rows_of_data:,}"))


def _drawing(study: Study, figure: StudyFigure) -> Drawing:
    title, how = _WORDS[figure.kind]
    rows: list[dict[str, Cell]] = [
        {
            "method": found.method,
            "hidden": found.hidden,
            "folds": found.n,
            "units": found.units,
            "units_deviation": found.units_deviation,
            "test_accuracy": found.test_accuracy,
            "test_deviation": found.test_deviation,
        }
        for found in study.summaries
        if found.method in figure.methods or found.method == WHOLE
    ]
    return Drawing(title, f"How to read it: {how}", figure.draw, rounded(thinned(rows)), file=f"{figure.name}.csv")


def _methods(study: Study) -> Table:
    columns = [
        Column("method"),
        Column("hidden", "units before", numeric=True),
        Column("units", "left: mean ± standard deviation over folds", numeric=True),
        Column("test accuracy", "mean ± standard deviation over folds", numeric=True),
        Column("training accuracy", "mean over folds", numeric=True),
    ]
    against = {
        Column("− whole", "against the network before, in points", numeric=True): [
            found.against_whole for found in study.summaries
        ],
        Column("− random", "against random masks of as many units, in points", numeric=True): [
            found.against_random for found in study.summaries
        ],
        Column("− scratch", "against networks of that size trained from scratch, in points", numeric=True): [
            found.against_scratch for found in study.summaries
        ],
    }
    known = {column: values for column, values in against.items() if any(value is not None for value in values)}
    rows = tuple(
        (*_summary(found), *(_compared(values[index]) for values in known.values()))
        for index, found in enumerate(study.summaries)
    )
    tests = sum(value is not None for values in known.values() for value in values)
    caption = (
        f"p of the corrected resampled t-test, each for itself: of {counted(tests, 'test')} about {0.05 * tests:.2g} "
        "fall below 0.05 by chance alone."
        if tests
        else ""
    )
    return Table("Methods", (*columns, *known), rows, caption, file="methods.csv")


def _summary(found: StudySummary) -> tuple[Cell | Shown, ...]:
    return (
        found.method,
        found.hidden,
        Shown(found.units, f"{found.units:.1f} ± {found.units_deviation:.1f}"),
        Shown(found.test_accuracy, f"{found.test_accuracy:.1f} ± {found.test_deviation:.1f} %"),
        Shown(found.train_accuracy, f"{found.train_accuracy:.1f} %"),
    )


def _compared(comparison: Comparison | None) -> Shown:
    """``−1.3 (p = 0.21)``; a difference that is the same in every fold has no p."""
    if comparison is None:
        return Shown(None, "–")
    certain = "in every fold" if comparison.p is None else chance(comparison.p)
    return Shown(comparison.difference, f"{points(comparison.difference, 1)} ({certain})")


def _slopes(study: Study) -> Iterator[Table]:
    if not study.slopes:
        return
    columns = (
        Column("method"),
        Column("slope", "of log(units left) by log(units before), ± standard deviation over folds", numeric=True),
    )
    rows = tuple((each.method, Shown(each.slope, f"{each.slope:z.2f} ± {each.deviation:.2f}")) for each in study.slopes)
    caption = "0: a method ends at one size wherever it began; 1: it takes out the same share."
    yield Table("Final size by initial size", columns, rows, caption, file="slopes.csv")
