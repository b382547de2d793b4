"""α at a fixed aspect ratio, because α drifts with N/M.

On pure noise of 256 columns the median α is 6.4, 7.3 and 11.4 for N/M = 1, 1.5 and 8, so that α is not comparable
between layers of different shape (in square blocks: 6.4, 7.4 and 7.7). FARMS (Hu et al., ICML 2025, arXiv 2506.06280)
therefore uses sub-matrices of one aspect ratio. Here these are contiguous blocks of ``aspect``·c rows and c columns, c
as large as fits, side by side and evenly spread over the layer; in a layer of several matrices a block is taken at the
same place in each, and pooled as the layer is. For the default, squares, a block has all M columns, and a square layer
is its own block.

They give two numbers:

- ``alpha``, the median over blocks of the same fit that gave the layer's α. One fit to the eigenvalues of all blocks
  fails with a searched λ_min: α on noise then grows with the number of blocks (7 to 24 from one to eight).
- ``hill``, as in FARMS: one Hill fit to the upper half of the eigenvalues of all blocks.

At most two blocks are taken by default, so that the cost stays near that of the layer's own decomposition.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from weightsmith.core.errors import OptionError
from weightsmith.core.records import Record
from weightsmith.grading.fits.cuts import Hill, SmallestDistance, TailCut
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.random_matrix.twin import spectrum_like
from weightsmith.grading.spectra.spectrum import Spectrum

__all__ = ["FixedAspect", "fixed_aspect"]

_SMALLEST_DISTANCE, _UPPER_HALF = SmallestDistance(), Hill()


@dataclass(frozen=True, eq=False)
class FixedAspect(Record):
    """α of blocks of ``rows`` × ``columns``.

    ``blocks`` is how many were fitted, ``share`` the share of the layer's weights in them. ``alpha`` and ``hill`` are
    defined in the module docstring.
    """

    alpha: float
    hill: float
    aspect: float
    rows: int
    columns: int
    blocks: int
    share: float


def fixed_aspect(
    matrices: Tensor,
    known: Spectrum,
    *,
    aspect: float = 1.0,
    most: int = 2,
    cut: TailCut = _SMALLEST_DISTANCE,
    device: str = "cpu",
) -> FixedAspect | None:
    """α of at most ``most`` blocks with ``aspect`` times as many rows as columns; None if none of them has a fit.

    ``known`` is the layer's spectrum: its method and precision are used, and its values if the block is the layer.
    """
    if not (aspect >= 1 and math.isfinite(aspect)):
        raise OptionError(f"the aspect ratio of blocks must be ≥ 1 and finite, not {aspect!r}")
    if most < 1:
        raise OptionError(f"most must be ≥ 1 block, not {most!r}")
    tall = matrices if matrices.shape[1] >= matrices.shape[2] else matrices.mT
    _, all_rows, all_columns = tall.shape
    size = _block(all_rows, all_columns, aspect)
    if size is None:
        return None
    rows, columns = size
    corners = _spread(list(itertools.product(_starts(all_rows, rows), _starts(all_columns, columns))), most)
    found = [known.eigenvalues] if (rows, columns) == (all_rows, all_columns) else []
    if not found:
        blocks = (tall[:, row : row + rows, column : column + columns] for row, column in corners)
        found = [spectrum_like(block, known, device).eigenvalues for block in blocks]
    fits = [fit for fit in (fit_power_law(values, cut) for values in found) if fit is not None]
    pooled = fit_power_law(np.sort(np.concatenate(found)), _UPPER_HALF)
    if not fits or pooled is None:
        return None
    share = len(fits) * rows * columns / (all_rows * all_columns)
    alpha = float(np.median([fit.alpha for fit in fits]))
    return FixedAspect(alpha, pooled.alpha, aspect, rows, columns, len(fits), share)


def _block(all_rows: int, all_columns: int, aspect: float) -> tuple[int, int] | None:
    """Rows and columns of the largest block with this ratio; None if there are too few rows for a single column."""
    columns = min(all_columns, int(all_rows / aspect))
    return (min(int(aspect * columns), all_rows), columns) if columns else None


def _starts(whole: int, part: int) -> list[int]:
    """The start indices of the parts that fit side by side, evenly spread."""
    count = whole // part
    gap = (whole - count * part) / count
    return [int(gap / 2 + index * (part + gap)) for index in range(count)]


def _spread(corners: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most ``most`` of the corners, evenly spread."""
    count = min(len(corners), most)
    return [corners[int((index + 0.5) * len(corners) / count)] for index in range(count)]
