"""The section of a sweep of spiking settings: the chosen settings of each neuron, and the gain by the adjustment."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Literal

from weightsmith.core.statistics import Comparison, Interval
from weightsmith.reporting.figures.spiking.catalogue import draw_leak_sweep, leak_points
from weightsmith.reporting.figures.spiking.thresholds import draw_thresholds
from weightsmith.reporting.parts import Cell, Choice, Column, Drawing, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._wording import (
    MOST_ROWS,
    chance,
    changed,
    conclusion,
    counted,
    facts_of,
    percent,
    percent_within,
    points,
    rounded,
    short_network,
)
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep

__all__ = ["sweep_section"]


def sweep_section(sweep: SpikeSweep, name: str) -> Section:
    """The section of a sweep named ``name``."""
    parts: list[Part] = [*_notes(sweep)]
    if sweep.chosen:
        options = tuple((_after(steps), _at(sweep, steps)) for steps in sweep.steps)
        parts += options[0][1] if len(options) == 1 else [Choice("Number of steps", options, first=len(options) - 1)]
        parts.append(Prose(_together(sweep)))
    if sweep.table:
        parts.append(_settings_table(sweep))
    parts.append(facts_of(sweep.settings, sweep.origin, before=[("network", sweep.network)]))
    return Section(f"Spiking sweep: {name}", _lead(sweep), tuple(parts), _chips(sweep))


def _lead(sweep: SpikeSweep) -> str:
    lead = (
        f"{counted(len(sweep.table), 'setting')} of {short_network(sweep.network)} as a spiking network were tried on "
        f"{counted(sweep.train_images, 'training image')}, and the best of each neuron tested once on "
        f"{counted(sweep.test_images, 'image')} ({sweep.split})."
    )
    best = _best(sweep)
    if best is None:
        return lead
    setting, accuracy = _taken(sweep, best)
    return (
        f"{lead} The one that was right most often {_after(best.steps)} ({_described(setting)}) reaches "
        f"{percent(accuracy.value)}, the network {percent(sweep.plain.value)}: {changed(best.cost)}, McNemar’s "
        f"{chance(best.cost.p)}: {conclusion(best.cost)}."
    )


def _chips(sweep: SpikeSweep) -> tuple[tuple[str, str], ...]:
    chips = [("accuracy of the network", percent_within(sweep.plain))]
    best = _best(sweep)
    if best is not None:
        setting, accuracy = _taken(sweep, best)
        chips += [
            (f"best, {_after(best.steps)}", percent_within(accuracy)),
            ("leak and reset", f"{setting.leak:g}, {setting.reset}"),
            ("threshold factor", f"{setting.factor:g}"),
            ("L4 smoothing", "not adjusted" if setting.smoothing is None else f"{setting.smoothing:g}"),
        ]
    lost = sum(result.lost for result in sweep.table)
    return (*chips, ("settings", f"{len(sweep.table):,}"), ("dropped early", f"{lost:,}"))


def _notes(sweep: SpikeSweep) -> Iterator[Notes]:
    lines = list(sweep.notes)
    if sweep.table and not any(correct for result in sweep.table for correct in result.correct):
        lines.insert(0, f"No setting has a single training image right {_after(max(sweep.steps))}: does anything fire?")
    if sweep.split == "train":
        lines.append("The winners were tested on training images, which they were chosen by: there were no others.")
    if lines:
        yield Notes(tuple(lines))


def _best(sweep: SpikeSweep) -> Chosen | None:
    """The choice after the most steps whose setting was most accurate on training images."""
    last = [choice for choice in sweep.chosen if choice.steps == max(sweep.steps)]
    return max(last, key=lambda choice: _right_answers(sweep, _taken(sweep, choice)[0], choice.steps), default=None)


def _described(setting: Setting) -> str:
    text = f"leak {setting.leak:g}, {setting.reset} reset, thresholds × {setting.factor:g}"
    return text if setting.smoothing is None else f"{text}, L4 smoothing {setting.smoothing:g}"


def _at(sweep: SpikeSweep, steps: int) -> tuple[Part, ...]:
    """Both figures and the winners for one number of steps."""
    return (
        _by_leak(sweep, steps),
        _winners_table(sweep, steps),
        *_gain_tables(sweep, steps),
        _by_threshold(sweep, steps),
    )


def _by_leak(sweep: SpikeSweep, steps: int) -> Drawing:
    found = leak_points(sweep, steps)
    rows: list[dict[str, Cell]] = [
        {
            "leak": point.leak,
            "reset": point.reset,
            "adjusted": "yes" if point.adjusted else "no",
            "accuracy": point.accuracy.value,
            "low": point.accuracy.low,
            "high": point.accuracy.high,
            "difference": None if point.difference is None else point.difference.value,
            "difference_low": None if point.difference is None else point.difference.low,
            "difference_high": None if point.difference is None else point.difference.high,
        }
        for point in found
    ]
    how = (
        "How to read it: each point is the best setting of a neuron on test images, with its interval; the further to "
        "the left, the more the neuron forgets."
    )
    if any(point.adjusted for point in found):
        how += " Below, the adjustment helps where a filled mark lies above zero, and hurts where one lies under it."
    figure = functools.partial(draw_leak_sweep, found, network=sweep.plain)
    return Drawing(f"Accuracy against leak {_after(steps)}", how, figure, rounded(rows), file=f"leaks-{steps}.csv")


def _by_threshold(sweep: SpikeSweep, steps: int) -> Drawing:
    index = sweep.steps.index(steps)
    rows: list[dict[str, Cell]] = [
        {
            "leak": result.setting.leak,
            "reset": result.setting.reset,
            "factor": result.setting.factor,
            "smoothing": result.setting.smoothing,
            "accuracy": result.correct[index] / result.seen,
            "images": result.seen,
        }
        for result in sweep.table[:MOST_ROWS]
    ]
    how = (
        "How to read it: the darker a cell, the more training images were right; a frame at the edge of the grid says "
        "that a factor beyond it may be better still."
    )
    figure = functools.partial(draw_thresholds, sweep, steps)
    title = f"Accuracy against leak and threshold {_after(steps)}"
    return Drawing(title, how, figure, rounded(rows), file=f"thresholds-{steps}.csv")


def _together(sweep: SpikeSweep) -> str:
    """All comparisons of adjusted with baseline together."""
    gains = [choice.gain for choice in sweep.chosen if choice.gain is not None]
    if not gains:
        return "The L4 adjustment was not tried: no smoothings were swept."
    verdicts = [_verdict(gain) for gain in gains]
    by_chance = 1 - next((gain.interval.confidence for gain in gains if gain.interval is not None), 0.95)
    level = by_chance / len(gains)
    sure = sum(gain.p is not None and gain.p < level for gain in gains)
    text = (
        f"The L4 adjustment helps in {verdicts.count('helps')} of {counted(len(gains), 'comparison')}, hurts in "
        f"{verdicts.count('hurts')}, and is inside the noise in {verdicts.count('unclear')}; if it did nothing, about "
        f"{by_chance * len(gains):.2g} would seem to help or hurt."
    )
    return (
        text
        if len(gains) == 1
        else f"{text} Judged all at once (Bonferroni, p < {level:.2g}), {sure or 'none'} remain{'s' * (sure == 1)}."
    )


# The tables of a sweep: the chosen settings, the gain by the adjustment, every setting.


def _after(steps: int) -> str:
    """``after 40 steps``."""
    return f"after {counted(steps, 'step')}"


def _taken(sweep: SpikeSweep, choice: Chosen) -> tuple[Setting, Interval]:
    """The better of baseline and adjusted on training images, to compare with the network, and its test accuracy."""
    if choice.adjusted is None or choice.adjusted_test is None:
        return choice.baseline, choice.baseline_test
    baseline, adjusted = (_right_answers(sweep, one, choice.steps) for one in (choice.baseline, choice.adjusted))
    return (choice.adjusted, choice.adjusted_test) if adjusted > baseline else (choice.baseline, choice.baseline_test)


def _right_answers(sweep: SpikeSweep, setting: Setting, steps: int) -> int:
    """The number of correct training images of the setting after ``steps`` steps."""
    result = next(result for result in sweep.table if result.setting.key == setting.key)
    return result.correct[sweep.steps.index(steps)]


def _verdict(gain: Comparison) -> Literal["helps", "hurts", "unclear"]:
    """Significant if the interval excludes zero."""
    if gain.interval is None:
        return "unclear"
    return "helps" if gain.interval.low > 0 else "hurts" if gain.interval.high < 0 else "unclear"


def _winners_table(sweep: SpikeSweep, steps: int) -> Table:
    """The chosen setting of each neuron, and its cost."""
    columns = (
        Column("neuron", "leak and reset"),
        Column("factor", "on all thresholds", numeric=True),
        Column("smoothing", "of the L4 adjustment; none: not adjusted", numeric=True),
        Column("accuracy", "on test images, and its 95 % interval", numeric=True),
        Column("cost", "against the network on the same images, in points", numeric=True),
        Column("p", "McNemar’s: how often a difference as large comes by chance", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for choice in _choices(sweep, steps):
        setting, accuracy = _taken(sweep, choice)
        test = Shown(accuracy.value, percent_within(accuracy))
        rows.append(
            (_neuron(choice), setting.factor, _smoothing(setting), test, _difference(choice.cost), _p(choice.cost))
        )
    caption = f"Chosen on {counted(sweep.train_images, 'training image')}, tested once."
    return Table(f"Chosen {_after(steps)}", columns, tuple(rows), caption, file=f"chosen-{steps}.csv")


def _gain_tables(sweep: SpikeSweep, steps: int) -> Iterator[Table]:
    """The best settings without and with the adjustment side by side, if there are any with it."""
    columns = (
        Column("neuron", "leak and reset"),
        Column("baseline", "test accuracy, and the factor on thresholds that was best", numeric=True),
        Column("adjusted", "test accuracy, and the factor on thresholds and smoothing r that were best", numeric=True),
        Column("gain", "adjusted − baseline on the same images, in points", numeric=True),
        Column("p", "McNemar’s", numeric=True),
        Column("adjustment", "helps or hurts only if the interval of the gain leaves out zero"),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for choice in _choices(sweep, steps):
        best, test, gain = choice.adjusted, choice.adjusted_test, choice.gain
        if best is not None and test is not None and gain is not None:
            baseline, adjusted = choice.baseline_test.value, test.value
            rows.append(
                (
                    _neuron(choice),
                    Shown(baseline, f"{percent(baseline)} (× {choice.baseline.factor:g})"),
                    Shown(adjusted, f"{percent(adjusted)} (× {best.factor:g}, r = {best.smoothing:g})"),
                    _difference(gain),
                    _p(gain),
                    _verdict(gain),
                )
            )
    if rows:
        yield Table(f"The adjustment {_after(steps)}", columns, tuple(rows), file=f"adjustment-{steps}.csv")


def _choices(sweep: SpikeSweep, steps: int) -> list[Chosen]:
    return [choice for choice in sweep.chosen if choice.steps == steps]


def _neuron(choice: Chosen) -> str:
    return f"leak {choice.leak:g}, {choice.reset}"


def _smoothing(setting: Setting) -> Shown:
    return Shown(setting.smoothing, "none" if setting.smoothing is None else f"{setting.smoothing:g}")


def _p(comparison: Comparison) -> Shown:
    return Shown(comparison.p, chance(comparison.p).removeprefix("p ").removeprefix("= "))


def _difference(comparison: Comparison) -> Shown:
    ends = comparison.interval
    within = "" if ends is None else f" [{points(ends.low)}, {points(ends.high)}]"
    return Shown(comparison.difference, points(comparison.difference) + within)


def _settings_table(sweep: SpikeSweep) -> Table:
    """Every setting, of very many the most accurate ones."""
    chosen = {
        setting.key for choice in sweep.chosen for setting in (choice.baseline, choice.adjusted) if setting is not None
    }
    columns = (
        Column("setting"),
        Column("leak", "factor per step; 1 leaks nothing", numeric=True),
        Column("reset"),
        Column("factor", "on all thresholds", numeric=True),
        Column("smoothing", "of the L4 adjustment; none: not adjusted", numeric=True),
        *(Column(_after(steps), "accuracy on the training images it saw", numeric=True) for steps in sweep.steps),
        Column("images", "training images it saw", numeric=True),
        Column("outcome", "chosen for its neuron, or dropped before it had seen all images"),
    )
    ranked = sorted(sweep.table, key=lambda result: -result.correct[-1] / result.seen)
    kept = {id(result) for result in ranked[:MOST_ROWS]}
    rows = tuple(
        _setting(number, result, chosen=result.setting.key in chosen)
        for number, result in enumerate(sweep.table, 1)
        if id(result) in kept
    )
    left_out = len(sweep.table) - len(rows)
    caption = f"The {len(rows):,} best of {len(sweep.table):,} settings." if left_out else ""
    return Table("All settings", columns, rows, caption, file="settings.csv")


def _setting(number: int, result: SettingResult, *, chosen: bool) -> tuple[Cell | Shown, ...]:
    setting = result.setting
    accuracies = [correct / result.seen for correct in result.correct]
    return (
        number,
        setting.leak,
        setting.reset,
        setting.factor,
        _smoothing(setting),
        *(Shown(accuracy, percent(accuracy)) for accuracy in accuracies),
        result.seen,
        "chosen" if chosen else "dropped" if result.lost else "finished",
    )
