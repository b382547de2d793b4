"""Transfer learning on real data: is a trained base worth it, and how much of it should be unfrozen?

From ResNet-20 trained on CIFAR-10 to twenty classes of CIFAR-100 and to Fashion-MNIST (28×28 grey images, resized and
given three channels), 1,000 training images each. Every arm has the same network, images, augmentation and seeds:

- ``scratch``: all weights drawn anew, 30 epochs with a cosine schedule;
- ``frozen``: the slides' first stage, only the head is trained, 10 epochs;
- ``top 1``, ``top 2``, ``all``: the second stage, 10 more epochs at 0.3 of the rate with so many blocks free;
- ``kept``: what ``transfer`` gives by default: of ``frozen`` and ``top 2`` the one better on 250 validation images.

- ``top 2, long``, ``all, long``: the second stage with 20 epochs and a cosine schedule, so that both the 30 epochs and
  the schedule are those of ``scratch``. These two were added after the test figures of the others were known, to see
  whether the shorter training was what they lacked; read them as a second look, not as a first one.

The rates were chosen beforehand by ``--pilot`` (transfer_pilot.csv), on validation images and with another seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import machine
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval, mean_interval, paired_bootstrap
from weightsmith.core.storage import write_atomic
from weightsmith.data import Data, load
from weightsmith.data.splits import stratified_split
from weightsmith.data.tensors import Split
from weightsmith.networks import load as load_network
from weightsmith.networks import scores, weights_digest
from weightsmith.training.schedules import Schedule
from weightsmith.training.stages import ReusedPart, TransferRecipe, Tried

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_BASE = "akamaster_resnet20.safetensors"
_IMAGES, _VALIDATION, _TEST = 1000, 250, 2000
_BLOCKS = 10
_RATE, _SCRATCH, _FINER = 0.05, 0.03, 0.3
_EPOCHS, _SCRATCH_EPOCHS = (10, 10), 30
_AUGMENT = "crop-flip"
_PILOT_SEED = 1000
_UNFROZEN = {"top 1": 1, "top 2": 2, "all": _BLOCKS}
_LONG = {"top 2, long": 2, "all, long": _BLOCKS}
_LONG_EPOCHS = 20
ARMS = ("scratch", "frozen", "top 1", "top 2", "all", "kept")


@dataclasses.dataclass(frozen=True, eq=False)
class Row(Record):
    """An arm: its test accuracy with each seed, their mean, and how far it lies from two other arms.

    Of each difference, the first interval is over the seeds (Student, paired), the second over the test images
    (bootstrap of pairs, the mean over the seeds of each image).
    """

    arm: str
    accuracies: tuple[float, ...]
    mean: Interval
    from_scratch: tuple[Interval, ...]
    from_frozen: tuple[Interval, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Results(Record):
    """What the benchmark gave."""

    command: str
    machine: str
    settings: dict[str, Any]
    tasks: dict[str, tuple[Row, ...]]
    origin: Origin


def cifar100() -> Data:
    """Every fifth class of CIFAR-100."""
    whole = load("cifar100", splits=("train", "test"))
    chosen = list(range(0, 100, 5))
    parts = {name: _of_classes(whole.split(name), chosen) for name in ("train", "test")}
    names = tuple(whole.classes[label] for label in chosen)
    return _drawn(dataclasses.replace(whole, name="cifar100, 20 classes", classes=names, **parts))  # type: ignore[arg-type]


def fashion() -> Data:
    """Fashion-MNIST."""
    return _drawn(load("fashion-mnist", splits=("train", "test")))


TASKS: dict[str, Callable[[], Data]] = {"cifar100": cifar100, "fashion-mnist": fashion}


def _of_classes(split: Split, chosen: Sequence[int]) -> Split:
    rows = np.flatnonzero(np.isin(split.y.numpy(), chosen))
    taken = split.take(rows)
    place = np.full(int(split.y.max()) + 1, -1)
    place[list(chosen)] = range(len(chosen))
    return Split(taken.x, taken.y.new_tensor(place[taken.y.numpy()]))


def _drawn(data: Data) -> Data:
    """1,000 training, 250 validation and 2,000 test images, a fixed stratified draw."""
    train, test = data.split("train"), data.split("test")
    sizes = (_IMAGES, _VALIDATION, len(train) - _IMAGES - _VALIDATION)
    first, second, _ = stratified_split(train.y, sizes, seed=0)
    tested = stratified_split(test.y, (_TEST, len(test) - _TEST), seed=0)[0] if len(test) > _TEST else slice(None)
    return dataclasses.replace(data, train=train.take(first), validation=train.take(second), test=test.take(tested))


def _recipe(
    data: Data, seed: int, rate: str, epochs: tuple[int, int] = _EPOCHS, finer: float = _FINER
) -> TransferRecipe:
    base = load_network(Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / _BASE)
    options = {"augment": _AUGMENT, "diagnose": False}
    return TransferRecipe(base, data, {}, None, Schedule.parse(rate), finer, epochs, seed, None, options)


def _scratch(data: Data, seed: int, rate: float) -> Tried:
    recipe = _recipe(data, seed, f"cosine:{rate}", (_SCRATCH_EPOCHS, 1))
    cut = ReusedPart(_BLOCKS, _BLOCKS)
    return recipe.stage(recipe.graft(cut), cut, 0)


def _frozen(data: Data, seed: int, rate: float) -> Tried:
    recipe = _recipe(data, seed, f"constant:{rate}")
    return recipe.stage(recipe.graft(ReusedPart(_BLOCKS)), ReusedPart(_BLOCKS), 0)


def measure(data: Data, seed: int) -> dict[str, list[int]]:
    """For each arm which test images are right (1 or 0)."""
    recipe, cut = _recipe(data, seed, f"constant:{_RATE}"), ReusedPart(_BLOCKS)
    tried = {"scratch": _scratch(data, seed, _SCRATCH), "frozen": _frozen(data, seed, _RATE)}
    first = tried["frozen"]
    for arm, count in _UNFROZEN.items():
        tried[arm] = recipe.stage(first.network, cut, count, (first,))
    tried["kept"] = max((first, tried["top 2"]), key=lambda one: int(one.right.sum()))
    return {arm: _right(tried[arm], data) for arm in ARMS}


def measure_long(data: Data, seed: int) -> dict[str, list[int]]:
    """The same for the longer second stages, with the frozen stage they start from."""
    first = _frozen(data, seed, _RATE)
    recipe = _recipe(data, seed, f"cosine:{_RATE}", (_EPOCHS[0], _LONG_EPOCHS))
    tried = {arm: recipe.stage(first.network, ReusedPart(_BLOCKS), count, (first,)) for arm, count in _LONG.items()}
    return {arm: _right(one, data) for arm, one in ({"frozen": first} | tried).items()}


def equal_budget(data: Data, seed: int) -> float:
    """Test accuracy with the length and the kind of schedule that ``scratch`` has: 10 epochs frozen, then 20 with all
    blocks free on a cosine from the first rate."""
    first = _frozen(data, seed, _RATE)
    epochs = (_EPOCHS[0], _SCRATCH_EPOCHS - _EPOCHS[0])
    recipe = _recipe(data, seed, f"cosine:{_RATE}", epochs, finer=1.0)
    network = recipe.stage(first.network, ReusedPart(_BLOCKS), _BLOCKS, (first,)).network
    test = data.split("test")
    return float((scores(network, test.x).argmax(1) == test.y).double().mean())


def _right(tried: Tried, data: Data) -> list[int]:
    test = data.split("test")
    right: list[int] = (scores(tried.network, test.x).argmax(1) == test.y).int().tolist()
    return right


def summary(right: Sequence[dict[str, list[int]]]) -> tuple[Row, ...]:
    """The rows of a task from what each seed gave."""
    arrays = {arm: np.array([one[arm] for one in right], dtype=np.float64) for arm in (*ARMS, *_LONG)}

    def difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[Interval, ...]:
        if a is b:
            return ()
        return mean_interval(a.mean(1) - b.mean(1)), paired_bootstrap(a.mean(0), b.mean(0), seed=0)

    return tuple(
        Row(
            arm,
            tuple(values.mean(1).tolist()),
            mean_interval(values.mean(1)),
            difference(values, arrays["scratch"]),
            difference(values, arrays["frozen"]),
        )
        for arm, values in arrays.items()
    )


def pilot(out: Path) -> None:
    """Validation accuracy for some settings, with a seed that the benchmark does not use, as a table of its own."""
    lines = ["task,arm,setting,validation accuracy"]

    def note(task: str, arm: str, setting: str, tried: Tried) -> Tried:
        lines.append(f"{task},{arm},{setting},{tried.stage.accuracy.value:.3f}")
        print(lines[-1], flush=True)
        return tried

    for name, make in TASKS.items():
        data = make()
        for rate in (0.01, 0.03, 0.1):
            note(name, "scratch", f"rate {rate:g}", _scratch(data, _PILOT_SEED, rate))
        frozen = {
            rate: note(name, "frozen", f"rate {rate:g}", _frozen(data, _PILOT_SEED, rate)) for rate in (0.01, 0.05, 0.2)
        }
        first = frozen[_RATE]
        for finer in (0.1, 0.3, 1.0):
            recipe = _recipe(data, _PILOT_SEED, f"constant:{_RATE}", finer=finer)
            for arm, count in _UNFROZEN.items():
                note(name, arm, f"factor {finer:g}", recipe.stage(first.network, ReusedPart(_BLOCKS), count, (first,)))
    write_atomic(out / "transfer_pilot.csv", "\n".join(lines) + "\n")


def table(rows: Sequence[Row]) -> str:
    """One line per arm, in per cent and points."""
    lines = ["| arm | test accuracy, % | seeds | minus scratch | minus frozen |", "|---|---|---|---|---|"]
    for row in rows:
        seeds = " ".join(f"{100 * value:.1f}" for value in row.accuracies)
        mean = f"**{100 * row.mean.value:.1f}** ({100 * row.mean.low:.1f} – {100 * row.mean.high:.1f})"
        lines.append(f"| {row.arm} | {mean} | {seeds} | {_points(row.from_scratch)} | {_points(row.from_frozen)} |")
    return "\n".join(lines)


def _points(intervals: tuple[Interval, ...]) -> str:
    if not intervals:
        return "–"
    seeds, images = (f"{100 * one.low:+.1f} … {100 * one.high:+.1f}" for one in intervals)
    return f"{100 * intervals[0].value:+.1f} (seeds {seeds}; images {images})"


def page(results: Results) -> str:
    """The Markdown page."""
    parts = [
        "# transfer",
        (__doc__ or "").replace("``", "`").strip(),
        "Mean over the seeds with Student's 95 % interval; differences in points, paired, with one 95 % interval over "
        f"the seeds (Student) and one over the {_TEST:,} test images (bootstrap). The training images are one fixed "
        "draw: how much another draw would change is not measured.",
    ]
    for name, rows in results.tasks.items():
        parts += [f"## {name}", table(rows)]
    told = ", ".join(f"{key} {value}" for key, value in results.settings.items())
    versions = ", ".join(f"{key} {value}" for key, value in results.origin.versions.items())
    parts += [f"Settings: {told}.", f"{versions}; {results.machine}. Made by `{results.command}`."]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and write docs/results/transfer.md and .json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transfer", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pilot", action="store_true", help="only show how the rates are chosen")
    parser.add_argument("--equal", choices=TASKS, help="only all blocks free, with scratch's length and schedule")
    parser.add_argument("--work", type=Path, help="folder for a journal: the same command again goes on")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results", help="default: docs/results")
    asked = parser.parse_args(arguments)
    if "WEIGHTSMITH_DATA" not in os.environ:
        print("transfer: left out, needs WEIGHTSMITH_DATA", file=sys.stderr)
        return 1
    if asked.pilot:
        pilot(asked.out)
        return 0
    if asked.equal:
        data = TASKS[asked.equal]()
        for seed in range(asked.seeds):
            print(f"{asked.equal}, seed {seed}: {equal_budget(data, seed):.4f}", flush=True)
        return 0
    settings = {
        "base": _BASE.partition(".")[0],
        "training images": _IMAGES,
        "validation images": _VALIDATION,
        "test images": _TEST,
        "batch": 32,
        "optimiser": "momentum:0.9",
        "augmentation": _AUGMENT,
        "rate": _RATE,
        "factor of the rate when unfrozen": _FINER,
        "rate from scratch": _SCRATCH,
        "epochs frozen, unfrozen": list(_EPOCHS),
        "epochs from scratch": _SCRATCH_EPOCHS,
    }
    tasks: dict[str, tuple[Row, ...]] = {}
    inputs = {"base": weights_digest(load_network(Path(os.environ["WEIGHTSMITH_DATA"]) / "weights" / _BASE))}
    journal = None if asked.work is None else Journal(asked.work / "journal.jsonl", settings)
    for name, make in TASKS.items():
        data = make()
        inputs[name] = data.digest()
        tasks[name] = summary([_both(journal, data, name, seed) for seed in range(asked.seeds)])
        print(f"{name}\n{table(tasks[name])}\n", flush=True)
    origin = Origin(inputs=inputs)
    told = settings | {"epochs unfrozen, long": _LONG_EPOCHS}
    results = Results("python -m benchmarks.transfer", machine(), told, tasks, origin)
    write_atomic(asked.out / "transfer.json", results.to_json(indent=1) + "\n")
    write_atomic(asked.out / "transfer.md", page(results))
    return 0


def _both(journal: Journal | None, data: Data, name: str, seed: int) -> dict[str, list[int]]:
    """All arms of one seed."""
    first = _once(journal, f"{name} {seed}", lambda: measure(data, seed))
    second = _once(journal, f"{name} {seed} long", lambda: measure_long(data, seed))
    if second["frozen"] != first["frozen"]:
        print(f"{name}, seed {seed}: the frozen stage did not repeat exactly (another version?)", file=sys.stderr)
    return {**second, **first}


def _once(journal: Journal | None, key: str, run: Callable[[], dict[str, list[int]]]) -> dict[str, list[int]]:
    """What ``run`` gives, from the journal if it is done."""
    if journal is not None and key in journal:
        found: dict[str, list[int]] = journal[key]
        return found
    start = time.monotonic()
    right = run()
    if journal is not None:
        journal.append(key, right, time.monotonic() - start)
    return right


if __name__ == "__main__":
    sys.exit(main())
