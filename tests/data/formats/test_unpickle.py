from __future__ import annotations

import collections
import contextlib
import os
import pickle
import struct
import subprocess
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats import unpickle
from weightsmith.data.formats.unpickle import read_pickle

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=9) | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.binary(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(plain, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_come_out_as_pickle_would_give_them(value, protocol):
    assert read_pickle(pickle.dumps(value, protocol=protocol), "f") == value


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_bytes(protocol, order):
    array = np.asarray(np.arange(12, dtype=np.uint8).reshape(3, 4), order=order)
    found = read_pickle(pickle.dumps({b"data": array, b"again": [array]}, protocol=protocol), "f")
    assert np.array_equal(found[b"data"], array)
    assert np.array_equal(found[b"again"][0], array)


def test_what_python_2_wrote(python2):
    batch = {b"labels": [6, 9, 300], b"data": np.arange(600, dtype=np.uint8).reshape(3, 200), b"x": b"y" * 300}
    written = python2.dumps(batch)
    reference = pickle.loads(written, encoding="bytes")  # the real thing agrees that this is such a pickle
    found = read_pickle(written, "f")
    assert found[b"labels"] == reference[b"labels"] == [6, 9, 300]
    assert np.array_equal(found[b"data"], reference[b"data"])
    assert found[b"x"] == reference[b"x"]


def test_ordered_dicts_become_dicts():
    assert read_pickle(pickle.dumps(collections.OrderedDict(a=1, b=2), protocol=2), "f") == {"a": 1, "b": 2}


class Runs:
    """Runs a command when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.system, subprocess.check_output, eval, exec, getattr, np.load, open])
def test_a_payload_is_refused_by_its_name_and_never_runs(canary, function, protocol):
    code = f"open({str(canary)!r}, 'w')" if function in (eval, exec) else f"touch {canary}"
    batch = {b"data": [0, 1], b"labels": [Runs(function, code)]}
    with pytest.raises(
        FileRefused, match=rf"f: the pickle asks for [\w.]*{function.__name__}; only plain data are read"
    ):
        read_pickle(pickle.dumps(batch, protocol=protocol), "f")


def test_the_payload_of_this_test_would_run_if_unpickled(tmp_path):
    """Otherwise the tests above would prove nothing."""
    flag = tmp_path / "flag"
    pickle.loads(pickle.dumps(Runs(os.system, f"touch {flag}")))
    assert flag.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02cos\nsystem\n.", "asks for os.system"),
        (b"\x80\x02cnumpy\nndarray\n.", "holds a name in place of a value"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "calls something that is not a known name"),
        (b"\x80\x02K\x01)R.", "calls something that is not a known name"),
        (b"\x80\x02(ios\nsystem\n.", "uses the opcode INST"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00utf8\x86R.", "written in an unknown way"),
        (b"\x80\x02]}b.", "sets the state of something that is neither"),
        (b"\x80\x02}K\x01a.", "appends to something that is not a list"),
        (b"\x80\x02]K\x01K\x02s.", "sets items of something that is not a dict"),
        (b"\x80\x02\x82\x01.", "uses the opcode EXT1"),
        (b"\x80\x02Pid\n.", "uses the opcode PERSID"),
        (b"\x80\x04\x8c\x02os\x8c\x08sys\ntem\x1b\x93.", r"asks for os.sys\ntem\x1b"),
        (b"\x80\x02]]\x81.", "uses the opcode NEWOBJ"),
        (b"", "damaged"),
        (b"garbage", "damaged"),
        (b"\x80\x02.", "damaged"),
        (b"\x80\x02e.", "damaged"),
        (b"\x80\x02h\x05.", "damaged"),
        (b"\x80\x02}]K\x01s.", "damaged"),
        (b"\x80\x02}(K\x01u.", "damaged"),
        (b"\x80\x02T\xff\xff\xff\x7fab", "damaged"),
    ],
)
def test_hostile_and_damaged_pickles_are_refused_in_one_line(content, message):
    with pytest.raises(FileRefused) as caught:
        read_pickle(content, "f")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def array_pickle(python2, shape: bytes, content: bytes, code: bytes = b"u1") -> bytes:
    kind = b"cnumpy\ndtype\nU\x02" + code + b"K\x00K\x01\x87R"
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return b"\x80\x02" + made + b"(K\x01" + shape + kind + b"\x89" + python2._write(content) + b"tb."


def test_an_array_that_claims_more_than_it_holds(python2):
    shape = b"\x8a\x08" + struct.pack("<q", 1 << 40) + b"\x85"
    tracemalloc.start()
    with pytest.raises(FileRefused, match=r"shape \(1099511627776,\) whose contents have another size"):
        read_pickle(array_pickle(python2, shape, b"abc"), "f")
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("code", [b"f4", b"O8", b"i8"])
def test_arrays_of_anything_but_bytes_are_refused(python2, code):
    with pytest.raises(FileRefused, match="not of unsigned bytes"):
        read_pickle(array_pickle(python2, b"K\x03\x85", b"abc", code), "f")


def test_an_array_without_contents():
    with pytest.raises(FileRefused, match="array without contents"):
        read_pickle(b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R.", "f")


def test_a_memo_index_takes_no_memory():
    """The C unpickler makes room for the index; here the memo is a dict."""
    assert read_pickle(b"\x80\x02K\x07r\xff\xff\xff\x7f.", "f") == 7


def test_too_many_steps_are_refused(monkeypatch):
    monkeypatch.setattr(unpickle, "_MOST_STEPS", 1000)
    with pytest.raises(FileRefused, match="more than 1,000 steps"):
        read_pickle(b"\x80\x02" + b"}" * 2000 + b".", "f")


@given(st.binary(max_size=60))
def test_random_bytes_never_do_more_than_be_refused(content):
    with contextlib.suppress(FileRefused):
        found = read_pickle(b"\x80\x02" + content + b".", "f")
        assert type(found) in (dict, list, tuple, bytes, str, int, float, bool, type(None), np.ndarray)
