from __future__ import annotations

import io

import numpy as np
import pytest

from weightsmith.core.npy import Header, read_header, read_values


def stream(text: str, version: bytes = b"\1\0") -> io.BytesIO:
    content = text.encode("latin1")
    length = len(content).to_bytes(2 if version[0] == 1 else 4, "little")
    return io.BytesIO(b"\x93NUMPY" + version + length + content)


@pytest.mark.parametrize("code", ["<f4", ">f8", "|b1", "|u1", "<U3", "|S4", "<c16", "<M8[ns]", "<f2", ">i2"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4), (2, 1, 3)])
@pytest.mark.parametrize("fortran", [False, True])
def test_what_numpy_writes_reads_back(code, shape, fortran):
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape)).astype(code, order="F" if fortran else "C")
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    file.seek(0)
    header = read_header(file)
    assert (header.shape, header.dtype, header.objects) == (shape, np.dtype(code), False)
    read = read_values(file, header)
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)
    assert file.read() == b""


@pytest.mark.parametrize("version", [b"\1\0", b"\2\0", b"\3\0"])
def test_items_may_stand_in_any_order_and_longs_are_numbers(version):
    header = read_header(stream("{'shape': (3L, 2L), 'descr': '<f4', 'fortran_order': True}   \n", version))
    assert header == Header((3, 2), np.dtype("<f4"), True, False)


@pytest.mark.parametrize(("kind", "objects"), [("[('a', '<f4'), ('b', '|O')]", True), ("[('a', '<f4')]", False)])
def test_records_are_known_and_not_read(kind, objects):
    header = read_header(stream(f"{{'descr': {kind}, 'fortran_order': False, 'shape': (1,), }}"))
    assert header == Header((1,), None, False, objects)
    with pytest.raises(ValueError, match="no plain values"):
        read_values(io.BytesIO(b"1234"), header)


def test_objects_are_never_read():
    header = read_header(stream("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"))
    assert header.objects
    with pytest.raises(ValueError, match="no plain values"):
        read_values(io.BytesIO(b"cos\nsystem\n"), header)


SOUND = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), ",
        SOUND.replace("(3,)", "(3)"),
        SOUND.replace("(3,)", "(-3,)"),
        SOUND.replace("(3,)", "(3.0,)"),
        SOUND.replace("(3,)", "(" * 500),
        SOUND.replace("(3,)", f"({'1,' * 33})"),
        SOUND.replace("(3,)", "(3,) if 1 else 2"),
        SOUND.replace("False", "0"),
        SOUND.replace("<f4", "<f3"),
        SOUND.replace("<f4", "<U999999999"),
        SOUND.replace("<f4", "float32"),
        SOUND.replace("<f4", "f4,f4"),
        SOUND.replace("shape", "shapes"),
        SOUND.replace("'shape': (3,)", "'descr': '<f4'"),
        SOUND.replace(", }", ", 'moon': 1}"),
        SOUND.replace("'descr': '<f4', ", ""),
        "# " + SOUND,
        "{" * 9000,
    ],
)
def test_any_other_header_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"its header|it "):
        read_header(stream(text))


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUMPY", b"\x93NUMPY\4\0", b"PK\3\4", b"\x93NUMPY\2\0\xff\xff\xff\xff", b"\x93NUMPY\1\0\x20\0{"],
)
def test_any_other_beginning_is_a_value_error(content):
    with pytest.raises(ValueError, match="it "):
        read_header(io.BytesIO(content))


def test_values_that_are_cut_short_are_a_value_error():
    with pytest.raises(ValueError, match="cut short"):
        read_values(io.BytesIO(b"12345678"), Header((3,), np.dtype("<f4"), False, False))
