"""Files as SpikingJelly writes them, for the tests of our NIR reader: ``python -m benchmarks.peers.nir_files``.

A convolution, neurons, average pool, flatten, dense layer, neurons; weights are whole numbers divided by 64. Beside the
files stand the spikes that SpikingJelly counts for signed spikes from the same formula.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import nir
import torch
from spikingjelly.activation_based import layer, neuron
from spikingjelly.activation_based.nir_exchange import export_to_nir
from torch import nn

from benchmarks.peers.inputs import codes, weights

__all__ = ["main"]

FOLDER = Path(__file__).parents[2] / "tests" / "reference" / "nir_files"
STEPS, IMAGES = 24, 3


def main() -> None:
    """Write a file for each neuron, and what was counted."""
    FOLDER.mkdir(exist_ok=True)
    neurons = {
        "if": lambda: neuron.IFNode(v_threshold=1.01, v_reset=0.0),
        "lif": lambda: neuron.LIFNode(tau=4.0, decay_input=False, v_threshold=1.01, v_reset=0.0),
    }
    facts = {name: _written(f"spikingjelly_{name}.nir", made) for name, made in neurons.items()}
    version = importlib.metadata.version("spikingjelly")
    (FOLDER / "counts.json").write_text(json.dumps({"counts": facts, "spikingjelly": version}, indent=1) + "\n")


@torch.no_grad()
def _written(name: str, made: Any) -> list[int]:
    first, second = made(), made()
    network = nn.Sequential(
        layer.Conv2d(2, 4, 3, padding=1), first, layer.AvgPool2d(2), layer.Flatten(), layer.Linear(36, 5), second
    )
    for salt, parameter in enumerate(network.parameters(), start=91):
        parameter.copy_(torch.from_numpy(weights(*parameter.shape, salt=salt) / 4))
    drive = torch.from_numpy(codes(STEPS, IMAGES, 2, 6, 6, salt=90, span=1)).float()
    nir.write(FOLDER / name, export_to_nir(network, example_input=drive[0, :1]))
    counts = [0, 0]
    for place, node in enumerate((first, second)):
        node.reset()
        node.register_forward_hook(
            lambda _node, _inputs, spikes, place=place: counts.__setitem__(place, counts[place] + int(spikes.sum()))
        )
    for value in drive:
        network(value)
    return counts


if __name__ == "__main__":
    main()
