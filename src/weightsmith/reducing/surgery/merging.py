"""Folding: the input weights of a cluster of units become their mean, each as the batch norm behind it scales it.

A layer that writes units and the batch norm behind it are one affine map, with γ̄ = γ/√(σ² + ε):

    h = w·x + b        w = γ̄ W        b = γ̄ (B − μ) + β

The mean of k unequal rows is shorter than the rows, so the folded unit would vary less than the units it replaces. Its
row is rescaled to their length (for uncorrelated inputs this restores the variance):

    w ← w̄ · √(Σ ‖wⱼ‖² / k) / ‖w̄‖        b ← b̄        and readers add up the columns of the cluster

Source: Wang, Šikić, Thiele and Saukh, "Forget the data and fine-tuning! Just fold the network to compress" (ICLR 2025),
with its data-free repair, there by correlations, here by lengths.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.fold import norm_factor
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.reducing.decisions import Choice
from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["fold_units", "rows_of"]


@dataclasses.dataclass(frozen=True)
class _Map:
    """A writer as an affine map: γ̄ of its outputs, and its rows and constants by unit."""

    layer: nn.Module
    norm: nn.Module | None
    port: Port
    factors: Tensor
    rows: Tensor
    constants: Tensor


@torch.no_grad()
def rows_of(network: nn.Module, site: Site) -> Tensor | None:
    """Input weights and constant of every unit, over all layers that write it (units × values).

    None where units pass through layers other than batch norms directly behind their writers: they have no mean there.
    """
    maps = _maps(network, site)
    if maps is None:
        return None
    return torch.cat([torch.cat([each.rows, each.constants], dim=1) for each in maps], dim=1)


@torch.no_grad()
def fold_units(network: nn.Module, site: Site, choice: Choice) -> None:
    """Give every kept unit the mean input weights of those that ``choice`` folds into it, in place."""
    clusters: dict[int, list[int]] = {}
    for removal in choice.removals:
        if removal.inputs == "fold":
            clusters.setdefault(removal.into[0], [removal.into[0]]).append(removal.unit)
    maps = _maps(network, site) if clusters else []
    if maps is None:
        raise UsageError(f"{site.name}: its units cannot be folded; they pass through other layers than batch norms")
    for each in maps:
        for kept, units in clusters.items():
            mean, lengths = each.rows[units].mean(dim=0), each.rows[units].square().sum(dim=1)
            length = mean.norm()
            mean = mean * (lengths.mean().sqrt() / length) if length > 0 else mean
            _put(each, kept, mean, each.constants[units].mean(dim=0))


def _maps(network: nn.Module, site: Site) -> list[_Map] | None:
    if {port.layer for port in site.carriers} != set(site.norms.values()) or site.counts:
        return None
    found = []
    for port in site.writers:
        layer = network.get_submodule(port.layer)
        if isinstance(layer, nn.MultiheadAttention):
            return None
        norm = network.get_submodule(site.norms[port.layer]) if port.layer in site.norms else None
        weight = outputs_first(layer).double().flatten(1)
        bias = getattr(layer, "bias", None)
        constants = weight.new_zeros(len(weight)) if bias is None else bias.double()
        factors = torch.ones_like(constants)
        if norm is not None:
            factors = norm_factor(norm, torch.float64)
            constants = factors * (constants - norm.get_buffer("running_mean").double())
            constants = constants + norm.get_parameter("bias").double() if norm.affine else constants
        indices = torch.from_numpy(port.indices)
        rows = (factors[:, None] * weight)[indices].flatten(1)
        found.append(_Map(layer, norm, port, factors, rows, constants[indices]))
    return found


def _put(each: _Map, unit: int, row: Tensor, constants: Tensor) -> None:
    """Write rows and constants of a unit into its layer and the mean of the batch norm behind."""
    indices = torch.from_numpy(each.port.indices[unit])
    factors = each.factors[indices]
    factors = torch.where(factors == 0, torch.ones_like(factors), factors)  # a silent unit stays silent
    weight = outputs_first(each.layer)
    weight[indices] = (row.reshape(len(indices), -1) / factors[:, None]).reshape(weight[indices].shape).to(weight)
    bias = getattr(each.layer, "bias", None)
    if each.norm is None:
        if bias is not None:
            bias[indices] = constants.to(bias)
        return
    shift = each.norm.get_parameter("bias")[indices].double() if each.norm.affine else 0.0
    own = 0.0 if bias is None else bias[indices].double()
    means = each.norm.get_buffer("running_mean")
    means[indices] = (own - (constants - shift) / factors).to(means)
