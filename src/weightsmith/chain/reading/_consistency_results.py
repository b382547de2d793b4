"""Consistency rules for records of all verbs but the spiking ones; see :mod:`weightsmith.chain.reading.consistency`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.chain.results import ChainRecord
from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval
from weightsmith.core.sweep import SweepTable
from weightsmith.grading.results import LayerGrade
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.target_evaluation import LabelEvaluation, RegressionEvaluation
from weightsmith.reducing.baselines import RandomMasks, Scratch
from weightsmith.reducing.inspecting import SiteAngles
from weightsmith.reducing.results import Measured, ReductionRecord, SiteReduction
from weightsmith.reducing.study_table import Study, StudySummary
from weightsmith.training.diagnosis.gradients import GradientDiagnosis
from weightsmith.training.run import TrainRecord
from weightsmith.training.transferring import TransferRecord

__all__ = ["RULES"]

_Fits = Iterator[tuple[bool, str]]


def _interval(record: Interval) -> _Fits:
    yield record.low <= record.high, "low must not be above its high"


def _evaluation(record: Evaluation) -> _Fits:
    count = len(record.classes)
    yield record.images >= 1, "images must be at least 1"
    yield max(record.correct, record.not_finite) <= record.images, "correct must not be more than its images"
    yield len(record.recall) == count, f"recall must have a value for each of its {count} classes"
    square = len(record.confusion) == count and all(len(row) == count for row in record.confusion)
    yield square, f"confusion must have a row and a column for each of its {count} classes"
    cells = [cell for row in record.confusion for cell in row]
    yield all(cell >= 0 for cell in cells), "confusion must not be negative"
    answered = record.images - record.not_finite
    yield sum(cells) == answered, f"confusion must hold the {answered} images that have a prediction"
    for index, recall in enumerate(record.recall):
        right = record.confusion[index][index]
        # Right answers divided by recall give the size of the class.
        fits = recall is None or (right <= recall * record.images * (1 + 1e-9) and (right > 0) == (recall > 0))
        yield fits, f"recall[{index}] must fit the confusion"


def _labels(record: LabelEvaluation) -> _Fits:
    count = len(record.classes)
    yield record.images >= 1, "images must be at least 1"
    yield max(record.correct, record.not_finite) <= record.images, "correct must not be more than its images"
    for name in ("recall", "positives", "called", "found"):
        yield len(getattr(record, name)) == count, f"{name} must have a value for each of its {count} labels"
    yield not record.confusion, "confusion must be empty: labels exclude nothing"
    counts = zip(record.found, record.positives, record.called, strict=True)
    yield all(both <= min(some, others) for both, some, others in counts), "found must not be more than its rows"
    yield max((*record.positives, *record.called)) <= record.images, "positives must not be more than its images"


def _regression(record: RegressionEvaluation) -> _Fits:
    yield record.images >= 2, "images must be at least 2"
    yield bool(record.values), "values must not be empty"
    yield record.r2.value <= 1, "r2 must not be above 1"
    for index, each in enumerate(record.values):
        yield each.rmse.low >= 0 and each.mae.value >= 0, f"values[{index}] must not have a negative error"
        yield each.r2.value <= 1, f"values[{index}].r2 must not be above 1"
        yield len(each.quantiles) == 5, f"values[{index}].quantiles must have five values"


def _training(record: TrainRecord) -> _Fits:
    epochs = len(record.history)
    for name in ("best_epoch", "restored"):
        yield getattr(record, name) <= epochs, f"{name} must be one of its {epochs} epochs, or 0"


def _gradients(record: GradientDiagnosis) -> _Fits:
    yield bool(record.layers), "layers must not be empty"
    for index, layer in enumerate(record.layers):
        for name in ("sensitivity", "update"):
            fits = len(getattr(layer, name)) == len(record.probes)
            yield fits, f"layers[{index}].{name} must have a value for each of its {len(record.probes)} probes"
    known = (None, *(layer.name for layer in record.layers))
    yield record.reference in known, "reference must be the name of a layer"
    yield bool(record.sentence), "sentence must not be empty"


def _transfer(record: TransferRecord) -> _Fits:
    yield 0 <= record.best < len(record.stages), f"best must be one of its {len(record.stages)} stages"


def _table(record: SweepTable) -> _Fits:
    columns = set(record.columns)
    yield len(columns) == len(record.columns), "columns must not repeat a name"
    yield set(record.names) <= columns, "names must be columns"
    for index, row in enumerate(record.rows):
        yield set(row) == columns, f"rows[{index}] must have a value for each column"


def _layer(record: LayerGrade) -> _Fits:
    values, fit, bulk = record.eigenvalues, record.fit, record.bulk
    yield _rising(values), "eigenvalues must be positive and rise"
    yield record.twin is None or _rising(record.twin.eigenvalues), "twin.eigenvalues must be positive and rise"
    if fit is not None:
        yield 0 < fit.tail <= fit.evals, "fit.tail must be between 1 and fit.evals"
        inside = values.size > 0 and values[0] <= fit.xmin < values[-1]
        yield bool(inside), "fit.xmin must be one of its eigenvalues, and not the largest"
    yield bulk is None or bulk.low <= bulk.high, "bulk.low must not be above its high"


def _rising(values: NDArray[np.float64]) -> bool:
    return values.ndim == 1 and bool((values > 0).all() and (np.diff(values) >= 0).all())


def _measured(record: Measured) -> _Fits:
    intervals = [each for each in (record.whole, record.cut, record.reduced, record.unfitted) if each is not None]
    yield all(each.low <= each.value <= each.high + 1e-9 for each in intervals), "whole must lie in its interval"
    shares = record.metric != "accuracy" or all(0 <= each.value <= 1 for each in intervals)
    yield shares and all(each.value <= 1 for each in intervals), "whole must be between 0 and 1"


def _reduction(record: ReductionRecord) -> _Fits:
    for name, size in (("whole", record.whole), ("reduced", record.reduced)):
        yield size.parameters > 0, f"{name}.parameters must be positive"
    for name in ("parameters", "units"):
        fits = getattr(record.reduced, name) <= getattr(record.whole, name)
        yield fits, f"reduced.{name} must not be more than before"


def _site(record: SiteReduction) -> _Fits:
    units = record.before
    kept, gone = set(record.kept), {each.unit for each in record.removals}
    yield len(kept) == len(record.kept) and len(gone) == len(record.removals), "kept must not name a unit twice"
    inside = all(0 <= unit < units for unit in kept | gone)
    yield inside and not kept & gone, f"kept and removals must be different units of its {units}"


def _masks(record: RandomMasks) -> _Fits:
    yield bool(record.accuracies), "accuracies must not be empty"


def _scratch(record: Scratch) -> _Fits:
    yield len(record.accuracies) == len(record.seeds) > 0, "accuracies must have a value for each seed"


def _angles(record: SiteAngles) -> _Fits:
    units = record.units
    for index, pair in enumerate(record.pairs):
        yield (
            min(pair.a, pair.b) >= 0 and max(pair.a, pair.b) < units,
            f"pairs[{index}] must be two of its {units} units",
        )
        yield 0 <= pair.degrees <= 180, f"pairs[{index}].degrees must be between 0 and 180"
    named = [*record.constant, *record.short, *record.combined, *(unit for group in record.groups for unit in group)]
    yield all(0 <= unit < units for unit in named), f"constant, short, groups and combined must name its {units} units"


def _study(record: Study) -> _Fits:
    seen: set[tuple[str, int, int, int]] = set()
    for index, row in enumerate(record.rows):
        yield 1 <= row.units <= row.hidden, f"rows[{index}].units must be between 1 and its {row.hidden} hidden units"
        key = row.method, row.hidden, row.repeat, row.fold
        yield key not in seen, f"rows[{index}] must not repeat a fold"
        seen.add(key)
    for name in ("folds", "repeats"):
        yield record.settings[name] >= 1, f"settings[{name!r}] must be at least 1"


def _summary(record: StudySummary) -> _Fits:
    yield record.hidden >= 1, "hidden must be at least 1"


def _limits(record: Limits) -> _Fits:
    for name in ("accuracy", "energy", "params"):
        limit = getattr(record, name)
        yield limit is None or limit > 0, f"{name} must be positive"


def _candidate(record: Candidate) -> _Fits:
    yield record.images >= 1, "images must be at least 1"
    yield record.correct <= record.images, "correct must not be more than its images"


def _tailoring(record: TailorRecord) -> _Fits:
    count = len(record.candidates)
    candidates = {"chosen": record.chosen, "judged.candidate": record.judged.candidate}
    candidates |= {f"relaxations[{index}].candidate": each.candidate for index, each in enumerate(record.relaxations)}
    for index, each in enumerate(record.alone):
        if each.candidate is not None:
            candidates[f"alone[{index}].candidate"] = each.candidate
    for name, number in candidates.items():
        yield 0 <= number < count, f"{name} must be one of its {count} candidates"
    for index, candidate in enumerate(record.candidates):
        yield candidate.number == index, f"candidates[{index}].number must be its index, {index}"


def _chain(record: ChainRecord) -> _Fits:
    stages = record.recipe.get("stages", ())
    yield isinstance(stages, list | tuple), "recipe['stages'] must be a list"
    for index, stage in enumerate(stages):
        fits = isinstance(stage, dict) and isinstance(stage.get("options", {}), dict)
        yield fits, f"recipe['stages'][{index}] must be an object with options by name"


RULES: Mapping[type[Record], Callable[[Any], _Fits]] = {
    Candidate: _candidate,
    ChainRecord: _chain,
    Evaluation: _evaluation,
    LabelEvaluation: _labels,
    RegressionEvaluation: _regression,
    GradientDiagnosis: _gradients,
    Interval: _interval,
    LayerGrade: _layer,
    Limits: _limits,
    RandomMasks: _masks,
    Measured: _measured,
    ReductionRecord: _reduction,
    Scratch: _scratch,
    SiteAngles: _angles,
    SiteReduction: _site,
    Study: _study,
    StudySummary: _summary,
    SweepTable: _table,
    TailorRecord: _tailoring,
    TrainRecord: _training,
    TransferRecord: _transfer,
}
"""By record type: pairs of whether a rule holds, and the rule."""
