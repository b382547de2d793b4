"""Results of one kind side by side: seeds, trainings, grades, reductions, conversions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import TypeVar

from weightsmith.core.records import Record
from weightsmith.core.statistics import holm
from weightsmith.grading.comparison import compare
from weightsmith.grading.results import Grades
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reporting.figures.overview import draw_losses
from weightsmith.reporting.figures.spiking.catalogue import draw_accuracy, draw_energy
from weightsmith.reporting.parts import Cell, Column, Drawing, Part, Section, Shown, Table
from weightsmith.reporting.sections._known_networks import (
    HOLM,
    NamedRecord,
    change_cells,
    known_networks,
    network_in,
)
from weightsmith.reporting.sections._over_seeds import over_seeds, stages_over_seeds
from weightsmith.reporting.sections._wording import counted, energy_text, percent_within, rounded
from weightsmith.reporting.sections.comparing import comparison_section
from weightsmith.reporting.sections.reductions import reduction_parts
from weightsmith.spiking.results import SpikeRecord
from weightsmith.training.run import TrainRecord

__all__ = ["compared_section", "graded_section"]

_MOST_LINES = 12  # runs in one figure that are distinguishable
_SAME_NUMBERS = ("conv", "normalise", "cut")  # settings of grades that change the meaning of their numbers
_LEAST_ORDERED = 3  # networks from which an order is meaningful
_CLOSE = 0.5  # points within which a spiking network counts as good as its network

Kind = TypeVar("Kind", bound=Record)


def compared_section(results: Sequence[NamedRecord]) -> Section | None:
    """The section that compares several results of a kind; None if no kind has two."""
    parts: list[Part] = []
    kinds: list[str] = []
    stages = stages_over_seeds(results)
    if stages:
        parts += over_seeds(stages)
        kinds.append(f"{counted(len(stages), 'stage')} with several seeds")
    trainings, reductions = _of(results, TrainRecord), _of(results, ReductionRecord)
    conversions = _of(results, SpikeRecord)
    if len(trainings) > 1:
        parts += _trainings(trainings)
        kinds.append(f"{len(trainings):,} trainings")
    if len(reductions) > 1:
        parts += reduction_parts(reductions)
        kinds.append(f"{len(reductions):,} reductions")
    if len(conversions) > 1:
        parts += _conversions(conversions)
        kinds.append(f"{len(conversions):,} spiking networks")
    if not parts:
        return None
    return Section("Compared", f"Results of one kind side by side: {', '.join(kinds)}.", tuple(parts))


def graded_section(results: Sequence[NamedRecord]) -> Section | None:
    """The measures of all graded networks; None if there are fewer than two.

    If all of them were evaluated, and their numbers are comparable, it says which measure orders them as accuracy does.
    """
    grades = [dataclasses.replace(record, source=name) for name, record in _of(results, Grades)]
    if len(grades) < 2:
        return None
    judged = {each.digest: each.judged for each in known_networks(results)}
    found = [judged.get(network_in(each) or "") for each in grades]
    accuracies = [each.accuracy.value for each in found if each is not None]
    same = len({tuple(str(each.settings.get(key)) for key in _SAME_NUMBERS) for each in grades}) == 1
    ordered = len(accuracies) == len(grades) >= _LEAST_ORDERED and same
    return comparison_section(compare(grades, accuracies if ordered else None), networks=grades)


def _of(results: Sequence[NamedRecord], kind: type[Kind]) -> list[tuple[str, Kind]]:
    return [(name, record) for name, record in results if isinstance(record, kind)]


def _cut(count: int) -> str:
    return f" The first {_MOST_LINES} of {count:,} are drawn." if count > _MOST_LINES else ""


def _trainings(several: Sequence[tuple[str, TrainRecord]]) -> Iterator[Part]:
    """Their losses; accuracies of training runs have no interval and are in their own sections."""
    drawn = {name: record.history for name, record in several if record.history.rows}
    shown = dict(list(drawn.items())[:_MOST_LINES])
    if len(shown) < 2:
        return
    rows: list[dict[str, Cell]] = [
        {"run": name, "epoch": row.epoch, "train_loss": row.train_loss, "validation_loss": row.validation_loss}
        for name, history in shown.items()
        for row in history.rows
    ]
    how = (
        "How to read it: the lower and the sooner a line levels off, the better the run learns; lines that differ "
        "only "
        f"by their seed show how much is chance.{_cut(len(drawn))}"
    )
    figure = functools.partial(draw_losses, shown)
    yield Drawing("Loss of all trainings", how, figure, rounded(rows), file="losses.csv")


def _conversions(several: Sequence[tuple[str, SpikeRecord]]) -> Iterator[Part]:
    records = [record for _, record in several[:_MOST_LINES]]
    rows: list[dict[str, Cell]] = []
    for name, record in several[:_MOST_LINES]:
        for step, energy in enumerate(record.cost.curve.tolist(), 1):
            found = record.decisions.accuracy(step)
            row: dict[str, Cell] = {"run": name, "step": step, "accuracy": found.value, "low": found.low}
            rows.append(row | {"high": found.high, "energy_picojoule": energy})
    kept = rounded(rows)
    how = (
        "How to read it: a spiking network is as accurate as the original (dashed) where its line reaches the "
        f"dashed one; the earlier, the less it costs. Bands are 95 % intervals.{_cut(len(several))}"
    )
    figure = functools.partial(draw_accuracy, *records)
    yield Drawing("Accuracy after each step", how, figure, kept, file="accuracy-by-step.csv")
    how = (
        "How to read it: each line is the energy spent on an image so far; to the right of its diamond a run "
        f"costs more than the original network (dashed).{_cut(len(several))}"
    )
    yield Drawing(
        "Energy after each step", how, functools.partial(draw_energy, *records), kept, file="energy-by-step.csv"
    )
    yield _conversion_table(several)


def _conversion_table(several: Sequence[tuple[str, SpikeRecord]]) -> Table:
    columns = (
        Column("run"),
        Column("settings", "neuron, input, thresholds, and other options"),
        Column("steps", numeric=True),
        Column("accuracy", "after the last step, with its interval", numeric=True),
        Column(
            "change", "points of accuracy against the network it was converted from, on the same images", numeric=True
        ),
        Column("p", HOLM, numeric=True),
        Column("steps needed", f"from which on it is at most {_CLOSE:g} points worse than its network", numeric=True),
        Column("energy", "per image", numeric=True),
        Column("of its network", "energy ÷ that of the network it was converted from", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    ps = holm([record.decisions.cost.p for _, record in several])
    for (name, record), p in zip(several, ps, strict=True):
        answers, cost, settings = record.decisions, record.cost, record.settings
        keys = ("neuron", "encode", "balance", "calibrate", "adjust", "early", "mismatch", "precision")
        ratio = cost.ratio
        rows.append(
            (
                name,
                ", ".join(str(settings[key]) for key in keys if settings.get(key) is not None),
                record.steps,
                Shown(answers.spiking.value, percent_within(answers.spiking)),
                *change_cells(answers.cost, p),
                answers.steps_within(_CLOSE),
                Shown(cost.energy, energy_text(cost.energy)),
                Shown(ratio, "–" if ratio is None else f"{ratio:.2f} ×"),
            )
        )
    return Table("Spiking networks", columns, tuple(rows), file="spiking-networks.csv")
