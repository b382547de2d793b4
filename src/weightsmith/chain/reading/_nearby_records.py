"""Records in the folder of a network: how it was made, and its accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weightsmith.chain.reading.results import EVALUATION, RECORD, read_record
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.target_evaluation import RegressionEvaluation
from weightsmith.reducing.results import ReductionRecord
from weightsmith.spiking.results import SpikeRecord
from weightsmith.training.run import TrainRecord

__all__ = ["Maker", "StoredAccuracy", "accuracy_in", "nearby_accuracy", "nearby_record"]

Maker = TrainRecord | ReductionRecord | SpikeRecord | TailorRecord
"""Records of verbs that make a network."""

_OWN = "network.safetensors"


class StoredAccuracy(NamedTuple):
    """An accuracy from a record, and the rows it was measured on."""

    accuracy: float
    split: str


def nearby_record(path: Path, digest: str) -> Maker | None:
    """The record of the network at ``path`` (a result folder or its ``network.safetensors``) if it belongs to it.

    The digest of the weights decides. A record that cannot be read raises with its path.
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


def nearby_accuracy(path: Path, digest: str, record: Maker) -> StoredAccuracy | None:
    """The accuracy of the network at ``path``: from its evaluation if there is one, otherwise from its record."""
    folder = _folder(path)
    if folder is not None and (folder / EVALUATION).is_file():
        found = read_record(folder / EVALUATION)
        if isinstance(found, Evaluation | RegressionEvaluation) and found.origin.inputs.get("network") == digest:
            return StoredAccuracy(found.score.value, found.split)
    return accuracy_in(record)


def accuracy_in(record: Maker) -> StoredAccuracy | None:
    """The accuracy in a record; of a training that of the epoch whose weights were kept."""
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
