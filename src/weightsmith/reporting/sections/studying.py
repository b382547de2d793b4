"""The section of a study: methods of reduction over folds and sizes, with baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weightsmith.core.statistics import Comparison, holm
from weightsmith.reducing.study_table import WHOLE, Study, StudySummary, method_pairs
from weightsmith.reporting.figures.studies import StudyFigure, figures_of_study
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import (
    chance,
    changed,
    counted,
    facts_of,
    points,
    rounded,
    setting_text,
    thinned,
)

__all__ = ["study_section"]

_LEVEL = 0.05  # of the corrected resampled t-test, whose interval agrees with its p

_WORDS = {
    "accuracy": (
        "Accuracy against the initial size",
        "each line is a method, the dashed one the unreduced networks; a method that follows the "
        "dashed line within its bars costs no accuracy.",
    ),
    "size": (
        "Final against initial size",
        "the line of a method that finds the size the task needs is level, whatever the initial size; the line of one "
        "that only removes a share is parallel to the dashed line.",
    ),
    "angle": (
        "Accuracy and size against the angle",
        "further to the right more units count as alike; choose the angle just before the red line falls, "
        "where the blue line shows how many units are left.",
    ),
    "penalty": (
        "Accuracy against the penalty",
        "further to the right units cost more, so fewer are left; where a line begins to fall, the penalty leaves "
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
    parts += [_methods(study), *_pairs(study), *_slopes(study)]
    before = [
        ("data", study.data),
        ("rows", f"{study.rows_of_data:,}"),
        ("features", f"{study.features:,}"),
        ("classes", ", ".join(study.classes)),
    ]
    parts.append(facts_of(study.settings, study.origin, before=before))
    return Section(f"Study: {name}", _lead(study), tuple(parts), _chips(study), _about(study))


def _about(study: Study) -> str:
    """Data and settings in a line, without those that the file lacks."""
    known = study.settings
    words = {
        "scaling": "scaling {}, fitted on training rows",
        "activation": "{} units",
        "rate": "Adam at {}",
        "batch": "batches of {}",
        "epochs": "{} epochs",
        "folds": "{} folds",
        "repeats": "{} repeats",
        "seed": "seed {}",
    }
    data = f"{counted(study.rows_of_data, 'row')}, {counted(study.features, 'feature')}, {len(study.classes)} classes"
    told = [text.format(setting_text(known[name])) for name, text in words.items() if name in known]
    return f"{data}; {', '.join(told)}"


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
    if tested:
        losses = _losses([one.against_whole for one in tested])
        free = [one for one, lost in zip(tested, losses, strict=True) if not lost]
        lead += (
            f" In {sum(losses):,} of {counted(len(tested), 'case')} the loss of accuracy is more than chance "
            "(p < 0.05, corrected resampled t-test with Holm’s correction)"
        )
        if free:
            best = max(free, key=lambda one: one.removed)
            lead += (
                f"; without such a loss {best.method} removed most and left {best.units:.1f} of {best.hidden:,} units"
            )
        lead += "."
    return lead


def _losses(several: Sequence[Comparison | None]) -> list[bool]:
    """Whether each is a loss beyond chance; a loss that is the same in every fold has no p, and counts."""
    corrected = holm([None if each is None else each.p for each in several])
    return [
        each is not None and each.difference < 0 and (p is None or p < _LEVEL)
        for each, p in zip(several, corrected, strict=True)
    ]


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
    cells = [list(_compared(values)) for values in known.values()]
    rows = tuple(
        (*_summary(found), *(column[index] for column in cells)) for index, found in enumerate(study.summaries)
    )
    caption = "p of the corrected resampled t-test, with Holm’s correction within its column." if known else ""
    return Table("Methods", (*columns, *known), rows, caption, file="methods.csv")


def _summary(found: StudySummary) -> tuple[Cell | Shown, ...]:
    return (
        found.method,
        found.hidden,
        Shown(found.units, f"{found.units:.1f} ± {found.units_deviation:.1f}"),
        Shown(found.test_accuracy, f"{found.test_accuracy:.1f} ± {found.test_deviation:.1f} %"),
        Shown(found.train_accuracy, f"{found.train_accuracy:.1f} %"),
    )


def _compared(several: Sequence[Comparison | None]) -> Iterator[Shown]:
    """``−1.3 (p = 0.21)``, corrected by Holm; a difference that is the same in every fold has no p."""
    corrected = holm([None if each is None else each.p for each in several])
    for each, p in zip(several, corrected, strict=True):
        if each is None:
            yield Shown(None, "–")
        else:
            yield Shown(
                each.difference, f"{points(each.difference, 1)} ({'in every fold' if p is None else chance(p)})"
            )


def _pairs(study: Study) -> Iterator[Table]:
    """The methods against each other on the same folds, at each initial size."""
    found = method_pairs(study.rows, int(study.settings["folds"]))
    if not found:
        return
    columns = (
        Column("method"),
        Column("other"),
        Column("hidden", "units before", numeric=True),
        Column("difference", "of test accuracy, method − other on the same folds, with its interval", numeric=True),
        Column("p", "corrected resampled t-test, with Holm’s correction for this table", numeric=True),
    )
    corrected = holm([pair.comparison.p for pair in found])
    rows = tuple(
        (
            pair.method,
            pair.other,
            pair.hidden,
            Shown(pair.comparison.difference, changed(pair.comparison, 1)),
            Shown(p, "in every fold" if p is None else chance(p).removeprefix("p = ").removeprefix("p ")),
        )
        for pair, p in zip(found, corrected, strict=True)
    )
    yield Table("Methods against each other", columns, rows, file="pairs.csv")


def _slopes(study: Study) -> Iterator[Table]:
    if not study.slopes:
        return
    columns = (
        Column("method"),
        Column("slope", "of log(units left) by log(units before), ± standard deviation over folds", numeric=True),
    )
    rows = tuple((each.method, Shown(each.slope, f"{each.slope:z.2f} ± {each.deviation:.2f}")) for each in study.slopes)
    caption = "0: a method ends at the same size whatever the initial one; 1: it removes the same share."
    yield Table("Final size by initial size", columns, rows, caption, file="slopes.csv")
