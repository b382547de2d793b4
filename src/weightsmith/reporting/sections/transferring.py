"""The section of a transfer: its stages side by side, the gain of each, and its training."""

from __future__ import annotations

from weightsmith.core.statistics import holm
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.target_evaluation import RegressionEvaluation
from weightsmith.reporting.parts import Cell, Choice, Column, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._known_networks import HOLM, change_cells
from weightsmith.reporting.sections._wording import accuracy, chance, changed, counted, facts_of, percent_within
from weightsmith.reporting.sections.evaluating import below
from weightsmith.reporting.sections.training import training_section
from weightsmith.training.transferring import TransferRecord

__all__ = ["transfer_section"]


def transfer_section(
    record: TransferRecord, name: str, *, tested: Evaluation | RegressionEvaluation | None = None
) -> Section:
    """The section of a transfer named ``name``; ``tested`` is the evaluation of its network on the test split."""
    parts: list[Part] = [_stages(record)]
    if record.advice:
        parts.append(Notes(record.advice))
    if record.stages:
        parts.append(Choice("Stage", tuple(_training(record)), first=_best(record)))
    after = [("SHA-256 of the network", record.network)]
    parts.append(facts_of(record.settings, record.origin, after=after))
    settings, chips = record.settings, list(_chips(record))
    if tested is not None:
        chips.insert(0, ("test accuracy", accuracy(tested.score, tested.images, tested.split)))
    about = f"on {settings.get('data')} · rate {settings.get('rate')} · then × {settings.get('finer')}"
    missed = _missed(record)
    return Section(f"Transfer: {name}", _lead(record), tuple(parts), tuple(chips), about, missed)


def _missed(record: TransferRecord) -> tuple[str, ...]:
    """A concern if no stage reaches the required accuracy."""
    asked = record.settings.get("accuracy")
    if not record.stages or not isinstance(asked, float | int):
        return ()
    share = record.stages[_best(record)].accuracy.value
    return tuple(f"validation {line}" for line in below(share, 100 * asked))


def _best(record: TransferRecord) -> int:
    return record.best if 0 <= record.best < len(record.stages) else 0


def _lead(record: TransferRecord) -> str:
    if not record.stages:
        return "No stage was trained."
    best = record.stages[_best(record)]
    lead = (
        f"{counted(len(record.stages), 'stage')} on {record.settings.get('data', 'data')}; the network is from "
        f"“{best.name}”, with {counted(best.reuse, 'block')} reused"
    )
    if best.gain is None:
        return f"{lead}."
    return f"{lead}: {changed(best.gain)} over the best before it, McNemar’s {chance(_ps(record)[_best(record)])}."


def _ps(record: TransferRecord) -> list[float | None]:
    """p of every stage's gain, with Holm's correction: the sentence and the table say the same."""
    return holm([None if stage.gain is None else stage.gain.p for stage in record.stages])


def _chips(record: TransferRecord) -> tuple[tuple[str, str], ...]:
    if not record.stages:
        return ()
    best = record.stages[_best(record)]
    return (
        ("validation accuracy", percent_within(best.accuracy)),
        ("stages", f"{len(record.stages):,}"),
        ("parameters", f"{best.training.parameters:,}"),
    )


def _stages(record: TransferRecord) -> Table:
    columns = (
        Column("stage"),
        Column("", "← kept: the resulting network is from this stage"),
        Column("reused", "blocks of the base", numeric=True),
        Column("fresh", "blocks of the base that were reinitialised", numeric=True, spare=2),
        Column("unfrozen", "reused blocks that were trained", numeric=True, spare=1),
        Column("validation accuracy", "with its interval", numeric=True),
        Column("gain", "points over the best stage before, on the same images, with an interval", numeric=True),
        Column("p", HOLM, numeric=True),
        Column("epochs", numeric=True),
        Column("trained", "trainable parameters, of all", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for number, (stage, p) in enumerate(zip(record.stages, _ps(record), strict=True)):
        rows.append(
            (
                stage.name,
                "← kept" if number == _best(record) else "",
                stage.reuse,
                stage.fresh,
                stage.unfrozen,
                Shown(stage.accuracy.value, percent_within(stage.accuracy)),
                *((None, None) if stage.gain is None else change_cells(stage.gain, p)),
                len(stage.training.history),
                Shown(stage.training.trained, f"{stage.training.trained:,} of {stage.training.parameters:,}"),
            )
        )
    return Table("Stages", columns, tuple(rows), file="stages.csv")


def _training(record: TransferRecord) -> list[tuple[str, tuple[Part, ...]]]:
    """The training of every stage."""
    options: list[tuple[str, tuple[Part, ...]]] = []
    for number, stage in enumerate(record.stages, 1):
        section = training_section(stage.training, stage.name)
        options.append((f"{number}  {stage.name}", (Prose(section.lead), *section.parts)))
    return options
