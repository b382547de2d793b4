"""How a target is shared out: by a plan, by norm, and by default by measured error where the cut is refitted."""

from __future__ import annotations

from typing import Any

import pytest

import weightsmith as ws
from weightsmith.data.tensors import Data
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.reducing.reduce import reduce

QUICK: dict[str, Any] = {"latency": False, "random": 0}


def test_plans_decide_how_much_of_each_layer(digits: Data) -> None:
    run = ws.train("mlp:40,40", digits, epochs=2, schedule=0.05)
    sizes = {"dense1": 2600, "dense2": 1640, "output": 410}
    plan = LayerPlan({"dense1": 0.9, "dense2": 0.3, "output": 1.0}, sizes, "by hand", 0.6)
    small = reduce(run, digits, by="magnitude", plan=plan, **QUICK)
    assert [site.after for site in small.sites] == [36, 12]
    scaled = reduce(run, digits, by="magnitude", plan=plan, target="params:0.4", **QUICK)
    first, second = (site.after for site in scaled.sites)
    assert first / second == pytest.approx(3, rel=0.15)
    by_norm = reduce(run, digits, by="magnitude", plan="norm", target="params:0.5", **QUICK)
    by_alpha = reduce(
        run, digits, by="magnitude", plan=ws.alpha_plan(ws.grade(run.network), 0.5), target="params:0.5", **QUICK
    )
    sizes_found = [item.record.reduced.parameters / item.record.whole.parameters for item in (by_norm, by_alpha)]
    assert all(0.45 < share <= 0.5 for share in sizes_found)
    assert by_norm.record.settings["plan"].startswith("root mean square")
    assert by_alpha.record.settings["plan"].startswith("alpha")


@pytest.mark.parametrize(
    ("refit", "layers", "source"),
    [("least-squares", None, "error"), ("none", None, "uniform"), ("least-squares", "dense1", "uniform")],
)
def test_the_default_is_measured_where_it_can_tell(digits: Data, refit: str, layers: str | None, source: str) -> None:
    """Without a refit the errors are not those of the result; a single site leaves nothing to share out."""
    run = ws.train("mlp:16,12", digits, epochs=1, schedule=0.05)
    small = reduce(run, digits, by="magnitude", target="params:0.6", refit=refit, layers=layers, rows=100, **QUICK)
    assert small.record.settings["plan"] == source
