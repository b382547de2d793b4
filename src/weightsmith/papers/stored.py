"""Claims judged from results that other commands wrote (leaks, transfer), and claims nobody ran yet.

Each entry reads one JSON file of ``docs/results`` and applies a rule to it, as an experiment does to its rows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from weightsmith.core.statistics import Comparison, Interval, rank_correlation
from weightsmith.papers.claims import Claim, Finding, Verdict, by_parts, paired, worded

__all__ = ["NOT_RUN", "STORED", "Stored", "not_run"]


@dataclasses.dataclass(frozen=True)
class Stored:
    """Claims judged from a results file of another command."""

    name: str
    document: str
    file: str
    page: str
    claims: tuple[Claim, ...]
    judge: Callable[[Path], Sequence[Finding]]


def _leaks(path: Path) -> Sequence[Finding]:
    from weightsmith.spiking.sweep.results import SpikeSweep

    found = SpikeSweep.from_json(path.read_text(encoding="utf-8"))
    gains = {(each.leak, each.reset): each.gain for each in found.chosen if each.gain is not None}
    tests = {(each.leak, each.reset): each.baseline_test for each in found.chosen}
    return [*_gains_of(gains, found.test_images), *_losses_of(tests, found.test_images)]


def _gains_of(gains: dict[tuple[float, str], Comparison], images: int) -> Sequence[Finding]:
    """What the adjustment gains: at every leak and reset, with the leak, without leak."""
    sides = [_side(gain) for gain in gains.values()]
    speeds = sorted({leak for leak, _ in gains})
    both = [sum(gains[leak, reset].difference for reset in ("soft", "hard")) / 2 for leak in speeds]
    trend = rank_correlation([1 - leak for leak in speeds], both)
    none = gains[1.0, "soft"]
    better = [f"leak {leak:g}, {reset} reset" for (leak, reset), gain in gains.items() if _side(gain)]
    return [
        by_parts(
            "all",
            sides,
            f"better beyond the interval in {sides.count(True)} of {len(sides)} scenarios, worse in "
            f"{sides.count(False)}, {sides.count(None)} inside the noise",
            ours=f"{sides.count(True)} of {len(sides)} better",
            n=images,
        ),
        by_parts(
            "trend",
            [None if trend.p > 0.05 else trend.value > 0],
            f"Kendall's τ between leak and gain (mean of both resets) {trend.value:+.2f}, p = {trend.p:.2g}; gains "
            f"beyond the noise: {', '.join(better) or 'none'}",
            ours=f"τ = {trend.value:+.2f}",
            n=len(speeds),
            p=trend.p,
        ),
        by_parts(
            "no-leak",
            [_side(none)],
            "the paper gains 1.13 points without leak and with soft reset",
            ours=worded(none),
            n=images,
            p=none.p,
        ),
    ]


def _losses_of(tests: dict[tuple[float, str], Interval], images: int) -> Sequence[Finding]:
    """What leak and hard reset cost the network that is not adjusted."""
    leaks = sorted({leak for leak, _ in tests}, reverse=True)
    resets = [
        None
        if _overlap(tests[leak, "soft"], tests[leak, "hard"])
        else tests[leak, "soft"].value > tests[leak, "hard"].value
        for leak in leaks
    ]
    fastest = [tests[1.0, reset].low > tests[leaks[-1], reset].high for reset in ("soft", "hard")]
    return [
        by_parts(
            "leak",
            [bool(each) for each in fastest],
            "accuracy of the baseline without leak against the fastest leak",
            ours=f"{100 * (tests[1.0, 'soft'].value - tests[leaks[-1], 'soft'].value):+.1f} points (soft reset)",
            n=images,
        ),
        by_parts(
            "hard",
            resets,
            "baselines of both resets, leak by leak" + ("" if True in resets else "; soft reset is better at none"),
            ours=f"soft reset better at {resets.count(True)} of {len(resets)} leaks",
            n=images,
        ),
    ]


def _side(compared: Comparison) -> bool | None:
    """Whether it is better beyond its interval (True), worse (False), or neither."""
    return compared.difference > 0 if compared.decided else None


def _overlap(a: Interval, b: Interval) -> bool:
    return bool(a.low <= b.high and b.low <= a.high)


def _transfer(path: Path) -> Sequence[Finding]:
    tasks = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    arms = {task: {arm["arm"]: np.array(arm["accuracies"]) for arm in found} for task, found in tasks.items()}
    against = {task: paired(found["top 2"], found["scratch"]) for task, found in arms.items()}
    thawed = {task: paired(found["top 2"], found["frozen"]) for task, found in arms.items()}
    words = [", ".join(f"{task} {worded(found)}" for task, found in each.items()) for each in (against, thawed)]
    return [
        by_parts(
            claim,
            [_side(found) for found in each.values()],
            f"{about}: {text}",
            ours=text,
            n=sum(found.n for found in each.values()),
        )
        for claim, each, text, about in (
            (
                "less-data",
                against,
                words[0],
                "1,000 images, two blocks unfrozen, against the same network from scratch",
            ),
            ("unfreeze", thawed, words[1], "two blocks unfrozen at a reduced rate against the head alone"),
        )
    ]


STORED = (
    Stored(
        "leaks",
        "L4 norm",
        "spiking_leaks.json",
        "spiking_leaks.md",
        (
            Claim(
                "all",
                "figure 6",
                "The adjusted networks outperform the baseline in all scenarios (VGG-5).",
                "gain above 0 beyond the interval at every leak and reset",
            ),
            Claim(
                "trend",
                "section 5.1",
                "The improvement increases as the leak gets faster.",
                "Kendall's τ of gain and leak, p < 0.05",
            ),
            Claim(
                "no-leak",
                "section 5.1",
                "Without leak the adjustment regains 1.13 points.",
                "gain above 0 beyond the interval",
            ),
            Claim(
                "leak",
                "section 5.1",
                "Accuracy drops when the leak is faster.",
                "intervals of no leak and the fastest apart",
            ),
            Claim("hard", "section 5.1", "Accuracy drops with the hard reset.", "intervals apart at every leak"),
        ),
        _leaks,
    ),
    Stored(
        "transfer",
        "training",
        "transfer.json",
        "transfer.md",
        (
            Claim(
                "less-data",
                "transfer learning",
                "Transfer learning requires significantly less training data.",
                "above training from scratch on the same 1,000 images, beyond the interval over seeds, on both data "
                "sets",
            ),
            Claim(
                "unfreeze",
                "transfer learning",
                "Unfreeze one or two top layers at a reduced rate after the head.",
                "above the head alone, beyond the interval, on both data sets",
            ),
        ),
        _transfer,
    ),
)
"""Results of other commands that carry claims of the documents."""

NOT_RUN: dict[str, tuple[Claim, ...]] = {
    "pruning": (
        Claim(
            "table-1",
            "table 1",
            "Test accuracies of 3 rates and 7 sizes on the sheet of facial expressions.",
            "needs the licensed sheet: weightsmith study SHEET",
        ),
        Claim(
            "svm",
            "section 3.1",
            "A small network performs as well as a support vector machine on these features.",
            "needs the licensed sheet",
        ),
    ),
}
"""Claims without an experiment so far; the page lists them as not run."""


def not_run(claim: Claim) -> Finding:
    """The finding of a claim that nobody tested."""
    return Finding(claim.name, Verdict.NOT_RUN, "", 0, claim.rule)
