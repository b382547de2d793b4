from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, precision_score, r2_score, recall_score, root_mean_squared_error
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch
from weightsmith.core.records import Lineage, digest_of
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import Card, card_of, meaning_digest, with_card
from weightsmith.networks.evaluation import labels_for, targets_for

DRAW = np.random.default_rng(0)


def answering(**card):
    """A network that gives what it is fed."""
    return with_card(nn.Identity(), Card(**card))


def test_errors_are_those_of_scikit_learn_in_the_units_of_the_data():
    targets = DRAW.normal(100, 20, (80, 2)).astype(np.float32)
    answers = targets + DRAW.normal(0, 5, targets.shape).astype(np.float32)
    scale = Normalisation((100.0, 90.0), (20.0, 10.0))
    network = answering(classes=("a", "b"), outputs=scale)
    data = Data("d", test=Split(scale.apply(torch.from_numpy(answers)), torch.from_numpy(targets)), classes=("a", "b"))
    found = ws.evaluate(network, data)
    assert found.r2.value == pytest.approx(r2_score(targets, answers), rel=1e-5)
    for column, each in enumerate(found.values):
        own = targets[:, column], answers[:, column]
        assert each.rmse.value == pytest.approx(root_mean_squared_error(*own), rel=1e-5)
        assert each.mae.value == pytest.approx(mean_absolute_error(*own), rel=1e-5)
        assert each.r2.value == pytest.approx(r2_score(*own), rel=1e-5)
        assert each.rmse.low < each.rmse.value < each.rmse.high
        assert each.bias.value == pytest.approx(float((own[0] - own[1]).mean()), rel=1e-3)
    turned = Data("d", test=Split(data.test.x, data.test.y[:, [1, 0]]), classes=("b", "a"))  # matched by name
    assert ws.evaluate(network, turned).r2.value == pytest.approx(found.r2.value)


def test_what_print_shows():
    y = torch.tensor([[1.0], [2.0], [3.0]])
    found = ws.evaluate(answering(), Data("d", test=Split(-y, y), classes=("price",)))
    low, high = (f"{number:.3g}".replace("-", "−") for number in (found.r2.low, found.r2.high))
    assert str(found) == f"d: test R² −27 [{low}, {high}], 3 rows, RMSE of price 4.32"
    assert str(dataclasses.replace(found, values=found.values * 5)).endswith("price 4.32, price 4.32, price 4.32 …")


def test_the_interval_of_the_error_covers_in_about_95_of_100_cases():
    covered = 0
    for _ in range(200):
        y = torch.from_numpy(DRAW.normal(size=(60, 1)).astype(np.float32))
        x = y + 0.5 * torch.from_numpy(DRAW.normal(size=(60, 1)).astype(np.float32))
        rmse = ws.evaluate(answering(), (x, y.numpy())).values[0].rmse
        covered += rmse.low <= 0.5 <= rmse.high
    assert 175 <= covered <= 199


def test_labels_are_those_of_scikit_learn():
    on, answers = DRAW.random((70, 3)) > 0.4, DRAW.normal(size=(70, 3)).astype(np.float32)
    found = ws.evaluate(answering(), (answers, on))
    assert found.recall == pytest.approx(recall_score(on, answers > 0, average=None))
    precision = [both / called for both, called in zip(found.found, found.called, strict=True)]
    assert precision == pytest.approx(precision_score(on, answers > 0, average=None))
    assert found.correct == int(((answers > 0) == on).all(1).sum())
    assert found.labels_right.value == pytest.approx(((answers > 0) == on).mean())
    assert found.score is found.accuracy
    assert not found.confusion


def test_a_row_without_an_answer_is_wrong_for_labels_and_refused_for_values():
    answers = torch.tensor([[1.0], [torch.nan], [1.0]])
    found = ws.evaluate(nn.Sequential(Spoilt()), (answers.nan_to_num(9), np.array([True, True, True])))
    assert (found.correct, found.not_finite, found.loss) == (2, 1, None)
    with pytest.raises(DataMismatch, match="nan or infinity for row 1"):
        ws.evaluate(nn.Sequential(Spoilt()), (answers.nan_to_num(9), np.array([[1.0], [2.0], [3.0]])))


class Spoilt(nn.Module):
    def forward(self, x):
        return torch.where(x == 9, torch.nan, x)


def test_what_does_not_fit_is_refused_by_name():
    values = Data("d", test=Split(torch.zeros(3, 2), torch.rand(3, 2)), classes=("a", "b"))
    with pytest.raises(DataMismatch, match="d has 2 values a row, the network 3 outputs"):
        targets_for(Card(), values, values.test.y, 3)
    with pytest.raises(DataMismatch, match="d is a regression, and rows of one class each are needed"):
        labels_for(Card(), values, values.test.y, 2)
    classes = Data("d", test=Split(torch.zeros(3, 2), torch.tensor([0, 1, 1])), classes=("a", "b"))
    priced = Card(classes=("price",), outputs=Normalisation((1.0,), (2.0,)))
    with pytest.raises(DataMismatch, match=r"predicts values \(price\), and d has classes"):
        targets_for(priced, classes, classes.test.y, 1)
    with pytest.raises(DataMismatch, match="at least two"):
        ws.evaluate(answering(), (torch.zeros(1, 1), np.array([[1.5]])))


@pytest.mark.parametrize(("known", "positive"), [((), "yes"), (("yes",), "yes"), (("no",), "no"), (("price",), "yes")])
def test_two_classes_are_one_label_for_a_network_of_one_output(known, positive):
    """The label is the class that the network names, if the data have it, and otherwise the second one."""
    data = Data("d", test=Split(torch.zeros(3, 2), torch.tensor([0, 1, 1])), classes=("no", "yes"))
    names, labels = targets_for(Card(classes=known), data, data.test.y, 1)
    assert names == (positive,)
    assert labels.tolist() == [[name == positive] for name in ("no", "yes", "yes")]


def test_a_card_keeps_the_scale_and_its_meaning_without_one_is_what_it_was(tmp_path):
    x = torch.randn(40, 3)
    run = ws.train("mlp:4", (x, 5 + 3 * x[:, :1]), epochs=1)
    ws.save(run.network, tmp_path / "net.safetensors")
    assert card_of(ws.load(tmp_path / "net.safetensors")).outputs == run.network.card.outputs
    bare = dataclasses.replace(Card(), lineage=Lineage("any")).to_dict()
    del bare["outputs"]  # as cards were before there was such a field, so that runs begun then go on
    assert meaning_digest(Card()) == digest_of(json.dumps(bare, sort_keys=True))
    assert meaning_digest(run.network.card) != meaning_digest(dataclasses.replace(run.network.card, outputs=NONE))
