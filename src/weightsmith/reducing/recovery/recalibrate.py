"""Recalibrate batch norms on training rows; weights do not change, and no labels are needed.

A batch norm subtracts the mean and divides by the deviation that its channels had during training. After a cut its
inputs have changed, so the statistics of all later batch norms are wrong. One pass over training rows corrects them:

    μ ← mean over batches of the batch's mean        σ² ← mean over batches of the batch's variance
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluation import batches_for
from weightsmith.reducing.recovery.recover import Recalibrate

__all__ = ["check_has_norms", "recalibrated"]

_BATCH_NORM = nn.modules.batchnorm._BatchNorm


@torch.no_grad()
def recalibrated(network: nn.Module, x: Tensor, option: Recalibrate, *, device: str = "cpu") -> nn.Module:
    """A copy of ``network`` whose batch norms have the statistics of inputs ``x`` (normalised by its card)."""
    twin = copied(network).to(device).eval()
    norms = check_has_norms(twin, option)
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative mean over all batches
        norm.train()
    dtype = next(value.dtype for value in twin.parameters() if value.is_floating_point())
    count = min(option.rows, len(x))
    count -= count % option.batch if count > option.batch else 0  # a short last batch would count as much as a full one
    # Spread over all rows, and over all batches: files are often sorted by class.
    spread = torch.linspace(0, len(x) - 1, count).long()
    order = spread.reshape(min(option.batch, count), -1).T.reshape(-1)
    for _, inputs in batches_for(card_of(network), x[order], option.batch, dtype):
        twin(inputs.to(device))
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return with_card(twin.cpu().eval(), card_of(network))


def check_has_norms(network: nn.Module, option: Recalibrate) -> list[_BATCH_NORM]:
    """The batch norms of ``network`` that keep statistics; raises if there are none."""
    norms = [module for module in network.modules() if isinstance(module, _BATCH_NORM)]
    kept = [norm for norm in norms if norm.running_mean is not None]
    if not kept:
        raise UsageError(
            f"{option}: {type(network).__name__} has no batch norm whose statistics could be measured anew"
        )
    return kept
