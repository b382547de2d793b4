"""Monte Carlo dropout: predictions with uncertainty from many passes with dropout on.

With p_t the softmax output of pass t = 1 … T, H(p) = −Σ_c p_c ln p_c in nats, and p̄ = (1/T) Σ_t p_t

    probabilities           p̄
    spread                  sqrt((1/T) Σ_t (p_t − p̄)²), class by class
    entropy                 H(p̄)                      total uncertainty
    mean_entropy            (1/T) Σ_t H(p_t)          aleatoric uncertainty: overlapping classes
    mutual_information      H(p̄) − (1/T) Σ_t H(p_t)   epistemic uncertainty: reducible by more data

(Gal & Ghahramani 2016; the slides, seed 002, point to it). Only dropout is switched on: batch norm keeps
using its running statistics, and neither they nor anything else in the network change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.records import Origin, Record, digest_of
from weightsmith.core.seeds import subseed
from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.evaluation import scores
from weightsmith.networks.models.dropout import Dropout

__all__ = ["Prediction", "monte_carlo"]


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction(Record):
    """The predictions for n inputs: arrays of shape (n, classes) or (n,), as defined in the module docstring."""

    predicted: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    spread: NDArray[np.float64]
    entropy: NDArray[np.float64]
    mean_entropy: NDArray[np.float64]
    mutual_information: NDArray[np.float64]
    passes: int
    origin: Origin

    def __len__(self) -> int:
        return len(self.predicted)


def monte_carlo(
    network: nn.Module, x: Tensor, *, passes: int = 50, seed: int = 0, batch: int = 256, threads: int = 1
) -> Prediction:
    """Predict the classes of ``x`` (raw inputs; the network's card normalises them) by ``passes`` passes with dropout.

    Our :class:`Dropout`, torch's dropout layers, and the dropout inside torch's recurrent and attention layers count.
    Dropout called as a function cannot be distinguished from the switch of a batch norm: such a network is refused.
    Each pass draws from its own stream of ``seed``; torch's global generator does not change. The batch size determines
    the order in which draws are used, so another one gives another sample.
    """
    if passes < 2:
        raise UsageError(f"passes must be ≥ 2 for a spread, not {passes}")
    origin = Origin(seed, {"network": weights_digest(network), "inputs": digest_of(x.detach().cpu().numpy())})
    mean, squares, entropies = torch.zeros(()), torch.zeros(()), torch.zeros(())
    with _dropping(network) as view, torch.random.fork_rng(devices=[]):
        for count in range(1, passes + 1):
            # Not torch.manual_seed, which would seed the generators of other devices for good.
            torch.default_generator.manual_seed(subseed(seed, "monte carlo", count))
            p = _probabilities(scores(view, x, batch=batch, threads=threads))
            before, mean = mean, mean + (p - mean) / count
            squares = squares + (p - before) * (p - mean)  # Welford: passes that agree have a spread of exactly 0
            entropies = entropies + _entropy(p)
    entropy, mean_entropy = _entropy(mean), entropies / passes
    return Prediction(
        predicted=mean.argmax(dim=1).numpy(),
        probabilities=mean.numpy(),
        spread=(squares / passes).sqrt().numpy(),
        entropy=entropy.numpy(),
        mean_entropy=mean_entropy.numpy(),
        # Never negative (H is concave) except for rounding.
        mutual_information=(entropy - mean_entropy).clamp(min=0).numpy(),
        passes=passes,
        origin=origin,
    )


def _probabilities(answers: Tensor) -> Tensor:
    bad = (~answers.isfinite().all(dim=1)).nonzero()
    if len(bad):
        raise DataMismatch(f"the network gives NaN or infinity for {len(bad)} inputs, the first is row {int(bad[0])}")
    return torch.softmax(answers.double(), dim=1)


def _entropy(p: Tensor) -> Tensor:
    each: Tensor = torch.special.entr(p)
    return each.sum(dim=1)


class _View(nn.Module):
    """A wrapper that ignores mode switches, since ``scores`` sets eval mode."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Any:
        return self.network(x)

    def train(self, mode: bool = True) -> _View:
        del mode
        return self


@contextmanager
def _dropping(network: nn.Module) -> Iterator[_View]:
    """The network with only its dropout on; every mode and generator is restored afterwards."""
    dropping = {module for module in network.modules() if _drops(module)}
    if not dropping:
        raise UsageError(
            f"{type(network).__name__} has no dropout layer with a rate above 0: its passes would all be the same "
            "(dropout called as a function cannot be switched on by itself; make it a layer)"
        )
    modes = [(module, module.training) for module in network.modules()]
    generators = [(module, module.generator) for module in dropping if isinstance(module, Dropout)]
    try:
        for module, _ in modes:
            # In eval mode torch uses its fused encoder layer, which silently skips dropout.
            module.training = module in dropping or isinstance(module, nn.TransformerEncoderLayer)
        for drop, _ in generators:
            drop.generator = None
        view = _View(network)
        with_card(view, card_of(network))
        yield view
    finally:
        for module, training in modes:
            module.training = training
        for drop, generator in generators:
            drop.generator = generator


def _drops(module: nn.Module) -> bool:
    """Whether the training switch of ``module`` turns on dropout, and nothing else."""
    match module:
        case Dropout():
            return module.rate > 0
        case nn.modules.dropout._DropoutNd():
            return module.p > 0
        case nn.RNNBase():
            return module.dropout > 0 and module.num_layers > 1
        case nn.MultiheadAttention():
            return bool(module.dropout > 0)
        case _:
            return False
