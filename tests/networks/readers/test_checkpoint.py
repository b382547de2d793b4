from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.checkpoint import choose
from weightsmith.networks.readers.pickles import Storage, StoredTensor

PATH = Path("checkpoint.pt")


def tensor(count: int = 2) -> StoredTensor:
    return StoredTensor(Storage("0", torch.float32, count), torch.float32, 0, (count,), (1,))


WEIGHTS = {"a.weight": tensor(), "a.bias": tensor(), "version": 3}


@pytest.mark.parametrize(
    "root",
    [
        WEIGHTS,
        {"state_dict": WEIGHTS},
        {"model": WEIGHTS, "epoch": 3},
        {"model_state_dict": WEIGHTS, "optimizer_state_dict": {"state": {0: {"exp_avg": tensor()}}}},
        {"model": {"state_dict": WEIGHTS}},
        {"checkpoint": {"model": {"state_dict": WEIGHTS}}},
        {"generator": WEIGHTS, "epoch": 3},
        {"state_dict": WEIGHTS, "model": "resnet"},
    ],
)
def test_weights_are_found_under_their_usual_names(root):
    chosen = choose(root, PATH)
    assert list(chosen.tensors) == ["a.weight", "a.bias"]
    place, found = chosen.tensors["a.bias"]
    value = root
    for key in place:
        value = value[key]
    assert value is found


def test_others_are_summed_up_in_a_line_each():
    optimiser = {"state": {i: {"exp_avg": tensor(5), "step": tensor(1)} for i in range(3)}, "param_groups": [1, 2]}
    chosen = choose({"state_dict": WEIGHTS, "optimizer": optimiser, "ema": tensor(7), "epoch": 1}, PATH)
    assert [(item.name, item.parameters, item.reason) for item in chosen.left_out] == [
        ("optimizer", 0, "training state: 6 tensors, 18 values, not weights"),
        ("ema", 0, "outside 'state_dict': 1 tensors, 7 values, not weights"),
    ]


@pytest.mark.parametrize("name", ["sampler", "example_net", "ramp", "preamp"])
def test_words_that_only_contain_a_training_word(name):
    assert list(choose({name: {"w": tensor()}, "epoch": 1}, PATH).tensors) == ["w"]


@pytest.mark.parametrize("name", ["optimizer", "optimiser_states", "lr_scheduler", "amp", "rng_state", "callbacks"])
def test_training_state_is_no_network(name):
    with pytest.raises(FileRefused, match="no tensors"):
        choose({name: {"w": tensor()}, "epoch": 1}, PATH)


def test_two_networks_keep_their_names():
    chosen = choose({"generator": {"w": tensor()}, "discriminator": {"w": tensor()}}, PATH)
    assert list(chosen.tensors) == ["generator.w", "discriminator.w"]


def test_tensors_in_a_tuple_are_named_with_their_number():
    chosen = choose({"w": tensor(), "packed": (tensor(3), tensor(4))}, PATH)
    assert [(item.name, item.parameters) for item in chosen.left_out] == [("packed", 7)]


def test_a_container_that_holds_itself_does_no_harm():
    loop: list[object] = [tensor()]
    loop.append(loop)
    chosen = choose({"state_dict": WEIGHTS, "loop": loop}, PATH)
    assert "1 tensors" in chosen.left_out[0].reason


@pytest.mark.parametrize(
    ("root", "reason"),
    [(tensor(), "a single tensor"), ([tensor()], "a list"), ({"epoch": 3}, "no tensors"), (None, "a nonetype")],
)
def test_what_is_no_checkpoint(root, reason):
    with pytest.raises(FileRefused, match=reason):
        choose(root, PATH)


def test_two_tensors_of_one_name():
    with pytest.raises(FileRefused, match="two tensors"):
        choose({"a.b": tensor(), "a": {"b": tensor()}}, PATH)
