"""The numbers of a sweep as rows, for CSV and JSON alike: one for each setting and number of steps, one per choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weightsmith.cli._spike_sweep_findings import taken, verdict

if TYPE_CHECKING:
    from weightsmith.core.statistics import Comparison, Interval
    from weightsmith.spiking.sweep.results import Chosen, SpikeSweep

__all__ = ["chosen_rows", "setting_rows"]


def setting_rows(sweep: SpikeSweep) -> list[dict[str, Any]]:
    """How often every setting was right on the training images it saw; accuracies are shares.

    ``lost`` settings were dropped by the race, ``chosen`` ones stand in the other table.
    """
    from weightsmith.core.statistics import wilson

    chosen = {
        (setting.key, choice.steps)
        for choice in sweep.chosen
        for setting in (choice.baseline, choice.adjusted)
        if setting is not None
    }
    rows = []
    for result in sweep.table:
        setting = result.setting
        for steps, correct in zip(sweep.steps, result.correct, strict=True):
            rows.append(
                {
                    "leak": setting.leak,
                    "reset": setting.reset,
                    "factor": setting.factor,
                    "smoothing": setting.smoothing,
                    "steps": steps,
                    "images": result.seen,
                    "correct": correct,
                    **_share("train", wilson(correct, result.seen)),
                    "lost": result.lost,
                    "chosen": (setting.key, steps) in chosen,
                }
            )
    return rows


def chosen_rows(sweep: SpikeSweep) -> list[dict[str, Any]]:
    """The winners on the test images; accuracies and differences are shares."""
    return [_chosen_row(sweep, choice) for choice in sweep.chosen]


def _chosen_row(sweep: SpikeSweep, choice: Chosen) -> dict[str, Any]:
    adjusted, gain = choice.adjusted, choice.gain
    return {
        "leak": choice.leak,
        "reset": choice.reset,
        "steps": choice.steps,
        "baseline_factor": choice.baseline.factor,
        **_share("baseline", choice.baseline_test),
        "adjusted_factor": None if adjusted is None else adjusted.factor,
        "adjusted_smoothing": None if adjusted is None else adjusted.smoothing,
        **_share("adjusted", choice.adjusted_test),
        **_difference("gain", gain),
        "only_adjusted_right": None if gain is None else gain.only_a,
        "only_baseline_right": None if gain is None else gain.only_b,
        "adjustment": verdict(choice),
        "taken": "baseline" if taken(sweep, choice).smoothing is None else "adjusted",
        **_difference("cost", choice.cost),
    }


def _share(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {
        f"{name}_accuracy": None if interval is None else interval.value,
        f"{name}_low": None if interval is None else interval.low,
        f"{name}_high": None if interval is None else interval.high,
    }


def _difference(name: str, comparison: Comparison | None) -> dict[str, float | None]:
    ends = None if comparison is None else comparison.interval
    return {
        name: None if comparison is None else comparison.difference,
        f"{name}_low": None if ends is None else ends.low,
        f"{name}_high": None if ends is None else ends.high,
        f"{name}_p": None if comparison is None else comparison.p,
    }
