"""Reading real weight files: layers without their values, and all values, against the tools users have today."""

from __future__ import annotations

import logging
import operator
import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
import weightwatcher
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.measure import Case, Unavailable
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.weights import open_weights

__all__ = ["cases"]

_FILES = ("akamaster_resnet20", "akamaster_resnet56", "vgg5_fc512")

Outline = dict[str, tuple[int, int, int]]


def cases() -> list[Case]:
    """Per file: its layers, its values, and its values from a torch file with the same content."""
    data = os.environ.get("WEIGHTSMITH_DATA")
    if not data:
        raise Unavailable("WEIGHTSMITH_DATA is not set: a folder with weights/*.safetensors")
    # On import the tool sends its log of every file it opens to the terminal.
    logging.getLogger("weightwatcher").setLevel(logging.ERROR)
    logging.getLogger().setLevel(logging.ERROR)
    return [case for name in _FILES for case in _cases_of(Path(data) / "weights" / f"{name}.safetensors")]


def _cases_of(path: Path) -> list[Case]:
    folder = tempfile.TemporaryDirectory(prefix="weightsmith-bench-")  # lives as long as the arms that hold it
    (Path(folder.name) / "model.safetensors").symlink_to(path.resolve())
    torch_path = Path(folder.name) / "model.pt"
    torch.save(load_file(path), torch_path)
    return [
        Case(
            f"{path.stem}: layers",
            "list every layer of the file: its name, the longer and the shorter side of its matrices, their number",
            {
                "weightsmith walk": partial(_our_outline, path),
                "weightwatcher describe": partial(_their_outline, folder),
            },
            operator.eq,
            packages=("weightwatcher",),
        ),
        Case(
            f"{path.stem}: values",
            "read every tensor of the safetensors file and add up its values",
            {"weightsmith state_dict": partial(_our_sums, path), "safetensors load_file": partial(_file_sums, path)},
            operator.eq,
            packages=("safetensors",),
        ),
        Case(
            f"{path.stem}: values of a .pt",
            "the same from a file written by torch.save, which neither side lets run code",
            {
                "weightsmith state_dict": partial(_our_sums, torch_path),
                "torch load": partial(_torch_sums, torch_path, folder),
            },
            operator.eq,
        ),
    ]


def _our_outline(path: Path) -> Outline:
    return {layer.name: _sides(*layer.matrices) for layer in walk(path).layers}


def _their_outline(folder: tempfile.TemporaryDirectory[str]) -> Outline:
    table = weightwatcher.WeightWatcher().describe(model=folder.name)
    return {
        str(name): (int(longer), int(shorter), int(count))
        for name, longer, shorter, count in zip(table["name"], table["N"], table["M"], table["rf"], strict=True)
    }


def _sides(count: int, rows: int, columns: int) -> tuple[int, int, int]:
    return max(rows, columns), min(rows, columns), count


def _sums(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """One number per tensor: a reader that only maps the file into memory must read it as well."""
    return {name: tensor.sum().item() for name, tensor in tensors.items()}


def _our_sums(path: Path) -> dict[str, float]:
    return _sums(open_weights(path).state_dict())


def _file_sums(path: Path) -> dict[str, float]:
    return _sums(load_file(path))


def _torch_sums(path: Path, _folder: tempfile.TemporaryDirectory[str]) -> dict[str, float]:
    return _sums(torch.load(path, weights_only=True))
