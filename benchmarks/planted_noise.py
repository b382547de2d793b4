"""Studies for :mod:`benchmarks.planted` whose truth is a matrix: noise, planted signals, heavy-tailed entries.

Each trial draws its matrix from a stream of its own, named after study, cell and trial.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.planted_studies import SEED, Plan, Row
from weightsmith.core.seeds import stream
from weightsmith.grading.fits.cuts import Hill, SmallestDistance, TailCut
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.random_matrix.aspect import fixed_aspect
from weightsmith.grading.random_matrix.noise import Bulk, fit_bulk, live_rows
from weightsmith.grading.random_matrix.twin import Twin, randomised_twin
from weightsmith.grading.random_matrix.universality import (
    Universality,
    pareto_matrix,
    student_matrix,
    tail_exponent,
    universality,
    universality_of_entries,
)
from weightsmith.grading.spectra.spectrum import Spectrum, spectrum

__all__ = ["NOISE_STUDIES"]

Shape = tuple[int, int, int]
Matrix = NDArray[np.float64]
_SINGLE = ((8, 8), (8, 64), (16, 16), (64, 64), (512, 64), (64, 512), (128, 128), (256, 256), (512, 512))
_POOLED = ((9, 64, 64), (9, 16, 16), (9, 16, 3), (9, 4, 4), (25, 16, 6), (9, 32, 1))


def noise() -> Plan:
    """How often is something in pure noise taken for structure?"""
    kinds: dict[str, tuple[float, Callable[[np.random.Generator, Shape], Matrix]]] = {
        "Gaussian": (0.05, lambda rng, shape: rng.normal(0, 0.05, shape)),
        "uniform": (0.1 / math.sqrt(3), lambda rng, shape: rng.uniform(-0.1, 0.1, shape)),
        "Gaussian, half the rows dead": (0.05, _with_dead_rows),
        "Gaussian, positions ½ : 1 : 2": (0.1, lambda rng, shape: _with_positions(rng, shape, 2.0)),
        "Gaussian, positions 0.9 : 1 : 1.1": (0.055, lambda rng, shape: _with_positions(rng, shape, 1.1)),
    }

    def cell(kind: str, shape: Shape, trials: int) -> Row:
        truth, draw = kinds[kind]
        layers = [torch.from_numpy(draw(rng, shape)) for rng in _trials("noise", f"{kind} {shape}", trials)]
        bulks = [_bulk(spectrum(layer), live_rows(layer)) for layer in layers]
        beyond = np.array([bulk.spikes > 0 for bulk in bulks])
        error = np.array([bulk.sigma / truth - 1 for bulk in bulks])
        return {
            "entries": kind,
            "layer": " × ".join(map(str, shape)),
            "beyond the edge, %": 100 * float(beyond.mean()),
            "no heavy tail, %": 100 * float((~beyond).mean()),
            "one σ for all, %": 100 * float(np.mean([bulk.shared for bulk in bulks])),
            "σ̂/σ − 1, mean": float(error.mean()),
            "σ̂/σ − 1, spread": float(error.std()),
        }

    single: list[Shape] = [(1, rows, columns) for rows, columns in _SINGLE]
    keys = [
        (kind, shape)
        for kind, shape in itertools.product(kinds, [*single, *_POOLED])
        if shape[0] > 1 or "positions" not in kind
    ]
    return Plan(
        "Layers of independent Gaussian entries, or uniform ones (what Kaiming's initialisation draws): matrices × "
        "rows × columns; with half the rows zero, as structured pruning leaves them; with a standard deviation that "
        "differs between the kernel positions, where σ̂ is that of the noisiest. Beyond the edge: `fit_bulk` finds an "
        "eigenvalue above its threshold at 1 %, with σ estimated from the same layer. In all other trials the verdict "
        "is *no heavy tail*; 95 % are asked for.",
        {f"{kind} {shape}": functools.partial(cell, kind, shape) for kind, shape in keys},
        _fewest,
    )


def _fewest(rows: Sequence[Row]) -> str:
    shares = sorted(float(row["no heavy tail, %"]) for row in rows)
    return f"*No heavy tail* in {shares[0]:.1f} to {shares[-1]:.1f} % of trials, median {np.median(shares):.1f} %."


def spikes() -> Plan:
    """Are planted signals counted?"""
    planted = 3

    def cell(shape: tuple[int, int], factor: float, trials: int) -> Row:
        rows, columns = shape
        counts = []
        for rng in _trials("spikes", f"{shape} {factor}", trials):
            left, right = (np.linalg.qr(rng.standard_normal((size, planted)))[0] for size in shape)
            strength = math.sqrt(factor) * (rows * columns) ** 0.25
            counts.append(_bulk(_spectrum((rng.standard_normal(shape) + strength * left @ right.T)[None])).spikes)
        limit = math.sqrt(rows * columns)
        appears = (factor * limit + rows) * (factor * limit + columns) / (factor * limit) if factor > 1 else None
        edge = (math.sqrt(rows) + math.sqrt(columns)) ** 2
        found = np.array(counts)
        return {
            "layer": f"{rows} × {columns}",
            "θ²/√(NM)": factor,
            "λ expected / edge": "inside" if appears is None else appears / edge,
            "mean count": float(found.mean()),
            "all three, %": 100 * float((found == planted).mean()),
            "none, %": 100 * float((found == 0).mean()),
            "more, %": 100 * float((found > planted).mean()),
        }

    keys = itertools.product(((64, 64), (256, 64), (256, 256)), (0.5, 2.0, 4.0, 8.0))
    return Plan(
        "Gaussian noise of variance one plus three orthogonal signals of strength θ². Theory (Baik, Ben Arous & Péché) "
        "has them inside the bulk, where nobody can see them, up to θ² = √(NM), and beyond the edge above it.",
        {f"{key}": functools.partial(cell, *key) for key in keys},
    )


def classes() -> Plan:
    """Do heavy-tailed random matrices land in their class?"""
    laws = {"Pareto": pareto_matrix, "Student": student_matrix}

    def cell(law: str, mu: float, shape: tuple[int, int], trials: int) -> Row:
        alphas, exponents, found = [], [], []
        for rng in _trials("classes", f"{law} {mu} {shape}", max(trials // 4, 1)):
            layer = _spectrum(laws[law](mu, shape, rng)[None])
            alpha, bulk = _alpha(layer.eigenvalues), _bulk(layer)
            alphas.append(alpha)
            exponents.append(math.inf if bulk.spike_alpha is None else bulk.spike_alpha)
            found.append(universality(alpha, bulk))
        truth, middle = universality_of_entries(mu), float(np.median(exponents))
        shares: Row = {f"{each.value}, %": 100 * found.count(each) / len(found) for each in Universality}
        return {
            "entries": law,
            "μ": mu,
            "layer": " × ".join(map(str, shape)),
            "class": truth.value,
            "1 + μ/2": tail_exponent(mu),
            "median α̂": float(np.median(alphas)),
            "median spike α̂": middle if math.isfinite(middle) else "no spikes",
            **shares,
            "in its class, %": 100 * found.count(truth) / len(found),
        }

    keys = itertools.product(laws, (0.5, 1.0, 1.5, 2.5, 3.0, 3.5, 5.0), ((128, 128), (512, 256), (512, 512)))
    return Plan(
        "Entries with the tail exponent μ. Very heavy matrices are recognised by α itself. For 2 < μ < 4 the searched "
        "α reaches into the bulk and is too large, and the spikes beyond it decide; of these there are few when μ is "
        "near four. For μ > 4 the limit is noise, and what shows at finite size is a handful of spikes or none. A "
        "quarter of the trials.",
        {f"{key}": functools.partial(cell, *key) for key in keys},
        _landed,
    )


def _landed(rows: Sequence[Row]) -> str:
    parts = []
    for each in (Universality.VERY_HEAVY, Universality.MODERATELY_HEAVY, Universality.WEAKLY_HEAVY):
        shares = [float(row["in its class, %"]) for row in rows if row["class"] == each.value]
        parts.append(f"{each.value} {min(shares):.0f} to {max(shares):.0f} %, mean {np.mean(shares):.0f} %")
    return f"Landed in their class: {'; '.join(parts)}."


def aspects() -> Plan:
    """How far does α drift with N/M, and how far at a fixed aspect ratio?"""
    kinds: dict[str, Callable[[np.random.Generator, tuple[int, int]], Matrix]] = {
        "Gaussian": lambda rng, shape: rng.standard_normal(shape),
        "Student, μ = 3": lambda rng, shape: student_matrix(3.0, shape, rng),
    }

    def cell(kind: str, ratio: float, trials: int) -> Row:
        columns = 256
        found = []
        for rng in _trials("aspects", f"{kind} {ratio}", max(trials // 4, 1)):
            matrix = torch.from_numpy(kinds[kind](rng, (int(ratio * columns), columns)))[None]
            layer = spectrum(matrix)
            fixed = fixed_aspect(matrix, layer)
            if fixed is None:
                raise AssertionError("no fit at a fixed aspect ratio")
            upper = _alpha(layer.eigenvalues, Hill())
            found.append((_alpha(layer.eigenvalues), fixed.alpha, upper, fixed.hill))
        middle, spread = np.median(found, axis=0), np.std(found, axis=0)
        return {
            "entries": kind,
            "N/M": ratio,
            "α̂, median": float(middle[0]),
            "spread": float(spread[0]),
            "fixed aspect, median": float(middle[1]),
            "its spread": float(spread[1]),
            "Hill α̂, median": float(middle[2]),
            "fixed aspect, Hill": float(middle[3]),
        }

    return Plan(
        "Matrices of 256 columns; α of the whole matrix and of square blocks (`fixed_aspect`, at most two blocks), "
        "with the searched λ_min and with Hill's upper half. A quarter of the trials.",
        {f"{key}": functools.partial(cell, *key) for key in itertools.product(kinds, (1.0, 1.5, 2.0, 4.0, 8.0))},
    )


def twins() -> Plan:
    """What the randomised twin sees."""
    kinds: dict[str, Callable[[np.random.Generator], Matrix]] = {
        "noise": lambda rng: rng.standard_normal((256, 128)),
        "noise + three signals": lambda rng: _with_signals(rng, 3),
        "noise + twenty signals": lambda rng: _with_signals(rng, 20),
        "noise, one entry of 40": _with_one_large_entry,
        "Student, μ = 2.5": lambda rng: student_matrix(2.5, (256, 128), rng),
    }

    def cell(kind: str, trials: int) -> Row:
        found, counts = [], []
        for rng in _trials("twins", kind, trials):
            matrix = torch.from_numpy(kinds[kind](rng))[None]
            layer = spectrum(matrix)
            counts.append(_bulk(layer).spikes)
            found.append(_twin(matrix, layer, rng))
        distances, traps = np.array([twin.distance for twin in found]), np.array([twin.traps for twin in found])
        return {
            "layer": kind,
            "distance, median": float(np.median(distances)),
            "largest": float(distances.max()),
            "with spikes, %": 100 * float((np.array(counts) > 0).mean()),
            "with traps, %": 100 * float((traps > 0).mean()),
            "mean traps": float(traps.mean()),
        }

    return Plan(
        "256 × 128 layers and their twins with the entries in random order: signals are lost in the twin, large "
        "entries survive as traps. The signals have θ² = 4√(NM).",
        {kind: functools.partial(cell, kind) for kind in kinds},
    )


def _with_signals(rng: np.random.Generator, count: int) -> Matrix:
    left, right = (np.linalg.qr(rng.standard_normal((size, count)))[0] for size in (256, 128))
    signals: Matrix = 2 * (256 * 128) ** 0.25 * left @ right.T
    return rng.standard_normal((256, 128)) + signals


def _with_one_large_entry(rng: np.random.Generator) -> Matrix:
    matrix = rng.standard_normal((256, 128))
    matrix[7, 5] = 40.0
    return matrix


def _with_dead_rows(rng: np.random.Generator, shape: Shape) -> Matrix:
    layer = rng.normal(0, 0.05, shape)
    layer[:, : shape[1] // 2] = 0
    return layer


def _with_positions(rng: np.random.Generator, shape: Shape, factor: float) -> Matrix:
    """Standard deviations of 0.05/factor, 0.05 and 0.05·factor in turn."""
    scales: Matrix = 0.05 * factor ** np.resize([-1.0, 0.0, 1.0], shape[0])
    return rng.standard_normal(shape) * scales[:, None, None]


def _trials(study: str, cell: str, count: int) -> list[np.random.Generator]:
    return [stream(SEED, "planted", study, cell, trial) for trial in range(count)]


def _spectrum(matrices: Matrix) -> Spectrum:
    return spectrum(torch.from_numpy(matrices))


def _bulk(layer: Spectrum, rows: Sequence[int] | None = None) -> Bulk:
    bulk = fit_bulk(layer, rows=rows)
    if bulk is None:
        raise AssertionError("a planted matrix has no bulk")
    return bulk


def _alpha(eigenvalues: Matrix, cut: TailCut | None = None) -> float:
    fit = fit_power_law(eigenvalues, cut or SmallestDistance())
    if fit is None:
        raise AssertionError("a planted matrix has no fit")
    return fit.alpha


def _twin(matrix: torch.Tensor, layer: Spectrum, rng: np.random.Generator) -> Twin:
    twin = randomised_twin(matrix, layer, rng)
    if twin is None:
        raise AssertionError("a planted matrix has no twin")
    return twin


NOISE_STUDIES: dict[str, Callable[[], Plan]] = {
    "noise": noise,
    "spikes": spikes,
    "classes": classes,
    "aspects": aspects,
    "twins": twins,
}
