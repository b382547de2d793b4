"""The section of a sweep of spiking settings: the chosen settings of each neuron, and the gain by the adjustment."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from weightsmith.core.statistics import Interval, holm
from weightsmith.reporting.figures.spiking.catalogue import draw_leak_sweep, leak_points
from weightsmith.reporting.figures.spiking.thresholds import draw_thresholds
from weightsmith.reporting.parts import Cell, Choice, Column, Drawing, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._known_networks import HOLM, change_cells
from weightsmith.reporting.sections._sweeping_findings import (
    advice,
    comparisons,
    concern,
    racing_words,
    right_answers,
    taken,
    verdict,
)
from weightsmith.reporting.sections._wording import (
    MOST_ROWS,
    accuracy,
    chance,
    changed,
    conclusion,
    counted,
    facts_of,
    percent,
    percent_within,
    rounded,
    short_network,
)
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep

__all__ = ["sweep_section"]


def sweep_section(sweep: SpikeSweep, name: str, *, convert: Sequence[str] = (), kept: bool = True) -> Section:
    """The description of a sweep named ``name``.

    ``convert`` is the command line that converts this network, to which advice adds the best setting; ``kept``: the
    sweep was written.
    """
    parts: list[Part] = [*_notes(sweep)]
    if sweep.chosen:
        options = tuple((_after(steps), _at(sweep, steps)) for steps in sweep.steps)
        parts += options[0][1] if len(options) == 1 else [Choice("Number of steps", options, first=len(options) - 1)]
        parts.append(Prose(_together(sweep)))
    if sweep.table:
        parts.append(_settings_table(sweep))
    parts.append(facts_of(sweep.settings, sweep.origin, before=[("network", sweep.network)]))
    found = concern(sweep)
    return Section(
        f"Spiking sweep: {name}",
        _lead(sweep),
        tuple(parts),
        _chips(sweep),
        _about(sweep),
        () if found is None else (found,),
        tuple(advice(sweep, convert, kept=kept)) if convert else (),
    )


def _about(sweep: SpikeSweep) -> str:
    """The settings that all runs share."""
    settings = sweep.settings
    words = [sweep.network, *(str(settings[key]) for key in ("encode", "balance") if key in settings)]
    words += ["delay"] if settings.get("delay") else []
    words += [settings["precision"]] if settings.get("precision", "float32") != "float32" else []
    return " · ".join([*words, f"seed {sweep.origin.seed}", "the same spikes for all settings"])


def _lead(sweep: SpikeSweep) -> str:
    lead = (
        f"{counted(len(sweep.table), 'setting')} of {short_network(sweep.network)} as a spiking network were tried "
        f"on {counted(sweep.train_images, 'training image')}, and the best of each neuron tested once on "
        f"{counted(sweep.test_images, 'image')} ({sweep.split})."
    )
    best = _best(sweep)
    if best is None:
        return lead
    setting, found = _taken(sweep, best)
    beside = _choices(sweep, best.steps)
    p = holm([each.cost.p for each in beside])[beside.index(best)]
    corrected = " with Holm’s correction" if len(beside) > 1 else ""
    return (
        f"{lead} The most accurate one {_after(best.steps)} ({_described(setting)}) reaches "
        f"{percent(found.value)}, the network {percent(sweep.plain.value)}: {changed(best.cost)}, McNemar’s "
        f"{chance(p)}{corrected}: {conclusion(best.cost)}."
    )


def _chips(sweep: SpikeSweep) -> tuple[tuple[str, str], ...]:
    rows = (sweep.test_images, sweep.split)
    chips = [("accuracy of the network", accuracy(sweep.plain, *rows))]
    best = _best(sweep)
    if best is not None:
        setting, found = _taken(sweep, best)
        chips += [
            (f"best, {_after(best.steps)}", accuracy(found, *rows)),
            ("leak and reset", f"{setting.leak:g}, {setting.reset}"),
            ("threshold factor", f"{setting.factor:g}"),
            ("L4 smoothing", "not adjusted" if setting.smoothing is None else f"{setting.smoothing:g}"),
        ]
    return (*chips, ("settings", f"{len(sweep.table):,}"), ("racing", racing_words(sweep)))


def _notes(sweep: SpikeSweep) -> Iterator[Notes]:
    lines = list(sweep.notes)
    if sweep.split == "train":
        lines.append("The winners were tested on the training images on which they were chosen: there were no others.")
    if lines:
        yield Notes(tuple(lines))


def _best(sweep: SpikeSweep) -> Chosen | None:
    """The choice after the most steps whose setting was most accurate on training images."""
    last = [choice for choice in sweep.chosen if choice.steps == max(sweep.steps)]
    return max(last, key=lambda choice: right_answers(sweep, taken(sweep, choice), choice.steps), default=None)


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
        "How to read it: each point is the best setting of a neuron on test images, with its interval; the "
        "further to the left, the faster the leak."
    )
    if any(point.adjusted for point in found):
        how += " Below, the adjustment helps where a filled mark lies above zero, and hurts where one lies below."
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
        "How to read it: the darker a cell, the higher the accuracy on training images; a frame at the edge of "
        "the grid means that a factor beyond it may be better still."
    )
    figure = functools.partial(draw_thresholds, sweep, steps)
    title = f"Accuracy against leak and threshold {_after(steps)}"
    return Drawing(title, how, figure, rounded(rows), file=f"thresholds-{steps}.csv")


def _together(sweep: SpikeSweep) -> str:
    """All comparisons of adjusted with baseline together."""
    gains = [choice.gain for choice in sweep.chosen if choice.gain is not None]
    if not gains:
        return "The L4 adjustment was not tried: no smoothings were swept."
    found = comparisons(sweep)
    if found is None:
        return "The L4 adjustment changed nothing that could be compared."
    open_still = found.total - found.helps - found.hurts
    text = (
        f"The L4 adjustment helps in {found.helps} of {counted(found.total, 'comparison')}, hurts in {found.hurts}, "
        f"and is undecided in {open_still}; if it did nothing, about {found.by_chance:.2g} would seem to help or hurt."
    )
    sure = sum(p is not None and p < 1 - found.confidence for p in holm([gain.p for gain in gains]))
    left = f"{sure or 'none'} remain{'s' * (sure == 1)}"
    return text if len(gains) == 1 else f"{text} Judged all at once (Holm’s correction), {left}."


# The tables of a sweep: the chosen settings, the gain by the adjustment, every setting.


def _after(steps: int) -> str:
    """``after 40 steps``."""
    return f"after {counted(steps, 'step')}"


def _taken(sweep: SpikeSweep, choice: Chosen) -> tuple[Setting, Interval]:
    """The better of baseline and adjusted on training images, to compare with the network, and its test accuracy."""
    setting = taken(sweep, choice)
    if setting.smoothing is None or choice.adjusted_test is None:
        return choice.baseline, choice.baseline_test
    return setting, choice.adjusted_test


def _winners_table(sweep: SpikeSweep, steps: int) -> Table:
    """The chosen setting of each neuron, and its cost."""
    columns = (
        Column("neuron", "leak and reset"),
        Column("factor", "on all thresholds", numeric=True),
        Column("smoothing", "of the L4 adjustment; none: not adjusted", numeric=True),
        Column("accuracy", "on test images, and its 95 % interval", numeric=True),
        Column("cost", "against the network on the same images, in points", numeric=True),
        Column("p", HOLM, numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    choices = _choices(sweep, steps)
    for choice, p in zip(choices, holm([each.cost.p for each in choices]), strict=True):
        setting, found = _taken(sweep, choice)
        test = Shown(found.value, percent_within(found))
        rows.append((_neuron(choice), setting.factor, _smoothing(setting), test, *change_cells(choice.cost, p)))
    tested = f"tested once on {counted(sweep.test_images, 'row')} ({sweep.split})"
    caption = f"Chosen on {counted(sweep.train_images, 'training row')}, {tested}."
    return Table(f"Chosen {_after(steps)}", columns, tuple(rows), caption, file=f"chosen-{steps}.csv")


def _gain_tables(sweep: SpikeSweep, steps: int) -> Iterator[Table]:
    """The best settings without and with the adjustment side by side, if there are any with it."""
    columns = (
        Column("neuron", "leak and reset"),
        Column("baseline", "test accuracy and interval", numeric=True),
        Column("factor", "on thresholds", numeric=True),
        Column("adjusted", "test accuracy and interval", numeric=True),
        Column("factor, r", "on thresholds, and smoothing", numeric=True),
        Column("gain", "adjusted − baseline on the same rows, in points", numeric=True),
        Column("p", HOLM, numeric=True),
        Column("adjustment", "helps or hurts only if the interval of the gain excludes zero"),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    choices = _choices(sweep, steps)
    ps = holm([None if each.gain is None else each.gain.p for each in choices])
    for choice, p in zip(choices, ps, strict=True):
        best, test, gain = choice.adjusted, choice.adjusted_test, choice.gain
        if best is not None and test is not None and gain is not None:
            rows.append(
                (
                    _neuron(choice),
                    Shown(choice.baseline_test.value, percent_within(choice.baseline_test)),
                    choice.baseline.factor,
                    Shown(test.value, percent_within(test)),
                    Shown(best.factor, f"{best.factor:g}, {best.smoothing:g}"),
                    *change_cells(gain, p),
                    verdict(choice) or "unclear",
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


def _settings_table(sweep: SpikeSweep) -> Table:
    """Every setting, of very many the most accurate ones."""
    chosen = {
        setting.key for choice in sweep.chosen for setting in (choice.baseline, choice.adjusted) if setting is not None
    }
    columns = (
        Column("setting"),
        Column("leak", "factor per step; 1: no leak", numeric=True),
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
    return Table("All settings", columns, rows, caption, file="settings.csv", detail=True)


def _setting(number: int, result: SettingResult, *, chosen: bool) -> tuple[Cell | Shown, ...]:
    setting = result.setting
    shares = [correct / result.seen for correct in result.correct]
    return (
        number,
        setting.leak,
        setting.reset,
        setting.factor,
        _smoothing(setting),
        *(Shown(share, percent(share)) for share in shares),
        result.seen,
        "chosen" if chosen else "dropped" if result.lost else "finished",
    )
