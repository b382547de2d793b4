"""Keras files: ``.keras`` archives, ``.weights.h5`` and the older ``.h5``. Keras itself is never imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.hdf5 import Dataset, Hdf5File
from weightsmith.networks.readers.keraslayouts import Layout, layout_of
from weightsmith.networks.readers.kerasnames import TRAINING, Configuration, Variable, variables
from weightsmith.networks.readers.ranges import file_size, read_bytes, read_json, shown
from weightsmith.networks.readers.zips import Member, read_directory, read_member
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["KerasWeights"]

_WEIGHTS = "model.weights.h5"
_MOST_CONFIGURATION = 64 << 20


class KerasWeights(Weights):
    """The variables of a Keras network in torch's orientation and under torch's names (``dense.weight``)."""

    format = "keras"

    def __init__(self, path: Path) -> None:
        self._open(path, *_opened(path))

    def _open(self, path: Path, file: Hdf5File, config: Any, metadata: dict[str, str]) -> None:
        self._file = file
        configuration = Configuration(config)
        self._sources: dict[str, tuple[Dataset, Layout]] = {}
        stored: list[Entry] = []
        left_out = _training_state(self._file)
        kinds: dict[str, str] = {}
        aliases: dict[str, str] = {}
        first: dict[str, str] = {}
        for variable in variables(self._file, configuration):
            dataset = variable.dataset
            layout = layout_of(variable.role, dataset.shape, variable.facts, variable.gates)
            name = self._free_name(variable, layout)
            dtype = dataset.torch_name
            if dtype is None:
                left_out.append(LeftOut(name, dataset.shape, 0, f"of type {dataset.dtype}, not real numbers"))
                continue
            shape = tuple(layout.turn(torch.empty(dataset.shape, device="meta")).shape)
            self._sources[name] = (dataset, layout)
            stored.append(Entry(name, shape, dtype))
            if layout.form is not None and layout.form.fits(shape):
                kinds[name] = str(layout.form)
            if first.setdefault(dataset.same, name) != name:
                aliases[name] = first[dataset.same]
        super().__init__(path, stored, metadata=metadata, left_out=left_out, kinds=kinds, aliases=aliases)

    def _read(self, name: str) -> Tensor:
        dataset, layout = self._sources[name]
        return layout.turn(self._file.read(dataset)).contiguous()

    def _free_name(self, variable: Variable, layout: Layout) -> str:
        """``layer.weight``; if two layers share a name, the path in the file."""
        name = f"{variable.layer}.{layout.name}" if variable.layer else layout.name
        return name if name not in self._sources else variable.dataset.path.replace("/", ".")


def _opened(path: Path) -> tuple[Hdf5File, Any, dict[str, str]]:
    """The HDF5 part, the configuration and the metadata of the file."""
    if read_bytes(path, 0, 2) != b"PK":
        file = Hdf5File(path, 0, file_size(path))
        text = file.text("", "model_config")
        config = read_json(path, text.encode(), "its model_config") if text else None
        facts = {key: file.text("", key) or file.text("model_weights", key) for key in ("keras_version", "backend")}
        return file, config, {key: value for key, value in facts.items() if value}
    members = read_directory(path)
    if _WEIGHTS not in members:
        found = next((name for name in members if name.startswith("model.weights")), "nothing")
        raise FileRefused(path, f"has its weights in {shown(found)}; only {_WEIGHTS} is read")
    weights = members[_WEIGHTS]
    if not weights.stored:
        raise FileRefused(path, f"{_WEIGHTS} is compressed, which Keras never does: unzip it and give that file")
    config = _json_member(path, members, "config.json")
    stored = _json_member(path, members, "metadata.json") if "metadata.json" in members else {}
    metadata = {str(k): v for k, v in stored.items() if isinstance(v, str)} if isinstance(stored, dict) else {}
    return Hdf5File(path, weights.offset, weights.size), config, metadata


def _json_member(path: Path, members: dict[str, Member], name: str) -> Any:
    return read_json(path, read_member(path, members[name], _MOST_CONFIGURATION), f"its {name}")


def _training_state(file: Hdf5File) -> list[LeftOut]:
    """One entry for each part of the training state; it is not counted as weights of the network."""
    counts: dict[str, list[int]] = {}
    for dataset in file.datasets.values():
        top = dataset.path.split("/", 1)[0]
        if top in TRAINING:
            size = 1
            for length in dataset.shape:
                size *= length
            counts.setdefault(top, []).append(size)
    return [
        LeftOut(top, (), 0, f"training state: {len(sizes)} tensors, {sum(sizes):,} values, not weights")
        for top, sizes in counts.items()
    ]
