"""Tailor: search the chain for a network that meets limits on accuracy, energy and size."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.chain.tailor.choosing import Preference, margin_for
from weightsmith.chain.tailor.limits import Limits, Wanted, read_seconds
from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, as_callback
from weightsmith.core.records import Origin
from weightsmith.core.storage import write_atomic
from weightsmith.core.verbs import Batch, Doc, Seed, Threads, verb
from weightsmith.spiking.neurons import IF, LIF, Neuron, Precision

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.tailor.proposing import Menu, Proposer
    from weightsmith.chain.tailor.results import Tailored, TailorRecord
    from weightsmith.chain.tailor.runner import CandidateRunner
    from weightsmith.reducing.recovery.recover import FineTune
    from weightsmith.spiking.conversion.balance import MaxCurrent, Percentile
    from weightsmith.spiking.encoding import Constant, Poisson
    from weightsmith.spiking.energy.cost import Prices
    from weightsmith.spiking.network import SpikingNetwork
    from weightsmith.training.run import TrainRun

__all__ = ["tailor"]


_SEARCHING = 2.0  # standard errors, until the number of configurations is known


@verb(types=("reducing.recovery.recover", "spiking.encoding", "spiking.conversion.balance", "spiking.energy.cost"))
def tailor(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    accuracy: Annotated[float | str | None, Doc("at least this share of right answers, as 0.9 or 90%")] = None,
    energy: Annotated[
        float | str | None, Doc("at most this, for an input: 0.2 or 20% of the network's own, or as 1.5uJ")
    ] = None,
    params: Annotated[
        float | str | None, Doc("at most so many parameters: 0.5 or 50% of the network's own, or as 20000")
    ] = None,
    budget: Annotated[
        float | str | None, Doc("end the search after so many seconds, or 90s, 10m, 1.5h; what is known counts")
    ] = None,
    margin: Annotated[
        float | None,
        Range(ge=0),
        Doc("standard errors above the accuracy asked for; without it by the number of ways", rare=True),
    ] = None,
    test_rows: Annotated[
        int | None, Range(ge=1), Doc("rows to choose by, and as many others that judge; without it all")
    ] = None,
    recover: Annotated[
        FineTune | str | None, Doc("how networks that were cut are trained; none leaves them as they are")
    ] = "fine-tune:3,schedule=cosine:0.01",
    tune_rows: Annotated[int | None, Range(ge=1), Doc("training rows they are trained on; without it all")] = None,
    rows: Annotated[int | None, Range(ge=1), Doc("training rows that methods of reduction look at")] = 2000,
    spiking: Annotated[
        bool | None, Doc("whether spiking networks are tried; without it unless only the size is limited")
    ] = None,
    neuron: Annotated[IF | LIF | str, Doc("if, or lif:0.95; reset=hard for either", rare=True)] = "if",
    encode: Annotated[
        Poisson | Constant | str | None, Doc("constant or poisson:1; without it both are tried", rare=True)
    ] = None,
    balance: Annotated[
        Percentile | MaxCurrent | str, Doc("how thresholds are found: percentile:99.9 or max-current", rare=True)
    ] = "percentile",
    steps: Annotated[int, Range(ge=1), Doc("time steps that a spiking network is run for, at most")] = 32,
    precision: Annotated[Precision, Doc("numbers of spiking networks; int8 rounds the weights", rare=True)] = "float32",
    prices: Annotated[
        Prices | str, Doc("picojoules per operation, as picojoule:0.9,4.6 or picojoule:neurons=true", rare=True)
    ] = "picojoule",
    seed: Seed = 0,
    batch: Batch = 256,
    threads: Threads = 1,
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Tailored:
    """The cheapest network that meets the limits: reduced, fine-tuned, converted to spikes, or a combination.

    ``accuracy`` is a share of correct answers (0.9, ``"90%"``); ``energy`` a share of the network's own or an amount
    per input (0.2, ``"1.5uJ"``); ``params`` a share or a number (0.5, 20000). Candidates are chosen on the validation
    split, or on rows drawn from the test split, ``margin`` standard errors above the accuracy limit (None: growing with
    the number of configurations); the chosen one is judged once on other rows (``test_rows`` of each; None: all).
    ``recover`` sets how cut networks are trained, on ``tune_rows`` training rows (None: all; ``recover=None``: not at
    all), ``rows`` how many rows pruning methods use. Conversions are tried unless only the size is limited, or as
    ``spiking`` says, for at most ``steps`` steps.

    The search goes from coarse to fine and ends early when ``budget`` (seconds, ``"10m"``) is spent. With ``out``, a
    folder, every candidate is kept there: the same call resumes an interrupted one, and calls with other limits reuse
    its candidates. If no network meets the limits, the nearest is returned, and ``record.verdict`` says so.

    >>> import weightsmith as ws
    >>> digits = ws.data.load("digits")
    >>> run = ws.train("mlp:40", digits, optimiser="adam", schedule=0.01, epochs=10)
    >>> small = tailor(run, digits, accuracy=0.9, params=0.4, recover=None)
    >>> small.record.best.kind, small.record.best.params_share <= 0.4
    ('reduced', True)
    """
    from weightsmith.chain.tailor.concluding import check_any, concluded, judge
    from weightsmith.chain.tailor.proposing import Proposer
    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.chain.tailor.rows import divided
    from weightsmith.chain.tailor.runner import CandidateRunner, Conditions
    from weightsmith.networks.card import card_of, meaning_digest, weights_digest
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.conversion.preparing import encoding_of

    asked = _Asked(
        wanted=Wanted.read(accuracy, energy, params),
        budget=read_seconds(budget),
        margin=_margin(margin),
        recover=None if recover is None else str(recover),
        spiking=spiking,
        steps=steps,
        encodings=("constant", "poisson") if encode is None else (str(encoding_of(encode)),),
        balance=str(Balance.of(balance)),
    )
    conditions = Conditions(
        neuron=Neuron.of(neuron),  # type: ignore[arg-type]  # the family has these two members
        precision=precision,
        prices=_prices(prices, precision),
        rows=rows,
        seed=seed,
        batch=batch,
        threads=threads,
    )
    counts = {"test_rows": test_rows, "tune_rows": tune_rows}
    module = _network(network)
    found = divided(data, **counts, seed=conditions.seed)
    settings = counts | {
        field.name: _plain(getattr(conditions, field.name)) for field in dataclasses.fields(conditions)
    }
    origin = Origin(seed=conditions.seed, inputs={"network": weights_digest(module), **found.inputs})
    card = meaning_digest(card_of(module))  # equal weights with another normalisation are another network
    call = {"settings": settings, "card": card, **origin.to_dict()}
    with _working_folder(out) as folder, Journal(folder / "journal.jsonl", call) as journal:
        runner = CandidateRunner(module, found, conditions, folder / "reductions", journal)
        limits = asked.wanted.of(energy=runner.energy, params=runner.parameters)
        menu = asked.menu(limits, runner)
        preference = Preference(limits, _SEARCHING if asked.margin is None else asked.margin)
        untried = _search(runner, Proposer(menu, preference, runner.candidates), asked.budget, as_callback(progress))
        check_any(runner)
        tried = len({candidate.way.key for candidate in runner.candidates})
        final = Preference(limits, margin_for(tried) if asked.margin is None else asked.margin)
        judged = judge(runner, final, as_callback(progress))
        made = runner.made(judged.best.way)
        options = {
            "accuracy": accuracy,
            "energy": energy,
            "params": params,
            **asked.written(menu),
            "margin": final.margin,
        }
        options["steps"] = judged.best.steps  # the number of steps to run; None if it does not spike
        written = {"data": found.choosing.name, **options, **settings}
        record = concluded(runner, judged, made, untried=untried, settings=written, origin=origin)
        if out is not None:
            _write(folder, record, made)
    return Tailored(record, made)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """The limits, the budget, and the options of the search."""

    wanted: Wanted
    budget: float | None
    margin: float | None
    recover: str | None
    spiking: bool | None
    steps: int
    encodings: tuple[str, ...]
    balance: str

    def menu(self, limits: Limits, runner: CandidateRunner) -> Menu:
        """The options of the search, once the whole network is known."""
        from weightsmith.chain.tailor.proposing import Menu

        return Menu(
            energy=None if limits.energy is None else limits.energy / runner.energy,
            params=None if limits.params is None else limits.params / runner.parameters,
            recover=self.recover,
            spiking=not limits.size_only if self.spiking is None else self.spiking,
            steps=self.steps,
            encodings=self.encodings,
            balance=self.balance,
        )

    def written(self, menu: Menu) -> dict[str, Any]:
        """The options for the record; those of conversions only if some were tried."""
        spiking = {"most_steps": self.steps, "encode": list(self.encodings), "balance": self.balance}
        conversion = spiking if menu.spiking else dict.fromkeys(spiking)
        return {"budget": self.budget, "recover": self.recover, "spiking": menu.spiking, **conversion}


def _search(
    runner: CandidateRunner, proposer: Proposer, budget: float | None, progress: ProgressCallback | None
) -> tuple[str, ...]:
    """Run the proposed configurations until all are done or the budget is spent; return the untried ones."""
    stages = proposer.stages()
    for stage, propose in stages:
        configs = [config for config in dict.fromkeys(propose()) if not runner.knows(config)]
        for index, config in enumerate(configs):
            if budget is not None and runner.spent >= budget:
                left = [str(config) for config in configs[index:]]
                return (*left, *(f"{name}: not begun" for name, _ in stages))
            runner.go(config, stage)
            if progress is not None:
                progress(stage, index + 1, len(configs))
    return ()


def _prices(given: Prices | str, precision: str) -> Prices:
    from weightsmith.spiking.energy.cost import PriceList

    option: Prices = PriceList.of(given)  # type: ignore[assignment]  # the family has one member
    return option.of_run(precision)


def _margin(given: float | None) -> float | None:
    if given is not None and not 0 <= given < math.inf:
        raise UsageError(f"margin must be ≥ 0 standard errors, not {given!r}")
    return None if given is None else float(given)


def _network(given: Any) -> nn.Module:
    """A copy in ``eval`` mode."""
    from torch import nn

    from weightsmith.networks.editing.copying import copied
    from weightsmith.networks.files import load
    from weightsmith.networks.held import held_network
    from weightsmith.spiking.files import is_spiking
    from weightsmith.spiking.network import SpikingNetwork

    given = held_network(given)
    if isinstance(given, nn.Module):
        return copied(given).eval()
    if isinstance(given, SpikingNetwork) or (isinstance(given, str | Path) and is_spiking(given)):
        raise UsageError("this is a spiking network already; tailor begins with the network that it came from")
    if not isinstance(given, str | Path):
        raise UsageError(f"a network is a module, a training run, a file or a folder, not {type(given).__name__}")
    return load(given).eval()


@contextlib.contextmanager
def _working_folder(out: str | Path | None) -> Iterator[Path]:
    """The folder, or a temporary one; a folder with other results is refused."""
    if out is not None:
        folder = Path(out)
        results = [name for name in ("network.safetensors", "record.json") if (folder / name).exists()]
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file; out is a folder")
        if results and not (folder / "journal.jsonl").exists():
            raise UsageError(f"{folder} holds {results[0]} of something else, which would be lost; give another folder")
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="weightsmith-tailor-") as temporary:
        yield Path(temporary)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)


def _write(folder: Path, record: TailorRecord, network: nn.Module | SpikingNetwork) -> None:
    """Write the chosen network and then the record, which marks it as complete; an old record is deleted first."""
    from weightsmith.networks.files import save
    from weightsmith.spiking.files import save_spiking
    from weightsmith.spiking.network import SpikingNetwork

    path = folder / "network.safetensors"
    (folder / "record.json").unlink(missing_ok=True)
    if isinstance(network, SpikingNetwork):
        save_spiking(network, path)
    else:
        save(network, path)
    write_atomic(folder / "record.json", record.to_json(indent=1) + "\n")
