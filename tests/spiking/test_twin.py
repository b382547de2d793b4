from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.spiking.networks import Keeper, inputs, network

from weightsmith.core.errors import UsageError
from weightsmith.spiking import twin
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT
from weightsmith.spiking.neurons import LIF
from weightsmith.spiking.quantise import quantised
from weightsmith.spiking.sources import source_of
from weightsmith.spiking.stepping import Stepper
from weightsmith.spiking.twin import StepEngine


def _engine(found, x, precision="float64"):
    return StepEngine(found, source_of(found, x, 2, 0), precision, "cpu")


def test_chunks_are_steps_one_after_the_other():
    found = network("gates", LIF(0.9))
    x = inputs(found, 5)
    engine, keeper = _engine(found, x), Keeper(membranes=True, inputs=True)
    engine.begin(np.array([1, 3, 4]))
    first, counts = engine.advance(0, 4, [keeper])
    engine.keep(np.array([True, False, True]))
    second, more = engine.advance(4, 3, [keeper])
    assert (first.shape, second.shape) == ((3, 4, 10), (2, 3, 10))
    stepper, source = Stepper(found, torch.float64), source_of(found, x, 2, 0)
    state = stepper.begin(5)
    for step in range(7):
        values, tested = stepper.step(state, source.step(slice(None), step))
        alive = [1, 3, 4] if step < 4 else [1, 4]
        part, seen, at = (first, counts, step) if step < 4 else (second, more, step - 4)
        assert np.array_equal(part[:, at], values["out"][alive].numpy())
        for name in ("relu1", "relu2"):
            assert np.array_equal(seen[name][:, at], values[name][alive].flatten(1).sum(dim=1).numpy())
            shape = found.shapes[name]
            shown = values[name].reshape(5, shape[0], -1).transpose(1, 2).numpy()
            assert np.array_equal(keeper.trains[name][alive, step], shown[alive])
            membranes = tested[name].reshape(5, shape[0], -1).transpose(1, 2).numpy()
            assert np.array_equal(keeper.tested[name][alive, step], membranes[alive])
        entering = source.step(slice(None), step).flatten(2).transpose(1, 2).numpy()
        assert np.array_equal(keeper.trains[INPUT][alive, step], entering[alive])
        assert np.array_equal(seen[INPUT][:, at], np.abs(entering).sum(axis=(1, 2))[alive])


def test_a_new_block_has_clean_membranes():
    found = network("mlp")
    x = inputs(found)
    engine = _engine(found, x)
    runs = []
    for _ in range(2):
        engine.begin(np.arange(3))
        runs.append(engine.advance(0, 6, [])[0])
    assert np.array_equal(*runs)


def test_types():
    found = quantised(network("mlp"))
    for precision, dtype in (("float32", np.float32), ("float64", np.float64), ("int8", np.float64)):
        engine = _engine(found, inputs(found), precision)
        engine.begin(np.arange(3))
        assert engine.advance(0, 1, [])[0].dtype == dtype


def test_constant_currents_are_no_spikes():
    found = network("mlp", encode=Constant())
    engine, keeper = _engine(found, inputs(found)), Keeper(inputs=True)
    engine.begin(np.arange(3))
    _, counts = engine.advance(0, 2, [keeper])
    assert set(counts) == set(keeper.trains) == {"relu1", "relu2"}


def test_several_blocks(monkeypatch):
    found = network("conv")
    x = inputs(found, 5)
    whole = found.run(x, 9, path="steps")
    monkeypatch.setattr(StepEngine, "block", 2)
    monkeypatch.setattr(StepEngine, "chunk", 4)
    cut = found.run(x, 9, path="steps")
    assert (twin._BLOCK, twin._CHUNK) == (64, 16)
    assert np.array_equal(cut.answers, whole.answers)
    assert cut.scores == pytest.approx(whole.scores, rel=1e-5, abs=1e-5)
    assert cut.spikes() == whole.spikes()
    assert set(cut.paths.values()) == {"steps"}


def test_devices_that_are_unknown():
    found = network("mlp")
    with pytest.raises(UsageError, match="device 'abacus'"):
        found.run(inputs(found), 3, device="abacus")
