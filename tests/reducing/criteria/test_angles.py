"""Angles: the table printed in 1991, planted twins and opposites, and a slow sweep over the sorted list of pairs."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.criteria.angles import Angles, Pair, angles_between, choose_by_angles, pairs
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice

REFERENCE = Path(__file__).parents[2] / "reference"


def gram_of(rows: Any, centre: float = 0.0, precision: Any = None) -> Gram:
    gram = Gram(np.shape(rows)[1], centre, precision)
    gram.add(np.asarray(rows))
    return gram


def chosen(rows: Any, option: Angles, keep: int | None = None, centre: float = 0.0, **more: Any) -> Choice:
    gram = gram_of(rows, centre)
    return choose_by_angles("hidden", gram.units, gram, option, keep, **more)


def replaced(rows: Any, choice: Choice) -> Any:
    """The activations as the readers see them after the removals, undone in reverse because merges may be chained."""
    seen = np.array(rows, dtype=np.float64)
    for removal in reversed(choice.removals):
        seen[:, removal.unit] = seen[:, list(removal.into)] @ np.array(removal.factors) + removal.constant
    return seen


def random_units(seed: int, units: int, rows: int = 40, rank: int = 3) -> Any:
    generator = stream(seed, "angles")
    return generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, units))


# The table of 1991


def table() -> tuple[Any, Any]:
    rows = np.genfromtxt(REFERENCE / "gedeon_harris_1991_activations.csv", delimiter=",", skip_header=2)
    angles = np.genfromtxt(REFERENCE / "gedeon_harris_1991_angles.csv", delimiter=",", skip_header=2)
    return rows, angles


def test_angles_are_those_printed_in_1991() -> None:
    rows, printed = table()
    ours = angles_between(gram_of(rows, 0.5))
    a, b = printed[:, :2].astype(int).T - 1
    assert len(printed) == 15
    np.testing.assert_allclose(ours[a, b], printed[:, 2], atol=1.3)


@pytest.mark.parametrize("about", ["mean", "none"])
def test_only_the_shift_by_a_half_gives_them(about: str) -> None:
    rows, printed = table()
    gram = gram_of(rows)
    ours = angles_between(gram.about_mean() if about == "mean" else gram)
    a, b = printed[:, :2].astype(int).T - 1
    assert np.abs(ours[a, b] - printed[:, 2]).max() > 30


def test_what_goes_of_the_table_of_1991() -> None:
    """By hand from the printed angles: 4–6 are 177.5° apart, 1–5 176.5°, 1–4 8.4°, 5–6 7.3°, all others beyond 15°."""
    rows, _ = table()
    found = [(pair.a + 1, pair.b + 1, pair.kind) for pair in pairs(gram_of(rows, 0.5), 15)]
    assert set(found) == {
        (4, 6, "complementary"),
        (1, 5, "complementary"),
        (4, 5, "complementary"),
        (1, 6, "complementary"),
        (1, 4, "similar"),
        (5, 6, "similar"),
    }
    folded = chosen(rows, Angles(15), centre=0.5)
    assert folded.kept == (0, 1, 2)
    both = chosen(rows, Angles(15, complementary="remove"), centre=0.5)
    assert both.kept == (1, 2)
    alike = chosen(rows, Angles(15, complementary="keep"), centre=0.5)
    assert alike.kept == (0, 1, 2, 4)


# Pairs and angles


def test_angles_of_known_directions() -> None:
    degrees = np.array([0.0, 10.0, 50.0, 90.0, 170.0, 180.0])
    rows = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]) * [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(angles_between(gram_of(rows)), np.abs(degrees[:, None] - degrees), atol=1e-5)
    found = pairs(gram_of(rows), 15)
    assert [(pair.a, pair.b, pair.kind) for pair in found] == [
        (0, 5, "complementary"),
        (0, 1, "similar"),
        (0, 4, "complementary"),
        (1, 5, "complementary"),
        (4, 5, "similar"),
    ]
    np.testing.assert_allclose([pair.degrees for pair in found], [180, 10, 170, 170, 10], atol=1e-5)
    assert Pair.from_json(found[1].to_json()) == found[1]


def test_no_pairs_at_all() -> None:
    assert pairs(gram_of(np.eye(4)), 45) == ()
    assert chosen(np.eye(4), Angles(90)).removals == ()


@pytest.mark.parametrize(("angle", "other"), [(60, (1.0, math.sqrt(3))), (45, (1.0, -1.0))])
def test_comparison_is_strict(angle: float, other: tuple[float, float]) -> None:
    rows = np.array([[1.0, 0.0], other]).T
    assert chosen(rows, Angles(angle)).kept == (0, 1)
    assert chosen(rows, Angles(angle + 1e-6)).kept == (0,)


def test_twins_are_within_any_angle() -> None:
    rows = np.repeat(stream(0, "angles").normal(size=(30, 1)), 3, axis=1) * [1.0, 3.0, -7.0]
    assert chosen(rows, Angles(1e-9)).kept == (0,)


# What a choice does


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_planted_twins_and_opposites_go_without_loss(centre: float, precision: Any) -> None:
    rows = stream(1, "angles").random((200, 8))
    rows[:, 4] = rows[:, 1]
    rows[:, 5] = 2 * centre - rows[:, 2]
    rows[:, 6] = centre + 3 * (rows[:, 0] - centre)
    rows[:, 7] = centre - 0.25 * (rows[:, 4] - centre)
    gram = gram_of(rows, centre, precision)
    choice = choose_by_angles("hidden", 8, gram, Angles(1))
    assert choice.kept == (0, 1, 2, 3)
    assert {removal.unit: (removal.into, removal.reason) for removal in choice.removals} == {
        4: ((1,), "similar"),
        5: ((2,), "complementary"),
        6: ((0,), "similar"),
        7: ((1,), "complementary"),
    }
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=1e-10 if precision == "float64" else 1e-4)


def test_about_the_mean_a_shifted_twin_goes_without_loss() -> None:
    rows = stream(2, "angles").random((100, 3))
    rows[:, 2] = 5 - 2 * rows[:, 0]
    gram = gram_of(rows).about_mean()
    choice = choose_by_angles("hidden", 3, gram, Angles(1))
    assert choice.kept == (0, 1)
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=1e-12)
    (removal,) = choice.removals
    assert removal.angle == pytest.approx(180, abs=1e-5)


@pytest.mark.parametrize(
    ("merge", "similar", "complementary"),
    [
        ("scaled", ((2.0,), "keep"), ((-2.0,), "keep")),
        ("outputs", ((1.0,), "keep"), ((-1.0,), "keep")),
        ("literal", ((1.0,), "sum"), ((-1.0,), "keep")),
        ("mean", ((1.0,), "mean"), ((-1.0,), "keep")),
        ("none", ((), "keep"), ((), "keep")),
    ],
)
def test_what_is_merged(merge: Any, similar: Any, complementary: Any) -> None:
    rows = stream(3, "angles").random((50, 4)) - 0.5
    rows[:, 2], rows[:, 3] = 2 * rows[:, 0], -2 * rows[:, 1]
    choice = chosen(rows + 0.5, Angles(5, merge=merge), centre=0.5)
    alike, opposite = sorted(choice.removals, key=lambda removal: removal.unit)
    for removal, (factors, inputs) in ((alike, similar), (opposite, complementary)):
        np.testing.assert_allclose(removal.factors, factors, rtol=1e-12)
        assert removal.inputs == inputs
        # c − s·c: a fold with factor −1 gives the bias 2c of the paper's centre.
        assert removal.constant == pytest.approx(0.5 * (1 - factors[0]) if factors else 0.0, abs=1e-12)


def test_scaled_factor_is_the_least_squares_one() -> None:
    rows = random_units(4, 2, rank=2)
    (removal,) = chosen(rows, Angles(90)).removals
    expected = np.linalg.lstsq(rows[:, :1], rows[:, 1], rcond=None)[0]
    np.testing.assert_allclose(removal.factors, expected, rtol=1e-10)


def test_complementary_pairs_removed_both_or_kept() -> None:
    rows = stream(5, "angles").normal(size=(50, 4))
    rows[:, 3] = -rows[:, 1]
    both = chosen(rows, Angles(10, complementary="remove"))
    assert both.kept == (0, 2)
    assert all(removal.into == () and removal.constant == 0 for removal in both.removals)
    assert chosen(rows, Angles(10, complementary="keep")).removals == ()


def test_at_least_one_unit_stays() -> None:
    rows = np.outer(np.arange(1.0, 6.0), [1, -1])
    assert chosen(rows, Angles(15, complementary="remove")).kept == (0, 1)
    assert chosen(rows, Angles(15)).kept == (0,)
    assert chosen(np.zeros((5, 3)), Angles(15)).kept == (0,)
    assert chosen(np.full((5, 3), 0.7), Angles(15)).kept == (0,)
    assert chosen(np.ones((5, 1)), Angles(15)).kept == (0,)


def test_removing_both_skips_a_pair_that_were_one_too_many() -> None:
    """Nearest are opposites, which would leave 1 unit where 2 are asked for; the twins further down are taken."""
    rows = np.array([[1.0, 0, 0, 0], [-1.0, 0.001, 0, 0], [0, 0, 1.0, 0.05], [0, 0, 1.0, -0.05]]).T
    option = Angles(15, complementary="remove", order="cosine")
    assert chosen(rows, option, keep=3).kept == (0, 1, 2)
    assert chosen(rows, option, keep=2).kept == (2, 3)
    assert chosen(rows, option).kept == (2,)


def test_order_by_index_takes_the_first_pair_not_the_nearest() -> None:
    degrees = np.radians([0.0, 12.0, 20.0])
    rows = np.array([np.cos(degrees), np.sin(degrees)])
    nearest, first = chosen(rows, Angles(15)), chosen(rows, Angles(15, order="index"))
    assert [(removal.unit, removal.into) for removal in nearest.removals] == [(2, (1,)), (1, (0,))]
    assert [(removal.unit, removal.into) for removal in first.removals] == [(1, (0,))]


# Constant and short units


def test_constant_units_go_into_the_bias() -> None:
    rows = stream(6, "angles").random((60, 5))
    rows[:, 1], rows[:, 3] = 0.5, 0.9 + 1e-8 * rows[:, 0]
    choice = chosen(rows, Angles(1e-3), centre=0.5)
    assert choice.kept == (0, 2, 4)
    assert [(removal.unit, removal.reason, removal.into) for removal in choice.removals] == [
        (1, "constant", ()),
        (3, "constant", ()),
    ]
    np.testing.assert_allclose(replaced(rows, choice), rows, atol=2e-8)
    assert chosen(rows, Angles(1e-3, constant=0.0), centre=0.5).kept == (0, 2, 3, 4)  # a zero vector goes always


def test_without_constants_only_zero_vectors_go() -> None:
    rows = stream(7, "angles").random((60, 4))
    rows[:, 1], rows[:, 2] = 0.0, 0.9
    choice = chosen(rows, Angles(1e-3), constants=False)
    assert choice.kept == (0, 2, 3)
    assert all(removal.constant == 0 for removal in choice.removals)
    assert "cannot take a constant" in choice.notes[0]


def test_short_units_go_as_their_mean() -> None:
    rows = stream(8, "angles").normal(0.5, 1.0, size=(300, 5))
    rows[:, 2] = 0.52 + 0.01 * (rows[:, 2] - 0.5)
    assert chosen(rows, Angles(1), centre=0.5).kept == (0, 1, 2, 3, 4)
    (removal,) = chosen(rows, Angles(1, short=0.1), centre=0.5).removals
    assert (removal.unit, removal.reason, removal.into) == (2, "short", ())
    assert removal.constant == pytest.approx(rows[:, 2].mean())


# How many are kept


def test_keeps_as_many_as_asked_for() -> None:
    rows = random_units(9, 30)
    whole = chosen(rows, Angles(60))
    assert len(whole.kept) < 10
    for keep in range(len(whole.kept), 31):
        choice = chosen(rows, Angles(60, order="cosine"), keep)
        assert len(choice.kept) == keep
        assert choice.removals == whole.removals[: 30 - keep]
        assert choice.notes == ()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), keep=st.integers(1, 11), complementary=st.sampled_from(["fold", "keep"]))
def test_by_effect_each_merge_is_the_cheapest_left(seed: int, keep: int, complementary: Any) -> None:
    """A slow version: all ordered pairs of units that are left, the least effect · sin first."""
    rows, reading = random_units(seed, 12), stream(seed, "reading").random(12) + 0.1
    gram = gram_of(rows, 0.0)
    option = Angles(80, order="effect", complementary=complementary, constant=0)
    choice = choose_by_angles("site", 12, gram, option, keep, reading=reading)
    cosines, effects = gram.cosines(), gram.lengths * reading
    left = set(range(12))
    for removal in choice.removals:
        losses = {
            (gone, into): effects[gone] * np.sqrt(1 - cosines[gone, into] ** 2)
            for gone in left
            for into in left - {gone}
            if (abs(cosines[gone, into]) if complementary == "fold" else cosines[gone, into]) > np.cos(np.radians(80))
        }
        assert losses[removal.unit, removal.into[0]] == pytest.approx(min(losses.values()), abs=1e-9)
        left.remove(removal.unit)
    assert len(left) == keep or choice.notes


def test_auto_order_is_the_papers_without_a_target_and_by_effect_with_one() -> None:
    rows, reading = random_units(3, 12), np.arange(1.0, 13.0)
    for keep, order in ((None, "cosine"), (5, "effect")):
        both = [
            choose_by_angles("s", 12, gram_of(rows, 0.0), Angles(60, order=word), keep, reading=reading)  # type: ignore[arg-type]
            for word in ("auto", order)
        ]
        assert both[0].removals == both[1].removals


def test_says_when_the_angle_ends_it_earlier() -> None:
    choice = chosen(np.eye(5), Angles(15), keep=2)
    assert choice.kept == (0, 1, 2, 3, 4)
    assert choice.notes == ("5 units are left, not 2: no other pair is within 15°",)


def test_constants_count_when_a_number_is_asked_for() -> None:
    rows = stream(10, "angles").random((30, 5))
    rows[:, :3] = [0.1, 0.2, 0.3]
    assert chosen(rows, Angles(1), keep=4).kept == (0, 1, 3, 4)


@pytest.mark.parametrize("keep", [0, 6, -1])
def test_refuses_to_keep_what_is_not_there(keep: int) -> None:
    with pytest.raises(UsageError, match=f"can keep 1 to 5 units, not {keep}"):
        chosen(np.eye(5), Angles(15), keep)


def test_refuses_a_gram_of_another_site() -> None:
    with pytest.raises(UsageError, match="has 4 units, but the Gram matrix has 3"):
        choose_by_angles("hidden", 4, gram_of(np.eye(3)), Angles(15))


# Against the sorted list of all pairs


def slow_choice(rows: Any, option: Angles, keep: int | None) -> list[tuple[int, ...]]:
    """The rules as they are written, pair by pair; the units of each step that go."""
    gram = gram_of(rows)
    listed = pairs(gram, option.angle)
    if option.order == "index":
        listed = tuple(sorted(listed, key=lambda pair: (pair.a, pair.b)))
    alive, gone, least = set(range(gram.units)), [], keep or 1
    for pair in listed:
        opposite = pair.kind == "complementary"
        if not {pair.a, pair.b} <= alive or (opposite and option.complementary == "keep"):
            continue
        units = (pair.b, pair.a) if opposite and option.complementary == "remove" else (pair.b,)
        if len(alive) - len(units) < least:
            continue
        alive -= set(units)
        gone += [(unit, *(() if len(units) == 2 else (pair.a,))) for unit in units]
    return gone


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    units=st.integers(2, 25),
    rank=st.integers(1, 4),
    twins=st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24), st.sampled_from([1, -1, 2])), max_size=6),
    angle=st.sampled_from([5.0, 15.0, 45.0, 90.0]),
    complementary=st.sampled_from(["fold", "remove", "keep"]),
    order=st.sampled_from(["cosine", "index"]),
    keep=st.one_of(st.none(), st.integers(1, 25)),
)
def test_sweep_is_that_over_the_sorted_list(
    *, seed: int, units: int, rank: int, twins: Any, angle: float, complementary: Any, order: Any, keep: int | None
) -> None:
    rows = random_units(seed, units, rank=rank)
    for source, position, factor in twins:
        rows[:, position % units] = factor * rows[:, source % units]
    option = Angles(angle, complementary=complementary, order=order)
    keep = None if keep is None else min(keep, units)
    choice = chosen(rows, option, keep)
    assert [(removal.unit, *removal.into) for removal in choice.removals] == slow_choice(rows, option, keep)


def test_sweep_over_several_strips() -> None:
    rows = random_units(11, 700, rank=6)
    option = Angles(25)
    choice = chosen(rows, option)
    assert 20 < len(choice.kept) < 690
    assert [(removal.unit, *removal.into) for removal in choice.removals] == slow_choice(rows, option, None)


# The option


def test_text_form_and_its_words() -> None:
    assert Method.parse("angles:15,centre=0.5,merge=none") == Angles(15, centre="0.5", merge="none")
    for option in (Angles(15), Angles(30, centre="none", merge="none"), Angles(45, centre="0.25", order="index")):
        assert Method.parse(str(option)) == option
        assert Method.from_dict(option.to_dict()) == option


@pytest.mark.parametrize("wrong", ["middle", "nan", "inf", "true"])
def test_refuses_other_centres(wrong: str) -> None:
    with pytest.raises(OptionError, match="centre must be"):
        Method.parse(f"angles:15,centre={wrong}")


@pytest.mark.parametrize("angle", [0, -1, 91])
def test_refuses_other_angles(angle: float) -> None:
    with pytest.raises(OptionError, match="angle must be"):
        Angles(angle)


class FakeContext:
    """Two sites: sigmoids with a bias to take constants, and ReLU channels whose readers take none."""

    def __init__(self) -> None:
        self.rows = {"first": stream(12, "angles").random((80, 3)), "second": stream(13, "angles").random((80, 2))}
        self.rows["first"][:, 2] = 1 - self.rows["first"][:, 0]
        self.rows["second"][:, 1] = 1 - self.rows["second"][:, 0]
        self.sites = (
            SimpleNamespace(name="first", units=3, activation="sigmoid", takes_constants=True, padded=False),
            SimpleNamespace(name="second", units=2, activation="relu", takes_constants=False, padded=False),
        )
        self.asked: Any = None

    def grams(self, centres: Any) -> dict[str, Gram]:
        self.asked = dict(centres)
        return {name: gram_of(rows, centres[name]) for name, rows in self.rows.items()}

    def reading_norms(self, site: Any) -> Any:
        return np.ones(site.units)


def test_method_looks_at_every_site_from_its_own_centre() -> None:
    context: Any = FakeContext()
    decision = Angles(5).choose(context, None)
    assert context.asked == {"first": 0.5, "second": 0.0}
    assert [choice.kept for choice in decision.choices] == [(0, 1), (0, 1)]
    assert "cannot take a constant" in decision.choices[1].notes[0]


def test_method_measures_from_the_mean_only_where_a_constant_can_go() -> None:
    context: Any = FakeContext()
    decision = Angles(5, centre="mean").choose(context, None)
    assert [choice.kept for choice in decision.choices] == [(0, 1), (0, 1)]
    assert decision.choices[0].removals[0].constant == pytest.approx(1.0)


def test_method_hands_on_how_many_to_keep() -> None:
    context: Any = FakeContext()
    decision = Angles(90).choose(context, {"first": 2, "second": 1})
    assert [len(choice.kept) for choice in decision.choices] == [2, 1]


@pytest.mark.parametrize("option", ["short", "constant"])
def test_shares_of_a_length_are_below_one(option) -> None:
    with pytest.raises(OptionError, match=option):
        Angles(15, **{option: 1.0})
