from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.normalise import NONE
from weightsmith.data.tensors import Data, Split
from weightsmith.training.feeding import Layout
from weightsmith.training.losses import CrossEntropy
from weightsmith.training.suitability import (
    check_finite,
    check_labels,
    check_loss,
    check_state,
    doubts,
    doubts_of_scores,
    scores_of,
)

LAYOUT = Layout((), torch.float32, torch.device("cpu"), channels_last=False)


def split(rows=6, labels=None, **values):
    x = torch.linspace(-1, 1, rows * 2).reshape(rows, 2)
    for name, value in values.items():
        x[int(name.removeprefix("row")), 1] = value
    return Split(x, torch.arange(rows) % 3 if labels is None else torch.tensor(labels))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_value_that_is_not_finite_is_named_by_its_row(bad, name):
    data = Data("mine", **{"train": split(), name: split(row4=bad)})
    with pytest.raises(DataMismatch, match=rf"^mine: row 4 of the {name} split holds nan or infinity$"):
        check_finite(data)


def test_finite_data_and_the_test_split_pass():
    check_finite(Data("mine", train=split(), test=split(row1=math.nan)))
    check_finite(Data("pixels", train=Split(torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1]))))


def test_a_label_without_an_output_is_named():
    data = Data("mine", train=split(), validation=split(labels=[0, 0, 0, 0, 0, 5]))
    check_labels(data, 6)
    with pytest.raises(
        DataMismatch, match=r"^mine: the validation split has the label 5, .* 5 outputs \(labels 0 to 4"
    ):
        check_labels(data, 5)


def test_scores_are_those_of_evaluation_mode_and_modes_stay():
    network = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    network[1].eval()
    part = split()
    found = scores_of(network, part, NONE, LAYOUT)
    assert torch.equal(found, network[2](network[0](part.x[:2])))
    assert [module.training for module in network] == [True, False, True]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(3, 2), r"cannot take inputs of shape \(2,\) \("),
        (nn.Flatten(0), r"gives \(4,\), not one score per class"),
        (nn.LSTM(2, 3), r"gives a tuple, not one score per class"),
    ],
)
def test_networks_that_do_not_fit_are_refused(network, message):
    with pytest.raises(DataMismatch, match=message):
        scores_of(network, split(), NONE, LAYOUT)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda s, y: F.cross_entropy(s, y, reduction="none"), r"a tensor of shape \(2,\), not one number"),
        (lambda s, y: F.cross_entropy(s, y).item(), "gives a float, not a tensor"),
        (lambda s, y: F.cross_entropy(s.detach(), y), "does not depend on the scores"),
        (lambda s, y: s @ y.float(), "cannot be computed from scores and labels"),
    ],
)
def test_losses_that_cannot_be_followed_are_refused(loss, message):
    scores, labels = torch.zeros(2, 3), torch.tensor([0, 1])
    check_loss(F.cross_entropy, scores, labels)
    with pytest.raises(UsageError, match=message):
        check_loss(loss, scores, labels)


def test_state_that_is_not_a_tensor_is_refused():
    class Noted(nn.Linear):
        def get_extra_state(self):
            return {"note": 1}

        def set_extra_state(self, state):
            pass

    check_state(nn.Linear(2, 2))
    with pytest.raises(UsageError, match=r"^_extra_state: the network keeps state that is not a tensor"):
        check_state(Noted(2, 2))


def test_outputs_that_are_probabilities_are_doubted_where_scores_are_wanted():
    scores = torch.tensor([[2.0, -1.0, 0.5], [0.2, 0.3, 0.1]])
    assert doubts_of_scores(scores, CrossEntropy()) == ()
    (message,) = doubts_of_scores(scores.softmax(1), CrossEntropy())
    assert "remove the last Softmax" in message
    assert doubts_of_scores(scores.softmax(1), F.nll_loss) == ()
    assert doubts_of_scores(scores.log_softmax(1), CrossEntropy()) == ()


def test_doubts_name_what_they_are_about():
    names = ("a", "b", "c", "d")
    assert doubts(Data("mine", train=split(labels=[0, 1, 2, 3, 0, 1]), classes=names), batch=6) == ()
    found = doubts(Data("mine", train=split(labels=[1] * 6, row0=-2e4), classes=names), batch=7)
    assert found == (
        "batch 7 is larger than the 6 training rows: every epoch is a single step",
        "3 of 4 classes have no training row (a, c, d): none can be learnt",
        "all training rows belong to one class: there is nothing to distinguish",
        "inputs reach 2e+04: bring them to about 1 (normalise=standard; float images: divide by 255, or "
        "pass them as uint8), else the first steps are far too long",
    )
