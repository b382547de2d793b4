"""Verified sites of a network: where a layer has custom code, one unit is removed and the result is checked.

A subclass of a convolution may do anything with its weight. One that only pads differently (EfficientNet's *same*
padding) can lose units like any other; one that standardises its weight over its inputs gives other outputs when an
input is removed. So the cut of one unit is compared with the masked network, and a site that fails is listed with the
reason. For custom attention, every likely way to split the heads is tried.
"""

from __future__ import annotations

import dataclasses

from torch import Tensor, nn

from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.heads import heads_of_modules, heads_written_by_hand
from weightsmith.reducing.surgery.removal import cut_out
from weightsmith.reducing.surgery.sites import Site, Sites, find_sites, has_own_forward

__all__ = ["cuttable_sites"]


def cuttable_sites(network: nn.Module, batch: Tensor) -> Sites:
    """The sites of ``network`` with its attention heads, except those whose first unit cannot be removed."""
    found = _with_heads(network, find_sites(network, batch[:2]), batch)
    obstacles = dict(found.obstacles)
    for site in found.sites:
        own = _own(network, site)
        refused = _refused(network, site, batch) if own else None
        if refused is not None:
            plural = "have forwards" if len(own) > 1 else "has a forward"
            obstacles[site.name] = (
                f"{' and '.join(own)} {plural} of {'their' if len(own) > 1 else 'its'} own, and {refused}"
            )
    kept = tuple(site for site in found.sites if site.name not in obstacles)
    return dataclasses.replace(found, sites=kept, obstacles=obstacles)


def _with_heads(network: nn.Module, found: Sites, batch: Tensor) -> Sites:
    """The sites with heads as units, in place of the values of all heads, and in the order of the network."""
    sites, obstacles = {site.name: site for site in found.sites}, dict(found.obstacles)
    for site in heads_of_modules(network):
        for name in [name for name in obstacles if name.startswith(f"{site.name}.")]:
            del obstacles[name]
        sites[site.name] = site
    for name, tried in heads_written_by_hand(network, found.sites).items():
        refusals = []
        for site in tried:
            refusals.append(_refused(network, site, batch))
            if refusals[-1] is None:
                sites[name] = site
                obstacles.pop(name, None)
                break
        else:
            sites.pop(name, None)
            obstacles[name] = (
                f"looks like attention of {tried[0].units} heads, but {refusals[0]}; heads can be removed if the code "
                "reads their number from the module and computes the width as heads times head size"
            )
    order = {name: number for number, (name, _) in enumerate(network.named_modules())}
    return Sites(tuple(sorted(sites.values(), key=lambda site: order[site.name])), obstacles)


def _refused(network: nn.Module, site: Site, batch: Tensor) -> str | None:
    """Why the first unit of a site cannot be removed; None if it can, or is the only one."""
    if site.units < 2:
        return None
    return cut_out(network, [site], [Choice(site.name, site.units, (Removal(0),))], batch).refused.get(site.name)


def _own(network: nn.Module, site: Site) -> list[str]:
    """The layers of a site with a forward of their own, with their types."""
    layers = {port.layer: network.get_submodule(port.layer) for port in (*site.writers, *site.readers)}
    return [f"{name} ({type(layer).__name__})" for name, layer in layers.items() if has_own_forward(layer)]
