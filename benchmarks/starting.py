"""``train`` with default settings beside a plain torch loop with a good recipe: accuracy and CPU time.

    python -m benchmarks.starting

A small CNN on Fashion-MNIST and ResNet-20 on CIFAR-10, few images and epochs, three seeds. Every arm of a case starts
from the same weights and takes as many epochs over the same normalised images in batches of 32:

- ``defaults``: ``ws.train(network, data, epochs=…)`` and nothing else;
- ``plain torch``: channels last, AdamW (decay 0.01) for the CNN, Nesterov's momentum 0.9 with decay 5e-4 for ResNet-20,
  both under ``OneCycleLR``; its peaks were chosen from three on held-back training images;
- ``before``: the defaults until now, momentum at a constant 0.01.

Each finished run is kept in ``--folder``, and the same command goes on with what is left.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.bench_training import small_cnn
from benchmarks.measure import machine
from weightsmith.core.journal import Journal
from weightsmith.core.records import Record
from weightsmith.core.seeds import torch_stream
from weightsmith.core.statistics import Interval, mean_interval
from weightsmith.core.storage import write_atomic
from weightsmith.data import Data, load
from weightsmith.networks.models.resnet import resnet
from weightsmith.training.loop import train

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_SEEDS, _BATCH, _TEST = (0, 1, 2), 32, 2_000
_ARMS = ("defaults", "plain torch", "before")


@dataclasses.dataclass(frozen=True)
class _Case:
    data: str
    images: int
    epochs: int
    peak: float  # of plain torch


_CASES = {"small CNN": _Case("fashion-mnist", 10_000, 3, 0.003), "ResNet-20": _Case("cifar10", 1_000, 3, 0.05)}


@dataclasses.dataclass(frozen=True, eq=False)
class StartingRow(Record):
    """One arm of a case: means over the seeds with a 95 % interval (t), and the difference to ``defaults``, paired."""

    case: str
    arm: str
    accuracy: Interval
    seconds: Interval
    behind: Interval | None


@dataclasses.dataclass(frozen=True, eq=False)
class StartingTable(Record):
    """All rows, and the machine they were measured on."""

    rows: tuple[StartingRow, ...]
    machine: str


def main(arguments: list[str] | None = None) -> int:
    """Run what is left, and write docs/results/starting.json and .md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starting", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/starting"))
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results")
    parser.add_argument("--cases", nargs="+", choices=list(_CASES), default=list(_CASES), help="default: all")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with Journal(
        asked.folder / "journal.jsonl", {"cases": {name: dataclasses.asdict(c) for name, c in _CASES.items()}}
    ) as done:
        for name in asked.cases:
            case = _CASES[name]
            for seed in _SEEDS:
                for arm in _ARMS:
                    if (key := f"{name}, {arm}, {seed}") not in done:
                        result = _run(name, case, arm, seed)
                        done.append(key, result, result["seconds"])
        table = StartingTable(tuple(_row(done, name, arm) for name in asked.cases for arm in _ARMS), machine())
    write_atomic(asked.out / "starting.json", table.to_json(indent=1) + "\n")
    write_atomic(asked.out / "starting.md", _page(table))
    return 0


def _run(name: str, case: _Case, arm: str, seed: int) -> dict[str, float]:
    data = load(case.data)
    test = data.split("test").take(slice(0, _TEST))
    data = dataclasses.replace(data, train=data.split("train").take(slice(0, case.images)))
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        network: nn.Module = small_cnn() if name == "small CNN" else resnet(20, seed=seed)
    options: dict[str, Any] = {"epochs": case.epochs, "seed": seed, "normalise": data.normalisation}
    started = time.process_time()
    if arm == "plain torch":
        network = _plain(network, data, case, seed)
    elif arm == "before":
        network = train(network, data, optimiser="momentum", schedule=0.01, **options).network
    else:
        network = train(network, data, **options).network
    seconds = time.process_time() - started
    with torch.no_grad():
        answers = [network(x).argmax(1) for x in torch.split(data.normalisation.apply(test.x), 500)]
    right = (torch.cat(answers) == test.y).double().mean()
    return {"accuracy": float(right), "seconds": seconds}


def _plain(network: nn.Module, data: Data, case: _Case, seed: int) -> nn.Module:
    """The loop everyone writes, with what a careful hand adds: channels last, one cycle, decay."""
    assert data.train is not None
    network = copy.deepcopy(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x, y = data.normalisation.apply(data.train.x).contiguous(memory_format=torch.channels_last), data.train.y
    normed = any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    values = network.parameters()
    optimiser: torch.optim.Optimizer = (
        torch.optim.SGD(values, lr=case.peak, momentum=0.9, nesterov=True, weight_decay=5e-4)
        if normed
        else torch.optim.AdamW(values, lr=case.peak)
    )
    steps = case.epochs * -(-len(y) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, case.peak, total_steps=steps, cycle_momentum=False)
    network.train()
    for epoch in range(1, case.epochs + 1):
        order = torch.randperm(len(y), generator=torch_stream(seed, "order", epoch))
        for rows in torch.split(order, _BATCH):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(network(x[rows]), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return network.eval()


def _row(done: Journal, case: str, arm: str) -> StartingRow:
    own, first = ([done[f"{case}, {each}, {seed}"] for seed in _SEEDS] for each in (arm, "defaults"))
    gaps = [mine["accuracy"] - ours["accuracy"] for mine, ours in zip(own, first, strict=True)]
    return StartingRow(
        case,
        arm,
        mean_interval([each["accuracy"] for each in own]),
        mean_interval([each["seconds"] for each in own]),
        None if arm == "defaults" else mean_interval(gaps),
    )


def _page(table: StartingTable) -> str:
    lines = [
        "# Training with default settings",
        "",
        "`ws.train(network, data, epochs=…)` beside a plain torch loop with a good recipe; "
        f"{len(_SEEDS)} seeds, batches of {_BATCH}, accuracy on {_TEST:,} test images.",
        "",
        *(
            f"- **{name}**: {case.images:,} images of {case.data}, {case.epochs} epochs"
            for name, case in _CASES.items()
            if any(row.case == name for row in table.rows)
        ),
        "",
        "| case | arm | accuracy, % | CPU seconds | points against the defaults (95 % interval over seeds) |",
        "|---|---|---|---|---|",
    ]
    for row in table.rows:
        gap = (
            ""
            if row.behind is None
            else f"{100 * row.behind.value:+.1f} ({100 * row.behind.low:+.1f} to {100 * row.behind.high:+.1f})"
        )
        lines.append(f"| {row.case} | {row.arm} | {100 * row.accuracy.value:.1f} | {row.seconds.value:.1f} | {gap} |")
    how = (
        "plain torch: channels last, `OneCycleLR`, AdamW or Nesterov's momentum with decay 5e-4; before: momentum at a "
        "constant 0.01."
    )
    return "\n".join([*lines, "", f"{how} One thread. Made by `python -m benchmarks.starting`; {table.machine}.", ""])


if __name__ == "__main__":
    sys.exit(main())
