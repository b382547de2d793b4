"""Findings of a sweep: where the adjustment helps significantly, the savings by racing, and advice."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import Literal

from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep

__all__ = [
    "Comparisons",
    "Saved",
    "Verdict",
    "advice",
    "comparisons",
    "concern",
    "racing_words",
    "right_answers",
    "saved",
    "taken",
    "verdict",
]

Verdict = Literal["helps", "hurts", "unclear"]


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """The number of paired comparisons of adjusted with baseline that exclude zero, and the number expected by chance.

    ``together`` is the number of those that hold for all at once (Bonferroni: p < ``level``).
    """

    total: int
    helps: int
    hurts: int
    confidence: float
    by_chance: float
    level: float
    together: int


@dataclasses.dataclass(frozen=True)
class Saved:
    """The savings by racing: dropped settings, and runs of one setting on one training image."""

    settings: int
    dropped: int
    runs: int
    saved: int


def verdict(choice: Chosen) -> Verdict | None:
    """Whether the adjustment helps: only if the interval of the paired difference excludes zero."""
    if choice.gain is None or choice.gain.interval is None:
        return None
    if choice.gain.interval.low > 0:
        return "helps"
    return "hurts" if choice.gain.interval.high < 0 else "unclear"


def comparisons(sweep: SpikeSweep) -> Comparisons | None:
    """The verdicts counted, over all neurons and numbers of steps; None if nothing was adjusted."""
    found = [choice.gain for choice in sweep.chosen if choice.gain is not None]
    intervals = [gain.interval for gain in found if gain.interval is not None]
    if not intervals:
        return None
    verdicts = [verdict(choice) for choice in sweep.chosen]
    confidence = intervals[0].confidence
    level = (1 - confidence) / len(found)
    return Comparisons(
        total=len(found),
        helps=verdicts.count("helps"),
        hurts=verdicts.count("hurts"),
        confidence=confidence,
        by_chance=(1 - confidence) * len(found),
        level=level,
        together=sum(gain.p is not None and gain.p < level for gain in found),
    )


def saved(sweep: SpikeSweep) -> Saved:
    """The savings by racing."""
    runs = sweep.train_images * len(sweep.table)
    return Saved(
        settings=len(sweep.table),
        dropped=sum(result.lost for result in sweep.table),
        runs=runs,
        saved=runs - sum(result.seen for result in sweep.table),
    )


def racing_words(sweep: SpikeSweep) -> str:
    """The rule of racing, and what it saved."""
    savings, rule = saved(sweep), sweep.settings.get("race")
    if rule is None:
        return f"none: every setting saw all {sweep.train_images:,} training rows"
    if not savings.dropped:
        return f"{rule}: no setting was dropped"
    share = f"{savings.saved:,} of {savings.runs:,} runs of an image saved"
    last = ", worse after every number of steps" if len(sweep.steps) > 1 else ""
    return f"{rule}: {savings.dropped:,} of {savings.settings:,} settings dropped early{last}, {share}"


def taken(sweep: SpikeSweep, choice: Chosen) -> Setting:
    """The better of baseline and adjusted on the training images, which is the one compared with the network."""
    if choice.adjusted is None:
        return choice.baseline
    better = right_answers(sweep, choice.adjusted, choice.steps) > right_answers(sweep, choice.baseline, choice.steps)
    return choice.adjusted if better else choice.baseline


def advice(sweep: SpikeSweep, convert: Sequence[str], *, kept: bool) -> list[str]:
    """What to try next; ``convert`` is the command line of ``weightsmith spike`` with network and data."""
    lines = [*_beyond(sweep, "factors"), *_beyond(sweep, "smoothings")]
    words = _conversion(sweep)
    if words is not None:
        lines.append(f"{shlex.join([*convert, *words])}: the most accurate setting on training rows")
    return lines if kept else [*lines, "--out FOLDER: nothing was kept, and an interrupted sweep would start over"]


def concern(sweep: SpikeSweep) -> str | None:
    """A concern: no setting gives any right answer, so there was nothing to choose."""
    if not sweep.table or any(correct for result in sweep.table for correct in result.correct):
        return None
    return (
        f"no setting has a single training row right after {max(sweep.steps)} steps: perhaps nothing fires; "
        "give more --steps or smaller --factors"
    )


def _result(sweep: SpikeSweep, setting: Setting) -> SettingResult:
    return next(result for result in sweep.table if result.setting.key == setting.key)


def right_answers(sweep: SpikeSweep, setting: Setting, steps: int) -> int:
    """The number of correct training rows of the setting after ``steps`` steps."""
    return _result(sweep, setting).correct[sweep.steps.index(steps)]


def _beyond(sweep: SpikeSweep, name: Literal["factors", "smoothings"]) -> list[str]:
    """Values beyond the ends of the grid, if an end won at least half of the races.

    Large smoothings change nothing, so values beyond the largest are useless; zero is the smallest.
    """
    values: list[float] = sweep.settings[name]
    if name == "factors":
        pairs = [(choice.baseline, choice.adjusted) for choice in sweep.chosen]
        won = [setting.factor for pair in pairs for setting in pair if setting is not None]
    else:
        adjusted = [choice.adjusted for choice in sweep.chosen if choice.adjusted is not None]
        won = [setting.smoothing for setting in adjusted if setting.smoothing is not None]
    if not won:
        return []
    ends = [(min(values), "smaller", "smallest")] if min(values) > 0 else []
    ends += [(max(values), "larger", "largest")] if name == "factors" else []
    if len(values) <= len(ends):  # every value is an end: that one of them wins is no evidence
        return []
    return [
        f"--{name} {word} than {end:g}: the {most} won {won.count(end)} of {len(won)} races"
        for end, word, most in ends
        if 2 * won.count(end) >= len(won)
    ]


def _conversion(sweep: SpikeSweep) -> list[str] | None:
    """The options of ``weightsmith spike`` for the best setting after the most steps, if they exist."""
    from weightsmith.spiking.conversion.balance import Balance, MaxCurrent
    from weightsmith.spiking.l4.adjust import L4
    from weightsmith.spiking.neurons import IF, LIF

    settings, steps = sweep.settings, max(sweep.steps)
    winners = [taken(sweep, choice) for choice in sweep.chosen if choice.steps == steps]
    best = max(winners, key=lambda setting: right_answers(sweep, setting, steps))
    balance = Balance.parse(settings["balance"])
    if isinstance(balance, MaxCurrent):
        balance = dataclasses.replace(balance, factor=round(balance.factor * best.factor, 12))
    elif best.factor != 1:  # with percentile, a factor of the option also changes the amplitude of a spike
        return None
    values = {"reset": best.reset, "delay": settings["delay"]}
    neuron = IF.from_values(values) if best.leak == 1 else LIF.from_values({"leak": best.leak, **values})
    words = ["--neuron", str(neuron), "--encode", settings["encode"], "--balance", str(balance)]
    if best.smoothing is not None:
        means = settings["mean_rows" if "mean_rows" in settings else "mean_images"]  # as earlier versions wrote it
        words += ["--adjust", str(L4(best.smoothing, images=means))]
    words += ["--steps", str(steps), "--seed", str(settings["seed"])]
    return [*words, *(["--precision", settings["precision"]] if settings["precision"] != "float32" else [])]
