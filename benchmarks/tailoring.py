"""Networks tailored to limits that neither reducing nor converting alone keeps to, written under docs/results.

    python -m benchmarks.tailoring              both networks, and the page
    python -m benchmarks.tailoring digits       one of them; the page has what is known of the other

Candidates are kept in a folder (``--folder``): the same command goes on where it was stopped. What stands under "How to
read it" on the page is written by hand and stays.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.chain.tailor.judging import Judgement
from weightsmith.chain.tailor.limits import missed_text
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.chain.tailor.section import draw_front_of
from weightsmith.chain.tailor.tailoring import tailor
from weightsmith.core.records import versions
from weightsmith.core.storage import write_atomic

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS, _IMAGES = _ROOT / "docs" / "results", _ROOT / "docs" / "images"
_READING = "## How to read it"


@dataclasses.dataclass(frozen=True)
class _Case:
    """A network with its data, the limits, and how it is searched."""

    title: str
    subject: Callable[[], tuple[Any, Any]]
    options: dict[str, Any]


def _digits() -> tuple[Any, Any]:
    data = ws.data.load("digits").with_validation(0.2)
    return ws.train("mlp:64,32", data, optimiser="adam", schedule=0.01, epochs=12, seed=0), data


def _vgg() -> tuple[Any, Any]:
    weights = Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / "vgg5_fc512.safetensors"
    return ws.load(weights), ws.data.load("cifar10")


_CASES = {
    "digits": _Case(
        "an MLP on digits (`mlp:64,32`, trained for 12 epochs)",
        _digits,
        {"accuracy": 0.82, "energy": 0.07, "margin": 2.0},
    ),
    "vgg5_fc512": _Case(
        "`vgg5_fc512` on CIFAR-10",
        _vgg,
        {"accuracy": 0.8, "energy": 0.12, "margin": 2.0, "images": 1000, "tune_rows": 10_000, "budget": "75m"},
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Search, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tailoring", description=__doc__)
    parser.add_argument("which", nargs="*", help=f"{' or '.join(_CASES)}; both without it")
    parser.add_argument("--folder", type=Path, default=_ROOT / "build" / "tailoring")
    parser.add_argument("--page", action="store_true", help="search nothing: only write the page from what is kept")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.which) - set(_CASES):
        parser.error(f"{min(unknown)} is none of {', '.join(_CASES)}")
    for name in () if asked.page else asked.which or _CASES:
        network, data = _CASES[name].subject()
        print(tailor(network, data, **_CASES[name].options, out=asked.folder / name, progress=_tell))
    records = {}
    for name in _CASES:
        record = asked.folder / name / "record.json"
        if record.exists():
            records[name] = TailorRecord.from_json(record.read_text(encoding="utf-8"))
            draw_front_of(records[name]).savefig(_IMAGES / f"tailoring_{name}.png", dpi=110)
    _write(records)
    return 0


def _write(records: dict[str, TailorRecord]) -> None:
    path = _RESULTS / "tailoring.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    reading = old[old.index(_READING) :] if _READING in old else ""
    head = _filled(
        "A network is tailored to limits on accuracy and energy by cutting, fine-tuning and converting it to a spiking "
        "network (`ws.tailor`). Candidates were chosen on selection rows; the choice, and beside it the best network "
        "that reducing alone and converting alone came to, were judged once on other rows. The limits were set after a "
        "first look at candidates on the selection rows, where it seemed that neither alone would do. Accuracies in "
        "per cent with 95 % Wilson intervals, differences to the whole network in points, paired, with McNemar's p. "
        "Energy for an input at 0.9 pJ for an addition and 4.6 pJ for a multiplication with it (45 nm), without memory."
    )
    made = f"Versions: {', '.join(f'{k} {v}' for k, v in versions('numba').items())}. {machine()}."
    tail = _filled(f"{made} Made by `python -m benchmarks.tailoring`.")
    parts = ["# tailoring", head, *(_section(name, record) for name, record in records.items()), tail, reading]
    write_atomic(path, "\n\n".join(part.rstrip() for part in parts if part) + "\n")
    body = ",\n".join(f'"{name}": {record.to_json()}' for name, record in records.items())
    write_atomic(_RESULTS / "tailoring.json", f"{{{body}}}\n")


def _section(name: str, record: TailorRecord) -> str:
    limits, case = record.limits, _CASES[name]
    assert limits.accuracy is not None  # both cases have these two limits
    assert limits.energy is not None
    ways = len({found.way.key for found in record.candidates})
    head = _filled(
        f"Limits: at least {100 * limits.accuracy:g} % right, at most {100 * limits.energy / record.energy:g} % of the "
        f"energy of the whole network ({_microjoule(record.energy)} µJ). {ways} ways, {len(record.candidates)} "
        f"candidates, {len(record.front)} on the front; chosen on {record.selection.rows:,} rows "
        f"({record.selection.split}), judged on {record.judging.rows:,} others ({record.judging.split}), trained on "
        f"{record.train.rows:,}. Verdict: **{record.verdict.value}**."
    )
    rows = [
        "| | what | selection | judging | difference | energy, µJ | of the whole | parameters | limits |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| whole | | {100 * record.candidates[0].share:.1f} | {_percent(record.whole)} | | "
        f"{_microjoule(record.energy)} | 100 % | {record.parameters:,} | misses energy |",
    ]
    judged = {each.candidate: each.judged for each in record.alone} | {record.chosen: record.judged}
    rows += [
        _row(record, number, found) for number, found in judged.items() if number is not None and found is not None
    ]
    alone = [
        f"{'reducing' if each.kind == 'reduced' else 'converting'} alone "
        + ("keeps to the limits" if each.met else f"misses {missed_text(each.missed)}")
        for each in record.alone
    ]
    told = f"On the selection rows {' and '.join(alone)}."
    if record.settings["budget"] is not None:
        told += f" The search had {record.settings['budget'] / 60:g} minutes on a busy machine."
    if record.untried:
        told += f" The budget left no time for {len(record.untried)} more: {'; '.join(record.untried)}."
    if record.relaxations:
        told += " " + " ".join(
            f"Would do: {each.limit} {each.to:.4g} instead of {each.asked:.4g} ({record.candidates[each.candidate]})."
            for each in record.relaxations
        )
    told += "".join(f" Note: {note}." for note in record.notes)
    image = f"![the front](../images/tailoring_{name}.png)"
    return "\n\n".join([f"## {case.title[0].upper()}{case.title[1:]}", head, image, "\n".join(rows), _filled(told)])


def _row(record: TailorRecord, number: int, judged: Judgement) -> str:
    found = record.candidates[number]
    taken = " (taken)" if number == record.chosen else " alone"
    kept = "kept" if judged.met else f"misses {missed_text(judged.missed)}"
    return (
        f"| {found.kind}{taken} | {found} | {100 * found.share:.1f} | {_percent(judged.accuracy)} | "
        f"{_points(judged)} | {_microjoule(judged.energy)} | {100 * judged.energy / record.energy:.1f} % | "
        f"{found.parameters:,} | {kept} |"
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _percent(interval: Any) -> str:
    return f"{100 * interval.value:.1f} ({100 * interval.low:.1f}–{100 * interval.high:.1f})"


def _points(judged: Judgement) -> str:
    found, p = judged.cost.interval, judged.cost.p
    spread = "" if found is None else f" ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    return f"{100 * judged.cost.difference:+.1f}{spread}" + ("" if p is None else f", p = {p:.2g}")


def _microjoule(picojoules: float) -> str:
    return f"{picojoules / 1e6:.3g}"


def _tell(stage: str, done: int, total: int) -> None:
    print(f"{stage} {done}/{total}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
