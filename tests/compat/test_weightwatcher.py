"""The table of ws.compat.WeightWatcher against what the real package reported for the same layers."""

from __future__ import annotations

import builtins
import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import weightsmith as ws
from weightsmith.compat import WeightWatcher
from weightsmith.core.errors import MissingExtra, UnknownName, UsageError


@pytest.fixture
def vectors(reference: Any) -> Any:
    return reference("weightwatcher_layers")


@pytest.fixture
def network(vectors: Any, unpack: Any) -> nn.Module:
    """The network that the package was given."""
    network = nn.Module()
    for name, stored in vectors["layers"].items():
        weight = torch.from_numpy(unpack(stored)).float()
        rows, columns = weight.shape[:2]
        layer = nn.Conv2d(columns, rows, 2, bias=False) if weight.ndim == 4 else nn.Linear(columns, rows, bias=False)
        layer.weight = nn.Parameter(weight)
        network.add_module(name, layer)
    return network


def test_every_column_is_there_and_numbers_are_equal(vectors, network):
    rows = {row["name"]: row for row in WeightWatcher(model=network).rows()}
    for name, expected in vectors["pooled"].items():
        assert set(vectors["table"]["columns"]) <= set(rows[name])
        found = {column: rows[name][column] for column in expected}
        if name == "conv":  # ours: the smallest of all positions; theirs: the largest of the positions' smallest
            assert 0 < found.pop("sv_min") < expected.pop("sv_min")
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-7), name


def test_texts_ids_and_the_summary_are_theirs(vectors, network):
    watcher = WeightWatcher(model=network)
    rows = watcher.rows()
    text = ("layer_id", "name", "longname", "layer_type", "status", "warning", "rf")
    assert [[row[column] for column in text] for row in rows] == vectors["table"]["cells"]
    assert watcher.get_summary(rows) == pytest.approx(vectors["table"]["summary"], rel=1e-6)
    assert watcher.get_summary() == watcher.get_summary(rows)


def test_kernel_positions_one_by_one(vectors, network):
    rows = WeightWatcher(model=network).rows(pool=False, layers=["conv"])
    assert [row["slice_id"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        expected = vectors["slices_of_conv"][f"conv.{row['slice_id']}"]
        assert {column: row[column] for column in expected} == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_a_layer_without_a_fit_has_no_alpha_and_is_not_averaged():
    network = nn.Sequential(nn.Linear(30, 20), nn.Linear(20, 12))
    torch.manual_seed(0)
    nn.init.normal_(network[0].weight)
    nn.init.zeros_(network[1].weight)
    watcher = WeightWatcher(model=network)
    fitted, zero = watcher.rows()
    assert (zero["alpha"], zero["status"], zero["warning"], zero["verdict"]) == (None, "failed", "", "zero")
    assert watcher.get_summary([fitted, zero])["alpha"] == fitted["alpha"]


def test_layers_are_chosen_by_id_by_name_and_left_out_by_a_negative_id(network):
    watcher = WeightWatcher(model=network)
    ids = {row["name"]: row["layer_id"] for row in watcher.rows()}
    assert [row["name"] for row in watcher.rows(layers=[ids["tall"], "heavy"])] == ["heavy", "tall"]
    assert "tall" not in {row["name"] for row in watcher.rows(layers=[-ids["tall"]])}
    with pytest.raises(UnknownName, match="'99'"):
        watcher.rows(layers=[99])
    assert watcher.rows(min_evals=81) == []


def test_ids_are_places_among_the_modules_and_a_file_is_numbered(tmp_path):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.ReLU(), nn.Linear(20, 20))
    network = nn.Sequential(nn.Linear(20, 20), inner, nn.LSTM(20, 20))
    names = [name for name, _ in network.named_modules()]
    rows = WeightWatcher(model=network).rows()
    assert [row["layer_id"] for row in rows[:2]] == [names.index("0"), names.index("1.1")]
    assert {row["layer_id"] for row in rows[2:]} == {names.index("2")}
    save_file(network.state_dict(), tmp_path / "n.safetensors")
    assert [row["layer_id"] for row in WeightWatcher(model=tmp_path / "n.safetensors").rows(start_ids=1)][:2] == [1, 2]


def test_noise_and_twin_columns_come_when_asked_for(network):
    watcher = WeightWatcher(model=network)
    (row,) = watcher.rows(layers=["tall"], mp_fit=True, randomize=True)
    assert row["bulk_min"] < row["bulk_max"]
    assert {"num_spikes", "mp_softrank", "sigma_mp", "rand_distance", "num_traps"} <= set(row)
    assert "mp_softrank" in watcher.get_summary([row])
    assert "num_spikes" not in watcher.rows(layers=["tall"])[0]


def test_the_spectrum_of_a_layer_has_its_zeros(network):
    values = WeightWatcher(model=network).get_ESD("low_rank")
    assert values.shape == (28,)
    assert (values == 0).sum() == 8
    exact = np.linalg.svd(network.low_rank.weight.detach().double().numpy(), compute_uv=False) ** 2
    assert values == pytest.approx(np.sort(exact), abs=1e-10)
    number = [name for name, _ in network.named_modules()].index("low_rank")
    assert (WeightWatcher(model=network).get_ESD(number) == values).all()  # ids count modules from 0


@pytest.mark.parametrize("asked", [{"plot": True}, {"fit": "TPL"}, {"fix_fingers": "xmin_peak"}])
def test_what_is_not_done_here_is_refused_by_name(network, asked):
    with pytest.raises(UsageError, match=f"{next(iter(asked))}=.*not supported"):
        WeightWatcher(model=network).rows(**asked)
    assert WeightWatcher(model=network).rows(plot=False, savefig="")


def test_no_model_and_no_method(network):
    with pytest.raises(UsageError, match="no model is given"):
        WeightWatcher().rows()
    with pytest.raises(UnknownName, match="svd_method"):
        WeightWatcher(model=network).rows(svd_method="slow")
    exact = WeightWatcher().rows(network, svd_method="accurate")
    assert [row["matrix_rank"] for row in exact] == [row["matrix_rank"] for row in WeightWatcher().rows(network)]


def test_without_pandas_it_says_so(network, monkeypatch):
    actual = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> ModuleType:
        if name == "pandas":
            raise ImportError(name)
        return actual(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"rows\(\) is the same without pandas.*\.\[compat\]"):
        WeightWatcher(model=network).analyze()


def test_the_table_is_a_data_frame(network):
    pytest.importorskip("pandas")
    network.heavy.weight.data.zero_()
    watcher = ws.compat.WeightWatcher(model=network)
    details = watcher.analyze()
    assert details is watcher.get_details()
    assert math.isnan(details.set_index("name").alpha["heavy"])
    assert watcher.get_summary(details)["alpha"] == pytest.approx(details.alpha.mean())
