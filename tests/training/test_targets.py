from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.training.targets import imbalance, learnt, read_class_weights, weighted

DRAW = torch.Generator().manual_seed(1)
X = torch.randn(200, 3, generator=DRAW)


def data(y: torch.Tensor, classes: tuple[str, ...], weights: torch.Tensor | None = None) -> Data:
    return Data("toy", train=Split(X[: len(y)], y, weights=weights), classes=classes)


def test_values_are_learnt_in_deviations_and_answered_in_their_own_unit():
    y = 3e5 + 1e5 * X[:, :1]
    known, _ = learnt(data(y, ("price",)), 1)
    assert float(known.train.y.mean()) == pytest.approx(0, abs=1e-5)
    assert float(known.train.y.std(correction=0)) == pytest.approx(1, rel=1e-5)
    run = ws.train("mlp:16", (X, y), epochs=40, seed=1)
    found = ws.evaluate(run.network, (X, y))
    assert found.r2.value > 0.98
    assert found.values[0].rmse.value == pytest.approx(1e5 * (1 - found.r2.value) ** 0.5, rel=0.1)
    with pytest.raises(DataMismatch, match="price is the same in all training rows"):
        learnt(data(torch.ones(200, 1), ("price",)), 1)


def test_two_classes_and_one_output_are_a_label():
    labels = (X[:, 0] > 0).long()
    known, _ = learnt(data(labels, ("no", "yes")), 1)
    assert known.classes == ("yes",)
    assert torch.equal(known.train.y[:, 0], labels.bool())
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    run = ws.train(network, data(labels, ("no", "yes")), schedule=0.05, optimiser="adam", epochs=5)
    assert run.record.settings["loss"] == "binary-cross-entropy"
    found = ws.evaluate(run.network, data(labels, ("no", "yes")))
    assert found.accuracy.value > 0.9
    assert found.classes == ("yes",)
    # by name, also where the data have their classes in the other order
    turned = data(1 - labels, ("yes", "no"))
    assert ws.evaluate(run.network, turned).correct == found.correct


def test_balanced_weights_count_all_classes_alike_and_have_mean_one():
    labels = (torch.arange(100) < 10).long()
    part = weighted(data(labels, ("many", "few")), "balanced")
    assert float(part.weights.mean()) == pytest.approx(1)
    assert float(part.weights[labels == 1].sum()) == pytest.approx(float(part.weights[labels == 0].sum()))
    named = weighted(data(labels, ("many", "few")), read_class_weights({"few": 3}))
    assert float(named.weights[0] / named.weights[-1]) == pytest.approx(3)
    with pytest.raises(UsageError, match="names the class 'fw'"):
        weighted(data(labels, ("many", "few")), "fw=2")
    with pytest.raises(UsageError, match="no single class"):
        weighted(data(X[:, :1].contiguous(), ("v",)), "balanced")
    with pytest.raises(OptionError, match="as cat=2,dog=1"):
        read_class_weights("cat")
    with pytest.raises(OptionError, match="by the name of the class, not \\[1, 3\\]"):
        read_class_weights([1, 3])


@pytest.mark.parametrize("plain", [True, False], ids=["dense engine", "autograd"])
def test_a_weight_of_two_is_as_a_row_that_comes_twice(plain):
    labels = torch.randint(0, 3, (60,), generator=DRAW)
    weights = torch.where(torch.arange(60) < 20, 2.0, 1.0)
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
    if not plain:
        network = nn.Sequential(network, nn.Identity())
    rows = torch.cat([torch.arange(60), torch.arange(20)])
    options = {"schedule": 0.1, "optimiser": "sgd", "batch": 80, "epochs": 1, "diagnose": False}
    twice = ws.train(network, (X[rows], labels[rows]), **options)
    once = ws.train(network, (X[:60], labels, weights), **options | {"batch": 60})
    for ours, theirs in zip(once.network.parameters(), twice.network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert once.history.rows[0].train_loss == pytest.approx(twice.history.rows[0].train_loss, rel=1e-5)


def test_a_loss_that_only_gives_a_mean_cannot_be_weighted_and_torchs_can():
    labels = torch.randint(0, 3, (60,), generator=DRAW)
    given = (X[:60], labels, torch.rand(60, generator=DRAW))

    def own(scores, targets):
        return nn.functional.cross_entropy(scores, targets)

    with pytest.raises(UsageError, match="loss own gives only a mean"):
        ws.train("mlp:4", given, loss=own, epochs=1)
    both = [ws.train("mlp:4", given, loss=loss, epochs=1) for loss in (nn.CrossEntropyLoss(), "cross-entropy")]
    losses = [run.history.rows[0].train_loss for run in both]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_uneven_classes_are_said_unless_they_are_weighted():
    labels = (torch.arange(200) < 12).long()
    assert "class_weights=balanced" in imbalance(data(labels, ("many", "few")))[0]
    assert not imbalance(data((torch.arange(200) < 20).long(), ("many", "few")))
    plain = ws.train("mlp:4", data(labels, ("many", "few")), epochs=1)
    even = ws.train("mlp:4", data(labels, ("many", "few")), epochs=1, class_weights="balanced")
    assert any("188" in note and "12" in note for note in plain.record.notes)
    assert not any("188" in note for note in even.record.notes)
    assert even.record.settings["class_weights"] == "balanced"
    recall = [ws.evaluate(run.network, data(labels, ("many", "few"))).recall[1] for run in (plain, even)]
    assert recall[1] >= recall[0]


def test_tokens_stay_whole_and_are_neither_normalised_nor_called_large():
    tokens = np.random.default_rng(0).integers(0, 40, (120, 6))
    labels = (tokens < 8).any(1).astype(int)
    network = nn.Sequential(nn.Embedding(40, 4), nn.Flatten(), nn.Linear(24, 2))
    run = ws.train(network, (tokens, labels), epochs=2)
    assert not run.record.warnings
    assert run.record.settings["normalise"] == "none"
    assert ws.evaluate(run.network, (tokens, labels)).images == 120
    with pytest.raises(UsageError, match="begins with an embedding"):
        ws.train(network, (tokens, labels), epochs=1, normalise="0.5/0.5")
    dense = ws.train("mlp:4", (tokens, labels), epochs=1, normalise="standard")
    assert dense.network.card.normalisation.mean


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 8, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.gru(x)[0][:, -1])


def test_sequences_with_a_value_each():
    x = torch.randn(120, 5, 3, generator=DRAW)
    y = x[:, -1, :1].numpy() * 10 + 4
    run = ws.train(Gru(), (x, y), epochs=8, optimiser="adam", schedule=0.02, normalise="standard")
    assert len(run.network.card.normalisation.mean) == 3
    found = ws.evaluate(run.network, (x, y))
    assert found.r2.value > 0.5
    longer = torch.randn(10, 7, 3, generator=DRAW)
    assert ws.evaluate(run.network, (longer, longer[:, -1, :1].numpy() * 10 + 4)).images == 10
