from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._weights_only_unpickler import _get_allowed_globals

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.allowed import _ALLOWED, STORAGE_TYPES, allowed_name

PATH = Path("m.pt")


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
