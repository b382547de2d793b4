"""Runs that are interrupted: killed at fixed moments, stopped by the user, and what a folder refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weightsmith.core import storage
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.journal import read_journal
from weightsmith.core.records import Record
from weightsmith.data.normalise import NONE
from weightsmith.data.tensors import Data, Split
from weightsmith.networks import mlp
from weightsmith.networks.card import weights_digest
from weightsmith.training import trainer as progress
from weightsmith.training.distributed import Team
from weightsmith.training.engines.stepping import Step
from weightsmith.training.feeding import Feed, Layout
from weightsmith.training.loop import train
from weightsmith.training.losses import CrossEntropy
from weightsmith.training.metrics import measure
from weightsmith.training.penalties import L2
from weightsmith.training.run import Stopped, StopTraining
from weightsmith.training.schedules import Exponential, Span, WarmUp
from weightsmith.training.trainer import Clock, Total

SAME = ("record.json", "network.safetensors", "history.csv", "checkpoint.safetensors")


def rows(count: int = 70, seed: int = 0) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 3
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed)) + 2 * F.one_hot(y, 4), y


def content(folder: Path) -> dict[str, bytes]:
    """The files of a run that must not depend on how it went; the journal holds durations."""
    names = [*SAME, *(file.name for file in folder.glob("epoch-*.safetensors"))]
    return {name: (folder / name).read_bytes() for name in names}


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "adam, plateau, penalties, kept epochs": {
        "optimiser": "adam",
        "schedule": "plateau:0.05,patience=1,threshold=10",
        "penalties": ["l2:0.001", "spectral:0.001", "max-norm:2"],
        "clip": "norm:0.5",
        "validation": 0.3,
        "keep": (0, 1, 4),
    },
    "nadam, one-cycle, early stopping": {
        "optimiser": "nadam",
        "schedule": "one-cycle:0.05",
        "stop": "early:2,min_delta=10",
        "validation": 0.3,
    },
    "nesterov, cosine": {"optimiser": "nesterov", "schedule": "cosine:0.05"},
    "rmsprop, warm-up": {"optimiser": "rmsprop", "schedule": str(WarmUp(4, str(Exponential(0.01, 20))))},
}
NETWORKS = ("mlp:8,dropout=0.3,input_dropout=0.1", "mlp:8,batch_norm=before,statistics=seed", "mlp:8,batch_norm=after")


class Interrupted(Exception):
    pass


def stop_after(epoch: int, error: type[BaseException]) -> Any:
    def hook(end: Any) -> dict[str, float]:
        if end.row.epoch == epoch:
            raise error
        return {"bias": end.network.output.bias.sum().item()}

    return hook


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(tmp_path, network, name):
    options = {"epochs": 5, "seed": 3, **OPTIONS[name]}
    whole = train(network, rows(), out=tmp_path / "whole", hooks=[stop_after(99, Interrupted)], **options)
    for epoch in (1, 3):
        with pytest.raises(Interrupted):
            train(network, rows(), out=tmp_path / "parts", hooks=[stop_after(epoch, Interrupted)], **options)
        assert len(read_journal(tmp_path / "parts" / "journal.jsonl").values) == epoch - 1
        assert not (tmp_path / "parts" / "record.json").exists()
    parts = train(network, rows(), out=tmp_path / "parts", hooks=[stop_after(99, Interrupted)], **options)
    assert content(tmp_path / "parts") == content(tmp_path / "whole")
    assert parts.record == whole.record
    assert weights_digest(parts.network) == weights_digest(whole.network)
    for epoch in whole.kept:
        assert weights_digest(parts.checkpoint(epoch)) == weights_digest(whole.checkpoint(epoch))


def test_an_interrupt_from_the_keyboard_leaves_a_run_that_can_be_resumed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train("mlp:8", rows(), epochs=4, out=tmp_path / "parts", hooks=[stop_after(3, KeyboardInterrupt)])
    seen = []
    train(
        "mlp:8",
        rows(),
        epochs=4,
        out=tmp_path / "parts",
        hooks=[stop_after(9, KeyboardInterrupt)],
        progress=seen.append,
    )
    assert seen[0].epoch == 3  # two epochs were not done again
    train("mlp:8", rows(), epochs=4, out=tmp_path / "whole", hooks=[stop_after(9, KeyboardInterrupt)])
    assert content(tmp_path / "parts") == content(tmp_path / "whole")


def test_the_same_call_on_a_finished_folder_trains_nothing_and_gives_the_same(tmp_path):
    def forbidden(progress: Any) -> None:
        raise AssertionError(progress)

    first = train("mlp:8", rows(), epochs=3, out=tmp_path, keep=(0, 2))
    before = content(tmp_path)
    again = train("mlp:8", rows(), epochs=3, out=tmp_path, keep=(0, 2), progress=forbidden)
    assert content(tmp_path) == before
    assert again.record == first.record
    assert weights_digest(again.checkpoint(2)) == weights_digest(first.checkpoint(2))


def test_a_run_that_diverged_diverges_again_to_the_same_bytes(tmp_path):
    runs = [train(mlp(4, 8, 3), rows(), schedule=1e6, epochs=20, out=tmp_path / name) for name in "aab"]
    assert {run.stopped for run in runs} == {Stopped.DIVERGED}
    assert 0 < len(runs[0].history.rows) < 20
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_resuming_uses_what_was_written_not_what_is_computed_again(tmp_path):
    """The rows of finished epochs come from the checkpoint: a hook that now says something else is not asked."""
    with pytest.raises(Interrupted):
        train("mlp:8", rows(), epochs=3, out=tmp_path, hooks=[stop_after(2, Interrupted)])
    run = train("mlp:8", rows(), epochs=3, out=tmp_path, hooks=[lambda end: {"bias": float(end.row.epoch)}])
    assert run.history.column("bias")[1:] == (2.0, 3.0)
    assert run.history.column("bias")[0] != 1.0


# a folder belongs to one call


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schedule": 0.02}, r"settings\.schedule is 'constant:0.01' in the journal and 'constant:0.02' in this call"),
        ({"seed": 1}, r"settings\.seed is 0 in the journal and 1"),
        ({"epochs": 1}, r"settings\.epochs is 2 in the journal and 1"),
        ({"keep": (1,)}, r"settings\.keep has 0 values in the journal and 1"),
        ({"optimiser": "adam", "schedule": 0.01}, r"settings\.optimiser is 'momentum'"),
        ({"penalties": L2(0.1)}, r"settings\.penalties has 0 values"),
        ({"network": mlp(4, 8, 3, seed=1)}, r"inputs\.network is "),
        ({"network": mlp(4, 9, 3)}, r"settings\.network is 'mlp:8"),
        ({"data": rows(seed=1)}, r"inputs\.train is "),
        ({"loss": F.cross_entropy}, r"settings\.loss is 'cross-entropy'"),
    ],
)
def test_the_folder_of_another_call_is_refused_by_what_differs(tmp_path, changes, words):
    given = {"network": mlp(4, 8, 3), "data": rows(), "schedule": 0.01, "epochs": 2}
    train(**given, out=tmp_path)
    before = content(tmp_path)
    with pytest.raises(UsageError, match=f"belongs to another call .*{words}"):
        train(**(given | changes), out=tmp_path)
    assert content(tmp_path) == before


def test_whoever_deletes_the_journal_starts_over(tmp_path):
    """As the message advises: the checkpoint of the other call must not be taken for one of this."""
    train(mlp(4, 8, 3), rows(), epochs=2, schedule=0.5, out=tmp_path / "run")
    (tmp_path / "run" / "journal.jsonl").unlink()
    train(mlp(4, 8, 3), rows(), epochs=3, out=tmp_path / "run")
    train(mlp(4, 8, 3), rows(), epochs=3, out=tmp_path / "fresh")
    assert content(tmp_path / "run") == content(tmp_path / "fresh")


def test_a_checkpoint_that_is_lost_is_computed_again(tmp_path):
    train(mlp(4, 8, 3), rows(), epochs=3, out=tmp_path)
    before = content(tmp_path)
    for name in before:
        (tmp_path / name).unlink()
    train(mlp(4, 8, 3), rows(), epochs=3, out=tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize("position", [0.02, 0.5, 0.99])
def test_a_damaged_checkpoint_is_refused(tmp_path, position):
    with pytest.raises(Interrupted):
        train("mlp:8", rows(), epochs=3, out=tmp_path, hooks=[stop_after(2, Interrupted)])
    file = tmp_path / "checkpoint.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[int(position * len(damaged))] ^= 4
    file.write_bytes(damaged)
    with pytest.raises(FileRefused, match="checkpoint.safetensors"):
        train("mlp:8", rows(), epochs=3, out=tmp_path, hooks=[stop_after(9, Interrupted)])


def test_a_checkpoint_cut_short_is_refused(tmp_path):
    with pytest.raises(Interrupted):
        train("mlp:8", rows(), epochs=3, out=tmp_path, hooks=[stop_after(2, Interrupted)])
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(FileRefused, match="checkpoint.safetensors"):
        train("mlp:8", rows(), epochs=3, out=tmp_path)


def test_a_damaged_journal_is_refused(tmp_path):
    train("mlp:8", rows(), epochs=2, out=tmp_path)
    file = tmp_path / "journal.jsonl"
    file.write_text(file.read_text().replace('"epoch 1"', '"epoch 7"'))
    with pytest.raises(FileRefused, match=r"journal\.jsonl: line 2 is damaged"):
        train("mlp:8", rows(), epochs=2, out=tmp_path)


def test_two_runs_cannot_share_a_folder(tmp_path):
    def intrude(end: Any) -> None:
        train("mlp:8", rows(), epochs=1, out=tmp_path)

    with pytest.raises(UsageError, match=r"journal\.jsonl"):
        train("mlp:8", rows(), epochs=1, out=tmp_path, hooks=[intrude])


def test_the_journal_holds_an_epoch_a_line_with_its_duration(tmp_path):
    run = train("mlp:8", rows(), epochs=3, out=tmp_path)
    journal = read_journal(tmp_path / "journal.jsonl")
    assert list(journal.values) == ["epoch 1", "epoch 2", "epoch 3"]
    assert [value["train_loss"] for value in journal.values.values()] == list(run.history.column("train_loss"))
    assert all(0 < seconds < 60 for seconds in journal.seconds.values())
    assert "seconds" not in (tmp_path / "record.json").read_text()


def test_the_work_of_an_epoch_does_not_grow_with_the_epochs_before_it(tmp_path, monkeypatch):
    """Counted in records that are put into words and bytes that are written, not by the clock."""
    encoded, to_dict, write = [], Record.to_dict, storage.write_atomic
    monkeypatch.setattr(Record, "to_dict", lambda record: encoded.append(type(record)) or to_dict(record))

    def counted(path: Path, content: Any) -> Path:
        blocks = list(content)
        sizes.append(sum(map(len, blocks)))
        return write(path, blocks)

    monkeypatch.setattr("weightsmith.networks.sealed.write_atomic", counted)
    records, written = [], []
    for epochs in (10, 20, 40):
        sizes: list[int] = []
        encoded.clear()
        train("mlp:8", rows(), epochs=epochs, out=tmp_path / str(epochs))
        records.append(len(encoded))
        written.append(sum(sizes) + (tmp_path / str(epochs) / "journal.jsonl").stat().st_size)
    assert records[2] - records[1] == 2 * (records[1] - records[0])
    assert written[2] - written[1] == pytest.approx(2 * (written[1] - written[0]), rel=0.05)


# killed for real


LAB = '''
import hashlib, json, os, pathlib, signal, sys, time
import torch
from torch import nn
from weightsmith.data.tensors import Data, Split
from weightsmith.training.loop import train
from weightsmith.training.engines.stepping import Stepper

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout2d(0.2), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(48, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
    def forward(self, x):
        return self.head(self.body(x))

generator = torch.Generator().manual_seed(0)
y = torch.arange(66) % 3
images = torch.randint(0, 256, (66, 1, 6, 6), generator=generator, dtype=torch.uint8)
images[:, 0, 0, 0] = (y * 80).to(torch.uint8)
torch.manual_seed(0)
own = Own()
CALLS = {
    "images": lambda out: train(
        own, Data("images", Split(images, y)), optimiser="adam", schedule="plateau:0.01,patience=1", clip="norm:0.5",
        augment="crop-flip:1", penalties="l2:0.001", validation=0.2, batch=16, epochs=4, keep=(0, 2), out=out),
    "rows": lambda out: train(
        "mlp:8,dropout=0.2,dropout_kind=after", (images.flatten(1).float() / 255, y), schedule="cosine:0.1",
        stop="early:1,min_delta=5", validation=0.2, batch=16, epochs=9, keep=(1,), out=out),
}

def digests(folder):
    files = sorted(f for f in folder.iterdir() if f.name != "journal.jsonl" and not f.name.startswith("."))
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}

def killed(work, out, arm):
    """Run the call in a child that is killed as ``arm`` arranges it; whether it was."""
    child = os.fork()
    if child == 0:
        arm()
        work(out)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

def at_sync(number):
    """Die instead of bringing a file (or the rename of one) to the disk for the n-th time."""
    def arm():
        syncs.clear()
        def fsync(handle):
            syncs.append(handle)
            if len(syncs) == number:
                os.kill(os.getpid(), signal.SIGKILL)
        os.fsync = fsync
    return arm

def at_step(number):
    """Die in the n-th step, after the weights have moved."""
    def arm():
        count, step = [0], Stepper.__call__
        def call(self, *args, **named):
            result = step(self, *args, **named)
            count[0] += 1
            if count[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        Stepper.__call__ = call
    return arm

def check(name, every):
    """Kill the call at moments spread over all that it writes; those after which a resumed run was not the same."""
    work, base = CALLS[name], folder / name
    syncs.clear()
    start = time.monotonic()
    work(base / "whole")
    duration, written = time.monotonic() - start, len(syncs)
    expected, wrong = digests(base / "whole"), []
    moments = {f"sync {n}": [at_sync(n)] for n in range(1, written + 1, every)}
    moments |= {f"step {n}": [at_step(n)] for n in (7,)}
    moments["twice"] = [at_step(7), at_sync(4)]
    for label, arms in moments.items():
        died = all([killed(work, base / label, arm) for arm in arms])
        work(base / label)
        if not died or digests(base / label) != expected:
            wrong.append([name, label, died, digests(base / label), expected])
    for share in (0.4, 0.8):  # from outside, by the clock
        out = base / f"clock {share}"
        child = os.fork()
        if child == 0:
            work(out)
            os._exit(0)
        time.sleep(share * duration)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        work(out)
        if digests(out) != expected:
            wrong.append([name, share])
    return wrong, written, sorted(expected)

folder, syncs = pathlib.Path(sys.argv[1]), []
os.fsync = syncs.append  # a killed process loses nothing that the system has; only a power cut would
print(json.dumps({"images": check("images", 7), "rows": check("rows", 4)}))
'''


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment_the_same_call_ends_with_the_same_bytes(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", LAB, str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert answer.returncode == 0, answer.stderr
    for wrong, written, files in json.loads(answer.stdout).values():
        assert wrong == []
        assert written > 12
        assert {"checkpoint.safetensors", "history.csv", "network.safetensors", "record.json"} < set(files)


# measuring


def test_measured_in_pieces_or_at_once_the_numbers_are_the_same():
    network, (x, y) = mlp(4, 8, 3).train(), rows()
    feed = Feed(Split(x, y), NONE, Layout((), torch.float64, torch.device("cpu"), channels_last=False))
    network, x = network.double(), x.double()
    expected = F.cross_entropy(network(x), y).item(), float((network(x).argmax(1) == y).double().mean())
    for size in (1, 7, 70, 100):
        feed.comfortable = size
        assert measure(network, feed, CrossEntropy(), Team()) == pytest.approx(expected, rel=1e-12)
    assert not network.training


def test_measuring_leaves_the_statistics_of_batch_norm_alone():
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    before = network[1].running_mean.clone()
    feed = Feed(Split(*rows()), NONE, Layout((), torch.float32, torch.device("cpu"), channels_last=False))
    measure(network, feed, CrossEntropy(), Team())
    assert torch.equal(network[1].running_mean, before)


def test_state_that_no_file_can_hold_is_refused_before_training():
    class Odd(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"a": 1}

        def set_extra_state(self, state: Any) -> None:
            pass

    with pytest.raises(UsageError, match="_extra_state"):
        train(nn.Sequential(Odd(4, 3)), Data("rows", Split(*rows())), epochs=1)


def test_means_are_weighted_by_rows():
    total = Total()
    total.add(Step(loss=1.0, correct=3, rows=4))
    total.add(Step(loss=4.0, correct=0, rows=2))
    assert total.loss == pytest.approx((1.0 * 4 + 4.0 * 2) / 6)
    assert total.accuracy == 3 / 6


def ticks(monkeypatch, seconds, steps=4, epochs=2, skipped=0):
    """The reports of a clock when each step takes ``seconds``."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    calls = []
    clock, span, total = Clock(calls.append, steps * epochs), Span(steps, epochs), Total()
    clock.skip(skipped)
    total.add(Step(0.5, 1, 2))
    for step in range(skipped, steps * epochs):
        now[0] += seconds
        clock.tick(step // steps + 1, step % steps, span, total, rate=0.1)
    return calls


def test_slow_steps_are_reported_one_by_one_with_the_time_left(monkeypatch):
    reports = ticks(monkeypatch, seconds=2.0)
    assert [(p.epoch, p.step) for p in reports] == [(e, s) for e in (1, 2) for s in (1, 2, 3, 4)]
    assert [p.left for p in reports] == pytest.approx([14, 12, 10, 8, 6, 4, 2, 0])
    assert (reports[0].epochs, reports[0].steps, reports[0].loss, reports[0].accuracy, reports[0].rate) == (
        2,
        4,
        0.5,
        0.5,
        0.1,
    )


def test_of_fast_steps_only_some_are_reported_and_always_the_last_of_an_epoch(monkeypatch):
    reports = ticks(monkeypatch, seconds=0.001, steps=1000)
    assert len(reports) < 30
    assert [p.step for p in reports].count(1000) == 2


def test_steps_of_an_earlier_run_do_not_count_as_fast_ones(monkeypatch):
    assert ticks(monkeypatch, seconds=2.0, skipped=6)[0].left == pytest.approx(2.0)


def test_a_hook_may_end_the_run_and_a_resumed_run_stays_ended(tmp_path):
    seen = []

    def good_enough(end):
        if end.row.epoch == 2:
            raise StopTraining("it is good enough")

    def count(end):
        seen.append(end.row.epoch)
        return {"epochs_seen": float(len(seen))}

    given = {"network": mlp(4, 8, 3), "data": rows(), "schedule": 0.05, "epochs": 5, "out": tmp_path}
    run = train(**given, hooks=[good_enough, count])
    assert run.stopped is Stopped.EARLY
    assert run.record.reason == "a hook ended it after epoch 2: it is good enough"
    assert seen == [1, 2]  # the hooks after it still see the epoch
    assert run.record.restored == 2
    before = content(tmp_path)
    (tmp_path / "record.json").unlink()
    again = train(**given, hooks=[good_enough, count])
    assert again.record.to_json() == run.record.to_json()
    assert content(tmp_path) == before
    assert seen == [1, 2]
