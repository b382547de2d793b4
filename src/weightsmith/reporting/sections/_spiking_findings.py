"""Concerns about a conversion, and advice on what to try next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.sections._wording import counted, points
from weightsmith.spiking.conversion.distilling import Distillation
from weightsmith.spiking.results import SpikeRecord

__all__ = ["advice", "concerns"]

_MOST = 3
_OPEN = 0.01  # share of images without an answer from which advice is given
_RISING = 0.005  # gain of accuracy in the second half of the steps that promises more
_CLOSE = 0.5  # points within which the spiking network counts as good as the network
_LOWER = 0.7  # times the threshold


def concerns(record: SpikeRecord, least_accuracy: float | None) -> list[str]:
    """Layers that never fire, a wish that was not met, an accuracy (in per cent) below the bar."""
    images = record.decisions.images
    found = [
        f"{layer} never fires ({counted(images, 'row')}, {counted(record.steps, 'step')})" for layer in _silent(record)
    ]
    if record.choice is not None and not record.choice.met:
        found.append(f"no candidate meets the wish ({record.choice.wish}) on training rows")
    if record.verdict is not None and record.verdict.missed:
        found.append(str(record.verdict))
    accuracy = 100 * record.decisions.spiking.value
    if least_accuracy is not None and accuracy < least_accuracy:
        found.append(f"accuracy {accuracy:.1f} % is below the required {least_accuracy:g} %")
    return found


def advice(record: SpikeRecord, *, kept: bool) -> list[str]:
    """At most three things to try, each with the number that supports it; ``kept``: the network was written.

    Nothing if the record has unknown settings: a neuron of the user, or settings of an older version.
    """
    try:
        return _advice(record, kept)
    except (UsageError, KeyError):
        return []


def _advice(record: SpikeRecord, kept: bool) -> list[str]:
    lines = _to_answer(record)
    lines += _to_be_right(record, longer=not any(line.startswith("--steps") for line in lines))
    lines = lines or _to_save(record)
    if not kept:
        return [*lines[: _MOST - 1], "--out FOLDER: the spiking network was not kept"]
    return [*lines, *_to_hand_over(record)][:_MOST]


def _silent(record: SpikeRecord) -> list[str]:
    return [population.layer or population.name for population in record.populations if population.rate == 0]


def _to_answer(record: SpikeRecord) -> list[str]:
    """More spikes if too few reach the output."""
    lines = []
    silent = _silent(record)
    if silent:
        lines.append(
            f"--balance {_with_lower_thresholds(record.settings['balance'])}: {', '.join(silent[:_MOST])} never fires"
        )
    still_open, images = int(record.decisions.undecided[-1]), record.decisions.images
    if still_open > _OPEN * images:
        lines.append(
            f"--steps {2 * record.steps}: {still_open} of {images} rows have no answer after "
            f"{counted(record.steps, 'step')}"
        )
    return lines


def _to_be_right(record: SpikeRecord, *, longer: bool) -> list[str]:
    """Ways to recover lost accuracy, the most promising first; more steps only if ``longer``."""
    decisions, settings = record.decisions, record.settings
    if not decisions.cost.decided or decisions.cost.difference >= 0:
        return []
    lost = f"{points(decisions.cost.difference)} points"
    lines = []
    if settings["mismatch"]:
        lines.append(f"without --mismatch {settings['mismatch']}, to see how much is due to the devices ({lost})")
    gain = (decisions.correct[-1] - decisions.correct[(record.steps - 1) // 2]) / decisions.images
    if longer and gain > _RISING and not settings["early"]:
        lines.append(
            f"--steps {2 * record.steps}: {lost}, and the second half of the steps still gained {100 * gain:.1f}"
        )
    for name, when, other in (
        ("--encode", "poisson", "constant: no noise of Poisson input"),
        ("--neuron", "lif", "if: no leak"),
        ("--precision", "int8", "float32: weights are not rounded"),
    ):
        if settings[name.removeprefix("--")].startswith(when):
            lines.append(f"{name} {other} ({lost})")
    lines.append(_other_thresholds(settings["balance"], lost))
    if settings["early"]:
        lines.append(f"a larger margin than --early {settings['early']}, or none ({lost})")
    if str(settings.get("calibrate")).startswith("weights"):
        lines.insert(0, f"--calibrate distill: trains all weights together, without labels ({lost})")
    if record.distillation is not None and (more := _more_rows(record.distillation, settings["calibrate"])):
        lines.insert(0, f"--calibrate {more}: four times the rows, without labels, and the time ({lost})")
    if settings["neuron"] == "if" and not settings.get("adjust") and not settings.get("calibrate"):
        lines.append(f"--within 1, without --neuron, --balance and --steps: chooses neurons for few steps ({lost})")
    return lines


def _more_rows(done: Distillation, text: str) -> str | None:
    """The distillation with four times the rows; None if it already saw all that there are."""
    from weightsmith.spiking.conversion.calibrate import Calibrate, CalibrateDistill

    how, seen = Calibrate.parse(text), done.images + done.held
    assert isinstance(how, CalibrateDistill)
    return None if seen < how.rows(done.steps) else _replaced(how, images=4 * seen)


def _other_thresholds(text: str, lost: str) -> str:
    from weightsmith.spiking.conversion.balance import Balance, MaxCurrent, Percentile

    balance = Balance.parse(text)
    if isinstance(balance, MaxCurrent):
        return f"--balance percentile, or another factor, as {_with_lower_thresholds(text)} ({lost})"
    if not isinstance(balance, Percentile):
        return f"--balance percentile ({lost})"
    others = [percent for percent in (99.0, 99.9, 99.99) if percent != balance.percent]
    return f"--balance {_replaced(balance, percent=others[0])} or {_replaced(balance, percent=others[-1])} ({lost})"


def _with_lower_thresholds(text: str) -> str:
    from weightsmith.spiking.conversion.balance import Balance, MaxCurrent, Mse, Percentile

    balance = Balance.parse(text)
    assert isinstance(balance, MaxCurrent | Mse | Percentile)
    return _replaced(balance, factor=round(_LOWER * balance.factor, 3))


def _replaced(option: Any, **changes: float | bool) -> str:
    return str(dataclasses.replace(option, **changes))


def _to_save(record: SpikeRecord) -> list[str]:
    """Fewer steps, if nothing was lost."""
    cost, enough = record.cost, record.decisions.steps_within(_CLOSE)
    lines = []
    if enough is not None and enough <= record.steps // 2:
        share = cost.curve[enough - 1] / cost.energy if cost.energy else 1.0
        lines.append(
            f"--steps {enough}: from there on no more than {_CLOSE:g} points below the network, at "
            f"{100 * share:.0f} % of the energy of {counted(record.steps, 'step')}"
        )
    graded = record.settings["neuron"].startswith("graded")
    if cost.ratio is not None and cost.ratio > 1 and not record.settings["early"] and not graded:
        # An early exit belongs to a given conversion: one that was chosen is given by its neuron and steps.
        chosen = "" if record.choice is None else f"--neuron {record.settings['neuron']} --steps {record.steps} "
        lines.append(
            f"{chosen}--early margin:3: clear images end sooner (the energy is {cost.ratio:.2g} × the network's)"
        )
    return lines


def _to_hand_over(record: SpikeRecord) -> list[str]:
    from weightsmith.spiking.neurons import Neuron

    neuron: str = record.settings["neuron"]
    # An obstacle begins with what cannot be written: with the neuron, only where another neuron could be.
    if Neuron.parse(neuron).payload_bits and (record.obstacle is None or record.obstacle.startswith(neuron)):
        return [
            "--for nir, if it is to be exported: NIR has no neurons whose spikes carry a sign or a size",
            "weightsmith export … net.py: this network as a module in plain torch, for other tools",
        ]
    if _leaks_differ(record.settings):
        without = f"without --mismatch {record.settings['mismatch']}"
        return [f"{without}, if it is to be exported: NIR has one leak per layer"]
    if record.obstacle is not None:
        return [f"weightsmith export … net.py, as a module in plain torch: not as NIR, since {record.obstacle}"]
    return ["weightsmith export … net.nir: for other simulators and for hardware"]


def _leaks_differ(settings: Mapping[str, Any]) -> bool:
    from weightsmith.spiking.neurons import LIF, Devices, Mismatch, Neuron

    neuron = Neuron.parse(settings["neuron"])
    spread = None if settings["mismatch"] is None else Devices.parse(settings["mismatch"])
    return isinstance(neuron, LIF) and isinstance(spread, Mismatch) and spread.leak > 0
