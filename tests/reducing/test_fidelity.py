"""Planted exact redundancies, compared with the original network and not only with the masked one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.reduce import reduce

pytestmark = pytest.mark.choice

QUICK = {"latency": False, "random": 0}


class _Padded(nn.Module):
    """A convolution whose channels are read by another one that pads with zeros."""

    def __init__(self, bias: tuple[float, ...]) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 6, 3, padding=1)
        self.head = nn.Linear(6, 3)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for value in self.parameters():
                value.copy_(0.5 * torch.randn(value.shape, generator=generator))
            self.first.weight[1], self.first.bias[1] = -self.first.weight[0], -self.first.bias[0]  # 1 − h of unit 0
            for unit, value in zip((6, 7), bias, strict=False):
                self.first.weight[unit], self.first.bias[unit] = 0.0, value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.second(torch.sigmoid(self.first(x))))
        return self.head(hidden.amax(dim=(2, 3)))  # type: ignore[no-any-return]


def _pictures() -> Data:
    x = torch.randn((200, 1, 5, 5), generator=torch.Generator().manual_seed(1))
    y = torch.arange(200) % 3
    return Data("pictures", train=Split(x, y), test=Split(x, y))


@pytest.mark.parametrize("by", ["angles:0.5", "groups:0.5"])
@pytest.mark.parametrize("refit", ["none", "least-squares"])
def test_exact_redundancies_in_front_of_zero_padding_leave_the_original_outputs(by: str, refit: str) -> None:
    """A complement and two constants: one constant stays and carries the others' past the padding."""
    module = _Padded((0.7, -1.3))
    data = _pictures()
    small = reduce(module, data, by=by, layers="first", refit=refit, **QUICK)
    assert small.sites[0].after == 6
    with torch.no_grad():
        difference = (small.network(data.test.x) - module(data.test.x)).abs().max()
    assert small.record.fidelity is not None
    assert float(difference) < 1e-4 * small.record.fidelity.spread
    assert small.record.fidelity.border < 1e-4 * small.record.fidelity.spread
    assert "stays to carry the constants" in " ".join(small.sites[0].notes)


def test_what_a_border_leaves_is_refitted_and_recorded() -> None:
    """A complement without a constant unit to carry its constant: exact inside, not at the border."""
    module = _Padded(())
    data = _pictures()
    plain = reduce(module, data, by="angles:0.5", layers="first", refit="none", **QUICK).record
    record = reduce(module, data, by="angles:0.5", layers="first", **QUICK).record
    assert plain.fidelity is not None
    assert record.fidelity is not None
    assert plain.difference < 1e-5  # the masked network makes the same mistake: the check cannot see it
    assert plain.fidelity.cut == pytest.approx(plain.fidelity.border, rel=1e-3)
    assert plain.fidelity.border > 1e-2 * plain.fidelity.spread
    assert plain.fidelity.refitted is None
    assert record.fidelity.refitted is not None
    assert record.fidelity.refitted < 0.5 * record.fidelity.cut
    for each in (plain, record):
        assert any("reach into the zero padding" in note for note in each.notes)
