"""``spike``: convert a trained network, run it on test data, and record its accuracy and cost."""

from __future__ import annotations

import dataclasses
import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, for_stage
from weightsmith.core.records import Origin
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.core.storage import write_atomic
from weightsmith.core.text import read_share
from weightsmith.core.verbs import Device, Doc, Seed, verb, written
from weightsmith.spiking.neurons import IF, LIF, Devices, Graded, Mismatch, Neuron, Precision
from weightsmith.spiking.simulation.exits import Exit, Margin

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.spiking.choices import Choice
    from weightsmith.spiking.choosing import Wish
    from weightsmith.spiking.conversion.balance import MaxCurrent, Mse, Percentile
    from weightsmith.spiking.conversion.calibrate import CalibrateBias, CalibrateWeights
    from weightsmith.spiking.conversion.preparing import ConversionSettings, Prepared
    from weightsmith.spiking.conversion.subject import Subject
    from weightsmith.spiking.encoding import Constant, Poisson
    from weightsmith.spiking.energy.cost import Prices, SpikeCost, UnitCounts
    from weightsmith.spiking.l4.adjust import L4
    from weightsmith.spiking.results import Decisions, Population, SpikeRun, Watched
    from weightsmith.spiking.simulation.responses import Responses
    from weightsmith.training.run import TrainRun

__all__ = ["decisions_of", "holds_other_results", "spike"]

_STEPS = 64
_RIVAL_ROWS = 512  # of the judging rows, on which the zero activations of the network are counted


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
        CalibrateBias | CalibrateWeights | str | None,
        Doc("bias or weights:ridge=0.01 makes every layer say in few steps what the network says; no labels"),
    ] = None,
    adjust: Annotated[L4 | str | None, Doc("l4:1.0 adjusts the first layer by its L4 norms (smoothing 1.0)")] = None,
    steps: Annotated[int | None, Range(ge=1), Doc("time steps for each image; 64 where nothing is chosen")] = None,
    within: Annotated[
        float | None, Range(ge=0), Doc("choose the conversion of least energy that loses at most so many points")
    ] = None,
    energy: Annotated[
        float | str | None,
        Doc("choose the best conversion with at most this share of the network's energy: 30% or 0.3", read=read_share),
    ] = None,
    exportable: Annotated[
        Literal["nir"] | None, Doc("nir: choose among conversions that NIR can express", flag="--for")
    ] = None,
    precision: Annotated[Precision, Doc("numbers of the run; int8 rounds the weights", rare=True)] = "float32",
    early: Annotated[
        Margin | str | None, Doc("margin:3 ends an image once its answer leads by 3 standard errors")
    ] = None,
    settle: Annotated[int, Range(ge=0), Doc("first steps whose outputs are left out of the sums", rare=True)] = 0,
    mismatch: Annotated[
        Mismatch | str | None, Doc("mismatch:threshold=0.1,leak=0.1 gives every neuron values of its own", rare=True)
    ] = None,
    prices: Annotated[
        Prices | str,
        Doc("picojoules per operation, as picojoule:0.9,4.6; without them those of the numbers of the run", rare=True),
    ] = "picojoule",
    test_rows: Annotated[int | None, Range(ge=1), Doc("test rows that judge the result; without it all")] = None,
    watch: Annotated[int, Range(ge=0), Doc("test rows looked at closely, for statistics and figures", rare=True)] = 8,
    seed: Seed = 0,
    device: Device = "cpu",
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
) -> SpikeRun:
    """Convert ``network`` into a spiking one and run it for ``steps`` steps on the test split of ``data``.

    With ``within`` or ``energy`` neuron, thresholds, calibration and steps are chosen on training rows, as far as they
    are not given, and the one that was chosen is tested once; without any option about the conversion the knee of the
    front of accuracy and energy is chosen. Else the neuron is ``if``, thresholds are found by percentile, and the steps
    are 64. The record's ``choice`` has all candidates.

    Thresholds are found by ``balance`` on training rows, and ``calibrate`` moves biases or weights on some of them,
    without labels, so that few steps suffice (best with ``neuron="if:signed=true"`` or ``"graded:5"``). ``adjust``
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
    from weightsmith.networks.models.architecture import architecture_of
    from weightsmith.spiking.choosing import Wish, choose
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.conversion.calibrate import Calibrate
    from weightsmith.spiking.conversion.preparing import ConversionSettings, encoding_of, prepare
    from weightsmith.spiking.conversion.subject import read_subject
    from weightsmith.spiking.energy.cost import PriceList, UnitCounts
    from weightsmith.spiking.files import spiking_digest
    from weightsmith.spiking.l4.adjust import Adjust
    from weightsmith.spiking.results import SpikeRecord, SpikeRun
    from weightsmith.spiking.simulation.simulate import check_device, simulate

    settings = written(spike, locals())
    fixed = {"neuron": neuron, "balance": balance, "calibrate": calibrate, "steps": steps}
    fixed = {name: value for name, value in fixed.items() if value is not None}
    free = not fixed and adjust is None and early is None and not settle and mismatch is None
    wished = free or (within, energy, exportable) != (None,) * 3
    share = None if energy is None else read_share(energy)
    wish = Wish(within, share, exportable == "nir") if wished else None
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
    rule: Margin | None = None if early is None else Exit.of(early)  # type: ignore[assignment]
    price: Prices = PriceList.of(prices)  # type: ignore[assignment]
    _check_call(recipe, wish, settle=settle, early=rule)
    check_device(device)
    if out is not None:
        _check_folder(Path(out))
    subject = read_subject(network, data, images=test_rows, seed=recipe.seed)
    with _claimed(out, settings, subject):
        choice: Choice | None = None
        notes: tuple[str, ...] = ()
        if wish is None:
            prepared = prepare(subject, recipe, for_stage(progress, "balancing"))
        else:
            choice, prepared, recipe = choose(
                subject, recipe, wish, fixed=fixed, prices=price, progress=for_stage(progress, "choosing")
            )
            notes = (
                () if choice.met else (f"no candidate meets the wish ({wish}) on training rows; the nearest was taken",)
            )
        settings |= {
            "neuron": str(recipe.neuron),
            "balance": str(recipe.balance),
            "calibrate": None if recipe.calibrate is None else str(recipe.calibrate),
            "steps": recipe.steps,
        }
        notes += prepared.notes
        if rule is not None and rule.least >= recipe.steps:
            notes += (f"no image ends early: {rule} lets every image run for all {recipe.steps} steps",)
        counts = UnitCounts(prepared.network)
        responses = simulate(
            prepared.network,
            subject.judged.x,
            recipe.steps,
            seed=recipe.seed,
            precision=recipe.precision,
            early=rule,
            settle=settle,
            observers=(counts,),
            device=device,
            progress=for_stage(progress, "running"),
        )
        architecture = architecture_of(subject.network)
        record = SpikeRecord(
            settings={"data": subject.data.name, **settings},
            network=type(subject.network).__name__ if architecture is None else str(architecture),
            steps=recipe.steps,
            populations=_populations(prepared, recipe, responses),
            decisions=decisions_of(subject, responses),
            cost=_cost(subject, prepared, recipe, responses, counts=counts, prices=price),
            adjustment=prepared.adjustment,
            watched=_watched(subject, prepared, recipe, rule, watch) if watch else None,
            paths=responses.paths,
            notes=notes,
            result=spiking_digest(prepared.network),
            origin=Origin(seed=recipe.seed, inputs=subject.inputs),
            calibration=prepared.calibration,
            choice=choice,
        )
        run = SpikeRun(record, prepared.network)
        if out is not None:
            _write(Path(out), run)
        return run


def _check_call(recipe: ConversionSettings, wish: Wish | None, *, settle: int, early: Margin | None) -> None:
    """Refuse options that do not go together, before any work."""
    if wish is None and settle >= recipe.steps:
        raise UsageError(f"settle must be less than the {recipe.steps} steps of the run, not {settle}")
    if wish is not None and (settle or early is not None or recipe.adjust is not None):
        raise UsageError(
            "settle, early and adjust go with a conversion that is given, not with one that is chosen: leave them out, "
            "or give neuron and steps instead of within, energy and exportable"
        )
    if recipe.precision == "int8" and recipe.mismatch is not None:
        raise UsageError("mismatch gives thresholds that are no whole numbers; run it in float32 or float64")


def _cost(
    subject: Subject,
    prepared: Prepared,
    recipe: ConversionSettings,
    responses: Responses,
    *,
    counts: UnitCounts,
    prices: Prices,
) -> SpikeCost:
    """The cost of the run beside that of its rivals."""
    from weightsmith.spiking.energy.cost import spike_cost
    from weightsmith.spiking.energy.rivals import rivals_of

    levels = recipe.neuron.levels(recipe.steps)
    rounded = prepared.network if recipe.precision == "int8" else None
    rivals = rivals_of(prepared.converted.network, subject.judged.x[:_RIVAL_ROWS], levels, rounded)
    cost = spike_cost(prepared.network, responses, counts, prices, precision=recipe.precision)
    return dataclasses.replace(cost, rivals=rivals)


def decisions_of(subject: Subject, responses: Responses) -> Decisions:
    """The answers of a run compared with those of the network."""
    from weightsmith.spiking.monitors.correspondence import confusion
    from weightsmith.spiking.results import Decisions
    from weightsmith.spiking.simulation.responses import UNDECIDED

    labels, answers = subject.judged.y.numpy(), subject.answers.numpy()
    right = responses.correct(labels)
    plain = answers == labels
    last = responses.answers[:, -1]
    changes = responses.answers != last[:, None]
    # The number of steps after which nothing changes: one more than the last step at which the answer was another.
    settled = np.where(changes.any(axis=1), responses.steps - changes[:, ::-1].argmax(axis=1) + 1, 1)
    return Decisions(
        split=subject.split,
        images=len(labels),
        network=wilson(int(plain.sum()), len(labels)),
        spiking=wilson(int(right[:, -1].sum()), len(labels)),
        cost=mcnemar(right[:, -1], plain),
        correct=right.sum(axis=0, dtype=np.int64),
        undecided=(responses.answers == UNDECIDED).sum(axis=0, dtype=np.int64),
        only_network=(plain[:, None] & ~right).sum(axis=0, dtype=np.int64),
        confusion=confusion(answers, last.astype(np.int64), responses.scores.shape[1]),
        settled=int(np.median(settled)),
        ended=float(responses.ended.mean()),
    )


def _populations(prepared: Prepared, recipe: ConversionSettings, responses: Responses) -> tuple[Population, ...]:
    from weightsmith.spiking.conversion.balance import threshold_range
    from weightsmith.spiking.results import Population

    rates, spikes = responses.rates(), responses.spikes()
    return tuple(
        Population(
            name=node.name,
            layer=node.layer,
            units=math.prod(prepared.network.shapes[node.name]),
            threshold=prepared.balance.thresholds[node.name] if recipe.precision == "int8" else threshold_range(node),
            rate=rates[node.name],
            spikes_per_image=spikes[node.name] / responses.images,
        )
        for node in prepared.network.populations
    )


def _watched(
    subject: Subject, prepared: Prepared, recipe: ConversionSettings, rule: Margin | None, images: int
) -> Watched:
    """A second run of a few images, with membranes shown."""
    from weightsmith.spiking.monitors.activity import Statistics
    from weightsmith.spiking.monitors.correspondence import Rates, correspondence
    from weightsmith.spiking.monitors.raster import Raster
    from weightsmith.spiking.results import Watched
    from weightsmith.spiking.simulation.simulate import simulate

    x = subject.judged.x[:images]
    network = prepared.network
    window = max(2, min(10, recipe.steps // 4))
    statistics = Statistics(network, images=len(x), window=window)
    raster = Raster(network, images=1, membranes=True, seed=recipe.seed)
    rates = Rates(network, images=len(x))
    simulate(
        network,
        x,
        recipe.steps,
        seed=recipe.seed,
        precision=recipe.precision,
        early=rule,
        observers=(statistics, raster, rates),
    )
    found = correspondence(rates, prepared.converted.activations, x, seed=recipe.seed)
    return Watched(statistics.record(), found, raster.record())


def _claimed(out: str | Path | None, settings: dict[str, Any], subject: Subject) -> AbstractContextManager[object]:
    """Hold the folder of the result: refused if it belongs to another call, or another process is at work in it."""
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
        raise UsageError(f"{folder} holds the results of something else, as of a sweep; give another folder")


def holds_other_results(folder: Path) -> bool:
    """Whether a folder without a network has a record, or a journal that is not that of an interrupted conversion."""
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
    """The files of a conversion: the spiking network, and last, as its seal, the record."""
    from weightsmith.spiking.files import save_spiking

    save_spiking(run.network, folder / "network.safetensors")
    write_atomic(folder / "record.json", run.record.to_json(indent=1) + "\n")
