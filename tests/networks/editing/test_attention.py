"""Attention with fewer heads: with all of them it is torch's own, whatever the masks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.attention import FewerHeads, close_heads, open_heads
from weightsmith.networks.editing.resizing import set_tensors

_FORBIDDEN = torch.ones(5, 5).triu(1).bool()
_MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "no weights": {"need_weights": False},
    "weights of every head": {"average_attn_weights": False},
    "causal": {"attn_mask": _FORBIDDEN, "is_causal": True, "need_weights": False},
    "numbers": {"attn_mask": torch.linspace(-1, 1, 25).reshape(5, 5)},
    "one for each head": {"attn_mask": torch.linspace(-1, 1, 300).reshape(12, 5, 5)},
    "padding": {"key_padding_mask": torch.tensor([[False] * 4 + [True]] * 3), "attn_mask": _FORBIDDEN},
}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masks", _MASKS)
@torch.no_grad()
def test_all_heads_give_what_torch_gives(masks: str, batch_first: bool) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 4, batch_first=batch_first, bias=batch_first).eval()
    for value in theirs.parameters():
        value.normal_()
    ours = open_heads(copy.deepcopy(theirs))
    assert type(ours) is FewerHeads
    tokens = torch.randn(3, 5, 8) if batch_first else torch.randn(5, 3, 8)
    other = tokens.flip(0) if batch_first else tokens.flip(1)
    for ours_part, theirs_part in zip(
        ours(tokens, other, other, **_MASKS[masks]), theirs(tokens, other, other, **_MASKS[masks]), strict=True
    ):
        torch.testing.assert_close(ours_part, theirs_part, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_head_that_goes_is_a_head_whose_values_are_not_read() -> None:
    torch.manual_seed(1)
    whole = nn.TransformerEncoderLayer(8, 4, 16, batch_first=True).eval()
    x = torch.randn(3, 5, 8)
    silent = copy.deepcopy(whole)
    silent.self_attn.out_proj.weight[:, 2:4] = 0.0  # the second head's
    rows = [row for row in range(24) if row % 8 not in {2, 3}]
    small = copy.deepcopy(whole)
    attention = small.self_attn
    set_tensors(
        attention, {"in_proj_weight": attention.in_proj_weight[rows], "in_proj_bias": attention.in_proj_bias[rows]}
    )
    set_tensors(attention.out_proj, {"weight": attention.out_proj.weight[:, [0, 1, 4, 5, 6, 7]]})
    assert (type(attention), attention.num_heads) == (FewerHeads, 3)
    torch.testing.assert_close(small(x), silent(x), rtol=1e-4, atol=1e-5)
    assert type(close_heads(small).self_attn) is FewerHeads  # one is missing
    with pytest.raises(UsageError, match="does not fit heads of 2 values"):
        set_tensors(attention, {"in_proj_weight": torch.zeros(16, 8), "in_proj_bias": torch.zeros(16)})


def test_attention_with_keys_of_its_own_stays_as_it_is() -> None:
    for module in (nn.MultiheadAttention(8, 2, kdim=4), nn.MultiheadAttention(8, 2, add_bias_kv=True)):
        assert type(open_heads(module)) is nn.MultiheadAttention
