"""Choose a conversion by a wish: a limit on the points lost, a limit on the energy, or the knee of the front.

Candidates combine three kinds of neurons, each with the thresholds and the calibration that suit it, with several
numbers of steps. Each is prepared as for the test rows and measured on training rows that calibration does not see,
paired with the network. For each kind the steps are increased until the loss is below ``_ENOUGH`` points; further steps
would only cost energy. The longest run of a kind is then tried with the first steps left out of the sums (plain
neurons, by the delay of the last population) and with an early exit. The test rows are not used.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import stream
from weightsmith.core.statistics import mcnemar
from weightsmith.networks.evaluation import scores
from weightsmith.spiking.choices import Candidate, Choice, front_of, knee_of
from weightsmith.spiking.conversion.balance import Balance
from weightsmith.spiking.conversion.calibrate import Calibrate
from weightsmith.spiking.conversion.preparing import ConversionSettings, Prepared, converted_of, prepare
from weightsmith.spiking.conversion.subject import Subject
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.energy.cost import Prices, UnitCounts, spike_cost
from weightsmith.spiking.graph import Gate, Neurons, Node
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, Graded, Neuron
from weightsmith.spiking.nir.exchange import nir_obstacle
from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.responses import Responses
from weightsmith.spiking.simulation.simulate import simulate

__all__ = ["Wish", "choose", "delay_of"]

_ROWS = 512
_ENOUGH = 0.25  # points: a smaller loss is within the noise on this many rows


class Wish(NamedTuple):
    """At most ``within`` points lost and the share ``energy`` of the energy used; or, with neither, the knee."""

    within: float | None
    energy: float | None
    nir: bool

    def __str__(self) -> str:
        words = [] if self.within is None else [f"within {self.within:g} points"]
        words += [] if self.energy is None else [f"at most {100 * self.energy:g} % of the energy"]
        return " and ".join(words or ["the knee of the front"]) + (", for NIR" if self.nir else "")


class _Kind(NamedTuple):
    neuron: str
    balance: str
    calibrate: str
    steps: tuple[int, ...]


_KINDS = (
    _Kind("graded:5", "percentile", "weights", (1, 2)),
    _Kind("graded:6", "percentile", "weights", (3, 4)),  # more steps are worth it with finer spikes
    _Kind("if:signed=true", "mse", "weights", (2, 4, 8, 16)),
    _Kind("if", "percentile:half=false", "bias", (8, 16, 32, 64)),  # NIR can express this one
)


def choose(
    subject: Subject,
    recipe: ConversionSettings,
    wish: Wish,
    *,
    fixed: Mapping[str, Any],
    prices: Prices,
    progress: StepCallback | None = None,
) -> tuple[Choice, Prepared, ConversionSettings]:
    """The choice, the network that was chosen, and its settings.

    ``recipe`` has the settings that are not chosen, ``fixed`` the caller's values of neuron, balance, calibrate, steps.
    """
    rows = _judging_rows(len(subject.train), recipe.seed)
    x, labels = subject.train.x[rows], subject.train.y[rows].numpy()
    plain = scores(subject.network, x).argmax(dim=1).numpy() == labels
    held = dataclasses.replace(subject, train=_without(subject, rows))
    made: list[tuple[Candidate, Prepared, ConversionSettings]] = []
    nodes = converted_of(subject, IF(), recipe.encode).network.nodes
    why = _no_graded(recipe, nodes)
    kinds = _kinds(fixed, wish, graded=why is None)
    for number, kind in enumerate(kinds):
        if any(done.loss <= _ENOUGH and _family(done.neuron) == _family(kind.neuron) for done, _, _ in made):
            continue
        for steps in kind.steps:
            candidate = _with(recipe, kind, steps)
            prepared = prepare(held, candidate)
            measured = functools.partial(_measured, prepared, candidate, x, (labels, plain), prices)
            found, responses = measured()
            made.append((found, prepared, candidate))
            if progress is not None:
                progress(number * 100 + min(99, steps), 100 * len(kinds))
            if found.loss <= _ENOUGH:
                break
        for settle, early in [] if wish.nir else _ways(candidate, prepared.network, responses):
            made.append((measured(settle=settle, early=early)[0], prepared, candidate))
    choice, prepared, settings = _chosen(made, wish, len(rows))
    if why is not None and "neuron" not in fixed and not wish.nir:
        choice = dataclasses.replace(choice, left_out=(f"graded neurons were not tried: {why}",))
    return choice, prepared, settings


def _chosen(
    made: Sequence[tuple[Candidate, Prepared, ConversionSettings]], wish: Wish, rows: int
) -> tuple[Choice, Prepared, ConversionSettings]:
    points = [(candidate.loss, candidate.energy) for candidate, _, _ in made]
    front = set(front_of(points))
    candidates = tuple(
        dataclasses.replace(candidate, front=number in front) for number, (candidate, _, _) in enumerate(made)
    )
    can = [number for number, candidate in enumerate(candidates) if candidate.obstacle is None]
    if wish.nir and not can:
        raise UsageError(f"no conversion of this network can be written as NIR: {candidates[0].obstacle}")
    taken, met = _best(points, can if wish.nir else range(len(points)), wish)
    exportable = _best(points, can, wish)[0] if can else None
    choice = Choice(str(wish), rows, candidates, taken, exportable, met)
    return choice, made[taken][1], made[taken][2]


def _best(points: Sequence[tuple[float, float]], among: Sequence[int], wish: Wish) -> tuple[int, bool]:
    """The index of the best point (loss, energy) of ``among``, and whether it meets the wish.

    If none meets both limits, accuracy comes first: the least energy within the points, else the least loss.
    """
    if wish.within is None and wish.energy is None:
        return among[knee_of([points[number] for number in among])], True
    good = [
        number
        for number in among
        if (wish.within is None or points[number][0] <= wish.within)
        and (wish.energy is None or points[number][1] <= wish.energy)
    ]
    if good:  # with a limit on the energy alone the least loss, else the least energy
        return min(good, key=lambda number: points[number] if wish.within is None else points[number][::-1]), True
    if wish.within is not None:
        near = [number for number in among if points[number][0] <= wish.within]
        return min(near or among, key=lambda number: points[number][::-1] if near else points[number]), False
    return min(among, key=lambda number: points[number][::-1]), False


def _measured(
    prepared: Prepared,
    recipe: ConversionSettings,
    x: Tensor,
    known: tuple[NDArray[Any], NDArray[np.bool_]],
    prices: Prices,
    *,
    settle: int = 0,
    early: Margin | None = None,
) -> tuple[Candidate, Responses]:
    """A candidate measured on the rows ``x``; ``known`` has their labels, and where the network is right."""
    labels, plain = known
    counts = UnitCounts(prepared.network)
    found = simulate(
        prepared.network,
        x,
        recipe.steps,
        seed=recipe.seed,
        precision=recipe.precision,
        early=early,
        settle=settle,
        observers=(counts,),
    )
    cost = spike_cost(prepared.network, found, counts, prices, precision=recipe.precision)
    only_here = "NIR has neither settling nor an early exit" if settle or early is not None else None
    candidate = Candidate(
        neuron=str(recipe.neuron),
        balance=str(recipe.balance),
        calibrate=None if recipe.calibrate is None else str(recipe.calibrate),
        steps=recipe.steps,
        gain=mcnemar(found.answers[:, -1] == labels, plain),
        energy=cost.energy if cost.ratio is None else cost.ratio,
        obstacle=nir_obstacle(prepared.network) or only_here,
        settle=settle,
        early=None if early is None else str(early),
    )
    return candidate, found


def _ways(recipe: ConversionSettings, network: SpikingNetwork, found: Responses) -> list[tuple[int, Margin | None]]:
    """Steps left out of the sums and early exits to try on a run.

    Graded neurons send most in their first step. Signed ones correct their early spikes later, so both must count.
    """
    if isinstance(recipe.neuron, Graded):
        return []
    rule = Margin(3.0)
    exits = [rule] if rule.least < recipe.steps else []
    settle = 0 if recipe.neuron.signed else delay_of(found.spikes_per_step[network.populations[-1].name])
    ways: list[tuple[int, Margin | None]] = [(0, rule) for rule in exits]
    if 0 < settle <= recipe.steps // 2:
        ways += [(settle, None), *((settle, rule) for rule in exits)]
    return ways


def delay_of(spikes: NDArray[np.integer]) -> int:
    """The steps before a population first fires at half the rate of the second half of the run.

    The input needs this long to reach the population through all layers before it.

    >>> delay_of(np.array([0, 0, 1, 6, 9, 10, 10, 10]))
    3
    """
    rate = spikes[len(spikes) // 2 :].mean()
    return int(np.argmax(spikes >= rate / 2))


def _no_graded(recipe: ConversionSettings, nodes: Sequence[Node]) -> str | None:
    """Why graded neurons cannot be candidates; None if they can."""
    if isinstance(recipe.encode, Poisson):
        return f"they read the input once, as values, not as {recipe.encode} spikes"
    if any(isinstance(node, Neurons) and math.isfinite(node.ceiling) for node in nodes):
        return "the sum of their spikes is unbounded, but the network clips (ReLU6)"
    return "max pooling would give sizes that no spike has" if any(isinstance(n, Gate) for n in nodes) else None


def _kinds(fixed: Mapping[str, Any], wish: Wish, *, graded: bool) -> list[_Kind]:
    """The kinds that agree with the fixed settings."""
    given = str(fixed["neuron"]) if "neuron" in fixed else None
    known = [kind for kind in _KINDS if given in (None, kind.neuron)]
    if given is not None and isinstance(Neuron.of(given), Graded):
        known = [_KINDS[0]._replace(neuron=given, steps=_KINDS[0].steps + _KINDS[1].steps)]
    elif given is not None and not known:
        known = [_KINDS[-1]._replace(neuron=given)]
    known = [kind for kind in known if graded or given is not None or not kind.neuron.startswith("graded")]
    if wish.nir:
        known = [kind for kind in known if not Neuron.of(kind.neuron).signed]  # type: ignore[attr-defined]
        if not known:
            raise UsageError(f"NIR has no form for {given}; leave the neuron out, or use if or lif")
    changes: dict[str, Any] = {name: str(fixed[name]) for name in ("balance", "calibrate") if name in fixed}
    if "steps" in fixed:
        changes["steps"] = (fixed["steps"],)
    return [kind._replace(**changes) for kind in known]


def _family(neuron: str) -> str:
    """The kind of neuron; graded neurons count as one kind, whatever their number of sizes."""
    return "graded" if neuron.startswith("graded") else neuron


def _with(recipe: ConversionSettings, kind: _Kind, steps: int) -> ConversionSettings:
    return dataclasses.replace(
        recipe,
        neuron=Neuron.of(kind.neuron),  # type: ignore[arg-type]  # the family has these members
        balance=Balance.of(kind.balance),  # type: ignore[arg-type]
        calibrate=Calibrate.of(kind.calibrate),  # type: ignore[arg-type]
        steps=steps,
    )


def _judging_rows(total: int, seed: int) -> Tensor:
    """``_ROWS`` training rows, at most half of them, drawn by the seed."""
    number = min(_ROWS, max(1, total // 2))
    return torch.from_numpy(np.sort(stream(seed, "choosing rows").choice(total, number, replace=False)))


def _without(subject: Subject, rows: Tensor) -> Any:
    kept = torch.ones(len(subject.train), dtype=torch.bool)
    kept[rows] = False
    return dataclasses.replace(subject.train, x=subject.train.x[kept], y=subject.train.y[kept])
