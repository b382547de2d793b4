"""Before training: print the plan of a run with warnings, or search the learning rate."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from weightsmith.cli._figure_files import write_figures
from weightsmith.cli.terminal import Attention, count_text, out, print_json, table
from weightsmith.reporting._sparks import spark

if TYPE_CHECKING:
    from weightsmith.data import Data
    from weightsmith.training.finder import RateCurve
    from weightsmith.training.plan import TrainingPlan

__all__ = ["check_plan", "search_rate"]

_POINTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # fractions of the run at which the rate is shown
_ROWS, _BARS = 12, 40


def check_plan(data: Data, options: dict[str, Any], *, as_json: bool) -> None:
    """Resolve all options, print them, and end with code 1 if something will probably spoil the run."""
    from weightsmith.training.plan import make_plan
    from weightsmith.training.settings import Settings
    from weightsmith.training.suitability import augmentation_advice

    taken = [name for name in Settings.OPTIONS if name != "validation"]  # the data are already split
    plan = make_plan(options["network"], data, Settings.read(**{name: options[name] for name in taken}))
    if (advice := augmentation_advice(plan.network, plan.train, plan.settings.augment)) is not None:
        plan = dataclasses.replace(plan, notes=(*plan.notes, advice))
    if as_json:
        rates = {str(step): rate for step, rate in _rates(plan)}
        report = {"settings": plan.written, "steps_per_epoch": plan.span.steps, "rates": rates}
        print_json({**report, "warnings": list(plan.warnings), "notes": list(plan.notes)})
    else:
        _show(plan)
    if plan.warnings:
        count = len(plan.warnings)
        raise Attention(f"{count} warning{'' if count == 1 else 's'} before training; nothing was trained")


def search_rate(
    data: Data, options: dict[str, Any], *, folder: Path | None, figures: Path | None, as_json: bool
) -> None:
    """Sweep the rate on a copy of the network, print the curve and the suggestion; code 1 if there is none."""
    from weightsmith.core.records import write_record
    from weightsmith.training.finder import find_rate

    taken = ("network", "optimiser", "loss", "clip", "batch", "normalise", "seed", "device", "threads")
    # The rate found is meant for --schedule, and with only a schedule given the optimiser is momentum.
    given = {name: options[name] for name in taken} | {"optimiser": options["optimiser"] or "momentum"}
    curve = find_rate(data=data, **given)
    if folder is not None:
        write_record(folder / "rates.json", curve)
    if figures is not None:
        from weightsmith.reporting.figures.training import rate_curve

        write_figures(figures, {"rates": lambda: rate_curve(curve)})
    if as_json:
        print_json(curve.to_dict())
    else:
        _show_curve(curve)
    if curve.suggestion is None:
        raise Attention(curve.reason)


def _show(plan: TrainingPlan) -> None:
    console, settings = out(), plan.written
    rows = len(plan.train)
    console.print(f"[bold]{escape(settings['network'])}[/bold] on {escape(settings['data'])}")
    validation = "no validation" if plan.validation is None else f"{count_text(len(plan.validation))} for validation"
    steps = f"{plan.span.steps} steps of {plan.settings.batch} in each of {plan.span.epochs} epochs"
    console.print(f"{'data':<12}{count_text(rows)} to train on, {validation}; {steps}")
    for name in ("optimiser", "schedule", "clip", "stop", "penalties", "loss", "augment", "normalise"):
        value = settings[name]
        if value:
            console.print(f"{name:<12}{escape(', '.join(value) if isinstance(value, list) else str(value))}")
    shown = ", ".join(f"{rate:.3g} at step {step}" for step, rate in _rates(plan))
    console.print(f"{'rate':<12}{shown}")
    for label, sentences in (("warning", plan.warnings), ("note", plan.notes)):
        for sentence in sentences:
            console.print(f"{label:<12}{escape(sentence)}")


def _rates(plan: TrainingPlan) -> list[tuple[int, float]]:
    last = plan.span.total - 1
    steps = sorted({round(share * last) for share in _POINTS})
    return [(step, plan.settings.schedule.at(step, plan.span)) for step in steps]


def _show_curve(curve: RateCurve) -> None:
    console, count = out(), len(curve.rates)
    console.print(
        f"[bold]{escape(curve.settings['network'])}[/bold] on {escape(curve.settings['data'])}, {count} steps"
    )
    rows = table("rate", "loss", "smoothed", numbers=("rate", "loss", "smoothed"))
    for index in sorted({round(part * (count - 1) / (_ROWS - 1)) for part in range(_ROWS)} if count else ()):
        rows.add_row(f"{curve.rates[index]:.3g}", f"{curve.losses[index]:.4f}", f"{curve.smoothed[index]:.4f}")
    console.print(rows)
    if count:
        console.print(f"{'loss':<12}{spark(curve.smoothed, _BARS)}  {curve.rates[0]:.3g} … {curve.rates[-1]:.3g}")
    console.print(f"{'ended':<12}{escape(curve.reason)}")
    if curve.suggestion is not None and curve.tenth is not None:
        console.print(
            f"{'suggestion':<12}[bold]{curve.suggestion:.2g}[/bold], where the loss falls most steeply; "
            f"a tenth of the rate at its minimum is {curve.tenth:.2g}"
        )
        console.print(
            f"{'try next':<12}the same command with --schedule {curve.suggestion:.2g} and without --find-rate"
        )
