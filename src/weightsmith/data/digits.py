"""The handwritten digits that come with scikit-learn: real data on a machine that has nothing else.

1,797 grey images of 8 × 8 pixels (Alpaydin and Kaynak 1998, the UCI test set). A pixel is a count from 0 to 16; it is
divided by 16, which is exact in floats. The split is fixed: 1,437 rows to train and 360 to test, stratified, seed 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weightsmith.data.arrays import Arrays
from weightsmith.data.splits import stratified_split

__all__ = ["EmbeddedDigits"]


class EmbeddedDigits:
    """The digits, as the other files are read."""

    origin = "scikit-learn"

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        """Images ``(n, 1, 8, 8)`` in [0, 1] and labels of each split."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
        y = labels.astype(np.int64)
        rows = dict(zip(("train", "test"), stratified_split(y, (1437, 360), seed=0), strict=True))
        return {split: Arrays(x[rows[split]], y[rows[split]]) for split in splits}
