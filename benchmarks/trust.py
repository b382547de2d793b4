"""What damaged files do: mutants of every format that weightsmith reads, and single-bit flips of its own files.

    python -m benchmarks.trust                         2,000 mutants of each format, 2,000 flips of each own file
    python -m benchmarks.trust --mutants 200 --only npz --only xlsx

Each mutant is read in a child process that reads many of them, with its memory limited. Counted are crashes of the
child, answers after more than five seconds, exceptions that are not ours, messages of more than one line, and own files
with a flipped bit that were accepted as something else. Nothing is timed and nothing is trained.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weightsmith as ws
from weightsmith.core.errors import WeightsmithError
from weightsmith.core.storage import write_atomic

_ROOT = Path(__file__).resolve().parents[1]
_SLOW = 5.0  # seconds
_MEMORY = 6 << 30  # bytes of address space for a child; torch alone takes four
_BATCH = 100  # mutants for each child
_HUGE = (0x7F, 0xFF, 0x80, 0x00, 0x01)


@dataclass
class Found:
    """What happened to the mutants of one format."""

    name: str
    tried: int = 0
    read: int = 0
    refused: int = 0
    accepted_changed: int = 0
    crashes: int = 0
    slow: int = 0
    foreign: dict[str, int] = field(default_factory=dict)
    long_messages: int = 0


def samples(folder: Path) -> dict[str, tuple[Path, Callable[[Path], object]]]:
    """A small valid file of every format with what reads it."""
    network = ws.networks.mlp(16, 8, 4, seed=0)
    rows = np.arange(64, dtype=np.float32).reshape(16, 4) / 64
    made: dict[str, tuple[Path, Callable[[Path], object]]] = {}
    state = {name: value.numpy() for name, value in network.state_dict().items()}

    def weights(path: Path) -> object:
        return [(layer.name, layer.parameters) for layer in ws.walk(path)]

    from safetensors.numpy import save_file

    save_file(state, folder / "a.safetensors")
    made["safetensors"] = (folder / "a.safetensors", weights)
    torch.save(network.state_dict(), folder / "a.pt")
    made["pt"] = (folder / "a.pt", weights)
    torch.save(network.state_dict(), folder / "b.pt", _use_new_zipfile_serialization=False)
    made["pt, legacy"] = (folder / "b.pt", weights)
    np.savez(folder / "a.npz", **state)
    made["npz"] = (folder / "a.npz", weights)
    np.savez_compressed(folder / "b.npz", x=rows, y=np.arange(16) % 2)
    made["npz table"] = (folder / "b.npz", lambda path: ws.data.load(f"table:{path}").train)
    csv = "a,b,label\n" + "".join(f"{i},{i * 2.5},{'xy'[i % 2]}\n" for i in range(20))
    (folder / "a.csv").write_text(csv)
    made["csv"] = (folder / "a.csv", lambda path: ws.data.load(f"table:{path}").train)
    _xlsx(folder / "a.xlsx")
    made["xlsx"] = (folder / "a.xlsx", lambda path: ws.data.load(f"table:{path}").train)
    _parquet(folder / "a.parquet")
    made["parquet"] = (folder / "a.parquet", lambda path: ws.data.load(f"parquet:{path}").train)
    ws.save(network, folder / "own.safetensors")
    made["own network"] = (folder / "own.safetensors", ws.load)
    made |= _runs(folder)
    return made


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
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    images = []
    for number in range(8):
        written = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), 20 * number, dtype=np.uint8)).save(written, "PNG")
        images.append({"bytes": written.getvalue(), "path": None})
    pq.write_table(pa.table({"img": images, "label": [i % 2 for i in range(8)]}), path)


def _runs(folder: Path) -> dict[str, tuple[Path, Callable[[Path], object]]]:
    """Our own files: a spiking network, a record, a journal, a checkpoint, a recipe."""
    from weightsmith.chain.reading.results import read_record
    from weightsmith.chain.recipe import read_recipe
    from weightsmith.core.journal import read_journal
    from weightsmith.core.sweep import grid, sweep

    data = ws.data.load("digits")
    run = ws.train("mlp:8", data, epochs=1, out=folder / "run")
    spiking = ws.spike(run.network, data, steps=2, test_rows=20)
    ws.save_spiking(spiking.network, folder / "spiking.safetensors")
    sweep(_squared, grid(x=[1, 2, 3]), journal=folder / "journal.jsonl")
    recipe = folder / "recipe.toml"
    recipe.write_text('data = "digits"\nseeds = [0]\n\n[train]\nnetwork = "mlp:8"\nepochs = 2\n')
    return {
        "own spiking network": (folder / "spiking.safetensors", ws.load_spiking),
        "own record": (folder / "run" / "record.json", read_record),
        "own journal": (folder / "journal.jsonl", read_journal),
        "own recipe": (recipe, read_recipe),
    }


def _squared(*, x: int, seed: int) -> dict[str, Any]:
    return {"square": x * x + seed}


def mutant(content: bytes, number: int) -> bytes:
    """One of eight kinds of damage, drawn by the number."""
    random = np.random.default_rng(number)
    data = bytearray(content)
    place = int(random.integers(len(data)))
    match number % 8:
        case 0:
            data[place] ^= 1 << int(random.integers(8))
        case 1:
            for _ in range(int(random.integers(2, 20))):
                data[int(random.integers(len(data)))] = int(random.integers(256))
        case 2:
            del data[place:]
        case 3:
            data[place : place + int(random.integers(1, 64))] = b""
        case 4:
            data[place:place] = bytes(random.integers(0, 256, int(random.integers(1, 64)), dtype=np.uint8))
        case 5:  # a length field of the header, or of the directory at the end
            start = place % min(len(data), 64) if number % 2 else max(0, len(data) - 64 + place % 64)
            for offset in range(min(8, len(data) - start)):
                data[start + offset] = _HUGE[int(random.integers(len(_HUGE)))]
        case 6:
            other = int(random.integers(len(data)))
            low, high = sorted((place, other))
            data[low:low] = data[low:high]
        case _:
            data[place : place + 1] = b"[" * int(random.integers(100, 5_000))
    return bytes(data)


def _flipped(content: bytes, number: int) -> bytes:
    data = bytearray(content)
    bit = number * 7919 % (8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def _child(name: str, mutants: Sequence[int], flips: bool, folder: str, queue: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    path, reader = samples(Path(folder))[name] if not _SHARED else _SHARED[name]
    content, place = path.read_bytes(), Path(tempfile.mkdtemp(dir=folder)) / path.name
    want = repr(reader(path)) if flips else None
    for number in mutants:
        queue.put(("begins", number))
        place.write_bytes(_flipped(content, number) if flips else mutant(content, number))
        started = time.monotonic()
        outcome: tuple[str, Any]
        try:
            answer = reader(place)
            outcome = ("read", repr(answer) != want if flips else False)
        except WeightsmithError as error:
            outcome = ("refused", len(str(error).splitlines()) > 1 or len(str(error)) > 2_000)
        except Exception as error:  # noqa: BLE001 (that is what is looked for)
            last = traceback.extract_tb(error.__traceback__)[-1]
            outcome = ("foreign", f"{type(error).__name__} at {Path(last.filename).name}:{last.name}")
        queue.put((*outcome, time.monotonic() - started))


_SHARED: dict[str, Any] = {}


def _tried(name: str, count: int, flips: bool, folder: Path) -> Found:
    found = Found(f"{name}, flipped bits" if flips else name)
    context = multiprocessing.get_context("fork")
    numbers = list(range(count))
    while numbers:
        batch, numbers = numbers[:_BATCH], numbers[_BATCH:]
        queue = context.Queue()
        child = context.Process(target=_child, args=(name, batch, flips, str(folder), queue))
        child.start()
        done = 0
        while done < len(batch):
            try:
                message = queue.get(timeout=60)
            except Exception:  # noqa: BLE001 (nothing came: the child hangs or is gone)
                found.crashes += 1
                found.tried += 1
                numbers = batch[done + 1 :] + numbers
                child.kill()
                break
            if message[0] == "begins":
                continue
            done += 1
            _count(found, message)
        child.join()
    return found


def _count(found: Found, message: tuple[Any, ...]) -> None:
    kind, detail, seconds = message
    found.tried += 1
    found.slow += seconds > _SLOW
    if kind == "read":
        found.read += 1
        found.accepted_changed += bool(detail)
    elif kind == "refused":
        found.refused += 1
        found.long_messages += bool(detail)
    else:
        found.foreign[detail] = found.foreign.get(detail, 0) + 1


def page(found: Sequence[Found], command: str) -> str:
    """The Markdown page."""
    rows = [
        f"| {each.name} | {each.tried:,} | {each.read:,} | {each.refused:,} | {sum(each.foreign.values())} | "
        f"{each.crashes} | {each.slow} | {each.accepted_changed if 'flipped' in each.name else ''} |"
        for each in found
    ]
    foreign = [f"- {each.name}: {name}, {count} times" for each in found for name, count in each.foreign.items()]
    return "\n".join(
        [
            "# Damaged files",
            "",
            "Mutants of small valid files (bits, bytes, cuts, insertions, length fields, repeated parts, nesting), "
            "read in child "
            "processes. *Read*: the damage did not matter or was not noticed by the format; *foreign*: an exception "
            "that is not "
            "ours; *slow*: more than five seconds; *accepted*: own files with one flipped bit that were read as "
            "something else.",
            "",
            "| file | tried | read | refused | foreign | crashes | slow | accepted |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            *(["Foreign exceptions:", "", *foreign, ""] if foreign else []),
            "A journal whose last line is damaged is read without it, as after a kill: those flips are accepted. A "
            "record read after a flip has the same values (the e of an exponent became E).",
            "",
            f"Made by `{command}`.",
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Try everything and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--mutants", type=int, default=2_000)
    parser.add_argument("--only", action="append")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _SHARED.update(samples(folder))
        for path, reader in _SHARED.values():
            reader(path)  # undamaged, every one is read
        for each in given.only or list(_SHARED):
            for flips in (False, True) if each.startswith("own") and each != "own recipe" else (False,):
                found.append(_tried(each, given.mutants, flips, folder))
                print(json.dumps(asdict(found[-1]), ensure_ascii=False), flush=True)
    words = " ".join(["python -m benchmarks.trust", *(sys.argv[1:] if arguments is None else arguments)])
    write_atomic(given.out / "trust.md", page(found, words))
    write_atomic(given.out / "trust.json", json.dumps([asdict(each) for each in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
