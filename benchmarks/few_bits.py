"""Accuracy of the rivals with few bits: the network itself with activations of b bits and weights of 8.

    python -m benchmarks.few_bits resnet20 resnet56

Activations take L = 2ᵇ − 1 values above zero, so that thresholds and calibration can be those of signed spikes in L
steps (``balance=mse calibrate=weights``, the same rows): what a neuron sends is its current rounded once, without
steps. On all test images; ``python -m benchmarks.few_steps --page`` puts the answers on its page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import weightsmith as ws
from benchmarks.few_steps import BLOCK, FILES, FOLDER, plain_answers
from weightsmith.core.storage import write_atomic
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.conversion.balance import Mse, balanced
from weightsmith.spiking.conversion.calibrate import CalibrateWeights, Calibration, _Work
from weightsmith.spiking.conversion.preparing import calibration_rows, converted_of
from weightsmith.spiking.conversion.quantise import dequantised
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Neurons
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF
from weightsmith.spiking.simulation.reference import plain_value

__all__ = ["BITS", "main", "rounded_scores"]

BITS = (2, 3, 4, 5, 6)


def main(arguments: list[str] | None = None) -> int:
    """Round and calibrate each network, then run it on all test images."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few_bits", description=__doc__)
    parser.add_argument("networks", nargs="+", choices=list(FILES))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where runs are kept")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    data = ws.data.load("cifar10")
    test = data.split("test")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in asked.networks:
        file = Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / FILES[name]
        plain_answers(name, file, test.x, asked.folder)
        for bits in BITS:
            network = _rounded(file, data, 2**bits - 1)
            scores = rounded_scores(network, test.x, 2**bits - 1)
            right = (scores.argmax(dim=1) == test.y).tolist()
            write_atomic(asked.folder / f"{name}-bits-{bits}.json", json.dumps({"network": name, "right": right}))
            print(f"{name}, {bits} bits: {np.mean(right):.2%}", file=sys.stderr, flush=True)
    return 0


def _rounded(file: Path, data: Any, levels: int) -> SpikingNetwork:
    """The network with thresholds for so many levels, calibrated as it rounds, and weights of 8 bits."""
    subject = read_subject(ws.load(file), data, images=1, seed=0)
    converted = converted_of(subject, IF(signed=True), Constant())
    network = balanced(converted, Mse(), subject.train.x, steps=levels).network
    how = CalibrateWeights()
    rows = calibration_rows(len(subject.train), how.images, 0)
    with torch.no_grad():
        work = _Rounding(network, converted.network, how, subject.train.x[rows], levels)
        found, _ = work.done()
    return dequantised(found)


class _Rounding(_Work):
    """The calibration of networks whose neurons round their current once, to one of ``levels`` values above zero."""

    def __init__(
        self, network: SpikingNetwork, plain: SpikingNetwork, how: CalibrateWeights, x: Tensor, levels: int
    ) -> None:
        super().__init__(network, plain, how, x, steps=1, seed=0)
        self._levels = levels

    def done(self) -> tuple[SpikingNetwork, Calibration]:
        """The calibrated network."""
        for node in self.network.populations:
            self.population(node)
        self.last()
        return self.network, Calibration(self._images, 1, tuple(self.layers))

    def _fired(
        self, node: Neurons, currents: NDArray[Any], moved: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        if moved is not None:
            currents += moved.astype(currents.dtype)
        said = _shares(torch.from_numpy(currents), node.threshold.float(), self._levels).numpy()
        return said, said[:, 0]


@torch.no_grad()
def rounded_scores(network: SpikingNetwork, x: Tensor, levels: int) -> Tensor:
    """The scores of the network with rounded activations for inputs as they come from the data."""
    parts = []
    for _, inputs in batches_for(network.card, x, BLOCK, memory_format=torch.channels_last):
        values = {INPUT: network.encode.given(inputs)}
        for node in network.nodes:
            if isinstance(node, Neurons):
                current = values[node.source]
                threshold = node.threshold.float().reshape(-1, *[1] * (current.dim() - 2))
                values[node.name] = _shares(current, threshold, levels)
            else:
                values[node.name] = plain_value(node, values)
        parts.append(values[network.nodes[-1].name])
    return torch.cat(parts)


def _shares(currents: Tensor, thresholds: Tensor, levels: int) -> Tensor:
    """Currents as shares of their thresholds, rounded to multiples of 1/L between 0 and 1."""
    return torch.floor(currents / thresholds * levels + 0.5).clamp(0, levels) / levels


if __name__ == "__main__":
    sys.exit(main())
