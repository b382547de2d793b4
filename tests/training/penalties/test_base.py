"""The family: which weights are chosen, and properties of every penalty."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.training.penalties import L2, Penalty, Weight, weights_of

EVERY = {
    "l1": "l1:0.1",
    "l2": "l2:0.1",
    "max-norm": "max-norm:0.5",
    "group-lasso": "group-lasso:0.1",
    "spectral": "spectral:0.1",
    "stable-rank": "stable-rank:0.1",
    "l4-balance": "l4-balance:0.1",
}
ALL = [*EVERY.values(), "group-lasso:0.1,channels", "group-lasso:0.1,layers", "group-lasso:0.1,weighting=size"]


def test_every_penalty_is_tried_here_and_has_a_text_form():
    assert set(EVERY) == set(Penalty.members)
    for text in ALL:
        assert Penalty.parse(str(Penalty.parse(text))) == Penalty.parse(text)
    assert str(Penalty.parse("l2:0.1,layers=fc*")) == "l2:0.1,layers=fc*"


def network() -> nn.Module:
    return nn.ModuleDict(
        {
            "stem": nn.Conv2d(1, 3, 3),
            "norm": nn.BatchNorm2d(3),
            "up": nn.ConvTranspose2d(3, 5, 2),
            "head": nn.Linear(5, 2),
        }
    )


def test_weights_are_the_trainable_parameters_with_two_dimensions_or_more():
    found = weights_of(network())
    assert [(weight.name, weight.layer, weight.unit_axis) for weight in found] == [
        ("stem.weight", "stem", 0),
        ("up.weight", "up", 1),
        ("head.weight", "head", 0),
    ]
    cut = network()
    cut["stem"].weight.requires_grad_(False)
    assert [weight.name for weight in weights_of(cut)] == ["up.weight", "head.weight"]


def test_tied_weights_count_once():
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    assert [weight.name for weight in weights_of(tied)] == ["0.weight"]


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*", ["stem.weight", "up.weight", "head.weight"]),
        ("head", ["head.weight"]),
        ("head.weight", ["head.weight"]),
        ("[su]*", ["stem.weight", "up.weight"]),
        ("*.weight", ["stem.weight", "up.weight", "head.weight"]),
    ],
)
def test_globs_match_weights_and_layers(glob, names):
    option = L2(0.1, layers=glob)
    assert [weight.name for weight in option.chosen(weights_of(network()))] == names


@pytest.mark.parametrize("text", ALL)
def test_a_glob_that_matches_nothing_names_what_there_is(text):
    with pytest.raises(
        UnknownName, match=r"unknown trainable weight 'head.wait'.*did you mean 'head.weight'.*stem.weight"
    ):
        Penalty.parse(f"{text},layers=head.wait").on(weights_of(network()))


@pytest.mark.parametrize("text", ALL)
def test_a_network_without_trainable_weights_is_refused(text):
    with pytest.raises(OptionError, match="no trainable weight"):
        Penalty.parse(text).on(weights_of(nn.BatchNorm1d(3)))
    frozen = Weight("weight", nn.Parameter(torch.ones(2, 2), requires_grad=False))
    with pytest.raises(OptionError, match="no trainable weight"):
        Penalty.parse(text).on([frozen])


def test_a_frozen_weight_is_left_alone_among_others(weight):
    for text in ALL:
        frozen, other = weight((3, 3), "a.weight"), weight((3, 3), "b.weight")
        frozen.value.requires_grad_(False)
        before = frozen.value.clone()
        penaliser = Penalty.parse(text).on([frozen, other])
        penaliser.add_gradient()
        penaliser.after_step(0.5)
        assert torch.equal(frozen.value, before)
        assert frozen.value.grad.eq(0).all()
        assert [chosen.name for chosen in penaliser.weights] == ["b.weight"]


SHAPES = [(1, 1), (1, 5), (5, 1), (3, 4), (2, 3, 2, 2), (1, 1, 1, 1), (2, 2, 3), (0, 3), (3, 0)]


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_breaks_at_the_edges(weight, text, shape):
    for fill, dtype in itertools.product((0.0, 1.0, None, 1e-30), (torch.float32, torch.float64)):
        values = weight(shape).value.detach() if fill is None else torch.full(shape, fill)
        item = weight(values.to(dtype))
        penaliser = Penalty.parse(text).on([item])
        penaliser.start_epoch()
        for rate in (0.1, 0.0):
            penaliser.add_gradient()
            penaliser.after_step(rate)
        case = f"all {fill} in {dtype}"
        assert math.isfinite(penaliser.value()), case
        assert penaliser.value() >= 0, case
        assert item.value.isfinite().all(), case
        assert item.value.grad.isfinite().all(), case
        assert all(isinstance(sentence, str) for sentence in penaliser.removed()), case


@pytest.mark.parametrize("text", ALL)
def test_a_weight_of_zeros_stays_so_and_gets_no_gradient(weight, text):
    item = weight(torch.zeros(3, 4))
    penaliser = Penalty.parse(text).on([item])
    penaliser.add_gradient()
    penaliser.after_step(0.1)
    assert penaliser.value() == 0
    assert item.value.eq(0).all()
    assert item.value.grad.eq(0).all()


@pytest.mark.parametrize("text", ALL)
def test_a_weight_without_gradient_in_this_step_is_passed_over(weight, text):
    item = weight((3, 4))
    item.value.grad = None
    Penalty.parse(text).on([item]).add_gradient()
    assert item.value.grad is None


@pytest.mark.parametrize("text", ALL)
def test_gradients_are_added_not_set_and_everything_is_in_place(weight, text):
    item, other = weight((3, 4)), weight((3, 4))
    other.value.grad.fill_(7.0)
    memory = other.value.data_ptr(), other.value.grad.data_ptr()
    for one in (item, other):
        penaliser = Penalty.parse(text).on([one])
        penaliser.add_gradient()
        penaliser.after_step(0.1)
    assert torch.allclose(other.value.grad, item.value.grad + 7, atol=1e-12)
    assert memory == (other.value.data_ptr(), other.value.grad.data_ptr())
    assert not other.value.grad.requires_grad


@pytest.mark.parametrize("text", ALL)
def test_memory_layout_makes_no_difference(weight, text):
    plain = weight((4, 3, 2, 2))
    last = Weight("layer.weight", nn.Parameter(plain.value.detach().clone(memory_format=torch.channels_last)))
    last.value.grad = torch.zeros_like(last.value)
    assert last.value.grad.stride() != plain.value.grad.stride()
    for one in (plain, last):
        penaliser = Penalty.parse(text).on([one])
        penaliser.add_gradient()
        penaliser.after_step(0.1)
    assert torch.allclose(plain.value, last.value, rtol=1e-9)
    assert torch.allclose(plain.value.grad, last.value.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("text", ALL)
def test_transposed_convolutions_count_units_along_their_second_axis(weight, text):
    plain = weight((4, 3, 2, 2))
    turned = weight(plain.value.detach().transpose(0, 1).contiguous(), unit_axis=1)
    answers = []
    for one in (plain, turned):
        penaliser = Penalty.parse(text).on([one])
        penaliser.add_gradient()
        penaliser.after_step(0.1)
        answers.append(penaliser.value())
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)
    assert torch.allclose(plain.value, turned.value.transpose(0, 1), rtol=1e-9)
    assert torch.allclose(plain.value.grad, turned.value.grad.transpose(0, 1), rtol=1e-9, atol=1e-12)


def test_matrix_and_back(weight):
    item = weight((3, 4, 2, 2), unit_axis=1)
    assert item.matrix().shape == (4, 12)
    assert torch.equal(item.unmatrix(item.matrix()), item.value)
    assert torch.equal(item.matrix()[1], item.value[:, 1].flatten())
    assert item.value.sum(item.across(1)).tolist() == pytest.approx(item.matrix().sum(1).tolist(), rel=1e-12)
