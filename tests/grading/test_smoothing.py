from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

import weightsmith as ws
from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.seeds import stream
from weightsmith.grading.fits.cuts import Hill, TailCut
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.smoothing import Directions, DirectionsReport, sharpen, smooth
from weightsmith.grading.spectra.spectrum import spectrum
from weightsmith.networks import card_of, mlp, save, walk, weights_digest


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def one(made: object) -> Tensor:
    return made.network["a.weight"]


def rank(matrix: Tensor) -> int:
    singular = torch.linalg.svdvals(matrix)
    return int((singular > 1e-9 * singular.max()).sum())


def truncated(matrix: Tensor, count: int) -> Tensor:
    """By the singular value decomposition, the slow way."""
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    return (u[:, :count] * s[:count]) @ v[:count]


def test_a_diagonal_by_hand():
    values = torch.tensor([4.0, 3.0, 2.0, 1.0])
    kept = smooth({"a.weight": torch.diag(values)}, "count:2")
    assert one(kept).diagonal().tolist() == [4, 3, 0, 0]
    (layer,) = kept.report.layers
    assert (layer.name, layer.directions, layer.kept, layer.reason) == ("a", 4, 2, None)
    assert layer.mass == pytest.approx(25 / 30)
    left = sharpen({"a.weight": torch.diag(values)}, "count:2")
    assert one(left).diagonal().tolist() == [0, 0, 2, 1]
    assert (left.report.layers[0].kept, left.report.layers[0].mass) == (2, pytest.approx(5 / 30))


@pytest.mark.parametrize("shape", [(12, 7), (7, 12), (9, 9)])
@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_matrix_of_that_rank_and_the_nearest_one(shape, count):
    matrix = draw(*shape)
    made = one(smooth({"a.weight": matrix}, f"count:{count}"))
    assert rank(made) == count
    torch.testing.assert_close(made, truncated(matrix, count))


@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([1, 1e-200, 1e150])
)
@settings(max_examples=60, deadline=None)
def test_smooth_and_sharp_add_up(rows, columns, count, seed, scale):
    matrix = draw(rows, columns, seed=seed) * scale
    directions = min(rows, columns)
    parts = smooth({"a.weight": matrix}, f"count:{count}"), sharpen({"a.weight": matrix}, f"count:{count}")
    if count >= directions:
        assert torch.equal(one(parts[0]), matrix)
        assert parts[1].report.layers[0].reason == "no direction would be left"
        assert torch.equal(one(parts[1]), matrix)
    else:
        torch.testing.assert_close(
            one(parts[0]) + one(parts[1]), matrix, rtol=0, atol=1e-12 * float(matrix.abs().max())
        )
        assert sum(part.report.layers[0].kept for part in parts) == directions
        assert sum(part.report.layers[0].mass for part in parts) == pytest.approx(1)


def test_all_directions_are_the_same_network():
    network = mlp(20, 15, 10, seed=0)
    made = smooth(network, "share:1")
    for name, value in made.network.state_dict().items():
        torch.testing.assert_close(value, network.state_dict()[name], rtol=0, atol=1e-6)
    assert [(layer.kept, layer.directions, layer.mass) for layer in made.report.layers] == [(15, 15, 1), (10, 10, 1)]
    assert made.report.line == "smooth share:share=1.0: 0 of 2 layers changed, 0 of 0 directions kept in them"


def test_a_convolution_per_kernel_position():
    weight = draw(8, 6, 3, 3)
    made = one(smooth({"a.weight": weight}, "count:2"))
    for i in range(3):
        for j in range(3):
            torch.testing.assert_close(made[:, :, i, j], truncated(weight[:, :, i, j], 2))


def test_kernel_positions_share_the_threshold_of_the_tail():
    weight = draw(10, 9, 3, 1) * torch.tensor([1.0, 3.0, 9.0], dtype=torch.float64)[None, None, :, None]
    made = smooth({"a.weight": weight}, "tail:hill")
    (layer,) = made.report.layers
    stack = weight[:, :, :, 0].permute(2, 0, 1)
    fit = fit_power_law(spectrum(stack).eigenvalues, Hill())
    assert layer.kept == fit.tail
    ranks = [rank(one(made)[:, :, i, 0]) if one(made)[:, :, i, 0].norm() > 1e-9 else 0 for i in range(3)]
    assert sum(ranks) == fit.tail
    assert ranks[0] < ranks[2]


def test_every_kind_of_layer_of_a_module():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grouped = nn.Conv2d(8, 12, 3, groups=4)
            self.up = nn.ConvTranspose2d(12, 6, 2)
            self.lstm = nn.LSTM(5, 4)
            self.attention = nn.MultiheadAttention(8, 2)

    torch.manual_seed(0)
    network = Net().double()
    before = copy.deepcopy(network.state_dict())
    made = smooth(network, "count:1")
    for old, new in zip(walk(network), walk(made.network), strict=True):
        for matrix, smoothed in zip(old.matrices, new.matrices, strict=True):
            torch.testing.assert_close(smoothed, truncated(matrix, 1))
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(made.network.grouped.bias, network.grouped.bias)


def test_lineage_and_origin(tmp_path):
    network = mlp(20, 15, 10, seed=0)
    made = smooth(network, "count:3")
    lineage = card_of(made.network).lineage
    assert (lineage.operation, lineage.parent) == ("smooth count:3", weights_digest(network))
    assert made.report.origin.inputs == {"network": weights_digest(network)}
    assert card_of(network).lineage.operation != lineage.operation
    assert save(made.network, tmp_path / "smooth.safetensors").exists()
    assert made.network(torch.zeros(2, 20)).shape == (2, 10)
    assert DirectionsReport.from_json(made.report.to_json()) == made.report
    assert made.report.untouched == ("dense1.bias: bias", "output.bias: bias")
    assert made.report.line == "smooth count:3: 2 of 2 layers changed, 6 of 25 directions kept in them"


def test_the_tail_of_a_planted_law():
    """Fifty directions with a power law above a flat bulk: smoothing by λ_min keeps those, and no others."""
    u, v = torch.linalg.qr(draw(150, 150))[0], torch.linalg.qr(draw(150, 150, seed=1))[0]
    tail = (1 - (torch.arange(50, dtype=torch.float64) + 0.5) / 50) ** (-1 / 2.0)  # quantiles of Pareto, α = 3
    values = torch.cat([torch.linspace(0.01, 0.2, 100, dtype=torch.float64), tail])
    made = smooth({"a.weight": (u * values.sqrt()) @ v.T}, "tail")
    assert made.report.layers[0].kept == pytest.approx(50, abs=5)
    assert rank(one(made)) == made.report.layers[0].kept


def test_what_stays_as_it_was_has_a_reason(tmp_path):
    network = {
        "zero.weight": torch.zeros(9, 9),
        "nan.weight": torch.full((9, 9), torch.nan),
        "small.weight": torch.eye(3),
        "live.weight": draw(30, 20).float(),
        "live.bias": torch.ones(30),
    }
    save_file(network, tmp_path / "net.safetensors")
    made = smooth(tmp_path / "net.safetensors")
    reasons = {layer.name: layer.reason for layer in made.report.layers}
    assert reasons == {
        "zero": "all weights are zero",
        "nan": "it holds NaN or infinity",
        "small": "3 positive eigenvalues: no tail can be fitted",
        "live": None,
    }
    for name in ("zero.weight", "small.weight", "live.bias"):
        assert torch.equal(made.network[name], network[name])
    masses = {layer.name: layer.mass for layer in made.report.layers}
    assert 0 < masses["live"] < 1
    assert masses["zero"] is None
    assert made.network["live.weight"].dtype == torch.float32


def test_a_glob_selects_layers():
    network = mlp(20, 15, 10, seed=0)
    made = smooth(network, "count:1", layers="output")
    assert torch.equal(made.network.dense1.weight, network.dense1.weight)
    torch.testing.assert_close(made.network.output.weight, truncated(network.output.weight, 1))
    assert [layer.name for layer in made.report.layers] == ["output"]
    with pytest.raises(UnknownName, match="unknown directions 'cout'; did you mean 'count'"):
        smooth(network, "cout:1")


def test_weights_made_of_others_are_named():
    network = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 12)))
    (layer,) = smooth(network, "count:1").report.layers
    assert layer.reason == "is computed from other tensors, which a new weight cannot be written to"


def test_sharpening_removes_traps():
    matrix = draw(200, 100)
    matrix[3, 5] = 300.0
    made = sharpen({"a.weight": matrix})
    (layer,) = made.report.layers
    assert (layer.directions, layer.kept) == (100, 99)
    assert abs(one(made)[3, 5]) < 30
    assert torch.equal(one(made), one(sharpen({"a.weight": matrix})))


@pytest.mark.parametrize("shape", [(256, 256), (256, 128), (128, 256)])
def test_sharpening_takes_the_trap_and_leaves_what_was_learnt(shape):
    left, right = (torch.nn.functional.normalize(draw(size, seed=size + 1), dim=0) for size in shape)
    matrix = 0.02 * draw(*shape) + 20 * torch.outer(left, right)
    matrix[3, 7] += 4.0
    made = sharpen({"a.weight": matrix})
    assert min(shape) - made.report.layers[0].kept in (1, 2)
    assert float(left @ one(made) @ right) == pytest.approx(20, rel=0.05)
    assert abs(one(made)[3, 7]) < 0.3
    kept = smooth({"a.weight": matrix}, "traps")  # the other part: the trap alone
    torch.testing.assert_close(one(made) + one(kept), matrix)
    assert one(kept)[3, 7] == pytest.approx(4, rel=0.1)
    assert abs(float(left @ one(kept) @ right)) < 1


def test_traps_are_taken_from_the_matrix_they_are_in():
    weight = draw(40, 30, 3, 1) * torch.tensor([0.1, 1.0, 3.0], dtype=torch.float64)[None, None, :, None]
    assert sharpen({"a.weight": weight}).report.layers[0].reason == "it has no correlation traps"
    weight[5, 6, 0, 0] = 5.0  # large for its own kernel position only
    made = sharpen({"a.weight": weight})
    assert made.report.layers[0].kept == 89
    assert abs(one(made)[5, 6, 0, 0]) < 0.5
    torch.testing.assert_close(one(made)[:, :, 1:], weight[:, :, 1:])


def test_a_quiet_matrix_is_no_rounding_noise():
    weight = draw(8, 6, 2, 1) * torch.tensor([1e-12, 1.0], dtype=torch.float64)[None, None, :, None]
    made = smooth({"a.weight": weight}, "tail:hill:0.9").report.layers[0]
    assert made.reason is None
    assert made.kept == 11


def counts(rule: str, matrices: torch.Tensor) -> list[int] | str:
    chosen, rng = Directions.parse(rule), stream(0, "test")
    order = chosen.order(matrices, rng)
    if order is not None:
        matrices = matrices.flatten(1).gather(1, torch.from_numpy(order)).reshape(matrices.shape)
    found = chosen.count(spectrum(matrices), matrices, rng)
    return found if isinstance(found, str) else found.tolist()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("share:0.7", [7, 7, 7]),
        ("share:0.04", [1, 1, 1]),
        ("share:0.25", [3, 3, 3]),
        ("share:1", [10, 10, 10]),
        ("share", [8, 8, 8]),
        ("count:4", [4, 4, 4]),
        ("count:40", [10, 10, 10]),
    ],
)
def test_the_same_number_of_each_matrix(rule, expected):
    assert counts(rule, draw(3, 15, 10)) == expected


@pytest.mark.parametrize("cut", ["ks", "erg", "hill:0.5"])
def test_the_tail_is_that_of_the_fit_over_all_matrices(cut):
    matrices = draw(3, 15, 10) * torch.tensor([1.0, 2.0, 4.0])[:, None, None]
    fit = fit_power_law(spectrum(matrices).eigenvalues, TailCut.parse(cut))
    found = counts(f'tail:"{cut}"', matrices)
    assert sum(found) == fit.tail
    for matrix, count in zip(matrices, found, strict=True):
        squares = torch.linalg.svdvals(matrix) ** 2
        assert count == int((squares >= fit.xmin * (1 - 1e-9)).sum())


def test_spikes_beyond_the_noise():
    noise = draw(1, 200, 100)
    assert counts("noise", noise) == "no eigenvalue lies beyond the noise"
    left, right = (
        torch.linalg.qr(draw(200, 3, seed=1))[0],
        torch.linalg.qr(draw(100, 3, seed=2))[0],
    )
    assert counts("noise", noise + 60 * (left @ right.T)) == [3]


def test_traps_are_entries_that_are_too_large():
    matrix = draw(1, 200, 100)
    assert counts("traps", matrix) == "it has no correlation traps"
    matrix[0, 3, 5], matrix[0, 60, 70] = 200.0, -300.0
    assert counts("traps", matrix) == [2]


def test_traps_are_not_what_was_learnt():
    learnt = 60 * torch.outer(torch.linalg.qr(draw(200, 1, seed=1))[0][:, 0], torch.linalg.qr(draw(100, 1))[0][:, 0])
    matrix = draw(1, 200, 100, seed=2) + learnt
    assert counts("noise", matrix) == [1]
    assert counts("traps", matrix) == "it has no correlation traps"


def test_only_traps_look_at_another_order_and_keep_to_the_matrix():
    matrices = draw(2, 6, 5)
    for rule in ("share", "count:1", "noise", "tail"):
        assert Directions.parse(rule).order(matrices, stream(0)) is None
    order = Directions.parse("traps").order(matrices, stream(0))
    assert [sorted(row) for row in order.tolist()] == [list(range(30))] * 2
    assert (order[0] != order[1]).any()


def test_each_matrix_is_held_against_its_own_noise():
    scale = torch.tensor([0.1, 1.0, 5.0], dtype=torch.float64)[:, None, None]
    matrices = draw(3, 80, 60)
    assert counts("noise", matrices * scale) == "no eigenvalue lies beyond the noise"
    matrices[0] += 30 * torch.outer(torch.full((80,), 80**-0.5), torch.full((60,), 60**-0.5))
    assert counts("noise", matrices * scale) == [1, 0, 0]


@pytest.mark.parametrize("shape", [(256, 128), (128, 256)])
def test_dead_units_are_not_beyond_the_noise(shape):
    matrix = draw(1, 256, 128)
    matrix[0, ::2] = 0
    assert counts("noise", matrix if shape[0] == 256 else matrix.mT) == ("no eigenvalue lies beyond the noise")


@pytest.mark.parametrize("rule", ["noise", "tail", "traps"])
def test_too_few_eigenvalues_are_named(rule):
    assert counts(rule, draw(1, 9, 7)).startswith("7 positive eigenvalues: no ")


def test_text_forms_and_ranges():
    assert str(Directions.parse("tail:erg")) == "tail:cut=erg"
    assert Directions.parse("tail:cut=erg") == Directions.parse("tail:erg")
    for text in ("share:0", "share:1.1", "count:0", "noise:level=1"):
        with pytest.raises(OptionError):
            Directions.parse(text)
    with pytest.raises(UnknownName, match="unknown cut 'erk'; did you mean 'erg'"):
        Directions.parse("tail:erk")


def test_equal_eigenvalues_have_no_tail():
    assert counts("tail", torch.from_numpy(np.eye(12))[None]) == "12 positive eigenvalues: no tail can be fitted"


def test_it_prints_in_one_line():
    found = ws.smooth(ws.networks.mlp(8, 4, 2), "share:0.5")
    assert str(found) == found.report.line
    assert repr(found) == f"<Smoothed: {found.report.line}>"
