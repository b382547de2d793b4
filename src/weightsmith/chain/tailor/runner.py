"""Run configurations: reduce, convert, measure on the selection rows, and write to the journal.

All expensive results go through a journal. A reduction keeps its own state in a folder next to it, so that an
interrupted fine-tuning resumes as well.
"""

from __future__ import annotations

import base64
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from weightsmith.chain.links import keep_by_alpha
from weightsmith.chain.tailor.candidates import Candidate, Point, stairs
from weightsmith.chain.tailor.configurations import Configuration, Conversion, PruningStep
from weightsmith.chain.tailor.judging import Answered, answered, right_answers
from weightsmith.chain.tailor.rows import Divided
from weightsmith.core.errors import DataMismatch, MissingExtra, UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.seeds import pinned_threads
from weightsmith.networks.evaluation import inputs_of
from weightsmith.networks.files import load, read_card
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.networks.operations import count_operations
from weightsmith.networks.weights import open_weights
from weightsmith.reducing.reduce import reduce
from weightsmith.reducing.results import ReductionRecord
from weightsmith.spiking.conversion.balance import Balance
from weightsmith.spiking.conversion.preparing import ConversionSettings, encoding_of, prepare
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.energy.cost import Prices
from weightsmith.spiking.l4.adjust import Adjust
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.spike import spike

__all__ = ["CandidateRunner", "Conditions", "Refusal"]

_JUDGED = "judged "


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The settings that all candidates share."""

    neuron: IF | LIF
    precision: Precision
    prices: Prices
    rows: int | None
    seed: int
    batch: int
    threads: int


@dataclasses.dataclass(frozen=True)
class Refusal:
    """An impossible configuration, and the reason."""

    way: Configuration
    reason: str


class CandidateRunner:
    """The network with its rows, the journal, and the candidates so far."""

    def __init__(
        self, network: nn.Module, rows: Divided, conditions: Conditions, folder: Path, journal: Journal
    ) -> None:
        self.network, self.rows, self.conditions = network, rows, conditions
        self._folder, self._journal = folder, journal
        self.candidates: list[Candidate] = []
        self.refusals: list[Refusal] = []
        self.spent = 0.0
        self._tried: set[str] = set()
        self._asked: set[str] = set()
        self._last: tuple[str, tuple[nn.Module, int]] | None = None
        self._example = inputs_of(network, rows.choosing.split("test").x[:1])
        counted = count_operations(network, self._example)
        self.macs, self.uncounted = counted.total, counted.uncounted
        if not self.macs:
            raise UsageError(
                "the network has no dense layer or convolution whose operations are counted: there is nothing to take "
                "out and no energy to save"
            )
        self.parameters = sum(value.numel() for value in network.parameters())
        self._energy = self._priced(network)

    @property
    def energy(self) -> float:
        """The energy of the whole network per input, in picojoules."""
        return self._energy

    def knows(self, config: Configuration) -> bool:
        """Whether this configuration was run, or refused, in this search."""
        return config.key in self._tried

    def of(self, config: Configuration) -> list[Candidate]:
        """The candidates of a configuration."""
        return [candidate for candidate in self.candidates if candidate.way == config]

    def go(self, config: Configuration, stage: str) -> list[Candidate]:
        """Run a configuration, or read its result from the journal; a refused one gives no candidates."""
        if config.key not in self._journal:
            begin = time.perf_counter()
            self._journal.append(config.key, self._outcome(config), time.perf_counter() - begin)
        written = self._journal[config.key]
        self.spent += self._journal.seconds(config.key)
        self._tried.add(config.key)
        if "refused" in written:
            self.refusals.append(Refusal(config, written["refused"]))
            return []
        found = [
            self._candidate(config, Point.from_dict(point), written, stage, index)
            for index, point in enumerate(written["points"])
        ]
        self.candidates += found
        return found

    def made(self, config: Configuration) -> nn.Module | SpikingNetwork:
        """The network of a configuration, rebuilt from the saved files."""
        plain = self.network if config.cut is None else self._reduced(config.cut)[0]
        if config.conversion is None:
            return plain
        subject = read_subject(plain, self.rows.choosing, images=1, seed=self.conditions.seed)
        return prepare(subject, self._recipe(config.conversion)).network

    def judged(self, candidate: Candidate) -> Answered:
        """The answers of a candidate on the judging rows, computed once."""
        key = f"{_JUDGED}{candidate.way.key} {candidate.steps}"
        if key not in self._journal:
            begin = time.perf_counter()
            found = self._answered(candidate)
            bits = base64.b64encode(np.packbits(found.right).tobytes()).decode()
            self._journal.append(key, {"right": bits, "energy": found.energy}, time.perf_counter() - begin)
        self._asked.add(key)
        written = self._journal[key]
        packed = np.frombuffer(base64.b64decode(written["right"]), np.uint8)
        return Answered(np.unpackbits(packed, count=self.rows.judged.rows).astype(np.bool_), written["energy"])

    @property
    def judged_before(self) -> int:
        """The number of other candidates judged on these rows, in calls with other limits."""
        return sum(key.startswith(_JUDGED) and key not in self._asked for key in self._journal)

    def _answered(self, candidate: Candidate) -> Answered:
        conditions, network = self.conditions, self.made(candidate.way)
        if isinstance(network, SpikingNetwork):
            assert candidate.steps is not None
            return answered(
                network,
                self.rows.judging,
                candidate.steps,
                precision=conditions.precision,
                prices=conditions.prices,
                seed=conditions.seed,
                first=self.rows.selection.rows,
            )
        with pinned_threads(conditions.threads):
            right = right_answers(network, self.rows.judging, batch=conditions.batch, threads=conditions.threads)
        return Answered(right, candidate.energy)

    def _outcome(self, config: Configuration) -> dict[str, Any]:
        """The journal entry of a configuration: its points and sizes, or the reason why it is impossible."""
        try:
            with pinned_threads(self.conditions.threads):
                return self._measured(config)
        except (UsageError, DataMismatch) as error:
            if config.kind == "whole" or isinstance(error, MissingExtra):
                raise  # nothing else can work either; or the user can fix it, and it must not be written to the journal
            return {"refused": str(error)}

    def _measured(self, config: Configuration) -> dict[str, Any]:
        plain, macs = (self.network, self.macs) if config.cut is None else self._reduced(config.cut)
        if config.conversion is None:
            points = [Point(self._correct(plain), self._priced(plain))]
        else:
            points = self._spiking(plain, config.conversion)
        return {
            "points": [point.to_dict() for point in points],
            "parameters": sum(value.numel() for value in plain.parameters()),
            "macs": macs,
        }

    def _priced(self, network: nn.Module) -> float:
        """The energy of a network that does not spike, per input: its connections are counted as those of spikes."""
        return self.conditions.prices.mac * count_operations(network, self._example, zeros=False).total

    def _candidate(
        self, config: Configuration, point: Point, written: dict[str, Any], stage: str, index: int
    ) -> Candidate:
        return Candidate(
            number=len(self.candidates) + index,
            way=config,
            steps=point.steps,
            images=self.rows.selection.rows,
            correct=point.correct,
            energy=point.energy,
            energy_share=point.energy / self.energy,
            parameters=written["parameters"],
            params_share=written["parameters"] / self.parameters,
            macs=written["macs"],
            stage=stage,
        )

    def _reduced(self, cut: PruningStep) -> tuple[nn.Module, int]:
        """The reduced network of a cut, and its MACs; the last one is cached, because it is often used next."""
        key = cut.to_json()
        if self._last is None or self._last[0] != key:
            self._last = key, self._stored_cut(cut) or self._run_cut(cut)
        return self._last[1]

    def _stored_cut(self, cut: PruningStep) -> tuple[nn.Module, int] | None:
        """A finished reduction from its folder; None if there is none, or if its file cannot be loaded."""
        folder = self._folder / cut.folder
        if not (folder / "record.json").exists():
            return None
        card = read_card(open_weights(folder))
        if card is None or card.architecture is None:
            return None
        record = ReductionRecord.from_json((folder / "record.json").read_text(encoding="utf-8"))
        return load(folder), record.reduced.macs

    def _run_cut(self, cut: PruningStep) -> tuple[nn.Module, int]:
        conditions = self.conditions
        made = reduce(
            self.network,
            self.rows.choosing,
            by=cut.by,
            target=cut.target,
            plan=self._plan(cut),
            recover=cut.recover,
            rows=conditions.rows,
            random=0,
            latency=False,
            seed=conditions.seed,
            batch=conditions.batch,
            threads=conditions.threads,
            out=self._folder / cut.folder,
        )
        return made.network, made.record.reduced.macs

    def _plan(self, cut: PruningStep) -> str | LayerPlan:
        if cut.plan != "alpha":
            return cut.plan
        plan = keep_by_alpha(self.network, cut.keep, threads=self.conditions.threads)
        if len(plan.unscored) == len(plan.values):
            raise UsageError("no layer has an α: the plan by α would be the uniform one")
        return plan

    def _correct(self, network: nn.Module) -> int:
        """Correct answers on the selection rows; one that is not finite is wrong."""
        conditions = self.conditions
        found = right_answers(network, self.rows.choosing, batch=conditions.batch, threads=conditions.threads)
        return int(found.sum())

    def _spiking(self, network: nn.Module, conversion: Conversion) -> list[Point]:
        conditions = self.conditions
        record = spike(
            network,
            self.rows.choosing,
            neuron=conditions.neuron,
            encode=conversion.encode,
            balance=conversion.balance,
            adjust=conversion.adjust,
            steps=conversion.steps,
            precision=conditions.precision,
            prices=conditions.prices,
            watch=0,
            seed=conditions.seed,
        ).record
        return stairs(record.decisions.correct, record.cost.curve)

    def _recipe(self, conversion: Conversion) -> ConversionSettings:
        """Parse the options as :func:`~weightsmith.spiking.spike.spike` does."""
        return ConversionSettings(
            neuron=self.conditions.neuron,
            encode=encoding_of(conversion.encode),
            balance=Balance.of(conversion.balance),  # type: ignore[arg-type]  # the family has these members
            adjust=None if conversion.adjust is None else Adjust.of(conversion.adjust),  # type: ignore[arg-type]
            mismatch=None,
            precision=self.conditions.precision,
            steps=conversion.steps,
            seed=self.conditions.seed,
        )
