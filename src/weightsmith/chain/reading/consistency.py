"""Consistency of the fields of a record, beyond their types.

Records made by a verb are always consistent; one from a file may hold anything. Every record, including nested ones,
is checked for three things before it is used:

    ranges     numbers that are counts, sizes or lengths are not negative, shares lie between 0 and 1
    sizes      no count is beyond 64 bits, no number so large that its square is infinite
    together   parallel lists are equally long, indices point into their list
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from weightsmith.chain.reading._consistency_results import RULES as OF_RESULTS
from weightsmith.chain.reading._consistency_spiking import RULES as OF_SPIKING
from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.judging import Judgement
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.chain.tailor.rows import RowsUsed
from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option
from weightsmith.core.records import Record
from weightsmith.core.statistics import Comparison, Interval
from weightsmith.grading.random_matrix.noise import Bulk
from weightsmith.grading.results import Coverage, LayerGrade, Measure, Omitted
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.target_evaluation import LabelEvaluation, RegressionEvaluation, ValueErrors
from weightsmith.reducing.inspecting import SiteAngles
from weightsmith.reducing.results import Measured, SiteReduction, Size
from weightsmith.reducing.study_table import StudyRow, StudySummary
from weightsmith.spiking.energy.cost import LayerCost, NeuronCost, SpikeCost
from weightsmith.spiking.energy.memory import MemoryAccess
from weightsmith.spiking.energy.rivals import Rival
from weightsmith.spiking.l4.adjust import AdjustedPopulation
from weightsmith.spiking.monitors.activity import PopulationStatistics
from weightsmith.spiking.monitors.correspondence import Confusion
from weightsmith.spiking.results import Decisions, Population
from weightsmith.spiking.sweep.results import Chosen, SettingResult, SpikeSweep
from weightsmith.training.diagnosis.gradients import LayerGradients
from weightsmith.training.run import EpochRow, TrainRecord
from weightsmith.training.stages import TransferStage

__all__ = ["check_consistent"]

_LARGEST = 1e100  # float32, the precision of weights and losses, ends at 3e38
_WIDEST = 2**63
_SLACK = 1e-9  # tolerance for intervals, whose ends are rounded

_NOT_NEGATIVE: dict[type[Record], str] = {
    AdjustedPopulation: "norms smoothed",
    Bulk: "sigma low high threshold spikes",
    Candidate: "images correct energy energy_share parameters params_share macs",
    Comparison: "n only_a only_b",
    Coverage: "layers fitted parameters graded",
    Decisions: "images correct undecided only_network settled ended",
    EpochRow: "epoch steps",
    Evaluation: "images correct not_finite",
    LabelEvaluation: "images correct not_finite positives called found",
    Judgement: "energy",
    LayerCost: "macs spikes accumulates constants multiplies_once multiplies_per_step dense constants_once",
    LayerGradients: "sensitivity update",
    LayerGrade: "parameters N M matrices evals shape",
    Measure: "layers",
    Measured: "images",
    RegressionEvaluation: "images",
    ValueErrors: "deviation",
    MemoryAccess: "reads writes energy",
    NeuronCost: "units leaking spikes",
    Omitted: "parameters",
    Population: "units rate spikes_per_image",
    PopulationStatistics: "units spikes rate rate_variance fano_trains interval_trains",
    Rival: "bits macs price energy memory rows",
    RowsUsed: "rows of",
    SettingResult: "seen correct",
    SiteAngles: "units entries similar complementary left",
    SiteReduction: "before",
    Size: "parameters macs file_bytes units connections",
    SpikeCost: "images steps run draws",
    SpikeSweep: "train_images test_images steps",
    StudyRow: "repeat fold",
    StudySummary: "hidden n units units_deviation test_deviation",
    TailorRecord: "energy macs parameters",
    TrainRecord: "best_epoch restored parameters trained",
}
_SHARES: dict[type[Record], str] = {
    Chosen: "baseline_test adjusted_test",
    Comparison: "p",
    Confusion: "agreement",
    Decisions: "network spiking",
    EpochRow: "train_accuracy validation_accuracy clipped",
    Evaluation: "accuracy top5 recall",
    LabelEvaluation: "accuracy labels_right recall",
    Interval: "confidence",
    Judgement: "accuracy",
    SpikeSweep: "plain",
    TransferStage: "accuracy",
    TailorRecord: "whole",
}
_RULES: Mapping[type[Record], Callable[[Any], Iterator[tuple[bool, str]]]] = {**OF_RESULTS, **OF_SPIKING}


def check_consistent(record: Record) -> None:
    """Raise for a record whose fields contradict each other; the message names the field and its path from the top.

    >>> from weightsmith.core.statistics import wilson
    >>> check_consistent(wilson(3, 4))
    >>> check_consistent(dataclasses.replace(wilson(3, 4), confidence=95))
    Traceback (most recent call last):
    weightsmith.core.errors.UsageError: Interval.confidence must be between 0 and 1
    """
    for where, each in _records(record, type(record).__name__):
        kind = type(each)
        for field in dataclasses.fields(each):  # type: ignore[arg-type]  # every record is a dataclass
            if not _measurable(getattr(each, field.name), counted="seed" not in field.name):
                raise UsageError(f"{where}.{field.name} is too large a number")
        for names, holds, wanted in (
            (_NOT_NEGATIVE, _not_negative, "must not be negative"),
            (_SHARES, _share, "must be between 0 and 1"),
        ):
            for name in names.get(kind, "").split():
                if not holds(getattr(each, name)):
                    raise UsageError(f"{where}.{name} {wanted}")
        for fits, fault in _RULES[kind](each) if kind in _RULES else ():
            if not fits:
                raise UsageError(f"{where}.{fault}")


def _records(value: Any, where: str) -> Iterator[tuple[str, Record]]:
    """All records in ``value``, outermost first, each with its path from the top."""
    if isinstance(value, Record):
        yield where, value
        for field in dataclasses.fields(value):  # type: ignore[arg-type]  # every record is a dataclass
            yield from _records(getattr(value, field.name), f"{where}.{field.name}")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _records(item, f"{where}[{index}]")


def _measurable(value: Any, *, counted: bool) -> bool:
    """Whether all its numbers are within the supported range; seeds may be any whole number."""
    if isinstance(value, float):
        return abs(value) <= _LARGEST
    if isinstance(value, int):
        return not counted or -_WIDEST <= value < _WIDEST
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or not value.size or float(np.abs(value).max()) <= _LARGEST
    if isinstance(value, tuple | list):
        return all(_measurable(item, counted=counted) for item in value)
    if isinstance(value, Option):
        value = vars(value)
    if isinstance(value, dict):
        return all(_measurable(item, counted="seed" not in name) for name, item in value.items())
    return True


def _not_negative(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.size or bool(value.min() >= 0)
    if isinstance(value, tuple):
        return all(_not_negative(item) for item in value)
    return value is None or bool(value >= 0)


def _share(value: Any) -> bool:
    if isinstance(value, Interval):
        return -_SLACK <= value.low <= value.value + _SLACK and value.value <= value.high + _SLACK <= 1 + 2 * _SLACK
    if isinstance(value, tuple):
        return all(_share(item) for item in value)
    return value is None or 0 <= value <= 1
