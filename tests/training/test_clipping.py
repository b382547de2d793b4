from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from weightsmith.core.errors import OptionError
from weightsmith.training.clipping import Clip, ClipGlobalNorm, ClipNorm, ClipValue

SEED = [0.9, 100.0]


def clipped(
    option: Clip, gradients: list[list[float]], dtype: torch.dtype = torch.float64
) -> tuple[bool, list[list[float]]]:
    """The answer, and what became of each parameter's gradient."""
    whole = torch.tensor([number for part in gradients for number in part], dtype=dtype)
    parts = whole.split([len(part) for part in gradients])
    answer = option(whole, parts)
    return answer, [part.tolist() for part in parts]


def test_the_examples_of_the_slides():
    assert clipped(ClipValue(1.0), [SEED]) == (True, [[0.9, 1.0]])
    for option in (ClipNorm(1.0), ClipGlobalNorm(1.0)):
        changed, (gradient,) = clipped(option, [SEED])
        assert changed
        assert gradient == pytest.approx([0.00899964, 0.9999595], abs=5e-9)


@pytest.mark.parametrize(
    ("topic", "theirs", "ours", "tolerance"),
    [
        ("keras_layers", "clipvalue", ClipValue, 0),
        ("keras_layers", "clipnorm", ClipNorm, 1e-7),
        ("keras_layers", "global_clipnorm", ClipGlobalNorm, 1e-7),
        ("torch_layers", "clip_grad_value_", ClipValue, 0),
        ("torch_layers", "clip_grad_norm_", ClipGlobalNorm, 2e-8),  # its 1e-6 beside a norm of 100
    ],
)
def test_each_librarys_meaning_can_be_named(reference, topic, theirs, ours, tolerance):
    vectors = reference(topic)["clipping"]
    _, gradients = clipped(ours(vectors["limit"]), vectors["gradients"])
    for mine, other in zip(gradients, vectors[theirs], strict=True):
        assert mine == pytest.approx(other, rel=tolerance, abs=0)


def test_norm_is_per_parameter_and_global_norm_is_not():
    gradients = [[3.0, 4.0], [0.3, 0.4]]
    assert clipped(ClipNorm(1.0), gradients) == (True, [[pytest.approx(0.6), pytest.approx(0.8)], [0.3, 0.4]])
    long = math.sqrt(25.25)
    expected = [[pytest.approx(number / long) for number in part] for part in gradients]
    assert clipped(ClipGlobalNorm(1.0), gradients) == (True, expected)


def test_all_parts_are_clipped_not_only_the_first():
    _, gradients = clipped(ClipNorm(1.0), [[5.0], [-7.0], [0.5], [9.0]])
    assert gradients == [[1.0], [-1.0], [0.5], [1.0]]


numbers = st.floats(-1e3, 1e3, width=32)


@given(st.lists(st.lists(numbers, min_size=1, max_size=6), min_size=1, max_size=4), st.floats(0.01, 100))
def test_properties(gradients, threshold):
    for option in (ClipValue(threshold), ClipNorm(threshold), ClipGlobalNorm(threshold)):
        changed, after = clipped(option, gradients)
        before, result = map(np.concatenate, (gradients, after))
        assert changed == (not np.array_equal(before, result)), "the answer says whether anything moved"
        if isinstance(option, ClipValue):
            assert np.array_equal(result, np.clip(before, -threshold, threshold))
            continue
        pieces = zip(gradients, after, strict=True) if isinstance(option, ClipNorm) else [(before, result)]
        for old, new in pieces:
            length = np.linalg.norm(old)
            factor = threshold / length if length > threshold else 1.0
            assert np.allclose(new, np.multiply(old, factor), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", sorted(Clip.members))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_for_the_loop_to_see(name, bad):
    whole = torch.tensor([5.0, bad, 7.0])
    before = whole.clone()
    assert Clip.parse(name)(whole, [whole]) is False
    assert torch.equal(whole.nan_to_num(nan=123.0), before.nan_to_num(nan=123.0))


def test_a_broken_parameter_does_not_keep_the_others_from_being_clipped():
    whole = torch.tensor([5.0, math.nan])
    assert ClipNorm(1.0)(whole, whole.split(1)) is True
    assert whole[0] == 1
    assert whole[1].isnan()


@pytest.mark.parametrize("size", [1e20, 1e30, 3e38])
@pytest.mark.parametrize("name", ["norm", "global-norm"])
def test_an_exploding_gradient_whose_squares_overflow_is_clipped_all_the_same(name, size):
    whole = torch.tensor([size, -size])
    assert Clip.parse(name)(whole, [whole]) is True
    assert whole.tolist() == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)], rel=1e-6)
    huge = torch.tensor([size, -size])
    assert Clip.parse(f"{name}:1e39")(huge, [huge]) is False
    assert huge.tolist() == torch.tensor([size, -size]).tolist()


@pytest.mark.parametrize("name", sorted(Clip.members))
def test_gaps_layouts_and_empty_gradients(name):
    # As the training loop lays them out: channels-last filters, and zeros up to the next cache line.
    whole = torch.zeros(32 + 16)
    filters = whole.as_strided((2, 3, 2, 2), (12, 1, 6, 3), 0)
    filters.copy_(torch.arange(24.0).view(2, 3, 2, 2))
    bias = whole[32:34]
    bias.copy_(torch.tensor([0.1, 0.2]))
    assert Clip.parse(name)(whole, [filters, bias]) is True
    assert whole[24:32].eq(0).all()
    assert whole[34:].eq(0).all()
    expected = torch.arange(24.0).view(2, 3, 2, 2)
    if name == "value":
        assert torch.equal(filters, expected.clamp(max=1))
    else:
        assert torch.allclose(filters, expected / expected.norm(), rtol=1e-4)
    empty = torch.zeros(0)
    assert Clip.parse(name)(empty, []) is False


class Counted(TorchDispatchMode):
    """Counts the operations under it, and the numbers that they write into new memory."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.written = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        answer = func(*args, **(kwargs or {}))
        self.calls.append(func.overloadpacket.__name__)
        known = [argument.data_ptr() for argument in args if isinstance(argument, torch.Tensor)]
        for made in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(made, torch.Tensor) and made.data_ptr() not in known:
                self.written += made.numel()
        return answer


@pytest.mark.parametrize(
    ("name", "calm", "wild"),
    [("value", 3, 4), ("global-norm", 2, 3), ("norm", 2, 2 + 6 * 3)],
)
def test_few_operations_and_no_copies(name, calm, wild):
    # Runs in every step: what counts is the number of passes over memory and of calls into torch.
    for scale, most in ((1e-6, calm), (2.0, wild)):
        whole = torch.full((6000,), scale)
        parts = whole.split(1000)
        with Counted() as seen:
            assert Clip.parse(name)(whole, parts) is (scale > 1)
        assert len(seen.calls) <= most, seen.calls
        assert seen.written <= 10


def test_text_form_and_range():
    assert Clip.parse("value") == ClipValue(1.0)
    assert str(ClipGlobalNorm(0.5)) == "global-norm:threshold=0.5"
    assert Clip.parse("norm:2") == ClipNorm(2.0)
    with pytest.raises(OptionError, match="norm: threshold must be > 0, not 0"):
        ClipNorm(0)
