from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._weights_only_unpickler import _get_allowed_globals

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.pickles import _ALLOWED, STORAGE_TYPES, Storage, StoredTensor, allowed_name, describe

PATH = Path("m.pt")


def pickled(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return archive.read("archive/data.pkl")


def described(content: bytes) -> object:
    return describe(io.BytesIO(content), PATH)[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=12,
)


@given(values)
def test_plain_values_are_described_as_they_are(value):
    assert described(pickle.dumps(value, 2)) == value


def test_a_tensor_is_a_note_of_where_it_lies():
    base = torch.zeros(4, 6)
    found, storages = describe(io.BytesIO(pickled({"w": base[1:3, ::2], "s": torch.tensor(1)})), PATH)
    storage = Storage("0", torch.float32, 24)
    assert found["w"] == StoredTensor(storage, torch.float32, 6, (2, 3), (6, 2))
    assert found["s"].shape == ()
    assert storages == {"0": storage, "1": Storage("1", torch.int64, 1)}


@pytest.mark.parametrize("change", [(b"QK\x00", b"QK\x01"), (b"K\x06K\x01\x86", b"K\x07K\x01\x86")])
def test_a_view_may_not_reach_beyond_its_storage(change):
    """As many values as the storage has, but at offset one, or with wider strides."""
    content = pickled({"w": torch.zeros(4, 6)})
    assert change[0] in content
    with pytest.raises(FileRefused, match="a view of only 96 bytes"):
        described(content.replace(*change, 1))


def test_new_types_lie_in_untyped_storages():
    found = described(pickled({"w": torch.zeros(3, 2, dtype=torch.uint16)}))
    assert found["w"].dtype == torch.uint16
    assert found["w"].count == 6


def test_what_torch_writes_besides_tensors():
    content = OrderedDict(size=torch.Size([2, 3]), kind=torch.float16, device=torch.device("cpu"), n=Counter([1, 1]))
    content._metadata = {"": {"version": 1}}
    found = described(pickled(content))
    assert found["size"] == (2, 3)
    assert found["n"] == {1: 2}
    assert list(found) == ["size", "kind", "device", "n"]


class Asks:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> object:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "function", [print, getattr, io.open, torch.load, torch.nn.Linear, torch._utils._rebuild_sparse_tensor]
)
def test_names_that_are_not_on_the_list(function, protocol):
    content = pickle.dumps({"x": Asks(function, "a")}, protocol)
    names = [
        arg for op, arg, _ in pickletools.genops(content) if op.name in ("GLOBAL", "SHORT_BINUNICODE", "BINUNICODE")
    ]
    assert names
    with pytest.raises(FileRefused) as caught:
        described(content)
    reason = caught.value.reason
    assert "asks for" in reason if protocol else "opcode" in reason or "asks for" in reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x02", "cut off"),
        (b"\x80\x02.", "cut off"),
        (b"\x80\x02(t", "cut off"),
        (b"\x80\x02h\x05.", "cut off"),
        (b"\x80\x02}K\x01s.", "cut off"),
        (b"\x80\x02K\x01K\x02a.", "cut off"),
        (b"\x80\x02K\x01)R.", "calls something"),
        (b"\x80\x02K\x01}b.", "sets attributes"),
        (b"\x80\x02K\x01Q.", "not a storage"),
        (b"\x80\x02ctorch\nfloat32\n)R.", "calls 'float32'"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (b"\x80\x02)\x81.", "cut off"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_pickles_no_torch_writes(content, reason):
    with pytest.raises(FileRefused, match=reason):
        described(content)


def test_too_many_opcodes(monkeypatch):
    monkeypatch.setattr("weightsmith.networks.readers.pickles._MOST_OPCODES", 1000)
    assert described(pickle.dumps([None] * 900, 2)) == [None] * 900
    with pytest.raises(FileRefused, match="more than 1,000 opcodes"):
        described(pickle.dumps([None] * 1100, 2))


def test_a_storage_has_one_size():
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK%ctQ"
    content = b"\x80\x02(" + (storage % 4) + (storage % 5) + b"t."
    with pytest.raises(FileRefused, match="two different sizes"):
        described(content)


def test_hooks_on_a_tensor_are_refused():
    content = pickled({"w": torch.zeros(2)})
    hooked = content.replace(b"\x89ccollections\nOrderedDict\nq", b"\x89]K\x01aq", 1)
    assert hooked != content
    start, end = hooked.index(b"\x89]K\x01a"), hooked.index(b"t", hooked.index(b"\x89]K\x01a"))
    hooked = hooked[: start + 5] + hooked[end:]
    with pytest.raises(FileRefused, match="hooks"):
        described(hooked)


def test_the_list_is_shorter_than_that_of_torch():
    """Nothing is allowed here that ``weights_only=True`` would refuse, but for storages on other devices."""
    here = {name for name in _ALLOWED if not name.startswith("torch.cuda.")}
    assert here < set(_get_allowed_globals())
    open_there = {"builtins.bytearray", "_codecs.encode", "torch._tensor._rebuild_from_type_v2", "torch.Tensor"}
    assert not open_there & here


def test_storages_have_the_type_torch_gives_them():
    for name, dtype in STORAGE_TYPES.items():
        assert torch.serialization.StorageType(name).dtype == dtype


@pytest.mark.parametrize("name", ["collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch float16"])
def test_names_weights_need(name):
    assert allowed_name(PATH, *name.split()) == name.replace(" ", ".")


@pytest.mark.parametrize(
    ("module", "name", "way_out"),
    [
        ("os", "system", False),
        ("builtins", "eval", False),
        ("torch", "load", False),
        ("torch._utils", "_rebuild_sparse_tensor", False),
        ("collections", "OrderedDict.fromkeys", True),
        ("__main__", "Net", True),
        ("torch.nn.modules.linear", "Linear", True),
        ("numpy.core.multiarray", "scalar", True),
    ],
)
def test_names_weights_never_need(module, name, way_out):
    with pytest.raises(FileRefused) as caught:
        allowed_name(PATH, module, name)
    assert f"asks for '{module}.{name}'" in caught.value.reason
    assert ("state_dict()" in caught.value.reason) == way_out


def test_a_name_is_not_pieced_together():
    with pytest.raises(FileRefused, match="asks for"):
        allowed_name(PATH, "torch._utils._rebuild_tensor_v2", "__globals__")
    with pytest.raises(FileRefused, match="asks for"):
        allowed_name(PATH, "", "collections.OrderedDict")
