"""Ranks of the fast non-dominated sort and crowding distances, by pymoo, for fixed points (smaller is better)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pymoo.operators.survival.rank_and_crowding.metrics import get_crowding_function
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

from benchmarks.peers.inputs import weights

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("moocore", "numpy", "pymoo")


def vectors() -> dict[str, Any]:
    """Two and three objectives; two points equal in one objective, and one point twice."""
    plane = weights(24, 2, salt=31)
    plane[5, 0] = plane[6, 0]
    # No two equal in any objective: which of two ties is the neighbour is a matter of the sort.
    space = weights(30, 3, salt=32) + np.arange(30)[:, None] / 4096
    return {
        "three_objectives": _sorted(space),
        "two_objectives": _sorted(plane),
        "with_a_point_twice": _sorted(np.vstack([plane, plane[0]])),
    }


def _sorted(points: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The rank of each point, and its crowding distance within its front; None where pymoo says infinity."""
    fronts = NonDominatedSorting().do(points)
    ranks = [0] * len(points)
    distances: list[float | None] = [None] * len(points)
    for rank, front in enumerate(fronts):
        crowding = get_crowding_function("cd").do(points[front])
        for point, distance in zip(front.tolist(), crowding.tolist(), strict=True):
            ranks[point] = rank
            distances[point] = distance if math.isfinite(distance) else None
    return {"crowding": distances, "points": points.tolist(), "ranks": ranks}
