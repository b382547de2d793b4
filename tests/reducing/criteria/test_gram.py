"""The Gram matrix against the plain product of all rows at once, in both precisions and about every centre."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.criteria.gram import Gram

ABOUT = {"float32": 2e-4, "float64": 1e-12}


def gathered(rows: Any, *, centre: float = 0.0, precision: Any = None, blocks: int = 3) -> Gram:
    gram = Gram(rows.shape[1], centre, precision)
    for block in np.array_split(rows, blocks):
        gram.add(block)
    return gram


def slow(rows: Any, centres: Any) -> Any:
    moved = np.asarray(rows, dtype=np.float64) - centres
    return moved.T @ moved


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("units", [1, 7, 300])  # 300: more than one strip
@pytest.mark.parametrize("centre", [0.0, 0.5, -3.0])
def test_products_are_those_of_all_rows_at_once(precision: str, units: int, centre: float) -> None:
    rows = stream(0, "gram", units).random((500, units))
    expected = slow(rows, centre)
    gram = gathered(rows, centre=centre, precision=precision)
    assert gram.rows == 500
    assert gram.products.dtype == precision
    np.testing.assert_allclose(gram.products, expected, rtol=ABOUT[precision], atol=ABOUT[precision] * expected.max())
    lengths = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(gram.lengths, lengths, rtol=ABOUT[precision])
    np.testing.assert_allclose(gram.cosines(), expected / np.outer(lengths, lengths), atol=ABOUT[precision])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_about_the_mean(precision: str) -> None:
    rows = stream(1, "gram").normal(2.0, 1.0, (400, 270))
    gram = gathered(rows, centre=0.5, precision=precision)
    about = gram.about_mean()
    expected = np.corrcoef(rows.T)
    np.testing.assert_allclose(about.cosines(), expected, atol=ABOUT[precision])
    np.testing.assert_allclose(about.centres, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(gram.centres, 0.5)
    np.testing.assert_allclose(gram.products[0, 1], slow(rows, 0.5)[0, 1], rtol=ABOUT[precision])


def test_both_views_see_rows_that_come_later() -> None:
    rows = stream(2, "gram").normal(size=(60, 4))
    gram = Gram(4)
    gram.add(rows[:20])
    about = gram.about_mean()
    gram.add(rows[20:])
    assert about.rows == 60
    np.testing.assert_allclose(about.cosines(), np.corrcoef(rows.T), atol=1e-12)


def test_float32_does_not_lose_units_that_hover_near_one() -> None:
    """Saturated sigmoids: the variation is 10⁻⁴ of the mean, so Σh² − n·μ² in float32 would be rounding alone."""
    wave = stream(3, "gram").normal(size=(5000, 3))
    rows = (1.0 - 1e-4 * np.abs(wave @ [[1.0, 0.9, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 1.0]])).astype(np.float32)
    expected = np.corrcoef(rows.T.astype(np.float64))
    np.testing.assert_allclose(gathered(rows, precision="float32").about_mean().cosines(), expected, atol=1e-4)


def test_sums_and_extremes_are_of_the_values_as_they_came() -> None:
    rows = stream(4, "gram").normal(size=(50, 3)).astype(np.float32)
    gram = gathered(rows, centre=0.5, blocks=7)
    np.testing.assert_allclose(gram.sums, rows.sum(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_array_equal(gram.minima, rows.min(axis=0))
    np.testing.assert_array_equal(gram.maxima, rows.max(axis=0))


def test_zero_vectors_have_no_direction() -> None:
    rows = stream(5, "gram").random((40, 4))
    rows[:, 1], rows[:, 2] = 0.5, 0.7
    gram = gathered(rows, centre=0.5)
    assert gram.zero.tolist() == [False, True, False, False]
    assert gram.about_mean().zero.tolist() == [False, True, True, False]
    cosines = gram.cosines()
    assert (cosines[1] == 0).all()
    assert (cosines[:, 1] == 0).all()
    np.testing.assert_allclose(cosines[2, 2], 1.0)
    np.testing.assert_allclose(gram.lengths[1:3], [0.0, 0.2 * np.sqrt(40)], atol=1e-14)


@settings(max_examples=50, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(2, 30), st.integers(1, 6)), elements=st.floats(-10, 10, width=16)),
    st.lists(st.integers(0, 30), max_size=4),
    st.sampled_from([0.0, 0.5, None]),
)
def test_how_rows_are_cut_into_blocks_does_not_matter(rows: Any, cuts: list[int], centre: float | None) -> None:
    gram = Gram(rows.shape[1], centre or 0.0)
    for block in np.split(rows, sorted(cuts)):
        gram.add(block)
    gram = gram.about_mean() if centre is None else gram
    expected = slow(rows, rows.mean(axis=0) if centre is None else centre)
    np.testing.assert_allclose(gram.products, expected, atol=1e-11 * max(1.0, np.square(rows).sum()))
    assert np.abs(gram.cosines()).max() <= 1.0


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int32, np.bool_])
def test_any_real_numbers(kind: Any) -> None:
    rows = (stream(6, "gram").random((30, 3)) > 0.5).astype(kind)
    np.testing.assert_allclose(gathered(rows, centre=0.5).products, slow(rows, 0.5), atol=1e-12)


def test_memory_layout_does_not_matter() -> None:
    rows = stream(7, "gram").random((64, 20))
    np.testing.assert_allclose(gathered(np.asfortranarray(rows)).products, gathered(rows).products, rtol=1e-13)
    np.testing.assert_allclose(gathered(rows[::-1]).products, gathered(rows[::-1].copy()).products, rtol=1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_names_the_row_that_is_not_finite(bad: float) -> None:
    rows = np.ones((10, 3))
    gram = Gram(3)
    gram.add(rows)
    before = gram.products
    rows[4, 2] = bad
    with pytest.raises(DataMismatch, match=f"row 14: unit 2 gives {bad}"):
        gram.add(rows)
    assert gram.rows == 10
    np.testing.assert_array_equal(gram.products, before)


def test_refuses_what_would_overflow() -> None:
    with pytest.raises(DataMismatch, match="1e\\+20 overflow products in float32"):
        Gram(2, precision="float32").add(np.full((3, 2), 1e20))


@pytest.mark.parametrize("shape", [(5, 4), (5,), (5, 3, 1)])
def test_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataMismatch, match=r"\(rows, 3\)"):
        Gram(3).add(np.ones(shape))


def test_refuses_complex_numbers() -> None:
    with pytest.raises(DataMismatch, match="complex128"):
        Gram(1).add(np.ones((2, 1), dtype=complex))


@pytest.mark.parametrize(("units", "centre"), [(0, 0.0), (-1, 0.0), (2, float("nan"))])
def test_refuses_no_units_and_no_centre(units: int, centre: float) -> None:
    with pytest.raises(UsageError):
        Gram(units, centre)


def test_without_rows_there_is_nothing_to_read() -> None:
    gram = Gram(2)
    gram.add(np.ones((0, 2)))
    with pytest.raises(UsageError, match="no row"):
        gram.cosines()


def test_precision_follows_the_number_of_units() -> None:
    assert (Gram(2048).precision, Gram(2049).precision, Gram(2, precision="float32").precision) == (
        "float64",
        "float32",
        "float32",
    )


def test_gathering_needs_no_copy_of_the_matrix() -> None:
    units = 1500
    block = stream(8, "gram").random((1024, units), dtype=np.float32)
    gram = Gram(units, 0.5, "float32")
    gram.add(block[:8])  # imports what it needs
    tracemalloc.start()
    gram.add(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    matrix, shifted = units * units * 4, block.nbytes
    assert peak < shifted + matrix / 8


def test_a_steady_unit_has_its_length_from_its_one_value() -> None:
    """Rounding of sums must not give a unit that never moves a length of its own."""
    rows = np.column_stack([np.full(3001, 0.1), np.linspace(0, 1, 3001)])
    gram = Gram(2, centre=0.3)
    gram.add(rows)
    assert gram.lengths[0] == pytest.approx(0.2 * np.sqrt(3001), rel=1e-15)
