"""Images larger than memory: one epoch of ``train`` on a folder of JPEGs beside a plain torch ``DataLoader``.

    python -m benchmarks.streaming                     50,000 JPEGs of 224², address space limited to 2 GB
    python -m benchmarks.streaming --images 5000       fewer

The images are made in a temporary folder: some hundred different ones, the others hard links to them, so that the disk
holds little; every one is opened and decoded by itself. Each arm is a process of its own under the limit. Both
train the same small network, which adds up the pixels it is shown: sums that differ are an error.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import UnequalWork, machine
from benchmarks.peers.settings import child_environment
from weightsmith.core.records import versions
from weightsmith.core.storage import write_atomic

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "docs" / "results"
_READING = "## How to read it"
_SIDE, _DISTINCT, _BATCH, _WORKERS = 224, 500, 64, 2
_LIMIT = 2_000_000_000  # bytes of addresses of each process
_ARMS = ("weightsmith train", "plain torch, DataLoader")


class Counting(nn.Module):
    """Mean colours of 14 × 14 fields and a dense layer; adds up what it is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.dense = nn.AvgPool2d(16), nn.Linear(3 * 14 * 14, 2)
        self.register_buffer("shown", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of two classes."""
        fields = self.pool(x)
        if self.training:
            self.shown += fields.detach().sum(dtype=torch.float64)
        scores: Tensor = self.dense(fields.flatten(1))
        return scores


def main(arguments: list[str] | None = None) -> int:
    """Make the images, run both arms, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=1, help="runs of each arm, in turned order")
    parser.add_argument("--arm", choices=_ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=_RESULTS, help="default: docs/results")
    asked = parser.parse_args(arguments)
    if asked.arm:
        print(json.dumps(_arm(asked.arm, asked.folder)))
        return 0
    with tempfile.TemporaryDirectory(prefix="weightsmith-streaming-") as name:
        folder = Path(name)
        stored = _make_images(folder, asked.images)
        runs: dict[str, list[dict[str, float]]] = {arm: [] for arm in _ARMS}
        for turn in range(asked.rounds):
            for arm in _ARMS[:: 1 if turn % 2 == 0 else -1]:
                runs[arm].append(_in_process(arm, folder))
                print(arm, runs[arm][-1], flush=True)
    sums = [run["shown"] for found in runs.values() for run in found]
    if max(sums) - min(sums) > 1e-6 * max(sums):
        raise UnequalWork(f"the arms were shown different pixels: {sums}")
    _write(asked.out, asked.images, stored, runs)
    return 0


def _make_images(folder: Path, count: int) -> int:
    """``count`` JPEGs in two classes; returns the bytes of one of each."""
    from PIL import Image

    if shutil.disk_usage(folder).free < 1 << 30:
        raise SystemExit(f"{folder}: less than 1 GB is free")
    draw = np.random.default_rng(0)
    (folder / "bright").mkdir()
    (folder / "dark").mkdir()
    made: list[Path] = []
    for number in range(min(count, _DISTINCT)):
        coarse = draw.integers(0, 128, (14, 14, 3), np.uint8) + 100 * (number % 2)
        smooth = np.asarray(Image.fromarray(coarse.astype(np.uint8)).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC))
        noisy = smooth + draw.integers(-8, 9, smooth.shape)
        path = folder / ("dark", "bright")[number % 2] / f"{number:06}.jpg"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        made.append(path)
    for number in range(_DISTINCT, count):
        source = made[number % _DISTINCT]
        os.link(source, source.with_name(f"{number:06}.jpg"))
    return sum(path.stat().st_size for path in made) // len(made)


def _in_process(arm: str, folder: Path) -> dict[str, float]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_LIMIT, _LIMIT))

    command = [sys.executable, "-m", "benchmarks.streaming", "--arm", arm, "--folder", str(folder)]
    environment = {**child_environment(), "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")])}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=limit)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def _arm(name: str, folder: Path) -> dict[str, float]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network, wall = Counting(), time.perf_counter()
    before = _family_seconds()
    trained = _ours(network, folder) if name == _ARMS[0] else _plain(network, folder)
    used = _family_seconds() - before
    wall = time.perf_counter() - wall
    peaks = [resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"seconds": used, "wall": wall, "peak": peaks[0], "worker_peak": peaks[1], "shown": float(trained.shown)}  # type: ignore[arg-type]


def _family_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _ours(network: nn.Module, folder: Path) -> nn.Module:
    import weightsmith as ws

    run = ws.train(
        network,
        f"folder:{folder}",
        optimiser="sgd",
        schedule=0.01,
        batch=_BATCH,
        epochs=1,
        normalise="none",
        diagnose=False,
    )
    return run.network


def _plain(network: nn.Module, folder: Path) -> nn.Module:
    """The loop that a tutorial has: PIL, a tensor of floats, a DataLoader that shuffles."""
    files = [
        (path, label) for label, name in enumerate(("bright", "dark")) for path in sorted((folder / name).iterdir())
    ]
    loader: Any = torch.utils.data.DataLoader(
        Files(files), batch_size=_BATCH, shuffle=True, num_workers=_WORKERS, persistent_workers=False
    )
    optimiser, loss = torch.optim.SGD(network.parameters(), lr=0.01), nn.CrossEntropyLoss()
    network.train()
    for x, y in loader:
        optimiser.zero_grad()
        loss(network(x), y).backward()
        optimiser.step()
    return network


class Files(torch.utils.data.Dataset[Any]):
    """Image files with their labels."""

    def __init__(self, files: list[tuple[Path, int]]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        from PIL import Image

        path, label = self.files[row]
        with Image.open(path) as image:
            pixels = np.array(image.convert("RGB"))
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous().to(torch.float32).div(255), label


def _write(out: Path, images: int, stored: int, runs: dict[str, list[dict[str, float]]]) -> None:
    best = {arm: min(found, key=lambda run: run["seconds"]) for arm, found in runs.items()}
    rows = [
        f"| {arm} | {images / run['seconds']:,.0f} | {run['seconds']:.1f} | {images / run['wall']:,.0f} | "
        f"{run['peak'] / 1e6:,.0f} | {run['worker_peak'] / 1e6:,.0f} |"
        for arm, run in best.items()
    ]
    ratio = best[_ARMS[1]]["seconds"] / best[_ARMS[0]]["seconds"]
    facts = ", ".join(f"{name} {version}" for name, version in versions("pillow").items())
    body = f"""# streaming

One epoch on {images:,} JPEGs of {_SIDE}² pixels in a folder ({images * 3 * _SIDE**2 / 1e9:.1f} GB decoded), in
batches of {_BATCH}, shuffled; the address space of every process is limited to {_LIMIT / 1e9:.0f} GB.
{min(images, _DISTINCT)} images are different, {stored / 1000:.0f} kB each, the others hard links to them; each is
opened and decoded by itself, and all lie in the file system's cache. Both arms train the same network of a pool and a
dense layer on the same pixels (their sum is compared). *weightsmith train* reads the headers of all files first, takes
their digest, decodes in threads and measures loss and accuracy; the *DataLoader* has {_WORKERS} worker
processes. CPU seconds are those of the process and its children, the least of {len(runs[_ARMS[0]])} run(s) of each arm;
images per second of the clock tell more about what else ran on the machine.

| arm | images per CPU second | CPU seconds | images per second | peak memory, MB | of a worker, MB |
|---|---|---|---|---|---|
{chr(10).join(rows)}

Images per CPU second, ours for one of the DataLoader: **{ratio:.2f}**.

{facts}; {machine()}. Made by `python -m benchmarks.streaming`."""
    path = out / "streaming.md"
    kept = path.read_text().partition(_READING)[2] if path.exists() else ""
    write_atomic(path, body + (f"\n\n{_READING}{kept.rstrip()}" if kept else "") + "\n")
    write_atomic(out / "streaming.json", json.dumps({"images": images, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
