"""Turn a cut network into an ordinary one, rebuilt at its widths, with a card that holds its lineage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.models.architecture import architecture_of

__all__ = ["rebuilt"]


@torch.no_grad()
def rebuilt(
    cut: nn.Module, original: nn.Module, units: Mapping[str, int], operation: str, example: Tensor
) -> nn.Module:
    """``cut`` as a network of its architecture at the new widths; ``units`` are the remaining outputs of each layer.

    A module of the user's own keeps its class; its card holds the widths, so that the user's function can load it. The
    same applies to a network that was changed since it was built, so that its architecture does not give the same
    outputs on ``example``. The card's lineage gains ``operation``.
    """
    card = card_of(original)
    architecture = architecture_of(original)
    new = dataclasses.replace(card, lineage=card.lineage.then(operation, weights_digest(original)))
    if architecture is not None:
        resized = architecture.resized(units)
        network = _filled(resized.build(), cut)
        ours, expected = network.eval()(example.clone()), cut.eval()(example.clone())
        near = 1e-4 * float(expected.abs().max())
        if ours.shape == expected.shape and torch.allclose(ours, expected, rtol=1e-4, atol=near):
            return with_card(network, dataclasses.replace(new, architecture=resized))
        del cut.architecture
    return with_card(cut.eval(), dataclasses.replace(new, architecture=None, widths={**card.widths, **units}))


def _filled(network: nn.Module, cut: nn.Module) -> nn.Module:
    """The new network with the weights, dtypes and ``requires_grad`` of the cut one."""
    state = cut.state_dict()
    floating = next(value.dtype for value in state.values() if value.is_floating_point())
    network.to(floating).load_state_dict(state)
    trained = {name: value.requires_grad for name, value in cut.named_parameters()}
    for name, value in network.named_parameters():
        value.requires_grad_(trained[name])
    return network
