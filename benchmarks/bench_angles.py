"""Angles between units: against a bare matrix product on a large layer, and against scikit-learn on small ones."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import cosine_similarity

from benchmarks.measure import Case
from weightsmith.core.seeds import stream
from weightsmith.reducing.criteria.angles import Angles, choose_by_angles, pairs
from weightsmith.reducing.criteria.gram import Gram

__all__ = ["cases"]

_ROWS, _UNITS = 60_000, 10_000
_AT_A_TIME = 6_000
_ANGLE = 15.0

Rows = NDArray[np.float32]


def cases() -> list[Case]:
    """60,000 rows of 10,000 units, then the 607 rows of the paper's folds."""
    return [
        _against_product(_ROWS, _UNITS),
        _against_sklearn(607, 1000),
        _against_sklearn(607, 100),
    ]


def _against_product(rows: int, units: int) -> Case:
    block = _block(min(rows, _AT_A_TIME), units)
    times = rows // len(block)
    peak = _peak_memory(rows, units)
    return Case(
        f"{rows:,} rows × {units:,} units",
        f"rows come in blocks of {len(block):,} (the same one {times} times); ours gathers the Gram matrix, sums and "
        f"extremes about any centre, and sweeps all pairs down to {_ANGLE:g}°; the others compute HᵀH in float32 and "
        f"nothing else. Peak memory of ours in a process of its own, block included: {peak:.2f} GB",
        {
            "weightsmith Gram + choose_by_angles": partial(_ours, block, times),
            "NumPy HᵀH": partial(_bare_numpy, block, times),
        },
        partial(np.allclose, rtol=1e-3, atol=1e-3 * rows),
        packages=("scipy",),
        long=True,
    )


def _against_sklearn(rows: int, units: int) -> Case:
    block = _block(rows, units)
    arms: dict[str, Any] = {
        "weightsmith Gram + pairs": partial(_our_pairs, block),
        "scikit-learn cosine_similarity": partial(_sklearn_pairs, block),
    }
    if units <= 100:
        arms["NumPy, pair by pair"] = partial(_pair_by_pair, block)
    return Case(
        f"{rows:,} rows × {units:,} units",
        f"the pairs within {_ANGLE:g}° of 0° or 180°, and their angles; equal pairs are checked. "
        "Ours in float64, theirs in float32",
        arms,
        _same_pairs,
        packages=("scipy", "scikit-learn"),
    )


def _block(rows: int, units: int) -> Rows:
    """Half of the units are near-copies of the other half, so that there is something to find."""
    generator = stream(0, "bench", "angles", rows, units)
    block = generator.standard_normal((rows, units), dtype=np.float32)
    half = units // 2
    block[:, half : 2 * half] *= 0.1
    block[:, half : 2 * half] += block[:, :half]
    return block


def _ours(block: Rows, times: int) -> NDArray[Any]:
    gram = Gram(block.shape[1])
    for _ in range(times):
        gram.add(block)
    choose_by_angles("hidden", gram.units, gram, Angles(_ANGLE))
    first: NDArray[Any] = gram.reading().products(0, 1)[0]
    return first


def _bare_numpy(block: Rows, times: int) -> NDArray[Any]:
    total = np.zeros((block.shape[1],) * 2, dtype=np.float32)
    for _ in range(times):
        total += block.T @ block
    first: NDArray[Any] = total[0]
    return first


Found = list[tuple[int, int, float]]


def _our_pairs(block: Rows) -> Found:
    gram = Gram(block.shape[1], centre=0.5)
    gram.add(block)
    return sorted((pair.a, pair.b, pair.degrees) for pair in pairs(gram, _ANGLE))


def _sklearn_pairs(block: Rows) -> Found:
    degrees = np.degrees(np.arccos(np.clip(cosine_similarity((block - 0.5).T), -1, 1)))
    a, b = np.nonzero(np.triu((degrees < _ANGLE) | (degrees > 180 - _ANGLE), 1))
    return list(zip(a.tolist(), b.tolist(), degrees[a, b].tolist(), strict=True))


def _pair_by_pair(block: Rows) -> Found:
    vectors = (block - 0.5).T
    found = []
    for a in range(len(vectors)):
        for b in range(a + 1, len(vectors)):
            first, second = vectors[a], vectors[b]
            cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
            degrees = math.degrees(math.acos(max(-1.0, min(1.0, float(cosine)))))
            if min(degrees, 180 - degrees) < _ANGLE:
                found.append((a, b, degrees))
    return found


def _same_pairs(ours: Found, theirs: Found) -> bool:
    return [pair[:2] for pair in ours] == [pair[:2] for pair in theirs] and np.allclose(
        [pair[2] for pair in ours], [pair[2] for pair in theirs], atol=0.01
    )


def _peak_memory(rows: int, units: int) -> float:
    """In GB, of a fresh process that does our arm once."""
    command = [sys.executable, "-m", "benchmarks.bench_angles", str(rows), str(units)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _main(rows: int, units: int) -> None:
    block = _block(min(rows, _AT_A_TIME), units)
    _ours(block, rows // len(block))
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(kilobytes * 1024 / 1e9)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
