from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.networks.evaluation import scores
from weightsmith.networks.files import save
from weightsmith.spiking.conversion.subject import read_subject


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def trained(digits):
    return ws.train("mlp:12", digits, optimiser="adam", schedule=0.01, epochs=2, seed=1)


def test_a_module_a_run_and_a_file_are_the_same(trained, digits, tmp_path):
    save(trained.network, tmp_path / "net.safetensors")
    found = [
        read_subject(given, digits, images=None, seed=0)
        for given in (trained, trained.network, tmp_path / "net.safetensors", str(tmp_path / "net.safetensors"))
    ]
    test = digits.split("test")
    expected = scores(trained.network, test.x).argmax(dim=1)
    for subject in found:
        assert torch.equal(subject.answers, expected)
        assert torch.equal(subject.judged.x, test.x)
        assert torch.equal(subject.judged.y, test.y)
        assert len(subject.train) == len(digits.split("train"))
        assert subject.split == "test"
        assert subject.inputs == {"network": weights_digest(trained.network), "data": digits.digest()}
        assert not subject.network.training
        assert subject.network is not trained.network


def test_the_network_that_came_in_keeps_its_mode(trained, digits):
    trained.network.train()
    read_subject(trained.network, digits, images=5, seed=0)
    assert trained.network.training
    trained.network.eval()


def test_judging_rows_are_drawn_by_the_seed(trained, digits):
    one, again, other = (read_subject(trained, digits, images=50, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.judged.x, again.judged.x)
    assert not torch.equal(one.judged.x, other.judged.x)
    assert len(one.judged) == len(one.answers) == 50
    rows = {tuple(row.tolist()) for row in digits.split("test").x.flatten(1)}
    assert all(tuple(row.tolist()) in rows for row in one.judged.x.flatten(1))
    assert torch.equal(one.answers, scores(trained.network, one.judged.x).argmax(dim=1))


def test_no_row_judges_twice(trained):
    """Rows that tell their number: those drawn are different ones, in their order."""
    numbered = torch.arange(90.0)[:, None].expand(90, 64) / 90
    subject = read_subject(trained, (numbered, torch.arange(90) % 10), images=80, seed=0)
    assert (subject.judged.x[:, 0].diff() > 0).all()
    assert torch.equal(subject.judged.y, (subject.judged.x[:, 0] * 90).round().long() % 10)


def test_more_rows_than_there_are_is_all_of_them(trained, digits):
    total = len(digits.split("test"))
    assert len(read_subject(trained, digits, images=total + 1, seed=0).judged) == total


def test_the_split_that_judges(trained, digits):
    alone = dataclasses.replace(digits, test=None)
    subject = read_subject(trained, alone, images=None, seed=0)
    assert subject.split == "train"
    assert len(subject.judged) == len(digits.split("train"))


def test_labels_are_numbers_of_the_networks_outputs(trained, digits):
    turned = dataclasses.replace(digits, classes=digits.classes[::-1])
    plain, mapped = (read_subject(trained, data, images=None, seed=0) for data in (digits, turned))
    assert torch.equal(mapped.judged.y, 9 - plain.judged.y)
    assert torch.equal(mapped.train.y, 9 - plain.train.y)


def test_tensors_will_do(trained, digits):
    train = digits.split("train")
    subject = read_subject(trained, (train.x, train.y), images=20, seed=0)
    assert len(subject.judged) == 20


@pytest.mark.parametrize("given", [nn.Linear, 3, None])
def test_what_is_no_network(given, digits):
    with pytest.raises(UsageError, match="a network is a module, a result that holds one, a file or a folder, not"):
        read_subject(given, digits, images=None, seed=0)


def test_what_spikes_already(trained, digits):
    run = ws.spike(trained, digits, steps=2, test_rows=5, watch=0)
    for given, way in ((run, "its network.run()"), (run.network, "its run()")):
        with pytest.raises(UsageError, match=re.escape(f"this is a spiking network already: {way} runs it")):
            read_subject(given, digits, images=None, seed=0)


def test_no_training_rows(trained, digits):
    with pytest.raises(DataMismatch, match="digits has no training rows, which are needed to find thresholds"):
        read_subject(trained, dataclasses.replace(digits, train=None), images=None, seed=0)


def test_no_rows_at_all(trained):
    with pytest.raises(DataMismatch, match=r"not torch.float32 \(0, 1, 8, 8\)"):
        read_subject(trained, (torch.zeros(0, 1, 8, 8), torch.zeros(0, dtype=torch.int64)), images=None, seed=0)
