"""Figure 4: squares of vectors turn to the nearer axis, and only the axes and the diagonal stay."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.papers.theory.drift import HadamardDrift, angle_drift, hadamard_drift


@given(st.floats(0.5, 89.5), st.floats(0.01, 100))
def test_the_drift_is_that_of_the_angle_whatever_the_length(degrees, length):
    angle = math.radians(degrees)
    found = float(angle_drift([length * math.cos(angle), length * math.sin(angle)]))
    assert found == pytest.approx(math.degrees(math.atan(math.tan(angle) ** 2) - angle), abs=1e-9)
    if abs(degrees - 45) > 1e-6:
        assert (found > 0) == (degrees > 45)


def test_axes_and_diagonal_stay():
    assert_allclose(angle_drift([[3.0, 0.0], [0.0, 0.2], [0.7, 0.7]]), 0, atol=1e-12)


def test_the_grid_covers_the_quadrant_without_the_origin():
    found = hadamard_drift(points=4, largest=1.5)
    assert len(found.start) == 15
    assert {tuple(point) for point in found.start.tolist()} == {
        (x, y) for x in (0.0, 0.5, 1.0, 1.5) for y in (0.0, 0.5, 1.0, 1.5)
    } - {(0.0, 0.0)}
    assert np.array_equal(found.end, found.start * found.start)
    assert found.drift.shape == (15,)


def test_the_curve_is_odd_about_45_degrees_and_largest_where_its_derivative_is_zero():
    found = hadamard_drift()
    assert_allclose(found.drift_of_angle, -found.drift_of_angle[::-1], atol=1e-9)
    # d/dθ arctan(tan² θ) = 1 where 2·t·(1 + t²) = 1 + t⁴, t = tan θ.
    roots = np.roots([1, -2, 0, -2, 1])
    tangent = min(root.real for root in roots if abs(root.imag) < 1e-9)
    assert found.angles[found.drift_of_angle.argmin()] == pytest.approx(math.degrees(math.atan(tangent)), abs=0.25)
    assert HadamardDrift.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: angle_drift([1.0, 2.0, 3.0]), DataMismatch, "two entries along their last axis, not shape (3,)"),
        (lambda: angle_drift([1.0, -2.0]), OptionError, "entries ≥ 0, at least one of them > 0"),
        (lambda: angle_drift([[1.0, 1.0], [0.0, 0.0]]), OptionError, "entries ≥ 0, at least one of them > 0"),
        (lambda: hadamard_drift(points=1), OptionError, "points must be ≥ 2"),
        (lambda: hadamard_drift(largest=0.0), OptionError, "largest must be > 0 and finite, not 0.0"),
    ],
)
def test_bad_input_is_named(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
