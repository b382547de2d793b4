"""A sharded folder shaped as GPT-2 XL, graded end to end: ``python -m benchmarks.large_folder [--blocks 48]``.

The folder (1.5 billion values in float16, one shard per block) is made in the working folder and deleted afterwards.
It is graded by the command with two workers, killed once a third of the layers is done, and started again. Peak memory
is that of the largest process; CPU seconds are given for one worker only, since those of others cannot be waited for.
Where WeightWatcher is installed it grades one block of the same layers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from benchmarks.measure import machine
from weightsmith.core.seeds import stream
from weightsmith.core.storage import write_atomic

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_WIDTH, _WORDS, _PLACES = 1600, 50257, 1024
_BLOCK = {"attn.c_attn": 3, "attn.c_proj": 1, "mlp.c_fc": 4, "mlp.c_proj": 4}


def main(arguments: list[str] | None = None) -> int:
    """Make, grade, kill, go on, compare, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_folder", description=__doc__)
    parser.add_argument("--blocks", type=int, default=48, help="of 48: fewer for a trial, and the page says so")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, help="where 3 GB are made (default: a temporary folder)")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(dir=asked.work))
    try:
        values = _make(folder / "network", asked.blocks)
        found = {"blocks": asked.blocks, "values": values, "machine": machine(), **_graded(folder, asked.workers)}
        if find_spec("weightwatcher") is not None:  # in the peers' environment
            found["weightwatcher, one block"] = _peer(folder / "network")
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=1))
    write_atomic(asked.out / "large_folder.json", json.dumps(found, indent=1) + "\n")
    return 0


def _make(folder: Path, blocks: int) -> int:
    """The shards and their index; heavy-tailed weights, each block a row-scaled copy of the first."""
    folder.mkdir()
    draws = stream(0, "bench", "large folder")
    base = {
        name: torch.from_numpy(draws.standard_t(4, size=(_WIDTH, times * _WIDTH)).astype(np.float32) / 60)
        for name, times in _BLOCK.items()
    }
    index: dict[str, str] = {}
    total = 0
    for number in range(blocks + 1):
        rows = torch.from_numpy(draws.lognormal(0, 0.3, size=(_WIDTH, 1)).astype(np.float32))
        shard = {f"h.{number}.{name}.weight": (rows * weight).half() for name, weight in base.items()}
        if number == blocks:
            words = torch.randn(_WORDS, _WIDTH, generator=torch.Generator().manual_seed(0)).half()
            shard = {"wte.weight": words, "wpe.weight": words[:_PLACES].clone()}
        file = f"model-{number + 1:05d}-of-{blocks + 1:05d}.safetensors"
        save_file(shard, folder / file)
        index |= dict.fromkeys(shard, file)
        total += sum(tensor.numel() for tensor in shard.values())
    text = json.dumps({"metadata": {"total_size": 2 * total}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)
    return total


def _graded(folder: Path, workers: int) -> dict[str, Any]:
    """The command, killed and started again."""
    out = folder / "out"
    command = [sys.executable, "-m", "weightsmith", "grade", str(folder / "network"), "--workers", str(workers)]
    command += ["--out", str(out), "--quiet"]
    layers = 4 * (len(list((folder / "network").glob("*.safetensors"))) - 1) + 2
    start = time.perf_counter()
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while _done(out) < layers // 3 and first.poll() is None:
        time.sleep(0.5)
    killed_at = _done(out)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record = json.loads((out / "record.json").read_text())
    return {
        "layers": layers,
        "layers kept when killed": killed_at,
        "layers in the record": len(record["layers"]),
        "CPU seconds": round(used.ru_utime + used.ru_stime, 1) if workers == 1 else None,
        "seconds": round(time.perf_counter() - start, 1),
        "peak memory of a process, MB": round(used.ru_maxrss / 1000),
        "workers": workers,
    }


def _done(out: Path) -> int:
    journal = out / "journal.jsonl"
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0


def _peer(network: Path) -> dict[str, float]:
    """CPU seconds of both tools for the layers of the first block."""
    import weightwatcher
    from safetensors.torch import load_file
    from torch import nn

    from weightsmith.grading.grade import grade

    module = nn.Module()
    for name, weight in load_file(min(network.glob("*.safetensors"))).items():
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        layer.weight = nn.Parameter(weight.float())
        module.add_module(name.removesuffix(".weight").replace(".", "_"), layer)
    seconds = {}
    tools: dict[str, Callable[[], Any]] = {
        "ours": lambda: grade(module),
        "theirs": lambda: weightwatcher.WeightWatcher(model=module).analyze(),
    }
    for name, run in tools.items():
        start = time.process_time()
        run()
        seconds[name] = round(time.process_time() - start, 2)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
