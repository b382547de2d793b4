"""The execution of a sweep: mean membranes, races on training images, and the test of the winners.

Every expensive result is cached in a :class:`Book`, so that an interrupted sweep resumes.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.journal import Journal, read_journal
from weightsmith.core.parallel import completed
from weightsmith.core.progress import StepCallback
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.spiking.conversion.preparing import ConversionSettings, calibration_rows
from weightsmith.spiking.conversion.quantise import quantised, units_of
from weightsmith.spiking.conversion.subject import Subject
from weightsmith.spiking.l4.adjust import channel_factors, population_means
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.sweep.grid import neuron_of, widened
from weightsmith.spiking.sweep.racing import Racing
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult
from weightsmith.spiking.sweep.runs import Answers, BlockRuns, BlockTask, Heat, Winner, block_of, first_synapses

__all__ = ["Book", "SweepWork", "reached"]

Competitors = tuple[IF | LIF, list[Setting]]
# Under (leak, reset, steps): the winners without and with adjustment.
Winners = dict[tuple[float, str, int], tuple[Winner, Winner | None]]


class Book:
    """A journal if there is a folder, a dictionary otherwise."""

    def __init__(self, folder: str | Path | None, call: dict[str, Any]) -> None:
        self._known: dict[str, Any] = {}
        self._journal = None if folder is None else Journal(Path(folder) / "journal.jsonl", call)

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def entries(self, function: Callable[[Any], tuple[Any, float]], tasks: Mapping[str, Any]) -> Iterator[Any]:
        """The value of each key in order: cached, or computed by ``function``, which also returns the seconds."""
        known: Mapping[str, Any] = self._known if self._journal is None else self._journal
        missing = [key for key in tasks if key not in known]
        for index, (value, seconds) in completed(function, [tasks[key] for key in missing]):
            if self._journal is None:
                self._known[missing[index]] = value
            else:
                self._journal.append(missing[index], value, seconds)
        return (known[key] for key in tasks)


def reached(folder: str | Path) -> tuple[str, int] | None:
    """The progress of a sweep begun in ``folder``: the stage, and the number of means or images done in it.

    Images count once all settings have seen them. None if nothing was done yet.
    """
    path = Path(folder) / "journal.jsonl"
    keys = list(read_journal(path).values) if path.exists() else []
    if not keys:
        return None
    block = re.match(r"(train|test) (\d+): ", keys[-1])
    if block is None:
        return "means", len(keys)
    return "racing" if block[1] == "train" else "testing", int(block[2])


class SweepWork:
    """One sweep: means, races, tests; results are cached in ``book``."""

    def __init__(
        self,
        subject: Subject,
        network: SpikingNetwork,
        recipe: ConversionSettings,
        lengths: tuple[int, ...],
        book: Book,
    ) -> None:
        self._subject, self._recipe, self._lengths, self._book = subject, recipe, lengths, book
        self._plain, self._first = network, first_synapses(network)
        self._bases: dict[float, _Base] = {}
        self._block = block_of(network, recipe.steps)
        self._means: dict[tuple[float, str, float], NDArray[np.float64]] = {}

    def measure_means(self, races: Sequence[Competitors], images: int, progress: StepCallback | None) -> None:
        """μ of every unit of the first layer, for each neuron and factor that an adjustment needs."""
        wanted = {
            (setting.leak, setting.reset, setting.factor): neuron
            for neuron, settings in races
            for setting in settings
            if setting.smoothing is not None
        }
        x = self._subject.train.x[calibration_rows(len(self._subject.train), images, self._recipe.seed)]
        measure = functools.partial(_mean_membranes, self._plain, x, self._recipe)
        tasks = {
            f"means leak={leak} reset={reset} factor={factor}": (factor, neuron)
            for (leak, reset, factor), neuron in wanted.items()
        }
        for done, (key, means) in enumerate(zip(wanted, self._book.entries(measure, tasks), strict=True)):
            self._means[key] = np.array(means)
            if progress is not None:
                progress(done + 1, len(wanted))

    def widened(self, races: Sequence[Competitors], winners: Winners) -> list[Competitors]:
        """The races with settings beyond the edges of their grids on which winners lie; unchanged if there are none."""
        wider = []
        for neuron, settings in races:
            pairs = [winners[neuron.leak, neuron.reset, length] for length in self._lengths]
            plain = settings[0].smoothing is None
            best = [base if plain else adjusted for base, adjusted in pairs]
            wider.append((neuron, widened(settings, [winner.setting for winner in best if winner is not None])))
        return wider

    def choose(
        self,
        races: Sequence[Competitors],
        images: int,
        rule: Racing | None,
        progress: StepCallback | None,
    ) -> tuple[tuple[SettingResult, ...], Winners]:
        """Race all settings on training images; returns the results of each, and the winners."""
        rows = calibration_rows(len(self._subject.train), images, self._recipe.seed)
        x, labels = self._subject.train.x[rows], self._subject.train.y[rows].numpy()
        heats = [Heat(neuron, settings) for neuron, settings in races]
        runs = self._runs({setting.factor for _, settings in races for setting in settings}, x, first=0)
        for start in range(0, len(x), self._block):
            block = slice(start, min(start + self._block, len(x)))
            running = [(heat.neuron, setting) for heat in heats for setting in heat.running]
            right = self._run(f"train {start}", running, runs, labels[block], start)
            for heat in heats:
                heat.add(right)
                if rule is not None:
                    heat.drop(rule)
            if progress is not None:
                progress(block.stop, len(x))
        return tuple(result for heat in heats for result in heat.results()), self._winners(heats)

    def _winners(self, heats: Sequence[Heat]) -> Winners:
        """The best of each heat; a heat with adjustment follows the heat of the same neuron without."""
        winners: Winners = {}
        for heat in heats:
            for index, length in enumerate(self._lengths):
                key = (heat.neuron.leak, heat.neuron.reset, length)
                best = heat.winner(index)
                winners[key] = (winners[key][0], best) if key in winners else (best, None)
        return winners

    def test(self, winners: Winners, progress: StepCallback | None) -> Answers:
        """Run every winner on the test images, once."""
        wanted = {
            winner.setting.key: winner.setting for pair in winners.values() for winner in pair if winner is not None
        }
        x, labels = self._subject.judged.x, self._subject.judged.y.numpy()
        running = [
            (neuron_of(setting.leak, setting.reset, delay=self._recipe.neuron.delay), setting)
            for setting in wanted.values()
        ]
        parts: dict[str, list[NDArray[np.bool_]]] = {key: [] for key in wanted}
        # Test images draw different spikes from training images: their numbers follow those of the training images.
        runs = self._runs({setting.factor for setting in wanted.values()}, x, first=len(self._subject.train))
        for start in range(0, len(x), self._block):
            block = slice(start, min(start + self._block, len(x)))
            for key, right in self._run(f"test {start}", running, runs, labels[block], start).items():
                parts[key].append(right)
            if progress is not None:
                progress(block.stop, len(x))
        return {key: np.concatenate(some) for key, some in parts.items()}

    def compared(self, winners: Winners, tested: Answers) -> tuple[Chosen, ...]:
        """The winners compared on the test images."""
        plain = (self._subject.answers == self._subject.judged.y).numpy()
        found = []
        for (leak, reset, length), (base, adjusted) in winners.items():
            index = self._lengths.index(length)
            without = tested[base.setting.key][:, index]
            with_it = None if adjusted is None else tested[adjusted.setting.key][:, index]
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
        running: Sequence[tuple[IF | LIF, Setting]],
        runs: BlockRuns,
        labels: NDArray[np.int64],
        start: int,
    ) -> Answers:
        """Whether each setting is right on the block at ``start`` after each requested number of steps."""
        tasks = {
            f"{name}: {setting.key}": BlockTask(
                start, labels, setting.factor, neuron, self._thresholds(neuron, setting)
            )
            for neuron, setting in running
        }
        found = self._book.entries(runs, tasks)
        return {
            setting.key: np.array([[digit == "1" for digit in row] for row in rows])
            for (_, setting), rows in zip(running, found, strict=True)
        }

    def _runs(self, factors: Iterable[float], x: Tensor, *, first: int) -> BlockRuns:
        networks = {factor: self._base(factor).run for factor in sorted(factors)}
        return BlockRuns(networks, self._recipe, self._lengths, self._first, x, first, self._block)

    def _thresholds(self, neuron: IF | LIF, setting: Setting) -> dict[str, Tensor]:
        """The thresholds of a setting; its weights are those of its factor."""
        base = self._base(setting.factor)
        thresholds = {node.name: node.threshold.double() for node in base.plain.populations}
        if setting.smoothing is not None:
            population = base.plain.populations[0].name
            means = self._means[setting.leak, setting.reset, setting.factor]
            factors = channel_factors(base.plain.with_neuron(neuron), population, means, setting.smoothing)
            thresholds[population] = thresholds[population] / torch.from_numpy(factors)
        found = {}
        for node in base.run.populations:
            value = thresholds[node.name] * base.units[node.name]
            if self._recipe.precision == "int8":
                value = value.round().clamp(min=1)
            found[node.name] = value.to(node.threshold.dtype)
        return found

    def _base(self, factor: float) -> _Base:
        """The network with thresholds times ``factor``, created once.

        If a spike is worth its threshold, a factor changes the weights that follow; otherwise all share their weights.
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


def _mean_membranes(
    plain: SpikingNetwork, x: Tensor, recipe: ConversionSettings, task: tuple[float, IF | LIF]
) -> tuple[list[float], float]:
    """μ of every unit of the first layer of one factor and neuron, and the seconds taken."""
    begin, (factor, neuron) = time.perf_counter(), task
    network = plain.with_factor(factor).with_neuron(neuron)
    means = population_means(network, plain.populations[0].name, x, steps=recipe.steps, seed=recipe.seed)
    return [float(value) for value in means], time.perf_counter() - begin


@dataclasses.dataclass(frozen=True)
class _Base:
    """The network at one threshold factor, the network that is run, and the ratio of their thresholds."""

    plain: SpikingNetwork
    run: SpikingNetwork
    units: dict[str, Tensor]


def _thresholds_in_units(plain: SpikingNetwork, network: SpikingNetwork) -> dict[str, Tensor]:
    """The ratio of the thresholds of the network that is run (in units of 8-bit weights) to those of the plain one."""
    if network is plain:
        return {node.name: torch.ones((), dtype=torch.float64) for node in plain.populations}
    units = units_of(plain)
    one = torch.ones((), dtype=torch.float64)
    return {node.name: 1 / units.get(node.name, one) for node in plain.populations}
