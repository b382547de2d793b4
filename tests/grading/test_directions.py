from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.seeds import stream
from weightsmith.grading.cuts import Cut
from weightsmith.grading.directions import Directions
from weightsmith.grading.powerlaw import fit_power_law
from weightsmith.grading.spectrum import spectrum


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
    fit = fit_power_law(spectrum(matrices).eigenvalues, Cut.parse(cut))
    found = counts(f'tail:"{cut}"', matrices)
    assert sum(found) == fit.tail
    for matrix, count in zip(matrices, found, strict=True):
        squares = torch.linalg.svdvals(matrix) ** 2
        assert count == int((squares >= fit.xmin * (1 - 1e-9)).sum())


def test_spikes_beyond_the_noise():
    noise = draw(1, 200, 100)
    assert counts("noise", noise) == "no eigenvalue lies beyond the noise"
    left, right = torch.linalg.qr(draw(200, 3, seed=1))[0], torch.linalg.qr(draw(100, 3, seed=2))[0]
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
