"""Groups: planted combinations come back, and pivots, factors and angles are those of QR and least squares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import qr

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.criteria.groups import Groups, choose_by_groups
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice


def chosen(
    rows: Any,
    option: Groups,
    keep: int | None = None,
    *,
    centre: float | None = None,
    precision: Any = None,
    **more: Any,
) -> Choice:
    gram = Gram(np.shape(rows)[1], centre or 0.0, precision)
    gram.add(np.asarray(rows))
    gram = gram.about_mean() if centre is None else gram
    return choose_by_groups("hidden", gram.units, gram, option, keep, **more)


def replaced(rows: Any, choice: Choice) -> Any:
    seen = np.array(rows, dtype=np.float64)
    for removal in choice.removals:
        seen[:, removal.unit] = rows[:, list(removal.into)] @ np.array(removal.factors) + removal.constant
    return seen


def to_span(vectors: Any, kept: Any, unit: int) -> float:
    """The angle between a vector and the span of others, by orthogonal projection."""
    basis, _ = np.linalg.qr(vectors[:, list(kept)])
    vector = vectors[:, unit] / np.linalg.norm(vectors[:, unit])
    return float(np.degrees(np.arcsin(min(1.0, np.linalg.norm(vector - basis @ (basis.T @ vector))))))


@pytest.mark.parametrize(("precision", "within"), [("float64", 1e-8), ("float32", 2e-3)])
def test_planted_combinations_go_without_loss(precision: str, within: float) -> None:
    rows = stream(0, "groups").random((300, 9))
    rows[:, 6] = 0.5 * rows[:, 0] + 0.5 * rows[:, 1] - 2.0
    rows[:, 7] = rows[:, 2] - 3 * rows[:, 3] + 0.2 * rows[:, 4]
    rows[:, 8] = 1e-3 * (rows[:, 0] + rows[:, 1] + rows[:, 2]) + 40
    choice = chosen(rows, Groups(1), precision=precision)
    assert len(choice.kept) == 6
    assert {removal.reason for removal in choice.removals} == {"group"}
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=within)


def test_a_planted_combination_gives_its_own_factors() -> None:
    """With so few units the kept ones are known: 3 = ½·0 + 2·1 + 7 cannot be nearer to unit 2."""
    rows = stream(1, "groups").normal((1.0, 2.0, 3.0, 0.0), 1.0, size=(200, 4))
    rows[:, 3] = 0.5 * rows[:, 0] + 2 * rows[:, 1] + 7
    (removal,) = chosen(rows, Groups(5)).removals
    (position,) = {0, 1, 3} - set(removal.into)
    assert removal.unit == position
    assert 2 not in removal.into  # a factor of rounding size is left out
    full = dict(zip((*removal.into, removal.unit), (*removal.factors, -1.0), strict=True))
    scale = full[3] / -1.0
    np.testing.assert_allclose([full[0] / scale, full[1] / scale, removal.constant / scale], [0.5, 2.0, 7.0], atol=1e-8)


def test_what_pairs_cannot_see() -> None:
    """Each is 45° or more from every other, but the third is the sum of two."""
    rows = np.array([[1.0, 0, 1], [0, 1, 1], [-1, 0, -1], [0, -1, -1]])
    choice = chosen(rows, Groups(5))
    assert len(choice.kept) == 2
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=1e-12)


@pytest.mark.parametrize("centre", [None, 0.0, 0.5])
def test_pivots_are_those_of_qr_of_unit_vectors(centre: float | None) -> None:
    rows = stream(2, "groups").normal(size=(100, 12)) @ stream(3, "groups").normal(size=(12, 12))
    moved = rows - (rows.mean(axis=0) if centre is None else centre)
    _, _, pivots = qr(moved / np.linalg.norm(moved, axis=0), pivoting=True, mode="economic")
    # All lengths are 1, so what comes first is a matter of rounding: compare from the same first pivot.
    if pivots[0] != 0:
        unit = moved / np.linalg.norm(moved, axis=0)
        unit[:, 0] *= 1 + 1e-9
        _, _, pivots = qr(unit, pivoting=True, mode="economic")
    for keep in range(1, 13):
        assert chosen(rows, Groups(), keep, centre=centre).kept == tuple(sorted(pivots[:keep]))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    units=st.integers(1, 20),
    rank=st.integers(1, 8),
    noise=st.sampled_from([0.0, 0.02, 0.2]),
    angle=st.sampled_from([1.0, 15.0, 40.0, 89.0, 90.0]),
    mean=st.booleans(),
)
def test_every_unit_that_goes_is_near_the_span_of_the_kept(
    *, seed: int, units: int, rank: int, noise: float, angle: float, mean: bool
) -> None:
    generator = stream(seed, "groups")
    rows = generator.normal(size=(60, rank)) @ generator.normal(size=(rank, units)) + generator.normal(size=units)
    rows += noise * generator.normal(size=rows.shape)
    choice = chosen(rows, Groups(angle), centre=None if mean else 0.0)
    moved = rows - rows.mean(axis=0) if mean else rows
    assert choice.kept
    for removal in choice.removals:
        assert removal.angle == pytest.approx(to_span(moved, choice.kept, removal.unit), abs=1e-4)
        assert removal.angle < angle + 1e-5
        best, *_ = np.linalg.lstsq(moved[:, choice.kept], moved[:, removal.unit], rcond=None)
        ours = replaced(rows, choice)[:, removal.unit] - rows[:, removal.unit]
        theirs = moved[:, choice.kept] @ best - moved[:, removal.unit]
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * np.abs(moved).max())
    assert np.linalg.matrix_rank(moved[:, choice.kept]) == len(choice.kept)


@pytest.mark.parametrize("keep", [1, 3, 7, 11, 12])
def test_keeps_exactly_as_many_as_asked_for(keep: int) -> None:
    """The rank is 5: fewer lose something, and beyond it the first of the rest stay."""
    rows = stream(4, "groups").normal(size=(80, 5)) @ stream(5, "groups").normal(size=(5, 12))
    choice = chosen(rows, Groups(), keep, centre=0.0)
    assert len(choice.kept) == keep
    assert all(len(removal.into) <= min(keep, 5) for removal in choice.removals)
    if keep > 5:
        pivots = set(chosen(rows, Groups(), 5, centre=0.0).kept)
        rest = [unit for unit in range(12) if unit not in pivots]
        assert set(choice.kept) == pivots | set(rest[: keep - 5])
        np.testing.assert_allclose(replaced(rows, choice), rows, atol=1e-8)


def test_says_when_more_goes_than_the_angle_allows() -> None:
    rows = stream(6, "groups").normal(size=(500, 4))
    choice = chosen(rows, Groups(15), 2)
    assert choice.notes[0].startswith("to keep 2, 2 units beyond 15° were removed too, up to 8")
    assert chosen(rows, Groups(15)).notes == ()


@pytest.mark.parametrize("keep", [1, 4, 9])
def test_by_effect_the_least_missed_go(keep: int) -> None:
    """Pivots are those of QR of the activations scaled by what reads them, and the factors still least squares."""
    from scipy.linalg import qr

    rows = stream(11, "groups").normal(size=(80, 10)) * np.arange(1, 11)
    rows[:, 9] *= 1e-2
    reading = stream(12, "groups").random(10) + 0.05
    gram = Gram(10)
    gram.add(rows)
    choice = choose_by_groups("site", 10, gram, Groups(pivot="effect"), keep, reading=reading)
    _, _, pivots = qr(rows * reading, mode="economic", pivoting=True)
    assert choice.kept == tuple(sorted(pivots[:keep].tolist()))
    kept = rows[:, list(choice.kept)]
    for removal in choice.removals:
        solved = np.linalg.lstsq(kept, rows[:, removal.unit], rcond=None)[0]
        found = dict(zip(removal.into, removal.factors, strict=True))
        np.testing.assert_allclose([found.get(unit, 0.0) for unit in choice.kept], solved, atol=1e-8)
        residual = rows[:, removal.unit] - kept @ solved
        sine = np.linalg.norm(residual) / np.linalg.norm(rows[:, removal.unit])
        assert removal.angle == pytest.approx(np.degrees(np.arcsin(sine)), abs=1e-4)


def test_ill_conditioned_units_do_not_blow_up_the_factors() -> None:
    """Hundreds of nearly dependent smooth vectors: their Gram has a condition number beyond float64."""
    grid = np.linspace(-1, 1, 400)
    rows = np.tanh(5 * (grid[:, None] - np.linspace(-1, 1, 200)))
    for angle in (1e-6, 1e-3, 1.0):
        choice = chosen(rows, Groups(angle))
        factors = np.concatenate([removal.factors for removal in choice.removals])
        assert len(choice.kept) < 150
        assert np.abs(factors).max() < 100
        np.testing.assert_allclose(replaced(rows, choice), rows, atol=max(1e-6, 2 * np.radians(angle)))


def test_constant_units_go_into_the_bias() -> None:
    rows = stream(7, "groups").random((60, 5))
    rows[:, 1], rows[:, 3] = 0.25, 0.9 + 1e-8 * rows[:, 0]
    choice = chosen(rows, Groups(5))
    assert choice.kept == (0, 2, 4)
    assert [removal.reason for removal in choice.removals] == ["constant", "constant"]
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=2e-8)
    # A number that is asked for is met by constants first.
    assert chosen(rows, Groups(5), 4).kept == (0, 2, 3, 4)
    assert len(chosen(rows, Groups(5), 2).kept) == 2


def test_constants_beside_groups() -> None:
    rows = stream(8, "groups").random((60, 6))
    rows[:, 0], rows[:, 5] = 3.0, rows[:, 1] + rows[:, 2]
    choice = chosen(rows, Groups(5))
    assert len(choice.kept) == 4
    assert all(0 not in removal.into for removal in choice.removals)
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=1e-8)


@pytest.mark.parametrize("value", [0.0, 0.7])
def test_at_least_one_unit_stays(value: float) -> None:
    assert chosen(np.full((5, 3), value), Groups(15)).kept == (0,)
    assert chosen(np.full((5, 3), value), Groups(15), 2).kept == (0, 1)
    assert chosen(np.full((5, 1), value), Groups(15)).kept == (0,)


def test_without_constants_nothing_needs_one() -> None:
    rows = stream(9, "groups").random((60, 5))
    rows[:, 1], rows[:, 2], rows[:, 4] = 0.0, 0.9, rows[:, 0] - 2 * rows[:, 3]
    choice = chosen(rows, Groups(5), centre=0.0, constants=False)
    assert len(choice.kept) == 3
    assert all(removal.constant == 0 for removal in choice.removals)
    assert "cannot take a constant" in choice.notes[0]
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=1e-8)


def test_refuses_wrong_calls() -> None:
    with pytest.raises(UsageError, match="can keep 1 to 3 units, not 4"):
        chosen(np.eye(3), Groups(15), 4)
    with pytest.raises(OptionError, match="centre must be"):
        Groups(15, centre="middle")
    with pytest.raises(OptionError, match="angle must be"):
        Groups(0)


def test_text_form() -> None:
    for option in (Groups(), Groups(30, centre="none"), Groups(5, centre="0.5", constant=0)):
        assert Method.parse(str(option)) == option
    assert Method.parse("groups:30,centre=none") == Groups(30, centre="none")


def test_method_measures_each_site_from_its_mean() -> None:
    rows = stream(10, "groups").random((60, 4))
    rows[:, 3] = 2 + rows[:, 0] - rows[:, 1]

    class FakeContext:
        sites = (
            SimpleNamespace(name="free", units=4, activation="relu", takes_constants=True, padded=False),
            SimpleNamespace(name="bound", units=4, activation="relu", takes_constants=False, padded=False),
        )

        def reading_norms(self, site: Any) -> Any:
            return np.ones(site.units)

        def grams(self, centres: Any) -> dict[str, Gram]:
            assert centres == {"free": 0.0, "bound": 0.0}
            grams = {name: Gram(4) for name in centres}
            for gram in grams.values():
                gram.add(rows)
            return grams

    context: Any = FakeContext()
    free, bound = Groups(1).choose(context, None).choices
    assert (len(free.kept), len(bound.kept)) == (3, 4)
    assert [len(choice.kept) for choice in Groups(1).choose(context, {"free": 2, "bound": 1}).choices] == [2, 1]
