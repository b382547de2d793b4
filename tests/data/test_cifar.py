from __future__ import annotations

import pytest

from weightsmith.data.batches import BatchFiles
from weightsmith.data.cifar import CIFAR10_FILES, CIFAR100_FILES, find_cifar
from weightsmith.data.parquet import ParquetFiles

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
    place = files({**cifar.python(), "train.parquet": b"", "test-00000-of-00001.parquet": b""})
    found = find_cifar(place, BOTH, layout)
    assert isinstance(found, ParquetFiles)
    assert found.parts["test"] == (place / "test-00000-of-00001.parquet",)
    assert found.label_column == ("label" if cifar.classes == 10 else "fine_label")
    one = find_cifar(place / "train.parquet", ("train",), layout)
    assert one.parts == {"train": (place / "train.parquet",)}


def test_what_lacks_a_split_asked_for_is_not_found(cifar, layout, files, tmp_path):
    members = cifar.binary()
    del members[f"{layout.batches['test'][0]}.bin"]
    place = files(members)
    assert find_cifar(place, BOTH, layout) is None
    assert find_cifar(place, ("train",), layout) is not None
    assert find_cifar(tmp_path / "nowhere", BOTH, layout) is None


def test_the_other_cifar_is_not_mistaken_for_this_one(cifar10, files, tar):
    place = files(cifar10.binary())
    tar(cifar10.python(), "files/cifar-10-python.tar.gz")
    assert find_cifar(place, BOTH, CIFAR100_FILES) is None
