"""SpikingJelly's converter in few steps, on the images of :mod:`benchmarks.few_steps`; needs the peers' environment.

    python -m benchmarks.few_steps_peer resnet20 16

The recipe is its best one on training images of those tried (docs/results/few_steps.md): thresholds by channel at the
99.9th percentile, membranes at half a threshold at the start, batch norm fused, constant input. It is calibrated on the
training images of our own balance. The answers after 2, 4, 8 … steps are kept block by block beside our cases, and
the same command goes on with what is left; ``python -m benchmarks.few_steps --page`` puts them on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import weightsmith as ws
from benchmarks.few_steps import BLOCK, FILES, FOLDER, plain_answers
from weightsmith.core.records import versions
from weightsmith.core.storage import write_atomic
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluation import batches_for
from weightsmith.networks.models.resnet import ZeroPad
from weightsmith.spiking.conversion.preparing import calibration_rows

__all__ = ["answers_after", "converted", "main"]

_IMAGES, _BATCH = 512, 64


def main(arguments: list[str] | None = None) -> int:
    """Convert, then run block by block."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few_steps_peer", description=__doc__)
    parser.add_argument("network", choices=list(FILES))
    parser.add_argument("steps", type=int)
    parser.add_argument("--images", type=int, default=10_000, help="of the test images, from the first")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where runs are kept")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    data = ws.data.load("cifar10")
    weights = Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / FILES[asked.network]
    network = ws.load(weights).eval()
    begun = time.process_time()
    module = converted(network, data.split("train").x)
    looks = [steps for steps in (2, 4, 8, 16, 32) if steps <= asked.steps]
    asked.folder.mkdir(parents=True, exist_ok=True)
    plain_answers(asked.network, weights, data.split("test").x, asked.folder)
    file = asked.folder / f"{asked.network}-spikingjelly-{asked.steps}.json"
    facts: dict[str, Any] = {
        "network": asked.network,
        "versions": versions("spikingjelly"),
        "calibration": time.process_time() - begun,
        "seconds": 0.0,
        "right": {str(steps): [] for steps in looks},
    }
    if file.exists():
        facts = json.loads(file.read_text(encoding="utf-8"))
    test = data.split("test")
    while (first := len(facts["right"]["2"])) < min(asked.images, len(test)):
        begun = time.process_time()
        rows = slice(first, first + BLOCK)
        _, x = next(batches_for(card_of(network), test.x[rows], BLOCK))
        for steps, answers in answers_after(module, x, looks).items():
            facts["right"][str(steps)] += (answers == test.y[rows]).tolist()
        facts["seconds"] += time.process_time() - begun
        write_atomic(file, json.dumps(facts))
        print(f"{asked.network}: {first + BLOCK} images", file=sys.stderr, flush=True)
    return 0


def converted(network: torch.nn.Module, train: torch.Tensor) -> torch.nn.Module:
    """The network as SpikingJelly converts it."""
    from spikingjelly.activation_based import ann2snn

    rows = train[calibration_rows(len(train), _IMAGES, 0)]
    batches = [(x.contiguous(), torch.zeros(len(x))) for _, x in batches_for(card_of(network), rows, _BATCH)]
    recipe = ann2snn.RateCodingRecipe(dataloader=batches, mode="99.9%", channel_wise=True, half_threshold=True)
    found: torch.nn.Module = ann2snn.Converter(recipe=recipe, device="cpu").convert(_with_copies(network))
    return found.eval()


def _with_copies(network: torch.nn.Module) -> torch.nn.Module:
    """A copy whose shortcuts are convolutions that copy: it knows no padding with channels of zeros."""
    found = copied(network).eval()
    for name, module in list(found.named_modules()):
        if isinstance(module, ZeroPad):
            parent, _, child = name.rpartition(".")
            channels = module.extra  # a stage has twice the channels of the one before
            copy = torch.nn.Conv2d(channels, 2 * channels, 1, module.stride, bias=False)
            torch.nn.init.zeros_(copy.weight)
            for channel in range(channels):
                copy.weight.data[channel + module.extra // 2, channel] = 1
            setattr(found.get_submodule(parent), child, copy)
    return found


@torch.no_grad()
def answers_after(module: torch.nn.Module, x: torch.Tensor, looks: list[int]) -> dict[int, torch.Tensor]:
    """The answers after so many steps."""
    from spikingjelly.activation_based import functional

    found: dict[int, list[torch.Tensor]] = {steps: [] for steps in looks}
    for part in torch.split(x, _BATCH):
        functional.reset_net(module)
        total = torch.zeros(())
        for step in range(1, max(looks) + 1):
            total = total + module(part)
            if step in found:
                found[step].append(total.argmax(dim=1))
    return {steps: torch.cat(parts) for steps, parts in found.items()}


if __name__ == "__main__":
    sys.exit(main())
