"""The random draws of a run: all are functions of the seed, the epoch and the process.

So a resumed run needs no generator state, and training, the rate finder and the gradient diagnosis see the same
batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from weightsmith.core.seeds import subseed, torch_stream
from weightsmith.networks.models.dropout import reseed_dropout
from weightsmith.training.feeding import Batch, Feed
from weightsmith.training.freezing import train_mode
from weightsmith.training.plan import TrainingPlan

__all__ = ["batches_of", "begin_epoch", "endless", "own_random_state"]


def batches_of(plan: TrainingPlan, epoch: int) -> tuple[Tensor, ...]:
    """The rows of each batch of an epoch: every training row once, shuffled."""
    order = torch.randperm(len(plan.train), generator=torch_stream(plan.settings.seed, "order", epoch))
    return torch.split(order[: len(order) - plan.left_out], plan.settings.batch)


def begin_epoch(plan: TrainingPlan, epoch: int, rank: int = 0) -> None:
    """Put the network into training mode and give its dropout the streams of this epoch and process."""
    seed, device = plan.settings.seed, plan.layout.device.type
    train_mode(plan.network)
    torch.manual_seed(subseed(seed, "torch", epoch, rank))  # for torch's own dropout; see own_random_state
    reseed_dropout(plan.network, torch_stream(seed, "dropout", epoch, rank, device=device))


def endless(plan: TrainingPlan) -> Generator[Batch]:
    """Batch after batch, epoch after epoch, as training takes them, not augmented."""
    feed = Feed(plan.train, plan.normalisation, plan.layout)
    for epoch in itertools.count(1):
        begin_epoch(plan, epoch)
        with feed.shuffled(batches_of(plan, epoch), plan.settings.seed, epoch) as batches:
            yield from batches


@contextmanager
def own_random_state() -> Iterator[None]:
    """Let modules draw from torch's global generator, and restore its state afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
