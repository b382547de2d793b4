from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from typing import Literal, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weightsmith.networks
import weightsmith.training.transfer  # noqa: F401  (so that every option object of the package is defined)
from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.options import Option, field_hints, is_union, param, without_none
from weightsmith.core.text import read_value


class Tool(Option):
    """A family."""


class Saw(Tool, name="saw"):
    """A member with every kind of parameter."""

    teeth: int = param(ge=1, le=100)
    angle: float = param(default=15.0, gt=0, lt=90)
    kind: Literal["rip", "cross"] = param(default="rip")
    owner: str | None = param(default=None)
    sharp: bool = param(default=True)
    notches: tuple[float, ...] = param(default=(), ge=0)


class Chain(Tool, name="chain"):
    """A member whose first parameter takes all plain values."""

    links: tuple[int, ...] = param(ge=1, min_length=1)
    label: str = param(default="none yet")


def test_a_member_passes_and_text_is_read():
    saw = Saw(8)
    assert Tool.of(saw) is saw
    assert Tool.of("saw:8") == saw
    with pytest.raises(OptionError, match=r"^tool must be one of saw, chain, .*\(an object or its text form\), not 8$"):
        Tool.of(8)


def families(root=Option):
    return [family for family in root.__subclasses__() if family.__module__.startswith("weightsmith")]


@pytest.mark.parametrize(
    "text", ["saw:8,30,kind=cross", "saw:8,angle=30.0,kind=cross", " saw : 8 , 30 , kind = cross "]
)
def test_plain_and_named_values_mean_the_same(text):
    assert Tool.parse(text) == Saw(8, 30.0, "cross")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("saw", "saw needs teeth"),
        ("saw:0", "teeth must be ≥ 1, not 0"),
        ("saw:101", "teeth must be ≤ 100, not 101"),
        ("saw:8,90", "angle must be < 90, not 90"),
        ("saw:8,0", "angle must be > 0, not 0"),
        ("saw:8,nan", "must be a number"),
        ("saw:1.5", "teeth must be a whole number, not 1.5"),
        ("saw:true", "teeth must be a whole number, not True"),
        ("saw:8,kind=bow", "kind must be one of rip, cross, not 'bow'"),
        ("saw:8,sharp=1", "sharp must be true or false, not 1"),
        ("saw:8,notches=[1,-1]", "notches must be ≥ 0, not -1"),
        ("saw:8,teeth=9", "teeth is given twice"),
        ("saw:8,tooth=9", "did you mean 'teeth'?"),
        ("saw:8,kind=rip,30", "must come before the named ones"),
        ("saw:8,,9", "a value is missing between two commas"),
        ("saw:8,kind=", "kind has no value"),
        ("saw:8,notches=[1", "does not close"),
        ('saw:8,owner="x', "does not close"),
        ("saw:8,30,rip,me,true,[],1", "takes at most 6 plain values"),
        ("saw:" + "9" * 5000, "has 5000 digits"),
        ("saw:8,1" + "0" * 400, "too large for a floating-point number"),
        ("saw:8,notches=" + "[" * 3000, "does not close"),
        ("chain", "chain needs links"),
        ("chain:links=[]", "needs at least 1 value"),
    ],
)
def test_every_wrong_text_is_named(text, message):
    with pytest.raises(OptionError, match=".*") as caught:
        Tool.parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_table_of_a_member_names_types_and_defaults_in_words():
    rows = {row["name"]: (row["type"], row["default"]) for row in Saw.table()}
    assert rows == {
        "teeth": ("a whole number", "required"),
        "angle": ("a number", "15.0"),
        "kind": ("rip | cross", "rip"),
        "owner": ("text or none", "none"),
        "sharp": ("true or false", "true"),
        "notches": ("several of a number", "[]"),
    }


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'saw'"):
        Tool.parse("saww:1")


def test_numpy_numbers_are_numbers_and_become_plain_ones():
    saw = Saw(np.int64(3), np.float32(0.5))
    assert (type(saw.teeth), type(saw.angle)) == (int, float)


def test_parameters_given_by_name_only_are_not_filled_by_plain_values():
    assert Tool.parse("beads:3,4,shared=x") == Beads((3, 4), shared="x")
    assert [row["name"] for row in Beads.table()] == ["sizes", "shared"]
    with pytest.raises(TypeError):
        Beads((1,), "x")


def test_a_member_must_have_what_its_family_demands():
    class Engine(Option):
        @abstractmethod
        def start(self):
            """What every engine does."""

    class Dead(Engine, name="dead"):
        """A member that does not."""

    with pytest.raises(TypeError, match="abstract"):
        Dead()


def test_two_members_cannot_share_a_name_and_every_member_has_one():
    with pytest.raises(TypeError, match="two options are called 'saw'"):

        class Saw2(Tool, name="saw"):
            """Another."""

    with pytest.raises(TypeError, match="needs name="):

        class Nameless(Tool):
            """Nobody."""


def test_running_a_cell_again_replaces_the_class():
    def cell():
        class Again(Tool, name="again"):
            """Defined twice, as in a notebook."""

        return Again

    cell()
    newest = cell()
    assert Tool.parse("again") == newest()


def test_literals_become_the_value_that_is_listed():
    class Level(Tool, name="level"):
        """A member with a number to choose from."""

        grade: Literal[5, 9] = param()

    assert [type(Level(given).grade) for given in (5, 5.0, np.int64(5))] == [int] * 3


def test_the_first_parameter_takes_all_plain_values_also_when_it_may_be_none():
    class Maybe(Tool, name="maybe"):
        """A member whose several values are optional."""

        sizes: tuple[int, ...] | None = param(default=None, ge=1)

    for option in (Maybe(), Maybe((1, 2)), Maybe(())):
        assert Tool.parse(str(option)) == option


def test_options_are_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Saw(1).teeth = 2
    assert len({Saw(1), Saw(1), Saw(2)}) == 2


saws = st.builds(
    Saw,
    st.integers(1, 100),
    st.floats(0, 90, exclude_min=True, exclude_max=True),
    st.sampled_from(["rip", "cross"]),
    st.none() | st.text(),
    st.booleans(),
    st.lists(st.floats(0, allow_nan=False, allow_infinity=True), max_size=4).map(tuple),
)


class Beads(Tool, name="beads"):
    """A member whose plain values have a default and may be none at all."""

    sizes: tuple[int, ...] = param(default=(1, 2), ge=0)
    shared: str | None = param(default=None, kw_only=True)


beads = st.builds(Beads, st.lists(st.integers(0), max_size=3).map(tuple), shared=st.none() | st.text())


@given(saws | beads | st.builds(Chain, st.lists(st.integers(1), min_size=1).map(tuple), st.text()))
def test_text_and_json_forms_give_the_same_object_back(option):
    assert Tool.parse(str(option)) == option
    finite = all(math.isfinite(x) for x in getattr(option, "notches", ()))
    assert Tool.from_dict(option.to_dict()) == option or not finite


@pytest.mark.parametrize("member", [m for f in families() for m in f.members.values()], ids=lambda m: m.name)
def test_ranges_are_checked_for_every_option_of_the_package(member):
    """One walk over all option objects: each bound is enforced, each parameter is in the table, each is documented."""
    assert member.__doc__
    rows = {row["name"]: row for row in member.table()}
    required = {
        f.name: (2,) * max(1, f.metadata["range"].min_length)
        if "several" in rows[f.name]["type"]
        else _allowed(rows[f.name])
        for f in dataclasses.fields(member)
        if f.default is dataclasses.MISSING
    }
    for field in dataclasses.fields(member):
        bounds = field.metadata["range"]
        for bad in [b - 1 for b in (bounds.ge, bounds.gt) if b is not None] + [
            b + 1 for b in (bounds.le, bounds.lt) if b is not None
        ]:
            with pytest.raises(OptionError, match=field.name):
                member(**{**required, field.name: int(bad) if math.isfinite(bad) else bad})
        with pytest.raises(OptionError, match=field.name):
            member(**{**required, field.name: object()})


def _allowed(row):
    number = 0.5 if row["range"].endswith("< 1") else 1.0
    kinds = {"a whole number": 20, "a number": number, "text": "x", "true or false": True}
    first = row["type"].split(" | ")[0]
    return kinds[first] if first in kinds else read_value(first)


@dataclasses.dataclass
class Base:
    a: int
    b: Optional[str] = None  # noqa: UP045


@dataclasses.dataclass
class Derived(Base):
    c: tuple[Base, ...] = ()


def test_hints_are_resolved_in_field_order_with_inherited_ones():
    hints = field_hints(Derived)
    assert list(hints) == ["a", "b", "c"]
    assert hints["c"] == tuple[Base, ...]
    assert is_union(hints["b"])
    assert is_union(int | None)
    assert not is_union(int)
    assert without_none(hints["b"]) == [str]
