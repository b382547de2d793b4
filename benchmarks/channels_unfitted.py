"""Channels of a pretrained ResNet-20 on CIFAR-10 without a refit: every method by every plan at equal parameters.

Each cell takes channels out of the residual blocks of ``distiller_resnet20_dense``, then judges the network on the
10,000 test images as it was cut, with batch norms measured anew, and fine-tuned. Cells are kept in a journal: the same
command goes on where it was stopped.

    python -m benchmarks.channels_unfitted
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin, Record, versions
from weightsmith.core.seeds import pinned_threads, stream
from weightsmith.core.statistics import Comparison, Interval, mcnemar, wilson
from weightsmith.core.storage import write_atomic
from weightsmith.networks.evaluation import scores
from weightsmith.reducing.recovery.recover import fine_tuned, recalibrated

__all__ = ["Results", "main", "section"]

_ROOT = Path(__file__).resolve().parents[1]
_TARGETS = (0.75, 0.5)
_PLANS = ("uniform", "norm", "alpha")
_METHODS = {
    "angles, nearest first": "angles:90,order=cosine",
    "angles, least effect first": "angles:90",
    "groups": "groups:90",
    "genetic": "genetic:0,population=30,generations=12,rows=128",
    "L1 norm": "magnitude",
    "random": "random",
}
_BY_ALL_PLANS = ("angles, least effect first", "genetic")
_ROWS, _TRAINING = 2000, 12500  # images that methods look at, and that fine-tuning has
_TUNE = "fine-tune:1,schedule=cosine:0.01,batch=64,augment=crop-flip,penalties=[l2:1e-4]"


@dataclasses.dataclass(frozen=True, eq=False)
class Cell(Record):
    """One reduction: shares of the test images that are right, and the difference to the whole network (McNemar)."""

    method: str
    by: str
    plan: str
    target: float
    parameters: int
    macs: int
    units: dict[str, int]
    cut: Interval
    recalibrated: Interval
    tuned: Interval
    loss: Comparison


@dataclasses.dataclass(frozen=True, eq=False)
class Results(Record):
    """The table and what it was made with."""

    command: str
    machine: str
    tuning: str
    whole: Interval
    parameters: int
    cells: tuple[Cell, ...]
    origin: Origin


class _Judge:
    """The test images, and which of them the whole network has right."""

    def __init__(self, network: Any, data: Any) -> None:
        self.x, self.y = data.test.x, data.test.y
        self.whole = self.right(network)

    def right(self, network: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        hits = scores(network, self.x, batch=250).argmax(dim=1) == self.y
        found: np.ndarray[Any, np.dtype[np.bool_]] = hits.numpy()
        return found

    def share(self, network: Any) -> Interval:
        return wilson(int(self.right(network).sum()), len(self.y))


def main(arguments: list[str] | None = None) -> int:
    """Run all cells that are not in the journal yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--folder", type=Path, default=_ROOT / "build" / "channels_unfitted", help="where finished cells are kept"
    )
    parser.add_argument("--only", type=float, choices=_TARGETS, help="one target: two of these can run side by side")
    given = parser.parse_args(arguments)
    folder = Path(os.environ["WEIGHTSMITH_DATA"])
    network = ws.load(folder / "weights" / "distiller_resnet20_dense.safetensors")
    data = ws.data.load("cifar10")
    chosen = np.sort(stream(0, "fine-tuning rows").choice(len(data.split("train")), _TRAINING, replace=False))
    data = dataclasses.replace(data, train=data.split("train").take(chosen))
    origin = Origin(seed=0, inputs={"network": ws.networks.weights_digest(network), "data": data.digest()})
    call = {"methods": _METHODS, "rows": _ROWS, "training": _TRAINING, "tune": _TUNE, **origin.to_dict()}
    cells: list[Cell] = []
    with pinned_threads(1):
        judge = _Judge(network, data)
        for target in _TARGETS if given.only is None else (given.only,):
            with Journal(given.folder / f"{target}.jsonl", call) as journal:
                cells += _cells(network, data, judge, target, journal)
    if given.only is not None:
        return 0
    size = sum(value.numel() for value in network.parameters())
    whole = wilson(int(judge.whole.sum()), len(judge.y))
    command = "python -m benchmarks.channels_unfitted"
    results = Results(command, f"{machine()}; {versions('torch-pruning')}", _TUNE, whole, size, tuple(cells), origin)
    write_atomic(_ROOT / "docs" / "results" / "channels_unfitted.json", results.to_json(indent=1) + "\n")
    return 0


def _cells(network: Any, data: Any, judge: _Judge, target: float, journal: Journal) -> list[Cell]:
    """All cells of one target, those that the journal has taken from it."""
    plans = _plans(network, target)
    wanted = [(method, plan) for plan in _PLANS for method in _METHODS if plan == "uniform" or method in _BY_ALL_PLANS]
    for method, plan in wanted:
        if f"{method} {plan}" not in journal:
            began = time.perf_counter()
            cell = _cell(network, data, judge, (method, plan, target), plans[plan])
            journal.append(f"{method} {plan}", cell.to_dict(), time.perf_counter() - began)
            shares = [f"{share.value:.4f}" for share in (cell.cut, cell.recalibrated, cell.tuned)]
            print(method, plan, target, *shares, flush=True)
    return [Cell.from_dict(journal[f"{method} {plan}"]) for method, plan in wanted]


def _plans(network: Any, keep: float) -> dict[str, Any]:
    return {"uniform": "uniform", "norm": ws.norm_plan(network, keep), "alpha": ws.alpha_plan(ws.grade(network), keep)}


def _cell(network: Any, data: Any, judge: _Judge, names: tuple[str, str, float], plan: Any) -> Cell:
    method, plan_name, target = names
    few = dataclasses.replace(data, test=data.test.take(slice(0, 500)))  # all of them are judged below
    small = ws.reduce(
        network,
        few,
        by=_METHODS[method],
        target=ws.Params(target),
        plan=plan,
        layers="layer*.conv1",
        refit="none",
        rows=_ROWS,
        random=0,
        latency=False,
    )
    tuned = fine_tuned(small.network, data, ws.FineTune.parse(_TUNE), seed=0).network
    right = judge.right(tuned)
    return Cell(
        method=method,
        by=_METHODS[method],
        plan=plan_name,
        target=target,
        parameters=small.record.reduced.parameters,
        macs=small.record.reduced.macs,
        units={site.name: site.after for site in small.sites},
        cut=judge.share(small.network),
        recalibrated=judge.share(recalibrated(small.network, data.train.x, ws.Recalibrate())),
        tuned=wilson(int(right.sum()), len(right)),
        loss=mcnemar(right, judge.whole),
    )


def section(results: Results) -> str:
    """The part of the page of ``benchmarks.channels`` that has no refit."""
    parts = [_HEAD.format(whole=_percent(results.whole), parameters=results.parameters, tuning=results.tuning)]
    for target in _TARGETS:
        cells = [cell for cell in results.cells if cell.target == target]
        parts.append(f"### {1 - target:.0%} fewer parameters\n\n{_table(cells)}")
    parts += [_READING, f"`{results.command}` · {results.machine}"]
    return "\n\n".join(parts)


def _table(cells: list[Cell]) -> str:
    lines = [
        "| plan | method | parameters | MACs | as cut | recalibrated | fine-tuned | against the whole network |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        p = "< 0.0001" if (cell.loss.p or 0) < 1e-4 else f"{cell.loss.p:.2g}"
        lines.append(
            f"| {cell.plan} | {cell.method} | {cell.parameters:,} | {cell.macs / 1e6:.1f} M | {_percent(cell.cut)} | "
            f"{_percent(cell.recalibrated)} | {_percent(cell.tuned)} | {100 * cell.loss.difference:+.2f} (p {p}) |"
        )
    return "\n".join(lines)


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.2f} ({100 * share.low:.1f}–{100 * share.high:.1f})"


_HEAD = """## Without a refit

Measured earlier, and still what `refit="none"` gives. Channels
taken out of a pretrained ResNet-20 (`distiller_resnet20_dense`, {parameters:,} parameters, {whole} % of
CIFAR-10's 10,000 test images right), from the inside of its nine residual blocks (`layers="layer*.conv1"`), by every
method at equal parameters. Accuracies in per cent of the 10,000 test images with 95 % Wilson intervals:

- *as cut*: nothing was trained or measured anew;
- *recalibrated*: batch norms measured anew on 5,000 training images, no weight moved, no label seen;
- *fine-tuned*: one epoch over 12,500 training images (`{tuning}`), from the network as it was cut.

The last column compares the fine-tuned network with the whole one, image by image, in points (McNemar). Methods look at
2,000 training images; the genetic search, which has to run the network for every mask, at 128 of them (population 30,
12 generations, the number of channels held by repair). Plans say how much of each block is kept before one factor
scales all shares to the target: `uniform`, `norm` (root mean square of the weights) and `alpha` (heavy tails keep
more). One seed each: the intervals are those of the test images, not of another draw."""

_READING = """### How to read it

- **As cut**, merging decides. Groups, whose removed channels become least-squares combinations of those that stay, keep
  85.9 % with a quarter of the parameters gone and 59.0 % with half of them, where the L1 norm keeps 64.1 and 18.8 % and
  chance 35.7 and 19.1 %.
- **The paper's order of pairs does not carry over.** Nearest pairs first, lower index kept, is worse than the L1 norm:
  it asks which channels are alike, not which are missed. The same merging ordered by its effect on the layers that read
  the channels keeps 81.9 instead of 55.8 %.
- **Batch norms measured anew** bring most methods back a long way without a label; for groups at a quarter there is
  nothing left to bring back.
- **After an epoch of fine-tuning** the methods draw together: at a quarter all lie within 2.2 points, groups (89.3) and
  the L1 norm (88.7) inside each other's intervals. At half, groups (84.2) and angles by effect (82.8 to 83.9) stay
  above the L1 norm (81.7), and all of them above chance (79.6).
- **The genetic search is no better than chance here** once fine-tuned (87.2 against 87.2, 79.3 against 79.6 with the
  uniform plan): 128 images and a few hundred masks tell too little of 336 bits. On the one hidden layer it was made for
  it sees all rows and thousands of masks.
- **Plans**: with norm and α instead of the same share everywhere, fine-tuned angles gain 0.5 and 0.8 points at a
  quarter, 0.7 and 1.0 at half, each inside the intervals; the genetic search gains 0.7 and 0.9, then 1.6 and 1.8, the
  last two at the edge of them or beyond. This is one network and one seed: a hint, no more; and at equal parameters the
  α plan costs 15 % more multiply–accumulates, because it keeps channels where images are large.
- Nothing is free: after this short fine-tuning every network is worse than the whole one, by 2.4 to 13.2 points, and
  the test leaves no doubt of it. More epochs would bring back more."""


if __name__ == "__main__":
    sys.exit(main())
