"""``nn.MultiheadAttention`` with fewer heads than the width of its tokens implies.

torch ties the heads to the width of the tokens (heads · head size = width), so that no head can be removed. Here the
tensors and their names are the same, but ``in_proj_weight`` has 3 · heads · head size rows, and ``out_proj`` reads
heads · head size values. A module is converted by changing its class, and back if it has all its heads.

>>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
>>> x = torch.randn(3, 5, 8)
>>> before = layer(x)
>>> torch.allclose(open_heads(layer)(x), before, atol=1e-5), type(layer.self_attn).__name__
(True, 'FewerHeads')
>>> type(close_heads(layer).self_attn).__name__
'MultiheadAttention'
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["FewerHeads", "close_heads", "open_heads"]


class FewerHeads(nn.MultiheadAttention):
    """Attention of ``num_heads`` heads of ``head_dim`` values each, over tokens of any width."""

    def forward(  # noqa: PLR0917  # torch's own signature
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor | None]:
        """As in torch, for batches: softmax(q kᵀ / √head size + mask) v of every head, joined and projected.

        ``is_causal`` is a hint that the mask is causal; only the mask itself is used.
        """
        weights = self.in_proj_weight.chunk(3)
        bias: Tensor | None = self.in_proj_bias
        biases = (None, None, None) if bias is None else bias.chunk(3)
        given = (query, key, value) if self.batch_first else tuple(x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (
            torch.unflatten(functional.linear(x, weight, own), -1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for x, weight, own in zip(given, weights, biases, strict=True)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if attn_mask is not None:
            mask = _additive(attn_mask, scores)
            scores = scores + (torch.unflatten(mask, 0, (-1, self.num_heads)) if attn_mask.dim() == 3 else mask)
        if key_padding_mask is not None:
            scores = scores + _additive(key_padding_mask, scores)[:, None, None]
        attention = functional.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        joined = self.out_proj((attention @ v).transpose(1, 2).flatten(2))
        joined = joined if self.batch_first else joined.transpose(0, 1)
        if not need_weights:
            return joined, None
        return joined, attention.mean(dim=1) if average_attn_weights else attention


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as a term added to the scores: −∞ where a Boolean mask is true; a mask of numbers unchanged."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -math.inf)


def open_heads(network: nn.Module) -> nn.Module:
    """Convert every attention of ``network`` whose heads can be removed to :class:`FewerHeads`, in place."""
    for module in network.modules():
        if type(module) is nn.MultiheadAttention and _can_open(module):
            module.__class__ = FewerHeads
            module._qkv_same_embed_dim = False  # else torch's fused encoder layer bypasses the module
    return network


def close_heads(network: nn.Module) -> nn.Module:
    """Convert every attention that has all its heads back to torch's own class, in place."""
    for module in network.modules():
        if isinstance(module, FewerHeads) and len(module.in_proj_weight) == 3 * module.embed_dim:
            module.__class__ = nn.MultiheadAttention  # type: ignore[assignment]
            module._qkv_same_embed_dim = True
    return network


def _can_open(module: nn.MultiheadAttention) -> bool:
    """Whether heads can be removed: not with keys of another width, or with additional keys beside the tokens."""
    weight: Tensor | None = module.in_proj_weight
    return weight is not None and module.bias_k is None and not module.add_zero_attn
