"""Verdicts on the readings of a probe, for each layer and for the network.

The verdict uses the median sensitivity of the later half of the probes, so that the first steps of a network that
recovers do not count. An update that overwrites the weights counts whenever it was seen. A unit is dead if no image of
any of the later probes gives it a gradient. A layer that was not measured is never called healthy.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from weightsmith.training.diagnosis.gradients import (
    GROWN,
    LARGEST_FIRST_UPDATE,
    LARGEST_UPDATE,
    MOST_DEAD,
    MOST_SATURATED,
    SCALE,
    SHRUNK,
    GradientDiagnosis,
    Health,
    LayerGradients,
    Reading,
    ThroughTime,
)

__all__ = ["judge"]

_UNDERFLOW = 1e-30  # floats end at 1e-45
_WORTH_SAYING = 0.1  # from this share on, units without gradient are reported for a healthy layer as well

_REMEDY = {
    Health.VANISHING: "try ReLU with He or SELU with LeCun initialisation, or batch norm (of an mlp: activation=selu, "
    "batch_norm=before)",
    Health.SATURATED: "try smaller weights before them, batch norm, or an activation that does not saturate (ReLU)",
    Health.DEAD: "try a lower rate or a leaky activation",
    Health.NOT_FINITE: "check the inputs and the rate of the previous steps",
    Health.EXPLODING: "try smaller initial weights, a lower rate or clipping",
}
_IN_TIME = "through time"
_REMEDY_IN_TIME = {
    Health.VANISHING: "for gradients through time, try orthogonal initial recurrent weights, an open forget gate (LSTM "
    "bias of 1 to 2), shorter sequences, or reading every state (their mean over time)",
    Health.EXPLODING: "for gradients through time, try smaller recurrent weights or clipping (global-norm:1)",
}


class _Comparison(NamedTuple):
    """The sensitivity of a layer and that of the reference at one step, both above zero."""

    step: int
    own: float
    reference: float

    @property
    def ratio(self) -> float:
        return self.own / self.reference

    @property
    def distance(self) -> float:
        """The distance from equality, either way; by logarithms, because the quotient may be too small for a float."""
        return abs(math.log(self.own) - math.log(self.reference))


class _Layer(NamedTuple):
    """The evidence for the verdict on one layer."""

    name: str
    probes: Sequence[int]
    readings: Sequence[Reading]
    comparison: _Comparison | None
    reference: str | None

    @property
    def ratio(self) -> float | None:
        return None if self.comparison is None else self.comparison.ratio

    @property
    def badness(self) -> float:
        """The severity of the verdict, to find the worst of several layers."""
        return 0.0 if self.comparison is None else self.comparison.distance

    @property
    def dead(self) -> float | None:
        """The share of units that got no gradient in any of the later probes."""
        marks = [reading.idle for reading in self._later if reading.idle]
        if not marks or len({len(mark) for mark in marks}) > 1:
            return None
        return sum(set(unit) == {"1"} for unit in zip(*marks, strict=True)) / len(marks[0])

    @property
    def saturated(self) -> float | None:
        """The median share of flat activations behind it; those of the outputs are flat where a network is sure."""
        shares = [reading.saturated for reading in self._later if reading.saturated is not None]
        return None if not shares or self.name == self.reference else statistics.median_low(shares)

    @property
    def through_time(self) -> ThroughTime | None:
        """The gradient through time with the median distance from equality among the later probes."""
        found = [reading.through_time for reading in self._later if reading.through_time is not None]
        nearest = sorted(found, key=lambda time: abs(math.log(max(time.ratio, sys.float_info.min))))
        return nearest[(len(nearest) - 1) // 2] if nearest else None

    @property
    def _later(self) -> Sequence[Reading]:
        return self.readings[len(self.readings) // 2 :]

    @property
    def broke(self) -> bool:
        """Whether its output was not finite: the first such layer is the origin."""
        return not all(reading.output_finite for reading in self.readings)


def judge(probes: Sequence[int], readings: Mapping[str, Sequence[Reading]]) -> GradientDiagnosis:
    """The diagnosis of a network whose layers, in the order of the forward pass, gave ``readings`` at ``probes``."""
    seen = [name for name, own in readings.items() if any(reading.sensitivity is not None for reading in own)]
    reference = seen[-1] if seen else None
    # Below a sensitivity as small as this, zero is underflow and not a sign of dead units.
    smallest = min((own[-1].sensitivity or 1.0 for own in readings.values()), default=1.0)
    layers = []
    for name, own in readings.items():
        comparison = None if reference is None else _middle(probes, own, readings[reference])
        layers.append(_Layer(name, probes, own, comparison, reference))
    verdicts = [_verdict(layer, underflow=smallest < _UNDERFLOW) for layer in layers]
    inputs = _badly_scaled(layers[0]) if layers else ""
    worst = max((health for health, _ in verdicts), key=lambda health: health.severity)
    return GradientDiagnosis(
        probes=tuple(probes),
        layers=tuple(
            LayerGradients(
                name=layer.name,
                sensitivity=tuple(reading.sensitivity for reading in layer.readings),
                update=tuple(reading.update for reading in layer.readings),
                health=health,
                reason=reason,
                dead=layer.dead,
                saturated=layer.saturated,
                through_time=None if layer.through_time is None else layer.through_time.ratio,
            )
            for layer, (health, reason) in zip(layers, verdicts, strict=True)
        ),
        reference=reference,
        health=Health.BADLY_SCALED if inputs else worst,
        sentence=inputs + _sentence(list(zip(layers, verdicts, strict=True))),
    )


def _middle(probes: Sequence[int], own: Sequence[Reading], reference: Sequence[Reading]) -> _Comparison | None:
    """The comparison in the middle of the later half of the probes; of two, the one nearer to health."""
    found = [
        _Comparison(step, mine.sensitivity, theirs.sensitivity)
        for step, mine, theirs in zip(probes, own, reference, strict=True)
        if mine.sensitivity and theirs.sensitivity
    ]
    later = sorted(found[len(found) // 2 :], key=lambda comparison: comparison.distance)
    return later[(len(later) - 1) // 2] if later else None


def _verdict(layer: _Layer, *, underflow: bool) -> tuple[Health, str]:
    readings, last = layer.readings, layer.readings[-1]
    if not any(reading.trained for reading in readings):
        return Health.FROZEN, "none of its parameters is trained"
    if all(reading.finite and not reading.uses and reading.gradient is None for reading in readings):
        return Health.DEAD, "it never received a gradient: the forward pass skips it, or detaches it from the loss"
    overwritten, grown = _overwritten(layer), layer.ratio is not None and layer.ratio > GROWN
    if overwritten or grown:
        reasons = [overwritten, _numbers(layer, update=not overwritten) if grown else "", _aftermath(layer)]
        return Health.EXPLODING, ", ".join(filter(None, reasons))
    if not all(reading.finite for reading in readings):
        return Health.NOT_FINITE, _aftermath(layer)
    if _is_zero(last) and underflow:
        return Health.VANISHING, f"its sensitivity at step {layer.probes[-1]} is too small for a float"
    if _is_zero(last):
        return Health.DEAD, f"{_aftermath(layer)}: no image of the batch moves it"
    if (time := layer.through_time) is not None and not SHRUNK <= time.ratio <= GROWN:
        return (Health.VANISHING if time.ratio < SHRUNK else Health.EXPLODING), _time_in_words(time)
    if layer.dead is not None and layer.dead > MOST_DEAD and not underflow:
        later = len(layer.readings) - len(layer.readings) // 2
        seen = f"in {later} measured {'step' if later == 1 else 'steps'}"
        return Health.DEAD, f"no image gave {layer.dead:.0%} of its units a gradient {seen} (more than {MOST_DEAD:.0%})"
    if layer.saturated is not None and layer.saturated > MOST_SATURATED:
        share = f"{layer.saturated:.0%} of the activations behind it are flat (more than {MOST_SATURATED:.0%})"
        return Health.SATURATED, share
    if layer.ratio is not None and layer.ratio < SHRUNK:
        return Health.VANISHING, _numbers(layer)
    return (Health.NOT_MEASURED if layer.comparison is None else Health.HEALTHY), _numbers(layer)


def _time_in_words(time: ThroughTime) -> str:
    size = f"{time.ratio:.2g} {'times' if time.ratio > 1 else 'of'} that at the last"
    reach = f"less than {SHRUNK:g}; it reaches {time.reach} of {time.steps} steps"
    limit = reach if time.ratio < 1 else f"more than {GROWN:g}; {time.steps} steps"
    return f"{_IN_TIME} the gradient at the first step is {size} ({limit})"


def _badly_scaled(first: _Layer) -> str:
    """A clause about inputs of the first layer whose scale is far from 1, if it is."""
    scale = first.readings[-1].scale
    if scale is None or SCALE[0] <= scale <= SCALE[1]:
        return ""
    size = f"a root mean square of {scale:.3g}"
    return f"inputs badly scaled ({size} enters {first.name}, it should be about 1): try normalise=standard first; "


def _aftermath(layer: _Layer) -> str:
    """A clause about numbers that are not finite, or a gradient that has become zero, if any."""
    for step, reading in zip(layer.probes, layer.readings, strict=True):
        if not reading.finite:
            return f"its {'gradient' if reading.output_finite else 'output'} is NaN or infinite at step {step}"
    return f"its gradient is exactly zero at step {layer.probes[-1]}" if _is_zero(layer.readings[-1]) else ""


def _overwritten(layer: _Layer) -> str:
    """A clause about the first update larger than the weights, if any; step 0 is allowed more if the layer survives."""
    lives_on = len(layer.probes) > 1 and layer.readings[-1].finite and not _is_zero(layer.readings[-1])
    for step, reading in zip(layer.probes, layer.readings, strict=True):
        limit = LARGEST_FIRST_UPDATE if step == 0 and lives_on else LARGEST_UPDATE
        if reading.update is not None and reading.update > limit:
            size = f"{reading.update:.2g} times its weights (more than {limit:g} overwrites them)"
            return f"its update at step {step} is {size}"
    return ""


def _is_zero(reading: Reading) -> bool:
    return reading.gradient == 0 if reading.sensitivity is None else reading.sensitivity == 0


def _numbers(layer: _Layer, *, update: bool = True) -> str:
    """Sensitivity and update at the step that decides, in words."""
    comparison, ratio = layer.comparison, layer.ratio
    index = len(layer.probes) - 1 if comparison is None else layer.probes.index(comparison.step)
    parts = []
    if comparison is None or ratio is None:
        parts.append("its net input is not accessible, so its sensitivity was not measured")
    elif layer.name == layer.reference:
        parts.append(f"its sensitivity is {comparison.own:.2g} (the others are compared with it)")
    else:
        size = f"{ratio:.2g} {'times' if ratio > 1 else 'of'} the {comparison.reference:.2g} at {layer.reference}"
        limit = f" (more than {GROWN:g})" if ratio > GROWN else f" (less than {SHRUNK:g})" if ratio < SHRUNK else ""
        parts.append(f"its sensitivity is {comparison.own:.2g}, {size}{limit}")
    if (time := layer.through_time) is not None:
        parts.append(f"the gradient at the first of {time.steps} time steps is {time.ratio:.2g} of that at the last")
    if layer.dead is not None and layer.dead >= _WORTH_SAYING:
        parts.append(f"no image gave {layer.dead:.0%} of its units a gradient")
    reading = layer.readings[index]
    if update and reading.update is not None:
        parts.append(f"its update is {reading.update:.2g} of its weights")
    if reading.uses > 1:
        parts.append(f"it is used {reading.uses} times")
    return f"at step {layer.probes[index]} {', '.join(parts)}"


def _sentence(judged: Sequence[tuple[_Layer, tuple[Health, str]]]) -> str:
    """The network in one sentence: the problem, its layers, its size in the worst of them, and the remedy."""
    trained = [(layer, health, reason) for layer, (health, reason) in judged if health is not Health.FROZEN]
    if not trained:
        return f"all {len(judged)} layers are frozen: there is nothing to judge"
    left = len(judged) - len(trained)
    frozen = f"; {left} frozen {'layer is' if left == 1 else 'layers are'} not judged" if left else ""
    ill = sorted({health for _, health, _ in trained if health.calls_for_action}, key=lambda health: -health.severity)
    hidden = {layer.name for layer, health, _ in trained if health is Health.NOT_MEASURED}
    unseen = f"; not measured in {_runs([layer.name for layer, _, _ in trained], hidden)}" if hidden else ""
    if not ill:
        well = [layer for layer, health, _ in trained if health is Health.HEALTHY]
        where = f"all {len(trained)} layers" if not hidden else f"{len(well)} of {len(trained)} layers"
        return f"gradients healthy in {where}{_spread(well)}{unseen}{frozen}"
    parts = []
    for health in ill:
        group = [(layer, reason) for layer, found, reason in trained if found is health]
        first_broken = [pair for pair in group if health is Health.NOT_FINITE and pair[0].broke]
        worst, reason = max(first_broken[:1] or group, key=lambda pair: pair[0].badness)
        named = _runs([layer.name for layer, _, _ in trained], {layer.name for layer, _ in group})
        parts.append(f"{health.value} in {named} ({len(group)} of {len(trained)} layers; {worst.name}: {reason})")
    in_time = [reason.startswith(_IN_TIME) for _, health, reason in trained if health is ill[0]]
    remedies = [_REMEDY_IN_TIME[ill[0]]] if any(in_time) else []
    remedies += [_REMEDY[ill[0]]] if not all(in_time) else []
    return f"gradients {', '.join(parts)}; {'; '.join(remedies)}{unseen}{frozen}"


def _spread(layers: Sequence[_Layer]) -> str:
    ratios = [layer.ratio for layer in layers if layer.ratio is not None]
    updates = [reading.update for layer in layers for reading in layer.readings if reading.update is not None]
    parts = []
    if ratios:
        parts.append(f"sensitivities {min(ratios):.2g} to {max(ratios):.2g} times that of {layers[-1].reference}")
    if updates:
        parts.append(f"updates up to {max(updates):.2g} of the weights")
    return f": {', '.join(parts)}" if parts else ""


def _runs(order: Sequence[str], wanted: Container[str]) -> str:
    """The wanted names in words; three or more that follow each other are ``first to last``."""
    runs = [list(names) for chosen, names in itertools.groupby(order, wanted.__contains__) if chosen]
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else " and ".join(run) for run in runs)
