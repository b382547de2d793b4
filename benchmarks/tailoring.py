"""Networks tailored to limits, without a label and without training: what is kept, what it costs, and in what time.

    python -m benchmarks.tailoring                   all networks and limits, and the page
    python -m benchmarks.tailoring resnet20 vgg5     some networks; the page has what is known of the others
    python -m benchmarks.tailoring --page            only the page, from what is kept

Every case is a call of its own from the file, in a new folder; its result is kept (``--folder``), so that the same
command goes on where it was stopped. What stands under "How to read it" on the page is written by hand and stays.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.chain.tailor.drawing import draw_kept_of
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.chain.tailor.tailoring import tailor
from weightsmith.core.records import versions
from weightsmith.core.storage import write_atomic

__all__ = ["OwnCnn", "main"]

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS, _IMAGES = _ROOT / "docs" / "results", _ROOT / "docs" / "images"
_READING = "## How to read it"
_LIMITS: tuple[dict[str, Any], ...] = (
    {"params": "75%", "accuracy": -2.5},
    {"macs": "50%", "accuracy": -5.5},
    {"bytes": "25%", "accuracy": -1},
    {"energy": "20%", "accuracy": -2},
    {"energy": "20%", "accuracy": -2, "spiking": True},
)


class OwnCnn(nn.Module):
    """A small network as people write them: batch norm, max pooling, no architecture of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.second, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.hidden, self.out = nn.Linear(64 * 7 * 7, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two convolutions, each pooled, and two dense layers."""
        x = torch.max_pool2d(torch.relu(self.norm1(self.first(x))), 2)
        x = torch.max_pool2d(torch.relu(self.norm2(self.second(x))), 2)
        return self.out(torch.relu(self.hidden(x.flatten(1))))  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class _Subject:
    title: str
    data: str
    network: Callable[[Path], Any]


def _weights(name: str) -> Callable[[Path], Any]:
    return lambda _: ws.load(Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / f"{name}.safetensors")


def _trained(build: Callable[[], Any], name: str, epochs: int) -> Callable[[Path], Any]:
    """A network trained once on Fashion-MNIST, and read from its file afterwards."""

    def made(folder: Path) -> Any:
        path = folder / f"{name}.safetensors"
        network = build()
        if not path.exists():
            run = ws.train(network, "fashion-mnist", optimiser="adam", schedule="cosine:0.001", epochs=epochs, seed=0)
            ws.save(run.network, path)
        return ws.load(path) if isinstance(network, str) else ws.load(path, network=network)

    return made


def _own() -> nn.Module:
    torch.manual_seed(0)
    return OwnCnn()


_SUBJECTS = {
    "resnet20": _Subject("ResNet-20", "cifar10", _weights("akamaster_resnet20")),
    "vgg5": _Subject("VGG-5", "cifar10", _weights("vgg5_fc512")),
    "mlp": _Subject("MLP 300-100", "fashion-mnist", _trained(lambda: "mlp:300,100", "mlp", 2)),
    "own": _Subject("own CNN", "fashion-mnist", _trained(_own, "own", 1)),
    "resnet56": _Subject("ResNet-56", "cifar10", _weights("akamaster_resnet56")),
}


def main(arguments: list[str] | None = None) -> int:
    """Tailor, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tailoring", description=__doc__)
    parser.add_argument("which", nargs="*", help=f"of {', '.join(_SUBJECTS)}; all without it")
    parser.add_argument("--folder", type=Path, default=_ROOT / "build" / "tailoring")
    parser.add_argument("--limit", type=int, choices=range(len(_LIMITS)), help="only this one of the limits")
    parser.add_argument("--page", action="store_true", help="tailor nothing: only write the page from what is kept")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.which) - set(_SUBJECTS):
        parser.error(f"{min(unknown)} is none of {', '.join(_SUBJECTS)}")
    for name in () if asked.page else asked.which or _SUBJECTS:
        for number, limits in enumerate(_LIMITS):
            path = asked.folder / f"{name}-{number}.json"
            if not path.exists() and asked.limit in (None, number):
                write_atomic(path, json.dumps(_measured(name, limits, asked.folder), ensure_ascii=False))
                print(name, limits, file=sys.stderr, flush=True)
    if asked.page or asked.limit is None:
        _write(list(_kept(asked.folder)), asked.folder)
    return 0


def _measured(name: str, limits: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One case from the file: the record, and CPU seconds of all of it, of the search, and of the best so far."""
    subject, work = _SUBJECTS[name], folder / "work"
    folder.mkdir(parents=True, exist_ok=True)
    subject.network(folder)  # trained before the clock starts, if need be
    shutil.rmtree(work, ignore_errors=True)
    begin = time.process_time()
    data, network = ws.data.load(subject.data), subject.network(folder)
    loaded = time.process_time() - begin
    try:
        found = tailor(network, data, **limits, out=work)
    except ws.UsageError as error:
        return {"refused": str(error)}
    return {
        "record": found.record.to_dict(),
        "seconds": time.process_time() - begin,
        "loaded": loaded,
        "timeline": [[moment.seconds, moment.candidate] for moment in found.timeline],
    }


def _kept(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name in _SUBJECTS:
        for number, limits in enumerate(_LIMITS):
            path = folder / f"{name}-{number}.json"
            if path.exists():
                yield name, limits, json.loads(path.read_text(encoding="utf-8"))


def _write(cases: list[tuple[str, dict[str, Any], dict[str, Any]]], folder: Path) -> None:
    path = _RESULTS / "tailoring.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    reading = old[old.index(_READING) :] if _READING in old else ""
    head = _filled(
        "`weightsmith tailor` with one limit on a cost and one on the accuracy, in points below the network. It looks "
        "at 1,000 training images without their labels; the result is judged once, on all 10,000 "
        "test images, and the limit on the accuracy must hold at 95 % by an exact paired test. Accuracies in per cent "
        "with 95 % Wilson intervals, changes in points, *at least* what the test does not exclude. Energy is that of "
        "arithmetic (45 nm), relative to the float32 network; bytes are those of all tensors. CPU seconds on one "
        "thread, from the file: reading network and data, search, and judging the network and its successor."
    )
    made = f"Versions: {', '.join(f'{k} {v}' for k, v in versions('numba').items())}. {machine()}."
    tail = _filled(f"{made} Made by `python -m benchmarks.tailoring`.")
    parts = ["# tailoring", head, _limits_table(cases), "## Rivals", _rivals(cases), "## Time line", _times(cases)]
    parts += ["## By hand", _by_hand(cases, folder)]
    if record := next((case for name, limits, case in cases if "record" in case), None):
        _IMAGES.mkdir(exist_ok=True)
        figure = draw_kept_of(TailorRecord.from_dict(record["record"]))
        figure.savefig(_IMAGES / "tailoring.png", dpi=110)
        parts.insert(2, "![accuracy kept and costs left of a ResNet-20](../images/tailoring.png)")
    write_atomic(path, "\n\n".join(part.rstrip() for part in [*parts, tail, reading] if part) + "\n")
    rows = ",\n".join(json.dumps({"network": name, "limits": limits, **case}) for name, limits, case in cases)
    write_atomic(_RESULTS / "tailoring.json", f"[{rows}]\n")


def _limits_table(cases: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> str:
    rows = [
        "| network | limits | taken | accuracy before | after | change | at least | parameters | operations | bytes | "
        "energy | limits | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, limits, case in cases:
        if "refused" in case:
            cells = (_SUBJECTS[name].title, _limits_text(limits), f"refused: {case['refused']}", *[""] * 10)
            rows.append(f"| {' | '.join(cells)} |")
            continue
        record = TailorRecord.from_dict(case["record"])
        best, judged = record.best, record.judged
        bound = "" if judged.bound is None else f"{100 * judged.bound:+.2f}"
        rows.append(
            f"| {_SUBJECTS[name].title} | {_limits_text(limits)} | {best} | {100 * record.whole.value:.2f} | "
            f"{_percent(judged.accuracy)} | {100 * judged.cost.difference:+.2f} | {bound} | "
            f"{_share(best.parameters, record.parameters)} | {_share(best.macs, record.macs)} | "
            f"{_share(best.bytes, record.bytes)} | {_share(judged.energy, record.energy)} | {record.verdict.value} | "
            f"{case['seconds']:.0f} |"
        )
    return "\n".join(rows)


def _rivals(cases: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> str:
    rows = [
        "The best of every other kind that was tried; *as the network*: of 250 training images that nothing was fitted "
        "to. They were not judged: none of them could be taken.\n",
        "| network | limits | rival | as the network | divergence | parameters | bytes | energy | misses |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, limits, case in cases:
        if "refused" in case:
            continue
        record = TailorRecord.from_dict(case["record"])
        for each in record.alone:
            assert each.candidate is not None
            found = record.candidates[each.candidate]
            rows.append(
                f"| {_SUBJECTS[name].title} | {_limits_text(limits)} | {found} | {100 * found.share:.1f} | "
                f"{found.distance:.2g} | {_share(found.parameters, record.parameters)} | "
                f"{_share(found.bytes, record.bytes)} | {_share(found.energy, record.energy)} | "
                f"{', '.join(each.missed) or 'nothing'} |"
            )
    return "\n".join(rows)


def _times(cases: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> str:
    rows = ["| network | limits | after, CPU s | best so far |", "|---|---|---|---|"]
    for name, limits, case in cases:
        if "refused" in case:
            continue
        record = TailorRecord.from_dict(case["record"])
        for seconds, number in case["timeline"]:
            found = record.candidates[number]
            within = "" if not found.excess(record.limits) else " (not within the limits)"
            at = case["loaded"] + seconds
            rows.append(f"| {_SUBJECTS[name].title} | {_limits_text(limits)} | {at:.1f} | {found}{within} |")
        rows.append(f"| {_SUBJECTS[name].title} | {_limits_text(limits)} | {case['seconds']:.1f} | judged |")
    return "\n".join(rows)


def _by_hand(cases: list[tuple[str, dict[str, Any], dict[str, Any]]], folder: Path) -> str:
    """What the tools of others come to on the same network and rows, as their examples use them."""
    ours = dict(_numbered(cases, "resnet20"))
    rows = [
        "ResNet-20, at most 1,000 training images, nothing trained; lines are those of the function in "
        "`benchmarks/by_hand.py`, without reading data and network.\n",
        "| limit | tool | right, % | of images | size left | CPU s | lines | `tailor`: right, % | of images | CPU s | "
        "lines |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (number, what) in {
        "pruned": (0, "Torch-Pruning, as cut"),
        "rounded": (2, "onnxruntime, static int8"),
        "spiking": (4, "SpikingJelly’s converter"),
    }.items():
        path = folder / f"by-hand-{name}.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        limit = _limits_text(_LIMITS[number])
        own = "| not run | | | |"
        if number in ours:
            record = TailorRecord.from_dict(ours[number]["record"])
            own = (
                f"| {100 * record.judged.accuracy.value:.2f} | {record.judging.rows:,} | "
                f"{ours[number]['seconds']:.0f} | 1 |"
            )
        if found is None or "refused" in found:
            said = "not run" if found is None else f"refused: {found['refused']}"
            rows.append(f"| {limit} | {what} | {said} | | | | {own}")
            continue
        for key, right in found["right"].items():
            after = f" after {key} steps" if key else ""
            size = "" if name == "spiking" else f"{100 * found['share']:.1f} %"
            rows.append(
                f"| {limit} | {what}{after} | {100 * right / found['rows']:.2f} | {found['rows']:,} | {size} | "
                f"{found['seconds']:.0f} | {found['lines']} {own}"
            )
    return "\n".join(rows)


def _numbered(
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]], wanted: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    for name, limits, case in cases:
        if name == wanted and "record" in case:
            yield _LIMITS.index(limits), case


def _limits_text(limits: dict[str, Any]) -> str:
    cost = next(name for name in limits if name not in ("accuracy", "spiking"))
    spiking = ", `--spiking`" if limits.get("spiking") else ""
    return f"{cost} {limits[cost]}, {limits['accuracy']:g} points{spiking}".replace("%", " %")


def _share(part: float | None, whole: float | None) -> str:
    return "" if part is None or not whole else f"{100 * part / whole:.1f} %"


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _percent(interval: Any) -> str:
    return f"{100 * interval.value:.2f} ({100 * interval.low:.2f}–{100 * interval.high:.2f})"


if __name__ == "__main__":
    sys.exit(main())
