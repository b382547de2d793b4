"""Shared blocks answer as separate runs do; heats keep the results of dropped settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.spiking.conversion.preparing import ConversionSettings
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Pool, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.sweep.racing import Racing
from weightsmith.spiking.sweep.results import Setting
from weightsmith.spiking.sweep.runs import Heat, SharedBlock, block_of, first_synapses

STEPS = 37  # more than a chunk, and no multiple of one


def network(encode: Poisson | Constant, *, pooled: bool = False) -> SpikingNetwork:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * 0.4

    size = 3 if pooled else 6
    nodes = (
        *((Pool("pool", INPUT, (2, 2), (2, 2)),) if pooled else ()),
        Synapses("conv", "pool" if pooled else INPUT, drawn(5, 2, 3, 3), padding=(1, 1)),
        Neurons("first", "conv", torch.ones(5)),
        Flatten("flat", "first"),
        Synapses("dense", "flat", drawn(7, 5 * size * size)),
        Neurons("second", "dense", torch.ones(7)),
        Synapses("scores", "second", drawn(3, 7)),
    )
    return SpikingNetwork(nodes, (2, 6, 6), IF(), encode)


def recipe(encode: Poisson | Constant) -> ConversionSettings:
    return ConversionSettings(IF(), encode, None, None, None, "float64", STEPS, 3)  # type: ignore[arg-type]  # it is not balanced


@pytest.mark.parametrize("encode", [Poisson(), Constant()])
@pytest.mark.parametrize("pooled", [False, True])
def test_answers_are_those_of_runs_of_their_own(encode: Poisson | Constant, pooled: bool) -> None:
    base = network(encode, pooled=pooled)
    assert first_synapses(base) == "conv"
    x = torch.rand((5, 2, 6, 6), generator=torch.Generator().manual_seed(1)) * 2 - 1
    block = SharedBlock(base, recipe(encode), first_synapses(base), x, first=40)
    for neuron, factor in ((IF(), 0.5), (LIF(0.9), 0.7), (LIF(0.9, "hard"), 0.3)):
        chosen = base.with_neuron(neuron).with_factor(factor)
        alone = chosen.run(x, STEPS, seed=3, first=40, precision="float64")
        assert np.array_equal(block.answers(chosen), alone.answers)
        assert len(np.unique(alone.answers)) > 1


def heat() -> tuple[Heat, list[Setting]]:
    settings = [Setting(1.0, "soft", factor, None) for factor in (0.3, 0.5, 0.7)]
    return Heat(IF(), settings), settings


def test_a_dropped_setting_keeps_what_it_saw() -> None:
    race, settings = heat()
    hits = {settings[0].key: True, settings[1].key: True, settings[2].key: False}
    for _ in range(3):
        race.add({key: np.full((8, 2), hit) for key, hit in hits.items() if key in {s.key for s in race.running}})
        race.drop(Racing(0.01, least=12))
    assert [setting.factor for setting in race.running] == [0.3, 0.5]
    results = {row.setting.factor: (row.seen, row.correct, row.lost) for row in race.results()}
    assert results == {0.3: (24, (24, 24), False), 0.5: (24, (24, 24), False), 0.7: (16, (0, 0), True)}


def test_the_winner_depends_on_the_steps_and_the_first_of_equals_wins() -> None:
    race, settings = heat()
    race.add(
        {
            settings[0].key: np.array([[True, False], [False, False]]),
            settings[1].key: np.array([[True, True], [False, True]]),
            settings[2].key: np.array([[False, True], [True, True]]),
        }
    )
    assert (race.winner(0).setting.factor, race.winner(0).correct) == (0.3, 1)
    assert (race.winner(1).setting.factor, race.winner(1).correct) == (0.5, 2)


def test_what_is_not_shared() -> None:
    """Where something else reads the input too, or the first population reads more than its synapses."""
    base = network(Poisson())
    beside = (*base.nodes[:1], Synapses("other", INPUT, torch.ones(5, 2, 1, 1)), Add("both", ("conv", "other")))
    first = Neurons("first", "both", torch.ones(5))
    assert first_synapses(SpikingNetwork((*beside, first, *base.nodes[2:]), (2, 6, 6), IF(), Poisson())) is None


def test_blocks_are_as_small_as_memory_needs() -> None:
    assert block_of(network(Poisson()), 75) == 8
    assert block_of(network(Poisson()), 200_000) == 2
    assert block_of(network(Poisson()), 10_000_000) == 1
