"""The randomised twin: what it keeps, what it loses, and what it reports."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from weightsmith.grading.random_matrix.twin import Twin, randomised_twin, shuffle_matrices, spectral_distance
from weightsmith.grading.spectra.spectrum import Spectrum, spectrum


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def noise(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(rng(seed).normal(0, 0.1, shape))


def of(singular: list[list[float]]) -> Spectrum:
    parts = np.square(np.array(singular))
    return Spectrum(np.sort(parts[parts > 0]), parts, 9, parts.shape[1], int((parts > 0).sum()), "gram float64")


def test_it_is_the_spectrum_of_the_permuted_entries():
    layer = noise((3, 20, 30))
    twin = randomised_twin(layer, spectrum(layer), rng(5))
    entries, draws = layer.numpy().reshape(3, 600).copy(), rng(5)
    for matrix in entries:  # each matrix keeps its own
        draws.shuffle(matrix)
    by_hand = np.linalg.svd(entries.reshape(3, 20, 30), compute_uv=False)
    np.testing.assert_allclose(twin.eigenvalues, np.sort(by_hand.flatten() ** 2), rtol=1e-9)
    assert twin.lambda_max == twin.eigenvalues[-1]


def test_the_same_stream_gives_the_same_twin_and_the_layer_stays_as_it_is():
    layer = noise((1, 40, 30))
    before = layer.clone()
    first, second, other = (randomised_twin(layer, spectrum(layer), rng(seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert torch.equal(layer, before)
    assert Twin.from_json(first.to_json()) == first


def test_the_distance_is_the_mean_gap_over_the_root_mean_square():
    # 0 2 4 6 and 1 2 5 8: gaps of 1, 0, 1, 2, and a mean square of (0 + 4 + 16 + 36)/4 = 14.
    assert spectral_distance(of([[0, 4], [2, 6]]), of([[1, 5], [2, 8]])) == pytest.approx(1 / math.sqrt(14))
    assert spectral_distance(of([[1, 2, 3]]), of([[1, 2, 3]])) == 0


def test_the_distance_is_largest_between_one_direction_and_all():
    one, all_equal = of([[0.0] * 399 + [20.0]]), of([[1.0] * 400])
    assert spectral_distance(one, all_equal) == pytest.approx((399 + 19) / 400)
    assert spectral_distance(one, all_equal) < math.sqrt(2)


@pytest.mark.parametrize("factor", [0.5, 1 / 40, 1e-60, 1e60])
def test_it_is_scaled_as_the_layer_is(factor):
    layer = noise((9, 40, 16))
    plain, scaled = (
        randomised_twin(layer, known, rng()) for known in (spectrum(layer), spectrum(layer).scaled(factor))
    )
    assert scaled.distance == pytest.approx(plain.distance, rel=1e-9)
    assert scaled.traps == plain.traps
    for name in ("lambda_max", "threshold"):
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name) * factor, rel=1e-9)


def test_structure_is_lost_and_its_distance_seen():
    layer = noise((1, 120, 80))
    signal = layer + torch.outer(torch.ones(120), torch.linspace(-1, 1, 80))[None].double() * 0.2
    empty, full = (randomised_twin(each, spectrum(each), rng()) for each in (layer, signal))
    assert empty.distance < 0.02
    assert full.distance > 0.1
    assert full.traps == 0
    assert full.lambda_max < 0.2 * spectrum(signal).eigenvalues[-1]


@pytest.mark.parametrize("count", [1, 3])
def test_large_entries_survive_as_traps(count):
    layer = noise((1, 120, 80))
    layer[0, [5, 50, 90][:count], [7, 40, 70][:count]] = 4.0  # forty standard deviations
    traps = [randomised_twin(layer, spectrum(layer), rng(seed)).traps for seed in range(9)]
    assert max(traps) == np.median(traps) == count  # now and then two of them meet in a row and make one


def test_loud_and_quiet_matrices_are_no_structure():
    scale = torch.tensor([0.5, 1, 0.5, 1, 2, 1, 0.5, 1, 0.5])[:, None, None]
    twins = []
    for seed in range(20):
        layer = noise((9, 32, 24), seed) * scale
        twins.append(randomised_twin(layer, spectrum(layer), rng()))
    assert sum(twin.traps > 0 for twin in twins) <= 2
    assert max(twin.distance for twin in twins) < 0.03  # 0.16 where entries change their matrix


def test_indices_are_shuffled_as_weights_are():
    weights, indices = np.linspace(0, 1, 24).reshape(2, 12), np.tile(np.arange(12), (2, 1))
    shuffled = weights.copy()
    shuffle_matrices(shuffled, rng(3))
    shuffle_matrices(indices, rng(3))
    np.testing.assert_array_equal(shuffled, np.take_along_axis(weights, indices, axis=1))
    assert sorted(indices[1]) == list(range(12)) != indices[1].tolist() != indices[0].tolist()


def test_noise_rarely_has_traps():
    layers = [noise((9, 16, 16), seed) for seed in range(200)]
    assert sum(randomised_twin(layer, spectrum(layer), rng()).traps > 0 for layer in layers) < 10


def test_it_uses_the_method_and_precision_of_the_layer(monkeypatch):
    import weightsmith.grading.random_matrix.twin as like

    asked = []
    monkeypatch.setattr(like, "spectrum", lambda matrices, **how: asked.append(how) or spectrum(matrices, **how))
    layer = noise((1, 20, 12)).to(torch.bfloat16)
    for method, precision in (("svd", "float64"), ("gram", "float32")):
        randomised_twin(layer, spectrum(layer, method=method, precision=precision), rng())
        assert asked.pop() == {"method": method, "precision": precision, "device": "cpu"}


def test_a_view_that_is_not_contiguous_is_read_as_it_stands():
    layer = noise((1, 30, 20))
    turned = layer.mT
    twin = randomised_twin(turned, spectrum(turned), rng())
    assert twin == randomised_twin(turned.contiguous(), spectrum(turned), rng())


def test_too_little_to_fit_noise_to_is_none():
    layer = noise((1, 30, 3))
    assert randomised_twin(layer, spectrum(layer), rng()) is None
    assert randomised_twin(torch.zeros(1, 9, 9), spectrum(torch.zeros(1, 9, 9)), rng()) is None
