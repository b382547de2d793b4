"""``spike``: convert a trained network, run it on test data, and record its accuracy and cost."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, for_stage
from weightsmith.core.records import Origin, write_record
from weightsmith.core.text import read_share
from weightsmith.core.verbs import Cluster, Device, Doc, Seed, Workers, verb, written
from weightsmith.spiking.neurons import IF, LIF, Devices, Graded, Mismatch, Neuron, Precision
from weightsmith.spiking.simulation.exits import Exit, Margin

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.spiking.choices import Choice
    from weightsmith.spiking.choosing import Wish
    from weightsmith.spiking.conversion.balance import MaxCurrent, Mse, Percentile
    from weightsmith.spiking.conversion.calibrate import CalibrateBias, CalibrateDistill, CalibrateWeights
    from weightsmith.spiking.conversion.preparing import ConversionSettings, Prepared
    from weightsmith.spiking.conversion.subject import Subject
    from weightsmith.spiking.encoding import Constant, Poisson
    from weightsmith.spiking.energy.cost import Prices
    from weightsmith.spiking.l4.adjust import L4
    from weightsmith.spiking.results import SpikeRun
    from weightsmith.training.run import TrainRun

__all__ = ["holds_other_results", "spike"]

_STEPS = 64


@verb(
    types=(
        "spiking.encoding",
        "spiking.conversion.balance",
        "spiking.conversion.calibrate",
        "spiking.l4.adjust",
        "spiking.energy.cost",
    )
)
def spike(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    neuron: Annotated[
        IF | LIF | Graded | str | None,
        Doc("if, if:signed=true (takes spikes back), lif:0.95 (leak per step), graded:5 (spikes of five sizes)"),
    ] = None,
    encode: Annotated[
        Poisson | Constant | str,
        Doc("constant (pixels as currents) or poisson (random spikes; inputs between −1 and 1)"),
    ] = "constant",
    balance: Annotated[
        Percentile | Mse | MaxCurrent | str | None,
        Doc("how thresholds are found: percentile:99.9, mse (for the steps of the run), max-current (without bias)"),
    ] = None,
    calibrate: Annotated[
        CalibrateBias | CalibrateWeights | CalibrateDistill | str | None,
        Doc("bias, weights:ridge=0.01 or distill fits the layers to the network for a run of few steps; no labels"),
    ] = None,
    adjust: Annotated[L4 | str | None, Doc("l4:1.0 adjusts the first layer by its L4 norms (smoothing 1.0)")] = None,
    steps: Annotated[int | None, Range(ge=1), Doc("time steps per image; 64 unless a conversion is chosen")] = None,
    within: Annotated[
        float | None, Range(ge=0), Doc("choose the conversion of least energy that loses at most this many points")
    ] = None,
    energy: Annotated[
        float | str | None,
        Doc("choose the best conversion with at most this share of the network's energy: 30% or 0.3", read=read_share),
    ] = None,
    exportable: Annotated[
        Literal["nir"] | None, Doc("nir: choose among conversions that NIR can express", flag="--for")
    ] = None,
    precision: Annotated[Precision, Doc("number format of the run; int8 rounds the weights", rare=True)] = "float32",
    early: Annotated[
        Margin | str | None, Doc("margin:3 ends an image once its answer leads by 3 standard errors")
    ] = None,
    settle: Annotated[
        int, Range(ge=0), Doc("number of first steps whose outputs are left out of the sums", rare=True)
    ] = 0,
    mismatch: Annotated[
        Mismatch | str | None,
        Doc("mismatch:threshold=0.1,leak=0.1 gives every neuron its own threshold and leak", rare=True),
    ] = None,
    prices: Annotated[
        Prices | str,
        Doc("picojoules per operation, as picojoule:0.9,4.6; default: those of the precision", rare=True),
    ] = "picojoule",
    test_rows: Annotated[int | None, Range(ge=1), Doc("test rows for the final evaluation; all by default")] = None,
    watch: Annotated[int, Range(ge=0), Doc("test rows measured in detail, for statistics and figures", rare=True)] = 8,
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Workers = 1,
    cluster: Cluster = None,
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
) -> SpikeRun:
    """Convert ``network`` into a spiking one and run it for ``steps`` steps on the test split of ``data``.

    With ``within`` or ``energy``, those of neuron, thresholds, calibration, steps, settling and early exit that are not
    given are chosen on training rows, and the chosen conversion is tested once (the record's ``verdict``). Without any
    option about the conversion the knee of the front of accuracy and energy is chosen. Otherwise the neuron is ``if``,
    thresholds are found by percentile, and the steps are 64. The record's ``choice`` has all candidates.

    Thresholds are found by ``balance`` on training rows, and ``calibrate`` moves biases or weights on some of them,
    without labels, so that few steps suffice (best with ``neuron="if:signed=true"`` or ``"graded:5"``); ``distill``
    loses least and takes longest. ``adjust``
    (``L4(smoothing)``) changes the weights of the first layer by their L4 norms. ``test_rows`` of the test split are
    drawn by the seed (None: all). ``early`` (``Margin(3)``) ends an image once its answer is clear; outputs of the
    first ``settle`` steps are left out of the sums, because deep layers need some steps until their rates are right.
    ``mismatch`` gives every neuron its own threshold and leak, ``precision="int8"`` rounds weights to 8 bits. ``watch``
    images are measured in detail: firing statistics, rates against activations, some spike trains (0: none). With
    ``out``, a folder, the spiking network and the record are written.

    >>> import weightsmith as ws
    >>> digits = ws.data.load("digits")
    >>> run = ws.train("mlp:40", digits, optimiser="adam", schedule=0.01, epochs=10)
    >>> snn = spike(run.network, digits, steps=32)
    >>> snn.record.decisions.cost.difference > -0.05
    True
    """
    from weightsmith.spiking.choosing import Wish
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.conversion.calibrate import Calibrate
    from weightsmith.spiking.conversion.preparing import ConversionSettings, encoding_of
    from weightsmith.spiking.conversion.subject import read_subject
    from weightsmith.spiking.energy.cost import PriceList
    from weightsmith.spiking.l4.adjust import Adjust
    from weightsmith.spiking.simulation.simulate import check_device

    settings = written(spike, locals())
    fixed = {"neuron": neuron, "balance": balance, "calibrate": calibrate, "steps": steps}
    fixed = {name: value for name, value in fixed.items() if value is not None}
    free = not fixed and adjust is None and early is None and not settle and mismatch is None
    wished = free or (within, energy, exportable) != (None,) * 3
    share = None if energy is None else read_share(energy)
    recipe = ConversionSettings(
        neuron=Neuron.of("if" if neuron is None else neuron),  # type: ignore[arg-type]  # the family has these members
        encode=encoding_of(encode),
        balance=Balance.of("percentile" if balance is None else balance),  # type: ignore[arg-type]
        calibrate=None if calibrate is None else Calibrate.of(calibrate),  # type: ignore[arg-type]
        adjust=None if adjust is None else Adjust.of(adjust),  # type: ignore[arg-type]
        mismatch=None if mismatch is None else Devices.of(mismatch),  # type: ignore[arg-type]
        precision=precision,
        steps=_STEPS if steps is None else steps,
        seed=seed,
    )
    call = _Call(
        recipe=recipe,
        wish=Wish(within, share, exportable == "nir") if wished else None,
        fixed=fixed,
        early=None if early is None else Exit.of(early),  # type: ignore[arg-type]
        settle=settle,
        prices=PriceList.of(prices),  # type: ignore[arg-type]
        watch=watch,
        device=device,
        progress=progress,
    )
    _check_call(recipe, call.wish, settle=settle, early=call.early)
    check_device(device)
    if out is not None:
        _check_folder(Path(out))
    subject = read_subject(network, data, images=test_rows, seed=recipe.seed)
    with _claimed(out, settings, subject):
        run = _run(subject, _convert(subject, call), call, settings)
        if out is not None:
            _write(Path(out), run)
    return run


@dataclasses.dataclass(frozen=True)
class _Call:
    """The arguments of a call: a conversion (``recipe``), or a ``wish`` with ``fixed`` settings, and how to run it."""

    recipe: ConversionSettings
    wish: Wish | None
    fixed: dict[str, Any]
    early: Margin | None
    settle: int
    prices: Prices
    watch: int
    device: str
    progress: ProgressCallback | bool | None


class _Converted(NamedTuple):
    """The spiking network, the conversion that made it, how it is run, the choice it was taken from, and notes."""

    prepared: Prepared
    recipe: ConversionSettings
    settle: int
    early: Margin | None
    choice: Choice | None
    notes: tuple[str, ...]


def _convert(subject: Subject, call: _Call) -> _Converted:
    """The given conversion, or the one chosen for a wish."""
    from weightsmith.spiking.choosing import choose
    from weightsmith.spiking.conversion.preparing import calibration_rows, prepare, range_notes

    choice: Choice | None = None
    recipe, notes = call.recipe, tuple[str, ...]()
    settle, early = call.settle, call.early
    if call.wish is None:
        prepared = prepare(subject, recipe, for_stage(call.progress, "balancing"))
    else:
        choice, prepared, recipe = choose(
            subject,
            recipe,
            call.wish,
            fixed=call.fixed,
            prices=call.prices,
            progress=for_stage(call.progress, "choosing"),
        )
        settle, rule = choice.chosen.settle, choice.chosen.early
        early = None if rule is None else Exit.of(rule)  # type: ignore[assignment]  # the family has one member
        notes = choice.left_out
        if not choice.met:
            notes += (f"no candidate meets the wish ({call.wish}) on training rows; the nearest was taken",)
    notes += prepared.notes
    rows = calibration_rows(len(subject.train), recipe.balance.images, recipe.seed)
    notes += range_notes(subject.train.x[rows], subject.judged.x)
    if early is not None and early.least >= recipe.steps:
        notes += (f"no image ends early: {early} lets every image run for all {recipe.steps} steps",)
    return _Converted(prepared, recipe, settle, early, choice, notes)


def _run(subject: Subject, made: _Converted, call: _Call, settings: dict[str, Any]) -> SpikeRun:
    """Run the spiking network on the evaluated split, and record accuracy and cost."""
    from weightsmith.networks.models.architecture import architecture_of
    from weightsmith.spiking._recording import cost_of, decisions_of, populations_of, watched
    from weightsmith.spiking.choices import Verdict
    from weightsmith.spiking.energy.cost import UnitCounts
    from weightsmith.spiking.files import spiking_digest
    from weightsmith.spiking.nir.exchange import nir_obstacle
    from weightsmith.spiking.results import SpikeRecord, SpikeRun
    from weightsmith.spiking.simulation.simulate import simulate

    prepared, recipe = made.prepared, made.recipe
    counts = UnitCounts(prepared.network)
    responses = simulate(
        prepared.network,
        subject.judged.x,
        recipe.steps,
        seed=recipe.seed,
        precision=recipe.precision,
        early=made.early,
        settle=made.settle,
        observers=(counts,),
        device=call.device,
        progress=for_stage(call.progress, "running"),
    )
    settings |= {
        "neuron": str(recipe.neuron),
        "balance": str(recipe.balance),
        "calibrate": None if recipe.calibrate is None else str(recipe.calibrate),
        "steps": recipe.steps,
        "settle": made.settle,
        "early": None if made.early is None else str(made.early),
    }
    architecture = architecture_of(subject.network)
    decisions = decisions_of(subject, responses)
    cost = cost_of(subject, prepared, recipe, responses, counts=counts, prices=call.prices)
    verdict, wish = None, call.wish
    if wish is not None and (wish.within, wish.energy) != (None, None):
        energy = cost.energy if cost.ratio is None else cost.ratio
        verdict = Verdict.of(decisions.cost, energy, wish.within, wish.energy)
    record = SpikeRecord(
        settings={"data": subject.data.name, **settings},
        network=type(subject.network).__name__ if architecture is None else str(architecture),
        steps=recipe.steps,
        populations=populations_of(prepared, recipe, responses),
        decisions=decisions,
        cost=cost,
        adjustment=prepared.adjustment,
        watched=watched(subject, prepared, recipe, made.early, call.watch) if call.watch else None,
        paths=responses.paths,
        notes=made.notes if verdict is None else (*made.notes, str(verdict)),
        result=spiking_digest(prepared.network),
        origin=Origin(seed=recipe.seed, inputs=subject.inputs),
        calibration=prepared.calibration,
        distillation=prepared.distillation,
        choice=made.choice,
        obstacle=nir_obstacle(prepared.network),
        verdict=verdict,
    )
    return SpikeRun(record, prepared.network)


def _check_call(recipe: ConversionSettings, wish: Wish | None, *, settle: int, early: Margin | None) -> None:
    """Refuse options that do not go together, before any work."""
    if wish is None and settle >= recipe.steps:
        raise UsageError(f"settle must be less than the {recipe.steps} steps of the run, not {settle}")
    if wish is not None and (settle or early is not None or recipe.adjust is not None):
        raise UsageError(
            "settle, early and adjust apply to a given conversion, not to one that is chosen: leave them out, "
            "or give neuron and steps instead of within, energy and exportable (--for)"
        )
    if recipe.precision == "int8" and recipe.mismatch is not None:
        raise UsageError("mismatch gives thresholds that are not integers; use precision float32 or float64")


def _claimed(out: str | Path | None, settings: dict[str, Any], subject: Subject) -> AbstractContextManager[object]:
    """Lock the result folder; it is refused if it belongs to another call or another process works in it."""
    from weightsmith.core.journal import Journal
    from weightsmith.networks.card import card_of, meaning_digest

    if out is None:
        return nullcontext()
    journal = Path(out) / "journal.jsonl"
    if (Path(out) / "record.json").exists() and not journal.exists():
        raise UsageError(f"{out} holds a result of an earlier version, which would be lost; give another folder")
    card = meaning_digest(card_of(subject.network))  # equal weights with another normalisation are another network
    origin = Origin(seed=settings["seed"], inputs=subject.inputs)
    asked = {"data": subject.data.name, **settings}
    return Journal(journal, {"verb": "spike", "settings": asked, "card": card, **origin.to_dict()})


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is a file, or that holds other results: a plain network, a record."""
    from weightsmith.spiking.files import is_spiking

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; out is a folder")
    network = folder / "network.safetensors"
    if network.exists() and not is_spiking(network):
        raise UsageError(f"{folder} holds a network that is not spiking, which would be lost; give another folder")
    if not network.exists() and holds_other_results(folder):
        raise UsageError(f"{folder} holds other results, such as a sweep; give another folder")


def holds_other_results(folder: Path) -> bool:
    """Whether a folder without a network has a record, or a journal of anything but an interrupted conversion."""
    from weightsmith.core.journal import read_journal

    if (folder / "record.json").exists():
        return True
    try:
        return (folder / "journal.jsonl").exists() and read_journal(folder / "journal.jsonl").call.get(
            "verb"
        ) != "spike"
    except (UsageError, FileRefused):
        return True


def _write(folder: Path, run: SpikeRun) -> None:
    """Write the spiking network and then the record, whose presence marks a complete result."""
    from weightsmith.spiking.files import save_spiking

    save_spiking(run.network, folder / "network.safetensors")
    write_record(folder / "record.json", run.record)
