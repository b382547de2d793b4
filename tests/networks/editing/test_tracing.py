"""Tracing with the sizes of an example: the same answers, for another number of rows too."""

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.networks.card import Card, with_card
from weightsmith.networks.editing.tracing import trace

X = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))


class Own(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 2, 3), nn.Linear(8, 2)
        self.parts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.body = forward

    def forward(self, x, part="a", scale=None):
        return self.body(self, x, part) if scale is None else x


def _counted(self, x, part):
    count = 1
    for size in x.size()[1:]:
        count *= size
    return self.fc(x.view(-1, count)[:, :8])


def _lengths(self, x, part):
    assert x.shape[1] == 3
    assert x.dim() == x.ndim == 4
    x = self.parts[part](self.conv(x))
    return self.fc(x.view(len(x), x.size(1) * x.size(-1) * x.shape[2]))


def _unbound(self, x, part):
    total = 0
    for row in x.unbind(2):
        total = total + row.mean((1, 2)).unsqueeze(1)
    left, right = x.flatten(1).chunk(2, dim=1)
    return total + self.fc(left[:, : len((1, 2)) * 4]) + right.sum(1, keepdim=True)


def _leaf(self, x, part):
    _, c, h, _ = x.shape
    y = self.encoder(x.reshape(len(x), c * h, 4))
    return self.fc(y.flatten(1)[:, :8]).to(x.dtype)


def _parameter(self, x, part):
    weight = self.fc.weight.view(len(self.fc.weight), -1)
    return functional.linear(x.flatten(1)[:, :8], weight) if x.shape[3] == 4 else x


@pytest.mark.parametrize("body", [_counted, _lengths, _unbound, _leaf, _parameter])
def test_what_torch_fx_alone_cannot_trace_computes_the_same(body):
    network = Own(body).eval()
    with pytest.raises(UsageError, match="cannot be traced"):
        trace(network)
    traced = trace(network, X[:2])
    assert isinstance(traced, fx.GraphModule)
    with torch.no_grad():
        assert torch.equal(traced(X), network(X))
    assert "len" not in globals()


def test_the_card_tells_the_shape():
    network = Own(_counted).eval()
    with pytest.raises(UsageError, match="Own: its data flow cannot be traced .*; write its forward without decisions"):
        trace(network)
    with_card(network, Card(input_shape=(3, 4, 4)))
    assert torch.equal(trace(network)(X), network(X))


@pytest.mark.parametrize(
    "body",
    [
        lambda self, x, part: self.fc(x.flatten(1)[:, :8]) if x.mean() > 0 else x,
        lambda self, x, part: self.fc(x.flatten(1)[:, :8]) if x.size(0) > 2 else x,
        lambda self, x, part: torch.stack([row.sum() for row in x]),
    ],
)
def test_decisions_by_value_or_by_the_number_of_rows_are_refused(body):
    with pytest.raises(UsageError, match="depend on the values or the number of its rows"):
        trace(Own(body), X)


def test_parameters_with_defaults_keep_them():
    class Masked(nn.Linear):
        def forward(self, x, mask=None, *, scale=2.0, **options):
            x = super().forward(x) * scale
            return x if mask is None else x * mask

    network = Masked(4, 2)
    assert torch.equal(trace(network)(X), network(X))
    assert not torch.equal(network(X), functional.linear(X, network.weight, network.bias))


def test_what_torch_fx_can_trace_is_left_to_it():
    network = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    assert [node.name for node in trace(network, X).graph.nodes] == [
        node.name for node in fx.symbolic_trace(network).graph.nodes
    ]


def test_a_scripted_module_is_refused_by_name():
    with pytest.raises(UsageError, match=r"1 \(Linear\) is a scripted module"):
        trace(nn.Sequential(nn.Flatten(), torch.jit.script(nn.Linear(48, 2))))
