"""Channels and pixels that are picked or padded with zeros, as 1×1 synapses of weight one.

This is what shortcuts without parameters are made of: every second pixel, and zero channels on both sides.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from weightsmith.spiking._flow import Call
from weightsmith.spiking._kinds import kind_of
from weightsmith.spiking.graph import Node, Pair, Synapses

__all__ = ["padded", "shortcut", "sliced"]

_EVERYTHING = slice(None)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """Channel by channel of what comes out: the channel of ``count`` that it takes, or None for zeros."""

    source: str
    count: int
    channels: list[int | None]
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)

    def synapses(self, name: str) -> list[Node]:
        weight = torch.zeros(len(self.channels), self.count, 1, 1)
        for place, channel in enumerate(self.channels):
            if channel is not None:
                weight[place, channel] = 1
        return [Synapses(name, self.source, weight, stride=self.stride, padding=self.padding)]


def shortcut(call: Call) -> list[Node]:
    """:class:`weightsmith.networks.models.resnet.ZeroPad`."""
    extra, stride = call.module.extra, call.module.stride
    every = _every(call)
    channels = _zeros(extra // 2) + every.channels + _zeros(extra - extra // 2)
    return dataclasses.replace(every, channels=channels, stride=(stride, stride)).synapses(call.name)


def sliced(call: Call) -> list[Node]:
    """``x[:, first:last, ::stride, ::stride]``."""
    return _slice(call).synapses(call.name)


def padded(call: Call) -> list[Node]:
    """``pad`` with zeros, around the image or on channels; right after a slice the two are one."""
    if call.option(2, "mode", "constant") != "constant" or call.option(3, "value", 0):
        raise call.refuse("only padding with zeros converts")
    margins = list(call.module.padding if call.module is not None else call.argument(1, "pad"))
    left, right, top, bottom, front, back, *more = margins + [0] * (6 - len(margins))
    if len(call.before) != 3 or more or min(margins) < 0 or (left, top) != (right, bottom):
        raise call.refuse(f"only equal margins on both sides of an image, or channels of zeros, convert, not {margins}")
    inner = dataclasses.replace(call, node=call.read)
    follows = kind_of(inner.node, call.flow.modules) == "slice" and not (top or left)
    choice = _slice(inner) if follows else _every(call)
    channels = _zeros(front) + choice.channels + _zeros(back)
    return dataclasses.replace(choice, channels=channels, padding=(top, left)).synapses(call.name)


def _slice(call: Call) -> _Choice:
    given = call.argument(1, "index")
    several = given if isinstance(given, tuple) else (given,)
    index: list[slice[Any, Any, Any]] = [part for part in several if isinstance(part, slice)]
    if len(call.before) != 3 or len(index) > 4 or len(index) != len(several):
        raise call.refuse("only slices of images such as x[:, :, ::2, ::2] convert")
    rows, channels, *space = index + [_EVERYTHING] * (4 - len(index))
    if rows != _EVERYTHING or any(part.start or part.stop is not None for part in space):
        raise call.refuse("only slices of channels and every n-th pixel from the first on convert")
    every = _every(call)
    stride = (space[0].step or 1, space[1].step or 1)
    return dataclasses.replace(every, channels=every.channels[channels], stride=stride)


def _every(call: Call) -> _Choice:
    return _Choice(call.source, call.before[0], list(range(call.before[0])))


def _zeros(count: int) -> list[int | None]:
    return [None] * count
