"""Dequantise integers and eight-bit floats: find their scale by name, apply it.

A tensor ``X`` of type int8, uint8 or float8 is scaled by a neighbour called ``X_scale``, ``X.scale`` or
``X_scale_inv`` (all of them multiply: *inv* is the inverse of what the quantiser multiplied with):

    w = (q − zero_point) · scale

The scale is one number, one per row (first axis), a shape that broadcasts, or one per block of 128 × 128.

Layers packed by GPTQ or AWQ (``qweight``, ``qzeros``, ``scales``, ``g_idx``) are not unpacked: each part is left out
with a description. GPTQ packs along the inputs, so that ``qweight`` has as many columns as ``scales``; AWQ along the
outputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from weightsmith.networks.weights import Entry, LeftOut

__all__ = ["APPLIED", "Scaling", "is_quantised", "split_quantised"]

APPLIED = "scale or zero point, applied to its weight"
_OF_INPUTS = "scale or zero point of the inputs of its layer"

_SCALES = ("_scale", ".scale", "_scale_inv", ".scale_inv")
_ZEROS = ("_zero_point", ".zero_point")
_INPUTS = ("input_scale", "input_zero", "input_zero_point")
_BLOCK = 128


@dataclass(frozen=True)
class Scaling:
    """The tensors of the same file that convert stored integers to real numbers."""

    scale: str
    zero_point: str | None = None

    def apply(self, values: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
        """``(values − zero_point) · scale`` in float32.

        >>> Scaling("s").apply(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0.5, 2.0]), torch.tensor(1))
        tensor([[0.0000, 0.5000],
                [4.0000, 6.0000]])
        """
        result = values.to(torch.float32)
        if zero_point is not None:
            result = result - _spread(zero_point.to(torch.float32), values.shape)
        return result.mul_(_spread(scale.to(torch.float32), values.shape))


def split_quantised(
    stored: Mapping[str, Entry],
) -> tuple[dict[str, Entry], dict[str, Scaling], list[LeftOut]]:
    """The entries that can be read as weights, their scales, and the entries left out with the reason.

    Scales and zero points belong to the rounding: they count no parameters.
    """
    scalings: dict[str, Scaling] = {}
    reasons: dict[str, str] = {}
    for name, entry in stored.items():
        scale = _sibling(stored, name, _SCALES) if _is_small(entry) else None
        if scale is not None and _fits(stored[scale].shape, entry.shape):
            zero = _sibling(stored, name, _ZEROS)
            zero = zero if zero is not None and _fits(stored[zero].shape, entry.shape) else None
            scalings[name] = Scaling(scale, zero)
            reasons[scale] = APPLIED
            if zero is not None:
                reasons[zero] = APPLIED
            inputs = (f"{name.removesuffix('weight')}{each}" for each in _INPUTS)
            reasons |= {each: _OF_INPUTS for each in inputs if name.endswith(".weight") and each in stored}
        elif scale is not None:
            reasons[name] = f"quantised, and its scale of shape {stored[scale].shape} does not fit {entry.shape}"
        elif is_quantised(entry):
            reasons[name] = f"integer-quantised ({entry.dtype}), no scale"
    parts = _packed_parts(stored)
    reasons |= parts
    entries = {name: entry for name, entry in stored.items() if name not in reasons}
    rounding = {name for name, reason in reasons.items() if reason in (APPLIED, _OF_INPUTS)}
    rounding |= {name for name in parts if not name.endswith("qweight")}
    left_out = [
        LeftOut(name, stored[name].shape, 0 if name in rounding else stored[name].parameters, reason)
        for name, reason in reasons.items()
    ]
    return entries, scalings, left_out


def _packed_parts(stored: Mapping[str, Entry]) -> dict[str, str]:
    """Descriptions of the tensors of layers packed by GPTQ or AWQ, by name."""
    found: dict[str, str] = {}
    for name, entry in stored.items():
        prefix = name.removesuffix("qweight")
        scales = stored.get(f"{prefix}scales")
        if prefix == name or entry.is_float or scales is None or len(entry.shape) != 2:
            continue
        rule = "GPTQ" if f"{prefix}g_idx" in stored or entry.shape[1] == scales.shape[-1] else "AWQ"
        words = {
            "qweight": f"packed integers of a {rule} layer ({entry.dtype}): unpack it to floats to grade it",
            "scales": f"scales of a {rule} layer, no weights",
            "qzeros": f"packed zero points of a {rule} layer",
            "g_idx": f"groups of the inputs of a {rule} layer",
        }
        found |= {prefix + part: reason for part, reason in words.items() if prefix + part in stored}
    return found


def _is_small(entry: Entry) -> bool:
    return entry.dtype in ("int8", "uint8") or entry.dtype.startswith("float8")


def is_quantised(entry: Entry) -> bool:
    """Whether integers can only be quantised weights; a one-dimensional int8 or any int64 is a buffer."""
    if entry.is_float or entry.dtype == "bool":
        return False
    return (entry.dtype in ("int8", "uint8") and len(entry.shape) >= 2) or entry.name.endswith("qweight")


def _sibling(stored: Mapping[str, Entry], name: str, endings: tuple[str, ...]) -> str | None:
    for ending in endings:
        if name + ending in stored:
            return name + ending
    return None


def _fits(scale: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether :func:`_spread` can bring a scale of this shape to ``shape``."""
    if math.prod(scale) == 1:
        return True
    if len(scale) == 1:
        return bool(shape) and scale[0] == shape[0]
    if len(scale) != len(shape):
        return False
    return all(s in (1, d) for s, d in zip(scale, shape, strict=True)) or _is_blocked(scale, shape)


def _is_blocked(scale: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and all(s == -(-d // _BLOCK) for s, d in zip(scale, shape, strict=True))


def _spread(scale: Tensor, shape: torch.Size) -> Tensor:
    """The scale in a shape that broadcasts against ``shape``."""
    if scale.numel() == 1:
        return scale.reshape(())
    if scale.ndim == 1:
        return scale.reshape(-1, *[1] * (len(shape) - 1))
    if all(s in (1, d) for s, d in zip(scale.shape, shape, strict=True)):
        return scale
    return scale.repeat_interleave(_BLOCK, 0)[: shape[0]].repeat_interleave(_BLOCK, 1)[:, : shape[1]]
