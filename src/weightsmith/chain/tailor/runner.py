"""Make candidates, measure them, and keep every result in a journal, so that a stopped search can resume."""

from __future__ import annotations

import base64
import dataclasses
import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.configurations import Configuration, Conversion, Measure, PruningStep
from weightsmith.chain.tailor.cutting import Cutter
from weightsmith.chain.tailor.judging import Answered, answered, right_answers
from weightsmith.chain.tailor.rows import Divided
from weightsmith.core.errors import DataMismatch, MissingExtra, UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.records import digest_of
from weightsmith.core.seeds import pinned_threads
from weightsmith.networks.evaluation import inputs_of, scores
from weightsmith.networks.files import load, read_card, save
from weightsmith.networks.operations import count_operations
from weightsmith.networks.rounding import tensor_bytes, to_int8
from weightsmith.networks.runtime.onnx_files import export_onnx, quantise_onnx
from weightsmith.networks.weights import open_weights
from weightsmith.reducing.budget import divergence
from weightsmith.reducing.latency import compare_latency
from weightsmith.spiking.conversion.balance import Balance
from weightsmith.spiking.conversion.calibrate import Calibrate
from weightsmith.spiking.conversion.preparing import ConversionSettings, encoding_of, prepare
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.energy.cost import Prices, UnitCounts, spike_cost
from weightsmith.spiking.files import load_spiking, save_spiking
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Neuron
from weightsmith.spiking.simulation.simulate import simulate

__all__ = ["CandidateRunner", "Conditions", "Refusal"]

_JUDGED = "judged "
_RANGED = 256  # rows on which the ranges of int8 activations are measured


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The settings that all candidates share; ``timed``: their time is measured."""

    prices: Prices
    seed: int
    batch: int
    threads: int
    timed: bool = False


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
        self.times: list[float] = []
        self._asked: set[str] = set()
        self._built: dict[str, nn.Module | SpikingNetwork] = {}
        self._cutter = Cutter(
            network, rows.choosing, seed=conditions.seed, batch=conditions.batch, threads=conditions.threads
        )
        self._example = inputs_of(network, self._checked[:1])
        counted = count_operations(network, self._example)
        self.macs, self.uncounted = counted.total, counted.uncounted
        if not self.macs:
            raise UsageError(
                "the network has no dense layer or convolution whose operations are counted: there is nothing to "
                "remove and no energy to save"
            )
        self.parameters = sum(value.numel() for value in network.parameters())
        self.bytes = tensor_bytes(network)
        self.energy = self._priced(network, "float32")
        if not self.energy > 0:
            raise UsageError(
                "all weights of the network are zero: an input costs nothing, and there is nothing to save"
            )

    @property
    def costs(self) -> dict[str, float]:
        """The costs of the whole network, by the names of their limits; its time is the unit of time."""
        return {
            "params": self.parameters,
            "macs": self.macs,
            "bytes": self.bytes,
            "energy": self.energy,
            "time": 1.0,
        }

    def find(self, config: Configuration) -> Candidate | None:
        """The candidate of a configuration, if it was made."""
        return next((candidate for candidate in self.candidates if candidate.way == config), None)

    def knows(self, config: Configuration) -> bool:
        """Whether it was made or refused in this search."""
        return self.find(config) is not None or any(refusal.way == config for refusal in self.refusals)

    def least(self, measure: Measure, multiple: int = 1) -> float:
        """The smallest share of the network that a cut can leave; 0 if no cut is possible, which trying one shows."""
        try:
            return self._cutter.least(measure, multiple)
        except (UsageError, DataMismatch):
            return 0.0

    def go(self, config: Configuration, stage: str) -> Candidate | None:
        """Make and measure a configuration, or read its result from the journal; None if it is refused."""
        if self.knows(config):
            return self.find(config)
        if config.key not in self._journal:
            begin = time.process_time()
            outcome = self._outcome(config)
            self._journal.append(config.key, outcome, time.process_time() - begin)
        written = self._journal[config.key]
        self.spent += self._journal.seconds(config.key)
        if "refused" in written:
            self.refusals.append(Refusal(config, written["refused"]))
            return None
        found = Candidate(
            number=len(self.candidates),
            way=config,
            steps=None if config.conversion is None else config.conversion.steps,
            images=self.rows.selection.rows,
            energy_share=written["energy"] / self.energy,
            params_share=written["parameters"] / self.parameters,
            stage=stage,
            **written,
        )
        self.candidates.append(found)
        self.times.append(self.spent)
        return found

    def judged(self, candidate: Candidate) -> Answered:
        """The answers of a candidate on the judging rows, computed once."""
        key = f"{_JUDGED}{candidate.way.key}"
        if key not in self._journal:
            begin = time.process_time()
            with pinned_threads(self.conditions.threads):
                found = self._answered(candidate)
            bits = base64.b64encode(np.packbits(found.right).tobytes()).decode()
            self._journal.append(key, {"right": bits, "energy": found.energy}, time.process_time() - begin)
        if key not in self._asked:
            self.spent += self._journal.seconds(key)
        self._asked.add(key)
        written = self._journal[key]
        packed = np.frombuffer(base64.b64decode(written["right"]), np.uint8)
        return Answered(np.unpackbits(packed, count=self.rows.judged.rows).astype(np.bool_), written["energy"])

    @property
    def judged_before(self) -> int:
        """The number of other candidates judged on these rows, in calls with other limits."""
        return sum(key.startswith(_JUDGED) and key not in self._asked for key in self._journal)

    def made(self, config: Configuration) -> nn.Module | SpikingNetwork:
        """The network of a configuration: from memory, from its file, or made again with the same result."""
        if config.key not in self._built:
            self._built[config.key] = self._make(config)
        return self._built[config.key]

    def written_as_onnx(self, config: Configuration, path: Path) -> tuple[str, ...]:
        """Write the int8 network that onnxruntime's quantiser makes from the same rows; return a note on it."""
        path.unlink(missing_ok=True)
        if config.numbers != "int8":
            return ()
        plain = self._plain(config)
        inputs = inputs_of(plain, self._looked_at[:_RANGED])
        try:
            with pinned_threads(self.conditions.threads), tempfile.TemporaryDirectory() as folder:
                whole = Path(folder) / "network.onnx"
                export_onnx(plain, whole, inputs)
                found = quantise_onnx(plain, whole, path, inputs)
        except MissingExtra:
            return ()
        except UsageError as error:
            return (f"no ONNX file was written: {error}",)
        before = "original network" if config.cut is None else "cut network before rounding, not of the original,"
        return (
            f"{path.name} is the same in 8 bits for onnxruntime: {found.bytes:,} bytes, the class of the {before} "
            f"on {100 * found.agreement:.1f} % of {found.rows} rows looked at",
        )

    def _make(self, config: Configuration) -> nn.Module | SpikingNetwork:
        if config.conversion is not None:
            return self._spiking(config, config.conversion)
        if config.numbers == "int8":
            return to_int8(self._plain(config), self._looked_at[:_RANGED])
        return self.network if config.cut is None else self._cut(config.cut)

    def _plain(self, config: Configuration) -> nn.Module:
        """The network of a configuration before it is converted or rounded."""
        found = self.made(Configuration(config.cut))
        assert isinstance(found, nn.Module)
        return found

    def _cut(self, step: PruningStep) -> nn.Module:
        path = self._file(Configuration(step))
        if path.exists():
            card = read_card(open_weights(path))
            if card is not None and card.architecture is not None:
                return load(path)
        made = self._cutter.cut(step)
        save(made, path)
        return made

    def _spiking(self, config: Configuration, conversion: Conversion) -> SpikingNetwork:
        path = self._file(config)
        if path.exists():
            return load_spiking(path)
        subject = read_subject(self._plain(config), self.rows.choosing, images=1, seed=self.conditions.seed)
        made = prepare(subject, self._recipe(conversion)).network
        save_spiking(made, path)
        return made

    def _file(self, config: Configuration) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{digest_of(config.key)[:16]}.safetensors"

    def _recipe(self, conversion: Conversion) -> ConversionSettings:
        return ConversionSettings(
            neuron=Neuron.of(conversion.neuron or "if"),  # type: ignore[arg-type]  # the family has these members
            encode=encoding_of(conversion.encode),
            balance=Balance.of(conversion.balance),  # type: ignore[arg-type]
            adjust=None,
            mismatch=None,
            precision="float32",
            steps=conversion.steps,
            seed=self.conditions.seed,
            calibrate=None if conversion.calibrate is None else Calibrate.of(conversion.calibrate),  # type: ignore[arg-type]
        )

    def _answered(self, candidate: Candidate) -> Answered:
        network = self.made(candidate.way)
        if isinstance(network, SpikingNetwork):
            assert candidate.steps is not None
            return answered(
                network, self.rows.judging, candidate.steps, prices=self.conditions.prices, seed=self.conditions.seed
            )
        right = right_answers(network, self.rows.judging, batch=self.conditions.batch, threads=self.conditions.threads)
        return Answered(right, candidate.energy)

    def _outcome(self, config: Configuration) -> dict[str, Any]:
        """The journal entry of a configuration: its measurements, or the reason why it is impossible."""
        try:
            with pinned_threads(self.conditions.threads):
                return self._measured(config)
        except (UsageError, DataMismatch) as error:
            if config.kind == "whole" or isinstance(error, MissingExtra):
                raise  # no candidate can work, or the user can fix it: not written to the journal
            return {"refused": str(error)}

    def _measured(self, config: Configuration) -> dict[str, Any]:
        network, plain = self.made(config), self._plain(config)
        if isinstance(network, SpikingNetwork):
            assert config.conversion is not None
            outputs, energy = self._run(network, config.conversion.steps)
        else:
            outputs, energy = self._scores(network), self._priced(plain, config.numbers)
        answers = self._outputs.argmax(dim=1)
        finite = outputs.isfinite().all(dim=1)
        return {
            "correct": int(((outputs.argmax(dim=1) == answers) & finite).sum()),
            "divergence": _nearest_divergence(self._outputs, outputs) if bool(finite.all()) else 1e9,
            "energy": energy,
            "parameters": sum(value.numel() for value in plain.parameters()),
            "macs": count_operations(plain, self._example).total,
            "bytes": tensor_bytes(plain if isinstance(network, SpikingNetwork) else network),
            "time": self._time(config, plain),
        }

    def _time(self, config: Configuration, plain: nn.Module) -> float | None:
        """The time for one input as a share of the whole network's; int8 and spiking networks have none here."""
        if not self.conditions.timed or config.conversion is not None or config.numbers == "int8":
            return None
        if config.cut is None:
            return 1.0
        found = compare_latency(self.network, plain, self._example, batches=(1,), threads=self.conditions.threads)
        return found.at(1).median

    def _run(self, network: SpikingNetwork, steps: int) -> tuple[Tensor, float]:
        counts = UnitCounts(network)
        found = simulate(network, self._checked, steps, seed=self.conditions.seed, observers=(counts,))
        return torch.from_numpy(found.scores), spike_cost(network, found, counts, self.conditions.prices).energy

    def _priced(self, network: nn.Module, numbers: str) -> float:
        """The energy per input of a network that does not spike; connections are counted as in spiking networks."""
        return self.conditions.prices.of_run(numbers).mac * count_operations(network, self._example, zeros=False).total

    def _scores(self, network: nn.Module) -> Tensor:
        return scores(network, self._checked, batch=self.conditions.batch, threads=self.conditions.threads)

    @functools.cached_property
    def _outputs(self) -> Tensor:
        """The outputs of the whole network for the selection rows."""
        return self._scores(self.network)

    @property
    def _checked(self) -> Tensor:
        return self.rows.choosing.split("test").x

    @property
    def _looked_at(self) -> Tensor:
        return self.rows.choosing.split("train").x


def _nearest_divergence(expected: Tensor, given: Tensor) -> float:
    """The divergence of outputs after the best scaling: sums over the steps of a spiking network are not logits."""
    ours, theirs = (each.double() - each.double().mean(dim=1, keepdim=True) for each in (expected, given))
    norm = float(theirs.square().sum())
    return divergence(ours, theirs * (float((ours * theirs).sum()) / norm if norm else 0.0))
