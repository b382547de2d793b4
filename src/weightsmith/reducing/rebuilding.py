"""From a network that was cut to one like any other: built anew at its widths, with a card that says how it came."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import nn

from weightsmith.networks.architecture import architecture_of
from weightsmith.networks.card import card_of, weights_digest, with_card

__all__ = ["rebuilt"]


@torch.no_grad()
def rebuilt(cut: nn.Module, original: nn.Module, units: Mapping[str, int], operation: str) -> nn.Module:
    """``cut`` as a network of its architecture at the new widths; ``units`` are the outputs left of each layer.

    A module of the user's own stays what it is; its card keeps the widths, so that the user's function can load it.
    The card's lineage gains ``operation``.
    """
    card = card_of(original)
    architecture = architecture_of(original)
    lineage = card.lineage.then(operation, weights_digest(original))
    if architecture is None:
        widths = {**card.widths, **units}
        return with_card(cut.eval(), dataclasses.replace(card, widths=widths, lineage=lineage))
    resized = architecture.resized(units)
    network = resized.build()
    state = cut.state_dict()
    floating = next(value.dtype for value in state.values() if value.is_floating_point())
    network.to(floating).load_state_dict(state)
    trained = {name: value.requires_grad for name, value in cut.named_parameters()}
    for name, value in network.named_parameters():
        value.requires_grad_(trained[name])
    new = dataclasses.replace(card, architecture=resized, lineage=lineage)
    return with_card(network.eval(), new)
