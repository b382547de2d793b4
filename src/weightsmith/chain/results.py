"""The results of a chain: its stages, their folders and digests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from weightsmith.core.display import Displayed
from weightsmith.core.errors import UnknownName
from weightsmith.core.records import Origin, Record

__all__ = ["ChainRecord", "ChainRun", "StageDone"]


@dataclasses.dataclass(frozen=True, eq=False)
class StageDone(Record):
    """A finished stage: its folder relative to the chain's, the SHA-256 of its ``record.json``, and the digest of the
    weights of its network if it made one."""

    name: str
    kind: str
    of: str | None
    seed: int
    folder: str
    sha256: str
    network: str | None


@dataclasses.dataclass(frozen=True, eq=False)
class ChainRecord(Record):
    """The recipe that was run, and its stages in order, with notes."""

    described_by: ClassVar[str] = "chain.section.chain_section"

    recipe: dict[str, Any]
    stages: tuple[StageDone, ...]
    notes: tuple[str, ...]
    origin: Origin


@dataclasses.dataclass(frozen=True, repr=False)
class ChainRun(Displayed):
    """A finished chain: record, folder, the duration of every stage, and the report, if any, with its duration."""

    record: ChainRecord
    folder: Path
    seconds: Mapping[tuple[int, str], float]
    page: Path | None
    page_seconds: float | None = None

    def __repr__(self) -> str:
        return f"ChainRun({self})"

    def __str__(self) -> str:
        """One line: the stages, and their folder."""
        names = list(dict.fromkeys(stage.name for stage in self.record.stages))
        seeds = list(dict.fromkeys(stage.seed for stage in self.record.stages))
        times = "" if len(seeds) == 1 else f", seeds {', '.join(map(str, seeds))}"
        return f"{' → '.join(names)}{times}, in {self.folder}"

    def place(self, name: str, seed: int | None = None) -> Path:
        """The folder of a stage, which every verb accepts as a network; of the first seed unless one is given."""
        for stage in self.record.stages:
            if stage.name == name and seed in (None, stage.seed):
                return self.folder / stage.folder
        known = {stage.name for stage in self.record.stages}
        if name in known:
            raise UnknownName("seed", str(seed), {str(stage.seed) for stage in self.record.stages})
        raise UnknownName("stage", name, known)
