"""Options for recovering accuracy: distil, recalibrate, fine-tune, rewind, or reduce iteratively.

``distill`` trains the reduced network towards what the original one computes, without labels
(``recovery/distilling.py``). ``recalibrate`` updates the statistics of batch norms. ``fine-tune`` trains the reduced
network. ``rewind`` resets the kept units to the weights of an earlier epoch of the original run and continues as that
run did (Renda, Frankle and Carbin, "Comparing rewinding and fine-tuning in neural network pruning", ICLR 2020).
``iterate`` reaches the size in rounds, with fine-tuning after each.

>>> str(Recover.parse("fine-tune:5,schedule=cosine:1e-2,penalties=[l2:1e-4]"))
'fine-tune:epochs=5,schedule=cosine:0.01,penalties=[l2:0.0001]'
>>> [round(share, 3) for share in round_targets(0.5, rounds=3)]
[0.794, 0.63, 0.5]

Optimisers always start without state: the old state belongs to parameters that no longer exist.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.options import Option, check_int, param
from weightsmith.data.augment import Augment
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluation import batches_for, inputs_of
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import memory_format_of
from weightsmith.training.loop import train
from weightsmith.training.optimisers import Optimiser
from weightsmith.training.penalties import Penalty
from weightsmith.training.run import Progress, TrainRun
from weightsmith.training.schedules import as_schedule
from weightsmith.training.stopping import Stop

__all__ = [
    "Distill",
    "FineTune",
    "Iterate",
    "Judged",
    "Recalibrate",
    "Recover",
    "Rewind",
    "check_has_norms",
    "fine_tuned",
    "recalibrated",
    "round_targets",
]


class Recover(Option, family="recover"):
    """The family of recovery options: ``distill``, ``recalibrate``, ``fine-tune``, ``rewind``, ``iterate``."""


@dataclasses.dataclass(frozen=True)
class Judged:
    """Which network a training leaves: the better one on held-back rows, or always the trained one."""

    keep: Literal["better", "trained"] = param(
        default="better",
        kw_only=True,
        doc="which network is kept: the better one on held-back rows, or always the trained one",
    )


@dataclasses.dataclass(frozen=True)
class _Tuning(Judged):
    """The training of a reduced network; keyword-only."""

    name: ClassVar[str]
    rate: float | None = param(
        default=None, gt=0, lt=math.inf, kw_only=True, doc="a constant rate; none: the optimiser's usual one"
    )
    optimiser: str = param(default="momentum", kw_only=True, doc="text form of an optimiser")
    schedule: str | None = param(default=None, kw_only=True, doc="text form of a schedule, in place of rate")
    batch: int = param(default=64, ge=1, kw_only=True, doc="rows per step")
    penalties: tuple[str, ...] = param(default=(), kw_only=True, doc="text forms of penalties, such as l2:1e-4")
    augment: str | None = param(default=None, kw_only=True, doc="text form of an augmentation, such as crop-flip")

    def check(self) -> None:
        """Parse every text form (stored in its shortest form); allow a rate or a schedule, not both."""
        if self.rate is not None and self.schedule is not None:
            raise OptionError(
                f"{self.name}: rate={self.rate:g} and schedule={self.schedule} both set the rate; leave one out"
            )
        chosen = Optimiser.parse(self.optimiser)
        object.__setattr__(self, "optimiser", str(chosen))
        object.__setattr__(self, "penalties", tuple(str(Penalty.parse(text)) for text in self.penalties))
        if self.schedule is not None:
            object.__setattr__(self, "schedule", str(as_schedule(self.schedule, chosen.usual_rate)))
        if self.augment is not None:
            object.__setattr__(self, "augment", str(Augment.parse(self.augment)))

    def settings(self) -> dict[str, Any]:
        """Arguments of :func:`weightsmith.train`, without epochs."""
        return {
            "optimiser": self.optimiser,
            "schedule": self.rate if self.schedule is None else self.schedule,
            "batch": self.batch,
            "penalties": self.penalties,
            "augment": self.augment,
        }


class FineTune(_Tuning, Recover, name="fine-tune"):
    """Train the reduced network for some epochs."""

    epochs: int = param(default=10, ge=1, doc="epochs after the reduction")


class Iterate(_Tuning, Recover, name="iterate"):
    """Remove a part, fine-tune, and repeat until the target is met (Han et al. 2015)."""

    rounds: int = param(default=3, ge=1, doc="rounds of removal and training")
    epochs: int = param(default=5, ge=1, doc="epochs after each round")


class Distill(Judged, Recover, name="distill"):
    """Train the reduced network towards what the original one computes, layer by layer; no label is needed."""

    rows: int = param(default=5000, ge=1, doc="training rows, drawn by the seed")
    epochs: int = param(default=1, ge=1, kw_only=True, doc="passes over them")
    rate: float | None = param(
        default=None, gt=0, lt=1, kw_only=True, doc="rate of Adam; none: the largest of three that helps held-back rows"
    )
    labels: float = param(default=0.0, ge=0, lt=math.inf, kw_only=True, doc="weight of the labels' cross entropy")
    batch: int = param(default=50, ge=1, kw_only=True, doc="rows per step")


class Recalibrate(Recover, name="recalibrate"):
    """Recompute the statistics of all batch norms on training rows."""

    rows: int = param(default=5000, ge=2, doc="number of rows, evenly spaced")
    batch: int = param(default=250, ge=2, doc="rows in each batch; its mean and variance are averaged")


class Rewind(Recover, name="rewind"):
    """Return to an epoch of the original run, and continue training from there as that run did.

    The optimiser, the schedule from that epoch on, the order of the rows, augmentation and dropout are those of the
    run. With ``weights`` the kept units are reset to their weights of that epoch (weight rewinding); without, they keep
    their present weights, and only the learning rates are those of that epoch on (learning-rate rewinding).
    """

    epoch: int = param(ge=0, doc="the epoch of the original run to go back to (0: before training)")
    epochs: int | None = param(default=None, ge=1, doc="epochs from there on; none: the rest of the original run")
    weights: bool = param(default=True, doc="false: rewind only the learning rates")


def fine_tuned(
    network: nn.Module,
    data: Any,
    option: FineTune | Iterate,
    *,
    stop: Stop | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> TrainRun:
    """Train a copy of ``network`` with ``option`` (of ``iterate``: one round) on inputs normalised by its card.

    A module of the user's own without a card gets unnormalised inputs, as in :func:`weightsmith.evaluate`.
    """
    return train(
        network,
        data,
        **option.settings(),
        epochs=option.epochs,
        stop=stop,
        normalise=card_of(network).normalisation,
        seed=seed,
        out=out,
        progress=progress,
        threads=threads,
        device=device,
    )


def round_targets(share_kept: float, rounds: int) -> tuple[float, ...]:
    """The share to keep after each round, share^(k/rounds): every round removes the same part of the remaining units.

    >>> round_targets(0.25, 2)
    (0.5, 0.25)
    """
    if not 0 < share_kept <= 1:
        raise UsageError(f"the share to keep must be > 0 and ≤ 1, not {share_kept!r}")
    rounds = check_int("rounds", rounds)
    return (*(share_kept ** (number / rounds) for number in range(1, rounds)), share_kept)


# Recalibrate batch norms on training rows; weights do not change, and no labels are needed.
#
# A batch norm subtracts the mean and divides by the deviation that its channels had during training. After a cut its
# inputs have changed, so the statistics of all later batch norms are wrong. One pass over training rows corrects them:
#
#     μ ← mean over batches of the batch's mean        σ² ← mean over batches of the batch's variance


_BATCH_NORM = nn.modules.batchnorm._BatchNorm


@torch.no_grad()
def recalibrated(network: nn.Module, x: Tensor, option: Recalibrate, *, device: str = "cpu") -> nn.Module:
    """A copy of ``network`` whose batch norms have the statistics of inputs ``x`` (normalised by its card)."""
    twin = copied(network).to(device).eval()
    norms = check_has_norms(twin, option)
    memory_format = memory_format_of(twin, inputs_of(twin, x[:2]).to(device))
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative mean over all batches
        norm.train()
    dtype = input_type(twin)
    count = min(option.rows, len(x))
    count -= count % option.batch if count > option.batch else 0  # a short last batch would count as much as a full one
    # Spread over all rows, and over all batches: files are often sorted by class.
    spread = torch.linspace(0, len(x) - 1, count).long()
    order = spread.reshape(min(option.batch, count), -1).T.reshape(-1)
    for _, inputs in batches_for(card_of(network), x[order], option.batch, dtype, memory_format):
        twin(inputs.to(device))
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return with_card(twin.cpu().eval(), card_of(network))


def check_has_norms(network: nn.Module, option: Recalibrate) -> list[_BATCH_NORM]:
    """The batch norms of ``network`` that keep statistics; raises if there are none."""
    norms = [module for module in network.modules() if isinstance(module, _BATCH_NORM)]
    kept = [norm for norm in norms if norm.running_mean is not None]
    if not kept:
        raise UsageError(f"{option}: {type(network).__name__} has no batch norm with statistics to recompute")
    return kept
