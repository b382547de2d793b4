"""Sweeps: what is shared changes nothing, races choose as full runs do, and a killed sweep goes on."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.statistics import mcnemar
from weightsmith.spiking.conversion.preparing import ConversionSettings, prepare
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.l4.adjust import L4
from weightsmith.spiking.sweep.results import SpikeSweep
from weightsmith.spiking.sweep.runs import BlockRuns
from weightsmith.spiking.sweep.sweeping import spike_sweep
from weightsmith.spiking.sweep.work import SweepWork

pytestmark = pytest.mark.choice

GRID: dict[str, Any] = {
    "leaks": (1.0, 0.9),
    "factors": (0.2, 0.6),
    "smoothings": (1.0, 5.0),
    "steps": (6, 24),
    "balance": "max-current:32,24",
    "rows": 40,
    "test_rows": 60,
    "mean_rows": 16,
    "race": "racing:0.05,least=16",
}


@functools.cache
def digits() -> Any:
    return ws.data.load("digits")


@functools.cache
def network() -> nn.Module:
    """Six epochs of Adam from ``spike_ready("mlp:24")``, in a file: choices hang on the last digits of weights."""
    return ws.load(Path(__file__).parents[2] / "reference" / "digits_spike_ready.safetensors")


@functools.cache
def swept() -> SpikeSweep:
    return spike_sweep(network(), digits(), **GRID)


def test_every_setting_stands_in_the_table() -> None:
    keys = [row.setting.key for row in swept().table]
    assert len(keys) == len(set(keys)) == 2 * 2 * 2 * 3
    assert all(row.seen == 40 or row.lost for row in swept().table)
    assert [(c.leak, c.reset, c.steps) for c in swept().chosen] == [
        (leak, reset, steps) for leak in (1.0, 0.9) for reset in ("soft", "hard") for steps in (6, 24)
    ]


def test_winners_have_most_right_answers_of_those_that_saw_all_images() -> None:
    for chosen in swept().chosen:
        index = swept().steps.index(chosen.steps)
        for winner, adjusted in ((chosen.baseline, False), (chosen.adjusted, True)):
            rivals = [
                row
                for row in swept().table
                if (row.setting.leak, row.setting.reset) == (chosen.leak, chosen.reset)
                and (row.setting.smoothing is not None) == adjusted
                and not row.lost
            ]
            best = max(row.correct[index] for row in rivals)
            assert winner is not None
            assert next(row for row in rivals if row.setting.key == winner.key).correct[index] == best


@pytest.mark.parametrize("smoothing", [None, 1.0])
def test_a_setting_gives_what_the_verb_gives(smoothing: float | None) -> None:
    """The shared currents and the thresholds in place of weights against a conversion from the beginning."""
    grid = {**GRID, "leaks": (0.9,), "factors": (0.6,), "smoothings": () if smoothing is None else (smoothing,)}
    result = spike_sweep(network(), digits(), **{**grid, "resets": ("soft",), "steps": 24, "race": None})
    (chosen,) = result.chosen
    subject = read_subject(network(), digits(), images=60, seed=0)
    recipe = ConversionSettings(
        neuron=ws.LIF(0.9),
        encode=ws.Poisson(),
        balance=ws.MaxCurrent(32, 24, factor=0.6),
        adjust=None if smoothing is None else L4(smoothing, images=16),
        mismatch=None,
        precision="float32",
        steps=24,
        seed=0,
    )
    alone = prepare(subject, recipe).network
    first = len(subject.train)
    right = alone.run(subject.judged.x, 24, first=first).correct(subject.judged.y.numpy())[:, -1]
    expected = chosen.baseline_test if smoothing is None else chosen.adjusted_test
    assert expected is not None
    assert abs(expected.value - right.mean()) < 0.5 / 60 + (0 if smoothing is None else 1.1 / 60)


def test_gain_is_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    whole = SweepWork.test

    def spied(self: Any, winners: Any, progress: Any) -> Any:
        kept.append(whole(self, winners, progress))
        return kept[-1]

    monkeypatch.setattr(SweepWork, "test", spied)
    result = spike_sweep(network(), digits(), **{**GRID, "leaks": (0.9,), "resets": ("hard",), "steps": 24})
    (chosen,), (tested,) = result.chosen, kept
    assert chosen.adjusted is not None
    assert chosen.gain is not None
    a, b = tested[chosen.adjusted.key][:, 0], tested[chosen.baseline.key][:, 0]
    assert chosen.gain.to_json() == mcnemar(a, b).to_json()
    assert chosen.baseline_test.value == pytest.approx(b.mean())


def test_a_race_chooses_as_full_runs_do() -> None:
    full = spike_sweep(network(), digits(), **{**GRID, "race": None})
    assert not any(row.lost for row in full.table)
    assert any(row.lost for row in swept().table)
    after_all = [(c.baseline.key, c.adjusted and c.adjusted.key) for c in swept().chosen if c.steps == 24]
    assert after_all == [(c.baseline.key, c.adjusted and c.adjusted.key) for c in full.chosen if c.steps == 24]


def test_eight_bits_choose_and_answer_much_alike() -> None:
    rounded = spike_sweep(network(), digits(), **{**GRID, "precision": "int8"})
    for one, other in zip(rounded.chosen, swept().chosen, strict=True):
        assert abs(one.baseline_test.value - other.baseline_test.value) < 0.1


def test_a_killed_sweep_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    run = BlockRuns.__call__

    def killed(self: Any, task: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return run(self, task)

    with monkeypatch.context() as patch:
        patch.setattr(BlockRuns, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            spike_sweep(network(), digits(), **GRID, out=tmp_path)
    assert not (tmp_path / "record.json").exists()
    again = spike_sweep(network(), digits(), **GRID, out=tmp_path)
    assert again.to_json() == swept().to_json()
    assert type(wanted := swept()).from_json((tmp_path / "record.json").read_text()) == wanted
    with pytest.raises(UsageError, match=r"factors|call"):
        spike_sweep(network(), digits(), **{**GRID, "factors": (0.7,)}, out=tmp_path)


def test_the_record_of_a_network_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "network.safetensors").touch()
    with pytest.raises(UsageError, match="is the folder of a network, whose record would be lost; give another"):
        spike_sweep(network(), digits(), **GRID, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["network.safetensors"]


def test_input_without_first_synapses_of_its_own_is_not_shared() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            self.pool, self.flat = nn.AvgPool2d(2), nn.Flatten()
            self.one, self.two = nn.Linear(16, 12, bias=False), nn.Linear(12, 10, bias=False)
            for layer in (self.one, self.two):
                layer.weight.data = torch.randn(layer.weight.shape, generator=generator) * 0.3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(torch.relu(self.one(self.flat(self.pool(x)))))

    images = torch.rand((30, 1, 8, 8), generator=torch.Generator().manual_seed(1))
    labels = torch.arange(30) % 10
    grid = {**GRID, "smoothings": (), "steps": 12, "rows": 16, "test_rows": None, "leaks": (1.0,)}
    result = spike_sweep(Pooled(), (images, labels), **grid)
    assert all(chosen.adjusted is None and chosen.gain is None for chosen in result.chosen)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaks": ()}, "leaks needs at least 1 value"),
        ({"factors": (0.5, 0.5)}, "twice"),
        ({"smoothings": (float("inf"),)}, "infinite smoothing"),
        ({"steps": 0}, "steps"),
        ({"steps": ()}, "steps needs at least 1 value"),
        ({"leaks": (1.1,)}, "leak"),
        ({"resets": ("none",)}, "reset"),
        ({"rows": 0}, "rows"),
        ({"precision": "int4"}, "precision"),
        ({"factors": (0.0,)}, "factor"),
        ({"smoothings": (-1.0,)}, "smoothing"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, OptionError), match=message):
        spike_sweep(network(), digits(), **{**GRID, **change})


def test_progress_is_reported() -> None:
    stages: dict[str, tuple[int, int]] = {}
    grid = {**GRID, "leaks": (1.0,), "resets": ("soft",)}
    spike_sweep(network(), digits(), **grid, progress=lambda stage, done, all_: stages.update({stage: (done, all_)}))
    assert set(stages) == {"balancing", "means", "racing", "testing"}
    assert all(done == total for done, total in stages.values())
    assert stages["racing"] == (40, 40)
    assert np.isfinite(stages["testing"]).all()


def test_the_grid_widens_while_winners_lie_on_its_edge(tmp_path: Path) -> None:
    high = {**GRID, "leaks": (1.0,), "resets": ("soft",), "factors": (24.0, 48.0), "smoothings": (), "steps": 24}
    fixed = spike_sweep(network(), digits(), **high)
    assert {row.setting.factor for row in fixed.table} == {24.0, 48.0}
    assert any("in 1 of 1 races the winner lies on the edge" in note for note in fixed.notes)
    wider = spike_sweep(network(), digits(), **high, widen=2)
    assert {row.setting.factor for row in wider.table} == {24.0, 48.0, 12.0, 6.0}
    assert any(note.startswith("grids were widened 2 times") for note in wider.notes)
    assert wider.chosen[0].baseline_test.value > fixed.chosen[0].baseline_test.value
    # Settings of before keep their results, and a sweep that goes on reads them.
    both = {row.setting.key: row.correct for row in wider.table if not row.lost}
    assert all(both[row.setting.key] == row.correct for row in fixed.table if row.setting.key in both and not row.lost)
    kept = spike_sweep(network(), digits(), **high, widen=2, out=tmp_path)
    assert kept.table == wider.table
    assert spike_sweep(network(), digits(), **high, widen=2, out=tmp_path) == kept
