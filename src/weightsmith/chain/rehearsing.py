"""A chain tried on its network before it is trained: what a stage would refuse at the end is refused at the beginning.

Training changes weights, not layers, and a reduction leaves the names and kinds of layers as they are. So whether units
can be found under a pattern, and whether every layer can be made spiking, is known before the first epoch.
"""

from __future__ import annotations

from torch import nn

from weightsmith.chain.carrying import Bench, starting_network
from weightsmith.chain.stages import Stage
from weightsmith.core.errors import DataMismatch, MissingExtra, UsageError
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import batches_for
from weightsmith.networks.precision import like_of
from weightsmith.reducing.sites import find_sites
from weightsmith.spiking.balance import Balance, MaxCurrent
from weightsmith.spiking.convert import convert
from weightsmith.spiking.encoding import Encode
from weightsmith.spiking.neurons import IF, Neuron

__all__ = ["rehearse"]

_INPUTS = 2


def rehearse(bench: Bench) -> nn.Module:
    """The network that the chain starts with, untrained if it is to be trained, once every stage could take it."""
    network = starting_network(bench).eval()
    for stage in bench.recipe.stages:
        try:
            if stage.kind == "reduce":
                _reduced(network, stage, bench)
            elif stage.kind in ("spike", "sweep"):
                _spiking(network, stage, bench)
        except MissingExtra:
            raise
        except (UsageError, DataMismatch) as error:
            raise UsageError(f"the stage {stage.name!r} cannot be carried out: {error}") from error
    return network


def _reduced(network: nn.Module, stage: Stage, bench: Bench) -> None:
    rows = bench.data.split("train").x[:_INPUTS]
    example = next(inputs for _, inputs in batches_for(card_of(network), rows, _INPUTS, like_of(network).dtype))
    find_sites(network, example).matching(stage.options.get("layers"))


def _spiking(network: nn.Module, stage: Stage, bench: Bench) -> None:
    usual = {"spike": ("constant", "percentile"), "sweep": ("poisson", "max-current")}[stage.kind]
    encode = Encode.parse(stage.options.get("encode", usual[0]))
    balance = Balance.parse(stage.options.get("balance", usual[1]))
    neuron = Neuron.parse(stage.options["neuron"]) if "neuron" in stage.options else IF()
    made = convert(network, neuron, encode, input_shape=bench.data.input_shape)  # type: ignore[arg-type]
    biased = [node.name for node in made.network.synapses if node.bias is not None]
    if isinstance(balance, MaxCurrent) and biased:
        raise UsageError(
            f"{biased[0]} has a bias (or a batch norm folded into it), for which max-current is not made; write "
            'balance = "percentile", or train without bias and batch norm'
        )
