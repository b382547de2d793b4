"""Try all stages of a recipe on two rows before any of them runs.

Training changes weights, not layers, and a reduction keeps the names and types of layers. So it is known before the
first epoch whether the network takes the data and can be trained with these options, whether a pattern matches sites
and a target can be met, and whether every layer can be converted to spiking.
"""

from __future__ import annotations

import dataclasses

from torch import nn

from weightsmith.chain.stage_runner import StageContext, starting_network, with_preset
from weightsmith.chain.stages import VERBS, Stage
from weightsmith.core.errors import DataMismatch, MissingExtra, UsageError
from weightsmith.core.verbs import parameters
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.evaluation import inputs_of, labels_for
from weightsmith.networks.running import arranged, outputs_of
from weightsmith.reducing.recovery.recover import Recalibrate, Recover, check_has_norms
from weightsmith.reducing.surgery.sites import find_sites
from weightsmith.reducing.surgery.sizes import SizeModel, Target, counts_for_target
from weightsmith.spiking.conversion.balance import Balance, MaxCurrent
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.encoding import Encode
from weightsmith.spiking.neurons import IF, Neuron
from weightsmith.training.loop import train
from weightsmith.training.plan import make_plan
from weightsmith.training.settings import Settings

__all__ = ["rehearse"]

_ROWS = 2


def rehearse(context: StageContext) -> nn.Module:
    """The network that the chain starts with, untrained if it is to be trained, after trying every stage on it."""
    network = starting_network(context).eval()
    trained = network
    try:
        if not any(stage.kind == "train" for stage in context.recipe.stages):
            _classes(network, context)
    except (UsageError, DataMismatch) as error:
        raise UsageError(f"the network of the recipe cannot be run on its data: {error}") from error
    for stage in context.recipe.stages:
        try:
            match stage.kind:
                case "train":
                    trained = _trained(network, stage, context)
                case "reduce" | "angles":
                    _reduced(trained, stage, context)
                case "spike" | "sweep":
                    _spiking(trained, stage, context)
        except MissingExtra:
            raise
        except (UsageError, DataMismatch) as error:
            raise UsageError(f"the stage {stage.name!r} cannot be carried out: {error}") from error
    return network


def _classes(network: nn.Module, context: StageContext) -> None:
    part = next(iter(context.data.splits.values()))
    inputs = inputs_of(network, part.x[:_ROWS])
    outputs = outputs_of(network, arranged(network, inputs)).shape[1]
    labels_for(card_of(network), context.data, part.y, outputs)


def _trained(network: nn.Module, stage: Stage, context: StageContext) -> nn.Module:
    """Plan the training, which tries one step and discards it; return the network with the card it will have."""
    asked = with_preset(stage)
    options = {
        name: asked.get(name, each.default) for name, each in parameters(train).items() if name in Settings.OPTIONS
    }
    if context.data.validation is not None:
        options["validation"] = None
    plan = make_plan(network, context.data, Settings.read(**{**options, "seed": context.seed}))
    shaped = dataclasses.replace(card_of(network), input_shape=plan.card.input_shape, classes=plan.card.classes)
    return with_card(network, shaped) if card_of(network).architecture is None else network


def _reduced(network: nn.Module, stage: Stage, context: StageContext) -> None:
    example = arranged(network, inputs_of(network, context.data.split("train").x[:_ROWS]))
    outputs_of(network, example.clone())
    sites = find_sites(network, example).matching(stage.options.get("layers"))
    if stage.options.get("target") is not None:
        sizes = SizeModel(network, sites, example)
        counts_for_target(sizes, dict.fromkeys(sizes.units, 1.0), Target.parse(stage.options["target"]))
    recovery = stage.options.get("recover")
    if recovery is not None and isinstance(chosen := Recover.parse(recovery), Recalibrate):
        check_has_norms(network, chosen)


def _spiking(network: nn.Module, stage: Stage, context: StageContext) -> None:
    usual = {name: each.default for name, each in parameters(VERBS[stage.kind]).items()}
    encode = Encode.of(stage.options.get("encode", usual["encode"]))
    asked = stage.options.get("balance", usual["balance"])
    balance = None if asked is None else Balance.of(asked)
    neuron = Neuron.parse(stage.options["neuron"]) if "neuron" in stage.options else IF()
    made = convert(network, neuron, encode, input_shape=context.data.input_shape)  # type: ignore[arg-type]
    biased = [node.name for node in made.network.synapses if node.bias is not None]
    if isinstance(balance, MaxCurrent) and biased:
        raise UsageError(
            f"{biased[0]} has a bias (or a batch norm folded into it), which max-current does not support; write "
            'balance = "percentile", or train without bias and batch norm'
        )
