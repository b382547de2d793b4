from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from weightsmith.core.records import digest_of
from weightsmith.data.digits import EmbeddedDigits


def test_every_digit_is_in_one_split_and_exact():
    parts = EmbeddedDigits().read(("train", "test"))
    x = np.concatenate([parts["train"].x, parts["test"].x])
    y = np.concatenate([parts["train"].y, parts["test"].y])
    pixels, labels = load_digits(return_X_y=True)
    assert x.dtype == np.float32
    mine = sorted((*map(float, row.ravel() * 16), float(label)) for row, label in zip(x, y, strict=True))
    theirs = sorted((*row, float(label)) for row, label in zip(pixels, labels, strict=True))
    assert mine == theirs


def test_the_split_is_stratified_and_never_changes():
    parts = EmbeddedDigits().read(("train", "test"))
    assert (len(parts["train"].y), len(parts["test"].y)) == (1437, 360)
    counts = np.bincount(np.concatenate([parts["train"].y, parts["test"].y]))
    assert np.abs(np.bincount(parts["test"].y) - counts * 360 / 1797).max() < 1
    assert digest_of(parts["test"].x) == "00216c186e992ff941c4e5dfb43e291c63571a8571ce14ffad06e29425f12caf"
    assert list(EmbeddedDigits().read(("test",))) == ["test"]
