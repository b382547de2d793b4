from __future__ import annotations

import pickle

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats.cifar import CIFAR10_FILES, CIFAR100_FILES, BatchFiles, find_cifar
from weightsmith.data.formats.parquet import ParquetFiles

BOTH = ("train", "test")


@pytest.fixture
def layout(cifar):
    return CIFAR10_FILES if cifar.classes == 10 else CIFAR100_FILES


@pytest.mark.parametrize("form", ["binary", "python"])
def test_unpacked_batches_are_found_here_or_in_the_official_folder(cifar, layout, files, form):
    members = getattr(cifar, form)()
    folder = layout.folders[form == "python"]
    flat = files(members, "flat")
    nested = files({f"{folder}/{name}": content for name, content in members.items()}, "nested")
    assert find_cifar(flat, BOTH, layout).origin == str(flat)
    assert find_cifar(nested, BOTH, layout).origin == str(nested / folder)


def test_archives_are_found_in_a_folder_under_the_official_name_or_given_under_any(cifar, layout, tar):
    official = tar(cifar.python(), layout.archives[1])
    assert find_cifar(official.parent, BOTH, layout).origin == str(official)
    renamed = tar(cifar.python(), "mine.tgz")
    assert find_cifar(renamed, BOTH, layout) == BatchFiles(renamed, layout)


def test_parquet_comes_first(cifar, layout, files):
    path = files({**cifar.python(), "train.parquet": b"", "test-00000-of-00001.parquet": b""})
    found = find_cifar(path, BOTH, layout)
    assert isinstance(found, ParquetFiles)
    assert found.parts["test"] == (path / "test-00000-of-00001.parquet",)
    assert found.label_column == ("label" if cifar.classes == 10 else "fine_label")
    one = find_cifar(path / "train.parquet", ("train",), layout)
    assert one.parts == {"train": (path / "train.parquet",)}


def test_what_lacks_a_split_asked_for_is_not_found(cifar, layout, files, tmp_path):
    members = cifar.binary()
    del members[f"{layout.batches['test'][0]}.bin"]
    path = files(members)
    assert find_cifar(path, BOTH, layout) is None
    assert find_cifar(path, ("train",), layout) is not None
    assert find_cifar(tmp_path / "nowhere", BOTH, layout) is None


def test_the_other_cifar_is_not_mistaken_for_this_one(cifar10, files, tar):
    path = files(cifar10.binary())
    tar(cifar10.python(), "files/cifar-10-python.tar.gz")
    assert find_cifar(path, BOTH, CIFAR100_FILES) is None


def layout_of(cifar):
    return CIFAR10_FILES if cifar.classes == 10 else CIFAR100_FILES


@pytest.mark.parametrize("form", ["binary", "python"])
@pytest.mark.parametrize("packed", ["folder", "archive"])
def test_both_official_forms_packed_or_not(cifar, files, tar, form, packed):
    members = getattr(cifar, form)()
    path = files(members) if packed == "folder" else tar(members)
    parts = BatchFiles(path, layout_of(cifar)).read(("train", "test"))
    for split in ("train", "test"):
        images, labels = cifar.expected(split)
        assert np.array_equal(parts[split].x, images)
        assert parts[split].y.tolist() == labels.tolist()
        assert parts[split].classes == tuple(cifar.names)
        assert parts[split].x.dtype == np.uint8
        assert parts[split].x.flags.writeable


@pytest.mark.parametrize("protocol", [2, 4])
def test_batches_written_by_python_3(cifar10, files, protocol):
    members = cifar10.python()
    x, y = cifar10.batches["test_batch"]
    members["test_batch"] = pickle.dumps({"data": x, "labels": y.tolist()}, protocol=protocol)
    part = BatchFiles(files(members), CIFAR10_FILES).read(("test",))["test"]
    assert np.array_equal(part.x, cifar10.expected("test")[0])


def test_class_names_are_optional(cifar10, files):
    members = {name: content for name, content in cifar10.binary().items() if name.endswith(".bin")}
    assert BatchFiles(files(members), CIFAR10_FILES).read(("test",))["test"].classes == ()


class Payload:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (str(self.target), "w")


def test_a_python_batch_with_a_payload_is_refused_and_does_nothing(cifar10, tar, canary):
    x, y = cifar10.batches["test_batch"]
    members = cifar10.python()
    batch = {b"labels": y.tolist(), b"extra": Payload(canary), b"data": x}
    members["test_batch"] = pickle.dumps(batch, protocol=2)
    with pytest.raises(FileRefused, match=r"test_batch: the pickle asks for (io|_io|__builtin__).open"):
        BatchFiles(tar(members), CIFAR10_FILES).read(("test",))


def python_batch(python2, **changes):
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
    batch.update({key.encode(): value for key, value in changes.items()})
    return python2.dumps({key: value for key, value in batch.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None}, "its 'data' is not an array of rows of 3072 bytes"),
        ({"data": np.zeros((2, 3071), np.uint8)}, "rows of 3072"),
        ({"data": np.zeros(3072, np.uint8)}, "rows of 3072"),
        ({"data": [0, 1]}, "rows of 3072"),
        ({"data": np.zeros((3, 3072), np.uint8)}, "holds 2 labels for 3 images"),
        ({"labels": None}, "its 'labels' are not a list"),
        ({"labels": [0, b"1"]}, "its 'labels' are not a list of whole numbers"),
        ({"labels": [0, 10]}, "label 10 in row 1 is not one of the 10 classes"),
    ],
)
def test_python_batches_that_are_no_batches(cifar10, files, python2, changes, message):
    path = files({"test_batch": python_batch(python2, **changes)})
    with pytest.raises(FileRefused, match=message) as caught:
        BatchFiles(path, CIFAR10_FILES).read(("test",))
    assert str(path / "test_batch") in str(caught.value)


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("test_batch.bin", bytes(3073 * 2 - 1), "has 6,145 bytes, which is not a whole number of 3073-byte records"),
        ("test_batch.bin", b"", "has 0 bytes"),
        ("test_batch.bin", b"\x0b" + bytes(3072), "label 11 in row 0"),
        ("batches.meta.txt", b"cat\ndog\n", "names 2 classes, not 10"),
        ("batches.meta.txt", b"\xff\xfe", "class names are not text"),
        ("test_batch.bin", None, "test_batch is not there; the test split needs it"),
    ],
)
def test_binary_batches_that_are_no_batches(cifar10, files, member, content, message):
    members = cifar10.binary() | {member: content}
    path = files({name: content for name, content in members.items() if content is not None})
    with pytest.raises(FileRefused, match=message):
        BatchFiles(path, CIFAR10_FILES).read(("test",))


@pytest.mark.parametrize("meta", [[b"cat"] * 9, [1] * 10, 5])
def test_python_class_names_that_are_none(cifar10, files, python2, meta):
    path = files({**cifar10.python(), "batches.meta": python2.dumps({b"label_names": meta})})
    with pytest.raises(FileRefused, match=r"batches\.meta: (names 9 classes|the class names are not text)"):
        BatchFiles(path, CIFAR10_FILES).read(("test",))


def test_a_batch_missing_in_the_middle_is_named(cifar10, tar):
    members = cifar10.binary()
    del members["data_batch_3.bin"]
    with pytest.raises(FileRefused, match=r"data_batch_3\.bin is not there; the train split needs it"):
        BatchFiles(tar(members), CIFAR10_FILES).read(("train",))
