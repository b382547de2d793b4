"""Read results from disk as records: a folder written by a verb, the folder of a chain, or a folder of folders.

A record's fields determine its type. Only JSON is read, nothing is executed, and a file that is too
large, too deep or of another version raises with its path first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from weightsmith._version import __version__
from weightsmith.chain.reading._folders import RECORD, STUDY, record_in, result_folders
from weightsmith.chain.reading._record_files import contents, values_in
from weightsmith.chain.reading._stored_angles import ARRAYS, read_angles
from weightsmith.chain.reading.consistency import check_consistent
from weightsmith.chain.results import ChainRecord
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import Origin, Record, digest_of
from weightsmith.core.sweep import SweepTable
from weightsmith.grading.results import Grades
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.family import short_digest
from weightsmith.networks.target_evaluation import LabelEvaluation, RegressionEvaluation
from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reducing.study_table import Study
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.sweep.results import SpikeSweep
from weightsmith.training.run import TrainRecord
from weightsmith.training.transferring import TransferRecord

__all__ = [
    "EVALUATION",
    "KINDS",
    "RECORD",
    "Evaluated",
    "Result",
    "read_evaluation",
    "read_record",
    "read_result",
    "read_results",
]

KINDS: dict[type[Record], str] = {
    ChainRecord: "chain",
    TrainRecord: "training",
    TransferRecord: "transfer",
    SweepTable: "table",
    Grades: "grades",
    Evaluation: "evaluation",
    LabelEvaluation: "evaluation of labels",
    RegressionEvaluation: "evaluation of values",
    ReductionRecord: "reduction",
    AnglesRecord: "angles",
    Study: "study",
    SpikeRecord: "spiking",
    SpikeSweep: "sweep",
    TailorRecord: "tailoring",
}
"""The record types that a result folder may hold, with their names."""

_SETTINGS: dict[type[Record], dict[str, tuple[type, ...]]] = {
    ReductionRecord: {"by": (str,), "recover": (str, type(None))},
    AnglesRecord: {"angle": (int, float)},
    Study: {"folds": (int,), "repeats": (int,)},
    SpikeRecord: {"neuron": (str,), "encode": (str,)},
}
"""Settings that a report needs, with their types: the fields of a record do not cover them."""

EVALUATION = "evaluation.json"
_ALIKE = 0.6  # the share of common fields above which a record counts as one of another version


class Result(NamedTuple):
    """A record, named after its folder; ``detail`` holds data beyond the record, if loaded (the matrices of angles)."""

    name: str
    record: Record
    detail: UnitAngles | None = None


class Evaluated(NamedTuple):
    """An evaluation in the folder of a record; ``doubt`` says why it may not belong to its network."""

    evaluation: Evaluation | RegressionEvaluation
    doubt: str | None = None


def read_result(path: str | Path) -> Result:
    """The one result in a folder, or in a file such as its ``record.json``."""
    path = Path(path)
    if not path.is_dir():
        return Result(_name_of(path), read_record(path))
    file = record_in(path)
    if file is None:
        raise FileRefused(path, f"holds no {RECORD}: a result is a folder that --out of a command wrote")
    return Result(_name_of(path), read_record(file))


def read_results(path: str | Path) -> list[Result]:
    """Every result in ``path``: a result folder or its file, or a folder with result folders in it.

    An evaluation next to a record is a result too. In a folder of folders each result is named by its relative path;
    results inside a result folder (the training of a recovery) are part of that result.
    """
    path = Path(path)
    if not path.is_dir():
        return [read_result(path)]
    found = [result for folder in result_folders(path) for result in _read_folder(folder, _name_below(path, folder))]
    if not found:
        raise FileRefused(
            path, f"neither it nor a folder in it holds a {RECORD}: give a folder that --out of a command wrote"
        )
    return found


def read_record(path: str | Path) -> Record:
    """The record in a JSON file, of any type."""
    path = Path(path)
    return _record_in(path, contents(path))


def _record_in(path: Path, content: bytes) -> Record:
    """The record in ``content``, the bytes of ``path``."""
    values = values_in(path, content)
    kind = _kind_of(path, values)
    try:
        record = kind.from_dict(values)
        record.to_dict()  # raises for infinities, which JSON can write as 1e999
        _check_settings(record)
        check_consistent(record)
    except (UsageError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileRefused(
            path,
            f"is not a record of the kind {KINDS[kind]!r} as this version writes it ({reason}){_written_by(values)}",
        ) from error
    return record


def read_evaluation(folder: Path, record: Record) -> Evaluated | None:
    """The evaluation next to ``record`` in ``folder``, and whether it is of the same network; None if there is none.

    A record without a network (a study, a table) cannot contradict an evaluation.
    """
    path = folder / EVALUATION
    if not path.exists():
        return None
    found = read_record(path)
    if not isinstance(found, Evaluation | RegressionEvaluation):
        raise FileRefused(path, f"is of the kind {KINDS[type(found)]!r}: an evaluation belongs there")
    own, judged = _network_of(record), found.origin.inputs.get("network")
    if own is None or own == judged:
        return Evaluated(found)
    of = f"is of the network {short_digest(judged)}" if judged else "does not name its network"
    doubt = f"{EVALUATION} {of}, the record beside it of {short_digest(own)}: it does not give the accuracy of that one"
    return Evaluated(found, doubt)


def _network_of(record: Record) -> str | None:
    """The digest of the network that a record made, or else of the one it describes."""
    match record:
        case TrainRecord() | TransferRecord():
            return record.network
        case ReductionRecord() | SpikeRecord() | TailorRecord():
            return record.result
    origin = getattr(record, "origin", None)
    return origin.inputs.get("network") if isinstance(origin, Origin) else None


def _read_folder(folder: Path, name: str) -> Iterator[Result]:
    """The results in a folder, including the stages of a chain."""
    for result in _read_one(folder, name):
        yield result
        if isinstance(result.record, ChainRecord):
            yield from _read_stages(folder, result.record)


def _read_one(folder: Path, name: str, content: bytes | None = None) -> Iterator[Result]:
    """The record of a folder, whose ``content`` may be known already, and the evaluation next to it."""
    file = record_in(folder) or folder / RECORD
    record = _record_in(file, contents(file) if content is None else content)
    if isinstance(record, AnglesRecord) and (folder / ARRAYS).exists():
        yield Result(name, record, read_angles(folder / ARRAYS, record))
    else:
        yield Result(name, record)
    if (evaluated := read_evaluation(folder, record)) is None:
        return
    found, doubt = evaluated
    if doubt is None:
        yield Result(f"{name}, evaluated", found)
    else:  # with a name and a note that mark it as another network's
        marked = dataclasses.replace(found, notes=(doubt, *found.notes))
        yield Result(f"{name}, {EVALUATION} of another network", marked)


def _read_stages(folder: Path, chain: ChainRecord) -> Iterator[Result]:
    """The results of a chain by the names of their stages; other folders are skipped."""
    several = len({stage.seed for stage in chain.stages}) > 1
    for stage in chain.stages:
        relative = PurePosixPath(stage.folder)
        if (
            relative.is_absolute()
            or not relative.parts
            or ".." in relative.parts
            or "\\" in stage.folder
            or "\0" in stage.folder
        ):
            raise FileRefused(folder / RECORD, f"names a folder outside of its own ({stage.folder[:80]!r})")
        path = folder / relative
        if not (path / RECORD).exists():
            raise FileRefused(path, f"the chain has the stage {stage.name!r} there, but {RECORD} is missing")
        content = contents(path / RECORD)
        if digest_of(content) != stage.sha256:
            raise FileRefused(
                path / RECORD, "was changed since the chain wrote it; report the folders of the stages one by one"
            )
        yield from _read_one(path, f"{stage.name} (seed {stage.seed})" if several else stage.name, content)


def _name_below(top: Path, folder: Path) -> str:
    return _name_of(top) if folder == top else folder.relative_to(top).as_posix()


def _name_of(path: Path) -> str:
    """The name of a result: its folder, and the file if that is not the folder's record."""
    if path.is_dir():
        return path.resolve().name or str(path)
    folder = path.absolute().parent.name
    return folder if path.name in (RECORD, STUDY) and folder else path.stem if not folder else f"{folder}/{path.stem}"


def _kind_of(path: Path, values: dict[str, Any]) -> type[Record]:
    """The record type that has all of these fields, and requires no others."""
    keys = set(values)
    for kind in KINDS:
        if _fields(kind, needed=True) <= keys <= _fields(kind):
            return kind
    nearest = max(KINDS, key=lambda kind: _likeness(keys, _fields(kind)))
    if _likeness(keys, _fields(nearest)) < _ALIKE:
        known = ", ".join(KINDS.values())
        raise FileRefused(path, f"is not a record of a known kind{_written_by(values)}; known are {known}")
    unknown, missing = sorted(keys - _fields(nearest)), sorted(_fields(nearest, needed=True) - keys)
    what = f"has the unknown field {unknown[0][:60]!r}" if unknown else f"lacks the field {missing[0]!r}"
    raise FileRefused(path, f"looks like a record of the kind {KINDS[nearest]!r} but {what}{_written_by(values)}")


def _check_settings(record: Record) -> None:
    settings = getattr(record, "settings", {})
    for name, kinds in _SETTINGS.get(type(record), {}).items():
        if not isinstance(settings.get(name, ...), kinds):
            raise UsageError(f"its settings lack {name!r}, or {name!r} has another type")


def _fields(kind: type[Record], *, needed: bool = False) -> set[str]:
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every record is a dataclass
    return {
        field.name
        for field in fields
        if not needed or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
    }


def _likeness(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b)


def _written_by(values: dict[str, Any]) -> str:
    """Which version wrote the record, if it says so and differs from this one."""
    origin = values.get("origin")
    versions = origin.get("versions") if isinstance(origin, dict) else None
    version = versions.get("weightsmith") if isinstance(versions, dict) else None
    if not isinstance(version, str) or version == __version__:
        return ""
    return f"; it was written by weightsmith {version[:20]!r}, this is {__version__}"
