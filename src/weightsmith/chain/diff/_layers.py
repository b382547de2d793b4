"""The layers of two networks side by side: exponents, norms, angles between units, distance of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.chain.diff._records import (
    NO_LAYERS,
    LayerDiff,
    LayerFacts,
    LoneLayer,
    Missing,
    UnitsDiff,
    WeightDistance,
)
from weightsmith.chain.diff._sides import Side
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import pinned_threads
from weightsmith.data.judging import Rows
from weightsmith.grading.distances import LayerDistance, distances
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Grades, LayerGrade
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.int8 import has_int8
from weightsmith.networks.evaluation import inputs_of
from weightsmith.networks.layers.walk import LayerWeights, walk
from weightsmith.networks.models.catalogue import common_names
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.centres import centred_grams
from weightsmith.reducing.surgery.sites import find_sites

__all__ = ["Layers", "compare_layers", "compare_units", "fold", "spread_of"]


_MOST_UNITS = 4096  # above this, the matrix of all angles takes gigabytes
_Angles = tuple[float | None, float | None]  # median, minimum


class Layers:
    """Common layers, layers of one network alone, and notes on what could not be computed."""

    def __init__(self) -> None:
        self.common: list[LayerDiff] = []
        self.only_a: list[LoneLayer] = []
        self.only_b: list[LoneLayer] = []
        self.notes: list[str] = []


def compare_layers(
    a: Side, b: Side, *, evidence: object, seed: int, progress: Callable[[str], StepCallback | None]
) -> Layers:
    """Layers matched by name, ignoring prefixes of wrappers (``module.``) and of a transfer (``base.``)."""
    found = Layers()
    graded = [
        grade(side.weights, evidence=evidence, seed=seed, progress=progress(f"grading {which}"))  # type: ignore[arg-type]
        for which, side in (("A", a), ("B", b))
    ]
    angles = [_weight_angles(side, found.notes) for side in (a, b)]
    apart = {item.name: item for item in distances(a.weights, b.weights).layers}
    names = common_names(*({layer.name: layer for layer in grades} for grades in graded))
    partners = {names[1][layer.name]: layer for layer in graded[1]}
    for layer in graded[0]:
        other = partners.pop(names[0][layer.name], None)
        if other is None:
            found.only_a.append(LoneLayer(layer.name, layer.shape, layer.parameters))
            continue
        facts = [_facts(each, own[each.name]) for each, own in zip((layer, other), angles, strict=True)]
        distance = _distance(apart.get(layer.name), layer, other)
        found.common.append(LayerDiff(layer.name, layer.kind, facts[0], facts[1], distance))
    found.only_b += [LoneLayer(layer.name, layer.shape, layer.parameters) for layer in partners.values()]
    if not found.common:
        rounded = [side.name for side in (a, b) if side.module is not None and has_int8(side.module)]
        why = f"{a.name} and {b.name} have no layer name in common ({_first_names(graded)})"
        if rounded:
            why = f"the weights of {' and '.join(rounded)} are 8-bit integers, which are not compared layer by layer"
        found.notes.append(f"{NO_LAYERS}{why}")
    return found


def fold(cosines: NDArray[np.floating]) -> NDArray[np.float64]:
    """Angles between lines in degrees, 0 to 90, of cosines between vectors.

    >>> fold(np.array([1.0, -1.0, 0.0, 0.5, -0.5])).round().tolist()
    [0.0, 0.0, 90.0, 60.0, 60.0]
    """
    degrees: NDArray[np.float64] = np.degrees(np.arccos(np.minimum(np.abs(cosines.astype(np.float64)), 1.0)))
    return degrees


def spread_of(cosines: NDArray[np.floating], known: NDArray[np.bool_]) -> _Angles:
    """Median and smallest angle over all pairs of the units with a direction (``known``)."""
    chosen = cosines[np.ix_(known, known)]
    pairs = fold(chosen[np.triu_indices(len(chosen), 1)])
    return (float(np.median(pairs)), float(pairs.min())) if pairs.size else (None, None)


def _weight_angles(side: Side, notes: list[str]) -> dict[str, _Angles]:
    found = {}
    walked = walk(side.weights)
    for index in range(len(walked)):
        layer = walked.read(index)
        vectors = _unit_vectors(layer)
        if vectors is not None and len(vectors) > _MOST_UNITS:
            notes.append(f"angles of {layer.name} in {side.name}: {len(vectors):,} units, more than {_MOST_UNITS:,}")
            vectors = None
        found[layer.name] = (None, None) if vectors is None else _between(vectors)
    return found


def _unit_vectors(layer: LayerWeights) -> Tensor | None:
    """The incoming weights of every unit as a row; None if units have different inputs (groups)."""
    count, rows, _ = layer.matrices.shape
    positions = math.prod(layer.shape[2:])
    if layer.kind.startswith("Conv") and count != positions:
        return None
    vectors: Tensor = layer.matrices.detach().permute(1, 0, 2).reshape(rows, -1).to("cpu", torch.float64)
    return vectors if bool(vectors.isfinite().all()) else None


def _between(vectors: Tensor) -> _Angles:
    # Scaled by the largest entry first: squares of tiny or huge weights leave the range of floats.
    largest = vectors.abs().amax(dim=1, keepdim=True)
    known = (largest > 0).squeeze(1)
    scaled = vectors / torch.where(largest > 0, largest, torch.ones_like(largest))
    lengths = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    directions = scaled / torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    return spread_of((directions @ directions.T).numpy(), known.numpy())


def _facts(layer: LayerGrade, angles: _Angles) -> LayerFacts:
    metrics = layer.metrics
    return LayerFacts(
        shape=layer.shape,
        parameters=layer.parameters,
        status=layer.status.value,
        alpha=layer.alpha,
        alpha_low=layer.alpha_low,
        alpha_high=layer.alpha_high,
        log_spectral_norm=None if metrics is None else metrics.log_spectral_norm,
        log_norm=None if metrics is None else metrics.log_norm,
        stable_rank=None if metrics is None else metrics.stable_rank,
        median_angle=angles[0],
        least_angle=angles[1],
    )


def _distance(found: LayerDistance | None, layer: LayerGrade, other: LayerGrade) -> WeightDistance:
    if found is None:
        shapes = " and ".join("×".join(map(str, each.shape)) for each in (layer, other))
        return WeightDistance(reason=f"the shapes differ: {shapes}")
    if found.relative is None:
        return WeightDistance(
            cosine=found.cosine, norm=found.norm, reason=found.reason or "the sizes are too far apart for a ratio"
        )
    return WeightDistance(found.relative, found.cosine, found.norm)


def _first_names(graded: list[Grades]) -> str:
    return ", ".join(grades.layers[0].name if grades.layers else "no layer" for grades in graded)


# Angles between the activations of units on the same rows.


_ROWS = 1_000  # rows of data: angles converge quickly, and a convolution has a row for every position
_Found = dict[str, tuple[int, float | None, float | None]]


def compare_units(a: Side, b: Side, rows: Rows) -> tuple[tuple[UnitsDiff, ...], list[Missing]]:
    """Units and angles at every site of either network, and what is missing."""
    missing: list[Missing] = []
    sides = [_angles_of(side, rows, missing) for side in (a, b)]
    found = []
    for name in dict.fromkeys(name for side in sides for name in side):
        units, medians, leasts = zip(*(side.get(name, (None, None, None)) for side in sides), strict=True)
        found.append(UnitsDiff(name, *units, *medians, *leasts))
    return tuple(found), missing


def _angles_of(side: Side, rows: Rows, missing: list[Missing]) -> _Found:
    if side.module is None:
        reason = "it spikes: its units have rates, not activations" if side.spiking is not None else side.cannot_run
        missing.append(Missing("activations", side.name, str(reason)))
        return {}
    try:
        return _measured(copied(side.module).eval(), rows)
    except (DataMismatch, UsageError) as error:
        missing.append(Missing("activations", side.name, str(error)))
        return {}


def _measured(network: nn.Module, rows: Rows) -> _Found:
    x, y = rows.part.x[:_ROWS], rows.part.y[:_ROWS]
    with pinned_threads(1):
        sites = find_sites(network, inputs_of(network, x[:2])).sites
        small = tuple(site for site in sites if site.units <= _MOST_UNITS)
        grams = centred_grams(PruningContext(network, small, x, y), "auto")
    return {site.name: (site.units, *spread_of(grams[site.name].cosines(), ~grams[site.name].zero)) for site in small}
