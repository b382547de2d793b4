from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.networks.editing.rewriting import rewritten
from weightsmith.networks.layers.walk import walk


class Zoo(nn.Module):
    """One of everything whose matrices lie in its memory in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.grouped = nn.Conv2d(8, 12, (3, 2), groups=4)
        self.up = nn.ConvTranspose2d(12, 6, 2, groups=2)
        self.line = nn.Conv1d(6, 5, 4)
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11)
        self.head.weight = self.embedding.weight
        self.lstm = nn.LSTM(5, 4, 2, bidirectional=True)
        self.attention = nn.MultiheadAttention(8, 2)


@pytest.fixture
def zoo() -> Zoo:
    torch.manual_seed(0)
    return Zoo()


def numbered(matrices: torch.Tensor) -> torch.Tensor:
    """Matrices of this shape whose values are their flat indices."""
    return torch.arange(matrices.numel(), dtype=torch.float64).reshape(matrices.shape)


def test_a_module_gets_back_exactly_the_matrices_it_is_given(zoo):
    before = copy.deepcopy(zoo.state_dict())
    made = rewritten(zoo, lambda layer: numbered(layer.matrices)).network
    layers = list(walk(made))
    assert len(layers) == 18
    for layer in layers:
        assert torch.equal(layer.matrices.double(), numbered(layer.matrices)), layer.name
    assert made.head.weight is made.embedding.weight
    assert torch.equal(made.conv.bias, zoo.conv.bias)
    for name, value in zoo.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_same_matrices_give_the_same_network(zoo):
    made = rewritten(zoo, lambda layer: layer.matrices).network
    for name, value in made.state_dict().items():
        assert torch.equal(value, zoo.state_dict()[name])


@pytest.mark.parametrize("kind", ["state dict", "file"])
def test_a_state_dict_or_file_gives_tensors_by_name(zoo, kind, tmp_path):
    state = zoo.state_dict()
    before = copy.deepcopy(state)
    if kind == "file":
        del state["head.weight"]
        save_file(state, tmp_path / "zoo.safetensors")
    source = tmp_path / "zoo.safetensors" if kind == "file" else state
    made = rewritten(source, lambda layer: 2 * layer.matrices).network
    assert set(made) == set(state)
    doubled = {f"{layer.name}.weight" for layer in walk(zoo).layers} | {n for n in state if "weight_" in n}
    doubled |= {"attention.in_proj_weight", "head.weight"}
    for name, value in made.items():
        assert torch.equal(value, before[name] * (2 if name in doubled else 1)), name
        assert torch.equal(state[name], before[name])
    if kind == "state dict":
        assert made["head.weight"] is made["embedding.weight"]


def test_types_stay_as_they_are_stored(tmp_path):
    save_file(
        {"a.weight": torch.full((2, 3), 1.0, dtype=torch.bfloat16), "n": torch.tensor([7])}, tmp_path / "m.safetensors"
    )
    made = rewritten(tmp_path / "m.safetensors", lambda layer: layer.matrices + 0.5).network
    assert made["a.weight"].dtype == torch.bfloat16
    assert made["a.weight"].unique().tolist() == [1.5]
    assert made["n"].tolist() == [7]
    half = nn.Linear(3, 2).half()
    assert rewritten(half, lambda layer: layer.matrices * 0).network.weight.dtype == torch.float16


def test_memory_in_another_order_is_kept():
    network = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    made = rewritten(network, lambda layer: 3 * layer.matrices).network
    assert torch.equal(made.weight, 3 * network.weight)
    assert made.weight.is_contiguous(memory_format=torch.channels_last)


def test_none_and_unselected_layers_are_left_alone(zoo):
    asked = []

    def change(layer):
        asked.append(layer.name)

    made = rewritten(zoo, change, layers="lstm.*").network
    assert asked
    assert all(name.startswith("lstm.") for name in asked)
    assert torch.equal(made.conv.weight, zoo.conv.weight)


def test_weights_made_of_others_are_named():
    network = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.Linear(3, 2))
    for source in (network, network.state_dict()):
        made = rewritten(source, lambda layer: layer.matrices * 0)
        assert made.kept == {"0": "is computed from other tensors, which a new weight cannot be written to"}
        assert [layer.matrices.any().item() for layer in walk(made.network)] == [True, False]
