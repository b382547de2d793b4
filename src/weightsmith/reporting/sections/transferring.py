"""The section of a transfer: its stages side by side, the gain of each, and its training."""

from __future__ import annotations

from weightsmith.reporting.parts import Cell, Choice, Column, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._wording import chance, changed, counted, facts_of, percent_within, points
from weightsmith.reporting.sections.training import training_section
from weightsmith.training.transfer import TransferRecord

__all__ = ["transfer_section"]


def transfer_section(record: TransferRecord, name: str) -> Section:
    """The section of a transfer named ``name``."""
    parts: list[Part] = [_stages(record)]
    if record.advice:
        parts.append(Prose("What the stages teach: " + "; ".join(record.advice) + "."))
    if record.stages:
        parts.append(Choice("Stage", tuple(_training(record)), first=_best(record)))
    after = [("SHA-256 of the network", record.network)]
    parts.append(facts_of(record.settings, record.origin, after=after))
    return Section(f"Transfer: {name}", _lead(record), tuple(parts), _chips(record))


def _best(record: TransferRecord) -> int:
    return record.best if 0 <= record.best < len(record.stages) else 0


def _lead(record: TransferRecord) -> str:
    if not record.stages:
        return "No stage was trained."
    best = record.stages[_best(record)]
    lead = (
        f"{counted(len(record.stages), 'stage')} on {record.settings.get('data', 'data')}; the network is that of "
        f"“{best.name}”, with {counted(best.reuse, 'block')} reused"
    )
    if best.gain is None:
        return f"{lead}."
    return f"{lead}: {changed(best.gain)} on the best before it, McNemar’s {chance(best.gain.p)}."


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
        Column("taken", "the network that came out is that of this stage"),
        Column("reused", "blocks of the base", numeric=True),
        Column("fresh", "blocks of the base that began anew", numeric=True),
        Column("unfrozen", "reused blocks that were trained", numeric=True),
        Column("validation accuracy", "with its interval", numeric=True),
        Column("gain", "points on the best stage before, on the same images, with an interval", numeric=True),
        Column("p", "McNemar’s, of that gain; from 0.05 on it may be chance", numeric=True),
        Column("epochs", numeric=True),
        Column("trained", "parameters that were free", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for number, stage in enumerate(record.stages):
        gain = stage.gain
        within = None if gain is None or gain.interval is None else gain.interval
        ends = "" if within is None else f" [{points(within.low)}, {points(within.high)}]"
        rows.append(
            (
                stage.name,
                "yes" if number == _best(record) else "no",
                stage.reuse,
                stage.fresh,
                stage.unfrozen,
                Shown(stage.accuracy.value, percent_within(stage.accuracy)),
                None if gain is None else Shown(gain.difference, points(gain.difference) + ends),
                None if gain is None else gain.p,
                len(stage.training.history),
                stage.training.trained,
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
