"""A sweep of spiking settings on a page: what was chosen for each neuron, and whether the adjustment helps."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from weightsmith.reporting.figures.spiking import draw_leak_sweep, leak_points
from weightsmith.reporting.figures.thresholds import draw_thresholds
from weightsmith.reporting.parts import Cell, Choice, Drawing, Notes, Part, Prose, Section
from weightsmith.reporting.sections._numbers import MOST_ROWS, chance, changed, noise, rounded, short_network
from weightsmith.reporting.sections._sweep_tables import (
    after,
    gain_tables,
    right_answers,
    settings_table,
    taken,
    verdict,
    winners_table,
)
from weightsmith.reporting.sections._wording import counted, facts_of, percent, percent_within
from weightsmith.spiking.sweep.results import Chosen, Setting, SpikeSweep

__all__ = ["sweep_section"]


def sweep_section(sweep: SpikeSweep, name: str) -> Section:
    """The section of a sweep that the user calls ``name``."""
    parts: list[Part] = [*_notes(sweep)]
    if sweep.chosen:
        options = tuple((after(steps), _at(sweep, steps)) for steps in sweep.steps)
        parts += options[0][1] if len(options) == 1 else [Choice("Number of steps", options, first=len(options) - 1)]
        parts.append(Prose(_together(sweep)))
    if sweep.table:
        parts.append(settings_table(sweep))
    parts.append(facts_of(sweep.settings, sweep.origin, before=[("network", sweep.network)]))
    return Section(f"Spiking sweep: {name}", _lead(sweep), tuple(parts), _chips(sweep))


def _lead(sweep: SpikeSweep) -> str:
    told = (
        f"{counted(len(sweep.table), 'setting')} of {short_network(sweep.network)} as a spiking network were tried on "
        f"{counted(sweep.train_images, 'training image')}, and the best of each neuron tested once on "
        f"{counted(sweep.test_images, 'image')} ({sweep.split})."
    )
    best = _best(sweep)
    if best is None:
        return told
    setting, accuracy = taken(sweep, best)
    return (
        f"{told} The one that was right most often {after(best.steps)} ({_described(setting)}) reaches "
        f"{percent(accuracy.value)}, the network {percent(sweep.plain.value)}: {changed(best.cost)}, McNemar’s "
        f"{chance(best.cost.p)}: {noise(best.cost)}."
    )


def _chips(sweep: SpikeSweep) -> tuple[tuple[str, str], ...]:
    chips = [("accuracy of the network", percent_within(sweep.plain))]
    best = _best(sweep)
    if best is not None:
        setting, accuracy = taken(sweep, best)
        chips += [
            (f"best, {after(best.steps)}", percent_within(accuracy)),
            ("leak and reset", f"{setting.leak:g}, {setting.reset}"),
            ("threshold factor", f"{setting.factor:g}"),
            ("L4 smoothing", "not adjusted" if setting.smoothing is None else f"{setting.smoothing:g}"),
        ]
    lost = sum(result.lost for result in sweep.table)
    return (*chips, ("settings", f"{len(sweep.table):,}"), ("dropped early", f"{lost:,}"))


def _notes(sweep: SpikeSweep) -> Iterator[Notes]:
    lines = list(sweep.notes)
    if sweep.table and not any(correct for result in sweep.table for correct in result.correct):
        lines.insert(0, f"No setting has a single training image right {after(max(sweep.steps))}: does anything fire?")
    if sweep.split == "train":
        lines.append("The winners were tested on training images, which they were chosen by: there were no others.")
    if lines:
        yield Notes(tuple(lines))


def _best(sweep: SpikeSweep) -> Chosen | None:
    """The choice after most steps whose taken setting was right most often on training images."""
    last = [choice for choice in sweep.chosen if choice.steps == max(sweep.steps)]
    return max(last, key=lambda choice: right_answers(sweep, taken(sweep, choice)[0], choice.steps), default=None)


def _described(setting: Setting) -> str:
    told = f"leak {setting.leak:g}, {setting.reset} reset, thresholds × {setting.factor:g}"
    return told if setting.smoothing is None else f"{told}, L4 smoothing {setting.smoothing:g}"


def _at(sweep: SpikeSweep, steps: int) -> tuple[Part, ...]:
    """Both figures and the winners for one number of steps."""
    return (
        _by_leak(sweep, steps),
        winners_table(sweep, steps),
        *gain_tables(sweep, steps),
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
    return Drawing(f"Accuracy against leak {after(steps)}", how, figure, rounded(rows), file=f"leaks-{steps}.csv")


def _by_threshold(sweep: SpikeSweep, steps: int) -> Drawing:
    place = sweep.steps.index(steps)
    rows: list[dict[str, Cell]] = [
        {
            "leak": result.setting.leak,
            "reset": result.setting.reset,
            "factor": result.setting.factor,
            "smoothing": result.setting.smoothing,
            "accuracy": result.correct[place] / result.seen,
            "images": result.seen,
        }
        for result in sweep.table[:MOST_ROWS]
    ]
    how = (
        "How to read it: the darker a cell, the more training images were right; a frame at the edge of the grid says "
        "that a factor beyond it may be better still."
    )
    figure = functools.partial(draw_thresholds, sweep, steps)
    title = f"Accuracy against leak and threshold {after(steps)}"
    return Drawing(title, how, figure, rounded(rows), file=f"thresholds-{steps}.csv")


def _together(sweep: SpikeSweep) -> str:
    """What all comparisons of adjusted with baseline say together."""
    gains = [choice.gain for choice in sweep.chosen if choice.gain is not None]
    if not gains:
        return "The L4 adjustment was not tried: no smoothings were swept."
    said = [verdict(gain) for gain in gains]
    by_chance = 1 - next((gain.interval.confidence for gain in gains if gain.interval is not None), 0.95)
    level = by_chance / len(gains)
    sure = sum(gain.p is not None and gain.p < level for gain in gains)
    told = (
        f"The L4 adjustment helps in {said.count('helps')} of {counted(len(gains), 'comparison')}, hurts in "
        f"{said.count('hurts')}, and is inside the noise in {said.count('unclear')}; if it did nothing, about "
        f"{by_chance * len(gains):.2g} would seem to help or hurt."
    )
    return (
        told
        if len(gains) == 1
        else f"{told} Judged all at once (Bonferroni, p < {level:.2g}), {sure or 'none'} remain{'s' * (sure == 1)}."
    )
