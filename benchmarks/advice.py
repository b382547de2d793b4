"""Advice on damaged networks: is what a layer's grade suggests right, when the damage is known?

Networks of two hidden layers are trained on digits and damaged on purpose, each in one way: stopped early, trained on
labels of which most are random, trained at too large a rate, made far too wide, or given Gaussian noise. The first and
second layer of each are graded (default evidence). *By default* are networks of other widths, trained on digits and
on 5,000 images of Fashion-MNIST by `ws.train` with nothing but a number of epochs. For every kind of advice, *right* is
how many of the damaged layers get it, *false* how many of the others do. Rules were chosen on seeds that are not among
those of the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import weightsmith as ws
from benchmarks.measure import machine
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin, Record, versions
from weightsmith.core.seeds import pinned_threads, torch_stream
from weightsmith.core.storage import write_atomic
from weightsmith.grading.answer import ADVICE, advice
from weightsmith.grading.grade import grade

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_FIRST_SEED = 100  # rules were chosen on seeds below
_STEPS, _BATCH, _RATE = 1500, 64, 1e-3
_WIDTHS = (128, 128)


@dataclass(frozen=True)
class _Rows:
    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


def _network(seed: int, widths: tuple[int, int]) -> nn.Sequential:
    first, second = widths
    network = nn.Sequential(nn.Linear(64, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, 10))
    draws = torch_stream(seed, "advice", "init")
    with torch.no_grad():
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_uniform_(layer.weight, a=5**0.5, generator=draws)
                layer.bias.zero_()
    return network


def _train(seed: int, rows: _Rows, *, steps: int = _STEPS, rate: float = _RATE, **how: object) -> nn.Sequential:
    widths: tuple[int, int] = how.get("widths", _WIDTHS)  # type: ignore[assignment]
    network, labels, draws = _network(seed, widths), rows.y.clone(), torch_stream(seed, "advice", "rows")
    if how.get("random_labels"):
        wrong = torch.rand(len(labels), generator=draws) < float(how["random_labels"])  # type: ignore[arg-type]
        labels[wrong] = torch.randint(0, 10, (int(wrong.sum()),), generator=draws)
    optimiser = torch.optim.Adam(network.parameters(), rate)
    for _ in range(steps):
        batch = torch.randint(0, len(labels), (_BATCH,), generator=draws)
        loss = nn.functional.cross_entropy(network(rows.x[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return network


def damaged(seed: int, rows: _Rows) -> Iterator[tuple[str, nn.Sequential]]:
    """A healthy network and one of each damage."""
    healthy = _train(seed, rows)
    yield "healthy", healthy
    yield "stopped early", _train(seed, rows, steps=30)
    yield "random labels", _train(seed, rows, steps=3 * _STEPS, random_labels=0.7)
    yield "rate too large", _train(seed, rows, rate=0.05)
    yield "too wide", _train(seed, rows, widths=(1024, 1024))
    noisy, draws = _train(seed, rows), torch_stream(seed, "advice", "noise")
    with torch.no_grad():
        for layer in noisy:
            if isinstance(layer, nn.Linear):
                layer.weight += 2 * layer.weight.std() * torch.randn(layer.weight.shape, generator=draws)
    yield "noise added", noisy


_DEFAULTS = ("mlp:128,64", "mlp:256,128", "mlp:64,64")


def by_default(seed: int) -> Iterator[tuple[str, nn.Module, float]]:
    """Networks as ``ws.train`` makes them, with their test accuracies: those that nothing is wrong with."""
    images = ws.data.load("fashion-mnist")
    train, test = images.split("train"), images.split("test")
    few = {"train": (train.x[:5_000], train.y[:5_000]), "test": (test.x[:2_000], test.y[:2_000])}
    for name, data, epochs in (("digits", ws.data.load("digits"), 30), ("Fashion-MNIST", few, 12)):
        for network in _DEFAULTS:
            run = ws.train(network, data, epochs=epochs, seed=seed)
            found = ws.evaluate(run.network, data)
            assert isinstance(found, ws.Evaluation)
            yield f"by default, {name}", run.network, found.accuracy.value


@dataclass(frozen=True, eq=False)
class Graded(Record):
    """One layer of one network: its damage, the accuracy of the network, the verdict in words, and what is advised."""

    seed: int
    damage: str
    layer: str
    accuracy: float
    words: str
    advised: str | None


@dataclass(frozen=True, eq=False)
class Results(Record):
    """What the benchmark gave."""

    command: str
    machine: str
    layers: tuple[Graded, ...]
    origin: Origin


def measure(seed: int, rows: _Rows) -> list[Graded]:
    """The hidden layers of all networks of a seed."""
    found: list[Graded] = []
    for damage, network in damaged(seed, rows):
        with torch.no_grad():
            accuracy = float((network(rows.test_x).argmax(1) == rows.test_y).float().mean())
        found += _graded(seed, damage, network, accuracy)
    for made, trained, accuracy in by_default(seed):
        found += _graded(seed, made, trained, accuracy)
    return found


def _graded(seed: int, damage: str, network: nn.Module, accuracy: float) -> list[Graded]:
    grades = grade(network)
    return [
        Graded(seed, damage, layer.name, accuracy, layer.words, advice(layer, grades)) for layer in grades.layers[:2]
    ]


_RIGHT = {"train longer": ("stopped early", "noise added"), "cut": ("too wide",)}


def page(results: Results) -> str:
    """The Markdown page."""
    layers = results.layers
    damages = list(dict.fromkeys(layer.damage for layer in layers))
    seeds = len({layer.seed for layer in layers})
    parts = ["# Advice on damaged networks", (__doc__ or "").replace("``", "`").partition("\n\n")[2].strip()]
    parts.append(f"{seeds} seeds, two layers of each network.")
    lines = [
        "| damage | layers | mean accuracy, % | verdicts | " + " | ".join(f"*{kind}*, %" for kind in ADVICE) + " |"
    ]
    lines.append("|---|---|---|---|" + "---|" * len(ADVICE))
    for damage in damages:
        own = [layer for layer in layers if layer.damage == damage]
        words = Counter(layer.words.partition(" (")[0] for layer in own)
        cells = [f"{100 * sum(layer.advised == kind for layer in own) / len(own):.0f}" for kind in ADVICE]
        said = ", ".join(f"{count} {word}" for word, count in words.most_common())
        accuracy = 100 * sum(layer.accuracy for layer in own) / len(own)
        lines.append(f"| {damage} | {len(own)} | {accuracy:.1f} | {said} | " + " | ".join(cells) + " |")
    parts.append("\n".join(lines))
    for kind, meant in _RIGHT.items():
        right = [layer.advised == kind for layer in layers if layer.damage in meant]
        false = [layer.advised == kind for layer in layers if layer.damage not in meant]
        given = "given" if sum(right) >= 0.7 * len(right) else "too rarely right to be given"
        parts.append(
            f"*{kind}* ({' or '.join(meant)}): right in {sum(right)} of {len(right)} damaged layers, false in "
            f"{sum(false)} of {len(false)} others: {given}."
        )
    parts.append(
        "*Regularise* and *leave* are not advised: layers trained on random labels or at too large a rate have the "
        "verdicts of healthy ones, and those of too wide networks are called well trained."
    )
    packages = ", ".join(f"{key} {value}" for key, value in results.origin.versions.items())
    return "\n\n".join([*parts, f"{packages}; {results.machine}. Made by `{results.command}`."]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Train, damage, grade; write docs/results/advice.md and .json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advice", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=Path, required=True, help="folder for a journal: the same command again goes on")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results", help="default: docs/results")
    asked = parser.parse_args(arguments)
    journal = Journal(asked.work / "journal.jsonl", {"benchmark": "advice"})
    found: list[Graded] = []
    with pinned_threads(1):
        for seed in range(_FIRST_SEED, _FIRST_SEED + asked.seeds):
            if str(seed) not in journal:
                start = time.monotonic()
                made = [layer.to_dict() for layer in measure(seed, _rows())]
                journal.append(str(seed), made, time.monotonic() - start)
            found += [Graded.from_dict(layer) for layer in journal[str(seed)]]
    command = f"python -m benchmarks.advice --seeds {asked.seeds} --work FOLDER"
    results = Results(command, machine(), tuple(found), Origin(seed=_FIRST_SEED, versions=versions("numba", "scipy")))
    write_atomic(asked.out / "advice.json", results.to_json(indent=1) + "\n")
    write_atomic(asked.out / "advice.md", page(results))
    print(page(results))
    return 0


def _rows() -> _Rows:
    from sklearn.datasets import load_digits

    images = load_digits()
    order = np.random.default_rng(0).permutation(len(images.target))
    x, y = torch.tensor(images.data[order] / 16).float(), torch.tensor(images.target[order])
    return _Rows(x[:1200], y[:1200], x[1200:], y[1200:])


if __name__ == "__main__":
    sys.exit(main())
