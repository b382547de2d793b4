from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.data.normalise import HALF, IMAGENET, NONE
from weightsmith.data.tensors import Data, Split
from weightsmith.networks import card_of, mlp, resnet, weights_digest, with_card
from weightsmith.networks.card import Card
from weightsmith.networks.editing.grafting import graft
from weightsmith.training.freezing import frozen
from weightsmith.training.loop import train
from weightsmith.training.transfer import transfer
from weightsmith.training.transferring import TransferRecord

pytestmark = pytest.mark.choice


def classes_of(data: Data, wanted: range, per_class: int | None = None) -> Data:
    """The data of some classes only, counted from 0 again."""

    def part(split: Split, most: int | None) -> Split:
        rows = np.concatenate([np.flatnonzero(split.y.numpy() == label)[:most] for label in wanted])
        chosen = split.take(rows)
        return Split(chosen.x, chosen.y - wanted.start)

    train_part, test_part = part(data.train, per_class), part(data.test, None)
    names = data.classes[wanted.start : wanted.stop]
    return dataclasses.replace(data, train=train_part, test=test_part, classes=names)


@pytest.fixture(scope="module")
def old_and_new():
    digits = ws.data.load("digits")
    base = train(
        "mlp:64,32", classes_of(digits, range(6)), schedule=0.05, epochs=15, diagnose=False, normalise="0.5/0.5"
    ).network
    return base, classes_of(digits, range(6, 10), per_class=10)


def test_what_the_base_has_learnt_is_used(old_and_new):
    """The old classes again, four images of each: a trained base needs no more, an untrained one does."""
    base, _ = old_and_new
    few = classes_of(ws.data.load("digits"), range(6), per_class=5)
    settings = {"epochs": (20, 5), "rate": 0.05, "unfreeze": 1, "diagnose": False, "normalise": "0.5/0.5"}
    bases = base, mlp(64, 64, 32, 6, seed=5)
    ours, untrained = (ws.evaluate(transfer(one, few, **settings).network, few).accuracy for one in bases)
    assert ours.low > untrained.high
    assert ours.value > 0.9


def test_the_network_is_that_of_the_best_stage(old_and_new, tmp_path):
    base, few = old_and_new
    before = weights_digest(base)
    run = transfer(base, few, epochs=3, rate=0.05, head=(7,), out=tmp_path / "out", diagnose=False)
    assert weights_digest(base) == before
    assert run.record.best == max(range(2), key=lambda i: (run.stages[i].accuracy.value, -i))
    data = few.with_validation(0.2)
    assert ws.evaluate(run.network, data, split="validation").accuracy == run.best.accuracy
    assert frozen(run.network) == ()
    card = card_of(run.network)
    assert (card.classes, card.normalisation) == (few.classes, HALF)
    assert card.lineage.ancestors[-1].operation.startswith("cut, with a new head for 4 classes")
    assert before in {ancestor.parent for ancestor in card.lineage.ancestors}
    loaded = ws.load(tmp_path / "out")
    assert weights_digest(loaded) == run.record.network == weights_digest(run.network)
    assert ws.evaluate(loaded, few) == ws.evaluate(run.network, few)
    assert TransferRecord.from_json((tmp_path / "out" / "record.json").read_text()) == run.record
    assert run.record == transfer(base, few, epochs=3, rate=0.05, head=(7,), diagnose=False).record


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("at", [1, 3, 5])
def test_an_interrupted_run_goes_on_with_what_was_frozen_frozen(old_and_new, tmp_path, at):
    """Epochs 1 and 2 are the frozen stage, 3 to 5 the unfrozen one; the end must be that of a run in one go."""
    base, few = old_and_new
    ended = 0

    def stop_there(end):
        nonlocal ended
        ended += 1
        if ended == at:
            raise Interrupted

    settings = {"epochs": (2, 3), "rate": 0.05, "unfreeze": 1, "diagnose": False}
    with pytest.raises(Interrupted):
        transfer(base, few, **settings, out=tmp_path, hooks=(stop_there,))
    assert not (tmp_path / "network.safetensors").exists()
    resumed, whole = transfer(base, few, **settings, out=tmp_path), transfer(base, few, **settings)
    assert resumed.record == whole.record
    assert weights_digest(resumed.network) == weights_digest(whole.network)
    second = ws.load(tmp_path / "2-unfrozen" / "network.safetensors")
    assert torch.equal(second.base.dense1.weight, base.dense1.weight)
    assert not torch.equal(second.base.dense2.weight, base.dense2.weight)
    assert transfer(base, few, **settings, out=tmp_path).record == whole.record  # and once more, all done


def test_a_folder_is_not_shared_by_two_recipes(old_and_new, tmp_path):
    base, few = old_and_new
    transfer(base, few, epochs=1, rate=0.05, out=tmp_path, diagnose=False)
    with pytest.raises(ws.WeightsmithError, match="journal"):
        transfer(base, few, epochs=1, rate=0.01, out=tmp_path, diagnose=False)


def test_what_did_not_help_is_said_and_the_remedy_tried_only_when_asked(old_and_new):
    base, few = old_and_new
    # So small a rate that nothing changes: no gain, for sure.
    settings = {"epochs": 1, "rate": 0.05, "finer": 1e-9, "unfreeze": 1, "diagnose": False}
    plain = transfer(base, few, **settings)
    assert len(plain.stages) == 2
    assert plain.record.best == 0
    assert "which is no gain" in plain.advice[1]
    assert plain.advice[2] == (
        "with 8 training images per class the remedy is to drop the top block; remedy='drop' tries it"
    )
    dropped = transfer(base, few, **settings, remedy="by-data")
    assert [(stage.reuse, stage.fresh, stage.unfrozen) for stage in dropped.stages] == [
        (2, 0, 0),
        (2, 0, 1),
        (1, 0, 0),
        (1, 0, 1),
    ]
    replaced = transfer(base, few, **settings, remedy="by-data:5")
    assert [(stage.reuse, stage.fresh) for stage in replaced.stages] == [(2, 0), (2, 0), (2, 1), (2, 1)]
    assert any("the remedy is to replace the top block" in line and "tries it" not in line for line in replaced.advice)
    used_up = transfer(base, few, **settings, remedy="drop:rounds=5")
    assert len(used_up.stages) == 4
    assert "no block of the base would be left" in used_up.advice[-1]


def test_an_accuracy_that_is_asked_for_decides_on_the_remedy(old_and_new):
    base, few = old_and_new
    settings = {"epochs": 1, "rate": 0.05, "unfreeze": 0, "remedy": "drop", "diagnose": False}
    assert len(transfer(base, few, **settings, accuracy=0.01).stages) == 1
    hard = transfer(base, few, **settings, accuracy=1.0)
    assert [stage.reuse for stage in hard.stages] == [2, 1]
    assert any("below the required 100.0%" in line for line in hard.advice)


def test_grey_images_on_a_coloured_base():
    base = resnet(8, (3, 8, 8), widths=(4, 6, 8))
    base = with_card(base, dataclasses.replace(card_of(base), normalisation=IMAGENET))
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (60, 1, 6, 6), dtype=torch.uint8, generator=generator)
    run = transfer(base, (x, torch.arange(60) % 3), epochs=(1, 1), unfreeze="all", batch=16)
    assert run.stages[1].frozen == ()
    assert run.stages[1].unfrozen == 4
    assert card_of(run.network).normalisation == NONE
    assert run.stages[0].training.settings["normalise"] == "none"
    assert ws.networks.scores(run.network, x).shape == (60, 3)
    assert run.stages[0].training.gradients is not None


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.out = nn.Linear(64, 16), nn.Linear(16, 6)

    def forward(self, x):
        return self.out(torch.relu(self.dense(x.flatten(1))))


def test_a_module_of_ones_own(old_and_new, tmp_path):
    _, few = old_and_new
    base = with_card(Own(), Card(input_shape=(1, 8, 8)))
    run = transfer(base, few, epochs=1, unfreeze=1, rate=0.01, normalise="0.5/0.5", out=tmp_path, diagnose=False)
    assert card_of(base).normalisation == NONE
    assert card_of(run.network).normalisation == HALF
    assert run.stages[0].frozen == ("base.dense.weight", "base.dense.bias")
    again = ws.load(tmp_path, network=lambda: graft(Own(), few.input_shape, 4))
    assert weights_digest(again) == weights_digest(run.network)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"schedule": 0.1}, UnknownName, "unknown option of transfer 'schedule'.*rate"),
        ({"unfreze": 1}, UnknownName, "unknown option of transfer 'unfreze'"),
        ({"unfreeze": -1}, UsageError, "unfreeze must be a whole number ≥ 0 or all, not -1"),
        ({"reuse": 3}, OptionError, "has 2 blocks to reuse, not 3"),
        ({"finer": 2.0}, OptionError, "finer must be a number > 0, ≤ 1, not 2.0"),
        ({"remedy": "dropp"}, UnknownName, "did you mean 'drop'"),
        ({"head": (0,)}, OptionError, "head must be a whole number ≥ 1, not 0"),
    ],
)
def test_what_cannot_be_done_is_named_before_anything_is_trained(old_and_new, wrong, error, message):
    base, few = old_and_new
    with pytest.raises(error, match=message):
        transfer(base, few, **wrong, hooks=(lambda end: pytest.fail("trained"),))


def test_classes_without_names_are_counted(old_and_new):
    base, few = old_and_new
    run = transfer(base, dataclasses.replace(few, classes=()), epochs=1, unfreeze=0, rate=0.01, diagnose=False)
    assert card_of(run.network).classes == ("0", "1", "2", "3")


def test_a_second_validation_split_is_refused(old_and_new):
    base, few = old_and_new
    with pytest.raises(UsageError, match="has a validation split already"):
        transfer(base, few.with_validation(0.3), validation=0.2)


class Recurrent(nn.Module):
    """A classifier whose data flow cannot be traced."""

    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(8, 12, batch_first=True)
        self.out = nn.Linear(12, 10)

    def forward(self, x):
        steps = x.reshape(len(x), 8, 8)
        return self.out(self.cells(steps)[0][:, -1])


def test_a_module_that_cannot_be_traced_gets_a_new_head():
    run = transfer(Recurrent(), "digits", epochs=(1, 1), rate=0.05)
    assert run.stages[0].frozen
    assert all("cells" in name for name in run.stages[0].frozen)


def test_an_optimiser_that_is_not_given_may_be_none():
    """As the command line exports it."""
    import weightsmith as ws

    data = ws.data.load("digits")
    base = ws.networks.mlp(64, 8, 10)
    runs = [
        ws.transfer(base, data, epochs=(1, 1), rate=0.05, unfreeze=0, **given)
        for given in ({}, {"optimiser": None}, {"optimiser": "momentum"})
    ]
    assert len({run.record.to_json() for run in runs}) == 1
