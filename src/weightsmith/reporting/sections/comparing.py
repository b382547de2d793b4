"""The section of a comparison of graded networks: which measure orders them as their accuracies do."""

from __future__ import annotations

from collections.abc import Sequence

from weightsmith.grading.comparison import GradeComparison
from weightsmith.grading.results import Grades
from weightsmith.reporting.figures.labels import network_labels
from weightsmith.reporting.parts import Cell, Column, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._grading_drawings import comparison_drawings, network_drawings
from weightsmith.reporting.sections._wording import counted

__all__ = ["comparison_section"]


def comparison_section(comparison: GradeComparison, networks: Sequence[Grades] = ()) -> Section:
    """The section of a comparison, with figures of all ``networks`` if their grades are given."""
    lines = (*filter(None, [comparison.sentence]), *comparison.notes)
    parts: list[Part] = [Notes(lines)] if lines else []
    parts += comparison_drawings(comparison)
    if len(networks) > 1:
        parts += network_drawings(networks, "comparison")
    parts += [_measures(comparison), _coverage(comparison)]
    sizes = f"{counted(len(comparison.measures), 'measure')} of {counted(len(comparison.names), 'network')}"
    return Section("Networks side by side", f"{sizes}, each over the layers with a fit.", tuple(parts))


def _measures(comparison: GradeComparison) -> Table:
    """A row per measure, a column per network; correlations if there are accuracies."""
    judged = comparison.accuracy is not None
    columns = [Column("measure")]
    columns += [Column(label, numeric=True) for label in network_labels(comparison.names)]
    if judged:
        columns += [
            Column("τ", "Kendall’s correlation with the accuracies", numeric=True),
            Column("p of τ", "two-sided, exact for few networks", numeric=True),
            Column("ρ", "Spearman’s correlation with the accuracies", numeric=True),
        ]
    columns += [Column("needs a fit"), Column("what is in it")]
    rows: list[tuple[Cell | Shown, ...]] = []
    for measure in comparison.measures:
        cells: list[Cell | Shown] = [measure.name, *measure.values]
        if judged:
            tau, rho = measure.kendall, measure.spearman
            cells += [None, None] if tau is None else [tau.value, tau.p]
            cells += [None] if rho is None else [rho.value]
        meaning = measure.meaning + (f" ({measure.reason})" if measure.reason else "")
        rows.append((*cells, "no" if measure.baseline else "yes", meaning))
    caption = ""
    if comparison.accuracy is not None:
        pairs = zip(network_labels(comparison.names), comparison.accuracy, strict=True)
        caption = f"Accuracies: {', '.join(f'{name} {value:g}' for name, value in pairs)}."
    return Table("Measures of all networks", tuple(columns), tuple(rows), caption, file="comparison")


def _coverage(comparison: GradeComparison) -> Table:
    columns = (Column("network"), Column("graded", "how much of it has a fit"))
    return Table("Coverage", columns, tuple(zip(comparison.names, comparison.coverage, strict=True)))
