from __future__ import annotations

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.data.arrays import LIMIT, checked_labels, checked_size


@pytest.mark.parametrize("size", [0, 1, LIMIT])
def test_sizes_up_to_the_limit_pass(size):
    assert checked_size("f", size, "it") == size


@pytest.mark.parametrize("size", [-1, LIMIT + 1, 1 << 70])
def test_other_sizes_are_refused_with_the_file_and_the_number(size):
    with pytest.raises(FileRefused, match=f"f: it would take {size:,} bytes"):
        checked_size("f", size, "it")


@pytest.mark.parametrize(("labels", "message"), [([0, 3, 1], "label 3 in row 1"), ([0, 1, -1], "label -1 in row 2")])
def test_the_first_label_out_of_range_is_named(labels, message):
    with pytest.raises(FileRefused, match=f"{message} is not one of the 3 classes 0…2"):
        checked_labels("f", np.array(labels), 3)


def test_labels_of_any_width_become_int64():
    labels = checked_labels("f", np.array([0, 255], np.uint8), 256)
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 255]
