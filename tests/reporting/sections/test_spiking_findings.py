from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.statistics import Interval
from weightsmith.reporting.sections._spiking_findings import advice, concerns
from weightsmith.spiking.conversion.distilling import Distillation


@pytest.fixture(scope="module")
def record():
    """A finished conversion, to be changed by tests."""
    run = ws.train("mlp:24", "digits", optimiser="adam", schedule=0.01, epochs=4)
    return ws.spike(run, "digits", steps=20, test_rows=120, watch=2).record


def of_decisions(record, **changes):
    return dataclasses.replace(record, decisions=dataclasses.replace(record.decisions, **changes))


def with_settings(record, **changes):
    return dataclasses.replace(record, settings={**record.settings, **changes})


def with_loss(record, difference, p):
    """A cost whose interval excludes 0 if p is small."""
    half = abs(difference) * (0.5 if p < 0.05 else 2) + 1e-3 * (p >= 0.05)
    interval = Interval(difference, difference - half, difference + half, 0.95, "Bonett-Price")
    cost = dataclasses.replace(record.decisions.cost, difference=difference, p=p, interval=interval)
    return of_decisions(record, cost=cost)


def test_advice_follows_the_numbers(record):
    fine = with_loss(record, 0.0, 1.0)
    lost = with_loss(record, -0.12, 0.001)
    images = lost.decisions.images
    flat = of_decisions(lost, correct=np.full(20, images // 2))
    rising = of_decisions(lost, correct=np.linspace(0, images, 20).astype(np.int64))
    assert advice(flat, kept=True)[0] == "--balance percentile:percent=99.0 or percentile:percent=99.99 (−12.0 points)"
    assert advice(rising, kept=True)[0].startswith("--steps 40: −12.0 points, and the second half")
    for name, value, line in (
        ("encode", "poisson", "--encode constant: no noise"),
        ("neuron", "lif:0.9", "--neuron if: no leak"),
        ("precision", "int8", "--precision float32: weights are not rounded"),
        ("balance", "max-current:factor=0.5", "--balance percentile, or another factor, as max-current:factor=0.35"),
    ):
        assert advice(with_settings(flat, **{name: value}), kept=True)[0].startswith(line)
    devices = advice(with_settings(rising, mismatch="mismatch:threshold=0.8"), kept=True)
    assert devices[0] == (
        "without --mismatch mismatch:threshold=0.8, to see how much is due to the devices (−12.0 points)"
    )
    assert devices[1].startswith("--steps 40: ")
    assert not any("--mismatch" in line for line in advice(with_settings(fine, mismatch="mismatch:0.1"), kept=False))
    weights = with_settings(flat, calibrate="weights:ridge=0.02")
    assert advice(weights, kept=True)[0].startswith("--calibrate distill: trains all weights together")
    taught = dataclasses.replace(
        with_settings(flat, calibrate="distill:rate=0.02"), distillation=Distillation(2625, 375, 4, 0.3, 0.2)
    )
    assert advice(taught, kept=True)[0] == (
        "--calibrate distill:images=12000,rate=0.02: four times the rows, without labels, and the time (−12.0 points)"
    )
    every = dataclasses.replace(taught, distillation=Distillation(1050, 150, 4, 0.3, 0.2))  # there were no more rows
    assert not any("distill" in line for line in advice(every, kept=True))
    assert "a larger margin than --early margin:3" in advice(with_settings(flat, early="margin:3"), kept=True)[1]
    assert not any("points)" in line for line in advice(fine, kept=True))
    waiting = of_decisions(rising, undecided=np.full(20, 2))
    assert [line[:11] for line in advice(waiting, kept=True)] == ["--steps 40:", "--balance p", "--within 1,"]
    assert "--steps" not in advice(of_decisions(flat, undecided=np.full(20, 1)), kept=True)[0]
    assert advice(lost, kept=False)[-1] == "--out FOLDER: the spiking network was not kept"
    assert len(advice(with_settings(rising, encode="poisson", neuron="lif:0.9"), kept=False)) == 3


def test_advice_saves_steps_and_energy_where_nothing_was_lost(record):
    images = record.decisions.images
    good = round(record.decisions.network.value * images)
    early = of_decisions(with_loss(record, 0.0, 1.0), correct=np.array([0, 0, *[good] * 18]))
    share = early.cost.curve[2] / early.cost.energy
    assert advice(early, kept=True)[0].startswith("--steps 3: from there on no more than 0.5 points below the network")
    assert f"at {100 * share:.0f} % of the energy of 20 steps" in advice(early, kept=True)[0]
    late = of_decisions(early, correct=np.array([0] * 19 + [good]))
    assert not any(line.startswith("--steps") for line in advice(late, kept=True))
    dear = dataclasses.replace(late, cost=dataclasses.replace(late.cost, prices=type(late.cost.prices)(5.0, 1.0)))
    assert advice(dear, kept=True)[0].startswith("--early margin:3: ")
    assert not any("--early" in line for line in advice(with_settings(dear, early="margin:3"), kept=True))


def test_advice_tells_how_to_hand_over(record):
    record = with_loss(record, 0.0, 1.0)
    export = "weightsmith export … net.nir: for other simulators and for hardware"
    assert advice(record, kept=True)[-1] == export
    spread = {"mismatch": "mismatch:leak=0.1", "neuron": "lif:0.9"}
    refused = "without --mismatch mismatch:leak=0.1, if it is to be exported: NIR has one leak per layer"
    assert advice(with_settings(record, **spread), kept=True)[-1] == refused
    assert advice(with_settings(record, **{**spread, "neuron": "if"}), kept=True)[-1] == export
    assert advice(with_settings(record, **{**spread, "mismatch": "mismatch:0.1"}), kept=True)[-1] == export
    signed = advice(with_settings(record, neuron="if:signed=true"), kept=True)
    assert signed[-1] == "weightsmith export … net.py: this network as a module in plain torch, for other tools"
    for neuron in ("if", "if:signed=true"):  # another neuron would not help
        gated = dataclasses.replace(with_settings(record, neuron=neuron), obstacle="pop gates spikes (max pooling)")
        assert advice(gated, kept=True)[-1].endswith("not as NIR, since pop gates spikes (max pooling)")
        assert not any("--for nir" in line for line in advice(gated, kept=True))


def test_concerns_name_layer_and_bar(record):
    assert concerns(record, None) == []
    silent = dataclasses.replace(record, populations=(dataclasses.replace(record.populations[0], rate=0.0),))
    assert concerns(silent, 100.0) == [
        "dense1 never fires (120 rows, 20 steps)",
        f"accuracy {100 * record.decisions.spiking.value:.1f} % is below the required 100 %",
    ]
