from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

import weightsmith as ws
from weightsmith.networks.rounding import to_int8
from weightsmith.reporting.describe import describe


@pytest.fixture(scope="module")
def found():
    a = ws.networks.mlp(64, 12, 10, seed=0)
    b = copy.deepcopy(a)
    with torch.no_grad():
        b.dense1.weight.mul_(2)
    return ws.diff(a, b, "digits", test_rows=60, evidence="none", latency=False)


def test_the_answer_says_what_the_rows_exclude(found):
    section = describe(found)
    paired = found.accuracy
    assert "1 of 2 common layers differ" in section.lead
    assert "On the same 60 rows of digits (test) B − A is" in section.lead
    low = f"cannot exclude a loss of {-100 * paired.difference.low:.1f} points"
    assert low in section.lead or "excluded" in section.lead or "a gain of" in section.lead
    assert dict(section.chips)["right"].startswith(f"both {paired.both:,}, only A {paired.only_a:,}")


def test_a_layer_shows_both_values_where_they_differ(found):
    rows = {row[0]: row for row in describe(found)["Layers, A → B"].rows}
    assert " → " in rows["dense1"][3].text
    assert " → " not in rows["output"][3].text
    assert rows["dense1"][-1].value == pytest.approx(1.0)
    assert rows["dense1"][4].value == pytest.approx(found["dense1"].changes["log_norm"])


def test_what_is_broken_must_be_looked_at(found):
    layer = found.layers[0]
    broken = dataclasses.replace(layer, b=dataclasses.replace(layer.b, status="non-finite"))
    section = describe(dataclasses.replace(found, layers=(broken, *found.layers[1:])))
    assert section.look_at == ("NaN or infinity in dense1 of B",)
    assert describe(found).look_at == ()


def test_the_same_weights_are_said_so(found):
    same = dataclasses.replace(found, b=dataclasses.replace(found.b, network=found.a.network), accuracy=None)
    assert describe(same).lead == "Both have the same weights."


def test_macs_and_energy_say_what_they_count_where_there_is_padding():
    a, b = (ws.networks.Architecture.parse(f"cnn:{units},input_shape=[1,8,8],classes=10").build() for units in (4, 6))
    found = ws.diff(a, b, "digits", test_rows=20, evidence="none", latency=False)
    how = {row[""]: row["how"] for row in describe(found)["Size and cost"].to_rows()}
    assert how["MACs"] == "those with zeros of the padding or of the weights included"
    assert f"A: {found.a.connections:,} MACs × price: those with zeros of the padding" in how["energy"]
    assert found.a.picojoules == pytest.approx(4.6 * found.a.connections)


def test_layers_that_cannot_be_compared_are_said_with_the_reason():
    plain = ws.networks.mlp(64, 12, 10, seed=0)
    rounded = to_int8(plain, torch.rand(8, 64))
    found = ws.diff(plain, rounded, evidence="none", latency=False)
    lead = describe(found).lead
    assert lead.startswith("No layers could be compared: the weights of ")
    assert "are 8-bit integers, which are not compared layer by layer" in lead
    assert "no layers could be compared" in str(found)
