"""A chain on a page: its recipe, and which stage gave what, where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weightsmith.chain.results import ChainRecord
from weightsmith.networks.family import short_digest
from weightsmith.reporting.parts import Column, Facts, Notes, Part, Section, Table
from weightsmith.reporting.sections._wording import counted, facts_of, setting_text

__all__ = ["chain_section"]


def chain_section(record: ChainRecord, name: str) -> Section:
    """The section of a chain that the user calls ``name``."""
    parts: list[Part] = []
    if record.notes:
        parts.append(Notes(record.notes))
    parts += [_stages(record), Facts("Recipe", tuple(_recipe(record.recipe))), facts_of({}, record.origin)]
    seeds = sorted({stage.seed for stage in record.stages})
    names = list(dict.fromkeys(stage.name for stage in record.stages))
    lead = f"{counted(len(names), 'stage')} for {counted(len(seeds), 'seed')}: {' → '.join(names)}."
    chips = (("stages", f"{len(names):,}"), ("seed" if len(seeds) == 1 else "seeds", ", ".join(map(str, seeds)) or "–"))
    return Section(f"Chain: {name}", lead, tuple(parts), chips)


def _stages(record: ChainRecord) -> Table:
    columns = (
        Column("stage"),
        Column("what", "the verb that was called"),
        Column("of", "the stage whose network it took"),
        Column("seed", numeric=True),
        Column("folder", "below that of the chain"),
        Column("network", "the first letters of the SHA-256 of the weights that came out"),
        Column("record.json", "the first letters of the SHA-256 of that file"),
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
    return Table("Stages", columns, rows, file="stages.csv")


def _recipe(recipe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the recipe says, a line for each stage; what it leaves out is the default of the verb."""
    told = [(key, setting_text(value)) for key, value in recipe.items() if key != "stages" and value is not None]
    stages = recipe.get("stages")
    for stage in stages if isinstance(stages, list | tuple) else ():
        if isinstance(stage, Mapping):
            options = stage.get("options")
            text = ", ".join(f"{key} = {setting_text(value)}" for key, value in dict(options or {}).items())
            told.append((f"{stage.get('kind')} {stage.get('name')}", text or "as usual"))
    return told
