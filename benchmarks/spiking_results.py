"""ResNet-20 as a spiking network: batch norm folded, constant input, 4 to 256 steps; written under docs/results.

    python -m benchmarks.spiking_results

What was computed is kept in a folder (``--folder``): a finished run is read.
What stands under "How to read it" on a page is written by hand and stays.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from pathlib import Path

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.core.records import versions
from weightsmith.core.statistics import Comparison, Interval
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.figures.spiking.catalogue import draw_accuracy
from weightsmith.spiking.results import SpikeRecord

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS, _IMAGES = _ROOT / "docs" / "results", _ROOT / "docs" / "images"
_READING = "## How to read it"
_SETTLE = 16
_STEPS = (4, 8, 16, 20, 24, 32, 48, 64, 128, 256)


def main(arguments: list[str] | None = None) -> int:
    """Compute what is asked for and write its page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spiking_results", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the run is kept; default: build/spiking_resnet")
    asked = parser.parse_args(arguments)
    data = os.environ.get("WEIGHTSMITH_DATA")
    if data is None:
        parser.error("WEIGHTSMITH_DATA must name the folder with cifar10 and the pretrained networks")
    _resnet(Path(data) / "weights", asked.folder or _ROOT / "build" / "spiking_resnet")
    return 0


def _resnet(weights: Path, folder: Path) -> None:
    network, cifar = ws.load(weights / "akamaster_resnet20.safetensors"), ws.data.load("cifar10")
    runs = []
    for settle, steps in ((0, 256), (_SETTLE, 64)):
        record = folder / f"settle{settle}" / "record.json"
        if not record.exists():
            ws.spike(network, cifar, steps=steps, settle=settle, test_rows=1000, out=record.parent, progress=_tell)
        runs.append(SpikeRecord.from_json(record.read_text(encoding="utf-8")))
    draw_accuracy(*runs).savefig(_IMAGES / "spiking_resnet.png", dpi=110)
    _write("spiking_resnet", _resnet_page(*runs), f"[{runs[0].to_json()},\n{runs[1].to_json()}]")


def _resnet_page(run: SpikeRecord, settled: SpikeRecord) -> str:
    decisions, cost = run.decisions, run.cost
    head = _filled(
        "`akamaster_resnet20` with batch norm folded, as a spiking network: integrate and fire, soft reset, constant "
        f"input, balance `{run.settings['balance']}` (the 99.9th percentile of every channel on 512 training images, "
        f"membranes start at half a threshold), on {decisions.images:,} test images of CIFAR-10, of which the network "
        f"has {_percent(decisions.network)} % right. Accuracies in per cent with 95 % Wilson intervals; differences to "
        "the network in points, paired, with 95 % intervals and McNemar's p. With `settle` the outputs of the first "
        f"{_SETTLE} steps are left out of the sums, a number chosen on 400 training images among 0, 8, 12, 16, 20, 24 "
        "and 32. Energy in µJ per image: arithmetic in 45 nm, 0.9 pJ for an addition, 4.6 pJ for a multiplication with "
        "it, updates of neurons included; then the same operations at the prices of integers (0.1 and 0.23 pJ). The "
        f"network takes {', '.join(f'{rival.energy / 1e6:.2f} in {rival.name}' for rival in cost.rivals)} (zeros "
        f"counted on {cost.rivals[-1].rows} of the images)."
    )
    whole = cost.at(ws.Prices(numbers="int8")).curve
    rows = []
    for steps in _STEPS:
        late = _SETTLE < steps <= settled.steps
        other = settled.decisions
        rows.append(
            f"| {steps} | {_percent(decisions.accuracy(steps))} | {_points(decisions.cost_after(steps))} | "
            + (f"{_percent(other.accuracy(steps))} | {_points(other.cost_after(steps))}" if late else "– | –")
            + f" | {cost.curve[steps - 1] / 1e6:.0f} | {whole[steps - 1] / 1e6:.1f} |"
        )
    table = [
        f"| steps | accuracy | against the network | accuracy, settle {_SETTLE} | against the network | energy, µJ "
        "| at integer prices |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    image = "![accuracy against steps](../images/spiking_resnet.png)"
    return "\n\n".join(["# spiking: ResNet-20", head, image, "\n".join(table)])


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _write(name: str, page: str, record: str) -> None:
    """The page with its reading, if it has one already, and the record."""
    path = _RESULTS / f"{name}.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    reading = old[old.index(_READING) :] if _READING in old else ""
    made = f"Versions: {', '.join(f'{k} {v}' for k, v in versions('numba').items())}. {machine()}."
    command = "Made by `python -m benchmarks.spiking_results`."
    parts = (page, _filled(f"{made} {command}"), reading)
    write_atomic(path, "\n\n".join(part.rstrip() for part in parts if part) + "\n")
    write_atomic(_RESULTS / f"{name}.json", record + "\n")


def _percent(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} ({100 * interval.low:.1f}–{100 * interval.high:.1f})"


def _points(comparison: Comparison) -> str:
    found = comparison.interval
    spread = "" if found is None else f" ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    chance = "" if comparison.p is None else f", p = {comparison.p:.2g}"
    return f"{100 * comparison.difference:+.1f}{spread}{chance}"


def _tell(stage: str, done: int, total: int) -> None:
    print(f"{stage} {done}/{total}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
