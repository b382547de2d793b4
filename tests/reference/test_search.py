"""NSGA-II sorting, genetic operators and pruning against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, conv2d, linear

POINTS = ["three_objectives", "two_objectives", "with_a_point_twice"]


def _dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a <= b).all() and (a < b).any())


def _ranks(points: np.ndarray) -> list[int]:
    """Take away, again and again, every point that no remaining point dominates."""
    ranks, left, rank = [-1] * len(points), set(range(len(points))), 0
    while left:
        front = {i for i in left if not any(_dominates(points[j], points[i]) for j in left)}
        for i in front:
            ranks[i] = rank
        left, rank = left - front, rank + 1
    return ranks


@pytest.mark.parametrize("name", POINTS)
def test_ranks_by_definition(reference: Any, name: str) -> None:
    entry = reference("pymoo_nsga2")[name]
    ranks = _ranks(np.array(entry["points"]))
    assert entry["ranks"] == ranks
    assert max(ranks) >= 2


@pytest.mark.parametrize("name", ["three_objectives", "two_objectives"])
def test_crowding_distances(reference: Any, name: str) -> None:
    """Per objective the gap between a point's neighbours over the front's span; mean over objectives, ∞ at the ends."""
    entry = reference("pymoo_nsga2")[name]
    points = np.array(entry["points"])
    for rank in set(entry["ranks"]):
        front = [i for i, found in enumerate(entry["ranks"]) if found == rank]
        for i in front:
            total = 0.0
            for values in points[front].T:
                ordered = sorted(values)
                at = ordered.index(values[front.index(i)])
                inside = 0 < at < len(front) - 1
                gap = ordered[at + 1] - ordered[at - 1] if inside else math.inf
                total += gap / (ordered[-1] - ordered[0]) if inside else math.inf
            expected = total / points.shape[1]
            seen = entry["crowding"][i]
            assert (math.inf if seen is None else seen) == pytest.approx(expected), (rank, i)


def _chi_square(counts: list[int], shares: list[float]) -> float:
    draws = sum(counts)
    return sum((count - draws * share) ** 2 / (draws * share) for count, share in zip(counts, shares, strict=True))


def test_one_point_crossover_cuts_between_any_two_bits(reference: Any) -> None:
    entry = reference("genetic_operators")["crossover"]
    length = entry["length"]
    pairs = ["0" * cut + "1" * (length - cut) + "/" + "1" * cut + "0" * (length - cut) for cut in range(1, length)]
    assert sorted(entry["children"]) == sorted(pairs)
    assert sum(entry["children"].values()) == entry["draws"]
    # 99.9 % of χ² with 6 degrees of freedom lie below 22.5.
    assert _chi_square(list(entry["children"].values()), [1 / 7] * 7) < 22.5


def test_tournament_draws_with_replacement(reference: Any) -> None:
    entry = reference("genetic_operators")["tournament"]
    size = entry["size"]
    shares = [((rank + 1) ** size - rank**size) / 10**size for rank in range(10)]
    assert sum(entry["wins"]) == entry["draws"]
    assert _chi_square(entry["wins"], shares) < 27.9
    # Without replacement the two worst could never win.
    assert entry["wins"][0] > 0


def test_mutation_flips_each_bit_alone(reference: Any) -> None:
    entry = reference("genetic_operators")["mutation"]
    n, p = entry["length"], entry["probability"]
    shares = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    grouped = [*entry["flipped"][:4], sum(entry["flipped"][4:])]
    assert sum(grouped) == entry["draws"]
    assert _chi_square(grouped, [*shares[:4], sum(shares[4:])]) < 18.5


def test_stock_loop_can_lose_its_best(reference: Any) -> None:
    assert reference("genetic_operators")["hall_of_fame"]["best_lost_in_seeds"] > 0


def _forward(parameters: dict[str, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
    x = avg_pool2d(conv2d(image, parameters["0.weight"], parameters["0.bias"], padding=1).relu(), 2)
    x = avg_pool2d(conv2d(x, parameters["3.weight"], parameters["3.bias"], padding=1).relu(), 2).flatten(1)
    x = linear(x, parameters["7.weight"], parameters["7.bias"]).relu()
    return linear(x, parameters["9.weight"], parameters["9.bias"])


def _network(vectors: Any, unpack: Any) -> dict[str, torch.Tensor]:
    arrays = {name: torch.from_numpy(unpack(entry)) for name, entry in vectors["layers"].items()}
    return {name: array / array[0].numel() ** 0.5 for name, array in arrays.items()}


@pytest.mark.parametrize("when", ["before", "after"])
def test_pruned_network_is_the_network_with_units_cut_out(reference: Any, unpack: Any, when: str) -> None:
    vectors = reference("torch_pruning")
    parameters = _network(vectors, unpack)
    if when == "after":
        kept = {
            name: [i for i in range(len(parameters[f"{name}.bias"])) if i not in removed]
            for name, removed in vectors["removed"].items()
        }
        # Four positions (2 × 2 after both pools) of each channel lie behind one another in the flattened vector.
        flat = [4 * channel + position for channel in kept["3"] for position in range(4)]
        for name, units in kept.items():
            parameters[f"{name}.weight"] = parameters[f"{name}.weight"][units]
            parameters[f"{name}.bias"] = parameters[f"{name}.bias"][units]
        for name, units in (("3", kept["0"]), ("7", flat), ("9", kept["7"])):
            parameters[f"{name}.weight"] = parameters[f"{name}.weight"][:, units]
    facts = vectors[when]
    assert {name: list(value.shape) for name, value in parameters.items()} == facts["shapes"]
    assert sum(value.numel() for value in parameters.values()) == facts["parameters"]
    logits = _forward(parameters, torch.from_numpy(unpack(vectors["image"])))
    torch.testing.assert_close(logits, torch.tensor(facts["logits"], dtype=torch.float64), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("when", ["before", "after"])
def test_operations_are_counted_with_bias_relu_and_pool(reference: Any, when: str) -> None:
    """One operation per multiplication and bias, and one per value that goes into a ReLU or a pool."""
    facts = reference("torch_pruning")[when]
    shapes = facts["shapes"]
    total = 0
    for name, positions in (("0", 64), ("3", 16), ("7", 1), ("9", 1)):
        units = shapes[f"{name}.bias"][0]
        total += positions * (math.prod(shapes[f"{name}.weight"]) + units)
        total += positions * units * {"0": 2, "3": 2, "7": 1, "9": 0}[name]
    assert facts["macs"] == total


def test_pruned_network_equals_the_masked_one(reference: Any, unpack: Any) -> None:
    """With bias, a masked unit must lose its outgoing weights: its own bias would still pass the ReLU."""
    vectors = reference("torch_pruning")
    parameters = _network(vectors, unpack)
    mask = {name: nn.Parameter(value.clone(), requires_grad=False) for name, value in parameters.items()}
    mask["3.weight"][:, vectors["removed"]["0"]] = 0
    mask["7.weight"][:, [4 * c + p for c in vectors["removed"]["3"] for p in range(4)]] = 0
    mask["9.weight"][:, vectors["removed"]["7"]] = 0
    logits = _forward(mask, torch.from_numpy(unpack(vectors["image"])))
    torch.testing.assert_close(logits, torch.tensor(vectors["after"]["logits"], dtype=torch.float64))
