"""Reparametrised weights, stored in parts: weight norm, spectral norm, pruning masks.

In a state dict they are recognised by the names torch gives the parts of a weight ``p``:

    p_g, p_v  or  parametrizations.p.original0, original1        w = g · v / ‖v‖
    p_orig, p_u, p_v  or  parametrizations.p.original, 0._u, 0._v    w = w₀ / (uᵀ w₀ v)
    p_orig, p_mask                                               w = w₀ · mask
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from weightsmith.networks.weights import Entry

__all__ = ["Effective", "find_effective"]


@dataclass(frozen=True)
class Effective:
    """A weight made of ``parts``; the first has its shape. ``trained`` of them are parameters, the rest buffers."""

    name: str
    shape: tuple[int, ...]
    parts: tuple[str, ...]
    trained: int
    combine: Callable[..., Tensor]
    note: str


def find_effective(entries: Mapping[str, Entry]) -> dict[str, Effective]:
    """The effective weights among ``entries``, each under the name of each of its parts."""
    found: dict[str, Effective] = {}
    for name in entries:
        effective = _starting_at(name, entries)
        if effective is not None:
            found.update(dict.fromkeys(effective.parts, effective))
    return found


def _starting_at(name: str, entries: Mapping[str, Entry]) -> Effective | None:
    """The effective weight whose main part is ``name``."""
    module, _, rest = name.rpartition("parametrizations.")
    if rest.count(".") == 1 and (not module or module.endswith(".")):
        weight, part = rest.split(".")
        full, base = module + weight, f"{module}parametrizations.{weight}."
        if part == "original1":
            return _made(entries, full, (name, base + "original0"), _weight_norm)
        if part == "original":
            spectral = _made(entries, full, (name, base + "0._u", base + "0._v"), _spectral_norm)
            return spectral or _made(entries, full, (name,), _as_stored)
    if name.endswith("_v"):
        full = name.removesuffix("_v")
        return _made(entries, full, (name, full + "_g"), _weight_norm)
    if name.endswith("_orig"):
        full = name.removesuffix("_orig")
        masked = _made(entries, full, (name, full + "_mask"), _masked)
        return masked or _made(entries, full, (name, full + "_u", full + "_v"), _spectral_norm)
    return None


def _made(
    entries: Mapping[str, Entry], name: str, parts: tuple[str, ...], combine: Callable[..., Tensor]
) -> Effective | None:
    """The weight ``name``, if all parts are there and fit each other."""
    if any(part not in entries or not entries[part].is_float for part in parts):
        return None
    shapes = [entries[part].shape for part in parts]
    if len(shapes[0]) < 2 or 0 in shapes[0] or not _FITS[combine](*shapes):
        return None
    return Effective(name, shapes[0], parts, 2 if combine is _weight_norm else 1, combine, _NOTES[combine])


def _weight_norm(direction: Tensor, length: Tensor) -> Tensor:
    axes = [axis for axis in range(direction.ndim) if length.ndim == 0 or length.shape[axis] == 1]
    norm: Tensor = torch.linalg.vector_norm(direction, dim=axes, keepdim=True)
    return direction * (length / norm)


def _spectral_norm(original: Tensor, left: Tensor, right: Tensor) -> Tensor:
    # torch flattens along the output axis, which is the second one of a transposed convolution.
    axis = 0 if left.shape[0] == original.shape[0] and right.numel() * left.numel() == original.numel() else 1
    matrix = original.transpose(0, axis).flatten(1)
    largest: Tensor = torch.dot(left, torch.mv(matrix, right))
    return original / largest


def _masked(original: Tensor, mask: Tensor) -> Tensor:
    return original * mask


def _as_stored(original: Tensor) -> Tensor:
    return original


_Shape = tuple[int, ...]


def _norm_fits(direction: _Shape, length: _Shape) -> bool:
    if not length:
        return True
    same = len(direction) == len(length) and all(n in (1, d) for d, n in zip(direction, length, strict=True))
    return same and any(n == 1 for n in length)


def _spectral_fits(original: _Shape, left: _Shape, right: _Shape) -> bool:
    count = 1
    for size in original:
        count *= size
    return len(left) == len(right) == 1 and left[0] in original[:2] and left[0] * right[0] == count


_FITS: Mapping[Callable[..., Tensor], Callable[..., bool]] = {
    _weight_norm: _norm_fits,
    _spectral_norm: _spectral_fits,
    _masked: lambda original, mask: original == mask,
    _as_stored: lambda _: True,
}
_NOTES: Mapping[Callable[..., Tensor], str] = {
    _weight_norm: "effective weight of a weight norm",
    _spectral_norm: "effective weight of a spectral norm",
    _masked: "effective weight behind a pruning mask",
    _as_stored: "parametrised in an unknown way: the stored original is used",
}
