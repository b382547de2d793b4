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
    found = Directions.parse(rule).count(spectrum(matrices), matrices, stream(0, "test"))
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
