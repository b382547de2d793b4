from __future__ import annotations

from pathlib import Path

import pytest

from weightsmith.chain.results import ChainRecord, ChainRun, StageDone
from weightsmith.core.errors import UnknownName
from weightsmith.core.records import Origin


def record(*seeds):
    stages = [
        StageDone(name, name, None, seed, f"seed-{seed}/{name}", "0" * 64, None)
        for seed in seeds
        for name in ("train", "grade")
    ]
    return ChainRecord({"data": "digits"}, tuple(stages), ("train: diverged",), Origin(versions={}))


def test_the_record_goes_through_json():
    assert ChainRecord.from_json(record(0, 1).to_json()) == record(0, 1)


def test_places_are_those_of_the_first_seed_unless_one_is_given():
    run = ChainRun(record(3, 5), Path("out"), {}, None)
    assert run.place("grade") == Path("out/seed-3/grade")
    assert run.place("grade", 5) == Path("out/seed-5/grade")
    assert str(run) == "train → grade, seeds 3, 5, in out"
    with pytest.raises(UnknownName, match="did you mean 'grade'"):
        run.place("grad")
    with pytest.raises(UnknownName, match="unknown seed '4'"):
        run.place("grade", 4)
