"""Tailor: find a network within limits on accuracy, size, operations, bytes, energy or time."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.chain.tailor.limits import Wanted, read_seconds
from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, as_callback
from weightsmith.core.records import Origin, write_record
from weightsmith.core.verbs import Batch, Cluster, Doc, Seed, Threads, Workers, verb

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.tailor.results import Tailored, TailorRecord
    from weightsmith.spiking.energy.cost import Prices
    from weightsmith.spiking.network import SpikingNetwork
    from weightsmith.training.run import TrainRun

__all__ = ["tailor"]

_UNLABELLED = 1000


@verb(types=("spiking.energy.cost",))
def tailor(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    accuracy: Annotated[
        float | str | None, Doc("least accuracy in per cent, as 90; or -2: at most 2 points below the network's")
    ] = None,
    params: Annotated[
        float | str | None, Doc("most parameters: 75% or 0.75 of the network's own, or a number such as 20000")
    ] = None,
    macs: Annotated[
        float | str | None, Doc("most operations (multiply–accumulates): 50% of its own, or a number")
    ] = None,
    energy: Annotated[
        float | str | None, Doc("most energy per input: 20% of its own in float32, or an amount such as 1.5uJ")
    ] = None,
    time: Annotated[float | str | None, Doc("most time per input, as a share of its own: 50%")] = None,
    bytes: Annotated[  # noqa: A002 (the name of the limit)
        float | str | None, Doc("most bytes of weights: 25% of its own, or an amount such as 300kB")
    ] = None,
    spiking: Annotated[bool, Doc("consider spiking networks only, for spiking hardware")] = False,
    margin: Annotated[
        float | None,
        Range(ge=0.5, lt=1),
        Doc("confidence for the limit on the accuracy (exact binomial); none: the estimate alone counts"),
    ] = 0.95,
    rows: Annotated[
        int, Range(ge=8, le=_UNLABELLED), Doc("training rows to use; their labels are not read")
    ] = _UNLABELLED,
    test_rows: Annotated[int | None, Range(ge=1), Doc("rows for the final evaluation; all by default")] = None,
    budget: Annotated[
        float | str | None, Doc("end the search after that many CPU seconds, or 90s, 10m; the best so far is returned")
    ] = None,
    prices: Annotated[
        Prices | str, Doc("picojoules per operation, as picojoule:0.9,4.6 or picojoule:neurons=false", rare=True)
    ] = "picojoule",
    seed: Seed = 0,
    batch: Batch = 64,
    threads: Threads = 1,
    workers: Workers = 1,  # noqa: ARG001 (all maps in a verb run there)
    cluster: Cluster = None,  # noqa: ARG001
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Tailored:
    """The network within the limits: reduced, rounded to int8, spiking, or a combination, whichever loses least.

    ``accuracy`` is a share of right answers (90, ``"90%"``, 0.9) or points below the network's own (-2); the other
    limits are shares of the network's own costs (``"75%"``) or amounts. With a limit on a cost, the network that stays
    nearest to the original within it is taken; with one on the accuracy alone, the one of least energy. At most
    ``rows`` training rows are used, without their labels: sensitivities are measured once, the layers that read removed
    units are refitted in closed form, a cut that loses too much is distilled from the network for a few passes, and
    candidates are ranked by how far their outputs move. Then the best is judged on the test rows (``test_rows`` of
    them; None: all), which were not used before: the limit on the accuracy must hold with confidence ``margin``, by the
    exact binomial, paired with the network where the limit is relative to it.

    Energy is relative to the float32 network. int8 is among the candidates and shown beside every result;
    ``spiking=True`` takes spiking networks only.

    An interruption (Ctrl-C) ends the search, and the best so far is judged. With ``out``, a folder, every candidate is
    kept there: the same call resumes, and calls with other limits reuse its candidates; an int8 network is written as
    an ONNX file too, where the extra ``onnx`` is installed. If no network meets the limits, the nearest is returned,
    and ``record.verdict`` says so.

    >>> import weightsmith as ws
    >>> digits = ws.data.load("digits")
    >>> run = ws.train("mlp:40", digits, optimiser="adam", schedule=0.01, epochs=10)
    >>> small = tailor(run, digits, params="40%")
    >>> small.record.best.kind, small.record.best.params_share <= 0.4
    ('reduced', True)
    """
    from weightsmith.chain.tailor.choosing import Preference
    from weightsmith.chain.tailor.concluding import check_any, concluded, judge, timeline
    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.chain.tailor.rows import divided
    from weightsmith.chain.tailor.runner import CandidateRunner, Conditions
    from weightsmith.chain.tailor.searching import Search
    from weightsmith.networks.card import card_of, meaning_digest, weights_digest
    from weightsmith.spiking.energy.cost import PriceList

    asked = {"params": params, "macs": macs, "energy": energy, "time": time, "bytes": bytes}
    wanted = Wanted.read(accuracy, **asked)
    conditions = Conditions(
        prices=PriceList.of(prices),  # type: ignore[arg-type]  # the family has one member
        seed=seed,
        batch=batch,
        threads=threads,
        timed=time is not None,
    )
    most = read_seconds(budget)
    module = _network(network)
    found = divided(data, rows=rows, test_rows=test_rows, seed=seed)
    shared = {field.name: _plain(getattr(conditions, field.name)) for field in dataclasses.fields(conditions)}
    shared |= {"rows": rows, "test_rows": test_rows}
    origin = Origin(seed=seed, inputs={"network": weights_digest(module), **found.inputs})
    card = meaning_digest(card_of(module))  # equal weights with another normalisation are another network
    call = {"settings": shared, "card": card, **origin.to_dict()}
    report = as_callback(progress)
    with _working_folder(out) as folder, Journal(folder / "journal.jsonl", call) as journal:
        runner = CandidateRunner(module, found, conditions, folder / "candidates", journal)
        limits = wanted.of(**runner.costs)
        preference = Preference(limits, spiking)
        untried = Search(runner, preference, report).run(most)
        check_any(runner)
        moments = timeline(runner, preference)
        judged = judge(runner, preference, margin, report)
        made = runner.made(judged.best.way)
        settings = {
            "data": found.choosing.name,
            "accuracy": accuracy,
            **asked,
            "spiking": spiking,
            "margin": margin,
            "budget": most,
            **shared,
        }
        settings["steps"] = judged.best.steps  # the number of steps to run; None if it does not spike
        record = concluded(runner, judged, preference, made, untried=untried, settings=settings, origin=origin)
        if out is not None:
            note = runner.written_as_onnx(judged.best.way, folder / "network-int8.onnx")
            record = dataclasses.replace(record, notes=(*record.notes, *note))
            _write(folder, record, made)
        seconds = runner.spent
    return Tailored(record, made, moments, seconds)


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
        raise UsageError("this is a spiking network already: tailor the network it was converted from")
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
            raise UsageError(f"{folder} holds another {results[0]}, which would be overwritten; give another folder")
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
    write_record(folder / "record.json", record)
