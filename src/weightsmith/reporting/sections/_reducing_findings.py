"""Concerns about a reduction, and advice on what to try next."""

from __future__ import annotations

from weightsmith.core.errors import UsageError
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reporting.sections._wording import LARGE_LOSS, conclusion, points

__all__ = ["advice", "concerns", "share_of_target"]

_MOST = 3


def share_of_target(record: ReductionRecord) -> tuple[str, float, float] | None:
    """The measure of the target, the share that is left, and the target share; None without a target."""
    from weightsmith.reducing.surgery.sizes import Target

    if record.settings.get("target") is None:
        return None
    try:
        target = Target.parse(record.settings["target"])
    except UsageError:  # a target of the user's own
        return None
    before, after = (
        (size.parameters if target.measure == "params" else size.macs) for size in (record.whole, record.reduced)
    )
    return ("parameters" if target.measure == "params" else "multiply–accumulates"), after / before, target.keep


def concerns(record: ReductionRecord, least_accuracy: float | None) -> list[str]:
    """Refused sites, a missed target, an accuracy (in per cent) below the bar."""
    found = [f"{site.name} was left whole: {site.refused}" for site in record.sites if site.refused]
    found += [str(recovery) for recovery in record.recovery if recovery.lost and recovery.kept == "cut"]
    target = share_of_target(record)
    if target is not None and target[1] > target[2]:
        what, left, asked = target
        found.append(f"{100 * left:.1f} % of the {what} are left, not the target of {100 * asked:g} %")
    if least_accuracy is not None and record.measured.metric != "accuracy":
        raise UsageError("--least-accuracy needs classes: a regression has errors and R², not an accuracy")
    accuracy = 100 * record.measured.reduced.value
    if least_accuracy is not None and accuracy < least_accuracy:
        found.append(f"accuracy {accuracy:.1f} % is below the required {least_accuracy:g} %")
    return found


def advice(record: ReductionRecord, *, kept: bool) -> list[str]:
    """At most three things to try, each with the number that supports it; ``kept``: the network was written."""
    lines = _next(record)
    if not kept and record.reduced.units < record.whole.units:
        lines = [*lines[: _MOST - 1], "--out FOLDER: the smaller network was not kept"]
    return lines[:_MOST]


def _next(record: ReductionRecord) -> list[str]:
    if record.reduced.units == record.whole.units:
        return [f"nothing was removed: {_further(record)}"]
    lines = []
    target = share_of_target(record)
    if target is not None and target[1] > target[2]:
        lines.append(f"the target was not met: {_further(record)}")
    cost = record.measured.cost
    lost = f"{points(cost.difference)} points"
    if not cost.decided:
        if -100 * cost.worst > LARGE_LOSS:
            rows = "--test-rows" if record.settings.get("test_rows") else "more test rows"
            lines.append(f"{rows}: {conclusion(cost)}")
        elif not lines and (further := _further(record)):
            lines.append(f"{conclusion(cost)}: {further}")
    elif cost.difference < 0 and record.settings["recover"] is None:
        lines.append(f"--recover fine-tune:5: {lost}, and nothing was trained after the cut")
    elif cost.difference < 0 and record.settings["recover"].startswith("recalibrate"):
        lines.append(f"--recover fine-tune:5: {lost} after recalibration")
    elif failed := next((each for each in record.recovery if each.lost and each.kept == "cut"), None):
        lines.append(f"--recover {failed.advice}: {failed.reason}")
    elif cost.difference < 0:
        lines.append(f"more epochs, --recover iterate:3, or a smaller cut: {lost} after recovery")
    if record.scratch is None and record.settings["recover"] is not None:
        lines.append("--scratch fine-tune:20: compare with a network of this size trained from scratch")
    return lines


def _further(record: ReductionRecord) -> str:
    """How to remove more with the same method."""
    from weightsmith.reducing.methods import Method

    try:
        options = Method.parse(record.settings["by"]).to_dict()
    except UsageError:  # a method of the user's own
        return "a stronger setting of the method"
    unmet = share_of_target(record)
    if unmet is not None and unmet[1] <= unmet[2]:
        return "a smaller --target"
    match options["name"]:
        case "angles" if options["angle"] < 90:
            return f"an angle above {options['angle']:g}° (weightsmith angles shows how near units are), or --by groups"
        case "groups" if options["angle"] < 90:
            return f"an angle above {options['angle']:g}°"
        case "genetic" if record.settings.get("target") is None:
            return f"a penalty above {options['penalty']:g}"
        case "pareto" if record.settings.get("target") is None:
            return f"a loss above {options['loss']:g} points"
        case _:
            return "a smaller --target" if record.settings.get("target") else "--target params:0.5"
