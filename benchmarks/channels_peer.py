"""Torch-Pruning's criteria on the networks and targets of ``benchmarks.channels``, as its users run them.

    python -m benchmarks.channels_peer           all cells, kept in a journal; the same command goes on

Layers but the last lose channels in 100 steps until the target is met: L1 evenly in all layers, Taylor's expansion and
group norms ranked over the whole network. Taylor's gradients come from 1,000 labelled training images. All 10,000 test
images judge the network as cut; at half the parameters also after one and ten epochs on the 50,000 labelled training
images, which the network of ``reduce`` gets as well. ``--only`` runs the cells whose name holds a text; cells that the
journal has not are taken from the last results.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.journal import Journal
from weightsmith.core.records import Record, versions
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.statistics import Interval
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.evaluation import inputs_of
from weightsmith.networks.operations import count_operations
from weightsmith.reducing.recovery.recover import fine_tuned

__all__ = ["PeerCell", "PeerResults", "main"]

_ROOT = Path(__file__).resolve().parents[1]
_NETWORK = "distiller_resnet20_dense"
_TARGETS = ("params:0.75", "params:0.5", "macs:0.5")
_CRITERIA = ("L1", "group norm", "Taylor")
_TUNE = "fine-tune:{},schedule=cosine:0.01,batch=64,augment=crop-flip,penalties=[l2:1e-4]"
_TUNED_AT = "params:0.5"
_LONG = ("L1", "reduce, refitted")  # what ten epochs are given to
_OURS = "reduce, refitted"
_LABELLED, _STEPS = 1_000, 100


@dataclasses.dataclass(frozen=True, eq=False)
class PeerCell(Record):
    """One criterion at one target: what is left, and the share of test images that are right."""

    network: str
    criterion: str
    target: str
    parameters: float
    macs: float
    as_cut: Interval
    tuned: Interval | None
    seconds: float
    longer: Interval | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class PeerResults(Record):
    """All cells."""

    cells: tuple[PeerCell, ...]


def main(arguments: list[str] | None = None) -> int:
    """Run all cells that are not in the journal yet, and write them for the page of ``benchmarks.channels``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=_ROOT / "build" / "channels_peer", help="where cells are kept")
    parser.add_argument("--only", default="", help="only cells whose name holds this text, such as L1")
    given = parser.parse_args(arguments)
    call = {"tune": _TUNE, **versions("torch-pruning")}
    wanted = [(criterion, target) for criterion in _CRITERIA for target in _TARGETS] + [(_OURS, _TUNED_AT)]
    path = _ROOT / "docs" / "results" / "channels_peer.json"
    last = PeerResults.from_json(path.read_text(encoding="utf-8")).cells if path.exists() else ()
    known = {(cell.criterion, cell.target): cell for cell in last}
    with pinned_threads(1), Journal(given.folder / "cells.jsonl", call) as journal:
        data = ws.data.load("cifar10")
        for key in wanted:
            if str(key) not in journal and given.only in str(key):
                cell = _cell(data, *key)
                journal.append(str(key), cell.to_dict(), cell.seconds)
                print(*key, cell.as_cut.value, cell.tuned, cell.longer, file=sys.stderr, flush=True)
            if str(key) in journal:
                known[key] = PeerCell.from_dict(journal[str(key)])
            found = tuple(known[key] for key in wanted if key in known)
            path.write_text(PeerResults(found).to_json(indent=1) + "\n", encoding="utf-8")
    return 0


def _cell(data: Any, criterion: str, target: str) -> PeerCell:
    network = ws.load(Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / f"{_NETWORK}.safetensors")
    example = inputs_of(network, data.train.x[:1])
    before = _sizes(network, example)
    begin = time.process_time()
    if criterion == _OURS:
        pruned = ws.reduce(network, data, by="error", target=target, random=0, latency=False, test_rows=1).network
    else:
        pruned = _pruned(network, data, criterion, target, example)
    seconds = time.process_time() - begin
    after = _sizes(pruned, example)
    return PeerCell(
        network=_NETWORK,
        criterion=criterion,
        target=target,
        parameters=after["params"] / before["params"],
        macs=after["macs"] / before["macs"],
        as_cut=ws.evaluate(pruned, data).score,
        tuned=_tuned(pruned, data, 1) if target == _TUNED_AT else None,
        seconds=seconds,
        longer=_tuned(pruned, data, 10) if target == _TUNED_AT and criterion in _LONG else None,
    )


def _tuned(pruned: nn.Module, data: Any, epochs: int) -> Interval:
    rows = dataclasses.replace(data, test=None)
    return ws.evaluate(fine_tuned(pruned, rows, ws.FineTune.parse(_TUNE.format(epochs)), seed=0).network, data).score


def _sizes(network: nn.Module, example: torch.Tensor) -> dict[str, float]:
    parameters = sum(value.numel() for value in network.parameters())
    return {"params": parameters, "macs": count_operations(network, example).total}


def _pruned(network: nn.Module, data: Any, criterion: str, target: str, example: torch.Tensor) -> nn.Module:
    """``network`` itself, pruned until the target is met; its architecture no longer describes it."""
    import torch_pruning as tp

    measure, _, keep = target.partition(":")
    allowed = float(keep) * _sizes(network, example)[measure]
    importance = {
        "L1": tp.importance.MagnitudeImportance(p=1),
        "Taylor": tp.importance.TaylorImportance(),
        "group norm": tp.importance.GroupMagnitudeImportance(p=2),
    }[criterion]
    last = [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pruner = tp.pruner.MagnitudePruner(
            network, example, importance, iterative_steps=_STEPS, pruning_ratio=0.9, max_pruning_ratio=0.9,
            global_pruning=criterion != "L1", ignored_layers=[last],
        )  # fmt: skip
        while _sizes(network, example)[measure] > allowed:
            if criterion == "Taylor":
                _accumulate(network, data)
            pruner.step()
    network.zero_grad()
    del network.architecture
    return with_card(network, dataclasses.replace(card_of(network), architecture=None))


def _accumulate(network: nn.Module, data: Any) -> None:
    """Gradients of the loss on labelled training images, for Taylor's expansion."""
    network.zero_grad()
    for start in range(0, _LABELLED, 100):
        part = slice(start, start + 100)
        loss = nn.functional.cross_entropy(network(inputs_of(network, data.train.x[part])), data.train.y[part])
        loss.backward()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    sys.exit(main())
