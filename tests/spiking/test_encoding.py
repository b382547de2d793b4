from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.seeds import subseed
from weightsmith.spiking.encoding import LEVELS, Constant, Encode, Poisson, draws, image_keys
from weightsmith.spiking.simulation._kernels import draw
from weightsmith.spiking.simulation.sources import Draws

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def _mix(z):
    """The output function of SplitMix64 with Python's whole numbers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_the_mixer_is_that_of_splitmix64():
    """The first outputs for the seed 1234567 that the reference implementation in C gives."""
    state, found = 1234567, []
    for _ in range(3):
        state = (state + GAMMA) & MASK
        found.append(_mix(state))
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**40), st.integers(0, 2**31), st.integers(0, 5000), st.integers(1, 300))
def test_draws_by_whole_numbers(seed, image, step, pixels):
    key = _mix((subseed(seed, "spikes") + GAMMA * (image + 1)) & MASK)
    keys = image_keys(seed, torch.tensor([image]))
    assert int(keys[0]) & MASK == key
    expected = [_mix((key + GAMMA * (step * pixels + pixel + 1)) & MASK) >> 40 for pixel in range(pixels)]
    assert draws(keys, step, pixels)[0].tolist() == expected


def _compiled(x, *, seed=0, first=0, scale=1.0, step=0, steps=1):
    """Spikes (images, steps, channels, positions) of the compiled kernel."""
    images, channels, positions = x.shape
    keys = image_keys(seed, torch.arange(first, first + images)).numpy().view(np.uint64)
    spikes = np.full((images, steps, positions, channels), 99, np.int8)
    draw(x.reshape(-1).numpy(), keys, np.float32(scale), step, steps, channels, spikes.reshape(-1))
    return spikes.transpose(0, 1, 3, 2)


@pytest.mark.parametrize("scale", [1.0, 0.3, 0.7])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 1, 64), (1, 17, 1), (4, 3, 1024)])
def test_the_compiled_kernel_draws_the_same(shape, scale):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
    x[0, 0, 0] = 0.0
    spikes = _compiled(x, seed=9, first=5, scale=scale, step=3, steps=6)
    source = Draws(x, scale, seed=9, first=5)
    for offset in range(6):
        assert np.array_equal(spikes[:, offset], source.step(slice(None), 3 + offset).numpy())


@settings(deadline=None, max_examples=30)
@given(st.integers(1, LEVELS - 1), st.sampled_from([-1, 1]))
def test_reference_and_kernel_agree_next_to_a_draw(level, sign):
    """Values one step of the grid above and below the drawn number: rounding must not part the two."""
    drawn = int(draws(image_keys(0, torch.tensor([0])), 0, 1)[0, 0])
    near = torch.tensor([drawn, drawn + 1, level], dtype=torch.float64) / LEVELS
    for value in (sign * near).float():
        x = value.reshape(1, 1, 1)
        assert _compiled(x).item() == Draws(x, 1.0, 0, 0).step(slice(None), 0).item()
    assert Draws((sign * near[0]).float().reshape(1, 1), 1.0, 0, 0).step(slice(None), 0).item() == 0


def _spikes(x, steps, **options):
    source = Draws(x, options.get("scale", 1.0), options.get("seed", 0), 0)
    return torch.stack([source.step(slice(None), step) for step in range(steps)], dim=1)


def test_zero_never_fires_one_always_and_signs_are_kept():
    x = torch.tensor([[0.0, 1.0, -1.0, 0.5, -0.5]])
    trains = _spikes(x, 2000)[0]
    assert torch.equal(trains[:, :3], torch.tensor([0.0, 1.0, -1.0]).expand(2000, 3))
    assert set(trains[:, 3].tolist()) == {0.0, 1.0}
    assert set(trains[:, 4].tolist()) == {0.0, -1.0}


def test_rates_are_the_values():
    x = torch.linspace(-1, 1, 41)[None].repeat(20, 1)
    for scale in (1.0, 0.4):
        counts = _spikes(x, 500, scale=scale).abs().sum(dim=(0, 1)).numpy()
        expected = (x[0].abs() * scale).numpy().astype(float)
        spread = np.sqrt(expected * (1 - expected) / 10_000)
        assert (np.abs(counts / 10_000 - expected) <= 4.5 * spread + 1e-12).all()


def test_draws_are_uniform_and_independent():
    """Between steps, images and pixels (neighbours and far ones) nothing is correlated."""
    numbers = (
        torch.stack([draws(image_keys(3, torch.arange(50)), step, 40) for step in range(50)], dim=1).double() / LEVELS
    )
    flat = numbers.numpy().reshape(-1)
    assert stats.kstest(flat, "uniform").pvalue > 1e-3
    assert 0 <= flat.min() < 1e-3
    assert 1 - 1e-3 < flat.max() < 1
    bound = 4.5 / math.sqrt(flat.size)
    for axis in range(3):
        for lag in (1, 2, 7):
            ahead = numbers.narrow(axis, lag, numbers.shape[axis] - lag).reshape(-1)
            behind = numbers.narrow(axis, 0, numbers.shape[axis] - lag).reshape(-1)
            assert abs(np.corrcoef(ahead, behind)[0, 1]) < bound


def test_other_seeds_draw_other_spikes():
    x = torch.full((1, 4000), 0.5)
    one, other = _spikes(x, 1, seed=0), _spikes(x, 1, seed=1)
    assert float((one == other).double().mean()) == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("encode", [Poisson(), Constant()], ids=str)
def test_what_is_no_number_is_refused(encode, bad):
    x = torch.zeros(3, 2, 2)
    encode.check_inputs(x)
    x[1, 0, 1] = bad
    with pytest.raises(DataMismatch, match="image 1 holds NaN or infinity"):
        encode.check_inputs(x)


def test_poisson_takes_numbers_up_to_one():
    Poisson().check_inputs(torch.tensor([[1.0, -1.0]]))
    Poisson(0.25).check_inputs(torch.tensor([[4.0, -4.0]]))
    Constant().check_inputs(torch.tensor([[40.0, -40.0]]))
    with pytest.raises(DataMismatch, match=r"between −1 and 1, these reach 1\.5; .*0\.5/0\.5.*scale.*encode=constant"):
        Poisson().check_inputs(torch.tensor([[0.0, -1.5]]))
    with pytest.raises(DataMismatch, match="these reach 4.1"):
        Poisson(0.25).check_inputs(torch.tensor([[0.0, 4.1]]))


def test_text_forms():
    assert Encode.parse("poisson") == Poisson(1.0)
    assert Encode.parse("poisson:0.5") == Poisson(0.5)
    assert Encode.parse("constant") == Constant()
    for bad in ("poisson:0", "poisson:1.5", "poisson:-1", "poisson:nan"):
        with pytest.raises(OptionError, match="scale"):
            Encode.parse(bad)
