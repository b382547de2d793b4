"""Print grades: layers, α by layer, coverage, measures, and layers left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from weightsmith.cli._layer_table import layer_legend, layer_name, layer_table
from weightsmith.cli.terminal import count_text, out, table
from weightsmith.core.csv_text import csv_rows
from weightsmith.reporting._sparks import spark

if TYPE_CHECKING:
    from weightsmith.grading.comparison import ComparedMeasure, GradeComparison
    from weightsmith.grading.results import Grades, LayerGrade
    from weightsmith.networks.layer_plan import LayerPlan

__all__ = [
    "PlanFile",
    "alpha_line",
    "rows_as_csv",
    "show_comparison",
    "show_files",
    "show_grades",
    "show_plans",
    "verdict_words",
]


_WIDEST, _FEWEST = 60, 10  # bars in the line of α by layer
_INDENT = 12  # width of the names of lines
_MOST_FILES = 6
_WIDE = 160  # terminal width from which a comparison shows the meaning of its measures
_LARGEST_COUNT = 1e12
_NARROW = (0, 1, 0, 0)  # one space between columns: many of them share a terminal's width


class PlanFile(NamedTuple):
    """A plan, its rule, and its path."""

    rule: str
    path: Path
    plan: LayerPlan


def show_grades(grades: Grades, *, why: bool = False) -> None:
    """Print the grades of one network; with ``why`` also the reason of each verdict."""
    from weightsmith.grading.answer import answer

    console = out()
    for line in answer(grades).lines if grades.layers else ():
        console.print(escape(line))
    console.print(f"[bold]{escape(grades.source)}[/bold]  {escape(_settings(grades))}")
    if grades.layers:
        console.print(layer_table(grades.layers, console.width))
    for line in _findings(grades, console.width):
        console.print(line)
    _show_words(grades.layers, "" if why else "--why tells for each")
    if why:
        console.print(_reasons(grades.layers))
    _show_measures(grades)
    _show_left_out(grades)
    if grades.layers:
        console.print(f"[dim]{escape(layer_legend(grades.layers, console.width))}[/dim]")


def show_comparison(several: Sequence[Grades], comparison: GradeComparison) -> None:
    """Print several networks: a few lines for each (their layers would fill pages), then all measures side by side."""
    console = out()
    numbers = [str(number) for number in range(1, len(several) + 1)]
    console.print(escape(_settings(several[0])))
    for number, grades in zip(numbers, several, strict=True):
        console.print(f"[bold]{number:>2}  {escape(grades.source)}[/bold]")
        for line in _findings(grades, console.width - 4):
            console.print(f"    {line}")
    _show_words([layer for grades in several for layer in grades.layers], "--why with one network tells for each")
    wide = console.width >= _WIDE
    console.print(_comparison_table(comparison, numbers, meanings=wide))
    if not wide:
        console.print(_meanings(comparison))
    conclusion = () if comparison.ranking is None else comparison.ranking.lines
    for line in (comparison.sentence or "", *comparison.notes, *conclusion):
        if line:
            console.print(escape(line))


def alpha_line(layers: Sequence[LayerGrade], width: int = _WIDEST) -> str:
    """α from the first layer to the last as a sparkline, a dot for no fit; of many layers a selection."""
    return spark([layer.alpha for layer in layers], width)


def rows_as_csv(several: Sequence[Grades]) -> str:
    """The flat rows of all layers under one header; with several networks the first column names them."""
    rows = [
        {**({"network": grades.source} if len(several) > 1 else {}), **layer.row()}
        for grades in several
        for layer in grades.layers
    ]
    return csv_rows(rows)


def show_plans(plans: Sequence[PlanFile]) -> None:
    """Print plans side by side: the share of each layer that they keep, and their paths."""
    sizes = plans[0].plan.parameters
    heads = tuple(f"{rule} %" for rule, _, _ in plans)
    rows = table("keep", "parameters", *heads, "", numbers=("parameters", *heads))
    for name, size in sizes.items():
        shares = [f"{100 * plan.values[name]:.1f}" for _, _, plan in plans]
        unscored = [rule for rule, _, plan in plans if name in plan.unscored]
        rows.add_row(escape(name), count_text(size), *shares, f"no {', '.join(unscored)}" if unscored else "")
    rows.add_row("all", count_text(sum(sizes.values())), *(f"{100 * plan.mean:.1f}" for _, _, plan in plans), "")
    console = out()
    console.print(rows)
    for rule, path, plan in plans:
        console.print(f"{f'{rule} plan':<14}{escape(str(path))}  {escape(plan.source)}")


def show_files(paths: Sequence[Path]) -> None:
    """Print the written files; of many the first few."""
    more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
    out().print(f"{'files':<{_INDENT}}{escape(', '.join(map(str, paths[:_MOST_FILES])))}{more}")


def _settings(grades: Grades) -> str:
    settings = grades.settings
    about = [f"conv {settings['conv']}", f"normalise {settings['normalise']}", f"evidence {settings['evidence']}"]
    about += [f"cut {settings['cut']}", f"{settings['method']} {settings['precision']}"]
    about += _factors(grades)
    about += ["batch norm folded"] if settings["fold"] else []
    about += [f"minus {settings['base']}"] if settings["base"] else []
    return " · ".join(about)


def _factors(grades: Grades) -> list[str]:
    """The factors on the eigenvalues of WᵀW; ``normalise seed`` implies its own."""
    factors = sorted({layer.factor for layer in grades.layers} - {1.0})
    if grades.settings["normalise"] != "none" or not factors:
        return []
    ends = dict.fromkeys(f"{end:g}" for end in (factors[0], factors[-1]))
    return [f"eigenvalues of convolutions × {' to '.join(ends)}"]


def _findings(grades: Grades, width: int) -> list[str]:
    """α by layer, coverage and verdicts, a line each."""
    alphas = [layer.alpha for layer in grades.layers if layer.alpha is not None]
    lines = []
    if alphas:
        ends = f"  {min(alphas):.2f} – {max(alphas):.2f} (order of the file or module)"
        room = max(_FEWEST, min(_WIDEST, width - _INDENT - len(ends)))
        lines.append(f"{'α by layer':<{_INDENT}}{alpha_line(grades.layers, room)}{ends}")
    lines.append(f"{'coverage':<{_INDENT}}{escape(grades.coverage.line)}")
    if grades.layers:
        verdicts = [f"{count} {kind.value}" for kind, count in grades.verdicts().items()]
        lines.append(f"{'verdicts':<{_INDENT}}{', '.join(verdicts)}")
    return lines


def _show_words(layers: Sequence[LayerGrade], more: str) -> None:
    """The meaning of the verdicts, dimmed, under their counts."""
    for line in verdict_words(layers, more):
        out().print(Padding(f"[dim]{escape(line)}[/dim]", (0, 0, 0, _INDENT)))


def _reasons(layers: Sequence[LayerGrade]) -> Table:
    rows = table("layer", "verdict", "because")
    for layer in layers:
        rows.add_row(escape(layer_name(layer)), layer.verdict.kind.value, escape(layer.verdict.because))
    return rows


def _comparison_table(comparison: GradeComparison, numbers: Sequence[str], *, meanings: bool) -> Table:
    """A row for each measure, a column for each network; with accuracies the agreement of the two orders."""
    accuracy = comparison.accuracy
    agreement = () if accuracy is None else ("τ", "p", "ρ")
    last = ("what is in it",) if meanings else ()
    rows = table("measure", *numbers, *agreement, "", *last, numbers=(*numbers, *agreement))
    rows.padding = _NARROW
    if accuracy is not None:
        shares = [f"{100 * value:.2f} %" for value in accuracy]
        rows.add_row("accuracy", *shares, *("" for _ in agreement), "", *("as given" for _ in last))
    for measure in comparison.measures:
        cells = [_number(value) for value in measure.values]
        if accuracy is not None:
            cells += _agreement(measure)
        claimed = [] if measure.better is None else [f"{measure.better} is better"]
        remark = measure.reason or ", ".join([*claimed, *(["no fit"] if measure.baseline else [])])
        rows.add_row(escape(measure.name), *cells, escape(remark), *(escape(measure.meaning) for _ in last))
    return rows


def _agreement(measure: ComparedMeasure) -> list[str]:
    tau, rho = measure.kendall, measure.spearman
    if tau is None or rho is None:
        return ["–", "–", "–"]
    return [f"{tau.value:+.2f}", f"{tau.p:.2g}", f"{rho.value:+.2f}"]


def _meanings(comparison: GradeComparison) -> Table:
    """The definitions of the measures, if a table of several networks has no room for them."""
    rows = table("measure", "what is in it")
    for measure in comparison.measures:
        rows.add_row(escape(measure.name), escape(measure.meaning))
    return rows


def _show_measures(grades: Grades) -> None:
    """Measures that need a fit first, then the baselines without one, which they must beat."""
    rows = table("measure", "value", "layers", "what is in it", numbers=("value", "layers"))
    for baseline in (False, True):
        chosen = [measure for measure in grades.measures if measure.baseline is baseline]
        if baseline and chosen:
            rows.add_row("[dim]without any fit[/dim]", "", "", "")
        for measure in chosen:
            rows.add_row(escape(measure.name), _number(measure.value), str(measure.layers), escape(measure.meaning))
    out().print(rows)


def _show_left_out(grades: Grades) -> None:
    """Tensors that were not graded, grouped by reason: there are as many biases and norms as layers."""
    groups: dict[str, list[int]] = {}
    examples: dict[str, str] = {}
    for item in grades.coverage.left_out:
        groups.setdefault(item.reason, []).append(item.parameters)
        examples.setdefault(item.reason, item.name)
    if not groups:
        return
    rows = table("not graded", "tensors", "parameters", "for example", numbers=("tensors", "parameters"))
    for reason, sizes in groups.items():
        rows.add_row(escape(reason), str(len(sizes)), count_text(sum(sizes)), escape(examples[reason]))
    out().print(rows)


def _number(value: float | None) -> str:
    """Four digits; counts in full."""
    if value is None:
        return "–"
    return count_text(int(value)) if value.is_integer() and abs(value) < _LARGEST_COUNT else f"{value:.4g}"


# The meaning of the verdicts that occur, a line each.


def verdict_words(layers: Sequence[LayerGrade], more: str = "") -> list[str]:
    """A line for each verdict that occurs, in order of precedence.

    ``more`` says where to find more about layers without a clear verdict.
    """
    from weightsmith.grading.classes import HEAVIEST, LIGHTEST
    from weightsmith.grading.results import VerdictKind

    whole = "the whole interval of α lies"
    meanings = {
        VerdictKind.CANNOT_BE_FITTED: _statuses(layers),
        VerdictKind.NO_HEAVY_TAIL: "no eigenvalue lies beyond what noise reaches, whatever α is",
        VerdictKind.CANNOT_SAY: "; ".join(filter(None, (_doubts(layers), more))),
        VerdictKind.OVER_REGULARISED: f"{whole} below {HEAVIEST:g}",
        VerdictKind.WELL_TRAINED: f"{whole} between {HEAVIEST:g} and {LIGHTEST:g}",
        VerdictKind.WEAKLY_TRAINED: f"{whole} above {LIGHTEST:g}",
        VerdictKind.NOT_JUDGED: "α alone says too little; --evidence fast asks for more",
    }
    found = {layer.verdict.kind for layer in layers}
    return [f"{kind.value}: {meaning}" for kind, meaning in meanings.items() if kind in found]


def _statuses(layers: Sequence[LayerGrade]) -> str:
    counts = Counter(layer.status.value for layer in layers if layer.fit is None)
    return ", ".join(f"{status} ({count})" for status, count in counts.items())


def _doubts(layers: Sequence[LayerGrade]) -> str:
    """Why a verdict is open, the most frequent reason first."""
    from weightsmith.grading.results import VerdictKind

    counts = Counter(_doubt(layer) for layer in layers if layer.verdict.kind is VerdictKind.CANNOT_SAY)
    return " or ".join(
        f"{reason} ({count}{'' if index else ' layer' if count == 1 else ' layers'})"
        for index, (reason, count) in enumerate(counts.most_common())
    )


def _doubt(layer: LayerGrade) -> str:
    from weightsmith.grading.classes import HEAVIEST, LIGHTEST

    if layer.interval is None:
        return "α has no interval"
    if layer.goodness is not None and layer.goodness.rejected:
        return "a power law is rejected, as one in ten true ones would be"
    if any(layer.interval.low <= border <= layer.interval.high for border in (HEAVIEST, LIGHTEST)):
        return "the interval of α reaches into another class"
    return "other evidence speaks against it"
