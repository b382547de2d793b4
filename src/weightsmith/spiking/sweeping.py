"""Sweep: thresholds × smoothing × leak × reset × steps, chosen on training images, tested once.

The L4 adjustment multiplies the current of each unit of the first layer by a factor, which is the same as dividing its
threshold by it (seed 000, section 4). So all settings have their weights in common: they are laid out for the engine
once, the input spikes of an image and the currents of the first layer are computed once for all settings, and answers
after fewer steps are read off the longest run. Every setting sees the same spikes.

For each leak and reset two races are run on training images, one among the threshold factors alone (the baseline)
and one among factors and smoothings; winners are tested on the same test images.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.core.storage import write_atomic
from weightsmith.networks.architecture import architecture_of
from weightsmith.spiking.adjust import L4, channel_factors, population_means
from weightsmith.spiking.balance import Balance, MaxCurrent, Percentile
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.quantise import quantised, units_of
from weightsmith.spiking.racing import Race, Racing
from weightsmith.spiking.spike import Recipe, calibration_rows, checked_precision, encoding_of, prepare
from weightsmith.spiking.subject import Subject, read_subject
from weightsmith.spiking.sweep_results import Chosen, Setting, SettingResult, SpikeSweep
from weightsmith.spiking.sweep_runs import Answers, Heat, SharedBlock, Winner, block_of, first_synapses
from weightsmith.training.run import TrainRun
from weightsmith.training.settings import whole

__all__ = ["spike_sweep"]

_LEAKS = (1.0, 0.99, 0.97, 0.95, 0.9)
_FACTORS = (0.3, 0.4, 0.5, 0.7)
_SMOOTHINGS = (0.5, 1.0, 2.0, 5.0, 10.0)
Told = Callable[[str, int, int], None]


def spike_sweep(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    leaks: Sequence[float] = _LEAKS,
    resets: Sequence[str] = ("soft", "hard"),
    factors: Sequence[float] = _FACTORS,
    smoothings: Sequence[float] = _SMOOTHINGS,
    steps: int | Sequence[int] = 75,
    encode: Poisson | Constant | str = "poisson",
    balance: Percentile | MaxCurrent | str = "max-current",
    delay: bool = False,
    train_images: int = 200,
    test_images: int | None = 1000,
    mean_images: int = 64,
    race: Racing | str | None = "racing",
    precision: Precision = "float32",
    seed: int = 0,
    out: str | Path | None = None,
    progress: Told | None = None,
) -> SpikeSweep:
    """The best threshold factor, with and without L4 adjustment, for each leak, reset and number of steps.

    Factors multiply the thresholds that ``balance`` finds. ``train_images`` training images choose, ``test_images``
    test images (None: all) judge the winners once. ``mean_images`` give the mean membranes of the adjustment. With
    ``race=None`` every setting sees all training images. With ``out``, a folder, the sweep keeps its state there, and
    the same call goes on where it was stopped.
    """
    several = [steps] if isinstance(steps, int | np.integer) else list(steps)
    lengths = tuple(sorted({whole("steps", value) for value in several}))
    leaks, resets, factors, smoothings = (
        _listed(name, given)
        for name, given in (("leaks", leaks), ("resets", resets), ("factors", factors), ("smoothings", smoothings))
    )
    if not lengths:
        raise UsageError("a sweep needs at least one number of steps")
    _check_grid(leaks=leaks, resets=resets, factors=factors, smoothings=smoothings)
    recipe = Recipe(
        neuron=IF(delay=delay),
        encode=encoding_of(encode),
        balance=Balance.of(balance),  # type: ignore[arg-type]
        adjust=None,
        mismatch=None,
        precision=checked_precision(precision),
        steps=max(lengths),
        seed=whole("seed", seed, least=0),
    )
    rule: Racing | None = None if race is None else Race.of(race)  # type: ignore[assignment]
    groups = [_neuron(leak, reset, delay=delay) for leak in leaks for reset in resets]
    subject = read_subject(
        network, data, images=None if test_images is None else whole("test_images", test_images), seed=recipe.seed
    )
    settings = {
        "leaks": list(leaks),
        "resets": list(resets),
        "factors": list(factors),
        "smoothings": list(smoothings),
        "steps": list(lengths),
        "encode": str(recipe.encode),
        "balance": str(recipe.balance),
        "delay": delay,
        "train_images": whole("train_images", train_images),
        "test_images": test_images,
        "mean_images": whole("mean_images", mean_images),
        "race": None if rule is None else str(rule),
        "precision": recipe.precision,
        "seed": recipe.seed,
    }
    origin = Origin(seed=recipe.seed, inputs=subject.inputs)
    with pinned_threads(1), _Book(out, {"settings": settings, **origin.to_dict()}) as book:
        plain = dataclasses.replace(recipe, precision="float32")  # rounded, if asked for, once for all settings
        prepared = prepare(subject, plain, _told(progress, "balancing"))
        sweep = _Sweep(subject, prepared.network, recipe, lengths, book)
        grid = {
            neuron: [
                Setting(neuron.leak, neuron.reset, factor, smoothing)
                for factor in factors
                for smoothing in (None, *smoothings)
            ]
            for neuron in groups
        }
        sweep.measure_means(grid, mean_images, _told(progress, "means"))
        table, winners = sweep.choose(grid, train_images, rule, _told(progress, "racing"))
        tested = sweep.test(winners, _told(progress, "testing"))
    architecture = architecture_of(subject.network)
    record = SpikeSweep(
        settings=settings,
        network=type(subject.network).__name__ if architecture is None else str(architecture),
        split=subject.split,
        train_images=min(train_images, len(subject.train)),
        test_images=len(subject.judged),
        plain=wilson(int((subject.answers == subject.judged.y).sum()), len(subject.judged)),
        steps=lengths,
        table=table,
        chosen=sweep.compared(winners, tested),
        notes=prepared.notes,
        origin=origin,
    )
    if out is not None:
        write_atomic(Path(out) / "record.json", record.to_json(indent=1) + "\n")
    return record


# Under (leak, reset, steps): the winners without and with adjustment.
_Winners = dict[tuple[float, str, int], tuple[Winner, Winner | None]]


class _Sweep:
    """One sweep at work."""

    def __init__(
        self, subject: Subject, network: SpikingNetwork, recipe: Recipe, lengths: tuple[int, ...], book: _Book
    ) -> None:
        self._subject, self._recipe, self._lengths, self._book = subject, recipe, lengths, book
        self._plain, self._first = network, first_synapses(network)
        self._bases: dict[float, _Base] = {}
        self._block = block_of(network, recipe.steps)
        self._means: dict[tuple[float, str, float], NDArray[np.float64]] = {}

    def measure_means(
        self, grid: dict[IF | LIF, list[Setting]], images: int, told: Callable[[int, int], None] | None
    ) -> None:
        """μ of every unit of the first layer, for each neuron and factor that an adjustment needs."""
        wanted = {
            (setting.leak, setting.reset, setting.factor): neuron
            for neuron, settings in grid.items()
            for setting in settings
            if setting.smoothing is not None
        }
        x = self._subject.train.x[calibration_rows(len(self._subject.train), images, self._recipe.seed)]
        population = self._plain.populations[0].name
        for done, ((leak, reset, factor), neuron) in enumerate(wanted.items()):
            network = self._base(factor).plain.with_neuron(neuron)

            def measured(network: SpikingNetwork = network) -> list[float]:
                means = population_means(network, population, x, steps=self._recipe.steps, seed=self._recipe.seed)
                return [float(value) for value in means]

            key = f"means leak={leak} reset={reset} factor={factor}"
            self._means[leak, reset, factor] = np.array(self._book.entry(key, measured))
            if told is not None:
                told(done + 1, len(wanted))

    def choose(
        self,
        grid: dict[IF | LIF, list[Setting]],
        images: int,
        rule: Racing | None,
        told: Callable[[int, int], None] | None,
    ) -> tuple[tuple[SettingResult, ...], _Winners]:
        """Race all settings on training images; results of each, and the winners."""
        rows = calibration_rows(len(self._subject.train), images, self._recipe.seed)
        x, labels = self._subject.train.x[rows], self._subject.train.y[rows].numpy()
        races = [Heat(neuron, part) for neuron, settings in grid.items() for part in _split(settings)]
        for start in range(0, len(x), self._block):
            block = slice(start, min(start + self._block, len(x)))
            running = [(race.neuron, setting) for race in races for setting in race.running]
            right = self._run(f"train {start}", running, x[block], labels[block], first=start)
            for race in races:
                race.add(right)
                if rule is not None:
                    race.drop(rule)
            if told is not None:
                told(block.stop, len(x))
        winners: _Winners = {}
        for base, adjusted in itertools.pairwise([*races, None]):
            if base is None or base.settings[0].smoothing is not None:
                continue
            other = adjusted if adjusted is not None and adjusted.settings[0].smoothing is not None else None
            for place, length in enumerate(self._lengths):
                key = (base.neuron.leak, base.neuron.reset, length)
                winners[key] = base.winner(place), None if other is None else other.winner(place)
        return tuple(result for race in races for result in race.results()), winners

    def test(self, winners: _Winners, told: Callable[[int, int], None] | None) -> Answers:
        """Every winner on the test images, once."""
        wanted = {
            winner.setting.key: winner.setting for pair in winners.values() for winner in pair if winner is not None
        }
        x, labels = self._subject.judged.x, self._subject.judged.y.numpy()
        running = [
            (_neuron(setting.leak, setting.reset, delay=self._recipe.neuron.delay), setting)
            for setting in wanted.values()
        ]
        parts: dict[str, list[NDArray[np.bool_]]] = {key: [] for key in wanted}
        for start in range(0, len(x), self._block):
            block = slice(start, min(start + self._block, len(x)))
            # Test images draw other spikes than training images: they are numbered after them.
            first = len(self._subject.train) + start
            for key, right in self._run(f"test {start}", running, x[block], labels[block], first=first).items():
                parts[key].append(right)
            if told is not None:
                told(block.stop, len(x))
        return {key: np.concatenate(some) for key, some in parts.items()}

    def compared(self, winners: _Winners, tested: Answers) -> tuple[Chosen, ...]:
        """The winners side by side, on the test images."""
        plain = (self._subject.answers == self._subject.judged.y).numpy()
        found = []
        for (leak, reset, length), (base, adjusted) in winners.items():
            place = self._lengths.index(length)
            without = tested[base.setting.key][:, place]
            with_it = None if adjusted is None else tested[adjusted.setting.key][:, place]
            better = with_it is not None and adjusted is not None and adjusted.correct > base.correct
            found.append(
                Chosen(
                    leak=leak,
                    reset=reset,
                    steps=length,
                    baseline=base.setting,
                    adjusted=None if adjusted is None else adjusted.setting,
                    baseline_test=wilson(int(without.sum()), len(without)),
                    adjusted_test=None if with_it is None else wilson(int(with_it.sum()), len(with_it)),
                    gain=None if with_it is None else mcnemar(with_it, without),
                    cost=mcnemar(with_it if better and with_it is not None else without, plain),
                )
            )
        return tuple(found)

    def _run(
        self,
        name: str,
        running: Iterable[tuple[IF | LIF, Setting]],
        x: Tensor,
        labels: NDArray[np.int64],
        *,
        first: int,
    ) -> Answers:
        """Whether each setting is right on a block of images after each of the steps asked for."""
        running = list(running)
        block = SharedBlock(self._base(running[0][1].factor).run, self._recipe, self._first, x, first)
        right: Answers = {}
        for neuron, setting in running:

            def answered(neuron: IF | LIF = neuron, setting: Setting = setting) -> list[str]:
                answers = block.answers(self._with(neuron, setting))
                hits = answers[:, [length - 1 for length in self._lengths]] == labels[:, None]
                return ["".join("01"[int(hit)] for hit in row) for row in hits]

            rows = self._book.entry(f"{name}: {setting.key}", answered)
            right[setting.key] = np.array([[digit == "1" for digit in row] for row in rows])
        return right

    def _with(self, neuron: IF | LIF, setting: Setting) -> SpikingNetwork:
        """The network of a setting: other neurons and thresholds, the same weights where factors do not change them."""
        base = self._base(setting.factor)
        thresholds = {node.name: node.threshold.double() for node in base.plain.populations}
        if setting.smoothing is not None:
            population = base.plain.populations[0].name
            means = self._means[setting.leak, setting.reset, setting.factor]
            factors = channel_factors(base.plain.with_neuron(neuron), population, means, setting.smoothing)
            thresholds[population] = thresholds[population] / torch.from_numpy(factors)
        nodes = []
        for node in base.run.populations:
            value = thresholds[node.name] * base.units[node.name]
            if self._recipe.precision == "int8":
                value = value.round().clamp(min=1)
            nodes.append(dataclasses.replace(node, threshold=value.to(node.threshold.dtype)))
        return base.run.replaced(nodes).with_neuron(neuron)

    def _base(self, factor: float) -> _Base:
        """The network with thresholds times ``factor``, made once.

        Where a spike is worth its threshold, a factor changes the weights that follow; else all have theirs in common.
        """
        if factor not in self._bases:
            plain = self._plain.with_factor(factor)
            common = all(node.amplitude is None for node in plain.populations)
            weights = self._plain if common else plain
            known = next(iter(self._bases.values()), None)
            run = known.run if known is not None and common else self._rounded(weights)
            self._bases[factor] = _Base(plain, run, _thresholds_in_units(weights, run))
        return self._bases[factor]

    def _rounded(self, network: SpikingNetwork) -> SpikingNetwork:
        return quantised(network) if self._recipe.precision == "int8" else network


@dataclasses.dataclass(frozen=True)
class _Base:
    """The network at one threshold factor, the one that is run, and by what thresholds of the first are multiplied."""

    plain: SpikingNetwork
    run: SpikingNetwork
    units: dict[str, Tensor]


class _Book:
    """A journal if there is a folder, nothing otherwise."""

    def __init__(self, folder: str | Path | None, call: dict[str, Any]) -> None:
        self._journal = None if folder is None else Journal(Path(folder) / "journal.jsonl", call)

    def __enter__(self) -> _Book:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def entry(self, key: str, compute: Callable[[], Any]) -> Any:
        """What was written under ``key``, computed where nothing was."""
        if self._journal is None:
            return compute()
        if key not in self._journal:
            begin = time.perf_counter()
            value = compute()
            self._journal.append(key, value, time.perf_counter() - begin)
        return self._journal[key]


def _listed(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"{name} are several values, as ({given!r},), not {given!r}")
    return tuple(value if isinstance(value, str) else _number(name, value) for value in given)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} are numbers, not {value!r}") from error


def _check_grid(**values: Sequence[Any]) -> None:
    """Every list holds what it must, nothing twice; only smoothings may be left out."""
    for name, given in values.items():
        if not given and name != "smoothings":
            raise UsageError(f"a sweep needs at least one of {name}")
        if len(set(given)) < len(given):
            raise UsageError(f"{name}: {', '.join(map(str, given))} names a value twice")
    for factor in values["factors"]:
        if not (isinstance(factor, float) and 0 < factor < math.inf):
            raise UsageError(f"a threshold factor must be a finite number > 0, not {factor!r}")
    for smoothing in values["smoothings"]:
        if not L4(smoothing).smoothing < math.inf:
            raise UsageError("an infinite smoothing changes nothing: it is the baseline, which every sweep has")


def _neuron(leak: float, reset: str, *, delay: bool) -> IF | LIF:
    values = {"reset": reset, "delay": delay}
    return IF.from_values(values) if leak == 1 else LIF.from_values({"leak": leak, **values})


def _split(settings: Sequence[Setting]) -> list[list[Setting]]:
    """The settings without adjustment, and those with, where there are any."""
    parts = [[item for item in settings if (item.smoothing is None) == plain] for plain in (True, False)]
    return [part for part in parts if part]


def _thresholds_in_units(plain: SpikingNetwork, network: SpikingNetwork) -> dict[str, Tensor]:
    """By what a threshold of the plain network is multiplied in the one that is run (units of 8-bit weights)."""
    if network is plain:
        return {node.name: torch.ones((), dtype=torch.float64) for node in plain.populations}
    units = units_of(plain)
    one = torch.ones((), dtype=torch.float64)
    return {node.name: 1 / units.get(node.name, one) for node in plain.populations}


def _told(progress: Told | None, stage: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(stage, done, total)
