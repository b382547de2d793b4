"""Spikes of networks that other simulators read from our NIR files, on the test vector that travels with each.

``benchmarks/peers/nir_work.py`` has the networks. Every file is loaded by ``spiking/nir/handover.py`` into
SpikingJelly, Norse and snnTorch and run there in float32. With a hard reset and without branches nothing is changed in
SpikingJelly and Norse; ``as_imported`` shows what two importers make of a file where it does.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import nir
import norse.torch
import numpy as np
import torch
from snntorch.import_nir import import_from_nir

from benchmarks.peers.nir_work import CASES
from weightsmith.spiking.nir._vector import read_vector
from weightsmith.spiking.nir.export import export_nir
from weightsmith.spiking.nir.handover import compare

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("nir", "nirtorch", "norse", "numpy", "snntorch", "spikingjelly", "torch")
_SIMULATORS = ("norse", "snntorch", "spikingjelly")
_MEANING = {
    "as_imported": "Norse alone computes a shortcut a step late; snnTorch alone cannot run an IF",
    "counts": "spikes of each population over all steps and images, in float32, from the file and its test vector",
    "populations": "in the order of the network, which is that of all lists",
    "scores": "output sums of the first image as the file's own test vector has them (float64)",
}


def vectors() -> dict[str, Any]:
    """Per case: populations, spikes in each simulator, sums of the outputs."""
    with tempfile.TemporaryDirectory() as folder:
        cases = {name: _case(name, Path(folder) / f"{name}.nir") for name in CASES}
        as_imported = {
            "norse": {"case": "residual_if_hard", "counts": _norse_as_imported(Path(folder) / "residual_if_hard.nir")},
            "snntorch": {"case": "mlp_if_hard", "error": _snntorch_as_imported(Path(folder) / "mlp_if_hard.nir")},
        }
    return {"as_imported": as_imported, "cases": cases, "meaning": _MEANING}


def _case(name: str, path: Path) -> dict[str, Any]:
    network, options = CASES[name].exported()
    written = export_nir(network, path, **options)
    checks = {simulator: compare(path, simulator) for simulator in _SIMULATORS}  # type: ignore[arg-type]
    return {
        "counts": {simulator: [layer.theirs for layer in check.layers] for simulator, check in checks.items()},
        "images": written.images,
        "neuron": written.neuron,
        "populations": list(written.spikes),
        "scores": [float(f"{score:.6g}") for score in read_vector(path).scores[0]],
        "steps": written.steps,
    }


@torch.no_grad()
def _norse_as_imported(path: Path) -> list[int]:
    drive, names = read_vector(path).drive, list(read_vector(path).spikes)
    module = norse.torch.from_nir(nir.read(path), dt=1.0)
    counts = np.zeros(len(names), np.int64)
    for place, name in enumerate(names):
        module.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, place=place: counts.__setitem__(
                place, counts[place] + int(output[0].sum())
            )
        )
    state = None
    for step in range(drive.steps):
        _, state = module(drive.step(step), state)
    return [int(count) for count in counts]


def _snntorch_as_imported(path: Path) -> str:
    with contextlib.redirect_stdout(io.StringIO()):
        module = import_from_nir(nir.read(path))
    try:
        module(read_vector(path).drive.step(0))
    except TypeError as error:
        return str(error).partition("\n")[0]
    return "none"
