from __future__ import annotations

import torch

from weightsmith.papers.experiments.dropout_rates import EXPERIMENT, recurrent


def planted(best):
    def row(seed, kind, rate):
        accuracy = 0.8 - abs(rate - best[kind]) * (0.1 + 0.001 * seed)
        return {"test_accuracy": accuracy, "best_validation_accuracy": accuracy, "train_accuracy": 0.9}

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    said = verdicts(EXPERIMENT, planted({"convolutional": 0.45, "recurrent": 0.25}))
    assert set(said.values()) == {"holds"}
    turned = verdicts(EXPERIMENT, planted({"convolutional": 0.1, "recurrent": 0.6}))
    assert set(turned.values()) == {"does not hold"}
    half = verdicts(EXPERIMENT, planted({"convolutional": 0.6, "recurrent": 0.25}))
    assert half == {"rates-by-kind": "in part", "higher": "holds"}


def test_the_recurrent_network_answers_from_its_last_state():
    network = recurrent(8, 0.5).eval()
    images = torch.rand(3, 1, 8, 8)
    states, last = network[1](images[:, 0])
    assert torch.equal(network(images), network[4](last[0]))
    assert torch.equal(states[:, -1], last[0])
