"""Sites with layers whose forward is their author's own: one unit is taken out of each, and the result checked.

A subclass of a convolution may do anything with its weight. One that only pads in its own way (EfficientNet's *same*
padding) can lose units like any other; one that standardises its weight over its inputs gives something else when one
of these goes. So the cut of a unit is compared with the masked network, and a site that fails has the reason.
"""

from __future__ import annotations

import dataclasses

from torch import Tensor, nn

from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.removal import cut_out
from weightsmith.reducing.surgery.sites import Site, Sites, has_own_forward

__all__ = ["probed"]


def probed(network: nn.Module, found: Sites, batch: Tensor) -> Sites:
    """The sites without those whose first unit cannot be taken out of a layer with a forward of its own."""
    obstacles = dict(found.obstacles)
    for site in found.sites:
        own = _own(network, site)
        if not own or site.units < 2:
            continue
        refused = cut_out(network, [site], [Choice(site.name, site.units, (Removal(0),))], batch).refused
        if refused:
            plural = "have forwards" if len(own) > 1 else "has a forward"
            obstacles[site.name] = (
                f"{' and '.join(own)} {plural} of {'their' if len(own) > 1 else 'its'} own, and {refused[site.name]}"
            )
    kept = tuple(site for site in found.sites if site.name not in obstacles)
    return dataclasses.replace(found, sites=kept, obstacles=obstacles)


def _own(network: nn.Module, site: Site) -> list[str]:
    """The layers of a site that compute in their own way, with their types."""
    layers = {port.layer: network.get_submodule(port.layer) for port in (*site.writers, *site.readers)}
    return [f"{name} ({type(layer).__name__})" for name, layer in layers.items() if has_own_forward(layer)]
