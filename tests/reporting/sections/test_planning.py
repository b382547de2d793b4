from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from weightsmith.grading.grade import grade
from weightsmith.grading.plans import alpha_plan
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.reporting.sections.planning import plan_table


def test_plans_stand_side_by_side_and_name_layers_without_alpha():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(16, 16, 2), nn.Linear(16, 16), nn.Linear(16, 12))
    network[1].weight.data.zero_()
    plans = {"alpha": alpha_plan(grade(network, evidence="none"), 0.5), "uniform": LayerPlan.uniform(network, 0.5)}
    table = plan_table(plans, {"alpha": Path("a.json"), "uniform": Path("a-uniform.json")})
    first, second, _, last = table.to_rows()
    assert first == {
        "layer": "0",
        "parameters": 1024,
        "alpha": plans["alpha"].values["0"],
        "uniform": 0.5,
        "remark": None,
    }
    assert (second["layer"], second["remark"]) == ("1", "no alpha")
    assert (last["layer"], last["parameters"], last["uniform"]) == ("all", 1472, plans["uniform"].mean)
    assert table.caption.startswith("alpha: a.json (alpha")
