from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.chain.reading import _folders, _record_files
from weightsmith.chain.reading import results as reading
from weightsmith.chain.reading.results import KINDS, Result, read_evaluation, read_record, read_result, read_results
from weightsmith.chain.results import ChainRecord, StageDone
from weightsmith.core.errors import FileRefused
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.core.storage import file_digest, write_atomic
from weightsmith.networks.evaluation import Evaluation


def evaluation(correct=8, **more):
    fields = {
        "data": "digits",
        "split": "test",
        "images": 10,
        "correct": correct,
        "not_finite": 0,
        "accuracy": wilson(correct, 10),
        "top5": None,
        "loss": 0.25,
        "classes": ("no", "yes"),
        "recall": (0.5, None),
        "confusion": ((4, 1), (1, 4)),
        "normalisation": "none",
        "notes": (),
        "origin": Origin(inputs={"network": "ab" * 32}),
    }
    return Evaluation(**fields | more)


def put(folder, record, name="record.json"):
    write_atomic(folder / name, record.to_json(indent=1) + "\n")
    return folder


def test_every_kind_is_told_by_its_fields(records, tmp_path):
    assert set(records) == set(KINDS.values())
    for name, record in records.items():
        found = read_result(put(tmp_path / name, record))
        assert (found.name, KINDS[type(found.record)], found.record) == (name, name, record)
        assert read_result(tmp_path / name / "record.json") == found


def test_no_two_kinds_can_be_taken_for_each_other():
    for one, other in itertools.permutations(KINDS, 2):
        both = reading._fields(one) & reading._fields(other)
        assert not reading._fields(one, needed=True) | reading._fields(other, needed=True) <= both


def test_a_file_of_another_name_keeps_it(tmp_path):
    put(tmp_path / "run", evaluation(), "judged.json")
    assert read_result(tmp_path / "run" / "judged.json").name == "run/judged"


def test_a_folder_of_folders_gives_them_all_by_their_way_from_there(tmp_path):
    for folder in ("seed-10/train", "seed-2/train", "seed-2/grade/deep", "last"):
        put(tmp_path / folder, evaluation(len(folder) % 10))
    put(tmp_path / "seed-2/train/recovery", evaluation(0))  # is part of that result
    put(tmp_path / ".hidden", evaluation())
    (tmp_path / "link").symlink_to(tmp_path / "last")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "figures").mkdir()
    names = [result.name for result in read_results(tmp_path)]
    assert names == ["last", "seed-2/grade/deep", "seed-2/train", "seed-10/train"]


@pytest.mark.parametrize("kind", ["study", "training", "transfer", "reduction", "spiking", "tailoring", "grades"])
def test_an_evaluation_beside_a_record_is_a_result_too(records, tmp_path, kind):
    record = records[kind]
    own = getattr(record, "result", None) or getattr(record, "network", None) or record.origin.inputs.get("network")
    judged = evaluation(origin=Origin(inputs={"network": own or "ab" * 32}))
    put(tmp_path / "run", record)
    put(tmp_path / "run", judged, "evaluation.json")
    assert read_results(tmp_path / "run") == [Result("run", record), Result("run, evaluated", judged)]
    assert read_result(tmp_path / "run").record == record
    assert read_evaluation(tmp_path / "run", record) == (judged, None)


@pytest.mark.parametrize("kind", ["training", "transfer", "reduction", "spiking", "tailoring", "grades"])
def test_an_evaluation_of_another_network_is_not_taken_for_that_of_the_record(records, tmp_path, kind):
    record = records[kind]
    for inputs, of in (({"network": "ab" * 32}, "is of the network abab"), ({}, "does not name its network")):
        stray = evaluation(origin=Origin(inputs=inputs), notes=("its own",))
        put(tmp_path / "run", record)
        put(tmp_path / "run", stray, "evaluation.json")
        own, other = read_results(tmp_path / "run")
        assert (own.name, own.record) == ("run", record)
        assert other.name == "run, evaluation.json of another network"
        doubt, kept = other.record.notes
        assert doubt.startswith(f"evaluation.json {of}")
        assert kept == "its own"
        assert dataclasses.replace(other.record, notes=("its own",)) == stray
        assert read_evaluation(tmp_path / "run", record) == (stray, doubt)


def test_what_is_no_evaluation_is_not_read_as_one(records, tmp_path):
    put(tmp_path / "run", records["training"])
    assert read_evaluation(tmp_path / "run", records["training"]) is None
    put(tmp_path / "run", records["grades"], "evaluation.json")
    with pytest.raises(FileRefused, match=r"run/evaluation.json: is of the kind 'grades': an evaluation belongs there"):
        read_results(tmp_path / "run")


def test_the_present_folder_has_a_name(tmp_path, monkeypatch):
    put(tmp_path / "run", evaluation())
    monkeypatch.chdir(tmp_path / "run")
    assert read_result(".").name == read_results("record.json")[0].name == "run"


def chain(top, *seeds, **more):
    stages = []
    for seed in seeds:
        way = f"seed-{seed}/judge"
        put(top / way, evaluation(seed))
        sha = file_digest(top / way / "record.json")
        stage = StageDone("judge", "evaluate", None, seed, way, sha, None)
        stages.append(dataclasses.replace(stage, **more))
    return put(top, ChainRecord({"data": "digits"}, tuple(stages), (), Origin()))


def test_a_chain_gives_its_stages_under_their_names(tmp_path):
    chain(tmp_path / "one", 3)
    put(tmp_path / "one" / "stray", evaluation(9))  # of an earlier recipe: none of this chain
    assert [found.name for found in read_results(tmp_path / "one")] == ["one", "judge"]
    found = read_results(chain(tmp_path / "two", 3, 5))
    assert [(each.name, getattr(each.record, "correct", None)) for each in found] == [
        ("two", None),
        ("judge (seed 3)", 3),
        ("judge (seed 5)", 5),
    ]


@pytest.mark.parametrize("way", ["../other", "/etc", "a/../../b", ".", "a\\b", "a\0b"])
def test_a_chain_cannot_lead_out_of_its_folder(tmp_path, way):
    with pytest.raises(FileRefused, match="names a folder outside of its own"):
        read_results(chain(tmp_path / "run", 1, folder=way))


def test_a_stage_that_is_gone_or_was_changed_is_named(tmp_path):
    folder = chain(tmp_path / "run", 1)
    put(folder / "seed-1/judge", evaluation(2))
    with pytest.raises(FileRefused, match=r"seed-1/judge/record.json: was changed since the chain wrote it"):
        read_results(folder)
    (folder / "seed-1/judge/record.json").unlink()
    with pytest.raises(
        FileRefused, match=r"seed-1/judge: the chain has the stage 'judge' there, but record.json is missing"
    ):
        read_results(folder)


def test_a_chain_inside_its_own_stage_ends(tmp_path):
    folder = chain(tmp_path / "run", 1)
    inner = (folder / "seed-1/judge").rename(folder / "kept")
    (folder / "seed-1/judge").symlink_to(folder)
    with pytest.raises(FileRefused, match="was changed since the chain wrote it"):
        read_results(folder)
    assert read_result(inner).record == evaluation(1)


def test_matrices_of_angles_come_with_their_record(records, tmp_path):
    put(tmp_path / "a", records["angles"])
    assert read_results(tmp_path / "a")[0].detail is None
    (site,) = records["angles"].sites
    degrees = np.full((site.units, site.units), 60.0, np.float32)
    np.savez(tmp_path / "a/arrays.npz", **{site.name: degrees})
    (found,) = read_results(tmp_path / "a")
    np.testing.assert_array_equal(found.detail.degrees(site.name), degrees)
    for wrong, reason in ((degrees[:2], "holds no angles of the 12 units"), (4 * degrees, "that are not angles")):
        np.savez(tmp_path / "a/arrays.npz", **{site.name: wrong})
        with pytest.raises(FileRefused, match=reason):
            read_results(tmp_path / "a")
    (tmp_path / "a/arrays.npz").unlink()
    os.mkfifo(tmp_path / "a/arrays.npz")
    with pytest.raises(FileRefused, match="is a pipe, socket or device, not a file"):
        read_results(tmp_path / "a")


def changed(**fields):
    return json.dumps({**evaluation().to_dict(), **fields})


def without(*names):
    return json.dumps({key: value for key, value in evaluation().to_dict().items() if key not in names})


NEWER = {"seed": None, "inputs": {}, "versions": {"weightsmith": "99.1"}}
ARRAY = {"dtype": "<i8", "shape": [3], "base64": ""}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", r"is not JSON \(Expecting value.*\): give a result folder, or its record.json"),
        (b"\xff\xfe{}", "is not JSON"),
        ("[1, 2]", "a record is a JSON object"),
        ('"text"', "a record is a JSON object"),
        ("{}", "is not a record of a known kind; known are chain, training, transfer, table, grades"),
        ('{"a": 1, "b": 2}', "is not a record of a known kind"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"settings": ' + "[" * 60 + "]" * 60 + "}", "is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "is not JSON"),
        (changed(loss=float("nan")), "holds NaN: a record holds finite numbers or null"),
        (
            changed().replace("0.25", "1e999"),
            r"is not a record of the kind 'evaluation' as this version writes it \(Evaluation.loss is inf",
        ),
        (
            changed(images="ten"),
            r"is not a record of the kind 'evaluation' as this version writes it \(Evaluation.images must be int",
        ),
        (changed(accuracy=None), "is not a record of the kind 'evaluation' as this version writes it"),
        (without("recall"), "looks like a record of the kind 'evaluation' but lacks the field 'recall'"),
        (changed(colour=1), "looks like a record of the kind 'evaluation' but has the unknown field 'colour'$"),
        (changed(colour=1, origin=NEWER), f"'colour'; it was written by weightsmith '99.1', this is {ws.__version__}"),
        (json.dumps({"new": 1, "origin": NEWER}), "kind; it was written by weightsmith '99.1'"),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, str) else None,
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path, content, reason):
    path = tmp_path / "record.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileRefused, match=reason) as caught:
        read_result(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600 + len(str(path))


@pytest.mark.parametrize(
    "array",
    [
        {**ARRAY, "base64": "no base64!"},
        {**ARRAY, "dtype": "|O"},
        {**ARRAY, "dtype": "f4,("},  # of which NumPy makes a SyntaxError
        {**ARRAY, "dtype": {"names": ["a"]}},
        {**ARRAY, "shape": [10**12]},
        {**ARRAY, "shape": "three"},
        {**ARRAY, "dtype": "<f8", "shape": [1], "base64": "AAAAAAAA+H8="},  # NaN
        [1, 2, 3],
    ],
)
def test_arrays_that_are_none_are_refused(records, tmp_path, array):
    values = records["spiking"].to_dict()
    values["decisions"]["correct"] = array
    (tmp_path / "record.json").write_text(json.dumps(values))
    with pytest.raises(FileRefused, match="is not a record of the kind 'spiking' as this version writes it"):
        read_record(tmp_path / "record.json")


@pytest.mark.parametrize(("kind", "setting"), [("reduction", "by"), ("angles", "angle"), ("spiking", "neuron")])
def test_settings_that_a_page_needs_must_be_there(records, tmp_path, kind, setting):
    for value in (None, {"a": 1}):
        values = records[kind].to_dict()
        values["settings"][setting] = value
        (tmp_path / "record.json").write_text(json.dumps(values))
        with pytest.raises(FileRefused, match=f"its settings lack '{setting}'"):
            read_record(tmp_path / "record.json")


def test_a_file_of_absurd_size_is_refused_unread(tmp_path):
    path = tmp_path / "record.json"
    path.touch()
    os.truncate(path, 40 << 30)  # sparse: it takes no room, but reading it would
    with pytest.raises(FileRefused, match="has 42,950 MB, too large for a record .at most 34 MB"):
        read_result(tmp_path)


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "record.json")
    with pytest.raises(FileRefused, match="is not an ordinary file"):
        read_result(tmp_path)
    (tmp_path / "record.json").unlink()
    (tmp_path / "record.json").mkdir()
    with pytest.raises(FileRefused, match="is not an ordinary file"):
        read_result(tmp_path)


@pytest.mark.parametrize("name", ["record.json", "evaluation.json"])
@pytest.mark.parametrize("odd", ["a pipe", "a link to a device"])
def test_a_stage_of_a_chain_is_looked_at_before_it_is_read_or_digested(tmp_path, name, odd):
    folder = chain(tmp_path / "run", 1)
    path = folder / "seed-1/judge" / name
    path.unlink(missing_ok=True)
    if odd == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(FileRefused, match=re.escape(f"{path}: is not an ordinary file")):
        read_results(folder)


def test_a_file_that_says_it_is_empty_is_read_no_further_than_a_record_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(_record_files, "_MOST_BYTES", 1000)
    path = tmp_path / "record.json"
    path.write_bytes(bytes(3000))
    honest = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **more: os.stat_result((*honest(self, **more)[:6], 0, 0, 0, 0)))
    with pytest.raises(FileRefused, match="has 0 MB, too large for a record .at most 0 MB"):
        read_record(path)


def test_a_folder_that_lost_its_record_is_named_by_it(tmp_path):
    with pytest.raises(FileRefused, match=r"gone.record\.json"):
        list(reading._read_one(tmp_path / "gone", "gone"))


def test_empty_places_say_what_to_give(tmp_path):
    with pytest.raises(FileRefused, match="no such file"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(FileRefused, match=re.escape(f"{tmp_path}: neither it nor a folder in it holds a record.json")):
        read_results(tmp_path)
    with pytest.raises(FileRefused, match="holds no record.json: a result is a folder that --out"):
        read_result(tmp_path)


def test_a_whole_disk_is_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(_folders, "_MOST_FOLDERS", 10)
    for number in range(11):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(FileRefused, match="has more than 10 folders in it: name the result folders"):
        read_results(tmp_path)
