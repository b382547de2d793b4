from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.chain.tailor.findings import advice, notes


def found(network, **limits):
    return ws.tailor(network, "digits", rows=100, test_rows=100, **limits).record


def test_limits_that_exclude_each_other_are_named_with_what_the_others_allow(digits_mlp):
    record = found(digits_mlp, params="1%", energy="1%", accuracy=99.9)
    together, alone = advice(record, kept=True)
    assert together.startswith("--params ")
    assert " --accuracy " in together.partition(":")[0]
    assert " without --params and --energy: a lower limit, as the original network has an accuracy of" in alone
    told = " ".join(line for part in notes(record) for line in part.lines)
    assert "would be enough for the limits on costs: " in told
    assert f"with an accuracy of {100 * record.judged.accuracy.value:.1f} %" in told


def test_an_accuracy_that_the_original_has_can_be_met_without_the_other_limits(digits_mlp):
    assert list(advice(found(digits_mlp, params="1%", accuracy=60), kept=True))[-1].startswith("without --params: ")


@pytest.mark.parametrize("limits", [{"params": "50%", "accuracy": -50}, {"bytes": "30%"}])
def test_limits_that_are_met_need_no_advice(digits_mlp, limits):
    assert list(advice(found(digits_mlp, **limits), kept=True)) == []
