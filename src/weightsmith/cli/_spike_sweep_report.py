"""Print a sweep: the winners for each neuron, where the adjustment helps, the savings by racing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from weightsmith.cli._spike_sweep_findings import Comparisons, comparisons, saved, taken, verdict
from weightsmith.cli.terminal import count_text, files_line, named_line, named_lines, out, percent, table
from weightsmith.reporting.sections._wording import points as points_text

if TYPE_CHECKING:
    from weightsmith.core.statistics import Comparison
    from weightsmith.spiking.sweep.results import Chosen, Setting, SpikeSweep

__all__ = ["show_sweep"]

_FACTOR = "factor: on all thresholds"
_ADJUSTED = "r: smoothing · gain: adjusted − baseline · taken: the better one on training rows · cost: taken − network"
_UNITS = "points, 95 % intervals, McNemar"


def show_sweep(
    sweep: SpikeSweep, source: str, data: str, written: Sequence[Path], try_next: Sequence[str], *, quiet: bool
) -> None:
    """Print one sweep."""
    console = out()
    console.print(f"[bold]{escape(source)}[/bold]  {escape(sweep.network)} on {escape(data)}")
    console.print(escape(" · ".join(_settings(sweep))))
    console.print(_rows_text(sweep))
    console.print(named_line("network", percent(sweep.plain)))
    for steps in sweep.steps:
        choices = [choice for choice in sweep.chosen if choice.steps == steps]
        console.print(_winners(sweep, choices, f"after {steps} step{'s' * (steps != 1)}"))
        for line in _verdicts(choices):
            console.print(line)
    counted = comparisons(sweep)
    console.print(f"[dim]{_legend(adjusted=counted is not None)}[/dim]")
    if counted is not None:
        console.print(named_line("by chance", escape(_chance(counted))))
    console.print(named_line("racing", escape(_racing(sweep))))
    for line in named_lines("note", [] if quiet else [escape(note) for note in sweep.notes]):
        console.print(line)
    for index, text in enumerate(try_next):
        console.print(named_line("" if index else "try next", escape(text)))
    if written:
        console.print(files_line(written))


def _settings(sweep: SpikeSweep) -> list[str]:
    """The settings that all runs share."""
    settings = sweep.settings
    words = [f"{count_text(len(sweep.table))} settings", settings["encode"], settings["balance"]]
    words += ["delay"] if settings["delay"] else []
    words += [settings["precision"]] if settings["precision"] != "float32" else []
    return [*words, f"seed {settings['seed']}"]


def _rows_text(sweep: SpikeSweep) -> str:
    seen = "train, for there are no others" if sweep.split == "train" else sweep.split
    tested = f"tested once on {count_text(sweep.test_images)} rows ({seen})"
    return f"chosen on {count_text(sweep.train_images)} training rows, {tested}; the same spikes for all settings"


def _legend(*, adjusted: bool) -> str:
    return " · ".join([_FACTOR, _ADJUSTED if adjusted else "cost: baseline − network", _UNITS])


def _winners(sweep: SpikeSweep, choices: Sequence[Chosen], title: str) -> Table:
    adjusted = any(choice.adjusted is not None for choice in choices)
    heads = ["leak", "reset", "factor", "baseline"]
    heads += ["factor / r", "adjusted", "gain", "p", "taken"] if adjusted else []
    heads += ["cost"]
    rows = table(*heads, title=title, numbers=tuple(set(heads) - {"reset", "taken"}))
    for choice in choices:
        cells = [f"{choice.leak:g}", escape(choice.reset), _shown(choice.baseline), percent(choice.baseline_test)]
        if choice.adjusted is not None and choice.adjusted_test is not None and choice.gain is not None:
            better = taken(sweep, choice).smoothing is not None
            cells += [_shown(choice.adjusted), percent(choice.adjusted_test), _points(choice.gain), _p(choice.gain)]
            cells.append("adjusted" if better else "baseline")
        rows.add_row(*cells, _points(choice.cost))
    return rows


def _verdicts(choices: Sequence[Chosen]) -> list[Table]:
    """For which neurons the adjustment helps, for which it hurts, and for how many it is unclear."""
    judged = [(choice, verdict(choice)) for choice in choices if verdict(choice) is not None]
    if not judged:
        return [named_line("L4", "not tried: no smoothings were swept")]
    total, lines = len(judged), []
    for word in ("helps", "hurts"):
        found = [choice for choice, outcome in judged if outcome == word]
        where = f"at {len(found)} of {total}: {', '.join(map(_where, found))}" if found else "nowhere"
        lines.append(f"{word} {where}")
    unclear = sum(outcome == "unclear" for _, outcome in judged)
    if unclear:
        lines.append(f"no difference beyond the noise at {unclear} of {total}")
    if unclear == total:
        lines = [f"helps nowhere and hurts nowhere: {lines[-1]}"]
    return [named_line("" if index else "L4", escape(line)) for index, line in enumerate(lines)]


def _where(choice: Chosen) -> str:
    assert choice.gain is not None
    return f"leak {choice.leak:g} {choice.reset} ({points_text(choice.gain.difference)})"


def _chance(counted: Comparisons) -> str:
    clear = counted.helps + counted.hurts
    kind = f"{100 * counted.confidence:g} % interval"
    text = (
        f"{clear} of {counted.total} differences have a {kind} that leaves out zero; "
        f"about {counted.by_chance:.2g} of {counted.total} would if the adjustment did nothing"
    )
    if counted.total == 1:
        return text
    return f"{text}; {counted.together} hold{'s' * (counted.together == 1)} for all together (p < {counted.level:.2g})"


def _racing(sweep: SpikeSweep) -> str:
    savings, rule = saved(sweep), sweep.settings["race"]
    if rule is None:
        return f"none: every setting saw all {count_text(sweep.train_images)} training rows"
    if not savings.dropped:
        return f"{rule}: no setting was dropped"
    share = f"{count_text(savings.saved)} of {count_text(savings.runs)} runs of an image saved"
    last = ", worse after every number of steps" if len(sweep.steps) > 1 else ""
    return f"{rule}: {savings.dropped} of {savings.settings} settings dropped early{last}, {share}"


def _shown(setting: Setting) -> str:
    return f"{setting.factor:g}" if setting.smoothing is None else f"{setting.factor:g} / {setting.smoothing:g}"


def _points(comparison: Comparison) -> str:
    ends = comparison.interval
    span = "" if ends is None else f" ({points_text(ends.low)} to {points_text(ends.high)})"
    return f"{points_text(comparison.difference)}{span}"


def _p(comparison: Comparison) -> str:
    return "–" if comparison.p is None else "< 0.0001" if comparison.p < 1e-4 else f"{comparison.p:.2g}"
