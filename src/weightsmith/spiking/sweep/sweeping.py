"""Sweep: thresholds × smoothing × leak × reset × steps, chosen on training images, tested once.

The L4 adjustment multiplies the current of each unit of the first layer by a factor, which is the same as dividing its
threshold by it (seed 000, section 4). So all settings share their weights: they are laid out for the engine
once, the input spikes of an image and the currents of the first layer are computed once for all settings, and answers
after fewer steps are read off the longest run. Every setting sees the same spikes.

For each leak and reset two races are run on training images, one among the threshold factors alone (the baseline)
and one among factors and smoothings; winners are tested on the same test images.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, for_stage
from weightsmith.core.records import Origin, write_record
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.statistics import wilson
from weightsmith.core.verbs import Cluster, Doc, Seed, Workers, verb, written
from weightsmith.spiking.neurons import IF, Precision
from weightsmith.spiking.sweep.racing import Race, Racing
from weightsmith.spiking.sweep.results import SpikeSweep

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.spiking.conversion.balance import MaxCurrent, Percentile
    from weightsmith.spiking.encoding import Constant, Poisson
    from weightsmith.training.run import TrainRun

__all__ = ["spike_sweep"]

_LEAKS = (1.0, 0.99, 0.97, 0.95, 0.9)
_FACTORS = (0.3, 0.4, 0.5, 0.7)
_SMOOTHINGS = (0.5, 1.0, 2.0, 5.0, 10.0)
_WIDEN = 3


@verb(types=("spiking.encoding", "spiking.conversion.balance"))
def spike_sweep(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    leaks: Annotated[
        Sequence[float],
        Range(gt=0, le=1, min_length=1),
        Doc("factor on the membrane per step; 1 means no leak"),
    ] = _LEAKS,
    resets: Annotated[Sequence[Literal["soft", "hard"]], Doc("soft takes the threshold away, hard sets to zero")] = (
        "soft",
        "hard",
    ),
    factors: Annotated[
        Sequence[float], Range(gt=0, min_length=1), Doc("factors on the thresholds of balance")
    ] = _FACTORS,
    smoothings: Annotated[
        Sequence[float],
        Range(ge=0),
        Doc("smoothings of the L4 adjustment; larger values change less; none: thresholds alone"),
    ] = _SMOOTHINGS,
    steps: Annotated[int | Sequence[int], Range(ge=1, min_length=1), Doc("time steps for each image")] = 75,
    encode: Annotated[
        Poisson | Constant | str,
        Doc("poisson (random spikes; inputs between −1 and 1) or constant (pixels as currents)"),
    ] = "poisson",
    balance: Annotated[
        Percentile | MaxCurrent | str,
        Doc("how thresholds are found: max-current (networks without bias) or percentile:99.9"),
    ] = "max-current",
    delay: Annotated[bool, Doc("fire one step later, as the code of the L4 paper does", rare=True)] = False,
    rows: Annotated[int, Range(ge=1), Doc("training rows on which settings are chosen")] = 200,
    test_rows: Annotated[
        int | None, Range(ge=1), Doc("test rows on which the winners are evaluated; all, if there are fewer")
    ] = 1000,
    mean_rows: Annotated[
        int, Range(ge=1), Doc("training rows on which the adjustment measures mean membranes", rare=True)
    ] = 64,
    race: Annotated[
        Racing | str | None,
        Doc("racing drops settings that are clearly worse early; none runs all of them in full", rare=True),
    ] = "racing",
    widen: Annotated[
        int | None,
        Range(ge=0),
        Doc("times a grid may grow while its winner lies on the edge; 3, or 0 with given factors or smoothings"),
    ] = None,
    precision: Annotated[Precision, Doc("number format of the run; int8 rounds the weights", rare=True)] = "float32",
    seed: Seed = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
) -> SpikeSweep:
    """The best threshold factor, with and without L4 adjustment, for each leak, reset and number of steps.

    Factors multiply the thresholds that ``balance`` finds. Settings are chosen on ``rows`` training rows, and the
    winners are evaluated once on ``test_rows`` test rows (None: all). The adjustment measures its mean membranes on
    ``mean_rows`` training rows. With ``race=None`` every setting sees all training images. Where the winner of a race
    lies on the edge of its grid, the grid grows by one value beyond it, up to ``widen`` times. With ``out``, a folder,
    the sweep keeps its state there, and the same call resumes where it stopped.
    """
    from weightsmith.networks.card import card_of, meaning_digest
    from weightsmith.networks.models.architecture import architecture_of
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.conversion.preparing import ConversionSettings, encoding_of, prepare, with_whole_input
    from weightsmith.spiking.conversion.subject import read_subject
    from weightsmith.spiking.sweep.grid import Grid
    from weightsmith.spiking.sweep.work import Book, SweepWork

    settings = written(spike_sweep, locals())
    lengths = tuple(sorted({steps} if isinstance(steps, int) else set(steps)))
    grid = Grid(leaks, resets, factors, smoothings, delay)  # type: ignore[arg-type]  # any iterable is accepted
    recipe = ConversionSettings(
        neuron=IF(delay=delay),
        encode=encoding_of(encode),
        balance=Balance.of(balance),  # type: ignore[arg-type]
        adjust=None,
        mismatch=None,
        precision=precision,
        steps=max(lengths),
        seed=seed,
    )
    if out is not None and (Path(out) / "network.safetensors").exists():
        raise UsageError(f"{out} is the folder of a network, whose record would be lost; give another folder")
    whole = (tuple(factors), tuple(smoothings)) == (_FACTORS, _SMOOTHINGS)
    often = (_WIDEN if whole else 0) if widen is None else widen
    rule: Racing | None = None if race is None else Race.of(race)  # type: ignore[assignment]
    subject = read_subject(network, data, images=test_rows, seed=recipe.seed)
    recipe = with_whole_input(subject, recipe)
    settings |= {**grid.written(), "steps": list(lengths)}
    origin = Origin(seed=recipe.seed, inputs=subject.inputs)
    card = meaning_digest(card_of(subject.network))
    with pinned_threads(1), Book(out, {"settings": settings, "card": card, **origin.to_dict()}) as book:
        plain = dataclasses.replace(recipe, precision="float32")  # rounding, if any, is done once for all settings
        prepared = prepare(subject, plain, for_stage(progress, "balancing"))
        sweep = SweepWork(subject, prepared.network, recipe, lengths, book)
        races, grown = grid.races(), 0
        while True:
            sweep.measure_means(races, mean_rows, for_stage(progress, "means"))
            table, winners = sweep.choose(races, rows, rule, for_stage(progress, "racing"))
            wider = sweep.widened(races, winners)
            if wider == races or grown == often:
                break
            races, grown = wider, grown + 1
        tested = sweep.test(winners, for_stage(progress, "testing"))
    architecture = architecture_of(subject.network)
    record = SpikeSweep(
        settings=settings,
        network=type(subject.network).__name__ if architecture is None else str(architecture),
        split=subject.split,
        train_images=min(rows, len(subject.train)),
        test_images=len(subject.judged),
        plain=wilson(int((subject.answers == subject.judged.y).sum()), len(subject.judged)),
        steps=lengths,
        table=table,
        chosen=sweep.compared(winners, tested),
        notes=(*prepared.notes, *_edge_notes(grown, sum(map(operator.ne, races, wider)), len(races))),
        origin=origin,
    )
    if out is not None:
        write_record(Path(out) / "record.json", record)
    return record


def _edge_notes(grown: int, left: int, races: int) -> list[str]:
    """How often grids were widened, and in how many races the winner still lies on the edge."""
    notes = [] if not grown else [f"grids were widened {grown} time{'s' * (grown > 1)}: winners lay on their edge"]
    if left:
        notes.append(
            f"in {left} of {races} races the winner lies on the edge of its grid: a better one may lie beyond "
            f"(--widen {grown + 2})"
        )
    return notes
