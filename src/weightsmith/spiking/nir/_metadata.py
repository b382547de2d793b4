"""The metadata of our NIR files, as JSON: reset, names, encoding, card."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weightsmith.core.errors import FileRefused, OptionError
from weightsmith.core.records import Lineage, Record
from weightsmith.networks.card import Card
from weightsmith.networks.readers.ranges import read_json, shown
from weightsmith.spiking.encoding import Constant, Encode, Poisson
from weightsmith.spiking.neurons import IF, LIF, Neuron
from weightsmith.spiking.nir._graph import DT_LIF

__all__ = ["Facts", "Stored"]

Reset = Literal["soft", "hard"]
_KEY = "weightsmith"
_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Stored(Record):
    """Our JSON. Names, layers and amplitudes go by the names in the file."""

    version: int
    neuron: str
    reset: Reset
    encode: str
    card: Card
    names: dict[str, str]
    layers: dict[str, str]
    amplitudes: dict[str, tuple[float, ...]]
    rounding: int | None = None

    def metadata(self, dt: float) -> dict[str, Any]:
        """The metadata of the graph: what a reader should see at once, then the JSON."""
        return {"dt": dt, "reset": self.reset, _KEY: self.to_json()}


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """The metadata of any file, with defaults for missing fields."""

    dt: float
    reset: Reset
    neuron: IF | LIF | None
    encode: Poisson | Constant
    card: Card
    names: Mapping[str, str]
    layers: Mapping[str, str]
    amplitudes: Mapping[str, tuple[float, ...]]
    rounding: int | None = None

    @classmethod
    def read(cls, path: Path, metadata: Any, dt: float | None) -> Facts:
        """From the metadata of a graph, which may be missing; ``dt`` overrides the value there."""
        values = metadata if isinstance(metadata, Mapping) else {}
        reset = _reset(path, values.get("reset", "hard"))
        step = _number(path, values.get("dt", DT_LIF)) if dt is None else dt
        if not step > 0:
            raise FileRefused(path, f"its dt is {step}")
        text = values.get(_KEY)
        if text is None:
            card = Card(lineage=Lineage(f"read from {path.name} (NIR)"))
            return cls(step, reset, None, Poisson(), card, {}, {}, {})
        stored = _stored(path, text)
        try:
            neuron, encode = Neuron.parse(stored.neuron), Encode.parse(stored.encode)
        except (OptionError, LookupError) as error:
            raise FileRefused(path, f"its metadata of weightsmith cannot be read ({error})") from error
        assert isinstance(neuron, IF | LIF)
        assert isinstance(encode, Poisson | Constant)
        names, layers, amplitudes = stored.names, stored.layers, stored.amplitudes
        return cls(step, reset, neuron, encode, stored.card, names, layers, amplitudes, stored.rounding)


def _stored(path: Path, text: Any) -> Stored:
    content = read_json(path, text.encode() if isinstance(text, str) else b"", "its metadata of weightsmith")
    version = content.get("version") if isinstance(content, dict) else None
    if version != _VERSION:
        raise FileRefused(path, f"its metadata of weightsmith have version {shown(version)}, not {_VERSION}")
    try:
        return Stored.from_json(json.dumps(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise FileRefused(path, f"its metadata of weightsmith cannot be read ({error})") from error


def _reset(path: Path, value: Any) -> Reset:
    if isinstance(value, str) and value == "soft":
        return "soft"
    if isinstance(value, str) and value == "hard":
        return "hard"
    raise FileRefused(path, f"its reset is {shown(value)}, neither soft nor hard")


def _number(path: Path, value: Any) -> float:
    found = np.asarray(value)
    if found.dtype.kind not in "fiu" or found.size != 1 or not np.isfinite(found).all():
        raise FileRefused(path, f"its dt is {shown(value)}, not a number")
    return float(found.reshape(-1)[0])
