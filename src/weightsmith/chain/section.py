"""The description of a chain: its recipe, and the result of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weightsmith.chain.reading.results import read_evaluation, read_record
from weightsmith.chain.results import ChainRecord, ChainRun, StageDone
from weightsmith.core.progress import time_text
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval
from weightsmith.grading.results import Grades
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.family import short_digest
from weightsmith.networks.target_evaluation import RegressionEvaluation
from weightsmith.reducing.inspecting import AnglesRecord
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reporting.parts import Cell, Column, Facts, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._wording import (
    changed,
    conclusion,
    counted,
    energy_text,
    facts_of,
    percent_within,
    setting_text,
    significant,
)
from weightsmith.spiking.results import SpikeRecord
from weightsmith.training.run import TrainRecord

__all__ = ["StageLine", "as_dict", "chain_section", "lines_of"]


def chain_section(chain: ChainRun | ChainRecord, name: str = "") -> Section:
    """The section of a chain named ``name``; for a finished run, with the result and duration of every stage."""
    record = chain.record if isinstance(chain, ChainRun) else chain
    lines = lines_of(chain) if isinstance(chain, ChainRun) else []
    parts: list[Part] = []
    notes = [f"{line.stage} (seed {line.seed}): {line.doubt}" for line in lines if line.doubt is not None]
    if notes or record.notes:
        parts.append(Notes((*notes, *record.notes)))
    if isinstance(chain, ChainRun):
        parts.append(_results(chain, lines))
        parts += [Prose("\n\n".join(found))] if (found := list(_findings(lines))) else []
    recipe = Facts("Recipe", tuple(_recipe(record.recipe)), detail=True)
    parts += [_files(record), recipe, facts_of({}, record.origin)]
    seeds = sorted({stage.seed for stage in record.stages})
    names = list(dict.fromkeys(stage.name for stage in record.stages))
    lead = f"{counted(len(names), 'stage')} for {counted(len(seeds), 'seed')}: {' → '.join(names)}."
    chips = (("stages", f"{len(names):,}"), ("seed" if len(seeds) == 1 else "seeds", ", ".join(map(str, seeds)) or "–"))
    page = chain.page if isinstance(chain, ChainRun) else None
    following = () if page is None else (f"{page} shows all results: open it in a browser",)
    folder = chain.folder.name if isinstance(chain, ChainRun) else "unnamed"
    return Section(f"Chain: {name or folder}", lead, tuple(parts), chips, try_next=following)


def _findings(lines: Sequence[StageLine]) -> Iterator[str]:
    several = len({line.seed for line in lines}) > 1
    for line in lines:
        if line.finding is not None:
            yield f"{line.stage}{f' (seed {line.seed})' if several else ''} {line.finding}."


def _results(run: ChainRun, lines: Sequence[StageLine]) -> Table:
    """A row per stage with its result and duration, and one for the page."""
    columns = (
        Column("stage"),
        Column("seed", numeric=True),
        Column("what was done"),
        Column("accuracy", "with its 95 % interval; R² for a regression", numeric=True),
        Column("parameters", numeric=True),
        Column("energy", "per image", numeric=True),
        Column("time", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = [
        (
            line.stage,
            line.seed,
            line.what,
            None if line.accuracy is None else Shown(line.accuracy.value, percent_within(line.accuracy)),
            line.parameters,
            None if line.energy is None else Shown(line.energy, energy_text(1e6 * line.energy)),
            Shown(line.seconds, _time(line.seconds)),
        )
        for line in lines
    ]
    if run.page_seconds is not None:
        took = Shown(run.page_seconds, _time(run.page_seconds))
        rows.append(("report", None, "a page of these stages", None, None, None, took))
    total = sum(line.seconds for line in lines) + (run.page_seconds or 0.0)
    return Table("Stages", columns, tuple(rows), f"{_time(total)} in all.", file="results.csv")


def _files(record: ChainRecord) -> Table:
    columns = (
        Column("stage"),
        Column("what", "the verb that was called"),
        Column("of", "the stage whose network it took"),
        Column("seed", numeric=True),
        Column("folder", "relative to the chain's folder"),
        Column("network", "first digits of the SHA-256 of the resulting weights"),
        Column("record.json", "first digits of the SHA-256 of that file"),
    )
    rows = tuple(
        (
            stage.name,
            stage.kind,
            stage.of,
            stage.seed,
            stage.folder,
            None if stage.network is None else short_digest(stage.network),
            short_digest(stage.sha256),
        )
        for stage in record.stages
    )
    return Table("Stages and their files", columns, rows, file="stages.csv", detail=True)


def _recipe(recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings of the recipe, a line for each stage; omitted options have the verb's default."""
    rows = [(key, setting_text(value)) for key, value in recipe.items() if key != "stages" and value is not None]
    stages = recipe.get("stages")
    for stage in stages if isinstance(stages, list | tuple) else ():
        if isinstance(stage, Mapping):
            options = stage.get("options")
            text = ", ".join(f"{key} = {setting_text(value)}" for key, value in dict(options or {}).items())
            rows.append((f"{stage.get('kind')} {stage.get('name')}", text or "defaults"))
    return rows


class StageLine(NamedTuple):
    """One stage in words and numbers; energy in microjoules per image, None if a stage has no such number.

    ``doubt`` says why an accuracy in the folder is not shown for the stage, ``finding`` what the stage cost.
    """

    seed: int
    stage: str
    what: str
    accuracy: Interval | None
    parameters: int | None
    energy: float | None
    seconds: float
    doubt: str | None = None
    finding: str | None = None


def lines_of(run: ChainRun) -> list[StageLine]:
    """The result of each stage, read from its record."""
    return [_line(run, stage) for stage in run.record.stages]


def as_dict(run: ChainRun) -> dict[str, Any]:
    """The run as JSON values, for ``--json``."""
    stages = [
        {**line._asdict(), "accuracy": None if line.accuracy is None else line.accuracy.to_dict()}
        for line in lines_of(run)
    ]
    page = None if run.page is None else str(run.page)
    return {
        "record": run.record.to_dict(),
        "stages": stages,
        "folder": str(run.folder),
        "page": page,
        "page_seconds": run.page_seconds,
        "description": chain_section(run).to_dict(),
    }


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else time_text(seconds)


def _line(run: ChainRun, stage: StageDone) -> StageLine:
    folder = run.folder / stage.folder
    record = read_record(folder / "record.json")
    numbers = dict(_numbers(record, folder))
    return StageLine(
        seed=stage.seed,
        stage=stage.name,
        what=_what(record, stage),
        accuracy=numbers.get("accuracy"),
        parameters=numbers.get("parameters"),
        energy=numbers.get("energy"),
        seconds=run.seconds[stage.seed, stage.name],
        doubt=numbers.get("doubt"),
        finding=_finding(record),
    )


def _numbers(record: Record, folder: Path) -> Iterator[tuple[str, Any]]:
    match record:
        case TrainRecord():
            yield "parameters", record.parameters
            if (judged := read_evaluation(folder, record)) is not None:
                yield ("accuracy", judged.evaluation.score) if judged.doubt is None else ("doubt", judged.doubt)
        case Evaluation() | RegressionEvaluation():
            yield "accuracy", record.score
        case ReductionRecord():
            yield "accuracy", record.measured.reduced
            yield "parameters", record.reduced.parameters
        case SpikeRecord():
            yield "accuracy", record.decisions.spiking
            yield "energy", record.cost.energy / 1e6


def _what(record: Record, stage: StageDone) -> str:
    of = "" if stage.of is None else f" of {stage.of}"
    match record:
        case TrainRecord():
            network = str(record.settings.get("network", "a network")).partition(",input_shape")[0]
            return f"{network}, {len(record.history)} epochs"
        case Grades():
            counts = ", ".join(f"{count} {kind.value}" for kind, count in record.verdicts().items())
            return f"layers{of}: {counts}"
        case AnglesRecord():
            near = sum(site.similar + site.complementary for site in record.sites)
            return f"{near:,} pairs of units{of} within {record.settings['angle']:g}°"
        case ReductionRecord():
            return f"{record.settings['by']}{of}: {record.whole.units:,} → {record.reduced.units:,} units"
        case SpikeRecord():
            adjusted = "" if record.adjustment is None else f", {record.adjustment.adjust}"
            return f"{record.settings['neuron']}{adjusted}{of}, {counted(record.steps, 'step')}"
    return f"{stage.kind}{of}"


def _finding(record: Record) -> str | None:
    """What a reduction or a conversion cost, with what its interval excludes."""
    match record:
        case ReductionRecord():
            share = record.reduced.parameters / record.whole.parameters
            cost = record.measured.cost
            return f"keeps {share:.0%} of the parameters: {changed(cost)}, {conclusion(cost)}"
        case SpikeRecord() if record.cost.ratio is not None:
            cost, ratio = record.decisions.cost, significant(record.cost.ratio)
            after = f"after {counted(record.steps, 'step')} takes {ratio} times the energy of its network"
            return f"{after}: {changed(cost)}, {conclusion(cost)}"
    return None
