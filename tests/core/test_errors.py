from __future__ import annotations

import inspect
import pickle

import pytest

from weightsmith.core import errors
from weightsmith.core.errors import (
    DataMissing,
    FileRefused,
    MissingExtra,
    UnknownName,
    UsageError,
    WeightsmithError,
    WorkerLost,
    brief,
)

FAMILY = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, WeightsmithError)]


def test_every_error_is_in_the_drawn_tree_with_its_exit_code():
    drawing = errors.__doc__
    for error in FAMILY:
        line = next(line for line in drawing.splitlines() if f" {error.__name__} " in f" {line.strip(' ├└│─')} ")
        if error is not WeightsmithError:
            assert f" {error.exit_code} " in line, line


def test_the_public_list_is_the_family():
    assert sorted(errors.__all__) == sorted([*(error.__name__ for error in FAMILY), "brief", "how_to_install"])


def test_the_nearest_name_is_suggested():
    assert "did you mean 'fashion-mnist'?" in str(UnknownName("data set", "fashon-mnist", ["cifar10", "fashion-mnist"]))
    assert "did you mean" not in str(UnknownName("data set", "zzz", ["cifar10"]))


@pytest.mark.parametrize(
    "error",
    [
        UnknownName("network", "vg", ["vgg"]),
        MissingExtra("reading ONNX", "onnx"),
        FileRefused("a.pt", "empty"),
        DataMissing("cifar10", "not found"),
        UsageError("no"),
        WorkerLost("task 3"),
    ],
)
def test_errors_survive_the_way_back_from_a_worker(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_foreign_values_are_cut_in_messages():
    long = "x" * 10_000
    assert len(brief(long)) == 120
    assert brief("short") == "'short'"
    assert len(str(UnknownName("data set", long, ["digits"]))) < 250


def test_a_refusal_is_one_line_of_bounded_length_whatever_the_file_says():
    refused = FileRefused("folder/" + "x" * 5_000, "holds\n" + "y" * 5_000)
    assert len(str(refused)) < 1_000
    assert "\n" not in str(refused)
    assert str(refused).startswith("folder/xxx")
    assert refused.path == "folder/" + "x" * 5_000
