from __future__ import annotations

import csv
import io
import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import weightsmith as ws
from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.seeds import torch_stream
from weightsmith.data.augment import CropFlip
from weightsmith.data.normalise import Normalisation
from weightsmith.data.tensors import Data, Split
from weightsmith.networks import mlp
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.networks.models.mlp import Mlp
from weightsmith.networks.weights import open_weights
from weightsmith.training.clipping import ClipGlobalNorm, ClipNorm, ClipValue
from weightsmith.training.freezing import freeze
from weightsmith.training.loop import train
from weightsmith.training.losses import CrossEntropy, SquaredError
from weightsmith.training.optimisers import Adam, Momentum, Sgd
from weightsmith.training.penalties import L2
from weightsmith.training.run import EpochEnd, Progress, Stopped
from weightsmith.training.schedules import Constant, Exponential, Plateau, Power
from weightsmith.training.stopping import EarlyStopping


def rows(
    count: int = 70, features: int = 4, classes: int = 3, spread: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Clouds around the corners, one per class."""
    y = torch.arange(count) % classes
    noise = torch.randn(count, features, generator=torch.Generator().manual_seed(seed))
    return spread * noise + 2 * F.one_hot(y, features), y


def images(count: int = 24, seed: int = 0) -> Split:
    y = torch.arange(count) % 3
    x = torch.randint(0, 256, (count, 3, 6, 6), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    x[torch.arange(count), y] //= 2
    return Split(x, y)


def convolutional(*, norm: bool = False) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        middle = [nn.BatchNorm2d(4)] if norm else []
        return nn.Sequential(nn.Conv2d(3, 4, 3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


class Own(nn.Module):
    """A network of the user's own, with layers of torch that read the global generator."""

    def __init__(self, rate: float = 0.3) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(rate)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.dropout(torch.relu(self.norm(self.first(x)))))


def own(rate: float = 0.3) -> Own:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Own(rate)


def plain(
    network: nn.Module,
    data: tuple[Tensor, Tensor],
    optimiser: torch.optim.Optimizer,
    *,
    batch: int,
    epochs: int,
    seed: int = 0,
    loss: Any = F.cross_entropy,
    price: Any = lambda network: 0.0,
    clip: float | None = None,
    rate: Any = None,
) -> list[dict[str, float]]:
    """The loop as anyone would write it; trains ``network`` in place and returns what the history should hold."""
    x, y = data
    history, step = [], 0
    for epoch in range(1, epochs + 1):
        network.train()
        order = torch.randperm(len(y), generator=torch_stream(seed, "order", epoch))
        total = correct = clipped = steps = 0.0
        for chosen in order.split(batch):
            if rate is not None:
                optimiser.param_groups[0]["lr"] = rate(step)
            optimiser.zero_grad()
            scores = network(x[chosen])
            value = loss(scores, y[chosen])
            (value + price(network)).backward()
            if clip is not None:
                clipped += float(nn.utils.clip_grad_norm_(network.parameters(), clip)) > clip
            optimiser.step()
            total += value.item() * len(chosen)
            correct += int((scores.argmax(1) == y[chosen]).sum())
            step, steps = step + 1, steps + 1
        history.append({"loss": total / len(y), "accuracy": correct / len(y), "clipped": clipped / steps})
    return history


def assert_same_weights(ours: nn.Module, theirs: nn.Module, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for (name, value), expected in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(value, expected, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


def assert_history(run: Any, expected: list[dict[str, float]], tolerance: float = 1e-6) -> None:
    assert run.history.column("train_loss") == pytest.approx([row["loss"] for row in expected], rel=tolerance)
    assert run.history.column("train_accuracy") == pytest.approx([row["accuracy"] for row in expected], abs=1e-12)


# the same as a plain loop


@pytest.mark.parametrize("diagnose", [True, False])
def test_plain_gradient_descent_is_that_of_a_plain_loop(diagnose):
    data, network = rows(), mlp(4, 8, 3, seed=5)
    run = train(network, data, optimiser="sgd", schedule=0.1, batch=16, epochs=4, seed=3, diagnose=diagnose)
    expected = mlp(4, 8, 3, seed=5)
    history = plain(expected, data, torch.optim.SGD(expected.parameters(), lr=0.1), batch=16, epochs=4, seed=3)
    assert_same_weights(run.network, expected)
    assert_history(run, history)
    assert run.history.column("steps") == (5,) * 4


def test_in_double_precision_the_two_loops_agree_to_the_last_digits():
    x, y = rows()
    run = train(mlp(4, 8, 3).double(), (x, y), optimiser="momentum:0.8", schedule=0.05, batch=16, epochs=3)
    expected = mlp(4, 8, 3).double()
    optimiser = torch.optim.SGD(expected.parameters(), lr=0.05, momentum=0.8)
    history = plain(expected, (x.double(), y), optimiser, batch=16, epochs=3)
    assert next(run.network.parameters()).dtype == torch.float64
    assert_same_weights(run.network, expected, rtol=1e-11, atol=1e-12)
    assert_history(run, history, 1e-11)


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.02),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_is_that_of_a_plain_loop(name):
    x, y = rows()
    run = train(mlp(4, 8, 3).double(), (x, y), optimiser=name, schedule=0.02, batch=16, epochs=2)
    expected = mlp(4, 8, 3).double()
    history = plain(expected, (x.double(), y), OPTIMISERS[name](expected.parameters()), batch=16, epochs=2)
    assert_same_weights(run.network, expected, rtol=1e-8, atol=1e-9)
    assert_history(run, history, 1e-8)


def test_the_rate_of_every_step_is_the_schedules():
    data, schedule = rows(), Exponential(0.2, s=7)
    run = train(mlp(4, 8, 3), data, optimiser="sgd", schedule=schedule, batch=16, epochs=3)
    expected = mlp(4, 8, 3)
    optimiser = torch.optim.SGD(expected.parameters(), lr=1.0)
    history = plain(expected, data, optimiser, batch=16, epochs=3, rate=lambda step: 0.2 * 0.1 ** (step / 7))
    assert_same_weights(run.network, expected)
    assert_history(run, history)
    assert run.history.column("rate") == pytest.approx([0.2 * 0.1 ** (last / 7) for last in (4, 9, 14)])


def test_penalties_are_added_before_clipping_and_clipped_steps_are_counted():
    data, threshold = rows(spread=2.0), 1.2
    run = train(
        mlp(4, 8, 3), data, optimiser="sgd", schedule=0.1, penalties=L2(0.01), clip=ClipGlobalNorm(threshold),
        batch=16, epochs=3,
    )  # fmt: skip
    expected = mlp(4, 8, 3)
    history = plain(
        expected, data, torch.optim.SGD(expected.parameters(), lr=0.1), batch=16, epochs=3, clip=threshold,
        price=lambda network: 0.01 * sum((p**2).sum() for p in network.parameters() if p.dim() > 1),
    )  # fmt: skip
    assert_same_weights(run.network, expected)
    assert_history(run, history)
    shares = [row["clipped"] for row in history]
    assert run.history.column("clipped") == pytest.approx(shares)
    assert any(0 < share < 1 for share in shares)
    price = 0.01 * sum(float((p.detach() ** 2).sum()) for p in run.network.parameters() if p.dim() > 1)
    assert run.history.rows[-1].penalty == pytest.approx(price, rel=1e-5)


@pytest.mark.parametrize(
    ("clip", "share"), [(ClipValue(1e-9), 1.0), (ClipNorm(1e-9), 1.0), (ClipNorm(1e9), 0.0), (None, None)]
)
def test_the_share_of_clipped_steps(clip, share):
    assert train(mlp(4, 3), rows(), clip=clip, epochs=1).history.rows[0].clipped == share


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("squared-error", lambda s, y: ((s - F.one_hot(y, 3)) ** 2).sum(1).mean()),
        (CrossEntropy(0.1), lambda s, y: F.cross_entropy(s, y, label_smoothing=0.1)),
        (nn.MultiMarginLoss(), F.multi_margin_loss),
        (lambda s, y: F.nll_loss(F.log_softmax(s, 1), y), F.cross_entropy),
    ],
    ids=["text", "object", "torch's module", "callable"],
)
def test_every_kind_of_loss(ours, theirs):
    data = rows()
    run = train(mlp(4, 8, 3), data, optimiser="sgd", schedule=0.05, loss=ours, batch=16, epochs=2)
    expected = mlp(4, 8, 3)
    optimiser = torch.optim.SGD(expected.parameters(), lr=0.05)
    assert_history(run, plain(expected, data, optimiser, batch=16, epochs=2, loss=theirs))
    assert_same_weights(run.network, expected)


@pytest.mark.parametrize("norm", [False, True])
def test_a_convolutional_network_trains_channels_last_to_the_same_result(norm):
    split = images()
    run = train(convolutional(norm=norm), Data("images", split), optimiser="sgd", schedule=0.1, batch=8, epochs=3)
    expected = convolutional(norm=norm)
    history = plain(
        expected, (split.x / 255, split.y), torch.optim.SGD(expected.parameters(), lr=0.1), batch=8, epochs=3
    )
    assert_same_weights(run.network, expected, rtol=1e-4, atol=1e-4)
    assert_history(run, history, 1e-4)
    assert run.network[0].weight.is_contiguous()


def test_a_users_module_with_batch_norm_trains_as_in_a_plain_loop():
    data = rows(64)
    run = train(own(0.0), data, optimiser="sgd", schedule=0.1, batch=16, epochs=2)
    expected = own(0.0)
    assert_history(run, plain(expected, data, torch.optim.SGD(expected.parameters(), lr=0.1), batch=16, epochs=2))
    assert_same_weights(run.network, expected)
    assert int(run.network.norm.num_batches_tracked) == 8


def test_dropout_is_on_in_training_and_off_in_validation():
    """With every unit dropped but a few, a step sees other scores than the validation does."""
    x, y = rows(60)
    run = train(mlp(4, 50, 3, dropout=0.9), {"train": (x, y), "validation": (x, y)}, schedule=1e-12, epochs=1, batch=60)
    still = train(mlp(4, 50, 3), {"train": (x, y), "validation": (x, y)}, schedule=1e-12, epochs=1, batch=60)
    assert run.history.rows[0].validation_loss == pytest.approx(still.history.rows[0].validation_loss, rel=1e-5)
    assert run.history.rows[0].train_loss != pytest.approx(run.history.rows[0].validation_loss, rel=1e-2)
    assert still.history.rows[0].train_loss == pytest.approx(still.history.rows[0].validation_loss, rel=1e-5)


def test_torchs_own_dropout_draws_anew_in_every_epoch():
    masks: list[list[float]] = []

    class Telling(Own):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                masks.append(self.dropout(torch.ones(40)).tolist())
            return super().forward(x)

    drawn = []
    for _ in range(2):
        masks.clear()
        train(Telling(), rows(), batch=70, epochs=3)
        drawn.append(masks[-3:])  # before the epochs the network takes a step on trial
    assert drawn[0] == drawn[1]
    first, second, third = drawn[0]
    assert first != second != third != first


# what is left as it was


def test_same_seed_same_bytes_and_another_seed_others():
    def once(seed: int) -> tuple[str, str]:
        network = Mlp((8,), dropout=0.2, batch_norm="before", input_dropout=0.1)
        run = train(network, rows(), optimiser="adam", clip="norm:0.5", stop="early:2", epochs=3, seed=seed)
        return run.record.to_json(), weights_digest(run.network)

    assert once(1) == once(1)
    assert once(1)[1] != once(2)[1]


def test_a_users_module_with_torchs_dropout_gives_the_same_bytes_whatever_the_global_state():
    digests = set()
    with torch.random.fork_rng(devices=[]):
        for global_seed in (1, 2):
            torch.manual_seed(global_seed)
            digests.add(train(own(), rows(), epochs=2, seed=7).record.network)
    assert len(digests) == 1
    assert train(own(), rows(), epochs=2, seed=8).record.network not in digests


def test_the_network_and_the_data_given_are_not_changed():
    for network, data in [
        (mlp(4, 8, 3, dropout=0.2), Data("rows", Split(*rows()))),
        (own().eval(), Data("rows", Split(*rows()))),
        (convolutional(norm=True), Data("images", images())),
    ]:
        before = {name: value.clone() for name, value in network.state_dict().items()}
        modes = [module.training for module in network.modules()]
        x, y = data.train.x.clone(), data.train.y.clone()
        layouts = [p.stride() for p in network.parameters()]
        run = train(network, data, epochs=1, batch=8, augment=CropFlip(1) if data.name == "images" else None)
        assert run.network is not network
        assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
        assert [module.training for module in network.modules()] == modes
        assert [p.stride() for p in network.parameters()] == layouts
        assert all(p.grad is None for p in network.parameters())
        assert not hasattr(network, "card")
        assert torch.equal(data.train.x, x)
        assert torch.equal(data.train.y, y)


def test_a_network_that_works_in_place_spoils_neither_the_data_nor_the_validation():
    class Hasty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(x.sub_(0.5).mul_(2))

    data = Data("rows", Split(*rows()), Split(*rows(30, seed=1)))
    train_x, held_x = data.train.x.clone(), data.validation.x.clone()
    run = train(Hasty(), data, epochs=2, keep=(1, 2))
    assert torch.equal(data.train.x, train_x)
    assert torch.equal(data.validation.x, held_x)
    for row in run.history.rows:
        expected = F.cross_entropy(run.checkpoint(row.epoch)(held_x.clone()), data.validation.y).item()
        assert row.validation_loss == pytest.approx(expected, rel=1e-6)


def test_global_state_is_not_changed():
    def state() -> list[Any]:
        return [
            torch.random.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),
            random.getstate(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        ]

    before = state()
    train(own(), rows(), epochs=1, threads=2)
    train(convolutional(), Data("images", images()), epochs=1, batch=8, augment="crop-flip:1")
    with pytest.raises(ZeroDivisionError):
        train(own(), rows(), epochs=1, hooks=[lambda end: 1 / 0])
    assert state() == before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_trains_inside_blocks_that_switch_gradients_off(mode):
    network, data = own(), rows()
    expected = train(network, data, epochs=1).record
    with mode():
        run = train(network, data, epochs=1)
    assert run.record == expected
    run.network(rows()[0]).sum().backward()  # its parameters are ordinary ones


def test_the_trained_network_stands_alone():
    run = train(own(), rows(), epochs=1)
    assert not any(module.training for module in run.network.modules())
    for value in run.network.parameters():
        assert value.grad is None
        assert value.requires_grad
        assert value.untyped_storage().nbytes() == value.nbytes
    assert train(mlp(4, 8, 3, dropout=0.5), rows(), epochs=1).network.dropout1.generator is None


def test_frozen_layers_do_not_move_and_stay_frozen():
    network = own(0.0)
    freeze(network, ["first", "norm"])
    run = train(network, rows(), epochs=2, penalties="l2:0.1")
    moved = [
        name for name, value in run.network.state_dict().items() if not torch.equal(value, network.state_dict()[name])
    ]
    assert moved == ["last.weight", "last.bias"]
    assert [name for name, value in run.network.named_parameters() if not value.requires_grad] == [
        "first.weight", "first.bias", "norm.weight", "norm.bias",
    ]  # fmt: skip
    assert (run.record.parameters, run.record.trained) == (40 + 16 + 27, 27)


# history


def test_validation_columns_are_those_of_the_network_after_each_epoch():
    x, y = rows(90, spread=2.0)
    held = rows(30, spread=2.0, seed=9)
    run = train(own(), {"train": (x, y), "validation": held}, epochs=3, keep=(1, 2, 3))
    for row in run.history.rows:
        network = run.checkpoint(row.epoch)
        scores = network(held[0])
        assert row.validation_loss == pytest.approx(F.cross_entropy(scores, held[1]).item(), rel=1e-6)
        assert row.validation_accuracy == pytest.approx(float((scores.argmax(1) == held[1]).float().mean()))


def test_a_fraction_of_the_rows_is_moved_into_validation():
    x, y = rows(90)
    run = train(mlp(4, 3), (x, y), validation=0.2, epochs=1, batch=9, seed=4)
    data = Data("arrays", Split(x, y), classes=("0", "1", "2")).with_validation(0.2, 4)
    assert run.history.rows[0].steps == 8
    scores = run.network(data.validation.x)
    assert run.history.rows[0].validation_loss == pytest.approx(
        F.cross_entropy(scores, data.validation.y).item(), rel=1e-6
    )
    assert run.record.origin.inputs["validation"] == data.validation.digest()
    assert run.record.origin.inputs["train"] == data.train.digest()


def test_the_history_as_a_table_reads_back_exactly():
    run = train(mlp(4, 3), rows(), validation=0.2, epochs=2, clip="value:1", hooks=[lambda end: {"pi": math.pi}])
    table = list(csv.DictReader(io.StringIO(run.history.to_csv())))
    assert list(table[0]) == list(run.history.columns)
    for name in run.history.columns:
        assert [float(line[name]) for line in table] == list(run.history.column(name))
    assert table[1]["pi"] == repr(math.pi)


def test_hooks_see_the_network_in_evaluation_mode_and_add_columns():
    seen = []

    def look(end: EpochEnd) -> dict[str, float]:
        seen.append((end.row.epoch, end.network.training))
        return {"norm": end.network.last.weight.norm().item(), "whole": 3}

    run = train(own(), rows(), epochs=2, keep=(1, 2), hooks=[look, lambda end: None])
    assert seen == [(1, False), (2, False)]
    norms = [run.checkpoint(epoch).last.weight.norm().item() for epoch in (1, 2)]
    assert run.history.column("norm") == pytest.approx(norms)
    assert run.history.columns[-2:] == ("norm", "whole")


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ([lambda end: {"rate": 1.0}], "a hook returns 'rate', which is a column of the history already"),
        ([lambda end: {"a": 1.0}, lambda end: {"a": 2.0}], "'a', which is a column"),
        ([lambda end: {"alpha": math.nan}], "a hook returns alpha = nan"),
        ([lambda end: {"alpha": math.inf}], "a hook returns alpha = inf"),
    ],
)
def test_what_a_hook_must_not_return(hooks, words):
    with pytest.raises(UsageError, match=words):
        train(mlp(4, 3), rows(), epochs=1, hooks=hooks)


def test_a_hook_does_not_change_the_result():
    def reckless(end: EpochEnd) -> None:
        end.network.train()
        torch.rand(3)

    alone, watched = (train(own(), rows(), epochs=3, hooks=hooks) for hooks in ([], [reckless]))
    assert alone.record.network == watched.record.network


def test_progress_tells_where_the_run_stands():
    calls: list[Progress] = []
    run = train(mlp(4, 3), rows(), batch=16, epochs=3, progress=calls.append)
    ends = [report for report in calls if report.step == report.steps]
    assert [(report.epoch, report.epochs, report.steps) for report in ends] == [(1, 3, 5), (2, 3, 5), (3, 3, 5)]
    assert [report.loss for report in ends] == list(run.history.column("train_loss"))
    assert [report.accuracy for report in ends] == list(run.history.column("train_accuracy"))
    assert all(report.left is None or report.left >= 0 for report in calls)
    assert ends[-1].left == 0


# when it ends, and with which weights


def overfitting() -> dict[str, tuple[Tensor, Tensor]]:
    """Few rows with shuffled labels: the validation loss falls for a little and then rises."""
    x, y = rows(30, spread=1.5)
    return {"train": (x, y), "validation": rows(60, spread=1.5, seed=1)}


@pytest.mark.parametrize("monitor", ["validation_loss", "validation_accuracy", "train_accuracy"])
def test_early_stopping_ends_after_its_patience_and_restores_the_best(monitor):
    run = train(
        mlp(4, 40, 3), overfitting(), optimiser="adam", schedule=0.05, batch=10, epochs=60,
        stop=EarlyStopping(3, monitor=monitor), keep=range(61),
    )  # fmt: skip
    values = run.history.column(monitor)
    best = 1 + (values.index(max(values)) if monitor.endswith("accuracy") else values.index(min(values)))
    assert run.stopped is Stopped.EARLY
    assert len(values) == best + 3
    assert run.record.reason == f"{monitor} has not improved for 3 epochs, since epoch {best}"
    assert (run.record.best_epoch, run.record.restored, run.record.monitor) == (best, best, monitor)
    assert weights_digest(run.network) == weights_digest(run.checkpoint(best)) == run.record.network
    assert weights_digest(run.network) != weights_digest(run.checkpoint(len(values)))


def test_early_stopping_without_restoring_leaves_the_last_weights():
    stop = EarlyStopping(3, restore=False)
    run = train(
        mlp(4, 40, 3), overfitting(), optimiser="adam", schedule=0.05, batch=10, epochs=60, stop=stop, keep=range(61)
    )
    assert run.stopped is Stopped.EARLY
    assert run.record.restored == len(run.history.rows) == run.record.best_epoch + 3
    assert weights_digest(run.network) == weights_digest(run.checkpoint(run.record.restored))


def test_improvements_below_the_least_one_do_not_count():
    stop = EarlyStopping(2, monitor="train_loss", min_delta=10.0)
    run = train(mlp(4, 3), rows(), optimiser="sgd", epochs=9, stop=stop)
    assert (run.stopped, len(run.history.rows)) == (Stopped.EARLY, 3)
    assert run.record.reason == "train_loss has not improved by more than 10 for 2 epochs, since epoch 1"


def test_without_a_stop_the_last_weights_are_left_and_the_best_epoch_is_named():
    run = train(mlp(4, 40, 3), overfitting(), optimiser="adam", schedule=0.05, batch=10, epochs=25, keep=(25,))
    values = run.history.column("validation_loss")
    assert run.record.best_epoch == 1 + values.index(min(values)) < 25
    assert (run.stopped, run.record.restored, run.record.reason) == (Stopped.DONE, 25, "all 25 epochs done")
    assert weights_digest(run.network) == weights_digest(run.checkpoint(25))


def test_a_plateau_cuts_the_rate_when_the_column_it_watches_stands_still():
    run = train(
        mlp(4, 40, 3), overfitting(), optimiser="adam", batch=10, epochs=20, schedule=Plateau(0.05, 0.5, patience=2)
    )
    rates, best, waited = [0.05], math.inf, 0
    for value in run.history.column("validation_loss")[:-1]:
        best, waited = (value, 0) if value < best - 1e-4 else (best, waited + 1)
        rates.append(rates[-1] * 0.5 if waited == 2 else rates[-1])
        waited %= 2
    assert run.history.column("rate") == pytest.approx(rates)
    assert rates[-1] < 0.05


def test_watching_the_validation_makes_a_split_and_says_so():
    for options in ({"stop": "early:1"}, {"schedule": "plateau:0.1,patience=0"}):
        run = train(mlp(4, 3), rows(90), epochs=3, **options)
        assert run.history.rows[0].validation_loss is not None
        assert any("10%" in note and "validation" in note for note in run.record.notes)
    plain_run = train(mlp(4, 3), rows(90), epochs=1, stop="early:1,monitor=train_loss")
    assert plain_run.history.rows[0].validation_loss is None


@pytest.mark.parametrize(("options", "kept"), [({"schedule": 1e6}, True), ({"schedule": 1e30, "epochs": 3}, False)])
def test_a_run_that_diverges_keeps_the_best_weights_so_far(options, kept):
    """The first rate is bad and later worse; the second ruins the first step."""
    run = train(mlp(4, 8, 3), rows(), **{"epochs": 30, "keep": range(4), **options})
    assert run.stopped is Stopped.DIVERGED
    epoch = len(run.history.rows) + 1
    assert f"NaN or infinite in epoch {epoch}" in run.record.reason
    assert "\n" not in run.record.reason
    assert (run.record.best_epoch > 0) == kept
    assert run.record.restored == run.record.best_epoch
    assert all(bool(torch.isfinite(value).all()) for value in run.network.state_dict().values())
    assert all(math.isfinite(value) for value in run.history.column("train_loss"))
    if kept and run.record.best_epoch < 4:
        assert weights_digest(run.network) == weights_digest(run.checkpoint(run.record.best_epoch))
    if not kept:
        assert weights_digest(run.network) == weights_digest(mlp(4, 8, 3))
    assert type(run.record).from_json(run.record.to_json()) == run.record


def test_nan_in_the_middle_of_an_epoch_ends_the_run_at_once():
    calls = itertools.count()

    def breaking(scores: Tensor, labels: Tensor) -> Tensor:
        value = F.cross_entropy(scores, labels)
        return value * math.nan if next(calls) == 14 else value

    run = train(own(0.0), rows(64), loss=breaking, batch=16, epochs=9, keep=range(10))
    done = len(run.history.rows)
    assert run.stopped is Stopped.DIVERGED
    assert run.record.reason.startswith(f"the loss is NaN or infinite in epoch {done + 1}, step ")
    assert next(calls) == 16  # the probe looks at the batch once more
    assert weights_digest(run.network) == weights_digest(run.checkpoint(run.record.best_epoch))


@pytest.mark.filterwarnings("ignore::weightsmith.training.plan.TrainingWarning")
def test_weights_that_become_infinite_are_noticed():
    """Clipping hides an infinite loss from the gradient, the rate of the last step does the rest."""
    data = {"train": rows(16), "validation": rows(16)}
    run = train(
        mlp(4, 3), data, optimiser="sgd", schedule="piecewise:0.1,3e38,bounds=[1]", clip="value:1", batch=8, epochs=5
    )
    assert run.stopped is Stopped.DIVERGED
    assert all(bool(torch.isfinite(value).all()) for value in run.network.parameters())


# keeping epochs


def test_kept_epochs_are_the_weights_after_them_and_zero_those_before():
    network, data = mlp(4, 8, 3), rows()
    run = train(network, data, schedule=0.01, epochs=4, keep=(0, 2, 4))
    assert weights_digest(run.checkpoint(0)) == weights_digest(network)
    assert weights_digest(run.checkpoint(2)) == train(network, data, schedule=0.01, epochs=2).record.network
    assert weights_digest(run.checkpoint(4)) == run.record.network
    assert run.checkpoint(2) is not run.checkpoint(2)
    with pytest.raises(UnknownName, match="unknown kept epoch '3'"):
        run.checkpoint(3)


@pytest.mark.parametrize("keep", [(5,), (-1,), (1.5,), ("1",), (True,)])
def test_epochs_that_do_not_exist_cannot_be_kept(keep):
    with pytest.raises(UsageError, match="keep"):
        train(mlp(4, 3), rows(), epochs=4, keep=keep)


# forms of data, networks and options


class Pairs(Dataset[Any]):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], int(self.y[index])


def test_every_form_of_data_gives_the_same_network():
    x, y = rows()
    forms = [
        (x, y),
        (x.numpy(), y.numpy()),
        (x.tolist(), y.tolist()),
        {"train": (x, y)},
        TensorDataset(x, y),
        Pairs(x, y),
        DataLoader(TensorDataset(x, y), batch_size=9),
        Data("rows", Split(x, y), classes=("a", "b", "c")),
    ]
    assert len({train("mlp:8", form, epochs=1, seed=2).record.network for form in forms}) == 1


def test_a_data_set_by_name():
    named = train("mlp:8", "digits", epochs=1)
    given = train("mlp:8", ws.data.load("digits"), epochs=1)
    assert named.record.to_json() == given.record.to_json()
    assert named.record.settings["data"] == "digits"


def test_text_forms_and_objects_give_the_same_record():
    texts = {
        "optimiser": "adam:0.8", "schedule": "power:0.01,2,per=epoch", "clip": "global-norm:2", "stop": "early:3",
        "penalties": ["l2:0.001", "max-norm:3"], "loss": "cross-entropy:0.1", "augment": "none",
    }  # fmt: skip
    from weightsmith.training.penalties import MaxNorm

    objects = {
        "optimiser": Adam(0.8), "schedule": Power(0.01, 2, per="epoch"), "clip": ClipGlobalNorm(2),
        "stop": EarlyStopping(3), "penalties": (L2(0.001), MaxNorm(3)), "loss": CrossEntropy(0.1), "augment": None,
    }  # fmt: skip
    by_text = train("mlp:8,dropout=0.1", rows(), epochs=2, **texts)
    by_object = train(Mlp((8,), dropout=0.1), rows(), epochs=2, **objects)
    assert by_text.record.to_json() == by_object.record.to_json()
    again = {key: by_text.record.settings[key] for key in texts}
    assert train("mlp:8,dropout=0.1", rows(), epochs=2, **again).record.to_json() == by_text.record.to_json()


def test_one_penalty_needs_no_list():
    runs = [train(mlp(4, 3), rows(), epochs=1, penalties=given) for given in ("l2:0.1", L2(0.1), ["l2:0.1"])]
    assert len({run.record.to_json() for run in runs}) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0.03, Constant(0.03)), ("0.03", Constant(0.03)), (Power(0.1, 9), Power(0.1, 9))],
)
def test_every_form_of_a_schedule(given, expected):
    run = train(mlp(4, 3), rows(), schedule=given, epochs=1)
    assert run.record.settings["schedule"] == str(expected)
    assert run.record.settings["optimiser"] == str(Momentum())


def test_the_usual_rate_is_the_optimisers():
    for name, rate in (("sgd", Sgd.usual_rate), ("adam", Adam.usual_rate)):
        assert train(mlp(4, 3), rows(), optimiser=name, epochs=1).history.rows[0].rate == rate


def test_a_network_by_name_is_built_for_the_data_from_the_seed():
    x, y = rows()
    run = train("mlp:8", (x, y), epochs=1, seed=3, keep=(0,))
    assert weights_digest(run.checkpoint(0)) == weights_digest(mlp(4, 8, 3, seed=3))
    assert run.record.settings["network"].startswith("mlp:8")


def test_images_reach_an_mlp_as_rows_and_pixels_are_normalised():
    split = images()
    data = Data("images", split, normalisation=Normalisation((0.5,), (0.25,)))
    run = train("mlp:8", data, optimiser="sgd", schedule=0.01, epochs=1, batch=24, keep=(0,))
    inputs = (split.x.flatten(1) / 255 - 0.5) / 0.25
    loss = F.cross_entropy(run.checkpoint(0)(inputs), split.y).item()
    assert run.history.rows[0].train_loss == pytest.approx(loss, rel=1e-5)
    other = train("mlp:8", data, optimiser="sgd", schedule=0.01, epochs=1, batch=24, normalise="none", keep=(0,))
    loss = F.cross_entropy(other.checkpoint(0)(split.x.flatten(1) / 255), split.y).item()
    assert other.history.rows[0].train_loss == pytest.approx(loss, rel=1e-5)


def test_augmentation_is_the_same_each_time_and_changes_the_run():
    data = Data("images", images())
    runs = [
        train(convolutional(), data, augment=given, epochs=2, batch=8) for given in ("crop-flip:2", CropFlip(2), None)
    ]
    assert runs[0].record.to_json() == runs[1].record.to_json()
    assert runs[0].record.network != runs[2].record.network


# card, lineage, record, files


def test_the_card_says_how_to_use_the_network_and_where_it_came_from():
    network = mlp(4, 8, 3)
    data = Data("clouds", Split(*rows()), classes=("a", "b", "c"), normalisation=Normalisation((0.5,), (2.0,)))
    run = train(network, data, optimiser="sgd", schedule=0.1, epochs=2, keep=(0, 1))
    card = card_of(run.network)
    assert card.input_shape == (4,)
    assert card.classes == ("a", "b", "c")
    assert card.normalisation == data.normalisation
    assert card.architecture == network.architecture
    assert card.lineage.parent == weights_digest(network)
    assert card.lineage.operation == "trained on clouds (sgd, constant:0.1, epoch 2 of 2)"
    assert "epoch 1 of 2" in card_of(run.checkpoint(1)).lineage.operation
    assert card_of(run.checkpoint(0)).lineage == card_of(network).lineage


def test_a_network_that_was_trained_keeps_its_normalisation_and_adds_to_its_lineage():
    data = Data("clouds", Split(*rows()), normalisation=Normalisation((0.5,), (2.0,)))
    first = train(mlp(4, 8, 3), data, normalise="0.25/0.5", epochs=1)
    second = train(first.network, data, epochs=1)
    assert card_of(second.network).normalisation == Normalisation((0.25,), (0.5,))
    assert card_of(second.network).lineage.parent == first.record.network
    assert len(card_of(second.network).lineage.ancestors) == 2


def test_the_record_reads_back_and_names_what_it_was_made_from():
    network, (x, y) = mlp(4, 8, 3), rows()
    run = train(network, (x, y), validation=0.2, epochs=2, seed=5, stop="early:1", hooks=[lambda end: {"a": 1.0}])
    record = run.record
    assert type(record).from_json(record.to_json()) == record
    assert record.origin.seed == 5
    assert record.origin.inputs["network"] == weights_digest(network)
    assert record.network == weights_digest(run.network)
    assert record.settings["epochs"] == 2
    assert record.settings["stop"] == "early:patience=1" or record.settings["stop"] == str(EarlyStopping(1))


def test_the_diagnosis_is_there_if_asked_for():
    run = train(mlp(4, 8, 3), rows(), epochs=3, batch=16)
    assert run.gradients is not None
    assert run.gradients.probes == (0, 1, 2, 4, 5, 8, 10)
    assert [layer.name for layer in run.gradients.layers] == ["dense1", "output"]
    assert train(mlp(4, 8, 3), rows(), epochs=1, diagnose=False).gradients is None


def test_what_a_penalty_removed_is_reported():
    run = train(mlp(4, 8, 3), rows(), penalties="group-lasso:5", optimiser="sgd", schedule=0.1, epochs=3)
    assert run.record.removed
    gone = (run.network.dense1.weight == 0).all(dim=1)
    assert bool(gone.any())


def test_a_run_folder_holds_the_record_the_table_and_a_network_that_loads(tmp_path):
    data = ws.data.load("digits")
    run = train("mlp:16", data, schedule=0.05, epochs=2, keep=(0, 1), out=tmp_path / "run")
    folder = tmp_path / "run"
    assert type(wanted := run.record).from_json((folder / "record.json").read_text()) == wanted
    assert (folder / "history.csv").read_text() == run.history.to_csv()
    loaded = ws.load(folder)
    assert weights_digest(loaded) == run.record.network
    assert card_of(loaded) == card_of(run.network)
    ours, theirs = ws.evaluate(folder, data), ws.evaluate(run.network, data)
    assert ours == theirs
    assert ours.accuracy.value > 0.8
    for epoch in (0, 1):
        earlier = ws.load(folder / f"epoch-{epoch:04d}.safetensors")
        assert weights_digest(earlier) == weights_digest(run.checkpoint(epoch))
    more = train(folder, data, epochs=1)
    assert card_of(more.network).lineage.parent == run.record.network


def test_a_users_module_is_written_and_fills_the_same_module_again(tmp_path):
    run = train(own(), rows(), epochs=1, out=tmp_path)
    loaded = ws.load(tmp_path, network=own)
    for (name, value), expected in zip(loaded.state_dict().items(), run.network.state_dict().values(), strict=True):
        assert torch.equal(value, expected) or name.endswith("num_batches_tracked"), name
    assert card_of(loaded).input_shape == (4,)


def test_a_folder_changes_nothing_in_the_result(tmp_path):
    options = {"optimiser": "adam", "stop": "early:2", "epochs": 3}
    assert train(own(), rows(), out=tmp_path, **options).record == train(own(), rows(), **options).record


def test_squared_error_and_cross_entropy_are_not_the_same():
    """Guards the tests above: a loss that was ignored would pass where both are compared with themselves."""
    runs = [train(mlp(4, 3), rows(), loss=loss, epochs=1).record.network for loss in (SquaredError(), CrossEntropy())]
    assert runs[0] != runs[1]


def test_a_network_that_replaces_its_parameters_is_refused_and_not_left_unlearnt():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 3)

        def forward(self, x):
            self.out.weight.data = F.normalize(self.out.weight.data)
            return self.out(x)

    with pytest.raises(UsageError, match=r"^out\.weight: the network replaces the memory"):
        train(Normed(), rows(), epochs=1)


class Counting(nn.Module):
    """Keeps a running mean that no state dict holds."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.register_buffer("centre", torch.zeros(4), persistent=False)

    def forward(self, x):
        if self.training:
            self.centre.lerp_(x.detach().mean(0), 0.1)
        return self.out(x - self.centre)


def test_buffers_that_are_not_saved_are_resumed_and_restored(tmp_path):
    torch.manual_seed(0)
    network, data = Counting(), rows()
    whole = train(network, data, epochs=4, out=tmp_path / "whole")

    def interrupt(end):
        if end.row.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(network, data, epochs=4, out=tmp_path / "cut", hooks=interrupt)
    again = train(network, data, epochs=4, out=tmp_path / "cut")
    assert again.record == whole.record
    assert torch.equal(again.network.centre, whole.network.centre)


def test_kept_epochs_are_network_files_and_are_written_once(tmp_path):
    run = train("mlp:8", "digits", epochs=3, keep=(0, 1, 3), out=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("epoch-*")) == [
        f"epoch-000{epoch}.safetensors" for epoch in (0, 1, 3)
    ]
    for epoch in (0, 1, 3):
        stored = ws.load(tmp_path / f"epoch-000{epoch}.safetensors")
        assert weights_digest(stored) == weights_digest(run.checkpoint(epoch))
    assert not any("kept" in name for name in open_weights(tmp_path / "checkpoint.safetensors").entries)
