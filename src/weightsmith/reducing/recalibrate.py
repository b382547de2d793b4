"""The cheapest way back: batch norms measure anew what they are given, no weight moves and no label is looked at.

A batch norm subtracts the mean and divides by the deviation that its channels had during training. After a cut the
layers before it give something else, so these statistics are wrong everywhere behind the cut. One pass over training
rows puts them right:

    μ ← mean over batches of the batch's mean        σ² ← mean over batches of the batch's variance
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.options import param
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.copying import copied
from weightsmith.networks.evaluation import batches_for
from weightsmith.reducing.recover import Recover

__all__ = ["Recalibrate", "recalibrated"]

_BATCH_NORM = nn.modules.batchnorm._BatchNorm


class Recalibrate(Recover, name="recalibrate"):
    """Measure the statistics of all batch norms anew on training rows."""

    rows: int = param(default=5000, ge=2, doc="how many, from the first on")
    batch: int = param(default=250, ge=2, doc="rows whose mean and variance are taken together")


@torch.no_grad()
def recalibrated(network: nn.Module, x: Tensor, option: Recalibrate, *, device: str = "cpu") -> nn.Module:
    """A copy of ``network`` whose batch norms have the statistics of inputs ``x`` (normalised by its card)."""
    twin = copied(network).to(device).eval()
    norms = [module for module in twin.modules() if isinstance(module, _BATCH_NORM) and module.running_mean is not None]
    if not norms:
        raise UsageError(
            f"{option}: {type(network).__name__} has no batch norm whose statistics could be measured anew"
        )
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # torch's word for the plain mean over all batches
        norm.train()
    dtype = next(value.dtype for value in twin.parameters() if value.is_floating_point())
    rows = x[: option.rows]
    whole = len(rows) - len(rows) % option.batch or len(rows)  # a short last batch would count as much as a full one
    for _, inputs in batches_for(card_of(network), rows[:whole], option.batch, dtype):
        twin(inputs.to(device))
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return with_card(twin.cpu().eval(), card_of(network))
