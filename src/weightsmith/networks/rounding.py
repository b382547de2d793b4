"""Round a network to 8 bits without training: the ranges of its activations come from unlabelled rows."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError, WeightsmithError
from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.editing.int8 import folded, replaced, tensor_bytes
from weightsmith.networks.evaluation import batches_for
from weightsmith.networks.running import memory_format_of, outputs_of

__all__ = ["tensor_bytes", "to_int8"]

_BATCH = 64


@torch.no_grad()
def to_int8(network: nn.Module, x: Tensor, *, batch: int = _BATCH) -> nn.Module:
    """A copy of ``network`` with 8-bit layers, the ranges of their inputs measured on the unlabelled rows ``x``.

    >>> network = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> small = to_int8(network, torch.randn(32, 8))
    >>> str(small.get_submodule("0").weight.dtype), tensor_bytes(small) < tensor_bytes(network)
    ('torch.int8', True)
    """
    card = card_of(network)
    first = next(inputs for _, inputs in batches_for(card, x[:2], 2))
    made, layers = replaced(network, first)
    ranges: dict[str, tuple[float, float]] = {}

    def seen(name: str, values: Tensor) -> None:
        low, high = ranges.get(name, (0.0, 0.0))
        ranges[name] = min(low, float(values.min())), max(high, float(values.max()))

    plain, _ = folded(network, first)
    hooks = [
        plain.get_submodule(name).register_forward_pre_hook(lambda _, inputs, name=name: seen(name, inputs[0]))
        for name in layers
    ]
    form = memory_format_of(plain, first)
    for _, inputs in batches_for(card, x, batch, memory_format=form):
        outputs_of(plain, inputs)
    for hook in hooks:
        hook.remove()
    for name, layer in layers.items():
        layer.set_range(*ranges.get(name, (0.0, 0.0)))
    try:
        outputs_of(made, first)
    except WeightsmithError as error:
        raise UsageError(f"the network cannot be run in int8: {error}") from error
    lineage = card.lineage.then("rounded to int8", weights_digest(network))
    return with_card(made, dataclasses.replace(card, lineage=lineage)).eval()
