"""A small valid file of every format that weightsmith reads, with the function that reads it."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weightsmith as ws

__all__ = ["OWN", "Sample", "samples"]

Sample = tuple[Path, Callable[[Path], object]]
OWN = ("own network", "own spiking network", "own checkpoint", "own journal", "own record")
_REFERENCE = Path(__file__).resolve().parents[2] / "tests" / "reference"


def samples(folder: Path) -> dict[str, Sample]:
    """Write every file into ``folder``; a name for each, its path and its reader."""
    return {**_weights(folder), **_data(folder), **_own(folder)}


def _read_weights(path: Path) -> object:
    return [(layer.name, layer.parameters, layer.matrices.sum()) for layer in ws.walk(path)]


def _weights(folder: Path) -> dict[str, Sample]:
    from safetensors.numpy import save_file

    network = ws.networks.mlp(16, 8, 4, seed=0)
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    save_file(state, folder / "a.safetensors")
    torch.save(network.state_dict(), folder / "a.pt")
    torch.save(network.state_dict(), folder / "b.pt", _use_new_zipfile_serialization=False)
    torch.jit.trace(network, torch.zeros(1, 16), check_trace=False).save(folder / "script.pt")  # type: ignore[no-untyped-call]
    np.savez(folder / "a.npz", **state)
    _onnx(folder / "a.onnx", state)
    found = {
        "safetensors": folder / "a.safetensors",
        "pt": folder / "a.pt",
        "pt, legacy": folder / "b.pt",
        "TorchScript": folder / "script.pt",
        "npz": folder / "a.npz",
        "ONNX": folder / "a.onnx",
    }
    for name in ("images.weights.h5", "words.h5", "images.keras"):
        found[f"Keras {Path(name).suffix}{', whole model' if name == 'words.h5' else ''}"] = folder / name
        shutil.copy(_REFERENCE / "keras_files" / name, folder / name)
    shards = folder / "shards"
    shards.mkdir()
    save_file(state, shards / "one.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(state, "one.safetensors")}
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    found["index of shards"] = shards / "model.safetensors.index.json"
    shutil.copy(_REFERENCE / "nir_files" / "spikingjelly_if.nir", folder / "a.nir")
    made: dict[str, Sample] = {name: (path, _read_weights) for name, path in found.items()}
    return {**made, "NIR": (folder / "a.nir", ws.import_nir)}


def _onnx(path: Path, state: dict[str, Any]) -> None:
    from onnx import helper, numpy_helper

    names = [name for name in state if name.endswith("weight")]
    nodes = [
        helper.make_node("Gemm", ["x" if i == 0 else f"h{i}", name], [f"h{i + 1}"], transB=1)
        for i, name in enumerate(names)
    ]
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x", f"h{len(names)}")]
    tensors = [numpy_helper.from_array(state[name], name) for name in names]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    path.write_bytes(helper.make_model(graph).SerializeToString())


def _data(folder: Path) -> dict[str, Sample]:
    rows = np.arange(64, dtype=np.float32).reshape(16, 4) / 64
    np.savez_compressed(folder / "b.npz", x=rows, y=np.arange(16) % 2)
    csv = "a,b,label\n" + "".join(f"{i},{i * 2.5},{'xy'[i % 2]}\n" for i in range(20))
    (folder / "a.csv").write_text(csv)
    _xlsx(folder / "a.xlsx")
    _parquet(folder / "a.parquet")
    images = bytes(range(256)) * 3
    idx = struct.pack(">BBBBIII", 0, 0, 8, 3, 12, 8, 8) + images
    (folder / "a-idx3-ubyte").write_bytes(idx)
    with gzip.GzipFile(folder / "a-idx3-ubyte.gz", "wb", mtime=0) as file:
        file.write(idx)

    def table(path: Path) -> object:
        return ws.data.load(f"table:{path}").train

    def idx_file(path: Path) -> object:
        from weightsmith.data.formats.idx import read_idx

        return read_idx(path, 3)

    return {
        "npz table": (folder / "b.npz", table),
        "CSV": (folder / "a.csv", table),
        "XLSX": (folder / "a.xlsx", table),
        "Parquet": (folder / "a.parquet", lambda path: ws.data.load(f"parquet:{path}").train),
        "IDX": (folder / "a-idx3-ubyte", idx_file),
        "IDX, gzip": (folder / "a-idx3-ubyte.gz", idx_file),
    }


def _xlsx(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    rows: list[list[Any]] = [["a", "b", "label"], *([i, i * 0.5, "xy"[i % 2]] for i in range(12))]
    for row in rows:
        sheet.append(row)
    book.save(path)


def _parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    images = []
    for number in range(8):
        written = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), 20 * number, dtype=np.uint8)).save(written, "PNG")
        images.append({"bytes": written.getvalue(), "path": None})
    pq.write_table(pa.table({"img": images, "label": [i % 2 for i in range(8)]}), path)


def _squared(*, x: int, seed: int) -> dict[str, Any]:
    return {"square": x * x + seed}


def _own(folder: Path) -> dict[str, Sample]:
    """Our own files: networks, a checkpoint, a journal, a record, a recipe."""
    from weightsmith.chain.reading.results import read_record
    from weightsmith.chain.recipe import read_recipe
    from weightsmith.core.journal import read_journal
    from weightsmith.core.sweep import grid, sweep
    from weightsmith.training.checkpoints import Checkpoints

    data = ws.data.load("digits")
    run = ws.train("mlp:8", data, epochs=2, out=folder / "run")
    ws.save(ws.networks.mlp(16, 8, 4, seed=0), folder / "own.safetensors")
    spiking = ws.spike(run.network, data, steps=2, test_rows=20)
    ws.save_spiking(spiking.network, folder / "spiking.safetensors")
    sweep(_squared, grid(x=[1, 2, 3]), journal=folder / "journal.jsonl")
    recipe = folder / "recipe.toml"
    recipe.write_text('data = "digits"\nseeds = [0]\n\n[train]\nnetwork = "mlp:8"\nepochs = 2\n')
    call = read_journal(folder / "run" / "journal.jsonl").call

    def checkpoint(path: Path) -> object:
        if path.parent != folder / "run":
            shutil.copyfile(folder / "run" / "journal.jsonl", path.parent / "journal.jsonl")
        opened = Checkpoints(path.parent, call)
        try:
            return opened.read()
        finally:
            opened.close()

    return {
        "own network": (folder / "own.safetensors", ws.load),
        "own spiking network": (folder / "spiking.safetensors", ws.load_spiking),
        "own checkpoint": (folder / "run" / "checkpoint.safetensors", checkpoint),
        "own journal": (folder / "journal.jsonl", read_journal),
        "own record": (folder / "run" / "record.json", read_record),
        "own recipe": (recipe, read_recipe),
    }
