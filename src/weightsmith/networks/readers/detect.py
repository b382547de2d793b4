"""Detect the format of a weight file by its first bytes, and by its suffix only if a format has no magic number."""

from __future__ import annotations

from pathlib import Path

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.ranges import file_size, read_bytes, shown
from weightsmith.networks.weights import Weights

__all__ = ["TORCH_SUFFIXES", "WEIGHT_SUFFIXES", "open_file", "open_path"]

TORCH_SUFFIXES = (".pt", ".pth", ".th", ".bin", ".tar", ".ckpt")
WEIGHT_SUFFIXES = (".safetensors", *TORCH_SUFFIXES, ".onnx", ".keras", ".h5", ".hdf5", ".npz")

_HDF5 = b"\x89HDF\r\n\x1a\n"

# Other files that are often mistaken for weight files, and what to do instead.
_STRANGERS = (
    (b"\x89PNG", "is a PNG image, not weights"),
    (b"\xff\xd8\xff", "is a JPEG image, not weights"),
    (b"GIF8", "is a GIF image, not weights"),
    (b"%PDF", "is a PDF document, not weights"),
    (b"\x1f\x8b", "is compressed with gzip: unpack it first"),
    (b"BZh", "is compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ", "is compressed with xz: unpack it first"),
    (b"7z\xbc\xaf", "is a 7z archive: unpack it first"),
    (b"\x7fELF", "is a program, not weights"),
    (b"MZ\x90", "is a program, not weights"),
    (b"GGUF", "is a GGUF file, which is not read: use the safetensors files it was made from"),
    (b"version https://git-lfs", "is a Git LFS pointer, not the file itself: fetch it with git lfs pull"),
    (b"<!DOCTYPE", "is a web page, not weights: the download went wrong"),
    (b"<html", "is a web page, not weights: the download went wrong"),
    (b"PAR1", "is a Parquet table, not weights"),
)


def open_path(path: Path) -> Weights:
    """Open a file or a folder."""
    from weightsmith.networks.readers.sharded import open_folder, open_index

    if "\0" in str(path):
        raise FileRefused(path, "no file can have a name with a null character")
    with reading(path):
        is_folder = path.is_dir()
    if is_folder:
        return open_folder(path)
    if path.name.endswith(".index.json"):
        return open_index(path)
    return open_file(path)


def open_file(path: Path) -> Weights:
    """Open one file by its content."""
    length = file_size(path)
    if length == 0:
        raise FileRefused(path, "is empty")
    head = read_bytes(path, 0, min(length, 512))
    for mark, reason in _STRANGERS:
        if head.lstrip().startswith(mark) if mark.startswith(b"<") else head.startswith(mark):
            raise FileRefused(path, reason)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _open_zip(path)
    if head.startswith(_HDF5):
        from weightsmith.networks.readers.kerasfile import KerasWeights

        return KerasWeights(path)
    if head[257:262] == b"ustar":
        raise FileRefused(path, "is a tar archive: unpack it first")
    suffix = path.suffix.lower()
    if suffix == ".safetensors" or (head[8:9] == b"{" and head[4:8] == bytes(4)):
        from weightsmith.networks.readers.safetensors import SafetensorsWeights

        return SafetensorsWeights(path)
    if suffix in TORCH_SUFFIXES or head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        from weightsmith.networks.readers.torchfile import LegacyTorchWeights

        return LegacyTorchWeights(path)
    if suffix == ".onnx":
        from weightsmith.networks.readers.onnxfile import OnnxWeights

        return OnnxWeights(path)
    if suffix in (".npz", ".keras", ".h5", ".hdf5"):
        raise FileRefused(path, f"is not a {suffix} file, or damaged: it begins with {shown(head[:8])}")
    known = "safetensors, torch, npz, ONNX, Keras"
    raise FileRefused(path, f"is not a weight file of a known format ({known})")


def _open_zip(path: Path) -> Weights:
    """Open a zip archive by its members: torch, Keras and NumPy all write zip archives."""
    from weightsmith.networks.readers.kerasfile import KerasWeights
    from weightsmith.networks.readers.npz import NpzWeights
    from weightsmith.networks.readers.torchfile import TorchWeights
    from weightsmith.networks.readers.zips import read_directory

    names = list(read_directory(path))
    if not names:
        raise FileRefused(path, "is an empty zip archive")
    if any(name.endswith("constants.pkl") for name in names):
        from weightsmith.networks.readers.torchscript import TorchScriptWeights

        return TorchScriptWeights(path)
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return TorchWeights(path)
    if "config.json" in names and any(name.startswith("model.weights") for name in names):
        return KerasWeights(path)
    if all(name.endswith(".npy") for name in names):
        return NpzWeights(path)
    raise FileRefused(path, f"is a zip archive without weights (its first member is {shown(names[0])})")
