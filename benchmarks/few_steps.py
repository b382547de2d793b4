"""Accuracy of converted networks in a few steps, on all 10,000 test images of CIFAR-10.

    python -m benchmarks.few_steps                     all cases, in the order of _CASES
    python -m benchmarks.few_steps resnet20:graded:2   one of them
    python -m benchmarks.few_steps --page              only write the page from what is there

The settings were chosen on training images and are the same for all networks (``_SETTINGS``). A case is kept in a
folder (``--folder``), block by block of images: stopped at any moment, the same command goes on. What stands under "How
to read it" on the page is written by hand and stays.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.core.records import versions
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.core.storage import write_atomic
from weightsmith.networks.evaluation import scores
from weightsmith.spiking.conversion.balance import Balance
from weightsmith.spiking.conversion.calibrate import Calibrate
from weightsmith.spiking.conversion.preparing import ConversionSettings, Prepared, checked_precision, prepare
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.energy.cost import Prices, SpikeCost, UnitCounts, spike_cost
from weightsmith.spiking.energy.rivals import rivals_of
from weightsmith.spiking.files import load_spiking, save_spiking
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import Neuron
from weightsmith.spiking.simulation.simulate import simulate

__all__ = ["BLOCK", "FILES", "FOLDER", "main", "plain_answers"]

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "docs" / "results"
_READING = "## How to read it"
BLOCK = 500
FOLDER = _ROOT / "build" / "few_steps"
FILES = {
    **{f"resnet{depth}": f"akamaster_resnet{depth}.safetensors" for depth in (20, 32, 44, 56)},
    "vgg5": "vgg5_fc512.safetensors",
    "distiller": "distiller_resnet20_dense.safetensors",
    "distiller thinned": "distiller_resnet20_channel_regularized_resnet20_finetuned.safetensors",
    "distiller shortened": "distiller_resnet20_4D_regularized_5Lremoved_finetuned.safetensors",
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "signed": {"neuron": "if:signed=true", "balance": "mse", "calibrate": "weights"},
    "graded": {"neuron": "graded:5", "balance": "percentile", "calibrate": "weights"},
    "signed, distilled": {"neuron": "if:signed=true", "balance": "mse", "calibrate": "distill"},
    "graded, distilled": {"neuron": "graded:5", "balance": "percentile", "calibrate": "distill"},
    "signed, distilled, 40,000 images": {
        "neuron": "if:signed=true",
        "balance": "mse",
        "calibrate": "distill:images=40000",
    },
    "graded, distilled, 40,000 images": {
        "neuron": "graded:5",
        "balance": "percentile",
        "calibrate": "distill:images=40000",
    },
    "graded, fewer events, distilled": {
        "neuron": "graded:5",
        "balance": "percentile:factor=1.15",
        "calibrate": "distill",
    },
    "signed, distilled, int8": {
        "neuron": "if:signed=true",
        "balance": "mse",
        "calibrate": "distill",
        "precision": "int8",
    },
    "graded, distilled, int8": {
        "neuron": "graded:5",
        "balance": "percentile:factor=1.15",
        "calibrate": "distill",
        "precision": "int8",
    },
    "plain": {"neuron": "if", "balance": "percentile", "calibrate": None},
}
_FINE, _FINE_FROM = "graded:6", 3  # from so many steps on graded neurons use a sixth size
_SKIPPED = "int8, zeros skipped"


class Case(NamedTuple):
    """A network, a kind of neuron, and a number of steps."""

    network: str
    kind: str
    steps: int

    def __str__(self) -> str:
        return f"{self.network}:{self.kind}:{self.steps}"


_CASES = [
    *(Case("resnet20", kind, steps) for kind, steps in (("signed", 4), ("graded", 2), ("graded", 3))),
    *(Case("resnet56", kind, steps) for kind, steps in (("graded", 4), ("signed", 8), ("signed", 4))),
    *(Case("resnet20", "signed, distilled", steps) for steps in (4, 8)),
    *(Case("resnet56", "signed, distilled", steps) for steps in (4, 8)),
    *(Case(network, "graded, distilled", 2) for network in ("resnet20", "resnet56")),
    *(Case("resnet20", "signed", steps) for steps in (8, 16)),
    *(Case("resnet56", kind, steps) for kind, steps in (("graded", 2), ("signed", 16))),
    *(Case("vgg5", kind, steps) for kind, steps in (("signed", 4), ("signed", 8), ("graded", 2), ("signed", 2))),
    *(Case(network, "graded", steps) for network in ("resnet32", "resnet44") for steps in (2, 4)),
    *(Case(network, "signed", steps) for network in ("resnet32", "resnet44") for steps in (8, 4)),
    *(Case("resnet20", kind, steps) for kind, steps in (("graded", 4), ("signed", 2), ("plain", 8), ("signed", 32))),
    *(Case(network, "signed", 16) for network in ("vgg5", "resnet32", "resnet44")),
    *(Case(network, "signed", 2) for network in ("resnet32", "resnet44", "resnet56")),
    *(Case("distiller", kind, steps) for kind, steps in (("graded", 2), ("graded", 3), ("signed", 8))),
    *(Case(f"distiller {cut}", "graded", 3) for cut in ("thinned", "shortened")),
    *(Case(network, "signed", 32) for network in ("vgg5", "resnet32", "resnet44", "resnet56")),
    Case("resnet20", "graded, fewer events, distilled", 2),
    *(Case(network, "graded, distilled, int8", 2) for network in ("resnet20", "resnet56")),
    Case("resnet20", "signed, distilled, int8", 4),
    *(Case(network, "signed, distilled", 16) for network in ("resnet20", "resnet56")),
    *(Case("resnet20", "signed, distilled, 40,000 images", steps) for steps in (4, 8)),
    Case("resnet56", "graded, distilled, 40,000 images", 2),
    *(Case("resnet56", "signed, distilled, 40,000 images", steps) for steps in (4, 8)),
]


_BARS = {  # points that may be lost: must and aim, set before the runs
    ("resnet20", "signed", 4): (6, 4),
    ("resnet20", "signed", 8): (1.5, 0.7),
    ("resnet20", "signed", 16): (0.8, 0.2),
    ("resnet20", "graded", 2): (1.3, 0.7),
    ("resnet20", "graded", 3): (0.8, 0.2),
    ("resnet56", "signed", 4): (14, 8),
    ("resnet56", "signed", 8): (6, 3),
    ("resnet56", "signed", 16): (1.5, 0.5),
    ("resnet56", "graded", 2): (4, 1.5),
    ("resnet56", "graded", 4): (1, 0.3),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the cases asked for, then write the page of all that are finished."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few_steps", description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"NETWORK:KIND:STEPS; networks {', '.join(FILES)}, kinds signed …")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where runs are kept")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args(arguments)
    weights = os.environ.get("WEIGHTSMITH_DATA")
    if weights is None:
        parser.error("WEIGHTSMITH_DATA must name the folder with cifar10 and the pretrained networks")
    asked.folder.mkdir(parents=True, exist_ok=True)
    if not asked.page:
        data = ws.data.load("cifar10")
        for case in [_parsed(text) for text in asked.cases] or _CASES:
            _run(case, Path(weights) / "weights" / FILES[case.network], data, asked.folder)
    _write(asked.folder)
    return 0


def _parsed(text: str) -> Case:
    network, kind, steps = text.split(":")
    return Case(network, kind, int(steps))


def _run(case: Case, file: Path, data: Any, folder: Path) -> None:
    """Prepare the case once, then run it block by block; each block is written when it is done."""
    facts_file = folder / f"{case}.json"
    network_file = folder / f"{case}.safetensors"
    if not network_file.exists():
        facts, network = _prepared(case, file, data)
        save_spiking(network, network_file)
        write_atomic(facts_file, json.dumps(facts))
    facts = json.loads(facts_file.read_text(encoding="utf-8"))
    network = load_spiking(network_file)
    test = data.split("test")
    plain = plain_answers(case.network, file, test.x, folder)
    while len(facts["right"]) < len(test):
        first = len(facts["right"])
        rows = slice(first, first + BLOCK)
        begun = time.process_time()
        counts = UnitCounts(network) if first == 0 else None
        observers = () if counts is None else (counts,)
        found = simulate(network, test.x[rows], case.steps, precision=_precision(case), observers=observers)
        facts["seconds"] += time.process_time() - begun
        facts["events"] += int(sum(found.spikes().values()))
        facts["right"] += (found.answers[:, -1] == test.y[rows].numpy()).tolist()
        if counts is not None:
            facts |= _costs(spike_cost(network, found, counts, precision=_precision(case)))
        write_atomic(facts_file, json.dumps(facts))
        here = (
            np.array(facts["right"]).mean()
            - (plain[: len(facts["right"])] == test.y[: len(facts["right"])].numpy()).mean()
        )
        print(f"{case}: {len(facts['right'])} images, {100 * here:+.2f} points", file=sys.stderr, flush=True)


def _precision(case: Case) -> Precision:
    return checked_precision(_SETTINGS[case.kind].get("precision", "float32"))


def _costs(cost: SpikeCost) -> dict[str, Any]:
    """Operations of an image, and its energy in picojoules at the prices of floats and of integers."""
    return {
        "accumulates": float(cost.accumulates[-1]),
        "macs": cost.macs,
        "once": int(sum(layer.multiplies_once for layer in cost.layers)),
        "energy": {
            "float32": cost.at(Prices(numbers="float32")).energy,
            "integers": cost.at(Prices(numbers="int8")).energy,
            "integers, sums shifted": cost.at(Prices(numbers="int8", shifts="sums")).energy,
            "integers, shifts free": cost.at(Prices(numbers="int8", shift=0.0)).energy,
            "memory": cost.memory_energy,
        },
    }


def _prepared(case: Case, file: Path, data: Any) -> tuple[dict[str, Any], SpikingNetwork]:
    asked = dict(_SETTINGS[case.kind])
    if case.kind.startswith("graded") and case.steps >= _FINE_FROM:
        asked["neuron"] = _FINE
    subject = read_subject(ws.load(file), data, images=1, seed=0)
    how = asked["calibrate"]
    begun = time.process_time()
    prepared: Prepared = prepare(
        subject,
        ConversionSettings(
            neuron=Neuron.of(asked["neuron"]),  # type: ignore[arg-type]
            encode=Constant(),
            balance=Balance.of(asked["balance"]),  # type: ignore[arg-type]
            calibrate=None if how is None else Calibrate.of(how),  # type: ignore[arg-type]
            adjust=None,
            mismatch=None,
            precision=_precision(case),
            steps=case.steps,
            seed=0,
        ),
    )
    seconds = time.process_time() - begun
    units = sum(int(np.prod(prepared.network.shapes[node.name])) for node in prepared.network.populations)
    rivals = rivals_of(
        prepared.converted.network,
        data.split("test").x[:BLOCK],
        prepared.network.neuron.levels(case.steps),
        prepared.network if _precision(case) == "int8" else None,
    )
    facts = {
        "settings": asked,
        "calibration": seconds,
        "units": units,
        "rivals": [rival.to_dict() for rival in rivals],
        "right": [],
        "events": 0,
        "seconds": 0.0,
    }
    return facts, prepared.network


def plain_answers(name: str, file: Path, x: torch.Tensor, folder: Path) -> np.ndarray:
    """The answers of the network itself, computed once."""
    path = folder / f"{name}.npy"
    if not path.exists():
        np.save(path, scores(ws.load(file).eval(), x).argmax(dim=1).numpy())
    answers: np.ndarray = np.load(path)
    return answers


def _write(folder: Path) -> None:
    """The page of all finished cases, with its reading, if it has one already, and their facts.

    Cases of an earlier run that are not in the folder stay, as its facts have them; so does the table of the peer.
    """
    labels = ws.data.load("cifar10").split("test").y.numpy()
    path, facts_file = _RESULTS / "few_steps.md", _RESULTS / "few_steps.json"
    before = json.loads(facts_file.read_text(encoding="utf-8")) if facts_file.exists() else []
    known = {_case_of(facts): facts for facts in [*before, *_finished(folder, labels)] if facts["kind"] in _SETTINGS}
    kept = [known[case] for case in sorted(known, key=_order)]
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    reading = old[old.index(_READING) :] if _READING in old else ""
    peer = old[old.index(_PEER_TITLE) : old.index(_ENERGY_TITLE)] if _PEER_TITLE in old else ""
    bits = old[old.index(_BITS_TITLE) : old.index(_VERSIONS)] if _BITS_TITLE in old else ""
    made = f"{_VERSIONS}{', '.join(f'{k} {v}' for k, v in versions('numba').items())}. {machine()}."
    parts = (
        "# spiking: few steps",
        _HEAD,
        "\n".join([*_COLUMNS, *map(_row, kept)]),
        _missing(known),
        "\n".join(
            [
                _BARS_TITLE,
                "",
                *_BARS_COLUMNS,
                *(_bar(facts) for facts in kept if _bars_of(_case_of(facts)) is not None),
            ]
        ),
        _peer(folder, labels, known) or peer,
        _ENERGY,
        "\n".join([*_ENERGY_COLUMNS, *map(_energies, kept)]),
        _bits(folder, labels) or bits,
        f"{made} {_COMMAND}",
        reading,
    )
    write_atomic(path, "\n\n".join(part.rstrip() for part in parts if part) + "\n")
    write_atomic(facts_file, json.dumps(kept, indent=1) + "\n")


def _finished(folder: Path, labels: np.ndarray) -> Iterator[dict[str, Any]]:
    """The facts of all cases in the folder that were run on all images."""
    for file in folder.glob("*:*:*.json"):
        case, facts = _parsed(file.stem), json.loads(file.read_text(encoding="utf-8"))
        right = np.array(facts.pop("right"))
        if len(right) < len(labels):
            continue
        plain = np.load(folder / f"{case.network}.npy") == labels
        yield {
            **case._asdict(),
            "images": len(labels),
            "own": wilson(int(plain.sum()), len(labels)).to_dict(),
            "spiking": wilson(int(right.sum()), len(labels)).to_dict(),
            "difference": mcnemar(right, plain).to_dict(),
            **facts,
        }


def _row(facts: dict[str, Any]) -> str:
    """A row of the table of accuracies."""
    case, own, spiking, found = _case_of(facts), facts["own"], facts["spiking"], facts["difference"]
    low, high = found["interval"]["low"], found["interval"]["high"]
    events = facts["events"] / facts["images"]
    return (
        f"| {case.network} | {case.kind} | {case.steps} | {100 * own['value']:.2f} | "
        f"{100 * spiking['value']:.2f} ({100 * spiking['low']:.2f}–{100 * spiking['high']:.2f}) | "
        f"{100 * found['difference']:+.2f} ({100 * low:+.2f} to {100 * high:+.2f}) | {events:,.0f} | "
        f"{events / facts['units'] / case.steps:.3f} | {facts['accumulates'] / facts['macs']:.2f} | "
        f"{facts['calibration']:.0f} | {facts['seconds']:.0f} |"
    )


def _bars_of(case: Case) -> tuple[float, float] | None:
    """The bars of a case, which hold for all ways of calibration alike."""
    return _BARS.get((case.network, case.kind.split(",")[0], case.steps))


def _bar(facts: dict[str, Any]) -> str:
    """A row of the table of bars: points that may be lost, and that were."""
    case, found = _case_of(facts), facts["difference"]
    bars = _bars_of(case)
    assert bars is not None
    must, aim = bars
    ends = found["interval"]
    lost, low, high = (-100 * value for value in (found["difference"], ends["high"], ends["low"]))
    shown = round(lost, 2)  # whole images of 10,000
    verdict = "**missed**" if shown > must else "met" if shown > aim else "met, the aim too"
    asked = f"{case.network} | {case.kind} | {case.steps} | {must:g} | {aim:g}"
    return f"| {asked} | {lost:.2f} ({low:.2f} to {high:.2f}) | {verdict} |"


def _case_of(facts: dict[str, Any]) -> Case:
    return Case(facts["network"], facts["kind"], facts["steps"])


def _missing(done: Collection[Case]) -> str:
    """A sentence that names the cases that were not run on all images."""
    left = [f"{case.network} {case.kind} {case.steps}" for case in _CASES if case not in done]
    return f"Not run on all images: {', '.join(left)}." if left else ""


def _peer(folder: Path, labels: np.ndarray, known: dict[Case, dict[str, Any]]) -> str:
    """The table of SpikingJelly's converter, of the networks on which it was run; ours where it saw all images."""
    rows = []
    for file in sorted(folder.glob("*-spikingjelly-*.json")):
        facts = json.loads(file.read_text(encoding="utf-8"))
        for steps, answers in facts["right"].items():
            right = np.array(answers)
            plain = (np.load(folder / f"{facts['network']}.npy") == labels)[: len(right)]
            ours = known.get(Case(facts["network"], "signed", int(steps)))
            whole = ours is not None and len(right) == ours["images"]
            signed = f"{100 * ours['difference']['difference']:+.2f}" if ours is not None and whole else "–"
            found, spiking = mcnemar(right, plain), wilson(int(right.sum()), len(right))
            assert found.interval is not None
            rows.append(
                f"| {facts['network']} | {steps} | {len(right):,} | {100 * spiking.value:.2f} "
                f"({100 * spiking.low:.2f}–{100 * spiking.high:.2f}) | {100 * found.difference:+.2f} "
                f"({100 * found.interval.low:+.2f} to {100 * found.interval.high:+.2f}) | {signed} |"
            )
    return "\n\n".join([_PEER, "\n".join([*_PEER_COLUMNS, *rows])]) if rows else ""


def _bits(folder: Path, labels: np.ndarray) -> str:
    """The table of :mod:`benchmarks.few_bits`, of the networks on which it was run."""
    rows = []
    for name in FILES:
        files = sorted(folder.glob(f"{name}-bits-*.json"))
        if not files:
            continue
        plain = np.load(folder / f"{name}.npy") == labels
        rows.append(f"| {name} | {100 * plain.mean():.2f} |")
        for file in files:
            found = mcnemar(np.array(json.loads(file.read_text(encoding="utf-8"))["right"]), plain)
            assert found.interval is not None
            ends = f"{100 * found.interval.low:+.2f} to {100 * found.interval.high:+.2f}"
            rows[-1] += f" {100 * found.difference:+.2f} ({ends}) |"
    return "\n\n".join([_BITS, "\n".join([*_BITS_COLUMNS, *rows])]) if rows else ""


def _energies(facts: dict[str, Any]) -> str:
    """A row of the table of energies: those of the spiking network over those of its rivals."""
    case = _case_of(facts)
    own, rivals = facts["energy"], {rival["name"]: rival for rival in facts["rivals"]}
    few = [rival for name, rival in rivals.items() if name not in ("float32", "int8", _SKIPPED)]
    integers = own["integers"]
    int8 = _precision(case) == "int8"
    against = [
        "–" if int8 else f"{own['float32'] / rivals['float32']['energy']:.2f}",
        f"{1e-6 * integers:.2f}",
        *(f"{integers / rivals[name]['energy']:.2f}" for name in ("int8", _SKIPPED)),
        *(
            f"{own[name] / rivals[_SKIPPED]['energy']:.2f}" if case.kind.startswith("graded") and name in own else "–"
            for name in ("integers, sums shifted", "integers, shifts free")
        ),
        *(f"{integers / rival['energy']:.2f} ({rival['bits']})" for rival in few),
        *("–" for _ in range(2 - len(few))),
        f"{own['memory'] / rivals[_SKIPPED]['memory']:.2f}",
    ]
    floats = "–" if int8 else f"{1e-6 * own['float32']:.1f}"
    return f"| {case.network} | {case.kind} | {case.steps} | {floats} | {' | '.join(against)} |"


def _order(case: Case) -> tuple[int, int, int]:
    return list(FILES).index(case.network), list(_SETTINGS).index(case.kind), case.steps


_HEAD = """Pretrained networks, batch norm folded, constant input, converted without labels, on all 10,000 test images
of CIFAR-10. *signed*: `neuron=if:signed=true balance=mse calibrate=weights`; *graded*: `neuron=graded:5
balance=percentile calibrate=weights`, from three steps on with six sizes (`graded:6`); *plain*: `neuron=if
balance=percentile`, not calibrated; *distilled*: `calibrate=distill`, which also trains all weights together towards
the network on up to 3,000 training images without their labels (12,000 divided by the steps); *fewer events*:
thresholds are 1.15 times as large (`balance=percentile:factor=1.15`); *int8*: weights, inputs and sums are integers,
graded neurons as in *fewer events*; *40,000 images*: distilled on so many (`distill:images=40000`). Thresholds and
calibration see 512 training images (mse: 256); the settings are the same for all networks, and were chosen on training
images only, though earlier settings had been run on the test images. Accuracies in per cent with 95 % Wilson intervals;
differences to the network in points, paired, with 95 % intervals. Events are spikes of either sign and any size for an
image, *rate* events for each neuron and step. *Additions* are the accumulates of the spikes for each
multiply–accumulate of the network, counted on the first 500 images. CPU seconds on one thread: conversion with
thresholds and calibration, and the run of 10,000 images; on several machines, some beside other work, and all but
distilled neurons mostly with an engine that had no path by patterns yet."""
_COLUMNS = [
    "| network | neurons | steps | its accuracy | spiking | difference | events | rate | additions | to convert, s | "
    "to run, s |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
]
_BARS_TITLE = "## Bars set before the runs, in points lost"
_BARS_COLUMNS = ["| network | neurons | steps | must | aim | lost (95 %) | |", "|---|---|---|---|---|---|---|"]
_PEER_TITLE, _ENERGY_TITLE = "## Beside SpikingJelly's converter", "## Energy against the rivals"
_PEER = f"""{_PEER_TITLE}

SpikingJelly 2.0.0 on the same images, by the best of its recipes in a smaller comparison (the largest
activation and local threshold balancing were worse there): thresholds by channel at the 99.9th percentile of 512
training images, membranes at half a threshold, plain neurons with soft reset, constant input
(`python -m benchmarks.few_steps_peer resnet20 16`, in the peers' environment)."""
_PEER_COLUMNS = [
    "| network | steps | images | SpikingJelly | its difference | ours, signed, same images |",
    "|---|---|---|---|---|---|",
]
_ENERGY = f"""{_ENERGY_TITLE}

Arithmetic for an image, counted on the first 500 images at the prices of [the table](../spiking.md): with additions in
float32 against the float32 network, and with 32-bit integer additions against the network with 8-bit weights and
activations (every connection; zeros skipped) and with activations of as few bits as tell the same number of values (in
brackets). Neuron updates are included, and a shift for every graded event; *sums shifted*: events of a step arrive by
size and sums are shifted, K − 1 times for each neuron and step; *shifts free*: none is priced. Rows in *int8* were run
in integers, inputs and all weights in 8 bits; the others are runs in float32 at integer prices. Above 1 the rival wins.
The last column is the energy of memory accesses over that of the int8 network that skips zeros."""
_ENERGY_COLUMNS = [
    "| network | neurons | steps | float, µJ | of float32 | integers, µJ | of int8 | of int8, zeros skipped | sums "
    "shifted | shifts free | of few bits | of few bits, zeros skipped | memory |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
]
_BITS_TITLE, _VERSIONS = "## Accuracy of the rivals with few bits", "Versions: "
_BITS = f"""{_BITS_TITLE}

The networks themselves with activations of b bits and weights of 8, in points lost, on the same 10,000 images, paired.
Thresholds and calibration are those of *signed* on the same rows: 2ᵇ − 1 values above zero in place of as many steps,
each activation rounded once (`python -m benchmarks.few_bits resnet20`). No weights are trained."""
_BITS_COLUMNS = [
    "| network | its accuracy | 2 bits | 3 bits | 4 bits | 5 bits | 6 bits |",
    "|---|---|---|---|---|---|---|",
]
_COMMAND = "Made by `python -m benchmarks.few_steps`."


if __name__ == "__main__":
    sys.exit(main())
