"""The same bytes from one process, from two and four worker processes, and from a Dask cluster, in every verb."""

from __future__ import annotations

import functools
import inspect
import time
import warnings
from pathlib import Path

import pytest
import torch

import weightsmith as ws
from weightsmith.core import _processes
from weightsmith.core.parallel import is_spread, parallel_map, spread
from weightsmith.core.verbs import parameters
from weightsmith.papers.reproduction import reproduce
from weightsmith.spiking.simulation import chunked
from weightsmith.training.sweep import train_sweep


@functools.cache
def digits():
    return ws.data.load("digits")


@functools.cache
def trained(network="mlp:12,10"):
    return ws.train(network, digits(), optimiser="adam", schedule=0.01, epochs=3).network


VERBS = {
    "grade": lambda **where: ws.grade(trained("mlp:40,30,20"), **where).to_json(),
    "reduce": lambda **where: ws.reduce(
        trained(), digits(), by="genetic:50,generations=2,population=8", latency=False, rows=60, test_rows=40, **where
    ).record.to_json(),
    "reduction_study": lambda **where: ws.reduction_study(
        "digits", hidden=[6, 8], methods=["angles:45"], epochs=1, folds=2, repeats=1, scratch=False, **where
    ).to_json(),
    "spike": lambda **where: ws.spike(
        trained(), digits(), neuron="if", encode="poisson", balance="percentile", steps=6, test_rows=50, **where
    ).record.to_json(),
    "spike_sweep": lambda **where: ws.spike_sweep(
        trained(), digits(), leaks=[1.0, 0.9], resets=["soft"], factors=[0.8], smoothings=[1.0], steps=4, rows=16,
        test_rows=16, balance="percentile", **where
    ).to_json(),
    "tailor": lambda **where: ws.tailor(
        trained(), digits(), energy=0.9, spiking=True, rows=60, test_rows=40, **where
    ).record.to_json(),
    "train_sweep": lambda **where: train_sweep(
        "digits", [{"rate": 0.1}, {"rate": 0.2}], network="mlp:6", epochs=1, seeds=(0, 1), **where
    ).to_json(),
}  # fmt: skip
NOT_HERE = {"pipeline"}  # calls the others


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of few images, so that there is something to share; workers are given the blocks, not this number."""
    monkeypatch.setattr(chunked, "_BUDGET", 20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_verb_that_has_workers_is_here():
    public = {name: getattr(ws, name) for name in ws.__all__ if inspect.isfunction(getattr(ws, name, None))}
    public["train_sweep"] = train_sweep
    having = {name for name, function in public.items() if "workers" in parameters(function)}
    assert having == set(VERBS) | NOT_HERE
    assert all("cluster" in parameters(public[name]) for name in having)


@pytest.mark.parametrize("name", ["spike", "reduce"])
def test_two_workers_give_the_same_bytes(name):
    assert VERBS[name](workers=2) == VERBS[name]()


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_two_and_four_workers_give_the_same_bytes(name):
    one = VERBS[name]()
    assert VERBS[name](workers=2) == one
    assert VERBS[name](workers=4) == one


@pytest.mark.slow
def test_an_experiment_gives_the_same_bytes():
    one = reproduce("membrane", quick=True).to_json()
    assert [reproduce("membrane", quick=True, workers=count).to_json() for count in (2, 4)] == [one] * 2


@pytest.mark.slow
def test_a_pipeline_gives_its_workers_to_all_stages(tmp_path):
    recipe = {
        "data": "digits",
        "report": False,
        "train": {"network": "mlp:16,12", "epochs": 1},
        "grade": {},
        "spike": {"neuron": "if", "steps": 4, "test_rows": 40},
    }
    for count in (1, 4):
        ws.pipeline(recipe, tmp_path / str(count), workers=count)
    one, four = (sorted((tmp_path / count).rglob("record.json")) for count in "14")
    assert len(one) >= 3
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in four]


def test_maps_inside_run_on_the_workers_around_them():
    def process(_):
        import os

        from weightsmith.core.parallel import is_spread

        return os.getpid(), is_spread()

    assert not is_spread()
    ((here, _),) = parallel_map(process, [0])
    with spread(2):
        assert is_spread()
        found = parallel_map(process, range(4))
        with spread():  # a verb in a verb that asks for nothing
            assert is_spread()
    assert not is_spread()
    assert here not in {pid for pid, _ in found}
    assert not any(inside for _, inside in found)  # a worker shares its work with nobody


def test_what_a_function_holds_is_sent_to_a_worker_once():
    class Heavy:
        def __init__(self):
            self.read = 0

        def __setstate__(self, state):
            self.read = state["read"] + 1

        def __call__(self, task):
            import os

            self.read += 100
            return os.getpid(), self.read

    found = parallel_map(Heavy(), range(12), workers=2)
    for process in {pid for pid, _ in found}:
        reads = sorted(read for pid, read in found if pid == process)
        assert reads == [1 + 100 * (number + 1) for number in range(len(reads))]


def test_a_process_that_took_the_place_of_an_idle_one_is_sent_the_function(monkeypatch):
    monkeypatch.setattr(_processes, "_IDLE_SECONDS", 0.5)
    monkeypatch.setattr(_processes, "_spare", _processes._IdleWorkers())

    def process(_):
        import os

        return os.getpid()

    first = set(parallel_map(process, range(4), workers=2))
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in first) and time.monotonic() < end:
        time.sleep(0.1)
    assert not first & set(parallel_map(process, range(4), workers=2))


def test_tensors_of_a_block_travel_without_the_rest(monkeypatch):
    from weightsmith.spiking.simulation import simulate as module

    sent = []

    def seen(work, tasks):
        sent.extend(x.untyped_storage().nbytes() / x.nbytes for x, _ in tasks)
        return ((index, work(task)) for index, task in enumerate(tasks))

    monkeypatch.setattr(module, "completed", seen)
    network = ws.spike(trained(), digits(), neuron="if", steps=4, test_rows=20).network
    x = torch.rand(30, 1, 8, 8)
    plain = network.run(x, 4)
    with spread(2):
        parts = network.run(x, 4)
    assert set(sent) == {1.0}
    assert len(sent) > 1
    assert (parts.answers == plain.answers).all()
    assert parts.spikes() == plain.spikes()
    assert parts.paths == plain.paths
