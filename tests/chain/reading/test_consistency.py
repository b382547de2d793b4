from __future__ import annotations

import copy
import dataclasses
import json
import random
import sys

import numpy as np
import pytest

from weightsmith.chain import report
from weightsmith.chain.reading import consistency as module
from weightsmith.chain.reading.consistency import check_consistent
from weightsmith.chain.reading.results import KINDS, Result, read_record
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.statistics import Interval
from weightsmith.grading.results import Omitted
from weightsmith.reporting.parts import Choice, Drawing


def inside(values, way):
    """The object that holds what lies at ``way`` (names and places with dots between them), and its last name."""
    *outer, last = [int(part) if part.isdecimal() else part for part in way.split(".")]
    for part in outer:
        values = values[part]
    return values, last


def changed(record, way, change):
    values = record.to_dict()
    holder, name = inside(values, way)
    holder[name] = change(holder[name]) if callable(change) else change
    return values


@pytest.fixture
def written(records, tmp_path):
    """``written(kind, way, change)``: the file of a record in which one thing was changed."""

    def write(kind, way, change):
        path = tmp_path / "record.json"
        path.write_text(json.dumps(changed(records[kind], way, change)))
        return path

    return write


def test_what_verbs_make_is_consistent(records):
    assert set(records) == set(KINDS.values())
    for record in records.values():
        check_consistent(record)


shorter = lambda values: values[:-1]  # noqa: E731
again = lambda values: [*values, values[-1]]  # noqa: E731
emptied = {"dtype": "<i8", "shape": [0], "base64": ""}
endless = {"dtype": "<i8", "shape": [10**12, 0], "base64": ""}


@pytest.mark.parametrize(
    ("kind", "way", "change", "fault"),
    [
        ("evaluation", "confusion.2", shorter, "Evaluation.confusion must have a row and a column for each of its 10"),
        ("evaluation", "confusion", shorter, "Evaluation.confusion must have a row and a column for each of its 10"),
        ("evaluation", "confusion.0.0", 10**25, r"Evaluation.confusion is too large a number"),
        ("evaluation", "confusion.0.0", -1, "Evaluation.confusion must not be negative"),
        ("evaluation", "confusion.0.1", lambda cell: cell + 1, "Evaluation.confusion must hold the 360 images"),
        ("evaluation", "recall", shorter, "Evaluation.recall must have a value for each of its 10 classes"),
        ("evaluation", "recall.0", 1e-300, r"Evaluation.recall\[0\] must fit the confusion"),
        ("evaluation", "recall.0", 1.5, "Evaluation.recall must be between 0 and 1"),
        ("evaluation", "correct", 361, "Evaluation.correct must not be more than its images"),
        ("evaluation", "accuracy.high", 1.2, "Evaluation.accuracy must be between 0 and 1"),
        ("evaluation", "accuracy.low", 0.9999, "Evaluation.accuracy must be between 0 and 1"),
        ("training", "gradients.layers.0.sensitivity.0", -0.5, r"gradients.layers\[0\].sensitivity must not be neg"),
        ("training", "gradients.layers.1.update", shorter, r"gradients.layers\[1\].update must have a value for each"),
        ("training", "gradients.layers", [], "TrainRecord.gradients.layers must not be empty"),
        ("training", "gradients.reference", "nobody", "gradients.reference must be the name of a layer"),
        ("training", "gradients.sentence", "", "TrainRecord.gradients.sentence must not be empty"),
        ("training", "restored", 3, "TrainRecord.restored must be one of its 2 epochs, or 0"),
        ("training", "history.rows.0.train_accuracy", 1.5, r"history.rows\[0\].train_accuracy must be between 0 and 1"),
        ("training", "history.rows.1.train_loss", 1e200, r"history.rows\[1\].train_loss is too large a number"),
        ("transfer", "best", 999, "TransferRecord.best must be one of its"),
        ("transfer", "stages.0.training.best_epoch", 9, r"stages\[0\].training.best_epoch must be one of its 1 epochs"),
        ("table", "names", ["rate", "speed"], "SweepTable.names must be columns"),
        ("table", "columns", again, "SweepTable.columns must not repeat a name"),
        ("table", "rows.1", {"rate": 1}, r"SweepTable.rows\[1\] must have a value for each column"),
        ("table", "rows.1.loss", 10**25, "SweepTable.rows is too large a number"),
        ("grades", "layers.0.fit.tail", 10**6, r"Grades.layers\[0\].fit.tail must be between 1 and fit.evals"),
        ("grades", "layers.0.fit.xmin", 1e9, r"Grades.layers\[0\].fit.xmin must be one of its eigenvalues"),
        ("grades", "layers.0.eigenvalues", {**emptied, "dtype": "<f8"}, r"layers\[0\].fit.xmin must be one of its eig"),
        ("grades", "layers.0.bulk.low", -0.25, r"Grades.layers\[0\].bulk.low must not be negative"),
        ("reduction", "whole.parameters", 0, "ReductionRecord.whole.parameters must be positive"),
        ("reduction", "reduced.units", 10**6, "ReductionRecord.reduced.units must not be more than before"),
        ("reduction", "sites.0.kept", again, r"ReductionRecord.sites\[0\].kept must not name a unit twice"),
        ("reduction", "sites.0.kept.0", 99, r"sites\[0\].kept and removals must be different units of its 12"),
        ("reduction", "scratch.seeds", shorter, "scratch.accuracies must have a value for each seed"),
        ("reduction", "random.accuracies", [], "random.accuracies must not be empty"),
        ("angles", "sites.0.pairs.0.a", 12, r"AnglesRecord.sites\[0\].pairs\[0\] must be two of its 12 units"),
        ("angles", "sites.0.pairs.0.degrees", 181.0, r"pairs\[0\].degrees must be between 0 and 180"),
        ("angles", "sites.0.combined", [-1], "constant, short, groups and combined must name its 12 units"),
        ("study", "rows.0.units", 5, r"Study.rows\[0\].units must be between 1 and its 4 hidden units"),
        ("study", "rows.1.fold", 0, r"Study.rows\[1\] must not repeat a fold"),
        ("study", "settings.folds", 0, r"Study.settings\['folds'\] must be at least 1"),
        ("study", "summaries.0.hidden", 0, r"Study.summaries\[0\].hidden must be at least 1"),
        ("spiking", "cost.steps", 2_000_000_000, "SpikeRecord.cost.steps must be equal to its steps"),
        ("spiking", "steps", 2_000_000_000, "SpikeRecord.cost.steps must be equal to its steps"),
        ("spiking", "steps", 0, "SpikeRecord.steps must be at least 1"),
        ("spiking", "cost.run", {**emptied, "dtype": "<f8"}, "cost.run must have a number for each of its 6 steps"),
        (
            "spiking",
            "cost.layers.1.accumulates",
            {**emptied, "dtype": "<f8"},
            r"layers\[1\].accumulates must have a nu",
        ),
        ("spiking", "cost.layers", [], "SpikeRecord.cost.layers must not be empty"),
        ("spiking", "cost.prices.multiply", 1e300, "SpikeRecord.cost.prices is too large a number"),
        ("spiking", "decisions.correct", emptied, "decisions.correct must have a number for each of its 6 steps"),
        ("spiking", "decisions.images", 0, "SpikeRecord.decisions.images must be at least 1"),
        ("spiking", "decisions.images", 1, "SpikeRecord.decisions.correct must not be more than its images"),
        ("spiking", "decisions.confusion.matrix", endless, "SpikeRecord.decisions.confusion.matrix must be square"),
        ("spiking", "decisions.confusion.undecided", emptied, "undecided must have a number for each row of the matr"),
        ("spiking", "adjustment.populations.0.means", shorter, "means must have a number for each of 12 units"),
        ("spiking", "adjustment.populations.0.guarded", [12], "guarded must name some of 12 units"),
        ("spiking", "adjustment.populations.0.thresholds.1", 0.0, "thresholds must not be 0"),
        ("spiking", "watched.raster.steps", [], "watched.raster.steps must have a number for each image"),
        ("spiking", "watched.raster.steps.0", 10**9, r"populations\[0\].membranes must have the shape"),
        ("spiking", "watched.raster.populations.0.channels", emptied, "channels must have a number for each position"),
        (
            "spiking",
            "watched.raster.populations.0.spike_rows",
            {**emptied, "dtype": "<i4"},
            "spike_rows must have a nu",
        ),
        (
            "spiking",
            "watched.raster.populations.0.spike_sizes",
            {**emptied, "dtype": "|i1"},
            "spike_sizes must have a nu",
        ),
        (
            "spiking",
            "watched.correspondence.populations.0.rates",
            {**emptied, "dtype": "<f4"},
            "rates must have a value for each activation",
        ),
        ("spiking", "populations.0.threshold.least", 1e9, "threshold must rise from the least to the largest"),
        ("sweep", "table.0.correct", shorter, r"SpikeSweep.table\[0\].correct must have a number for each of 2"),
        ("sweep", "table.0.seen", 0, r"SpikeSweep.table\[0\].seen must be at least 1"),
        ("sweep", "chosen.0.baseline.factor", 3.0, r"SpikeSweep.chosen\[0\].baseline must be one of the table"),
        ("sweep", "chosen.0.leak", 0.5, r"SpikeSweep.chosen\[0\].baseline must have its leak and its reset"),
        ("sweep", "chosen.0.steps", 5, r"SpikeSweep.chosen\[0\].steps must be one of the steps"),
        ("sweep", "chosen.0.adjusted_test", None, r"SpikeSweep.chosen\[0\].adjusted_test must go with adjusted"),
        ("tailoring", "chosen", 999, "TailorRecord.chosen must be one of its"),
        ("tailoring", "chosen", -1, "TailorRecord.chosen must be one of its"),
        ("tailoring", "relaxations.0.candidate", 999, r"TailorRecord.relaxations\[0\].candidate must be one of its"),
        ("tailoring", "alone.0.candidate", 999, r"TailorRecord.alone\[0\].candidate must be one of its"),
        ("tailoring", "candidates.1.number", 0, r"TailorRecord.candidates\[1\].number must be its index, 1"),
        ("tailoring", "candidates.1.images", 0, r"TailorRecord.candidates\[1\].images must be at least 1"),
        ("tailoring", "limits.params", 0, "TailorRecord.limits.params must be positive"),
        ("chain", "recipe.stages.0.options", 7, r"ChainRecord.recipe\['stages'\]\[0\] must be an object with options"),
        ("chain", "recipe.stages", {"a": 1}, r"ChainRecord.recipe\['stages'\] must be a list"),
    ],
)
def test_fields_that_contradict_each_other_are_refused_by_name(written, kind, way, change, fault):
    path = written(kind, way, change)
    with pytest.raises(FileRefused, match=fault) as caught:
        read_record(path)
    assert str(caught.value).startswith(f"{path}: is not a record of the kind {kind!r} as this version writes it")
    assert "\n" not in str(caught.value)


def found(records):
    """Every record in these, those inside others as well."""
    return [each for record in records.values() for _, each in module._records(record, "")]


def test_every_number_in_the_tables_is_looked_at(records):
    seen = {Omitted: Omitted("a", 3, "too small")}
    for each in found(records):
        seen.setdefault(type(each), each)
    assert set(module._NOT_NEGATIVE) | set(module._SHARES) | set(module._RULES) <= set(seen)
    for table, wrong in ((module._NOT_NEGATIVE, -1), (module._SHARES, 1.5)):
        for kind, names in table.items():
            for name in names.split():
                value = getattr(seen[kind], name)
                if isinstance(value, Interval):
                    value = dataclasses.replace(value, value=wrong)
                elif isinstance(value, np.ndarray):
                    value = np.full_like(value, wrong)
                else:
                    value = (wrong,) * len(value) if isinstance(value, tuple) else wrong
                with pytest.raises(UsageError, match=rf"^{kind.__name__}\.{name} must"):
                    check_consistent(dataclasses.replace(seen[kind], **{name: value}))


def test_a_seed_may_be_any_whole_number(records):
    for kind in ("evaluation", "study"):
        record = records[kind]
        check_consistent(dataclasses.replace(record, origin=dataclasses.replace(record.origin, seed=2**200)))


# Mutations: whatever a file claims, it is refused by name, or there is a page of it.

_ODD = (None, -1, 0, 7, 0.5, -0.5, 3.7, 1e-300, 1e300, -1e300, 10**25, 2**63 - 1, 2_000_000_000)
_ODDER = (*_ODD, "x", "", "a" * 3000, [], {}, True, [1], {"a": 1}, emptied, endless)
_ODDEST = (*_ODDER, {"dtype": "f4,(", "shape": [1], "base64": "AAAAAAAA+D8="}, {**emptied, "dtype": "<f8"})


def ways(values, way=()):
    """All ways into ``values``; of long lists into the first four."""
    if way:
        yield way
    if isinstance(values, dict | list):
        items = values.items() if isinstance(values, dict) else enumerate(values[:4])
        for name, value in items:
            yield from ways(value, (*way, name))


def mutated(old, draw):
    chance = draw.random()
    if isinstance(old, list) and old and chance < 0.3:
        return draw.choice((old[:-1], [*old, old[-1]]))
    if isinstance(old, int | float) and not isinstance(old, bool):
        return draw.choice((-old, 1000 * old, old + 1, old - 1) if chance < 0.3 else _ODD)
    return draw.choice(_ODDEST)


def mutate(values, draw):
    """One or two things in ``values`` made something else; what and where."""
    calls = []
    for _ in range(draw.choice((1, 1, 2))):
        way = draw.choice(list(ways(values)))
        holder = values
        for name in way[:-1]:
            holder = holder[name]
        holder[way[-1]] = copy.deepcopy(mutated(holder[way[-1]], draw))
        calls.append((*way, repr(holder[way[-1]])[:40]))
    return calls


def drawings(parts):
    for part in parts:
        if isinstance(part, Drawing):
            yield part
        elif isinstance(part, Choice):
            for _, inner in part.options:
                yield from drawings(inner)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Matplotlib, which finds some of these numbers odd too
def test_a_record_of_odd_numbers_is_refused_or_gives_a_page(records, tmp_path, monkeypatch):
    sections = []
    monkeypatch.setattr(report, "render", lambda title, several: sections.extend(several) or title)
    draw, path = random.Random(20), tmp_path / "record.json"
    refused = drawn = 0
    for _ in range(600):
        kind = draw.choice(sorted(records))
        values = copy.deepcopy(records[kind].to_dict())
        changes = mutate(values, draw)
        path.write_text(json.dumps(values))
        try:
            record = read_record(path)
        except FileRefused:
            refused += 1
            continue
        sys.stdout.write(f"{kind}: {changes}\n")  # pytest shows the last of these when it fails
        sections.clear()
        report.report_page([Result(kind, record)])
        for drawing in (each for section in sections for each in drawings(section.parts)):
            if draw.random() < 0.3:
                drawing.figure()
                drawn += 1
    assert refused > 250
    assert drawn > 50
