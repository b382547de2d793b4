"""Attention heads as units: the rows of queries, keys and values of a head, and the inputs of the layer that reads it.

Heads of ``nn.MultiheadAttention`` are known exactly (``networks/editing/attention.py``). Custom attention is recognised
by its form: a module with an integer attribute named after heads, and layers for queries, keys and values, separate or
joint. How such a module splits the heads is unknown, so each possible way is tried and checked against the masked
network (``probing.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.networks.editing.attention import FewerHeads
from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["heads_of_modules", "heads_written_by_hand"]


def heads_of_modules(network: nn.Module) -> list[Site]:
    """The heads of every opened ``nn.MultiheadAttention``."""
    found = []
    for name, module in network.named_modules():
        if isinstance(module, FewerHeads):
            heads, size = module.num_heads, module.head_dim
            found.append(_site(Port(name, _thirds(heads, size)), f"{name}.out_proj", module.out_proj))
    return found


def heads_written_by_hand(network: nn.Module, sites: Sequence[Site]) -> dict[str, list[Site]]:
    """Candidate sites for the heads of custom attention, likeliest first, by the layer that writes them first.

    Separate queries, keys and values are one of the ``sites`` already, whose units are the values of all heads.
    """
    found: dict[str, list[Site]] = {}
    for name, module in network.named_modules():
        numbers = {key: value for key, value in vars(module).items() if type(value) is int and value > 1}
        for attribute, heads in _named_after_heads(numbers).items():
            own = {f"{name}.{child}".removeprefix("."): layer for child, layer in module.named_children()}
            for site in _candidates(own, sites, heads):
                width = site.units * site.readers[0].indices.shape[1]
                # The total width of all heads may be an attribute of the module too.
                wide = {key: width // heads for key, value in numbers.items() if value == width}
                for counts in ({attribute: 1}, {attribute: 1, **wide}):
                    kept = tuple((f"{name}.{key}".removeprefix("."), each) for key, each in counts.items())
                    found.setdefault(site.name, []).append(dataclasses.replace(site, counts=kept))
    return found


def _named_after_heads(numbers: dict[str, int]) -> dict[str, int]:
    sizes = ("dim", "size", "width", "channel")
    return {key: value for key, value in numbers.items() if "head" in key and not any(word in key for word in sizes)}


def _candidates(own: dict[str, nn.Module], sites: Sequence[Site], heads: int) -> Iterator[Site]:
    for site in sites:
        inside = len(site.writers) == 3 and all(port.layer in own for port in site.writers)
        if inside and site.units % heads == 0 and site.kind == "dense":
            ports = [
                tuple(Port(port.layer, port.indices.reshape(heads, -1)) for port in part)
                for part in (site.writers, site.readers)
            ]
            yield dataclasses.replace(site, units=heads, writers=ports[0], readers=ports[1])
    dense = {layer: module for layer, module in own.items() if isinstance(module, nn.Linear)}
    for writer, joint in dense.items():
        for reader, behind in dense.items():
            size, rest = divmod(behind.in_features, heads)
            if joint.out_features == 3 * behind.in_features and reader != writer and not rest:
                for rows in (_thirds(heads, size), np.arange(3 * heads * size).reshape(heads, -1)):
                    yield _site(Port(writer, rows), reader, behind)


def _thirds(heads: int, size: int) -> NDArray[np.int64]:
    """The rows of each head, if queries, keys and values of all heads follow each other."""
    rows = np.arange(3 * heads * size).reshape(3, heads, size)
    found: NDArray[np.int64] = rows.transpose(1, 0, 2).reshape(heads, -1)
    return found


def _site(writer: Port, reader: str, layer: nn.Linear) -> Site:
    heads = len(writer.indices)
    reads = Port(reader, np.arange(layer.in_features).reshape(heads, -1))
    bias: Tensor | None = layer.bias
    shifts = {} if bias is None else {reader: reader}
    return Site(writer.layer, heads, "dense", None, (writer,), (), (reads,), shifts)
