from __future__ import annotations

import base64
import dataclasses
import enum
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.records import Lineage, Origin, Record, digest_of, unsealed, versions, write_record


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Paint(Option):
    """A family."""


class Oil(Paint, name="oil"):
    """A member."""

    coats: int = param(default=1, ge=1)


@dataclasses.dataclass(frozen=True, eq=False)
class Leaf(Record):
    value: float
    label: str | int = "x"


@dataclasses.dataclass(frozen=True, eq=False)
class Everything(Record):
    whole: int
    number: float | None
    flag: bool
    text: str
    colour: Colour
    paint: Paint
    leaf: Leaf | None
    leaves: tuple[Leaf, ...]
    pair: tuple[int, str]
    table: dict[str, tuple[float, ...]]
    matrix: np.ndarray


finite = st.floats(allow_nan=False, allow_infinity=False)
leaves = st.builds(Leaf, finite, st.text() | st.integers())
everything = st.builds(
    Everything,
    st.integers(),
    st.none() | finite,
    st.booleans(),
    st.text(),
    st.sampled_from(Colour),
    st.builds(Oil, st.integers(1, 9)),
    st.none() | leaves,
    st.lists(leaves, max_size=3).map(tuple),
    st.tuples(st.integers(), st.text()),
    st.dictionaries(st.text(), st.lists(finite, max_size=3).map(tuple), max_size=3),
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_]),
        arrays.array_shapes(min_dims=0, min_side=0),
    ).filter(lambda array: bool(np.isfinite(array).all())),
)


@given(everything)
def test_the_json_round_trip_is_exact(record):
    copy = Everything.from_json(record.to_json())
    assert copy == record
    assert copy.to_json() == record.to_json()
    assert copy.digest() == record.digest()
    assert isinstance(copy.paint, Oil)
    assert copy.colour is record.colour
    assert copy.matrix.dtype == record.matrix.dtype
    assert copy.matrix.tobytes() == record.matrix.tobytes()
    assert type(copy.leaves) is tuple


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float32("nan")])
def test_a_number_that_is_none_is_refused_by_field(bad):
    with pytest.raises(UsageError, match=r"Leaf\.value is"):
        Leaf(bad).to_dict()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"value": 1, "colour": 2}', "Leaf has no field 'colour'"),
        ("{}", "Leaf needs the field 'value'"),
        ('{"value": "1"}', "Leaf.value must be a number, not '1'"),
        ('{"value": true}', "Leaf.value must be a number, not True"),
        ('{"value": 1, "label": 1.5}', "Leaf.label is 1.5"),
        ("[1]", "Leaf is written as an object"),
    ],
)
def test_wrong_json_is_named(text, message):
    with pytest.raises(UsageError) as caught:
        Leaf.from_json(text)
    assert message in str(caught.value)


def test_something_that_is_no_value_is_refused():
    with pytest.raises(UsageError, match=r"Leaf\.value is a object"):
        Leaf(object()).to_dict()


def test_records_are_frozen_and_compare_by_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Leaf(1.0).value = 2.0
    assert Leaf(1.0) == Leaf(1.0) != Leaf(2.0)
    assert len({Leaf(1.0), Leaf(1.0), Leaf(2.0)}) == 2
    assert Leaf(1.0) != "Leaf"


def test_lineage_grows_by_one_step_at_a_time():
    first = Lineage("initialised")
    third = first.then("trained", "aaa").then("reduced", "bbb")
    assert (third.operation, third.parent) == ("reduced", "bbb")
    assert [(a.operation, a.parent) for a in third.ancestors] == [("initialised", None), ("trained", "aaa")]
    assert Lineage.from_json(third.to_json()) == third


def test_origin_tells_the_versions():
    origin = Origin(seed=3, inputs={"network": "abc"})
    assert set(origin.versions) == {"weightsmith", "numpy", "torch"}
    assert "scipy" in versions("scipy")
    assert json.loads(origin.to_json())["seed"] == 3


def test_digests_tell_type_shape_and_value_apart():
    a = np.arange(6.0)
    digests = {digest_of(x) for x in (a, a.reshape(2, 3), a.astype(np.float32), a + 1, "a", b"b")}
    assert len(digests) == 6
    assert digest_of(a[::2]) == digest_of(a[::2].copy())
    assert len({digest_of(x) for x in (np.zeros(()), np.zeros(0), np.zeros((0, 3)), np.zeros(1))}) == 4


def test_equal_records_have_equal_digests_and_hashes():
    whole, real = Leaf(1), Leaf(1.0)
    assert whole == real
    assert whole.digest() == real.digest()
    assert len({whole, real}) == 1
    assert Leaf.from_json(whole.to_json()).digest() == whole.digest()
    one, other = (Origin(1, dict(pairs), {}) for pairs in ([("a", "x"), ("b", "y")], [("b", "y"), ("a", "x")]))
    assert one == other
    assert len({one, other}) == 1


@dataclasses.dataclass(frozen=True, eq=False)
class Loose(Record):
    content: dict[str, Any]
    either: float | str = 0.0
    matrix: np.ndarray | None = None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"content": {1: "a"}}, "has the key 1: keys are text"),
        ({"content": {}, "matrix": np.array([1.0, np.nan])}, "holds NaN or infinity"),
        ({"content": {}, "matrix": np.array(["a"], dtype=object)}, "an array of object"),
        ({"content": {}, "matrix": np.array([1.0], dtype=np.complex128)}, "an array of complex128"),
        ({"content": {"oil": float("inf")}}, "is inf"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(values, message):
    with pytest.raises(UsageError, match=message):
        Loose(**values).to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"content": {}, "either": NaN}', "NaN is not a number"),
        ('{"content": {}, "matrix": [1]}', "must be an array"),
        ('{"content": 3}', "must be an object"),
    ],
)
def test_json_that_is_no_record_is_named(text, message):
    with pytest.raises(UsageError, match=message):
        Loose.from_json(text)


@dataclasses.dataclass(frozen=True, eq=False)
class Typed(Record):
    rows: NDArray[np.int64]
    shares: NDArray[np.float32] | None = None


EIGHT = base64.b64encode(bytes(8)).decode()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ({"dtype": "f4,("}, "must be numbers of a known type, not 'f4,\\('"),  # a SyntaxError in NumPy
        ({"dtype": "<f8\n"}, "must be numbers of a known type"),
        ({"dtype": "(1,)<i8"}, "must be numbers of a known type"),
        ({"dtype": "|O"}, "must be numbers of a known type"),
        ({"dtype": "<M8[s]"}, "must be numbers of a known type"),
        ({"dtype": "<c8"}, "must be numbers of a known type"),
        ({"dtype": ["<i8"]}, "must be numbers of a known type"),
        ({"dtype": None}, "must be numbers of a known type"),
        ({"shape": 1}, "must be an array with a length along each axis"),
        ({"shape": "1"}, "must be an array with a length along each axis"),
        ({"shape": [-1]}, "must be an array with a length along each axis"),
        ({"shape": [True]}, "must be an array with a length along each axis"),
        ({"shape": [1.0]}, "must be an array with a length along each axis"),
        ({"shape": [1] * 33}, "must be an array with a length along each axis"),
        ({"shape": [2]}, "must be 1 numbers, not \\[2\\]"),
        ({"shape": [10**12, 10**12]}, "must be 1 numbers"),
        ({"base64": EIGHT + "!"}, "is not base64"),
        ({"base64": "ä"}, "is not base64"),
        ({"base64": 8}, "must be an array in base64"),
        ({"base64": EIGHT[:-4]}, "must be 0 numbers"),
        ({"dtype": "<f8"}, "must be an array of integer numbers, not '<f8'"),
        ({"more": 1}, "must be an array, not"),
    ],
)
def test_an_array_that_was_not_written_here_never_reaches_numpy(array, message):
    written = {"dtype": "<i8", "shape": [1], "base64": EIGHT}
    assert Typed.from_dict({"rows": written}).rows.tolist() == [0]
    with pytest.raises(UsageError, match=rf"Typed\.rows {message}"):
        Typed.from_dict({"rows": {**written, **array}})


@given(st.text(max_size=12) | st.sampled_from(["<i8", "|b1", ">f4"]).flatmap(lambda kind: st.just(kind + ",")))
def test_no_text_as_a_type_breaks_the_reader(kind):
    try:
        Typed.from_dict({"rows": {"dtype": kind, "shape": [1], "base64": EIGHT}})
    except UsageError:
        return
    assert kind in ("<i8", ">i8", "<u8", ">u8")


def test_whole_numbers_of_another_width_are_whole_numbers_and_truth_is_0_or_1():
    rows = np.array([1, 2], np.uint16)
    assert Typed.from_json(Typed(rows).to_json()).rows.dtype == np.uint16
    truth = Loose({}, matrix=np.array([True, False])).to_dict()
    assert Loose.from_dict(truth).matrix.tolist() == [True, False]
    truth["matrix"]["base64"] = base64.b64encode(b"\x02\x00").decode()
    with pytest.raises(UsageError, match=r"Loose\.matrix must be truth values"):
        Loose.from_dict(truth)


def test_a_whole_number_is_read_where_a_number_or_text_is_wanted():
    assert Loose.from_json('{"content": {}, "either": 1}').either == 1.0
    assert Loose({"flag": np.bool_(True)}).to_dict()["content"] == {"flag": True}


def test_a_record_file_with_one_flipped_bit_is_never_taken_for_another_record(tmp_path):
    record = Origin(7, {"data": "a" * 16, "network": "é"}, {"torch": "2.13.0", "rate": "1e-05"})
    path = write_record(tmp_path / "record.json", record)
    content = path.read_bytes()
    assert Origin.from_json(content.decode()) == record
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((UsageError, ValueError)):  # ValueError: neither UTF-8 nor JSON any more
            Origin.from_json(changed.decode())


def test_files_without_a_digest_are_older_and_read_and_an_edited_one_is_refused(tmp_path):
    record = Origin(7, {}, {})
    assert Origin.from_json(record.to_json(indent=1) + "\n") == record
    path = write_record(tmp_path / "record.json", record)
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 8'))
    with pytest.raises(UsageError, match="changed after it was written"):
        Origin.from_json(path.read_text())
    assert unsealed([1, 2]) == [1, 2]
