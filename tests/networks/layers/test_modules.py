from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from weightsmith.networks.layers.walk import walk

KINDS = [
    (nn.Linear(4, 3), "weight", "Linear", (1, 3, 4)),
    (nn.Conv1d(4, 6, 5, groups=2), "weight", "Conv1d", (10, 3, 2)),
    (nn.Conv2d(4, 4, 3, groups=4), "weight", "Conv2d", (36, 1, 1)),
    (nn.Conv3d(2, 3, (1, 2, 3)), "weight", "Conv3d", (6, 3, 2)),
    (nn.ConvTranspose2d(4, 6, 2, groups=2), "weight", "ConvTranspose2d", (8, 3, 2)),
    (nn.Embedding(10, 3), "weight", "Embedding", (1, 10, 3)),
    (nn.EmbeddingBag(10, 3), "weight", "Embedding", (1, 10, 3)),
    (nn.LSTM(4, 3), "weight_ih_l0", "LSTM", (4, 3, 4)),
    (nn.GRU(4, 3), "weight_hh_l0", "GRU", (3, 3, 3)),
    (nn.RNN(4, 3), "weight_ih_l0", "RNN", (1, 3, 4)),
    (nn.LSTMCell(4, 3), "weight_ih", "LSTM", (4, 3, 4)),
    (nn.GRUCell(4, 3), "weight_ih", "GRU", (3, 3, 4)),
    (nn.RNNCell(4, 3), "weight_hh", "RNN", (1, 3, 3)),
    (nn.LSTM(4, 6, proj_size=2), "weight_hr_l0", "LSTM", (1, 2, 6)),
    (nn.MultiheadAttention(4, 2), "in_proj_weight.k", "MultiheadAttention", (1, 4, 4)),
    (nn.MultiheadAttention(4, 2), "out_proj", "Linear", (1, 4, 4)),
    (nn.MultiheadAttention(4, 2, vdim=3), "v_proj_weight", "MultiheadAttention", (1, 4, 3)),
]


class Scaled(nn.Linear):
    """Somebody's own kind of Linear."""


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(5, 4))
        self.token = nn.Parameter(torch.randn(1, 1, 4))


@pytest.mark.parametrize(("module", "name", "kind", "stack"), KINDS, ids=lambda value: str(value)[:30])
def test_kinds_are_exact(module, name, kind, stack):
    found = {layer.name: layer for layer in walk(module)}
    assert found[name].kind == kind
    assert found[name].matrices.shape == stack
    assert sum(layer.parameters for layer in found.values()) == walk(module).covered
    assert walk(module).parameters == sum(parameter.numel() for parameter in module.parameters())


def test_query_key_and_value_do_what_the_layer_does():
    attention = nn.MultiheadAttention(4, 1, bias=False).double()
    x = torch.randn(3, 1, 4, dtype=torch.float64)
    q, k, v, out = (layer.matrices[0] for layer in walk(attention))
    scores = torch.softmax((x[:, 0] @ q.T) @ (x[:, 0] @ k.T).T / 2, dim=-1)
    torch.testing.assert_close(scores @ (x[:, 0] @ v.T) @ out.T, attention(x, x, x)[0][:, 0].detach())


def test_a_subclass_counts_as_its_parent_and_an_unknown_module_is_guessed():
    found = {layer.name: layer for layer in walk(nn.Sequential(Scaled(3, 2), Own()))}
    assert (found["0"].kind, found["0"].notes) == ("Linear", ())
    assert found["1.matrix"].kind == "Linear"
    assert any("Own" in note for note in found["1.matrix"].notes)


def test_matrices_are_views_of_the_parameters():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(4, 2))
    for layer, module in zip(walk(network), network, strict=True):
        assert layer.matrices.untyped_storage().data_ptr() == module.weight.untyped_storage().data_ptr()
        assert not layer.matrices.requires_grad


def test_half_precision_becomes_float32_and_double_stays():
    assert next(iter(walk(nn.Linear(3, 2).bfloat16()))).matrices.dtype == torch.float32
    assert next(iter(walk(nn.Linear(3, 2).double()))).matrices.dtype == torch.float64
    assert walk(nn.Linear(3, 2).bfloat16()).layers[0].dtype == "bfloat16"


def test_same_parameter_appears_once():
    network = nn.ModuleDict({"emb": nn.Embedding(7, 3), "head": nn.Linear(3, 7), "again": nn.Linear(3, 7)})
    network["head"].weight = network["emb"].weight
    network["again"] = network["head"]
    found = walk(network)
    assert [(layer.name, layer.tied_with) for layer in found] == [("emb", ("head", "again"))]
    assert "shares its weight with head, again" in found.layers[0].notes
    assert found.parameters == 21 + 7


def test_tied_attention_is_tied_part_by_part():
    network = nn.ModuleDict({"a": nn.MultiheadAttention(4, 2), "b": nn.MultiheadAttention(4, 2)})
    network["b"].in_proj_weight = network["a"].in_proj_weight
    tied = {layer.name: layer.tied_with for layer in walk(network)}
    assert tied["a.in_proj_weight.k"] == ("b.in_proj_weight.k",)


def test_the_network_is_not_changed():
    """Reading a spectrally normalised weight in training mode takes a step of its power iteration."""
    network = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(6, 5)),
        nn.utils.spectral_norm(nn.Linear(5, 5)),
        parametrizations.weight_norm(nn.Linear(5, 4)),
    ).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.random.get_rng_state()
    list(walk(network))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
    assert network.training
    assert network[0].parametrizations.weight.training


@pytest.mark.parametrize(
    "wrap",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        lambda module: prune.random_unstructured(module, "weight", 0.4),
    ],
)
def test_parametrised_weights_are_the_effective_ones(wrap):
    torch.manual_seed(1)
    module = wrap(nn.Linear(6, 4)).eval()
    found = walk(module)
    (layer,) = found
    x = torch.randn(2, 6)
    torch.testing.assert_close(x @ layer.matrices[0].T + module.bias, module(x))
    assert found.parameters == sum(parameter.numel() for parameter in module.parameters())


def test_older_weight_norm_is_computed_not_taken_from_the_last_call():
    module = nn.utils.weight_norm(nn.Linear(6, 4))
    with torch.no_grad():
        module.weight_g.mul_(3)
    (layer,) = walk(module)
    torch.testing.assert_close(layer.matrices[0].norm(dim=1), module.weight_g[:, 0])


def test_quantised_linear_is_left_out_by_name():
    from torch.ao.quantization import quantize_dynamic

    with pytest.warns(DeprecationWarning, match="quantization"):
        network = quantize_dynamic(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Embedding(5, 2)), {nn.Linear})
    found = walk(network)
    assert [layer.name for layer in found.layers] == ["2"]
    (left,) = found.left_out
    assert (left.name, left.shape, left.parameters) == ("0", (3, 4), 12)
    assert "integer-quantised (qint8)" in left.reason


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.LazyLinear(3), "not initialised"),
        (nn.Linear(3, 2, device="meta"), "meta device"),
        (nn.Linear(3, 2, dtype=torch.complex64), "complex"),
        (nn.Linear(3, 0), "no values"),
    ],
)
def test_weights_without_readable_values_are_named(module, reason):
    found = walk(module)
    assert len(found) == 0
    assert reason in next(item.reason for item in found.left_out if item.name == "weight")


def test_norms_of_any_shape_are_scales():
    found = walk(nn.Sequential(nn.LayerNorm((4, 3)), nn.BatchNorm2d(3), nn.GroupNorm(1, 3), nn.PReLU(3)))
    assert len(found) == 0
    counted = {item.name: item.reason for item in found.left_out if item.parameters}
    assert counted["0.weight"] == "scale of LayerNorm"
    assert counted["1.bias"] == "bias"
    assert found.parameters == 24 + 6 + 6 + 3
