"""The tables of a sweep: what was taken for each neuron, what the adjustment gains, every setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from weightsmith.core.statistics import Comparison, Interval
from weightsmith.reporting.parts import Cell, Column, Shown, Table
from weightsmith.reporting.sections._numbers import MOST_ROWS, chance, points
from weightsmith.reporting.sections._wording import counted, percent, percent_within
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep

__all__ = ["after", "gain_tables", "right_answers", "settings_table", "taken", "verdict", "winners_table"]


def after(steps: int) -> str:
    """``after 40 steps``."""
    return f"after {counted(steps, 'step')}"


def taken(sweep: SpikeSweep, choice: Chosen) -> tuple[Setting, Interval]:
    """The better of baseline and adjusted on training images, which is compared with the network, and its test."""
    if choice.adjusted is None or choice.adjusted_test is None:
        return choice.baseline, choice.baseline_test
    baseline, adjusted = (right_answers(sweep, one, choice.steps) for one in (choice.baseline, choice.adjusted))
    return (choice.adjusted, choice.adjusted_test) if adjusted > baseline else (choice.baseline, choice.baseline_test)


def right_answers(sweep: SpikeSweep, setting: Setting, steps: int) -> int:
    """How many training images the setting had right after so many steps."""
    result = next(result for result in sweep.table if result.setting.key == setting.key)
    return result.correct[sweep.steps.index(steps)]


def verdict(gain: Comparison) -> Literal["helps", "hurts", "unclear"]:
    """Only an interval that leaves out zero says anything."""
    if gain.interval is None:
        return "unclear"
    return "helps" if gain.interval.low > 0 else "hurts" if gain.interval.high < 0 else "unclear"


def winners_table(sweep: SpikeSweep, steps: int) -> Table:
    """What was taken for each neuron, and what that costs."""
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
        setting, accuracy = taken(sweep, choice)
        test = Shown(accuracy.value, percent_within(accuracy))
        rows.append(
            (_neuron(choice), setting.factor, _smoothing(setting), test, _difference(choice.cost), _p(choice.cost))
        )
    caption = f"Chosen on {counted(sweep.train_images, 'training image')}, tested once."
    return Table(f"Chosen {after(steps)}", columns, tuple(rows), caption, file=f"chosen-{steps}.csv")


def gain_tables(sweep: SpikeSweep, steps: int) -> Iterator[Table]:
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
                    verdict(gain),
                )
            )
    if rows:
        yield Table(f"The adjustment {after(steps)}", columns, tuple(rows), file=f"adjustment-{steps}.csv")


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


def settings_table(sweep: SpikeSweep) -> Table:
    """Every setting, of very many those that were right most often."""
    chosen = {
        setting.key for choice in sweep.chosen for setting in (choice.baseline, choice.adjusted) if setting is not None
    }
    columns = (
        Column("setting"),
        Column("leak", "factor per step; 1 leaks nothing", numeric=True),
        Column("reset"),
        Column("factor", "on all thresholds", numeric=True),
        Column("smoothing", "of the L4 adjustment; none: not adjusted", numeric=True),
        *(Column(after(steps), "accuracy on the training images it saw", numeric=True) for steps in sweep.steps),
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
