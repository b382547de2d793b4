"""Compiled and parallel modules are taken for the module inside."""

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.networks.card import Card, card_of, weights_digest, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.wrappers import check_open, unwrapped


@pytest.mark.parametrize(
    "wrap",
    [
        lambda m: torch.compile(m, backend="eager"),
        nn.DataParallel,
        lambda m: nn.DataParallel(torch.compile(m, backend="eager")),
    ],
)
def test_the_module_inside_is_what_counts(wrap, tmp_path):
    inside = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    outside = wrap(inside)
    assert unwrapped(outside) is inside
    assert weights_digest(outside) == weights_digest(inside)
    assert [layer.name for layer in ws.walk(outside)] == ["0", "2"]
    assert type(copied(outside)) is nn.Sequential
    with_card(outside, Card(classes=("a", "b", "c")))
    assert card_of(inside).classes == card_of(outside).classes == ("a", "b", "c")
    path = ws.save(outside, tmp_path / "own.safetensors")
    assert torch.equal(
        ws.load(path, network=wrap(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))))[0].weight,
        inside[0].weight,
    )


def test_scripted_modules_are_found_inside_others():
    check_open(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(
        UsageError, match=r"0 \(Linear\) is a scripted module.*give the module that it was scripted from"
    ):
        check_open(nn.Sequential(torch.jit.script(nn.Linear(2, 2))))
