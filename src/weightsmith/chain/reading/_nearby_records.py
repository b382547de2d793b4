"""What lies beside a network on disk: the record of how it was made, and how right it was found to be."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weightsmith.chain.reading.results import EVALUATION, RECORD, read_record
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reducing.results import ReductionRecord
from weightsmith.spiking.results import SpikeRecord
from weightsmith.training.run import TrainRecord

__all__ = ["Maker", "StoredAccuracy", "accuracy_beside", "accuracy_in", "record_beside"]

Maker = TrainRecord | ReductionRecord | SpikeRecord | TailorRecord
"""The records of verbs that make a network."""

_OWN = "network.safetensors"


class StoredAccuracy(NamedTuple):
    """An accuracy that a record tells, and of which rows."""

    accuracy: float
    split: str


def record_beside(path: Path, digest: str) -> Maker | None:
    """The record of the network at ``path`` (a result folder or its ``network.safetensors``) if it is that one's.

    Whether it is, the digest of the weights decides. A record that cannot be read is refused by name.
    """
    folder = _folder(path)
    if folder is None or not (folder / RECORD).is_file():
        return None
    record = read_record(folder / RECORD)
    if isinstance(record, TrainRecord):
        return record if record.network == digest else None
    if isinstance(record, ReductionRecord | SpikeRecord | TailorRecord):
        return record if record.result == digest else None
    return None


def accuracy_beside(path: Path, digest: str, record: Maker) -> StoredAccuracy | None:
    """How right the network at ``path`` was: in its evaluation if there is one, otherwise in its record."""
    folder = _folder(path)
    if folder is not None and (folder / EVALUATION).is_file():
        found = read_record(folder / EVALUATION)
        if isinstance(found, Evaluation) and found.origin.inputs.get("network") == digest:
            return StoredAccuracy(found.accuracy.value, found.split)
    return accuracy_in(record)


def accuracy_in(record: Maker) -> StoredAccuracy | None:
    """The accuracy in a record; of a training that of the epoch whose weights the network has."""
    if isinstance(record, ReductionRecord):
        return StoredAccuracy(record.measured.reduced.value, record.measured.split)
    if isinstance(record, SpikeRecord):
        return StoredAccuracy(record.decisions.spiking.value, record.decisions.split)
    if isinstance(record, TailorRecord):
        return StoredAccuracy(record.judged.accuracy.value, record.judging.split)
    for row in record.history.rows:
        if row.epoch == record.restored and row.validation_accuracy is not None:
            return StoredAccuracy(row.validation_accuracy, "validation")
    return None


def _folder(path: Path) -> Path | None:
    if path.is_dir():
        return path
    return path.parent if path.name == _OWN else None
