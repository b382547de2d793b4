"""The weight change of fine-tuning: the layers of a network minus those of its base.

>>> from torch import nn
>>> import torch
>>> base, tuned = {"a.weight": torch.zeros(2, 3), "b.weight": torch.ones(2, 2)}, {"a.weight": torch.ones(2, 3)}
>>> [(layer.name, float(layer.matrices.sum())) for layer in difference(tuned, base)]
[('a', 6.0)]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from torch import Tensor

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.layers.adapters import PRODUCT
from weightsmith.networks.layers.pending import PendingLayer
from weightsmith.networks.layers.walk import LayerWeights, Walk, find_layers
from weightsmith.networks.models.catalogue import common_names
from weightsmith.networks.weights import LeftOut

__all__ = ["UNCHANGED", "Difference", "Pairs", "difference", "pair_layers"]

UNCHANGED = "unchanged: every value is that of the base"
"""The note of a layer that is the same in both networks."""


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The layers two networks have in common, and the unmatched layers of each, with the reason."""

    matched: tuple[tuple[PendingLayer, PendingLayer], ...]
    only_first: tuple[LeftOut, ...]
    only_second: tuple[LeftOut, ...]


class Difference(Walk):
    """The walk over the layers of A − B; a layer equal in both networks is zero and has the note ``UNCHANGED``."""

    def read(self, index: int) -> LayerWeights:
        """One layer of the difference; one layer of each network is in memory at a time."""
        layer = super().read(index)
        if layer.matrices.any():
            return layer
        return dataclasses.replace(layer, notes=(*layer.notes, UNCHANGED))


def difference(
    network: object,
    base: object,
    *,
    layers: str | Sequence[str] | None = None,
    conv_groups: str | Sequence[str] | None = None,
) -> Difference:
    """The layers of ``network`` minus those of ``base``, matched by name and shape; ``layers`` is a glob.

    Unmatched layers of both are listed as left out, with the reason; those of the base count no parameters, so that
    the coverage is that of ``network``. Prefixes of wrappers (``module.``, ``model.``) are ignored.
    """
    found = find_layers(network, layers=layers, conv_groups=conv_groups)
    if any(note.startswith(PRODUCT) for plan in found.plans for note in plan.notes):
        raise UsageError("a LoRA adapter is already a difference to its base: grade it without a base")
    pairs = pair_layers(found.plans, find_layers(base).plans, "the base")
    if found.plans and not pairs.matched:
        raise DataMismatch(f"no layer of the network is in the base: {_first(pairs)}")
    differences = [
        dataclasses.replace(plan, read=functools.partial(_difference, plan, other)) for plan, other in pairs.matched
    ]
    only_base = [] if layers else [dataclasses.replace(item, parameters=0) for item in pairs.only_second]
    return Difference(differences, [*found.left_out, *pairs.only_first, *only_base])


def pair_layers(
    first: Sequence[PendingLayer], second: Sequence[PendingLayer], where: str = "the other network"
) -> Pairs:
    """Pair layers of the same name and shape; ``where`` names the second network in the reasons."""
    ours, theirs = common_names(*({plan.name: plan for plan in plans} for plans in (first, second)))
    partners = {theirs[plan.name]: plan for plan in second}
    matched: list[tuple[PendingLayer, PendingLayer]] = []
    lonely: list[LeftOut] = []
    for plan in first:
        other = partners.get(ours[plan.name])
        if other is not None and other.shape == plan.shape:
            matched.append((plan, other))
            continue
        reason = f"not in {where}" if other is None else f"has shape {other.shape} in {where}"
        lonely.append(LeftOut(plan.name, plan.shape, plan.parameters, reason))
    known = set(ours.values())
    rest = [plan for plan in second if theirs[plan.name] not in known]
    only_second = tuple(LeftOut(plan.name, plan.shape, plan.parameters, f"only in {where}") for plan in rest)
    return Pairs(tuple(matched), tuple(lonely), only_second)


def _difference(plan: PendingLayer, other: PendingLayer) -> Tensor:
    values = plan.read()
    return values - other.read().to(values.device)


def _first(pairs: Pairs) -> str:
    """The first unmatched layer and its reason, as an example."""
    item = pairs.only_first[0]
    theirs = f"; the base has {pairs.only_second[0].name}" if pairs.only_second else ""
    return f"{item.name} {item.reason}{theirs}"
