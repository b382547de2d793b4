"""Several processes: the arithmetic with pretended teams, and two real processes under torchrun on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError, WorkerLost
from weightsmith.training.distributed import Team, joined, team

# alone, and the shares of a batch


def test_a_process_alone_is_a_team_of_one():
    assert team() == Team(0, 1)
    assert team().first
    assert not Team(1, 2).first
    rows, tensor = torch.arange(5), torch.ones(3)
    assert torch.equal(Team().share(rows), rows)
    assert torch.equal(Team().sum(tensor), torch.ones(3))
    norm = nn.BatchNorm1d(2)
    norm.running_mean.fill_(3)
    Team().average_buffers(norm)
    assert norm.running_mean.tolist() == [3, 3]
    assert Team().from_first({"a": tensor}, {"b": 1}) == ({"a": tensor}, {"b": 1})
    assert Team().from_first({}, None) == ({}, None)


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_all_of_the_batch_in_order_and_alike_in_size(rows, size):
    batch = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    shares = [Team(rank, size).share(batch) for rank in range(size)]
    assert torch.equal(torch.cat(shares), batch)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_without_torchrun_nothing_is_joined(monkeypatch):
    for world in (None, "1"):
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        if world is not None:
            monkeypatch.setenv("WORLD_SIZE", world)
        with joined() as members:
            assert members == Team(0, 1)
            assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE must be a number of processes, not 'two'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE must be a number of processes, not '0'"),
        ({"WORLD_SIZE": "2"}, "could not join .* start them with torchrun"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "could not join .* start them with torchrun"),
    ],
)
def test_a_broken_environment_is_named(monkeypatch, environment, words):
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=words) as caught, joined():
        pass
    assert "\n" not in str(caught.value)
    assert not torch.distributed.is_initialized()


# several threads play the processes


class Together:
    """What torch.distributed does, between threads."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier, self.held = size, threading.Barrier(size), {}
        self.local = threading.local()

    def all_reduce(self, tensor: Tensor) -> None:
        self.held[self.local.rank] = tensor.clone()
        self.barrier.wait(30)
        tensor.copy_(sum(self.held[rank] for rank in range(self.size)))
        self.barrier.wait(30)

    def broadcast(self, tensor: Tensor, source: int) -> None:
        if self.local.rank == source:
            self.held["sent"] = tensor.clone()
        self.barrier.wait(30)
        assert self.held["sent"].shape == tensor.shape
        tensor.copy_(self.held["sent"])
        self.barrier.wait(30)

    def run(self, work: Any) -> list[Any]:
        results: list[Any] = [None] * self.size

        def one(rank: int) -> None:
            self.local.rank = rank
            results[rank] = work(Team(rank, self.size))

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return results


@pytest.fixture
def together(monkeypatch):
    made = Together(3)
    monkeypatch.setattr(torch.distributed, "all_reduce", made.all_reduce)
    monkeypatch.setattr(torch.distributed, "broadcast", made.broadcast)
    return made


def test_sums_and_averages(together):
    class Network(nn.Module):
        def __init__(self, rank: int) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.norm.running_mean.fill_(rank)
            self.norm.num_batches_tracked.fill_(rank)
            self.register_buffer("constant", torch.tensor([0.1]))

    def work(members: Team) -> Any:
        network = Network(members.rank)
        members.average_buffers(network)
        return members.sum(torch.tensor([1.0, members.rank])).tolist(), network

    for rank, (summed, network) in enumerate(together.run(work)):
        assert summed == [3.0, 3.0]
        assert network.norm.running_mean.tolist() == [1.0, 1.0]
        assert int(network.norm.num_batches_tracked) == rank
        assert torch.equal(network.constant, torch.tensor([0.1]))  # (0.1 + 0.1 + 0.1) / 3 is not 0.1


TENSORS = {
    "whole": torch.arange(6).view(2, 3),
    "half": torch.tensor([1.5], dtype=torch.bfloat16),
    "flag": torch.tensor([True, False]),
    "scalar": torch.tensor(7.0),
    "last": torch.rand(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("given", [TENSORS, {}])
def test_everyone_gets_the_tensors_and_facts_of_the_first(together, given):
    facts = {"epochs": [1, 2.5, None], "text": "naïve ≥"}

    def work(members: Team) -> Any:
        return members.from_first(given if members.first else {}, facts if members.first else None)

    for tensors, received in together.run(work):
        assert received == facts
        assert set(tensors) == set(given)
        for name, tensor in given.items():
            assert tensors[name].dtype == tensor.dtype
            assert torch.equal(tensors[name], tensor)


def test_what_others_hold_gives_way_to_what_the_first_holds(together):
    def work(members: Team) -> Any:
        return members.from_first(
            {"a": torch.full((2,), float(members.rank)), f"b{members.rank}": torch.ones(1)}, members.rank
        )

    for tensors, received in together.run(work):
        assert (received, tensors["a"].tolist()) == (0, [0.0, 0.0])
        assert set(tensors) == {"a", "b0"}


def test_every_process_refuses_data_that_are_not_the_same_in_all(together):
    def work(members: Team) -> str:
        digests = {"train": "a", "validation": "b" if members.rank < 2 else "c", "network": str(members.rank)}
        members.check_same(digests, ("train",))
        try:
            members.check_same(digests, ("train", "validation"))
        except DataMismatch as error:
            return str(error)
        return "passed"

    found = together.run(work)
    assert found[0] == found[1]
    assert found[0].startswith("a split of another process differs from the first one's")
    assert found[2].startswith("the validation split of process 2 differs from the first one's")
    Team().check_same({}, ("train",))


# two real processes


CALLS = '''
import json, os, pathlib, sys, warnings
import torch
from torch import nn
from torch.nn import functional as F
from weightsmith.core.errors import WeightsmithError
from weightsmith.data.tensors import Data, Split
from weightsmith.networks import mlp
from weightsmith.networks.card import weights_digest
from weightsmith.training.distributed import joined
from weightsmith.training.loop import train

warnings.simplefilter("ignore")
y = torch.arange(70) % 3
x = torch.randn(70, 4, generator=torch.Generator().manual_seed(0)) + 2 * F.one_hot(y, 4)
held = (x[:21] + 0.5, y[:21])
images = Split((x.repeat(1, 9).view(70, 1, 6, 6) * 20 + 100).clamp(0, 255).to(torch.uint8), y)

def convolutional():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))

def unlike():
    """A module whose weights are others in each process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(os.environ.get("RANK", 0)))
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

# The last batch of 70 rows in batches of 23 is a single row: one process has nothing to do.
rows = {"train": (x, y), "validation": held}
SAME = {
    "sgd": lambda **o: train(mlp(4, 8, 3), rows, optimiser="sgd", schedule=0.1, batch=23, epochs=4, **o),
    "adam": lambda **o: train(mlp(4, 8, 3), rows, optimiser="adam", schedule="power:0.02,9", clip="global-norm:0.5",
        penalties=["l2:0.01", "max-norm:2"], batch=23, epochs=4, keep=(0, 2), **o),
    "images": lambda **o: train(convolutional(), Data("images", images), schedule=0.05, batch=16, epochs=2, **o),
    "little validation": lambda **o: train(mlp(4, 3), rows | {"validation": (x[:1], y[:1])}, epochs=2, **o),
    "early": lambda **o: train(mlp(4, 8, 3), (x, y), stop="early:2,min_delta=9", validation=0.2, epochs=9, **o),
    "unlike": lambda **o: train(unlike(), (x, y), epochs=2, **o),
    "diverging": lambda **o: train(mlp(4, 8, 3), (x, y), schedule=1e6, epochs=30, **o),
}
OTHER = {
    "norm and dropout": lambda **o: train("mlp:8,batch_norm=before,dropout=0.2", (x, y), batch=23, epochs=3, **o),
    "augmented": lambda **o: train(convolutional(), Data("images", images), augment="crop-flip:1", epochs=2, **o),
}

def summary(run):
    weights = torch.cat([p.detach().flatten() for p in run.network.parameters()]).tolist()
    kept = {epoch: weights_digest(run.checkpoint(epoch)) for epoch in run.kept}
    return {"history": run.history.to_dict()["rows"], "network": weights_digest(run.network), "weights": weights,
            "reason": run.record.reason, "stopped": run.stopped.value, "kept": kept, "notes": run.record.notes}
'''

TOGETHER = """
class Stop(Exception):
    pass

def hook(end):
    if end.row.epoch == 3:
        raise Stop

def threads():
    return sorted(file.read_text().strip() for file in pathlib.Path("/proc/self/task").glob("*/comm"))

folder = pathlib.Path(sys.argv[1])
with joined() as members:
    assert members.size == 2
    import torch._dynamo  # as torch.optim does: what is imported here must not keep the group
    answers = {name: summary(call()) for name, call in (SAME | OTHER).items()}
    # Stopped in the third epoch, then resumed: the first process alone reads and writes.
    whole = SAME["adam"](out=folder / "whole")
    try:
        SAME["adam"](out=folder / "parts", hooks=[hook])
    except Stop:
        pass
    answers["resumed"] = summary(SAME["adam"](out=folder / "parts"))
    again = OTHER["norm and dropout"]()
    answers["again"] = summary(again)
    # The folder is that of another call: the first process refuses it, the other must not wait for it.
    try:
        SAME["sgd"](out=folder / "whole")
    except WeightsmithError as error:
        answers["refused"] = f"{type(error).__name__}: {error}"
    answers["after"] = summary(SAME["sgd"]())
    inside = threads()
assert not torch.distributed.is_initialized()
answers["threads"] = inside, threads()
(folder / f"rank-{members.rank}.json").write_text(json.dumps(answers))
"""


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def torchrun() -> list[str]:
    """The beginning of a command line that runs what follows in two processes of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    return [*command, "--master-port", port]


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[Path, list[dict[str, Any]]]:
    """What each of two processes got from every call."""
    folder = tmp_path_factory.mktemp("torchrun")
    file = folder / "script.py"
    file.write_text(CALLS + TOGETHER)
    answer = subprocess.run(
        [*torchrun(), str(file), str(folder)], capture_output=True, text=True, timeout=200, env=ENVIRONMENT
    )
    written = [folder / f"rank-{rank}.json" for rank in (0, 1)]
    # torch may abort a process that is already taking itself down (pytorch/pytorch issue 190489); all was written then.
    late = "terminate called without an active exception" in answer.stderr and all(file.exists() for file in written)
    assert answer.returncode == 0 or late, answer.stderr[-4000:]
    return folder, [json.loads(file.read_text()) for file in written]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """The same calls in this process."""
    names: dict[str, Any] = {}
    exec(compile(CALLS.replace('warnings.simplefilter("ignore")', ""), "calls", "exec"), names)
    return names


def numbers(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if value is not None and name != "extra"}


SAME = ["sgd", "adam", "images", "little validation", "early", "unlike", "diverging"]
needs_loopback = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loopback is called lo on Linux")


@pytest.mark.slow
@needs_loopback
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAME)
def test_two_processes_give_the_loss_curve_of_one(both, alone, name):
    expected = alone["summary"](alone["SAME"][name]())
    for found in both[1]:
        assert found[name]["stopped"] == expected["stopped"]
        assert len(found[name]["history"]) == len(expected["history"])
        if name == "diverging":
            continue  # what grows without bounds does not do so to five digits
        assert found[name]["reason"] == expected["reason"]
        assert found[name]["weights"] == pytest.approx(expected["weights"], rel=1e-5, abs=1e-5)
        for ours, theirs in zip(found[name]["history"], expected["history"], strict=True):
            assert numbers(ours) == pytest.approx(numbers(theirs), rel=1e-5, abs=1e-5)


@pytest.mark.slow
@needs_loopback
@pytest.mark.parametrize("name", [*SAME, "norm and dropout", "augmented"])
def test_both_processes_end_with_the_same_network(both, name):
    first, second = (found[name] for found in both[1])
    assert first == second


@pytest.mark.slow
@needs_loopback
def test_with_batch_norm_and_dropout_it_is_the_same_every_time(both):
    for found in both[1]:
        assert found["norm and dropout"] == found["again"]
        assert found["norm and dropout"]["stopped"] == "done"
        assert any("too few for batch norm" in note for note in found["norm and dropout"]["notes"])


@pytest.mark.slow
@needs_loopback
def test_a_run_resumed_in_two_processes_ends_with_the_same_bytes(both):
    folder, (first, second) = both
    assert first["resumed"] == first["adam"]
    # The first process alone has the folder, and in it the epochs kept before the interruption.
    assert {**second["resumed"], "kept": first["resumed"]["kept"]} == first["resumed"]
    for name in (
        "record.json",
        "history.csv",
        "network.safetensors",
        "epoch-0002.safetensors",
        "checkpoint.safetensors",
    ):
        assert (folder / "parts" / name).read_bytes() == (folder / "whole" / name).read_bytes()


@pytest.mark.slow
@needs_loopback
def test_what_the_first_process_refuses_ends_both(both):
    first, second = (found["refused"] for found in both[1])
    assert first.startswith("UsageError:")
    assert "belongs to another call (settings.optimiser is 'adam' in the journal and 'sgd' in this call)" in first
    assert second == f"UsageError: the first process refuses: {first.removeprefix('UsageError: ')}"
    assert all(found["after"] == found["sgd"] for found in both[1])


@pytest.mark.slow
@needs_loopback
def test_no_thread_of_the_group_outlives_it(both):
    # One that is still there when the interpreter is taken down may abort the process, once in many runs.
    for inside, after in (found["threads"] for found in both[1]):
        assert "pt_gloo_runloop" in inside
        assert not [name for name in after if "gloo" in name]


@pytest.mark.slow
@needs_loopback
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_killed_in_mid_run_ends_the_other_and_the_same_command_resumes_to_the_same_bytes(tmp_path, rank):
    options = ["--network", "mlp:8", "--epochs", "25", "--batch", "32", "--quiet"]

    def start(folder: str) -> subprocess.Popen[bytes]:
        call = [*torchrun(), "-m", "weightsmith", "train", "digits", *options, "--out", folder]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(call, cwd=tmp_path, env=ENVIRONMENT, **streams)

    assert start("whole").wait(120) == 0
    running = start("parts")
    journal = tmp_path / "parts" / "journal.jsonl"
    deadline = time.monotonic() + 120
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 4:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (killed,) = (pid for pid in children(running.pid) if variable(pid, "RANK") == str(rank))
    os.kill(killed, signal.SIGKILL)
    assert running.wait(60) != 0
    assert len(journal.read_bytes().splitlines()) < 26  # it was in mid-run
    assert start("parts").wait(120) == 0
    whole, parts = (
        {file.name: file.read_bytes() for file in (tmp_path / name).glob("[!.]*") if file.name != "journal.jsonl"}
        for name in ("whole", "parts")
    )
    assert len(whole) > 3
    assert whole == parts


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def variable(pid: int, name: str) -> str | None:
    """A variable of the environment of a process."""
    pairs = (entry.partition("=") for entry in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    return next((value for key, _, value in pairs if key == name), None)


def test_a_process_that_cannot_be_reached_is_reported_in_one_line(monkeypatch):
    def gone(*_: Any) -> None:
        raise RuntimeError("Connection closed by peer\nframe #0: …")

    for name in ("all_reduce", "broadcast"):
        monkeypatch.setattr(torch.distributed, name, gone)
    words = r"^process 1 of 3 can no longer reach the others \(Connection closed by peer\); one of them has ended"
    with pytest.raises(WorkerLost, match=words):
        Team(1, 3).sum(torch.ones(1))
    with pytest.raises(WorkerLost, match=words):
        Team(1, 3).from_first({}, None)
