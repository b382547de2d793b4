"""Every stage is tried on two rows before any of them runs."""

import pytest
import torch

import weightsmith as ws
from weightsmith.chain.pipeline import pipeline
from weightsmith.chain.recipe import Recipe
from weightsmith.chain.rehearsal import rehearse
from weightsmith.chain.stage_runner import StageContext
from weightsmith.core.errors import UsageError


def context(tmp_path, **tables):
    tables = {"data": "digits", "train": {"network": "mlp:12,8"}} | tables
    return StageContext(Recipe.from_tables(tables), ws.data.load("digits"), 3, tmp_path)


def test_it_gives_the_network_as_training_would_begin_with_it(tmp_path):
    start = rehearse(context(tmp_path, train={"network": "mlp:12,8", "preset": "spike-ready"}))
    same = ws.networks.build(ws.spike_ready("mlp:12,8").architecture, input_shape=(1, 8, 8), classes=10, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(start.parameters(), same.parameters(), strict=True))
    assert start.output.bias is None


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"reduce": {"by": "groups", "layers": ["conv9*"]}}, r"'reduce' cannot be carried out: .*conv9"),
        ({"spike": {"balance": "max-current"}}, r"'spike' cannot be carried out: dense1 has a bias"),
        ({"sweep": {}}, r"'sweep' cannot be carried out: dense1 has a bias"),
        ({"train": {"network": "mlp:8,activation=tanh"}, "spike": {}}, "only ReLU converts"),
        ({"reduce": {"by": "magnitude", "target": "params:0.001"}}, "'reduce' cannot be carried out: .*cannot be met"),
        ({"reduce": {"by": "groups", "recover": "recalibrate"}}, "no batch norm with statistics"),
        ({"train": {"network": "torch.nn:Identity"}}, "'train' cannot be carried out: .*not one score per class"),
    ],
)
def test_what_would_fail_after_training_fails_before_it(tmp_path, tables, said):
    with pytest.raises(UsageError, match=said):
        rehearse(context(tmp_path, **tables))
    with pytest.raises(UsageError, match=said):
        pipeline({"data": "digits", "train": {"network": "mlp:12,8"}} | tables, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_can_be_done_passes(tmp_path):
    start = rehearse(
        context(
            tmp_path,
            train={"network": "mlp:12,8,bias=false"},
            reduce={"by": "groups", "layers": ["dense*"]},
            spike={"balance": "max-current", "encode": "poisson", "neuron": "lif:0.9"},
            sweep={},
        )
    )
    assert start.dense1.bias is None
    assert list(tmp_path.iterdir()) == []  # nothing is written
