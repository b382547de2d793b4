from __future__ import annotations

import pytest

from weightsmith.data.catalogue import CATALOGUE


@pytest.mark.parametrize("known", CATALOGUE.values(), ids=lambda known: known.name)
def test_every_entry_is_whole(known):
    assert CATALOGUE[known.name] is known
    assert len(set(known.classes)) == len(known.classes)
    assert set(known.sizes) == {"train", "test"}
    assert len(known.shape) == 3
    assert len(known.normalisation.mean) in (0, 1, known.shape[0])
    assert bool(known.files) is (known.find is not None)


def test_class_counts():
    assert {name: len(known.classes) for name, known in CATALOGUE.items()} == {
        "digits": 10,
        "mnist": 10,
        "fashion-mnist": 10,
        "cifar10": 10,
        "cifar100": 100,
    }
    assert CATALOGUE["cifar100"].classes == tuple(sorted(CATALOGUE["cifar100"].classes))


def test_nothing_is_found_where_nothing_is(tmp_path):
    for known in CATALOGUE.values():
        if known.find is not None:
            assert known.find(tmp_path, ("train", "test")) is None
            assert known.find(tmp_path / "nothing", ("test",)) is None


def test_shapes_of_the_published_images():
    assert {name: known.shape for name, known in CATALOGUE.items()} == {
        "digits": (1, 8, 8),
        "mnist": (1, 28, 28),
        "fashion-mnist": (1, 28, 28),
        "cifar10": (3, 32, 32),
        "cifar100": (3, 32, 32),
    }
