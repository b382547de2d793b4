from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import torch

from weightsmith.spiking.graph import Synapses
from weightsmith.spiking.simulation import path_costs
from weightsmith.spiking.simulation.packing import tiling
from weightsmith.spiking.simulation.path_costs import Work

FLOAT = np.dtype(np.float32)


def _convolution(channels, side, rate, *, kind=FLOAT, table=FLOAT):
    node = Synapses("conv", "input", torch.zeros(channels, channels, 3, 3), padding=(1, 1))
    before, after = (side * side, channels), (channels, side, side)
    return Work(node, 512, before, after, int(rate * 512 * side * side * channels), side * side, kind, table)


@pytest.fixture(autouse=True)
def _measured_processor(monkeypatch):
    """The one of the measurements below: rows were added in 256 bits there."""
    monkeypatch.setattr(path_costs, "_mac", lambda: 0.018)
    monkeypatch.setattr(path_costs, "_register", lambda: 0.32)
    monkeypatch.setattr(path_costs, "tiling", functools.partial(tiling, wide=False))


@pytest.mark.parametrize(
    ("channels", "side", "rate", "events", "dense"),
    [(16, 32, 0.124, 46.5, 27.3), (32, 16, 0.114, 18.9, 24.4), (32, 16, 0.173, 23.1, 23.7), (64, 8, 0.1, 9.2, 20.7)],
)
def test_costs_near_what_was_measured(channels, side, rate, events, dense):
    """Milliseconds of the layers of a ResNet-20, 16 images and 32 steps."""
    work = _convolution(channels, side, rate)
    assert work.by_events / 1e6 == pytest.approx(events, rel=0.2)
    assert work.dense / 1e6 == pytest.approx(dense, rel=0.2)


def test_events_where_few_fire_and_products_where_many_do():
    both = ["events", "dense"]
    assert _convolution(64, 8, 0.05).cheapest(both) == "events"
    assert _convolution(64, 8, 0.6).cheapest(both) == "dense"
    assert _convolution(16, 32, 0.124).cheapest(both) == "dense"  # few outputs: starting on a window costs most


@pytest.mark.parametrize(
    ("channels", "side", "rate", "measured"),
    [
        (16, 32, 0.105, (126, 11, 50)),
        (32, 16, 0.109, (154, 29, 106)),
        (64, 8, 0.093, (213, 109, 312)),
        (64, 8, 0.38, (434, 171, 330)),
        (128, 8, 0.028, (234, 609, 1071)),
        (128, 8, 0.39, (1281, 738, 1064)),
        # 2 images and 20 steps on another machine, since rows are begun faster
        (16, 32, 0.04, (43, 11, 21)),
        (64, 8, 0.04, (62, 98, 254)),
        (128, 16, 0.15, (452, 641, 997)),
        (128, 16, 0.4, (1060, 902, 1011)),
    ],
)
def test_the_cheapest_of_three_paths_is_the_one_measured(channels, side, rate, measured, monkeypatch):
    """Nanoseconds of a row of neurons, 16 images and 16 steps, with vectors of 512 bits."""
    monkeypatch.setattr(path_costs, "_mac", lambda: 0.010)
    monkeypatch.setattr(path_costs, "_register", lambda: 0.16)
    monkeypatch.setattr(path_costs, "tiling", functools.partial(tiling, wide=True))
    costs = dict(zip(("events", "patterns", "dense"), measured, strict=True))
    assert _convolution(channels, side, rate).cheapest(list(costs)) == min(costs, key=costs.get)


def test_both_signs_are_looked_up_apart():
    plain = _convolution(32, 16, 0.2)
    signed = dataclasses.replace(plain, signed=True)
    assert signed.by_patterns - plain.by_patterns == pytest.approx(512 * 256 * 36 * (0.1 + 0.32 * 4))


def test_double_precision_and_16_bit_tables():
    wide = _convolution(64, 8, 0.1, kind=np.dtype(np.float64), table=np.dtype(np.float64))
    assert wide.dense > 1.8 * _convolution(64, 8, 0.1).dense
    assert (
        wide.by_events
        > _convolution(64, 8, 0.1).by_events
        > _convolution(64, 8, 0.1, table=np.dtype(np.int16)).by_events
    )


def test_a_dense_layer_pays_for_its_parts():
    node = Synapses("dense", "input", torch.zeros(128, 256))
    few, many = (Work(node, 10, (parts, 256 // parts), (128,), 0, parts, FLOAT, FLOAT) for parts in (1, 4))
    assert few.by_events == pytest.approx(0.33 * 10 * 256 + 2 * 10 * 10)
    assert many.by_events == pytest.approx(0.33 * 10 * 256 + 2 * 10 * 40)


@pytest.mark.parametrize(("level", "mac", "register"), [("AVX512", 0.010, 0.16), ("AVX2", 0.036, 0.32)])
def test_wide_vectors_halve_the_cost_of_a_row(level, mac, register, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: level)
    assert path_costs._mac.__wrapped__() == mac
    assert path_costs._register.__wrapped__() == register
