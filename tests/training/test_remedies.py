from __future__ import annotations

import pytest

from weightsmith.training.remedies import ByData, Cut, Drop, Remedy, Replace


def test_dropping_goes_down_to_the_last_block_of_the_base():
    cut, seen = Cut(3), []
    while cut is not None:
        seen.append(cut)
        cut = Drop().after(cut, images=10)
    assert seen == [Cut(3), Cut(2), Cut(1)]


def test_replacing_keeps_the_size_and_leaves_a_block_of_the_base():
    cut, seen = Cut(5), []
    while cut is not None:
        seen.append((cut.reuse, cut.fresh, cut.taken))
        cut = Replace(layers=2).after(cut, images=10)
    assert seen == [(5, 0, 5), (5, 2, 3), (5, 4, 1)]


@pytest.mark.parametrize(("images", "after"), [(499.9, Cut(3)), (500, Cut(4, 1))])
def test_the_amount_of_data_decides(images, after):
    assert ByData().after(Cut(4), images) == after
    assert ByData(2000).after(Cut(4), images) == Cut(3)


def test_text_forms():
    assert Remedy.parse("by-data:100,layers=2,rounds=3") == ByData(100, layers=2, rounds=3)
    assert str(Drop(rounds=2)) == "drop:rounds=2"
