from __future__ import annotations

import torch

from weightsmith.spiking._ancestry import ancestors, feeding, in_residual_blocks
from weightsmith.spiking.graph import INPUT, Add, Gate, Neurons, Scale, Synapses

ONE = torch.ones(1)
WEIGHT = torch.ones(1, 1, 1, 1)

# input → a → fire_a → gate ─┬→ b → fire_b → c ─┬→ sum → fire_c → d → fire_d
#                            └────── half ───────┘
NODES = (
    Synapses("a", INPUT, WEIGHT),
    Neurons("fire_a", "a", ONE),
    Gate("gate", "fire_a", (1, 1), (1, 1)),
    Synapses("b", "gate", WEIGHT),
    Neurons("fire_b", "b", ONE),
    Synapses("c", "fire_b", WEIGHT),
    Scale("half", "gate", ONE / 2),
    Add("sum", ("c", "half")),
    Neurons("fire_c", "sum", ONE),
    Synapses("d", "fire_c", WEIGHT),
    Neurons("fire_d", "d", ONE),
)


def population(name: str) -> Neurons:
    return next(node for node in NODES if node.name == name)


def test_what_feeds_a_population_ends_at_the_spikes_it_reads():
    names = {name: [node.name for node in feeding(NODES, population(name))] for name in ("fire_a", "fire_c", "fire_d")}
    assert names == {
        "fire_a": ["a"],
        "fire_c": ["fire_a", "gate", "fire_b", "c", "half", "sum"],
        "fire_d": ["fire_c", "d"],
    }


def test_ancestors_reach_back_to_the_input():
    found = ancestors(NODES)
    assert found["gate"] == {INPUT, "a", "fire_a", "gate"}
    assert found["half"] == found["gate"] | {"half"}
    assert found["sum"] == found["half"] | {"b", "fire_b", "c", "sum"}


def test_a_residual_block_holds_what_is_on_one_branch_and_what_thresholds_the_sum():
    assert in_residual_blocks(NODES) == {"fire_b", "fire_c"}
