"""The limits of :mod:`benchmarks.tailoring` by hand: Torch-Pruning, onnxruntime and SpikingJelly on a ResNet-20.

    python -m benchmarks.by_hand --folder build/tailoring          in the environment of the peers, with onnxruntime

Each function is what a user types who follows the tool's own example, with at most 1,000 training images and without
training; accuracies are on the same test images. Results go beside those of :mod:`benchmarks.tailoring`, whose page
shows them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.storage import write_atomic
from weightsmith.networks.evaluation import inputs_of

__all__ = ["main"]

_SPIKING_ROWS = 1000  # 16 steps of all 10,000 images take minutes
_STEPS = (2, 8, 16)


def pruned(network: nn.Module, rows: torch.Tensor, images: torch.Tensor) -> tuple[Any, float]:
    """Torch-Pruning: group norms, inner channels, until three quarters of the parameters are left."""
    import torch_pruning as tp

    example = rows[:1]
    whole = sum(value.numel() for value in network.parameters())
    kept = ("conv1", "linear", "fc")  # and what shortcuts pad: cut, the network would not run
    ignored = [layer for name, layer in network.named_modules() if name in kept or name.endswith(".conv2")]
    pruner = tp.pruner.MagnitudePruner(
        network, example, tp.importance.GroupMagnitudeImportance(), iterative_steps=100, pruning_ratio=0.8,
        global_pruning=True, ignored_layers=ignored,
    )  # fmt: skip
    while sum(value.numel() for value in network.parameters()) > 0.75 * whole:
        pruner.step()
    answers = torch.cat([network(batch) for batch in torch.split(images, 64)])
    return answers, sum(value.numel() for value in network.parameters()) / whole


def rounded(network: nn.Module, rows: torch.Tensor, images: torch.Tensor) -> tuple[Any, float]:
    """onnxruntime: exported, prepared, quantised on 256 images per channel, run."""
    import onnxruntime as ort
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches = iter(torch.split(rows[:256], 32))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"x": batch.numpy()}

    torch.onnx.export(
        network, (images[:2],), "float.onnx", input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False
    )
    quant_pre_process("float.onnx", "ready.onnx")
    quantize_static("ready.onnx", "int8.onnx", Reader(), quant_format=QuantFormat.QDQ, per_channel=True)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession("int8.onnx", options)
    answers = np.concatenate([session.run(None, {"x": batch.numpy()})[0] for batch in torch.split(images, 64)])
    return torch.from_numpy(answers), Path("int8.onnx").stat().st_size / Path("float.onnx").stat().st_size


def spiking(network: nn.Module, rows: torch.Tensor, images: torch.Tensor) -> tuple[Any, float]:
    """SpikingJelly: its converter with the 99.9 % rule, run step by step."""
    from spikingjelly.activation_based import ann2snn, functional

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows[:512], torch.zeros(512)), batch_size=64)
    converted = ann2snn.Converter(ann2snn.RateCodingRecipe(loader, mode="99.9%")).convert(network).eval()
    found: dict[int, list[torch.Tensor]] = {steps: [] for steps in _STEPS}
    for batch in torch.split(images, 50):
        functional.reset_net(converted)
        total = torch.zeros(())
        for step in range(1, max(_STEPS) + 1):
            total = total + converted(batch)
            if step in found:
                found[step].append(total.clone())
    return {steps: torch.cat(parts) for steps, parts in found.items()}, 1.0


_WAYS: dict[str, Callable[..., tuple[Any, float]]] = {"pruned": pruned, "rounded": rounded, "spiking": spiking}


@torch.no_grad()
def main(arguments: list[str] | None = None) -> int:
    """Do each by hand, and write what it came to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_hand", description=__doc__)
    parser.add_argument("which", nargs="*", help=f"of {', '.join(_WAYS)}; all without it")
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    data = ws.data.load("cifar10")
    weights = Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / "akamaster_resnet20.safetensors"
    for name in asked.which or _WAYS:
        path = (asked.folder / f"by-hand-{name}.json").resolve()
        if path.exists():
            continue
        network = ws.load(weights)
        rows = inputs_of(network, data.split("train").x[:1000])
        test = data.split("test").x[:_SPIKING_ROWS] if name == "spiking" else data.split("test").x
        images, labels = inputs_of(network, test), data.split("test").y[: len(test)]
        before = Path.cwd()
        os.chdir(asked.folder)
        begin = time.process_time()
        with torch.enable_grad() if name == "pruned" else torch.no_grad():
            try:
                answers, share = _WAYS[name](network, rows, images)
            except ValueError as error:  # SpikingJelly does not convert padded shortcuts
                write_atomic(path, json.dumps({"refused": str(error)}))
                os.chdir(before)
                continue
        seconds = time.process_time() - begin
        os.chdir(before)
        several = answers if isinstance(answers, dict) else {"": answers}
        lines = [line for line in inspect.getsource(_WAYS[name]).splitlines() if line.strip()]
        found = {
            "right": {str(key): int((value.argmax(dim=1) == labels).sum()) for key, value in several.items()},
            "rows": len(labels),
            "share": share,
            "seconds": seconds,
            "lines": len(lines) - 2,  # without its head and its docstring
        }
        write_atomic(path, json.dumps(found))
        print(name, found, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
