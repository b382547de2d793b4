from __future__ import annotations

import torch

from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, Graded
from weightsmith.spiking.simulation.stages import Stages, stages_of, step_bytes

BLOCK = (
    Synapses("a", INPUT, torch.ones(8, 3, 1, 1)),
    Neurons("b", "a", torch.ones(8)),
    Synapses("c", "b", torch.ones(8, 8, 1, 1)),
    Add("d", ("c", "b")),
    Neurons("e", "d", torch.ones(8)),
    Pool("f", "e", (2, 2), (2, 2)),
    Flatten("g", "f"),
    Synapses("h", "g", torch.ones(2, 32)),
)


def _network(nodes, shape=(3, 4, 4)):
    return SpikingNetwork(tuple(nodes), shape, IF(), Poisson())


def test_bytes_of_a_step():
    """Input 4·3·16, spikes 8·16 while they are read; currents that end in a sum or in neurons are not stored."""
    assert step_bytes(_network(BLOCK)) == 192 + 128
    plain = (*BLOCK[:2], Flatten("g", "b"), Synapses("h", "g", torch.ones(2, 128)))
    assert step_bytes(_network(plain)) == 192 + 128
    few = (Synapses("a", INPUT, torch.ones(1, 3, 1, 1)), Neurons("b", "a", torch.ones(1)))
    few += (Flatten("g", "b"), Synapses("h", "g", torch.ones(2, 16)))
    assert step_bytes(_network(few)) == 192 + 16


def test_currents_that_are_stored_have_four_bytes():
    """Those of graded neurons, of a second branch, of two readers, and sums that are scaled or pooled."""
    currents = 4 * 8 * 16
    graded = SpikingNetwork(BLOCK, (3, 4, 4), Graded(3), Constant())
    assert step_bytes(graded) == 128 + currents + currents
    branch = (*BLOCK[:3], Synapses("s", "b", torch.ones(8, 8, 1, 1)), Add("d", ("c", "s")), *BLOCK[4:])
    assert step_bytes(_network(branch)) == 128 + currents + 128
    twice = (*BLOCK[:3], Neurons("x", "c", torch.ones(8)), Add("d", ("c", "x")), *BLOCK[4:])
    assert step_bytes(_network(twice)) == 128 + currents + 128
    scaled = (*BLOCK[:3], Scale("s", "c", torch.ones(8)), Neurons("e", "s", torch.ones(8)), *BLOCK[5:])
    assert step_bytes(_network(scaled)) == currents + currents
    pooled = (*BLOCK[:4], Gate("p", "d", (2, 2), (2, 2)), Neurons("e", "p", torch.ones(8)))
    pooled += (Flatten("g", "e"), Synapses("h", "g", torch.ones(2, 32)))
    assert step_bytes(_network(pooled)) == 128 + currents


def _deep(channels=8, hidden=400):
    """A convolution with large maps, and a dense layer with many weights behind its pool."""
    return _network(
        [
            Synapses("conv", INPUT, torch.ones(channels, 1, 3, 3), padding=(1, 1)),
            Neurons("fire", "conv", torch.ones(channels)),
            Pool("pool", "fire", (4, 4), (4, 4)),
            Flatten("flat", "pool"),
            Synapses("dense", "flat", torch.ones(hidden, channels * 16)),
            Neurons("last", "dense", torch.ones(hidden)),
            Synapses("out", "last", torch.ones(2, hidden)),
        ],
        shape=(1, 16, 16),
    )


def test_layers_with_many_weights_run_for_more_images_than_large_maps():
    """A spike map takes 8·256 bytes beside 4·256 of input or 8·16 behind the pool, the others at most 8·16 + 400."""
    found = _deep()
    assert step_bytes(found) == 2048 + 1024
    units = 4 * (2048 + 400)
    cut = stages_of(found, 37 * 27, 10, 400_000)
    assert cut == Stages(min(200_000 // (10 * 528), 400_000 // units), 3, 200_000 // (10 * 3072))
    assert (cut.block, stages_of(found, 50, 10, 400_000).block) == (37, 25)  # blocks of one size
    assert stages_of(found, 5, 10, 400_000) == Stages(5, 0, 5)  # all fit
    assert stages_of(found, 1000, 10, 1) == Stages(1, 0, 1)
    assert stages_of(found, 1000, 1, 400_000).front == 0  # membranes of more images take more than their values


def test_a_cut_that_saves_little_is_not_made():
    assert stages_of(_deep(hidden=2), 1000, 10, 400_000).front == 0


def test_no_cut_where_other_values_are_read_later():
    """What is behind the pool may run for more images, but not if the first map is read there again."""
    behind = (*BLOCK[:5], Pool("f", "e", (4, 4), (4, 4)), Flatten("g", "f"))
    behind += (Synapses("h", "g", torch.ones(500, 128)), Neurons("i", "h", torch.ones(500)))
    end = Synapses("j", "i", torch.ones(2, 500))
    assert stages_of(_network((*behind, end), (3, 16, 16)), 1000, 20, 800_000).front == 6
    again = (Flatten("k", "b"), Synapses("l", "k", torch.ones(2, 2048)), Add("m", ("j", "l")))
    assert stages_of(_network((*behind, end, *again), (3, 16, 16)), 1000, 20, 800_000).front in (0, 2)
