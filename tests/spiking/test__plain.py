from __future__ import annotations

import pytest
import torch

from weightsmith.spiking._plain import plain_scores
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.stepping import linear

IMAGE = torch.tensor([[[[1.0, -2.0], [3.0, 4.0]]]])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Pool("node", INPUT, (2, 2), (2, 2)), [1.5]),
        (Pool("node", INPUT, (2, 2), (2, 2), average=False), [6.0]),
        (Pool("node", INPUT, (2, 2), (2, 2), (1, 1)), [0.25, -0.5, 0.75, 1.0]),  # zeros around the image count
        (Gate("node", INPUT, (2, 2), (2, 2)), [4.0]),
        (Neurons("node", INPUT, torch.ones(1)), [1.0, 0.0, 3.0, 4.0]),
        (Scale("node", INPUT, torch.tensor([0.5])), [0.5, -1.0, 1.5, 2.0]),
        (Flatten("node", INPUT), [1.0, -2.0, 3.0, 4.0]),
        (Add("node", (INPUT, INPUT, INPUT)), [3.0, -6.0, 9.0, 12.0]),
        (Synapses("node", INPUT, torch.tensor([[[[2.0, 1.0]]]]), torch.tensor([0.5])), [0.5, 10.5]),
    ],
)
def test_every_node_by_hand(node, expected):
    assert plain_scores([node], IMAGE).flatten().tolist() == expected


def test_nodes_read_those_they_name():
    nodes = (
        Flatten("flat", INPUT),
        Synapses("w", "flat", torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])),
        Neurons("fire", "w", torch.ones(2)),
        Add("sum", ("w", "fire")),
    )
    assert plain_scores(nodes, IMAGE).tolist() == [[-1.0, 14.0]]


def test_values_of_higher_precision_stay_so():
    factor = torch.tensor([0.1])
    found = linear(Scale("s", "x", factor), {"x": IMAGE.double()})
    assert found.dtype == torch.float64
    assert torch.equal(found, IMAGE.double() * factor.double())
