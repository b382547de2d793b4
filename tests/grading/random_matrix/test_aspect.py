"""α of blocks: which blocks, which fit, and that it no longer drifts with the shape."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.grading.fits.cuts import Hill
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.random_matrix import aspect as module
from weightsmith.grading.random_matrix.aspect import FixedAspect, fixed_aspect
from weightsmith.grading.spectra.spectrum import spectrum


def noise(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def alpha_of(block: torch.Tensor) -> float:
    return fit_power_law(spectrum(block).eigenvalues).alpha


@pytest.mark.parametrize("shape", [(1, 40, 40), (9, 16, 16)])
def test_a_square_layer_is_its_own_block(shape, monkeypatch):
    monkeypatch.setattr(module, "spectrum_like", lambda *_: pytest.fail("nothing is to be decomposed"))
    layer = noise(shape)
    found = fixed_aspect(layer, spectrum(layer))
    assert found.alpha == alpha_of(layer)
    assert (found.rows, found.columns, found.blocks, found.share) == (*shape[1:], 1, 1.0)
    assert FixedAspect.from_json(found.to_json()) == found


def test_two_blocks_of_a_tall_layer():
    layer = noise((9, 32, 16))
    found = fixed_aspect(layer, spectrum(layer))
    assert found.alpha == np.median([alpha_of(layer[:, :16]), alpha_of(layer[:, 16:])])
    pooled = np.sort(np.concatenate([spectrum(layer[:, :16]).eigenvalues, spectrum(layer[:, 16:]).eigenvalues]))
    assert found.hill == fit_power_law(pooled, Hill()).alpha
    assert (found.blocks, found.share) == (2, 1.0)


def test_blocks_are_spread_evenly_and_a_rest_is_left_out():
    layer = noise((1, 100, 30))  # three blocks fit, with gaps of 3 between them
    found = fixed_aspect(layer, spectrum(layer), most=9)
    starts = (1, 35, 68)
    assert found.alpha == np.median([alpha_of(layer[:, start : start + 30]) for start in starts])
    assert (found.blocks, found.share) == (3, pytest.approx(0.9))


def test_at_most_so_many_are_taken():
    layer = noise((1, 80, 10))
    found = fixed_aspect(layer, spectrum(layer), most=2)
    assert found.alpha == np.median([alpha_of(layer[:, start : start + 10]) for start in (20, 60)])
    assert (found.blocks, found.share) == (2, 0.25)


def test_a_wide_layer_is_turned():
    layer = noise((2, 20, 70))
    assert fixed_aspect(layer, spectrum(layer)) == fixed_aspect(layer.mT, spectrum(layer))


def test_other_ratios_than_one():
    layer = noise((1, 64, 64))
    found = fixed_aspect(layer, spectrum(layer), aspect=4.0, most=4)
    assert (found.rows, found.columns, found.blocks, found.share) == (64, 16, 4, 1.0)
    assert found.alpha == np.median([alpha_of(layer[:, :, at : at + 16]) for at in (0, 16, 32, 48)])


@given(st.integers(1, 2000), st.integers(1, 2000), st.floats(1, 50))
def test_a_block_has_the_ratio_asked_for(rows, columns, ratio):
    rows, columns = max(rows, columns), min(rows, columns)
    size = module._block(rows, columns, ratio)
    if size is None:
        assert rows < ratio
        return
    assert size[0] <= rows
    assert size[1] <= columns
    assert abs(size[0] - ratio * size[1]) < 1
    grown = size[1] + 1
    assert grown > columns or ratio * grown > rows


@given(st.integers(1, 500), st.integers(1, 500))
def test_parts_lie_side_by_side_inside_the_whole(whole, part):
    part = min(part, whole)
    starts = module._starts(whole, part)
    assert len(starts) == whole // part
    assert starts[0] >= 0
    assert starts[-1] + part <= whole
    assert all(after - before >= part for before, after in itertools.pairwise(starts))


def test_on_noise_the_hill_estimate_no_longer_depends_on_the_shape():
    plain, fixed = [], []
    for rows in (128, 192, 256, 1024):
        layer = noise((1, rows, 128), rows)
        known = spectrum(layer)
        plain.append(fit_power_law(known.eigenvalues, Hill()).alpha)
        fixed.append(fixed_aspect(layer, known).hill)
    assert max(plain) - min(plain) > 2
    assert max(fixed) - min(fixed) < 0.1


@pytest.mark.slow
def test_on_noise_alpha_drifts_less():
    drift = {}
    for rows in (256, 384, 2048):
        pairs = []
        for seed in range(40):
            layer = noise((1, rows, 256), seed)
            known = spectrum(layer)
            pairs.append((fit_power_law(known.eigenvalues).alpha, fixed_aspect(layer, known).alpha))
        drift[rows] = np.median(pairs, axis=0)
    plain, fixed = np.ptp(np.log(list(drift.values())), axis=0)
    assert fixed < 0.6 * plain


def test_without_a_fit_there_is_none():
    flat = torch.ones(1, 8, 4)
    assert fixed_aspect(flat, spectrum(flat)) is None
    assert fixed_aspect(noise((1, 6, 3)), spectrum(noise((1, 6, 3))), aspect=7.0) is None


@pytest.mark.parametrize("wrong", [{"aspect": 0.5}, {"aspect": math.nan}, {"aspect": math.inf}, {"most": 0}])
def test_impossible_blocks_are_refused(wrong):
    layer = noise((1, 6, 3))
    with pytest.raises(OptionError):
        fixed_aspect(layer, spectrum(layer), **wrong)
