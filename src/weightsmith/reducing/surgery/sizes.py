"""The size of a network by its numbers of units, and the units each site may keep for a given size.

Every tensor's extents depend on the counts of the sites that write or read its layer, so parameters and
multiply-accumulates are sums of products

    size(c) = Σ_tensors m · Π_axes (length − Σ_sites (uₛ − cₛ) · indicesₛ)

with m the positions at which a convolution is computed (1 for parameters). A plan gives each site a share rₛ; the
counts for a target are those of the largest factor f for which

    cₛ = max(1, ⌊f · rₛ · uₛ⌉)        size(c) ≤ target · size(u)
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self

from torch import Tensor, nn

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.text import read_share
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.networks.operations import count_operations
from weightsmith.reducing.surgery.sites import Site

__all__ = ["Macs", "Params", "SizeModel", "Target", "counts_for_target", "shares_by_plan"]

Measure = Literal["params", "macs"]


class Target(Option, family="target"):
    """How large the reduced network may be, as a share of the original size: ``0.5`` or ``"50%"``."""

    keep: float = param(gt=0, lt=1, doc="share that may be kept")
    multiple: int = param(default=1, ge=1, doc="sites keep multiples of this; processors are fastest at 8 or 16")

    def __post_init__(self) -> None:
        if str(self.keep).endswith("%"):
            object.__setattr__(self, "keep", read_share(self.keep))
        super().__post_init__()

    @classmethod
    def member(cls, name: str) -> type[Self]:
        """The member class called ``name``; the error has an example."""
        try:
            return super().member(name)
        except UnknownName as error:
            raise OptionError(f"{error}; for example params:0.5 or macs:50%") from None

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """The quantity that is counted."""


class Params(Target, name="params"):
    """At most this share of the parameters."""

    @property
    def measure(self) -> Measure:
        """Parameters."""
        return "params"


class Macs(Target, name="macs"):
    """At most this share of the multiply–accumulates of one input."""

    @property
    def measure(self) -> Measure:
        """Multiply-accumulates."""
        return "macs"


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One tensor: extents, uses per input, and (axis, site, indices per unit) of what can shrink."""

    extents: tuple[int, ...]
    uses: int
    shrinking: tuple[tuple[int, str, int], ...]


def _by_site(entries: Sequence[_Entry], names: Iterable[str]) -> dict[str, list[_Entry]]:
    """The tensors that shrink with each site."""
    return {name: [entry for entry in entries if any(name == site for _, site, _ in entry.shrinking)] for name in names}


class SizeModel:
    """The sizes of a network as a function of the units kept at each site."""

    def __init__(self, network: nn.Module, sites: Sequence[Site], example: Tensor) -> None:
        self.units = {site.name: site.units for site in sites}
        rows: dict[str, list[tuple[str, int]]] = {}
        columns: dict[str, list[tuple[str, int]]] = {}
        for site in sites:
            for ports, axes in (((*site.writers, *site.carriers), rows), (site.readers, columns)):
                for port in ports:
                    axes.setdefault(port.layer, []).append((site.name, port.indices.shape[1]))
        counted = count_operations(network, example).layers
        self._params: list[_Entry] = []
        self._macs: list[_Entry] = []
        for name, tensor in network.named_parameters():
            layer, _, own = name.rpartition(".")
            is_weight = own == "weight" and tensor.dim() > 1
            turned = is_weight and getattr(network.get_submodule(layer), "transposed", False)
            shrinking = [(int(turned), site, indices) for site, indices in rows.get(layer, ())]
            if is_weight:
                shrinking += [(int(not turned), site, indices) for site, indices in columns.get(layer, ())]
            self._params.append(_Entry(tuple(tensor.shape), 1, tuple(shrinking)))
            if own == "weight" and layer in counted:
                positions = counted[layer] // tensor.numel()
                self._macs.append(_Entry(tuple(tensor.shape), positions, tuple(shrinking)))
        self._touched: dict[Measure, dict[str, list[_Entry]]] = {
            "params": _by_site(self._params, self.units),
            "macs": _by_site(self._macs, self.units),
        }

    def size(self, counts: Mapping[str, int], measure: Measure = "params") -> int:
        """Parameters or multiply-accumulates with ``counts`` units at the sites it names, all units at the others."""
        return self._sum(self._params if measure == "params" else self._macs, counts)

    def change(self, counts: Mapping[str, int], site: str, units: int, measure: Measure = "params") -> int:
        """The change of the size if ``site`` has ``units`` units instead of its number in ``counts``."""
        touched = self._touched[measure][site]
        return self._sum(touched, {**counts, site: units}) - self._sum(touched, counts)

    def _sum(self, entries: Sequence[_Entry], counts: Mapping[str, int]) -> int:
        total = 0
        for entry in entries:
            extents = list(entry.extents)
            for axis, site, indices in entry.shrinking:
                extents[axis] -= (self.units[site] - counts.get(site, self.units[site])) * indices
            total += entry.uses * math.prod(extents)
        return total


def shares_by_plan(sites: Sequence[Site], plan: LayerPlan | None, keep: float = 1.0) -> dict[str, float]:
    """The share of each site's units that a plan keeps; ``keep`` for all without one.

    A site that several layers write takes the mean of their shares, weighted by their parameters. A site the plan does
    not name is refused: it would silently be kept whole.
    """
    if plan is None:
        return {site.name: keep for site in sites}
    shares = {}
    for site in sites:
        known = [layer for layer in site.layers if layer in plan.values]
        if not known:
            raise UsageError(f"the plan ({plan.source}) has no share for {site.name}; leave it out with layers=…")
        weights = [plan.parameters[layer] for layer in known]
        total = math.fsum(weights)
        shares[site.name] = (
            math.fsum(plan.values[layer] * weight for layer, weight in zip(known, weights, strict=True)) / total
            if total
            else plan.values[known[0]]
        )
    return shares


def counts_for_target(sizes: SizeModel, shares: Mapping[str, float], target: Target | None) -> dict[str, int]:
    """Units to keep per site: the plain shares without a target, scaled by one factor with one.

    Units left over by rounding are distributed, at most one unit (or multiple) per site, first to the site that
    lost most by rounding.
    """
    if target is None:
        return _counts(sizes, shares, 1.0, 1)
    whole = sizes.size({}, target.measure)
    allowed = target.keep * whole
    least = sizes.size(_counts(sizes, shares, 0.0, target.multiple), target.measure)
    if least > allowed:
        units = "one unit" if target.multiple == 1 else f"{target.multiple} units"
        raise UsageError(
            f"{target} cannot be met: {units} per layer that may be cut still leaves {least / whole:.1%} of the "
            f"{target.measure} (only {', '.join(list(shares)[:6])}{' …' if len(shares) > 6 else ''} may be cut); give "
            f"{target.name}:{math.ceil(1000 * least / whole) / 1000:g} or more, or allow more layers to be cut"
        )
    low, high = 0.0, 1.0 / min(shares.values())
    for _ in range(60):
        middle = (low + high) / 2
        if sizes.size(_counts(sizes, shares, middle, target.multiple), target.measure) <= allowed:
            low = middle
        else:
            high = middle
    found = _counts(sizes, shares, low, target.multiple)
    return _filled(sizes, found, {name: low * share for name, share in shares.items()}, target)


def _counts(sizes: SizeModel, shares: Mapping[str, float], factor: float, multiple: int) -> dict[str, int]:
    found = {}
    for name, share in shares.items():
        units = sizes.units[name]
        step = min(multiple, units)
        found[name] = min(units, max(step, step * round(units * factor * share / step)))
    return found


def _filled(sizes: SizeModel, counts: dict[str, int], shares: Mapping[str, float], target: Target) -> dict[str, int]:
    allowed = target.keep * sizes.size({}, target.measure)
    for name in sorted(counts, key=lambda name: counts[name] - sizes.units[name] * shares[name]):
        more = {**counts, name: min(sizes.units[name], counts[name] + target.multiple)}
        if sizes.size(more, target.measure) <= allowed:
            counts = more
    return counts
