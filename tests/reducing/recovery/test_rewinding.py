from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from tests.reducing.by_hand import EPOCHS, as_it_is, without_units
from torch import nn
from torch.nn import functional as F

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, FileRefused, OptionError, UnknownName, UsageError
from weightsmith.core.seeds import torch_stream
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.reducing.recovery.recover import Rewind
from weightsmith.reducing.recovery.rewinding import Original, original_of, rewound
from weightsmith.training.freezing import freeze, frozen
from weightsmith.training.schedules import Schedule, Span


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_with_nothing_cut_the_end_is_that_of_the_original_run(plain, digits, epoch):
    option = Rewind(epoch)
    run = rewound(original_of(plain, option), as_it_is, option, digits)
    assert weights_digest(run.network) == weights_digest(plain.network)
    assert run.history == plain.history
    assert (run.stopped, run.record.restored) == (plain.stopped, plain.record.restored)
    assert run.record.settings["start"] == epoch


def test_training_on_without_rewinding_ends_elsewhere(plain, digits):
    """The test above would fail if only the weights went back: neither rates nor rows would be those of the epoch."""
    on = ws.train(plain.checkpoint(1), digits, optimiser="sgd", schedule="cosine:0.2", epochs=EPOCHS - 1, seed=2)
    shifted = ws.train(
        plain.checkpoint(1), digits, optimiser="sgd", schedule="shifted:1,4,then=cosine:0.2", epochs=EPOCHS - 1, seed=2
    )
    assert shifted.history.column("rate") == plain.history.column("rate")[1:] != on.history.column("rate")
    assert len({weights_digest(run.network) for run in (plain, on, shifted)}) == 3


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_all_that_is_drawn_at_random_is_drawn_as_in_that_epoch(digits, tmp_path, where):
    out = tmp_path / "run" if where == "folder" else None
    original = ws.train(
        "mlp:12,dropout=0.3,batch_norm=before",
        digits,
        optimiser="sgd",
        schedule=ws.WarmUp(40, then="power:0.2,30"),
        clip="global-norm:1",
        penalties="l2:1e-3",
        augment="crop-flip:1",
        loss="cross-entropy:0.1",
        validation=0.2,
        epochs=3,
        seed=7,
        keep=2,
        out=out,
    )
    option = Rewind(2)
    run = rewound(original_of(out or original, option), as_it_is, option, digits)
    assert weights_digest(run.network) == weights_digest(original.network)
    assert run.history == original.history
    split = digits.with_validation(0.2, seed=7)  # the split may also come ready made
    assert rewound(original_of(original, option), as_it_is, option, split).history == original.history


def test_a_cut_network_goes_on_from_the_weights_of_the_epoch(digits):
    """By hand: rows, rates and weights of the epoch, and a momentum that starts at nothing."""
    original = ws.train("mlp:12", digits, schedule="cosine:0.05", epochs=3, seed=5, keep=1)
    option = Rewind(1)
    run = rewound(original_of(original, option), without_units(3, 4, 11), option, digits)

    slow = without_units(3, 4, 11)(original.checkpoint(1))
    optimiser = torch.optim.SGD(slow.parameters(), lr=1.0, momentum=0.9)
    x, y = card_of(slow).normalisation.apply(digits.train.x), digits.train.y
    steps = -(-len(y) // 32)
    for epoch in (2, 3):
        order = torch.randperm(len(y), generator=torch_stream(5, "order", epoch))
        for number, rows in enumerate(order.split(32)):
            rate = Schedule.parse("cosine:0.05").at((epoch - 1) * steps + number, Span(steps, 3))
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            F.cross_entropy(slow(x[rows]), y[rows]).backward()
            optimiser.step()
    assert run.network.dense1.out_features == 9
    for name, value in slow.state_dict().items():
        assert torch.allclose(run.network.state_dict()[name], value, atol=1e-5), name


def test_a_shorter_rest_has_the_rates_of_the_whole_run(plain, digits):
    option = Rewind(1, epochs=2)
    run = rewound(original_of(plain, option), as_it_is, option, digits)
    assert run.history.rows == plain.history.rows[:3]
    assert weights_digest(run.network) == weights_digest(plain.checkpoint(3))


def test_only_the_rates_go_back(plain, digits):
    option = Rewind(3, weights=False)
    small = without_units(0)(plain.network)
    run = rewound(original_of(plain, option), as_it_is, option, digits, reduced=small)
    assert card_of(run.network).lineage.parent == weights_digest(small)
    assert run.history.column("rate") == plain.history.column("rate")
    with pytest.raises(UsageError, match="needs the network as the reduction left it"):
        rewound(original_of(plain, option), as_it_is, option, digits)
    with pytest.raises(UsageError, match="needs the network of that epoch"):
        rewound(Original(plain.record, None), as_it_is, Rewind(3), digits)


def test_cuts_of_the_rate_remain_and_the_watching_begins_anew(digits):
    never = "plateau:0.1,factor=0.5,patience=1,threshold=100,monitor=train_loss"  # cut after each epoch but the first
    stop = "early:2,monitor=train_loss,min_delta=100"
    original = ws.train("mlp:6", digits, optimiser="sgd", schedule=never, stop=stop, epochs=6, keep=2)
    assert original.history.column("rate") == (0.1, 0.1, 0.05)
    option = Rewind(2)
    run = rewound(original_of(original, option), as_it_is, option, digits)
    # Epoch 3 is the first that the new run sees, so that its patience is used up in epoch 5.
    assert run.history.column("rate") == (0.1, 0.1, 0.05, 0.05, 0.025)
    assert run.record.best_epoch > 2


def test_a_run_that_diverges_leaves_the_weights_it_started_with(plain, digits):
    record = dataclasses.replace(plain.record, settings={**plain.record.settings, "schedule": "constant:1e30"})
    run = rewound(Original(record, plain.checkpoint(1)), as_it_is, Rewind(1), digits)
    assert (run.stopped.value, run.record.restored, run.record.best_epoch) == ("diverged", 1, 1)
    assert weights_digest(run.network) == weights_digest(plain.checkpoint(1))


def test_a_cut_in_place_does_not_reach_the_original(plain, digits):
    def cut(network: nn.Module) -> nn.Module:
        with torch.no_grad():
            network.dense1.weight[0] = 0
        return network

    original = original_of(plain, Rewind(3))
    before = weights_digest(original.network)
    rewound(original, cut, Rewind(3), digits)
    assert weights_digest(original.network) == before


def test_what_was_frozen_stays_frozen(digits, tmp_path):
    network = ws.networks.mlp(64, 8, 10, seed=1)
    freeze(network, "dense1")
    ws.train(network, digits, optimiser="sgd", epochs=2, keep=1, out=tmp_path / "run")
    option = Rewind(1)
    run = rewound(original_of(tmp_path / "run", option), as_it_is, option, digits)
    assert frozen(run.network) == ("dense1.weight", "dense1.bias")
    assert torch.equal(run.network.dense1.weight, network.dense1.weight)


def test_an_interrupted_rewinding_goes_on_to_the_same_bytes(plain, digits, tmp_path):
    option, cut = Rewind(1), without_units(2)

    def stop_in_epoch_3(progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rewound(original_of(plain, option), cut, option, digits, out=tmp_path / "a", progress=stop_in_epoch_3)
    seen = []
    run = rewound(
        original_of(plain, option), cut, option, digits, out=tmp_path / "a", progress=lambda p: seen.append(p.epoch)
    )
    whole = rewound(original_of(plain, option), cut, option, digits, out=tmp_path / "b")
    assert min(seen) == 3
    assert run.record == whole.record
    for name in ("network.safetensors", "record.json", "history.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_module_of_the_users_own_is_filled_from_the_folder(digits, tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 10))
    original = ws.train(network, digits, optimiser="sgd", epochs=2, keep=(0, 1), out=tmp_path / "run")
    option = Rewind(1)
    run = rewound(original_of(tmp_path / "run", option, like=network), as_it_is, option, digits)
    assert weights_digest(run.network) == weights_digest(original.network) != weights_digest(network)


def test_a_loss_of_the_users_own_is_handed_over(digits):
    def loss(scores, labels):
        return F.multi_margin_loss(scores, labels)

    original = ws.train("mlp:4", digits, optimiser="sgd", loss=loss, epochs=2, keep=1)
    option = Rewind(1)
    with pytest.raises(UsageError, match="pass it as loss="):
        rewound(original_of(original, option), as_it_is, option, digits)
    run = rewound(original_of(original, option), as_it_is, option, digits, loss=loss)
    assert weights_digest(run.network) == weights_digest(original.network)


def test_other_rows_are_refused(plain, digits):
    other = dataclasses.replace(digits, train=digits.train.take(slice(0, 1000)))
    with pytest.raises(DataMismatch, match=r"the train split is not the one .* \(digits\), or fine-tune"):
        rewound(original_of(plain, Rewind(1)), as_it_is, Rewind(1), other)
    with pytest.raises(DataMismatch, match="split is not the one"):
        rewound(original_of(plain, Rewind(1)), as_it_is, Rewind(1), digits.with_validation(0.1))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (Rewind(4), "nothing follows epoch 4"),
        (Rewind(9), "the run has 4 epochs"),
        (Rewind(1, epochs=4), "only 3 of the run's 4 epochs follow epoch 1"),
    ],
)
def test_epochs_that_the_run_does_not_have(plain, digits, option, message):
    with pytest.raises(OptionError, match=message):
        rewound(Original(plain.record, plain.checkpoint(1)), as_it_is, option, digits)


def test_an_epoch_that_was_not_kept(plain, digits, tmp_path):
    with pytest.raises(UnknownName, match="unknown kept epoch '2'.*known: 0, 1, 3"):
        original_of(plain, Rewind(2))
    ws.train("mlp:4", digits, epochs=1, keep=1, out=tmp_path / "kept")
    with pytest.raises(UnknownName, match=r"unknown kept epoch '0'.*\(known: 1\)"):
        original_of(tmp_path / "kept", Rewind(0))
    ws.train("mlp:4", digits, epochs=1, out=tmp_path / "none")
    with pytest.raises(UnknownName, match="keep="):
        original_of(tmp_path / "none", Rewind(0))


def test_a_folder_that_is_none(plain, tmp_path):
    with pytest.raises(FileRefused, match="no such file"):
        original_of(tmp_path, Rewind(1))
    (tmp_path / "record.json").write_text('{"settings": 1}')
    with pytest.raises(FileRefused, match="is not the record of a training run"):
        original_of(tmp_path, Rewind(1))
    written = plain.record.to_dict()
    for name, value in (("epochs", "many"), ("loss", None), ("batch", None), ("stop", 3)):
        changed = {**written, "settings": {**written["settings"], name: value}}
        (tmp_path / "record.json").write_text(json.dumps(changed))
        with pytest.raises(FileRefused, match=f"says {name}="):
            original_of(tmp_path, Rewind(1))
