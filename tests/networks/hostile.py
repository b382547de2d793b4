"""Files that must be refused: each builder writes one into a folder and returns the path to open.

``HOSTILE`` has them all by name, with words that the reason must contain. Payloads try to write ``canary`` into the
folder; it must never appear. Load this file with ``runpy.run_path`` (test folders are no packages).
"""

from __future__ import annotations

import builtins
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

CANARY = "canary"


@dataclass(frozen=True)
class Hostile:
    build: Callable[[Path], Path]
    reason: str


HOSTILE: dict[str, Hostile] = {}


def refused(reason: str) -> Callable[[Callable[[Path], Path]], Callable[[Path], Path]]:
    """Put a builder on the list, with words its refusal must contain."""

    def listed(build: Callable[[Path], Path]) -> Callable[[Path], Path]:
        HOSTILE[build.__name__] = Hostile(build, reason)
        return build

    return listed


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# safetensors


def safetensors_bytes(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(dtype: str = "F32", shape: tuple[int, ...] = (2,), offsets: tuple[int, int] = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@refused("cut-off")
def truncated_safetensors(folder: Path) -> Path:
    return written(folder / "model.safetensors", safetensors_bytes({"a": one()}, bytes(8))[:-3])


@refused("cut short")
def header_beyond_the_file(folder: Path) -> Path:
    return written(folder / "model.safetensors", struct.pack("<Q", 5000) + b'{"a":')


@refused("claims a header")
def header_of_exabytes(folder: Path) -> Path:
    return written(folder / "model.safetensors", struct.pack("<Q", 1 << 60) + b'{"a":')


@refused("damaged")
def overlapping_offsets(folder: Path) -> Path:
    header = {"a": one(), "b": one(offsets=(4, 12))}
    return written(folder / "model.safetensors", safetensors_bytes(header, bytes(12)))


@refused("damaged")
def shape_beyond_counting(folder: Path) -> Path:
    header = {"a": one(shape=(2**62, 2**62))}
    return written(folder / "model.safetensors", safetensors_bytes(header, bytes(8)))


@refused("impossible shape")
def empty_tensor_of_impossible_shape(folder: Path) -> Path:
    header = {"a": one(shape=(0, 2**40, 2**40), offsets=(0, 0))}
    return written(folder / "model.safetensors", safetensors_bytes(header))


@refused("damaged")
def header_nested_deeply(folder: Path) -> Path:
    return written(folder / "model.safetensors", safetensors_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"))


@refused("PNG image")
def png_renamed(folder: Path) -> Path:
    return written(folder / "model.safetensors", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100))


@refused("is empty")
def empty_file(folder: Path) -> Path:
    return written(folder / "model.safetensors", b"")


@refused("holds no tensors")
def no_tensors(folder: Path) -> Path:
    return written(folder / "model.safetensors", safetensors_bytes({}))


@refused("control characters")
def name_with_an_escape_sequence(folder: Path) -> Path:
    header = {"\x1b[2J\nfine": one()}
    return written(folder / "model.safetensors", safetensors_bytes(header, bytes(8)))


@refused("no such file")
def missing_file(folder: Path) -> Path:
    return folder / "nowhere.safetensors"


@refused("no such file")
def link_to_nothing(folder: Path) -> Path:
    (folder / "model.safetensors").symlink_to(folder / "nothing")
    return folder / "model.safetensors"


@refused("pipe")
def named_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "model.safetensors")
    return folder / "model.safetensors"


@refused("Git LFS")
def lfs_pointer(folder: Path) -> Path:
    return written(folder / "model.safetensors", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


# torch files


class Call:
    """Pickles as a call that runs when the file is read by a careless reader."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def touch(folder: Path) -> str:
    return f"touch {folder / CANARY}"


def rewritten(path: Path, change: Callable[[bytes], bytes], *, packed: int = zipfile.ZIP_STORED) -> Path:
    """The same torch archive with another pickle (or packed otherwise)."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(name, change(content) if name.endswith("data.pkl") else content)
    return path


def saved(folder: Path, content: object, name: str = "model.pt", **options: object) -> Path:
    torch.save(content, folder / name, **options)
    return folder / name


@refused("asks for 'posix.system'")
def payload_in_a_zip(folder: Path) -> Path:
    return saved(folder, {"weight": torch.ones(2), "x": Call(os.system, touch(folder))})


@refused("asks for 'posix.system'")
def payload_in_a_legacy_file(folder: Path) -> Path:
    content = {"weight": torch.ones(2), "x": Call(os.system, touch(folder))}
    return saved(folder, content, "model.pth", _use_new_zipfile_serialization=False)


@refused("asks for '__builtin__.eval'")
def payload_by_eval(folder: Path) -> Path:
    code = f"__import__('pathlib').Path({str(folder / CANARY)!r}).touch()"
    return saved(folder, {"weight": torch.ones(2), "x": Call(builtins.eval, code)})


@refused("asks for 'torch.hub.load'")
def payload_by_torch_hub(folder: Path) -> Path:
    return saved(folder, {"x": Call(torch.hub.load, str(folder), "anything")})


@refused("asks for 'torch.serialization.load'")
def payload_by_loading_again(folder: Path) -> Path:
    return saved(folder, {"x": Call(torch.load, str(folder / "other.pt"))})


@refused("asks for 'posix.system'")
def payload_in_a_plain_pickle(folder: Path) -> Path:
    return written(folder / "pytorch_model.bin", pickle.dumps({"x": Call(os.system, touch(folder))}))


@refused("asks for 'os.system'")
def payload_in_the_oldest_protocol(folder: Path) -> Path:
    return written(folder / "model.pt", b"cos\nsystem\n(S'" + touch(folder).encode() + b"'\ntR.")


@refused("asks for 'os.system'")
def payload_by_inst(folder: Path) -> Path:
    text = touch(folder).encode()
    return written(folder / "model.pt", b"\x80\x02(X" + struct.pack("<I", len(text)) + text + b"ios\nsystem\n.")


@refused("asks for 'posix.system'")
def payload_behind_the_magic_number(folder: Path) -> Path:
    head = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    return written(folder / "model.pt", head + pickle.dumps(Call(os.system, touch(folder)), 2))


@refused("load it where you trust it and save its state_dict()")
def checkpoint_with_a_numpy_number(folder: Path) -> Path:
    return saved(folder, {"state_dict": {"weight": torch.ones(2)}, "best": np.float64(0.9)})


@refused("whole pickled module")
def whole_module(folder: Path) -> Path:
    return saved(folder, nn.Linear(3, 2))


@refused("holds no tensors")
def torchscript(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "model.pt", "w") as archive:
        for name in ("data.pkl", "constants.pkl", "code/x.py"):
            archive.writestr(f"model/{name}", b"\x80\x02).")
    return folder / "model.pt"


@refused("expands 1,0")
def torch_zip_expanding_by_compression(folder: Path) -> Path:
    path = saved(folder, {"weight": torch.zeros(4_000_000)})
    return rewritten(path, lambda content: content, packed=zipfile.ZIP_DEFLATED)


@refused("a view of only 4 bytes")
def torch_view_expanding_by_stride(folder: Path) -> Path:
    return saved(folder, {"weight": torch.ones(1).expand(1000, 1000)})


@refused("asks for '__builtin__.bytearray'")
def bytearray_of_100_gigabytes(folder: Path) -> Path:
    return saved(folder, {"weight": torch.ones(2), "x": Call(bytearray, 10**11)})


@refused("a view of only")
def view_beyond_its_storage(folder: Path) -> Path:
    # The shape (3, 5) of the pickle becomes (3, 6).
    path = saved(folder, {"weight": torch.ones(3, 5)})
    return rewritten(path, lambda content: content.replace(b"K\x03K\x05\x86", b"K\x03K\x06\x86"))


@refused("storage '0' claims")
def storage_beyond_its_member(folder: Path) -> Path:
    path = saved(folder, {"weight": torch.ones(3, 5)})
    return rewritten(path, lambda content: content.replace(b"K\x0ft", b"J\xff\xff\xff\x7ft"))


@refused("cut short")
def legacy_storage_beyond_the_file(folder: Path) -> Path:
    path = saved(folder, {"weight": torch.ones(3, 5)}, _use_new_zipfile_serialization=False)
    return written(path, path.read_bytes().replace(b"K\x0fN", b"J\xff\xff\xff\x7fN"))


@refused("views of each other")
def thousands_of_views(folder: Path) -> Path:
    base = torch.ones(100_000)
    return saved(folder, {f"w{i}": base[i:] for i in range(200)})


@refused("as a name")
def key_that_takes_forever_to_hash(folder: Path) -> Path:
    # Forty levels of ((x, x), (x, x)): hashing it would take 2⁴⁰ steps.
    key = b")" + b"q\x00h\x00\x86" * 40
    return rewritten(saved(folder, {"w": torch.ones(1)}), lambda _: b"\x80\x02}" + key + b"K\x01s.")


@refused("twice")
def zip_with_a_second_pickle(folder: Path) -> Path:
    path = saved(folder, {"weight": torch.ones(2)})
    evil = pickle.dumps({"x": Call(os.system, touch(folder))}, 2)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model/DATA.pkl", evil)
    return path


@refused("tar archive")
def tar_archive(folder: Path) -> Path:
    import tarfile

    with tarfile.open(folder / "model.tar", "w") as archive:
        info = tarfile.TarInfo("storages")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"\x80\x02K."))
    return folder / "model.tar"


@refused("without a name")
def bare_tensor(folder: Path) -> Path:
    return saved(folder, torch.ones(3))


# folders


def shard(folder: Path, name: str, *tensors: str) -> Path:
    header = {tensor: one(offsets=(8 * i, 8 * i + 8)) for i, tensor in enumerate(tensors)}
    return written(folder / name, safetensors_bytes(header, bytes(8 * len(tensors))))


def index(folder: Path, **weight_map: str) -> Path:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


@refused("'two.safetensors', which is not in the folder")
def folder_with_a_missing_shard(folder: Path) -> Path:
    shard(folder, "one.safetensors", "a")
    return index(folder, a="one.safetensors", b="two.safetensors")


@refused("outside its folder")
def index_to_the_folder_above(folder: Path) -> Path:
    inner = folder / "model"
    inner.mkdir()
    shard(folder, "outside.safetensors", "a")
    return index(inner, a="../outside.safetensors")


@refused("outside its folder")
def index_with_an_absolute_path(folder: Path) -> Path:
    inner = folder / "model"
    inner.mkdir()
    return index(inner, a=str(shard(folder, "outside.safetensors", "a")))


@refused("a link that leads outside")
def index_to_a_link(folder: Path) -> Path:
    inner = folder / "model"
    inner.mkdir()
    (inner / "one.safetensors").symlink_to(shard(folder, "outside.safetensors", "a"))
    return index(inner, a="one.safetensors")


@refused("'b' is not in one.safetensors")
def tensor_missing_in_its_shard(folder: Path) -> Path:
    shard(folder, "one.safetensors", "a")
    return index(folder, a="one.safetensors", b="one.safetensors")


@refused("'a' is in both")
def tensor_in_two_files(folder: Path) -> Path:
    shard(folder, "one.safetensors", "a")
    shard(folder, "two.safetensors", "a")
    return folder


@refused("names 'a' twice")
def index_with_a_repeated_name(folder: Path) -> Path:
    shard(folder, "one.safetensors", "a")
    text = '{"weight_map": {"a": "one.safetensors", "a": "one.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(text)
    return folder


@refused("nested too deeply")
def index_nested_deeply(folder: Path) -> Path:
    (folder / "model.safetensors.index.json").write_text("[" * 100_000 + "]" * 100_000)
    return folder


@refused("no weight_map")
def index_without_a_map(folder: Path) -> Path:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": 3}}')
    return folder


@refused("holds no weight file")
def folder_without_weights(folder: Path) -> Path:
    (folder / "README.md").write_text("nothing here")
    return folder


@refused("several weight files")
def folder_with_two_kinds(folder: Path) -> Path:
    saved(folder, {"w": torch.ones(2)}, "one.pt")
    saved(folder, {"w": torch.ones(2)}, "two.pth")
    return folder


# NumPy


def npy_bytes(descr: str, shape: str, data: bytes) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npz(folder: Path, packed: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(folder / "model.npz", "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return folder / "model.npz"


@refused("pickled Python objects")
def npz_with_pickled_objects(folder: Path) -> Path:
    array = np.empty(1, object)
    array[0] = Call(os.system, touch(folder))
    np.savez(folder / "model.npz", weight=array)
    return folder / "model.npz"


@refused("claims 4,000,000,000 bytes and has 4")
def npz_claiming_more_than_it_has(folder: Path) -> Path:
    return npz(folder, weight=npy_bytes("<f4", "(1000000000,)", bytes(4)))


@refused("expands")
def npz_expanding_by_compression(folder: Path) -> Path:
    return npz(folder, zipfile.ZIP_DEFLATED, weight=npy_bytes("<f4", "(25000000,)", bytes(100_000_000)))


@refused("damaged")
def npz_with_an_expression_for_a_header(folder: Path) -> Path:
    return npz(folder, weight=npy_bytes("<f4", "(" * 5000 + ")" * 5000, bytes(4)))


@refused("without weights")
def zip_of_something_else(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "model.npz", "w") as archive:
        archive.writestr("letter.txt", "hello")
    return folder / "model.npz"


# ONNX


def onnx_external(folder: Path, location: str, length: int = 48) -> Path:
    """A graph with one 4 × 3 weight that says its values are at ``location``."""
    from onnx import TensorProto, helper, save_model

    weight = TensorProto(name="w", data_type=1, dims=[4, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        weight.external_data.add(key=key, value=value)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    ends = (helper.make_tensor_value_info(name, 1, [1, size]) for name, size in (("x", 3), ("y", 4)))
    graph = helper.make_graph([node], "g", [next(ends)], [next(ends)], [weight])
    model = helper.make_model(graph)
    save_model(model, folder / "model.onnx")
    return folder / "model.onnx"


@refused("outside its folder")
def onnx_data_in_the_folder_above(folder: Path) -> Path:
    (folder / "model").mkdir()
    written(folder / "outside.data", bytes(48))
    return onnx_external(folder / "model", "../outside.data")


@refused("outside its folder")
def onnx_data_at_an_absolute_path(folder: Path) -> Path:
    (folder / "model").mkdir()
    return onnx_external(folder / "model", str(written(folder / "outside.data", bytes(48))))


@refused("a link that leads outside")
def onnx_data_behind_a_link(folder: Path) -> Path:
    (folder / "model").mkdir()
    (folder / "model" / "inside.data").symlink_to(written(folder / "outside.data", bytes(48)))
    return onnx_external(folder / "model", "inside.data")


@refused("missing")
def onnx_data_missing(folder: Path) -> Path:
    return onnx_external(folder, "inside.data")


@refused("claims 48 bytes")
def onnx_data_too_short(folder: Path) -> Path:
    written(folder / "inside.data", bytes(40))
    return onnx_external(folder, "inside.data")


@refused("not an ONNX file")
def onnx_of_noise(folder: Path) -> Path:
    return written(folder / "model.onnx", b"\x07\x99" + bytes(range(256)))


# Keras


def h5(folder: Path, fill: Callable[[object], None], name: str = "model.weights.h5") -> Path:
    import h5py

    with h5py.File(folder / name, "w") as file:
        fill(file)
    return folder / name


@refused("link to somewhere else")
def h5_with_an_external_link(folder: Path) -> Path:
    import h5py

    h5(folder, lambda file: file.create_dataset("x", data=np.ones((2, 2))), "other.h5")

    def fill(file: h5py.File) -> None:
        file["layers/dense/vars/0"] = h5py.ExternalLink("other.h5", "/x")

    return h5(folder, fill)


@refused("link to somewhere else")
def h5_with_a_soft_link(folder: Path) -> Path:
    import h5py

    def fill(file: h5py.File) -> None:
        file["layers/dense/vars/0"] = h5py.SoftLink("/somewhere")

    return h5(folder, fill)


@refused("another file")
def h5_with_external_storage(folder: Path) -> Path:
    written(folder / "secret", bytes(16))

    def fill(file: object) -> None:
        file.create_dataset("layers/dense/vars/0", (2, 2), "f4", external=[(str(folder / "secret"), 0, 16)])

    return h5(folder, fill)


@refused("another file")
def h5_with_a_virtual_dataset(folder: Path) -> Path:
    import h5py

    h5(folder, lambda file: file.create_dataset("x", data=np.ones((2, 2), "f4")), "other.h5")

    def fill(file: h5py.File) -> None:
        layout = h5py.VirtualLayout((2, 2), "f4")
        layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", (2, 2))
        file.create_virtual_dataset("layers/dense/vars/0", layout)

    return h5(folder, fill)


@refused("expands")
def h5_expanding_by_compression(folder: Path) -> Path:
    def fill(file: object) -> None:
        data = np.zeros((5000, 5000), "f4")
        file.create_dataset("layers/dense/vars/0", data=data, compression="gzip", compression_opts=9)

    return h5(folder, fill)


@refused("has none")
def h5_of_a_hundred_gigabytes_of_nothing(folder: Path) -> Path:
    def fill(file: object) -> None:
        file.create_dataset("layers/dense/vars/0", (160_000, 160_000), "f4", chunks=(1000, 1000))

    return h5(folder, fill)


@refused("HDF5")
def h5_cut_off(folder: Path) -> Path:
    path = h5(folder, lambda file: file.create_dataset("layers/dense/vars/0", data=np.ones((40, 40), "f4")))
    return written(path, path.read_bytes()[:3000])


def keras(folder: Path, config: str, packed: int = zipfile.ZIP_STORED) -> Path:
    inner = h5(folder, lambda file: file.create_dataset("layers/dense/vars/0", data=np.ones((2, 2), "f4")))
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.10.0"}')
        archive.writestr("config.json", config)
        archive.write(inner, "model.weights.h5", packed)
    inner.unlink()
    return folder / "model.keras"


@refused("nested too deeply")
def keras_configuration_nested_deeply(folder: Path) -> Path:
    return keras(folder, "[" * 100_000 + "]" * 100_000)


@refused("is compressed")
def keras_with_compressed_weights(folder: Path) -> Path:
    return keras(folder, "{}", zipfile.ZIP_DEFLATED)
