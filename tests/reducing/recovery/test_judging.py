"""Recovery is judged on rows held back from it, and never does worse than the cut on them."""

import dataclasses

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import Card, with_card
from weightsmith.reducing.recovery.judging import HeldBack, compared, held_back, held_back_by
from weightsmith.reducing.recovery.recover import Distill, FineTune, Recover
from weightsmith.reporting.sections._reducing_findings import concerns
from weightsmith.training.run import Stopped

QUICK = {"latency": False, "random": 0}


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def run(digits):
    return ws.train("mlp:40", digits, optimiser="adam", schedule=0.01, epochs=6, keep=3, validation=0.1)


@pytest.mark.parametrize("recover", ["fine-tune:2,rate=5", "fine-tune:2,rate=1e30", "iterate:2,epochs=1,rate=5"])
def test_a_rate_that_destroys_gives_the_cut_back_and_says_so(run, digits, recover):
    plain = ws.reduce(run, digits, by="magnitude", target="params:0.5", **QUICK)
    tried = ws.reduce(run, digits, by="magnitude", target="params:0.5", recover=recover, **QUICK)
    assert tried.record.measured.reduced == tried.record.measured.cut
    lost = tried.record.recovery[-1]
    assert (lost.improved, lost.lost, lost.kept) == (False, True, "cut")
    assert lost.recovered.value <= lost.cut.value
    assert "too large" in lost.reason
    assert Recover.parse(lost.advice) == ws.Distill()  # which finds its rate itself
    if recover.startswith("fine"):
        assert all(
            torch.equal(value, plain.network.state_dict()[name]) for name, value in tried.network.state_dict().items()
        )


def test_the_best_epoch_comes_back_not_the_last(run, digits):
    small = ws.reduce(run, digits, by="magnitude", target="params:0.3", recover="fine-tune:4,rate=0.3", **QUICK)
    (training,), (found,) = small.record.training, small.record.recovery
    rows = training.history.rows
    best = max(rows, key=lambda row: (row.validation_accuracy, -row.validation_loss))
    assert (found.epoch, training.restored) == (best.epoch, best.epoch)
    assert found.recovered.value == pytest.approx(best.validation_accuracy)
    assert found.improved
    assert found.cut.value < found.recovered.value


def test_test_rows_do_not_decide(run, digits):
    """The same choice, whatever the labels of the test rows are."""
    shuffled = dataclasses.replace(digits, test=Split(digits.test.x, digits.test.y.roll(1)))
    made = [
        ws.reduce(run.network, data, by="magnitude", target="params:0.5", recover="fine-tune:2", **QUICK).record
        for data in (digits, shuffled)
    ]
    assert made[0].recovery[0].to_dict() == made[1].recovery[0].to_dict()
    assert made[0].measured.reduced.value != made[1].measured.reduced.value


def test_rows_are_held_back_from_the_training_rows_or_are_the_validation_split():
    x, y = torch.rand(400, 3), torch.arange(400) % 4
    network = nn.Linear(3, 4)
    plain = Data("own", train=Split(x, y), test=Split(x[:8], y[:8]))
    held = held_back(plain, "test", network, 4, seed=0)
    assert (len(held.data.train), len(held.data.validation), held.source) == (300, 100, "25% of the training rows")
    assert torch.bincount(held.data.validation.y).tolist() == [25] * 4
    known = dataclasses.replace(plain, validation=Split(x[:40], y[:40]))
    assert held_back(known, "test", network, 4, seed=0).source == "the validation split"
    judged = held_back(dataclasses.replace(known, test=None), "validation", network, 4, seed=0)
    assert len(judged.data.validation) == 100  # those of the validation split judge the result


def test_labels_are_those_of_the_networks_outputs():
    data = Data("own", train=Split(torch.rand(40, 3), torch.arange(40) % 2), classes=("cat", "dog"))
    network = with_card(nn.Linear(3, 2), Card(classes=("dog", "cat")))
    held = held_back(data, "train", network, 2, seed=0)
    assert held.data.classes == ("dog", "cat")
    assert held.data.train.y[:2].tolist() == [1, 0]


def _constant(column):
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.zero_()
        network.bias.copy_(torch.eye(2)[column] * 3)
    return network


def test_of_equal_accuracies_the_smaller_loss_decides():
    rows = Split(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
    held = HeldBack(Data("own", train=rows, validation=rows), "rows")
    sure, unsure = _constant(0), _constant(0)
    with torch.no_grad():
        unsure.bias *= 0.3
    found = compared("recovery", FineTune(1), sure, unsure, held)
    assert (found.improved, found.lost) == (True, False)
    back = compared("recovery", FineTune(1), unsure, sure, held)
    assert (back.improved, back.lost, back.reason) == (False, False, None)
    assert "did not help" in str(back)


def test_recovery_has_lost_only_where_chance_does_not_explain_it():
    for repeats, lost in ((1, False), (10, True)):
        rows = Split(torch.zeros(4 * repeats, 2), torch.tensor([0, 0, 0, 1]).repeat(repeats))
        held = HeldBack(Data("own", train=rows, validation=rows), "rows")
        found = compared("recovery", FineTune(1), _constant(0), _constant(1), held)
        assert (found.improved, found.lost) == (False, lost)


def test_rows_learnt_by_heart_are_told_from_a_rate_too_large(run):
    train, held = Split(torch.zeros(4, 2), torch.ones(4).long()), Split(torch.zeros(4, 2), torch.zeros(4).long())
    data = HeldBack(Data("own", train=train, validation=held), "rows")
    found = compared("recovery", FineTune(1), _constant(0), _constant(1), data, training=run.record)
    assert "overfitted" in found.reason
    diverged = dataclasses.replace(run.record, stopped=Stopped.DIVERGED, reason="the loss is NaN")
    found = compared("recovery", FineTune(1), _constant(0), _constant(1), data, training=diverged)
    assert "too large (the loss is NaN)" in found.reason


def test_rewinding_is_compared_where_its_run_held_rows_back(run, digits):
    assert held_back_by(run.record, digits, "test").data.validation.digest() == run.record.origin.inputs["validation"]
    assert held_back_by(run.record, digits, "validation") is None
    small = ws.reduce(run, digits, by="magnitude", target="params:0.5", recover="rewind:3", **QUICK)
    assert small.record.recovery[0].rows == 144
    bare = ws.train("mlp:20", digits, epochs=2, schedule=0.05, keep=1)
    small = ws.reduce(bare, digits, by="magnitude", target="params:0.5", recover="rewind:1", **QUICK)
    assert small.record.recovery == ()
    assert any("was not compared with the cut" in note for note in small.record.notes)


def test_records_of_before_are_still_read(run, digits):
    small = ws.reduce(run, digits, by="magnitude", target="params:0.5", **QUICK)
    old = small.record.to_dict()
    del old["recovery"]
    assert type(small.record).from_dict(old).recovery == ()


def test_the_trained_network_is_kept_if_asked_for(run, digits):
    """A rate that destroys, but does not diverge: the better network is the cut."""
    options = {"by": "magnitude", "target": "params:0.5", **QUICK}
    better = ws.reduce(run.network, digits, recover="fine-tune:2,rate=5", **options)
    asked = ws.reduce(run.network, digits, recover="fine-tune:2,rate=5,keep=trained", **options)
    (cut,), (kept,) = better.record.recovery, asked.record.recovery
    assert (cut.kept, kept.kept, kept.improved) == ("cut", "recovered", False)
    assert str(kept).endswith("held-back rows; kept as asked (keep=trained)")
    assert asked.record.measured.reduced.value < asked.record.measured.cut.value
    assert better.record.measured.reduced == better.record.measured.cut
    assert not any("recovery" in line for line in concerns(asked.record, None))
    assert any("recovery lost" in line for line in concerns(better.record, None))


def test_a_training_that_diverged_is_never_kept(run, digits):
    found = ws.reduce(
        run.network, digits, by="magnitude", target="params:0.5", recover="fine-tune:2,rate=1e30,keep=trained", **QUICK
    )
    assert found.record.recovery[0].kept == "cut"


def test_rows_that_the_original_run_held_back_judge(run, digits, tmp_path):
    outputs, own = 10, digits.with_validation(0.1, run.record.settings["seed"])
    held = held_back(digits, "test", run.network, outputs, seed=7, run=run)
    assert (held.source, held.seen) == ("the validation split", False)
    assert held.data.split("validation").digest() == own.split("validation").digest()
    assert held.data.split("train").digest() == own.split("train").digest()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "record.json").write_text(run.record.to_json())
    assert held_back(digits, "test", run.network, outputs, seed=7, run=tmp_path / "run").source == held.source
    (tmp_path / "run" / "record.json").write_text("{}")  # of another result
    for other in (None, tmp_path / "run"):
        share = held_back(digits, "test", run.network, outputs, seed=7, run=other)
        assert (share.source, share.seen) == ("10% of the training rows", True)
        assert share.data.split("validation").digest() != own.split("validation").digest()


LABELLED = Split(torch.eye(2).repeat(50, 1), torch.eye(2).repeat(50, 1).argmax(1))
SEEN, UNSEEN = (HeldBack(Data("rows", LABELLED, validation=LABELLED), "rows", seen=seen) for seen in (True, False))


@pytest.mark.parametrize(
    ("option", "wrong", "held", "known", "kept"),
    [
        (Distill(), 2, SEEN, 0, "recovered"),
        (Distill(), 40, SEEN, 0, "cut"),  # beyond chance
        (Distill(), 2, SEEN, 2, "cut"),  # the original network is right on 98 of 100
        (Distill(), 2, UNSEEN, 0, "cut"),
        (FineTune(), 2, SEEN, 0, "cut"),
        (FineTune(keep="trained"), 40, SEEN, 0, "recovered"),
        (Distill(keep="trained"), 40, UNSEEN, 0, "recovered"),
        (Distill(), 0, SEEN, 0, "cut"),  # the cut itself
    ],
)
def test_rows_known_by_heart_do_not_judge_a_distillation_alone(option, wrong, held, known, kept):
    """The cut is right on all of 100 rows, the other network wrong on some, the original one on others."""
    options = {"original": _Mistaken(known), "batch": 100}
    found = compared("distillation", option, _Mistaken(0), _Mistaken(wrong), held, **options)
    assert found.kept == kept
    named = "the original network knows these rows by heart, so they favour the cut" in str(found)
    assert named == (kept == "cut" and held.seen and known == 0 and wrong < 40)


class _Mistaken(nn.Module):
    """Gives its inputs as scores, but those of the first rows turned round."""

    def __init__(self, wrong: int) -> None:
        super().__init__()
        self.wrong, self.bias = wrong, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.cat([1 - x[: self.wrong], x[self.wrong :]]) + self.bias
