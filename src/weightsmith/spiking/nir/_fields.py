"""The fields of one node of a NIR file, each checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.ranges import shown
from weightsmith.spiking.graph import Pool, Shape, Synapses

__all__ = ["Fields"]

Pair = tuple[int, int]
_WIDEST = 1 << 20
_IGNORED = {"type", "metadata", "input_type", "input_shape"}
_KNOWN = {
    "Input": {"shape"},
    "Output": {"shape"},
    "Conv2d": {"weight", "bias", "stride", "padding", "dilation", "groups"},
    "Affine": {"weight", "bias"},
    "Linear": {"weight"},
    "AvgPool2d": {"kernel_size", "stride", "padding"},
    "SumPool2d": {"kernel_size", "stride", "padding"},
    "Flatten": {"start_dim", "end_dim"},
    "Scale": {"scale"},
    "IF": {"r", "v_threshold", "v_reset"},
    "LIF": {"tau", "r", "v_leak", "v_threshold", "v_reset"},
}


class Fields:
    """The fields of the node ``name`` of the file ``path``."""

    def __init__(self, path: Path, name: str, values: Mapping[str, Any]) -> None:
        self._path, self._name, self._values = path, name, values
        known = _KNOWN.get(values["type"])
        strange = None if known is None else next((key for key in values if key not in known | _IGNORED), None)
        if strange is not None:
            self.refuse(f"has a field {shown(strange)}, which {values['type']} does not have")

    def refuse(self, reason: str) -> NoReturn:
        """Raise the :class:`FileRefused` that names this node."""
        raise FileRefused(self._path, f"{shown(self._name)} ({self._values['type']}) {reason}")

    def has(self, key: str) -> bool:
        """Whether the file has this field."""
        return key in self._values

    def array(self, key: str) -> NDArray[Any]:
        """Finite numbers, as stored in the file."""
        value = self._values.get(key)
        found = np.asarray(None if isinstance(value, str | dict) else value)
        if found.dtype.kind not in "fiu" or found.size == 0:
            self.refuse(f"has no numbers under {key}")
        if not np.isfinite(found).all():
            self.refuse(f"holds NaN or infinity in {key}")
        return found

    def tensor(self, key: str, dimensions: int) -> Tensor:
        """Weights: float32, or float64 where the file has that."""
        found = self.array(key)
        if found.ndim != dimensions:
            self.refuse(f"has {key} of shape {found.shape}, not of {dimensions} dimensions")
        return torch.tensor(found, dtype=torch.float64 if found.dtype == np.float64 else torch.float32)

    def shape(self, key: str) -> Shape:
        """Lengths of an array."""
        return tuple(self._whole(value, 1, key, 1 << 30) for value in np.atleast_1d(self.array(key)).tolist())

    def per_unit(self, key: str, shape: Shape) -> NDArray[np.float64]:
        """One number for every value of ``shape``; a single number is used for all."""
        found = self.array(key).astype(np.float64)
        if found.size == 1:
            return np.full(shape, found.reshape(-1)[0])
        if found.shape != shape:
            self.refuse(f"has {key} of shape {found.shape} for values of shape {shape}")
        return found

    def per_channel(self, key: str, values: NDArray[np.float64]) -> Tensor:
        """One number per channel; refuses values that differ within a channel."""
        rows = values.reshape(len(values), -1)
        if not (rows == rows[:, :1]).all():
            self.refuse(f"has a {key} that differs within a channel")
        return torch.tensor(rows[:, 0], dtype=torch.float32)

    def pair(self, key: str, least: int) -> Pair:
        """Two whole numbers, or one for both axes."""
        found = np.atleast_1d(self.array(key)).tolist()
        if len(found) not in (1, 2):
            self.refuse(f"has {key} of {len(found)} numbers")
        first, second = (found * 2)[:2] if len(found) == 1 else found
        return self._whole(first, least, key), self._whole(second, least, key)

    def convolution(self, name: str, source: str) -> Synapses:
        """A Conv2d."""
        weight = self.tensor("weight", 4)
        stride, dilation = self.pair("stride", 1), self.pair("dilation", 1)
        groups = self._whole(self.array("groups").reshape(-1).tolist()[0], 1, "groups")
        padding = self._padding(weight, stride, dilation)
        return Synapses(name, source, weight, self._bias(), stride, padding, dilation, groups)

    def dense(self, name: str, source: str, *, biased: bool) -> Synapses:
        """An Affine or Linear."""
        return Synapses(name, source, self.tensor("weight", 2), self._bias() if biased else None)

    def pool(self, name: str, source: str, *, average: bool) -> Pool:
        """An AvgPool2d or SumPool2d."""
        kernel, stride, padding = self.pair("kernel_size", 1), self.pair("stride", 1), self.pair("padding", 0)
        return Pool(name, source, kernel, stride, padding, average)

    def check_flatten(self) -> None:
        """Refuse a partial flatten; some tools count a batch dimension, so it may begin at 1."""
        begin, end = (int(self.array(key).reshape(-1)[0]) for key in ("start_dim", "end_dim"))
        if begin not in (0, 1) or end not in (-1, 2, 3):
            self.refuse(f"flattens dimensions {begin} to {end} only")

    def _padding(self, weight: Tensor, stride: Pair, dilation: Pair) -> Pair:
        text = self._values.get("padding")
        if not isinstance(text, str):
            return self.pair("padding", 0)
        around = [dilation[axis] * (int(weight.shape[2 + axis]) - 1) for axis in (0, 1)]
        if text == "valid":
            return (0, 0)
        if text != "same" or stride != (1, 1) or any(both % 2 for both in around):
            self.refuse(f"has the padding {shown(text)}, which is not supported here")
        return around[0] // 2, around[1] // 2

    def _bias(self) -> Tensor | None:
        bias = self.tensor("bias", 1)
        return bias if bool(bias.any()) else None

    def _whole(self, value: Any, least: int, key: str, most: int = _WIDEST) -> int:
        if value != int(value) or not least <= value <= most:
            self.refuse(f"has {key} {value}")
        return int(value)
