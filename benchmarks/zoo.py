"""Architectures of torchvision cut by a third: what this package and Torch-Pruning make of each.

    python -m benchmarks.zoo                  all, and the page; the same command goes on where it was stopped
    python -m benchmarks.zoo resnet18 vit     some of them
    python -m benchmarks.zoo --page           only the page, from what is kept (``--folder``)

Needs torchvision in the peers' environment (``pip install --no-deps torchvision``; a build for another device will do).
Weights are random, batch norms measured on the inputs: what is looked at is whether a cut is right, not what it costs.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import importlib
import json
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.core.records import versions
from weightsmith.core.storage import write_atomic
from weightsmith.data.tensors import Data, Split

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "docs" / "results"
_READING = "## How to read it"
_KEEP, _RATIO = 0.67, 0.18  # of the parameters; of the channels: 0.82² = 0.67
_ROWS, _CLASSES, _SIZE = 32, 10, 64
_PATIENCE = 60
_RUNS_INTO = (RuntimeError, ValueError, TypeError, LookupError, AssertionError, AttributeError, ArithmeticError)
_OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False},
    "vit_b_16": {"image_size": _SIZE},
}
_SIZES = {"inception_v3": 96}
_NAMES = (
    "alexnet", "vgg11_bn", "resnet18", "resnet50", "wide_resnet50_2", "resnext50_32x4d", "densenet121", "squeezenet1_1",
    "googlenet", "inception_v3", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0",
    "shufflenet_v2_x1_0", "efficientnet_b0", "efficientnet_v2_s", "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny",
    "vit_b_16", "swin_t",
)  # fmt: skip


@functools.cache
def _models() -> Any:
    """torchvision's models; its compiled operators, which none of them needs, may be missing."""
    register = torch.library.register_fake

    def lenient(name: Any, *more: Any, **options: Any) -> Callable[[Any], Any]:
        def passed(function: Any) -> Any:
            with contextlib.suppress(RuntimeError):
                register(name, *more, **options)(function)
            return function

        return passed

    torch.library.register_fake = lenient
    return importlib.import_module("torchvision.models")


def _built(name: str) -> nn.Module:
    torch.manual_seed(0)
    network: nn.Module = getattr(_models(), name)(num_classes=_CLASSES, **_OPTIONS.get(name, {}))
    return network


@torch.no_grad()
def _measured(network: nn.Module, x: Tensor) -> nn.Module:
    """The network with batch norms measured on ``x``, in ``eval`` mode."""
    for layer in network.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.momentum = None
    network.train()(x.clone())
    return network.eval()


def _ours(network: nn.Module, data: Data, path: Path) -> dict[str, Any]:
    begin = time.process_time()
    try:
        found = ws.reduce(
            network, data, by="magnitude", target=f"params:{_KEEP}", plan="uniform", refit="none", random=0,
            latency=False,
        )  # fmt: skip
    except ws.UsageError as error:
        return {"refused": str(error), "seconds": time.process_time() - begin}
    ws.save(found.network, path)
    record = found.record
    with torch.no_grad():
        expected = found.network(data.split("test").x)
    torch.save(expected, path.with_suffix(".pt"))
    return {
        "left": record.reduced.parameters / record.whole.parameters,
        "macs": record.reduced.macs / record.whole.macs,
        "sites": sum(site.after < site.before for site in record.sites),
        "layers": len({name for site in record.sites for name in site.layers}),
        "refusals": {site.name: site.refused for site in record.sites if site.refused},
        "obstacles": len(record.obstacles),
        "difference": record.difference / float((expected - expected.mean(dim=0)).abs().max()),
        "seconds": time.process_time() - begin,
    }


def _theirs(network: nn.Module, x: Tensor) -> dict[str, Any]:
    """Torch-Pruning's magnitude pruner as its README runs it; the reference has the removed channels set to zero."""
    import torch_pruning

    def give_up(*_: object) -> None:
        raise RuntimeError(f"no answer within {_PATIENCE} CPU seconds")

    begin = time.process_time()
    pruned, reference = copy.deepcopy(network), copy.deepcopy(network)
    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE)  # its groups of Swin's windows grow without end
    whole = sum(value.numel() for value in network.parameters())
    last = [module for module in pruned.modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pruner = torch_pruning.pruner.MagnitudePruner(
                pruned, x[:2], importance=torch_pruning.importance.MagnitudeImportance(p=1), pruning_ratio=_RATIO,
                ignored_layers=[last],
            )  # fmt: skip
            alive: dict[str, list[int]] = {}
            names = {module: name for name, module in pruned.named_modules()}
            for group in pruner.step(interactive=True):
                for dependency, columns in group:
                    name = names.get(dependency.target.module)
                    if name is not None:
                        _silence(reference.get_submodule(name), dependency, columns, alive.setdefault(name, []))
                group.prune()
        with torch.no_grad():
            given, expected = pruned.eval()(x.clone()), reference.eval()(x.clone())
    except _RUNS_INTO as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        return {"fails": told, "seconds": time.process_time() - begin}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return {
        "left": sum(value.numel() for value in pruned.parameters()) / whole,
        "difference": float((given - expected).abs().max() / (expected - expected.mean(dim=0)).abs().max()),
        "seconds": time.process_time() - begin,
    }


@torch.no_grad()
def _silence(module: nn.Module, dependency: Any, columns: list[int], alive: list[int]) -> None:
    """Set the removed outputs of a layer to zero; ``columns`` count what earlier groups left of them."""
    if not dependency.handler.__name__.endswith("out_channels") or getattr(module, "weight", None) is None:
        return
    weight = module.get_parameter("weight")
    if not alive:
        alive.extend(range(len(weight)))
    gone = [alive[column] for column in columns]
    for value in module.parameters(recurse=False):
        value[gone] = 0
    alive[:] = [column for column in alive if column not in set(gone)]


def _cell(name: str, folder: Path) -> dict[str, Any]:
    size = _SIZES.get(name, _SIZE)
    x = torch.randn(_ROWS, 3, size, size, generator=torch.Generator().manual_seed(1))
    network = _measured(_built(name), x)
    split = Split(x, torch.arange(_ROWS) % _CLASSES)
    found = {"name": name, "parameters": sum(value.numel() for value in network.parameters())}
    found["ours"] = _ours(network, Data("noise", train=split, test=split), folder / f"{name}.safetensors")
    found["theirs"] = _theirs(network, x)
    return found


@torch.no_grad()
def _reloaded(name: str, folder: Path) -> float:
    """The largest difference of what a network read in this process gives from what it gave when it was cut."""
    size = _SIZES.get(name, _SIZE)
    x = torch.randn(_ROWS, 3, size, size, generator=torch.Generator().manual_seed(1))
    network = ws.load(folder / f"{name}.safetensors", network=functools.partial(_built, name))
    return float((network(x) - torch.load(folder / f"{name}.pt")).abs().max())


def _cells(folder: Path) -> Iterator[dict[str, Any]]:
    for name in _NAMES:
        path = folder / f"{name}.json"
        if path.exists():
            yield json.loads(path.read_text(encoding="utf-8"))


def _page(cells: list[dict[str, Any]]) -> str:
    rows = [
        "| architecture | parameters | left | sites cut | check | reloaded | CPU s | Torch-Pruning | left | difference "
        "|",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        ours, theirs = cell["ours"], cell["theirs"]
        begin = f"| {cell['name']} | {cell['parameters']:,} |"
        if "refused" in ours:
            told = textwrap.shorten(ours["refused"], 120, placeholder=" …")
            first = f" – | – | refused: {told} | – | {ours['seconds']:.0f} |"
        else:
            again = cell.get("reloaded")
            back = "not yet" if again is None else "equal" if again == 0 else f"{again:.1g} apart"
            first = (
                f" {ours['left']:.1%} | {ours['sites']} | {ours['difference']:.0e} | {back} | {ours['seconds']:.0f} |"
            )
        if "fails" in theirs:
            second = f" fails: {textwrap.shorten(theirs['fails'], 90, placeholder=' …')} | – | – |"
        else:
            verdict = "runs" if theirs["difference"] < _WRONG else "runs, other outputs"
            second = f" {verdict} | {theirs['left']:.1%} | {theirs['difference']:.0e} |"
        rows.append(begin + first + second)
    return "\n".join(rows)


_WRONG = 1e-3  # of the spread of the outputs


def _write(cells: list[dict[str, Any]]) -> None:
    path = _RESULTS / "zoo.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    reading = old[old.index(_READING) :] if _READING in old else f"{_READING}\n"
    head = textwrap.fill(
        f"{len(cells)} architectures of torchvision with {_CLASSES} outputs, random weights and batch norms measured "
        f'on {_ROWS} random images, cut to two thirds of their parameters: by `ws.reduce(…, by="magnitude", '
        f'target="params:{_KEEP}", plan="uniform", refit="none")`, and by Torch-Pruning\'s magnitude pruner as its '
        f"README runs it ({_RATIO:.0%} of the channels of every layer but the last). *Check*: the largest difference "
        "of the cut network's outputs from those of the masked one, as a share of how far outputs vary; *reloaded*: "
        "its file read in a new process by the function that builds the whole network. *Difference*: that of "
        "Torch-Pruning's network from the original one with the removed channels set to zero, likewise as a share.",
        120,
    )
    made = f"{machine()}; {versions('torch-pruning')}"
    parts = ["# zoo", head, _page(cells), f"`python -m benchmarks.zoo` · {made}", reading]
    write_atomic(path, "\n\n".join(part.rstrip() for part in parts) + "\n")
    write_atomic(_RESULTS / "zoo.json", json.dumps(cells, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Cut all architectures that are not in the folder yet, reload them in a new process, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.add_argument("which", nargs="*", help=f"of {', '.join(_NAMES)}; all without it")
    parser.add_argument("--folder", type=Path, default=_ROOT / "build" / "zoo")
    parser.add_argument("--page", action="store_true", help="cut nothing: only write the page from what is kept")
    parser.add_argument("--reload", action="store_true", help="only read the files of the folder again")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.which) - set(_NAMES):
        parser.error(f"{min(unknown)} is none of {', '.join(_NAMES)}")
    torch.set_num_threads(1)
    if asked.reload:
        for cell in _cells(asked.folder):
            if "left" in cell["ours"] and "reloaded" not in cell:
                cell["reloaded"] = _reloaded(cell["name"], asked.folder)
                write_atomic(asked.folder / f"{cell['name']}.json", json.dumps(cell))
        return 0
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in () if asked.page else asked.which or _NAMES:
        path = asked.folder / f"{name}.json"
        if not path.exists():
            write_atomic(path, json.dumps(_cell(name, asked.folder)))
            print(path.read_text(encoding="utf-8"), file=sys.stderr, flush=True)
    if not asked.page:
        command = [sys.executable, "-m", "benchmarks.zoo", "--reload", "--folder", str(asked.folder)]
        subprocess.run(command, check=True)
    _write(list(_cells(asked.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
