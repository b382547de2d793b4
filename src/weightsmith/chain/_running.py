"""The work of a pipeline: stages that are run or were run before, a journal of them, and the report.

A journal lists each finished stage with the digest of its record. After an interruption the same call resumes at the
current stage, including its training or search, and ends with the same records, byte for byte.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from weightsmith.chain.reading.results import read_record
from weightsmith.chain.recipe import Recipe, read_recipe
from weightsmith.chain.rehearsal import rehearse
from weightsmith.chain.report import report
from weightsmith.chain.results import ChainRecord, ChainRun, StageDone
from weightsmith.chain.stage_runner import (
    Made,
    ProgressCallback,
    StageContext,
    evaluate_given,
    run_stage,
)
from weightsmith.chain.stages import Stage
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.journal import Journal, read_journal
from weightsmith.core.records import Origin, write_record
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.storage import file_digest
from weightsmith.data.datasets import load_all
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of, meaning_digest, weights_digest
from weightsmith.networks.weights import open_weights

__all__ = ["check_runs", "read_allowed", "run_recipe"]


_GIVEN, _PAGE, _JOURNAL = "given", "report.html", "journal.jsonl"


def run_recipe(wanted: Recipe, folder: Path, progress: ProgressCallback | None, **surrounding: Any) -> ChainRun:
    """Run all stages of ``wanted`` for all seeds in ``folder``; ``surrounding`` holds threads and device."""
    threads = surrounding["threads"]
    _check_folder(folder)
    data = load_all(wanted.data, path=wanted.data_path)
    start = rehearse(StageContext(wanted, data, wanted.seeds[0], folder, threads))
    inputs = {"data": data.digest()}
    if wanted.network is not None:
        inputs["network"] = weights_digest(open_weights(wanted.network))
    origin = Origin(inputs=inputs)
    call = {"function": "pipeline", **_identity(wanted, start), "threads": threads, **origin.to_dict()}
    if surrounding["device"] != "cpu":
        call["device"] = surrounding["device"]
    _delete_unused_journal(folder / _JOURNAL, call)
    with pinned_threads(threads), Journal(folder / _JOURNAL, call) as journal:
        work = _Work(wanted, data, folder, journal, surrounding, progress)
        stages, notes = work.all_stages()
        record = ChainRecord(recipe=wanted.to_dict(), stages=stages, notes=notes, origin=origin)
        write_record(folder / "record.json", record)
        page = work.page() if wanted.report else None
        seconds = {(stage.seed, stage.name): journal.seconds(_key(stage.seed, stage.name)) for stage in stages}
        drawing = None if page is None else journal.seconds(_PAGE)
    return ChainRun(record, folder, seconds, page, drawing)


def check_runs(wanted: Recipe) -> None:
    """Read the data, build the network and try every stage on two rows."""
    rehearse(StageContext(wanted, load_all(wanted.data, path=wanted.data_path), wanted.seeds[0], Path()))


def read_allowed(recipe: Recipe | Mapping[str, Any] | str | Path, allow_code: bool) -> Recipe:
    """The recipe, refused if it imports code that is not allowed."""
    wanted = _read(recipe)
    wanted.check_code(allow_code)
    return wanted


def _read(given: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
    """A text with a newline or an equals sign is a recipe itself, any other is a path."""
    match given:
        case Recipe():
            return given
        case Mapping():
            return Recipe.from_tables(given)
        case str() if "\n" in given or ("=" in given and not Path(given).exists()):
            return Recipe.parse(given)
        case str() | Path():
            return read_recipe(given)
    raise UsageError(f"a recipe is a file, its text, a mapping or a Recipe, not {type(given).__name__}")


def _identity(recipe: Recipe, start: nn.Module) -> dict[str, Any]:
    """Everything that the results depend on, except data, weights and the title of the report."""
    tables = {key: value for key, value in recipe.to_dict().items() if key not in ("title", "report")}
    plans = {
        stage.name: file_digest(stage.options["plan"])
        for stage in recipe.stages
        if stage.options.get("plan") not in (None, "uniform", "norm", "alpha")
    }
    # A module of the user's own is identified by its layers: its function may have been edited since.
    return {"recipe": tables, "plans": plans, "card": meaning_digest(card_of(start)), "layers": str(start)}


def _check_folder(folder: Path) -> None:
    """Refuse a folder with other results, which would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; out is a folder")
    if (folder / _JOURNAL).exists() or _is_chain(folder / "record.json"):
        return
    for name in ("record.json", "network.safetensors", _PAGE):
        if (folder / name).exists():
            raise UsageError(f"{folder} holds another {name}, which would be overwritten; give another folder")


def _is_chain(path: Path) -> bool:
    """Whether the record at ``path`` is of a chain (whose journal was deleted to start over)."""
    if not path.is_file():
        return False
    try:
        return isinstance(read_record(path), ChainRecord)
    except FileRefused:
        return False


def _delete_unused_journal(path: Path, call: Mapping[str, Any]) -> None:
    """Delete the journal of another call that never finished a stage: a failed recipe may be corrected."""
    if path.exists():
        found = read_journal(path)
        if not found.values and found.call != call:
            path.unlink()


def _key(seed: int, name: str) -> str:
    return f"seed {seed}: {name}"


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files that later stages and the report use."""
    names = ("record.json", "network.safetensors")
    return {name: file_digest(folder / name) for name in names if (folder / name).exists()}


def _check_unchanged(folder: Path, files: Mapping[str, str]) -> None:
    for name, digest in files.items():
        if file_digest(folder / name) != digest:
            raise FileRefused(folder / name, "was changed since the chain wrote it; give another folder to start over")


@dataclasses.dataclass(frozen=True)
class _Work:
    """The stages of one call, for all seeds."""

    recipe: Recipe
    data: Data
    folder: Path
    journal: Journal
    surrounding: Mapping[str, Any]
    progress: ProgressCallback | None

    def all_stages(self) -> tuple[tuple[StageDone, ...], tuple[str, ...]]:
        """Every stage for every seed, run now or before, and notes."""
        done, notes = [], []
        for seed in self.recipe.seeds:
            context = self._context(seed)
            for stage in self._stages():
                finished, remarks = self._done(stage, context)
                done.append(finished)
                where = stage.name if len(self.recipe.seeds) == 1 else f"seed {seed}, {stage.name}"
                notes += [f"{where}: {remark}" for remark in remarks]
        return tuple(done), tuple(notes)

    def page(self) -> Path:
        """The report of all stages, rebuilt unless it is unchanged."""
        path, start = self.folder / _PAGE, time.monotonic()
        made = self.journal.get(_PAGE)
        if path.exists() and made == {"title": self.recipe.title, "sha256": file_digest(path)}:
            return path
        report([self.folder], path, title=self.recipe.title)
        if made is None:
            made = {"title": self.recipe.title, "sha256": file_digest(path)}
            self.journal.append(_PAGE, made, time.monotonic() - start)
        return path

    def _stages(self) -> Iterator[Stage]:
        if self.recipe.network is not None:
            yield Stage("evaluate", _GIVEN, None, {})
        yield from self.recipe.stages

    def _context(self, seed: int) -> StageContext:
        folder = self.folder if len(self.recipe.seeds) == 1 else self.folder / f"seed-{seed}"
        return StageContext(self.recipe, self.data, seed, folder, progress=self.progress, **self.surrounding)

    def _done(self, stage: Stage, context: StageContext) -> tuple[StageDone, list[str]]:
        key, folder = _key(context.seed, stage.name), context.stage_folder(stage.name)
        if key not in self.journal:
            start = time.monotonic()
            made = self._made(stage, context)
            value = {"files": _digests(folder), "network": made.network, "notes": list(made.notes)}
            self.journal.append(key, value, time.monotonic() - start)
        found = self.journal[key]
        if not all(
            (folder / name).exists() for name in found["files"]
        ):  # deleted since: run again, with the same bytes
            self._made(stage, context)
        _check_unchanged(folder, found["files"])
        finished = StageDone(
            name=stage.name,
            kind=stage.kind,
            of=stage.of,
            seed=context.seed,
            folder=folder.relative_to(self.folder).as_posix(),
            sha256=found["files"]["record.json"],
            network=found["network"],
        )
        return finished, found["notes"]

    def _made(self, stage: Stage, context: StageContext) -> Made:
        if stage.kind == "evaluate":
            return evaluate_given(context, context.stage_folder(stage.name))
        return run_stage(stage, context)
