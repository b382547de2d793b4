"""A record of every kind that a result folder may hold, as the verbs make them."""

from __future__ import annotations

import pytest
import torch

import weightsmith as ws
from weightsmith.chain.results import ChainRecord, StageDone
from weightsmith.chain.tailor.tailoring import tailor
from weightsmith.core.records import Origin, Record
from weightsmith.core.sweep import SweepTable
from weightsmith.reducing.study_table import Study, StudyRow, slopes, summaries


def study() -> Study:
    rows = [
        StudyRow(method, hidden, 0, fold, 4, 50.0, 40.0 + fold, None if method == "whole" else 15.0, None, 41.0, 42.0)
        for method in ("whole", "angles:15")
        for hidden in (4, 8)
        for fold in (0, 1)
    ]
    settings = {"folds": 2, "repeats": 1, "scaling": "none"}
    return Study("d", 20, 3, ("a", "b"), settings, tuple(rows), summaries(rows, 2), slopes(rows), (), Origin(0))


def chain() -> ChainRecord:
    stages = [{"kind": "train", "name": "train", "options": {"epochs": 2}}, {"kind": "grade", "name": "grade"}]
    done = StageDone("train", "train", None, 0, "train", "ab" * 32, "cd" * 32)
    return ChainRecord({"data": "digits", "seeds": [0], "stages": stages}, (done,), ("a note",), Origin())


@pytest.fixture(scope="session")
def records() -> dict[str, Record]:
    """By the name of the kind, small and with as much in them as a few seconds allow."""
    data = ws.data.load("digits")
    run = ws.train("mlp:12,bias=false", data, epochs=2)
    search = {"random": 2, "rows": 200, "latency": False, "recover": "fine-tune:1", "scratch": "fine-tune:1"}
    grid = {"leaks": (0.9, 1.0), "resets": ("soft",), "factors": (0.5, 1.0), "smoothings": (1.0,)}
    leaky = {"neuron": "lif:0.9", "adjust": "l4:1", "encode": "poisson", "balance": "max-current", "early": "margin:3"}
    rows = tuple({"rate": rate, "seed": seed, "loss": 2 + rate + seed} for rate in (0.1, 0.2) for seed in (0, 1))
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    values, labels = x[:, :2] * 5 + 7, x > 0
    return {
        "chain": chain(),
        "training": run.record,
        "transfer": ws.transfer(run.network, data, epochs=1, rate=0.05, unfreeze=0).record,
        "table": SweepTable("f", ("rate",), ("rate", "seed", "loss"), rows, Origin()),
        "grades": ws.grade(run.network),
        "evaluation": ws.evaluate(run.network, data),
        "evaluation of labels": ws.evaluate(ws.train("mlp:4", (x, labels), epochs=1).network, (x, labels)),
        "evaluation of values": ws.evaluate(ws.train("mlp:4", (x, values), epochs=1).network, (x, values)),
        "reduction": ws.reduce(run, data, by="genetic:10,population=6,generations=2", scratch_seeds=2, **search).record,
        "angles": ws.angles(run, data, rows=200, top=2).record,
        "study": study(),
        "spiking": ws.spike(run.network, data, steps=6, test_rows=20, watch=1, **leaky).record,
        "sweep": ws.spike_sweep(run.network, data, **grid, steps=(3, 6), rows=20, test_rows=30),
        "tailoring": tailor(run, data, accuracy=0.99, params=10, energy=0.3, rows=100, test_rows=50).record,
    }
