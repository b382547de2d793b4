from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.grading.margins import Margins, MarginStatus, margins
from weightsmith.networks.card import Card, with_card


def linear(weight):
    """A network that is one matrix without a bias."""
    weight = torch.tensor(weight)
    made = nn.Sequential(nn.Linear(weight.shape[1], weight.shape[0], bias=False))
    made[0].weight.data.copy_(weight)
    return made


@pytest.fixture
def twofold():
    """Outputs are 3·x₁ and 4·x₂, so that margins of class 0 are 3·x₁ − 4·x₂."""
    return linear([[3.0, 0.0], [0.0, 4.0]])


X = torch.tensor([[2.0, 1.0], [4.0, 1.0], [1.0, 3.0], [0.0, 2.0]])
Y = torch.tensor([0, 0, 1, 1])
# margins: 6 − 4, 12 − 4, 12 − 3, 8 − 0
GAPS = [2.0, 8.0, 9.0, 8.0]


def test_the_closed_form(twofold):
    found = margins(twofold, (X, Y), quantile=0.5)
    assert found.margin == np.quantile(GAPS, 0.5) == 8.0
    assert found.log_spectral == pytest.approx(math.log10(16))
    assert found.log_frobenius == pytest.approx(math.log10(25))
    assert found.margin_spectral == pytest.approx(math.log10(16 / 64))
    assert found.margin_frobenius == pytest.approx(math.log10(25 / 64))
    assert (found.images, found.right, found.layers, found.split) == (4, 4, 1, "train")
    assert (found.status, found.reason) == (MarginStatus.MEASURED, None)


def test_the_default_is_the_tenth_percentile_interpolated(twofold):
    # The 10 % point of four values lies 0.3 of the way from the first to the second.
    assert margins(twofold, (X, Y)).margin == pytest.approx(2.0 + 0.3 * 6.0)


def test_products_run_over_all_layers_and_kernel_positions():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 3, 2, bias=False), nn.Flatten(), nn.Linear(12, 2, bias=False))
    x = torch.rand(6, 2, 3, 3)
    y = network(x).argmax(dim=1).detach()
    found = margins(network, (x, y))
    slices = network[0].weight.detach().double().permute(2, 3, 0, 1).reshape(4, 3, 2)
    largest = max(np.linalg.svd(matrix, compute_uv=False)[0] for matrix in slices.numpy())
    dense = network[2].weight.detach().double().numpy()
    assert found.log_spectral == pytest.approx(2 * math.log10(largest * np.linalg.norm(dense, 2)), rel=1e-6)
    assert found.log_frobenius == pytest.approx(2 * math.log10(float(slices.norm()) * np.linalg.norm(dense)), rel=1e-6)
    assert found.margin_spectral == pytest.approx(found.log_spectral - 2 * math.log10(found.margin))
    assert found.layers == 2


def test_scaling_the_last_layer_changes_nothing(twofold):
    """What the plain product is fooled by."""
    before = margins(twofold, (X, Y))
    twofold[0].weight.data *= 100
    after = margins(twofold, (X, Y))
    assert after.margin_spectral == pytest.approx(before.margin_spectral)
    assert after.margin_frobenius == pytest.approx(before.margin_frobenius)
    assert after.log_spectral == pytest.approx(before.log_spectral + 4)


@pytest.mark.parametrize("labels", [1 - Y, None], ids=["wrong", "zero margins"])
def test_a_margin_that_is_not_positive_gives_a_status_and_no_number(twofold, labels):
    if labels is None:
        twofold = linear([[1.0, 0.0], [1.0, 0.0]])
    found = margins(twofold, (X, Y if labels is None else labels))
    assert found.status is MarginStatus.NOT_POSITIVE
    assert (found.margin_spectral, found.margin_frobenius) == (None, None)
    assert found.margin == 0.0 if labels is None else found.margin < 0
    assert "the 10 % quantile of the margins is" in found.reason
    assert found.log_spectral is not None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_give_a_status(twofold, value):
    twofold[0].weight.data[0, 0] = value
    found = margins(twofold, (X, Y))
    assert (found.status, found.reason) == (MarginStatus.NON_FINITE, "1 of 1 layers hold NaN or infinity")
    assert (found.margin, found.log_spectral, found.margin_spectral) == (None, None, None)


def test_outputs_that_are_not_finite_give_a_status(twofold):
    x = X.clone()
    x[1, 0] = 3e38  # times 3 is more than a float32 holds
    found = margins(twofold, (x, Y))
    assert found.status is MarginStatus.NON_FINITE
    assert found.reason == "the outputs for 1 inputs hold NaN or infinity"


def test_zero_layers_are_named_and_left_out():
    network = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2))
    network[0].weight.data.copy_(torch.eye(2))
    network[1].weight.data.zero_()
    network[1].bias.data.copy_(torch.tensor([1.0, 0.0]))
    found = margins(network, (X, torch.zeros(4, dtype=torch.int64)))
    assert (found.left_out, found.layers, found.log_spectral) == (("1",), 1, 0.0)
    network[0].weight.data.zero_()
    nothing = margins(network, (X, torch.zeros(4, dtype=torch.int64)))
    assert (nothing.status, nothing.log_spectral) == (MarginStatus.NO_LAYERS, None)


def test_classes_are_matched_by_name(twofold):
    data = ws.data.Data("named", train=ws.data.Split(X, 1 - Y), classes=("b", "a"))
    with_card(twofold, Card(classes=("a", "b")))
    assert margins(twofold, data).margin == pytest.approx(2.0 + 0.3 * 6.0)


def test_inputs_are_normalised_as_the_card_says(twofold):
    pixels = torch.tensor([[[[255]], [[0]]], [[[0]], [[255]]]], dtype=torch.uint8)
    network = with_card(
        nn.Sequential(nn.Flatten(), *twofold), Card(normalisation=ws.data.Normalisation.parse("0.5/0.5"))
    )
    # Inputs become (1, −1) and (−1, 1): margins 3 + 4 both.
    found = margins(network, (pixels, torch.tensor([0, 1])))
    assert found.margin == pytest.approx(7.0)
    assert found.normalisation == "0.5/0.5"


def test_batch_norm_is_noted_and_can_be_folded():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)).eval()
    network[1].running_var.fill_(4.0)
    y = network(X).argmax(dim=1).detach()
    plain, folded = margins(network, (X, y)), margins(network, (X, y), fold=True)
    assert any("batch norm" in note for note in plain.notes)
    assert not any("batch norm" in note for note in folded.notes)
    # Folding divides the first layer by sqrt(4 + ε).
    assert folded.log_frobenius == pytest.approx(plain.log_frobenius - math.log10(4 + 1e-5), rel=1e-6)
    assert folded.margin == plain.margin
    assert (plain.folded, folded.folded) == (False, True)


def test_the_network_is_not_changed_and_the_record_round_trips(twofold):
    before = {name: tensor.clone() for name, tensor in twofold.state_dict().items()}
    twofold.train()
    found = margins(twofold, (X, Y))
    assert twofold.training
    assert all(torch.equal(before[name], tensor) for name, tensor in twofold.state_dict().items())
    assert Margins.from_json(found.to_json()) == found
    assert dataclasses.replace(found, margin=1.0) != found


def test_a_file_and_a_named_split(tmp_path):
    data = ws.data.load("digits")
    path = ws.save(ws.networks.mlp(64, 10, seed=0), tmp_path / "n.safetensors", normalisation=data.normalisation)
    calls = []
    found = margins(path, "digits", split="test", progress=lambda done, total: calls.append((done, total)))
    assert (found.data, found.split, found.images) == ("digits", "test", 360)
    assert found.right == ws.evaluate(path, "digits").correct
    assert calls[-1] == (360, 360)


def test_what_cannot_be_asked(twofold):
    with pytest.raises(OptionError, match="quantile must be > 0 and < 1, not 1.5"):
        margins(twofold, (X, Y), quantile=1.5)
    with pytest.raises(DataMismatch, match="3 classes, the network 2 outputs"):
        margins(twofold, (X, Y + 1))
    with pytest.raises(DataMismatch, match="has 1 output"):
        margins(linear([[1.0, 0.0]]), (X, torch.zeros(4, dtype=torch.int64)))


def test_it_prints_in_one_line():
    digits = ws.data.load("digits")
    found = ws.margins(ws.networks.mlp(64, 8, 10), digits)
    assert str(found).startswith(f"{found.right:,} of 1,437 right on digits (train), ")
    assert repr(found) == f"<Margins: {found}>"
    assert "\n" not in str(found)
