"""Heads and hidden units of transformers, transposed and 1-d convolutions: cut, checked, refitted, reloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import weightsmith as ws
from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.surgery.probing import cuttable_sites

pytest.importorskip("torch_pruning", reason="the extra prune is not installed")


class Separate(nn.Module):
    """Queries, keys and values of their own; the number of heads and the width of all are numbers of the module."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim, self.inner = heads, width // heads, width
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        split = (len(x), x.shape[1], self.heads, self.head_dim)
        q, k, v = (layer(x).view(split).transpose(1, 2) for layer in (self.query, self.key, self.value))
        weights = (q @ k.transpose(-2, -1) / self.head_dim**0.5).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(len(x), x.shape[1], self.inner))


class Joint(nn.Module):
    """One layer for all three."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = heads, width // heads
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x).unbind(0)
        return self.proj(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class HeadByHead(Joint):
    """The same with queries, keys and values of each head side by side."""

    def split(self, x: Tensor) -> Tensor:
        return self.qkv(x).unflatten(-1, (self.num_heads, 3, self.head_dim)).permute(3, 0, 2, 1, 4)


class AsWideAsItsInput(Joint):
    """The width is that of the input: it does not run with fewer heads."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x).unbind(0)
        heads = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.proj(heads.reshape(x.shape))


class Block(nn.Module):
    def __init__(self, attention: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(16), attention(16, 4)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(16), nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class Tokens(nn.Module):
    """Rows of 30 values as five tokens of six."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.embed, self.inside, self.head = nn.Linear(6, 16), inside, nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inside(self.embed(x.unflatten(1, (5, 6)))).mean(dim=1))


def _encoder(**options: object) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, **options)  # type: ignore[arg-type]
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


_KINDS: dict[str, Callable[[], nn.Module]] = {
    "torch's encoder": lambda: Tokens(_encoder()),
    "torch's encoder, norm first": lambda: Tokens(_encoder(norm_first=True, activation="gelu")),
    "separate": lambda: Tokens(Block(Separate)),
    "joint": lambda: Tokens(Block(Joint)),
    "joint, head by head": lambda: Tokens(Block(HeadByHead)),
    "one axis": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 10)), nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 6, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(36, 4),
    ),
    "transposed": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2, 5)), nn.ConvTranspose2d(3, 6, (3, 2), stride=2), nn.BatchNorm2d(6), nn.ReLU(),
        nn.ConvTranspose2d(6, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(5, 4),
    ),
}  # fmt: skip


def _made(kind: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return _KINDS[kind]().eval()


def _data(network: nn.Module) -> tuple[Tensor, Data]:
    x = torch.randn(120, 30, generator=torch.Generator().manual_seed(1))
    y = torch.arange(120) % 4
    return x, Data("made", train=Split(x, y), test=Split(x.flip(0), y.flip(0)))


@pytest.mark.parametrize("kind", _KINDS)
def test_what_people_have_is_cut_checked_refitted_and_reloaded(kind: str, tmp_path: Path) -> None:
    network = _made(kind)
    x, data = _data(network)
    small = ws.reduce(network, data, by="error", target="params:0.67", plan="uniform", random=0, latency=False)
    record = small.record
    assert record.reduced.parameters <= 0.67 * record.whole.parameters
    assert not any(site.refused for site in record.sites)
    assert record.difference < 1e-5
    assert record.refit is not None
    assert not record.refit.left
    assert all(layer.after <= layer.before for layer in record.refit.layers)
    ws.save(small.network, tmp_path / "small.safetensors")
    again = ws.load(tmp_path / "small.safetensors", network=lambda: _made(kind, seed=5))
    assert torch.equal(again(x[:4]), small.network(x[:4]))
    assert sum(value.numel() for value in again.parameters()) == record.reduced.parameters


@pytest.mark.parametrize("kind", ["torch's encoder", "separate", "joint", "joint, head by head"])
def test_heads_are_units(kind: str) -> None:
    network = _made(kind)
    _, data = _data(network)
    name = {"t": "inside.layers.*.self_attn", "s": "inside.attention.query", "j": "inside.attention.qkv"}[kind[0]]
    small = ws.reduce(network, data, by="magnitude", target="params:0.8", layers=name, random=0, latency=False)
    assert {(site.before, site.after) for site in small.sites} <= {(4, 3), (4, 2), (4, 1)}
    assert small.record.difference < 1e-5
    counted = [each for each in small.network.modules() if hasattr(each, "heads") or hasattr(each, "num_heads")]
    assert all(getattr(each, "num_heads", getattr(each, "heads", 4)) < 4 for each in counted)


def test_heads_of_code_that_takes_the_width_of_its_input_are_refused_with_the_way_out() -> None:
    network = Tokens(Block(AsWideAsItsInput)).eval()
    found = cuttable_sites(network, torch.randn(8, 30))
    assert "inside.fc1" in {site.name for site in found.sites}
    said = found.obstacles["inside.attention.qkv"]
    assert said.startswith("looks like attention of 4 heads, but the network does not run without these units")
    assert said.endswith("from the module and computes the width as heads times head size")
