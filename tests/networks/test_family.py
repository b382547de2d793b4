from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.records import Lineage
from weightsmith.networks.family import UNKNOWN, Family, Member, ancestry, family, one_line, short_digest

DIGESTS = st.sampled_from("abcdefgh")
MEMBERS = st.lists(
    st.builds(
        Member,
        DIGESTS,
        st.none() | DIGESTS,
        st.none() | st.sampled_from(["trained", "reduced"]),
        st.sampled_from(["", "one", "two"]),
    ),
    max_size=14,
)


def test_shared_ancestors_are_drawn_once():
    start = Lineage("initialised").then("trained", "a" * 64)
    small, spiking = start.then("reduced", "b" * 64), start.then("spike lif", "b" * 64)
    members = [*ancestry("c" * 64, small, "small"), *ancestry("d" * 64, spiking, "snn"), Member("e" * 64, name="other")]
    assert family(members).lines() == [
        "aaaaaaaaaaaa  initialised",
        "└── bbbbbbbbbbbb  trained",
        "    ├── cccccccccccc  reduced  small",
        "    └── dddddddddddd  spike lif  snn",
        "eeeeeeeeeeee  other",
    ]


def test_lines_run_past_the_descendants_of_elder_children():
    members = [Member(*text.split(), "made") for text in ("b a", "c b", "d c", "e b", "f a", "g f")]
    assert family(members).lines(lambda kin: kin.network, plain=True) == [
        "a",
        "|-- b",
        "|   |-- c",
        "|   |   `-- d",
        "|   `-- e",
        "`-- f",
        "    `-- g",
    ]


def test_a_parent_nobody_brought_has_a_place_of_its_own():
    drawn = family([Member("b", "a", "reduced"), Member("c", "a", "smoothed")])
    assert [(kin.network, kin.parent, kin.depth, kin.operations) for kin in drawn.kin] == [
        ("a", None, 0, ()),
        ("b", "a", 1, ("reduced",)),
        ("c", "a", 1, ("smoothed",)),
    ]
    assert drawn.lines()[0] == "a  not among the files"
    assert [kin.network for kin in drawn.roots] == ["a"]


def test_the_same_weights_are_one_network_with_all_their_names():
    members = [Member("a", None, "trained", "x"), Member("a", "a", "reduced", "y"), Member("a", None, "trained", "x")]
    (only,) = family(members).kin
    assert (only.operations, only.names, only.parent, only.also_from) == (("trained", "reduced"), ("x", "y"), None, ())


def test_the_first_of_several_parents_counts_and_the_others_are_reported():
    drawn = family([Member("c", "a", "averaged"), Member("c", "b", "averaged")])
    kin = {each.network: each for each in drawn.kin}
    assert (kin["c"].parent, kin["c"].also_from) == ("a", ("b",))
    assert "(also from b)" in kin["c"].label


def test_a_circle_is_cut_above_its_first_member():
    drawn = family(
        [Member("x", "b", "leaf"), Member("a", "c", "one"), Member("b", "a", "two"), Member("c", "b", "three")]
    )
    assert [(kin.network, kin.depth) for kin in drawn.kin] == [("b", 0), ("x", 1), ("c", 1), ("a", 2)]
    assert drawn.kin[0].also_from == ("a",)


def test_where_a_circle_is_entered_does_not_matter():
    drawn = family([Member("x", "p"), Member("b", "a"), Member("p", "a"), Member("a", "b")])
    assert [(kin.network, kin.depth) for kin in drawn.kin] == [("b", 0), ("a", 1), ("p", 2), ("x", 3)]


@given(MEMBERS)
def test_whatever_is_claimed_becomes_a_forest_of_everyone(members):
    drawn = family(members)
    named = {member.network for member in members} | {m.parent for m in members if m.parent is not None}
    assert sorted(kin.network for kin in drawn.kin) == sorted(named)
    above: list[str] = []
    for kin in drawn.kin:
        assert kin.depth <= len(above)
        above = above[: kin.depth]
        assert kin.parent == (above[-1] if above else None)
        above.append(kin.network)
        claims = {m.parent for m in members if m.network == kin.network} - {None, kin.network}
        assert claims == {kin.parent, *kin.also_from} - {None}
    assert Family.from_json(drawn.to_json()) == drawn


@given(MEMBERS)
def test_the_drawing_tells_the_parents(members):
    """An independent reader of the drawing: the parent is the last line above that begins one step further left."""
    drawn = family(members)
    lines = drawn.lines(lambda kin: kin.network)
    for index, (kin, line) in enumerate(zip(drawn.kin, lines, strict=True)):
        column = len(line) - 1
        if column:
            assert line[column - 4 : column] in ("├── ", "└── ")
            parent = next(above for above in reversed(lines[:index]) if len(above) - 1 < column)
            assert parent[-1] == kin.parent
            below = next((under for under in lines[index + 1 :] if len(under) - 1 <= column), "")
            # A branch goes on if and only if a sibling follows before anything further left.
            assert (line[column - 4] == "├") == (len(below) - 1 == column)
        else:
            assert kin.parent is None


def test_a_long_line_of_ancestors_takes_bounded_lines():
    lines = family(Member(str(number), str(number - 1), "op") for number in range(1, 20_000)).lines()
    assert len(lines) == 20_000
    assert max(map(len, lines)) < 130
    assert lines[-1].startswith("⋯ ")
    assert not lines[20].startswith("⋯ ")


def test_ancestors_without_digest_are_unknown_and_stay_apart():
    lineage = Lineage("c", None, (Lineage("a"), Lineage("b")))
    members = ancestry("me", lineage, "n")
    assert [member.operation for member in members] == ["a", "b", "c"]
    assert len({member.network for member in members}) == 3
    assert members[0].network.startswith(UNKNOWN)
    assert family(members).lines() == ["unknown  a", "└── unknown  b", "    └── me  c  n"]


def test_no_lineage_is_a_member_alone():
    assert ancestry("d" * 64, None, "file") == (Member("d" * 64, name="file"),)


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred", "x\u202ey", "\x00", "tab\there", "a" * 10_000, "\u2028"])
def test_hostile_texts_stay_in_their_line(text):
    drawn = family([Member(text, text + "p", text, text)])
    for line in (*drawn.lines(), one_line(text), short_digest(text)):
        assert line.isprintable()
        assert len(line) < 700
