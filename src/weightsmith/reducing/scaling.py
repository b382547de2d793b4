"""Feature scalings of a study, fitted on the training rows of a fold alone.

    zscore   (x − mean) / deviation        per column, over the training rows
    minmax   (x − least) / (most − least)  per column; training rows lie in [0, 1], test rows may lie beside it
    rowl2    x / ‖x‖                       per row; nothing is fitted
    none     x

The paper of seed 003 says that its features were "normalized" and not how. It decides how many units are near to each
other, so it is an option with a name that stands beside every result.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UnknownName

__all__ = ["SCALINGS", "Scaling", "check_scaling", "scaled"]

Scaling: TypeAlias = Literal["zscore", "minmax", "rowl2", "none"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)


def check_scaling(name: str) -> Scaling:
    """``name`` itself, if it is that of a scaling; the error suggests the nearest.

    >>> check_scaling("z-score")
    Traceback (most recent call last):
    weightsmith.core.errors.UnknownName: unknown scaling 'z-score'; did you mean 'zscore'? ...
    """
    for known in SCALINGS:
        if name == known:
            return known
    raise UnknownName("scaling", name, SCALINGS)


def scaled(x: NDArray[Any], train: NDArray[np.int64], how: Scaling) -> NDArray[np.float32]:
    """All rows of ``x`` (rows × features), scaled by what the rows numbered ``train`` tell.

    A column that does not vary on those rows is measured from its value there and not stretched.

    >>> x = np.array([[0.0, 1.0], [2.0, 1.0], [6.0, 4.0]])
    >>> scaled(x, np.array([0, 1]), "zscore").tolist(), scaled(x, np.array([0, 1]), "minmax").tolist()
    ([[-1.0, 0.0], [1.0, 0.0], [5.0, 3.0]], [[0.0, 0.0], [1.0, 0.0], [3.0, 3.0]])
    """
    values = np.asarray(x, np.float64)
    known = values[train]
    if how == "rowl2":
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        values = values / np.where(lengths > 0, lengths, 1.0)
    elif how != "none":
        least, most = known.min(axis=0), known.max(axis=0)
        centre, width = (known.mean(axis=0), known.std(axis=0)) if how == "zscore" else (least, most - least)
        steady = least == most  # asked of the values: a computed deviation of equal ones need not be 0
        values = (values - np.where(steady, least, centre)) / np.where(steady, 1.0, width)
    return values.astype(np.float32)
