from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import torch

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.npz import NpzWeights


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "|i1", "<i8", "|b1", "<u2"])
def test_every_type_reads_back(save, dtype, tmp_path):
    values = np.array([[0, 1, 2], [3, 1, 0]]).astype(dtype)
    save(tmp_path / "m.npz", w=values, scalar=values[1, 0], fortran=np.asfortranarray(values))
    weights = NpzWeights(tmp_path / "m.npz")
    read = {name: weights._read(name) for name in weights.stored}
    assert np.array_equal(read["w"].numpy(), values)
    assert np.array_equal(read["fortran"].numpy(), values)
    assert read["fortran"].is_contiguous()
    assert read["scalar"].shape == ()
    assert read["scalar"].item() == values[1, 0]


def test_values_are_float32(tmp_path):
    np.savez(tmp_path / "m.npz", w=np.ones((2, 2), "f2"), big=np.ones(2, "f8"))
    weights = NpzWeights(tmp_path / "m.npz")
    assert (weights.tensor("w").dtype, weights.tensor("big").dtype) == (torch.float32, torch.float64)
    assert weights.entries["w"].dtype == "float16"


def test_what_is_no_number_is_named(tmp_path):
    record = np.zeros(2, [("a", "f4"), ("b", "i4")])
    np.savez(tmp_path / "m.npz", w=np.ones(2), text=np.array(["a", "b"]), record=record, complex=np.ones(2, "c8"))
    weights = NpzWeights(tmp_path / "m.npz")
    assert list(weights.entries) == ["w"]
    assert [item.name for item in weights.left_out] == ["text", "record", "complex"]


def test_an_empty_array_is_an_entry(tmp_path):
    np.savez(tmp_path / "m.npz", w=np.ones((0, 3), "f4"))
    assert NpzWeights(tmp_path / "m.npz").tensor("w").shape == (0, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"(2, 3)", b"(2, 3 "), (b"{", b"("), (b"}", b" "), (b"<f4", b"<f3"), (b"(2, 3)", b"((((((")],
)
def test_a_broken_header_is_refused_by_name(tmp_path, old, new):
    """The archive itself is sound: only the array in it is not."""
    file = io.BytesIO()
    np.save(file, np.ones((2, 3), "f4"))
    assert old in file.getvalue()
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("w.npy", file.getvalue().replace(old, new, 1))
    with pytest.raises(FileRefused, match=r"m\.npz: 'w\.npy' is not a NumPy array, or damaged"):
        NpzWeights(tmp_path / "m.npz")
