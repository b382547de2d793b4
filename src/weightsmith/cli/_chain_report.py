"""Print a finished chain: a line per stage with its result and duration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.markup import escape

from weightsmith.cli._stages import stages
from weightsmith.cli.terminal import count_text, out, percent, table
from weightsmith.cli.training_view import time_text
from weightsmith.core.progress import ProgressCallback

if TYPE_CHECKING:
    from weightsmith.chain.results import ChainRun, StageDone
    from weightsmith.core.records import Record
    from weightsmith.core.statistics import Interval

__all__ = ["StageLine", "as_dict", "chain_progress", "lines_of", "show_chain"]


@contextmanager
def chain_progress(what: str, quiet: bool) -> Iterator[ProgressCallback | None]:
    """A bar with the stage and its progress on a terminal; elsewhere a line when a stage begins."""
    if quiet or sys.stderr.isatty():
        with stages(what, quiet) as bar:
            yield bar
        return
    begun: set[str] = set()

    def line(stage: str, done: int, total: int) -> None:
        del done, total
        name = stage.partition(":")[0]
        if name not in begun:
            begun.add(name)
            sys.stderr.write(f"{what}: {name}\n")

    yield line


class StageLine(NamedTuple):
    """One stage in words and numbers; energy in microjoules per image, None if a stage has no such number.

    ``doubt`` says why an accuracy in its folder is not shown as that of the stage.
    """

    seed: int
    stage: str
    what: str
    accuracy: Interval | None
    parameters: int | None
    energy: float | None
    seconds: float
    doubt: str | None = None


def lines_of(run: ChainRun) -> list[StageLine]:
    """The result of each stage, read from its record."""
    return [_line(run, stage) for stage in run.record.stages]


def show_chain(run: ChainRun, *, notes: bool = True) -> None:
    """Print the table of stages, their durations, and notes."""
    lines = lines_of(run)
    several = len({line.seed for line in lines}) > 1
    heads = ("stage", "what was done", "accuracy (95 %)", "parameters", "µJ per image", "time")
    made = table(*(("seed",) if several else ()), *heads, numbers=("seed", "parameters", "µJ per image", "time"))
    for line in lines:
        cells = (
            line.stage,
            line.what,
            "" if line.accuracy is None else percent(line.accuracy),
            "" if line.parameters is None else count_text(line.parameters),
            "" if line.energy is None else f"{line.energy:.3g}",
            _time(line.seconds),
        )
        made.add_row(*((str(line.seed),) if several else ()), *map(escape, cells))
    if run.page_seconds is not None:
        cells = (
            "report",
            f"a page of {'all of it' if several else 'these stages'}",
            "",
            "",
            "",
            _time(run.page_seconds),
        )
        made.add_row(*(("",) if several else ()), *cells)
    out().print(made)
    out().print(f"{_time(sum(line.seconds for line in lines) + (run.page_seconds or 0.0))} in all")
    doubts = [f"{line.stage} (seed {line.seed}): {line.doubt}" for line in lines if line.doubt is not None]
    for note in (*doubts, *(run.record.notes if notes else ())):
        out().print(f"[yellow]note[/yellow] {escape(note)}")


def as_dict(run: ChainRun) -> dict[str, Any]:
    """The same for ``--json``."""
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
    }


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else time_text(seconds)


def _line(run: ChainRun, stage: StageDone) -> StageLine:
    from weightsmith.chain.reading.results import read_record

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
    )


def _numbers(record: Record, folder: Path) -> Iterator[tuple[str, Any]]:
    from weightsmith.chain.reading.results import read_evaluation
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.reducing.results import ReductionRecord
    from weightsmith.spiking.results import SpikeRecord
    from weightsmith.training.run import TrainRecord

    match record:
        case TrainRecord():
            yield "parameters", record.parameters
            if (judged := read_evaluation(folder, record)) is not None:
                yield ("accuracy", judged.evaluation.accuracy) if judged.doubt is None else ("doubt", judged.doubt)
        case Evaluation():
            yield "accuracy", record.accuracy
        case ReductionRecord():
            yield "accuracy", record.measured.reduced
            yield "parameters", record.reduced.parameters
        case SpikeRecord():
            yield "accuracy", record.decisions.spiking
            yield "energy", record.cost.energy / 1e6


def _what(record: Record, stage: StageDone) -> str:
    from weightsmith.grading.results import Grades
    from weightsmith.reducing.inspecting import AnglesRecord
    from weightsmith.reducing.results import ReductionRecord
    from weightsmith.spiking.results import SpikeRecord
    from weightsmith.training.run import TrainRecord

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
            return f"{record.settings['neuron']}{adjusted}{of}, {record.steps} steps"
    return f"{stage.kind}{of}"
