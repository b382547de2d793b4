"""Share a target out among the sites by cost: error per parameter or operation saved.

Elimination gives every site a curve, the squared error of its readers after k removals. The effect of such an error on
the *network* differs from site to site, so it is measured: at a few counts the readers of one site get their refitted
weights, and the distance of the outputs z′ from the original ones z, on unlabelled rows and as a share of their
variance,

    D = Σ ‖(z′ − z) − mean(z′ − z)‖² / Σ ‖z − mean z‖²        means over the classes, and for the variance over the rows

scales the curve. Units are then removed where D grows least per saving, along the lower convex hull of each curve,
until the target is met; units that still fit are given back. A second set of curves (*by sums*) takes the readers'
errors as shares of the variance of the residual sums that they enter. The candidates are all sites, or only those
written by a single layer (a residual stream stays whole), each with both sets of curves; and even shares. The two that
diverge least with each reader refitted separately are cut and refitted on a few rows; of these, the one that diverges
less is taken. Curves are scaled and candidates compared on rows held out of the Gram matrices.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.data.targets import Kind, kind_of
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.running import FAILURES
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.elimination import Elimination, eliminate
from weightsmith.reducing.criteria.readers import Reader, readers_of
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.refitting.flow import Resumed, SideBySide
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.refitting.refit import refit
from weightsmith.reducing.surgery.removal import plain_cut
from weightsmith.reducing.surgery.sizes import SizeModel, Target, counts_for_target

__all__ = [
    "Budget",
    "BudgetRecord",
    "Sensitivities",
    "best_budget",
    "divergence",
    "measured_budget",
    "sensitivities",
    "share_out",
]

_RIDGE = 1e-4
_LEVELS = (0.5, 0.25)  # shares of the units at which the divergence is measured
_PLANNED = 1000  # rows used for a plan; the refit afterwards uses all
_HELD_OUT = 250  # rows held out of the Gram matrices, to scale curves and compare candidates
_REFITTED = 2  # candidates that are cut and refitted: those that diverge least before
_IN_SUMS = 100  # rows on which residual sums are measured
_BLOCK = 125  # rows at a time


@dataclasses.dataclass(frozen=True, eq=False)
class BudgetRecord(Record):
    """The divergence of every candidate's outputs from the original ones, and the candidate taken."""

    taken: str
    divergences: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Budget:
    """For every site the order of removals, and the cost after 0, 1, 2… of them."""

    eliminations: dict[str, Elimination]
    costs: dict[str, NDArray[np.float64]]
    names: tuple[str, ...]
    """The sites that may lose units."""
    shares: dict[str, float] | None = None
    """Even shares in place of costs."""

    @property
    def orders(self) -> dict[str, tuple[int, ...]]:
        """The units of each site in the order of their elimination."""
        return {name: found.order for name, found in self.eliminations.items()}

    def counts(self, sizes: SizeModel, target: Target) -> dict[str, int]:
        """Units that each site keeps within the target."""
        if self.shares is not None:
            return counts_for_target(sizes, self.shares, target)
        return share_out(sizes, {name: self.costs[name] for name in self.names}, target)


def share_out(sizes: SizeModel, costs: Mapping[str, NDArray[np.float64]], target: Target) -> dict[str, int]:
    """Units to keep at each site, after removing where cost per saving is least, along the hull of each curve."""
    allowed = target.keep * sizes.size({}, target.measure)
    kept = dict(sizes.units)
    ladders = {name: _hull(cost, target.multiple) for name, cost in costs.items()}
    while (size := sizes.size(kept, target.measure)) > allowed:
        best: tuple[float, str] | None = None
        for name, ladder in ladders.items():
            if len(ladder) < 2:
                continue
            saved = -sizes.change(kept, name, sizes.units[name] - ladder[1], target.measure)
            rate = float(costs[name][ladder[1]] - costs[name][ladder[0]]) / max(saved, 1)
            best = min(best, (rate, name)) if best is not None else (rate, name)
        if best is None:
            raise UsageError(
                f"{target} cannot be met by these layers: {size / sizes.size({}, target.measure):.1%} stay"
            )
        name = best[1]
        ladders[name] = ladders[name][1:]
        kept[name] = sizes.units[name] - ladders[name][0]
    return _given_back(sizes, kept, costs, target)


def _given_back(
    sizes: SizeModel, kept: dict[str, int], costs: Mapping[str, NDArray[np.float64]], target: Target
) -> dict[str, int]:
    """Give back units while the target allows it, the most costly first."""
    allowed = target.keep * sizes.size({}, target.measure)
    while True:
        gains, size = {}, sizes.size(kept, target.measure)
        for name, cost in costs.items():
            units = sizes.units[name]
            more = min(units, kept[name] + min(target.multiple, units))
            if more > kept[name] and size + sizes.change(kept, name, more, target.measure) <= allowed:
                gains[name] = float(cost[units - kept[name]] - cost[units - more]), more
        if not gains:
            return kept
        name = max(gains, key=lambda each: gains[each][0])
        kept[name] = gains[name][1]


def _hull(cost: NDArray[np.float64], multiple: int) -> list[int]:
    """The numbers of removals on the lower convex hull of a curve, from 0 on, that leave multiples of ``multiple``."""
    units = len(cost)
    step = min(multiple, units)
    points = [gone for gone in range(units) if gone == 0 or (units - gone) % step == 0]
    hull: list[int] = []
    for point in points:
        while len(hull) > 1 and (cost[hull[-1]] - cost[hull[-2]]) * (point - hull[-1]) >= (
            cost[point] - cost[hull[-1]]
        ) * (hull[-1] - hull[-2]):
            hull.pop()
        hull.append(point)
    return hull


def measured_budget(context: PruningContext, sizes: SizeModel, target: Target) -> tuple[Budget, BudgetRecord]:
    """The best candidate by the curves of all sites of ``context``, scaled by their errors' effect on the outputs."""
    return best_budget(sensitivities(context), sizes, target)


@dataclasses.dataclass(frozen=True)
class Sensitivities:
    """The cost of every site at every count, measured once for any number of targets.

    ``rows`` are held out of the Gram matrices of ``readers``: candidates are compared on them.
    """

    context: PruningContext
    readers: Mapping[str, Sequence[Reader]]
    eliminations: dict[str, Elimination]
    costs: dict[str, NDArray[np.float64]]
    rows: _Rows


def sensitivities(context: PruningContext) -> Sensitivities:
    """The curves of all sites of ``context``, scaled by the effect of their errors on the outputs."""
    x = context.x if context.calibration is None else context.calibration
    x = x[torch.linspace(0, len(x) - 1, min(_PLANNED, len(x))).long()]
    held = torch.zeros(len(x), dtype=torch.bool)
    held[:: max(2, len(x) // _HELD_OUT)] = True
    context = dataclasses.replace(context, calibration=x[~held])
    readers = readers_of(context)
    levels = {site.name: _levels(site.units) for site in context.sites}
    eliminations = {
        site.name: eliminate([reader.problem for reader in readers[site.name]], _RIDGE, at=levels[site.name])
        for site in context.sites
    }
    chosen = x[held][:_HELD_OUT]
    rows = _Rows(chosen, _outputs(context.network, chosen, context))
    costs = _scaled(context, eliminations, readers, rows)
    eliminations = {name: dataclasses.replace(found, weights={}) for name, found in eliminations.items()}
    return Sensitivities(context, readers, eliminations, costs, rows)


def best_budget(known: Sensitivities, sizes: SizeModel, target: Target) -> tuple[Budget, BudgetRecord]:
    """The candidate of least divergence for a target."""
    context, rows = known.context, known.rows
    candidates = _candidates(context, known.eliminations, known.costs, target)
    counts: dict[str, dict[str, int]] = {}
    for name, budget in candidates.items():
        try:
            kept = budget.counts(sizes, target)
        except UsageError:
            if name == "all":
                raise
            continue  # the inner channels alone may not suffice
        if kept not in counts.values():
            counts[name] = kept
    rough = {name: _diverging(known, kept) for name, kept in counts.items()}
    best = sorted(rough, key=lambda name: rough[name])[:_REFITTED]
    try:
        found = {name: _refitted(context, candidates[name].orders, counts[name], rows) for name in best}
    except FAILURES:  # a site that the check will refuse: the network does not run without its units
        found = rough
    taken = min(found, key=lambda name: found[name])
    return candidates[taken], BudgetRecord(taken, found)


def _refitted(
    context: PruningContext, orders: Mapping[str, tuple[int, ...]], counts: Mapping[str, int], rows: _Rows
) -> float:
    """The divergence of the network cut to ``counts`` and refitted on a few rows, as the plan's result will be."""
    choices = [
        Choice(site.name, site.units, tuple(map(Removal, orders[site.name][: site.units - counts[site.name]])))
        for site in context.sites
        if counts.get(site.name, site.units) < site.units
    ]
    kept = {choice.site: choice.kept for choice in choices}
    small = with_card(plain_cut(context.network, context.sites, kept).eval(), card_of(context.network))
    x = context.x if context.calibration is None else context.calibration
    few = x[torch.linspace(0, len(x) - 1, min(_HELD_OUT, len(x))).long()]
    with contextlib.suppress(UsageError):  # without a refit, the network is compared as cut
        refit(context.network, small, context.sites, choices, x=few, option=LeastSquares(), seed=context.seed)
    return divergence(rows.outputs, _outputs(small.to(context.device), rows.x, context), kind_of(context.y))


def _candidates(
    context: PruningContext,
    eliminations: dict[str, Elimination],
    measured: dict[str, NDArray[np.float64]],
    target: Target,
) -> dict[str, Budget]:
    """The candidate ways to share the target out, by name."""
    names = tuple(measured)
    inner = tuple(site.name for site in context.sites if len(site.writers) == 1)
    kinds = {"": measured}
    shares = _shares_of_sums(context)
    if shares:
        kinds[" by sums"] = {
            name: shares[name] * np.concatenate([[0.0], np.maximum.accumulate(each.errors)])
            + 1e-12 * np.arange(len(each.order) + 1)
            for name, each in eliminations.items()
        }
    found = {f"all{kind}": Budget(eliminations, costs, names) for kind, costs in kinds.items()}
    if inner and inner != names:
        found |= {f"inner{kind}": Budget(eliminations, costs, inner) for kind, costs in kinds.items()}
    found["uniform"] = Budget(eliminations, measured, names, dict.fromkeys(names, target.keep))
    return found


def _shares_of_sums(context: PruningContext) -> dict[str, float]:
    """The mean share of each site's readers in the residual sums they enter; empty without such sums."""
    layers = list(dict.fromkeys(port.layer for site in context.sites for port in site.readers))
    x = context.x if context.calibration is None else context.calibration
    spread = torch.linspace(0, len(x) - 1, min(_IN_SUMS, len(x))).long()
    _, block = next(context.batches(x[spread], _IN_SUMS))
    try:
        shares = SideBySide(context.network, context.network, [block]).shares_of_sums(layers)
    except UsageError:  # not traceable
        return {}
    if all(share == 1.0 for share in shares.values()):
        return {}
    return {site.name: float(np.mean([shares[port.layer] for port in site.readers])) for site in context.sites}


def _diverging(known: Sensitivities, counts: Mapping[str, int]) -> float:
    """The divergence with all sites at their counts, each reader refitted separately."""
    context, rows = known.context, known.rows
    network = copy.deepcopy(context.network)
    for site in context.sites:
        kept = counts.get(site.name, site.units)
        if kept < site.units:
            gone = known.eliminations[site.name].order[: site.units - kept]
            for reader in known.readers[site.name]:
                reader.put(network, reader.problem.without(gone, _RIDGE))
    return divergence(rows.outputs, _outputs(network, rows.x, context), kind_of(context.y))


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Unlabelled rows, and the outputs of the original network for them."""

    x: Tensor
    outputs: Tensor


def _levels(units: int) -> tuple[int, ...]:
    return tuple(sorted({max(1, round(share * units)) for share in _LEVELS} - {units}, reverse=True))


@torch.no_grad()
def _scaled(
    context: PruningContext,
    eliminations: Mapping[str, Elimination],
    readers: Mapping[str, Sequence[Reader]],
    rows: _Rows,
) -> dict[str, NDArray[np.float64]]:
    """The divergence after each number of removals at each site, measured at the counts that have weights."""
    run = Resumed(context.network, [block for _, block in context.batches(rows.x, _BLOCK)])
    starts = {name: run.position([reader.port.layer for reader in each]) for name, each in readers.items()}
    found = {}
    for name in sorted(starts, key=lambda name: starts[name]):
        measured = []
        changed = {layer for each in readers[name] for layer in each.changed}
        saved = {layer: copy.deepcopy(run.network.get_submodule(layer).state_dict()) for layer in changed}
        for kept, weights in eliminations[name].weights.items():
            for reader, weight in zip(readers[name], weights, strict=True):
                reader.put(run.network, weight)
            given = run.outputs(starts[name])
            measured.append((kept, divergence(rows.outputs, given, kind_of(context.y))))
            for layer, values in saved.items():
                run.network.get_submodule(layer).load_state_dict(values)
        found[name] = _curve(eliminations[name], measured)
    return {name: found[name] for name in eliminations}


def _curve(found: Elimination, measured: Sequence[tuple[int, float]]) -> NDArray[np.float64]:
    """The divergence after each number of removals, interpolated between the measured ones by the readers' error."""
    units = len(found.order) + 1
    errors = np.concatenate([[0.0], np.maximum.accumulate(found.errors)])
    known = [(0.0, 0.0), *((float(errors[units - kept]), value) for kept, value in measured)]
    (last, high) = known[-1]
    if last > 0 and errors[-1] > last:
        known.append((float(errors[-1]), high * float(errors[-1]) / last))
    at, costs = (np.array(part) for part in zip(*known, strict=True))
    # Equal errors (a site without effect) would make the table ambiguous; a tiny slope keeps its order.
    curve: NDArray[np.float64] = np.interp(errors, at, np.maximum.accumulate(costs)) + 1e-12 * np.arange(units)
    return curve


def divergence(expected: Tensor, given: Tensor, kind: Kind = Kind.CLASSES) -> float:
    """The squared distance of outputs from the expected ones (rows × classes), as a share of their variance.

    The mean over classes is subtracted; labels and values do not compete, and each counts as it is. (The divergence of
    the probabilities depends on a few rows, because the network is certain of most training rows: plans scaled by it
    differed by 3 points from draw to draw.)

    >>> divergence(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]), torch.tensor([[7.0, 5.0], [0.0, 0.0]]))
    0.5
    """
    ours, theirs = expected.double(), given.double()
    if kind is Kind.CLASSES:
        ours, theirs = (each - each.mean(dim=1, keepdim=True) for each in (ours, theirs))
    variance = float((ours - ours.mean(dim=0)).square().sum())
    return float((ours - theirs).square().sum()) / max(variance, torch.finfo(torch.float64).tiny)


@torch.no_grad()
def _outputs(network: nn.Module, x: Tensor, context: PruningContext) -> Tensor:
    """The outputs for ``x``, each batch a copy: a module may write into its inputs."""
    return torch.cat([network.eval()(inputs.clone()) for _, inputs in context.batches(x)])
