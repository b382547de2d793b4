from __future__ import annotations

import dataclasses

import pytest
from torch import Tensor, nn

import weightsmith as ws
from weightsmith.chain.tailor.findings import advice, notes


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 4, batch_first=True), nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x.reshape(-1, 8, 8))[0][:, -1])


def found(network, rows=100, **limits):
    return ws.tailor(network, "digits", rows=rows, test_rows=100, **limits).record


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


def test_the_accuracy_of_a_distilled_network_is_advised_only_where_it_would_be_distilled_again(digits_mlp):
    record = found(digits_mlp, rows=300, params="8%", accuracy=98)
    assert record.best.way.cut.recover
    before = next(
        each for each in record.candidates if each.way.cut == dataclasses.replace(record.best.way.cut, recover=None)
    )
    for correct, advised in ((before.images, False), (0, True)):
        other = dataclasses.replace(before, correct=correct)
        candidates = tuple(other if each is before else each for each in record.candidates)
        told = " ".join(advice(dataclasses.replace(record, candidates=candidates), kept=True))
        assert ("all limits together" in told) == advised


@pytest.mark.parametrize("limits", [{"params": "50%", "accuracy": -50}, {"bytes": "30%"}])
def test_limits_that_are_met_need_no_advice(digits_mlp, limits):
    assert list(advice(found(digits_mlp, **limits), kept=True)) == []


def test_a_network_that_cannot_be_cut_is_said_with_the_reason():
    record = found(Recurrent(), params="50%")
    told = " ".join(line for part in notes(record) for line in part.lines)
    assert "has less than all of the parameters: nothing can be removed from this network: lstm.weight" in told
    assert "would be enough" not in told
    assert list(advice(record, kept=True)) == []
