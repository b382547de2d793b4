from __future__ import annotations

import pytest
import torch

from weightsmith.networks.layers.channels import Channels
from weightsmith.networks.layers.forms import Form
from weightsmith.networks.layers.names import guess, split_attention
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.weights import Entry


def entries(**shapes: tuple[int, ...]) -> dict[str, Entry]:
    named = {name.replace("__", "."): shape for name, shape in shapes.items()}
    return {name: Entry(name, shape, "float32") for name, shape in named.items()}


@pytest.mark.parametrize(
    ("name", "shape", "form"),
    [
        ("fc.weight", (5, 3), "Linear"),
        ("module.fc.weight", (5, 3), "Linear"),
        ("conv.weight", (5, 3, 7), "Conv1d"),
        ("conv.weight", (5, 3, 3, 3), "Conv2d"),
        ("conv.weight", (5, 3, 3, 3, 3), "Conv3d"),
        ("model.embed_tokens.weight", (50, 3), "Embedding"),
        ("transformer.wte.weight", (50, 3), "Embedding"),
        ("token_embedding", (50, 3), "Embedding"),
        ("decoder.deconv1.weight", (5, 3, 3, 3), "ConvTranspose2d"),
        ("block.dw_conv.weight", (32, 1, 3, 3), "Conv2d(groups=32)"),
        ("block.depthwise.weight", (32, 1, 3, 3), "Conv2d(groups=32)"),
        ("conv1.weight", (32, 1, 3, 3), "Conv2d"),
        ("mlp.experts.gate_up_proj", (8, 3, 6), "Experts"),
        ("attn.in_proj_weight", (9, 3), "MultiheadAttention(gates=3)"),
        ("attn.k_proj_weight", (3, 4), "MultiheadAttention"),
        ("arr_0", (4, 3), "Linear"),
    ],
)
def test_forms_by_name_and_shape(name, shape, form):
    found = guess(name, shape, {name: Entry(name, shape, "float32")}, Channels())
    assert isinstance(found, tuple)
    assert str(found[0]) == form


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("fc.bias", (5,), "bias"),
        ("attn.bias_k", (1, 1, 5), "bias"),
        ("norm.weight", (5,), "one-dimensional"),
        ("scale", (), "one-dimensional"),
        ("cls_token", (1, 1, 5), "side of length 1"),
        ("pos_embed", (1, 197, 5), "side of length 1"),
        ("fc.weight", (0, 5), "no values"),
        ("odd.weight", (2, 2, 2, 2, 2, 2), "6 dimensions"),
    ],
)
def test_reasons_to_be_no_layer(name, shape, reason):
    found = guess(name, shape, {}, Channels())
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(("gates", "kind"), [(4, "LSTM"), (3, "GRU"), (1, "RNN")])
@pytest.mark.parametrize("suffix", ["_l0", "_l3_reverse", ""])
def test_recurrent_layers_by_their_hidden_size(gates, kind, suffix):
    known = entries(**{f"r__weight_ih{suffix}": (gates * 5, 7), f"r__weight_hh{suffix}": (gates * 5, 5)})
    for name, entry in known.items():
        assert guess(name, entry.shape, known, Channels()) == (Form(kind, gates=gates), [])


def test_projected_lstm_by_its_projection():
    known = entries(r__weight_ih_l0=(20, 7), r__weight_hh_l0=(20, 2), r__weight_hr_l0=(2, 5))
    assert guess("r.weight_hh_l0", (20, 2), known, Channels()) == (Form("LSTM", gates=4), [])
    assert guess("r.weight_hr_l0", (2, 5), known, Channels()) == (Form("LSTM"), [])


def test_rows_that_are_no_gates_are_one_matrix():
    known = entries(r__weight_ih=(10, 7), r__weight_hh=(10, 5))
    form, _ = guess("r.weight_ih", (10, 7), known, Channels())
    assert form == Form("Linear")


@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(12, 6, 2), (4, 9, 1)])
def test_a_bias_tells_a_transposed_convolution(inputs, outputs, groups):
    shape = (inputs, outputs // groups, 3, 3)
    form, notes = guess("up.weight", shape, entries(up__bias=(outputs,)), Channels())
    assert form == Form("ConvTranspose2d", groups)
    assert "transposed" in notes[0]


def test_batch_norm_by_its_statistics():
    known = entries(bn__weight=(4,), bn__running_mean=(4,))
    assert guess("bn.weight", (4,), known, Channels()) == "scale of a batch norm"


def test_groups_are_not_split_by_the_channels_before():
    widths = {"conv1": (64, 3), "a.conv1": (128, 64), "a.conv2": (128, 4), "a.conv3": (256, 128), "other_eye": (64, 3)}
    found = walk({f"{name}.weight": torch.zeros(*shape, 3, 3) for name, shape in widths.items()})
    stacks = {layer.name: layer.matrices for layer in found.layers}
    assert [count for count, _, _ in stacks.values()] == [9] * 5
    notes = {layer.name: layer.notes for layer in found.layers if layer.notes}
    assert list(notes) == ["a.conv2"]
    assert "conv_groups a.conv2=32" in notes["a.conv2"][0]  # as in a ResNeXt


def test_depthwise_by_the_channels_before():
    found = walk({"stem.weight": torch.zeros(16, 3, 3, 3), "b.weight": torch.zeros(16, 1, 3, 3)})
    assert [layer.matrices for layer in found.layers] == [(9, 16, 3), (144, 1, 1)]


def test_attention_is_cut_in_query_key_value():
    weight = torch.arange(18.0).reshape(9, 2)
    plans = split_attention(Entry("a.in_proj_weight", (9, 2), "float32"), lambda: weight)
    assert [plan.name for plan in plans] == ["a.in_proj_weight.q", "a.in_proj_weight.k", "a.in_proj_weight.v"]
    assert torch.equal(torch.cat([plan.read() for plan in plans]), weight)


def test_buffers_are_named_but_have_no_parameters():
    found = walk(
        {
            "bn.running_mean": torch.zeros(3),
            "bn.num_batches_tracked": torch.tensor(4),
            "mask": torch.ones(2, 2, dtype=torch.bool),
            "fc.weight": torch.zeros(3, 2),
        }
    )
    assert found.parameters == found.covered == 6
    assert {item.reason for item in found.left_out} == {"a buffer, not trained"}
