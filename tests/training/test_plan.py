"""What is refused before the first step, what is warned of, and what is worked out from network and data."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError, WeightsmithError
from weightsmith.core.identity import identity_of
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.tensors import Data, Split
from weightsmith.networks import mlp, save
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.models.mlp import Mlp
from weightsmith.training.freezing import freeze
from weightsmith.training.loop import train
from weightsmith.training.plan import TrainingWarning, make_plan
from weightsmith.training.run import Stopped
from weightsmith.training.settings import Settings


def rows(count: int = 70, seed: int = 0) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 3
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed)) + 2 * F.one_hot(y, 4), y


X, Y = rows()


def with_value(value: float, row: int = 5) -> Tensor:
    x = X.clone()
    x[row, 1] = value
    return x


def plan(network: Any = "mlp:8", data: Any = (X, Y), **options: Any) -> Any:
    given = {"optimiser": "sgd", "schedule": 0.1, "loss": "cross-entropy", "batch": 32, "epochs": 2, **options}
    return make_plan(network, data, Settings.read(**given))


def plain_wrong(**options: Any) -> Any:
    """Train with warnings as errors: nothing is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        return train(**({"network": mlp(4, 8, 3), "data": (X, Y), "epochs": 1} | options))


# refused, in one line that names it


BAD: dict[str, tuple[dict[str, Any], type[WeightsmithError], str]] = {
    "nan in rows": ({"data": (with_value(math.nan), Y)}, DataMismatch, "row 5 holds nan"),
    "infinity in rows": ({"data": (with_value(math.inf), Y)}, DataMismatch, "row 5 holds nan or infinity"),
    "nan in Data": ({"data": Data("d", Split(with_value(math.nan), Y))}, DataMismatch, "d: row 5 of the train split"),
    "nan in validation": (
        {"data": Data("d", Split(X, Y), Split(with_value(math.nan, 7), Y))},
        DataMismatch,
        "d: row 7 of the validation split holds nan",
    ),
    "label too high": (
        {"data": (X, Y + 1)},
        DataMismatch,
        r"train split has the label 3, .* 3 outputs \(labels 0 to 2\)",
    ),
    "label too high in validation": (
        {"data": {"train": (X, Y), "validation": (X, Y + 4)}},
        DataMismatch,
        "validation split has the label 6",
    ),
    "negative label": ({"data": (X, Y - 1)}, DataMismatch, "counted from 0, not -1"),
    "labels that are no numbers": ({"data": (X, Y.double())}, DataMismatch, "whole numbers as floats"),
    "too few labels": ({"data": (X, Y[:-1])}, DataMismatch, "70 inputs need an int64 label"),
    "no rows": ({"data": (X[:0], Y[:0])}, DataMismatch, "rows"),
    "no training split": ({"data": {"test": (X, Y)}}, UsageError, "no train split"),
    "what is no data": ({"data": 3}, UsageError, "data may be"),
    "an unknown data set": ({"data": "digit"}, UnknownName, "did you mean 'digits'"),
    "rows of another width": ({"network": mlp(5, 8, 3)}, DataMismatch, r"inputs of shape \(5,\), the data have \(4,\)"),
    "rows of another width, own module": (
        {"network": nn.Sequential(nn.Linear(5, 3))},
        DataMismatch,
        r"cannot take inputs of shape \(4,\)",
    ),
    "scores of another shape": (
        {"network": nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Linear(2, 3))},
        DataMismatch,
        r"gives \(2, 2, 3\)",
    ),
    "a tuple of scores": ({"network": nn.GRU(4, 3)}, DataMismatch, "gives a tuple, not one score per class"),
    "too few outputs": ({"network": mlp(4, 8, 2)}, DataMismatch, "2 outputs"),
    "nothing to train": (
        {"network": nn.Sequential(nn.Flatten()), "data": (X[:, :3], Y)},
        UsageError,
        "no trainable parameter",
    ),
    "all frozen": ({"network": mlp(4, 3).requires_grad_(False)}, UsageError, "all are frozen"),
    "mixed types": (
        {"network": nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3).double())},
        WeightsmithError,
        "[Dd]ouble|float64",
    ),
    "an unknown network": ({"network": "mpl:8"}, UnknownName, "did you mean 'mlp'"),
    "no epochs": ({"epochs": 0}, UsageError, "epochs must be a whole number ≥ 1, not 0"),
    "half an epoch": ({"epochs": 2.5}, UsageError, "epochs must be a whole number"),
    "no batch": ({"batch": 0}, UsageError, "batch must be"),
    "a batch as text": ({"batch": "32"}, UsageError, "batch must be"),
    "a batch that is true": ({"batch": True}, UsageError, "batch must be"),
    "a negative seed": ({"seed": -1}, UsageError, "seed must be"),
    "no threads": ({"threads": 0}, UsageError, "threads must be"),
    "keep beyond the end": ({"keep": (2,)}, UsageError, "keep names the epoch 2"),
    "a rate of 0": ({"schedule": 0}, OptionError, "rate must be > 0"),
    "an unknown schedule": ({"schedule": "powr:0.1"}, UnknownName, "did you mean 'power'"),
    "an unknown optimiser": ({"optimiser": "addam"}, UnknownName, "did you mean 'adam'"),
    "torch's optimiser": (
        {"optimiser": torch.optim.SGD([torch.zeros(1)], lr=0.1)},
        UsageError,
        "a SGD is bound to other weights; give a function",
    ),
    "a number as clip": ({"clip": 1.0}, UsageError, "clip must be one of value, norm"),
    "a number as penalty": ({"penalties": [0.1]}, UsageError, "penalty must be one of"),
    "an unknown loss": ({"loss": "entropy"}, UnknownName, "did you mean 'cross-entropy'"),
    "a loss that is a float": ({"loss": lambda s, y: 1.0}, UsageError, "gives a float"),
    "a loss per row": (
        {"loss": lambda s, y: F.cross_entropy(s, y, reduction="none")},
        UsageError,
        r"shape \(2,\), not one number",
    ),
    "a loss without gradient": (
        {"loss": lambda s, y: (s.argmax(1) == y).float().mean()},
        UsageError,
        "does not depend on the scores",
    ),
    "a loss that fails": ({"loss": F.mse_loss}, UsageError, "loss mse_loss cannot be computed"),
    "an unknown device": ({"device": "abacus"}, UsageError, "device 'abacus'"),
    "a device that is not there": ({"device": "cuda:99"}, UsageError, "device 'cuda:99' cannot be used here"),
    "all rows for validation": ({"validation": 1.0}, UsageError, "validation must be a number ≥ 0, < 1, not 1.0"),
    "a second validation": (
        {"data": {"train": (X, Y), "validation": (X, Y)}, "validation": 0.1},
        UsageError,
        "has a validation split already",
    ),
    "one row to split": ({"data": (X[:1], Y[:1]), "validation": 0.5}, UsageError, "1 rows cannot be split"),
    "one row for batch norm": (
        {"network": Mlp((8,), batch_norm="before"), "data": (X[:1], Y[:1])},
        UsageError,
        "batch norm needs batches of at least 2 rows",
    ),
    "batches of one for batch norm": (
        {"network": Mlp((8,), batch_norm="before"), "batch": 1},
        UsageError,
        "batch norm needs batches of at least 2 rows",
    ),
    "augmented rows": ({"augment": "crop-flip"}, DataMismatch, "images"),
    "normalisation of three channels": ({"normalise": "imagenet"}, DataMismatch, "3 channels"),
    "an unknown normalisation": ({"normalise": "imagnet"}, UnknownName, "did you mean 'imagenet'"),
}


@pytest.mark.filterwarnings("ignore:Using a target size")  # torch's own remark on the loss that fails
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name_in_one_line(name):
    options, kind, words = BAD[name]
    with pytest.raises(WeightsmithError, match=words) as caught:
        plain_wrong(**options)
    assert isinstance(caught.value, kind)
    assert "\n" not in str(caught.value)


def test_a_refused_call_leaves_no_folder_of_a_run_behind(tmp_path):
    with pytest.raises(DataMismatch):
        train(mlp(4, 8, 2), (X, Y), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(WeightsmithError, match="file"):
        train(mlp(4, 8, 3), (X, Y), out=tmp_path / "file")


# warned of, and trained


def warned(**options: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = train(**({"network": mlp(4, 8, 3), "data": (X, Y), "epochs": 2} | options))
    messages = [str(item.message) for item in caught if item.category is TrainingWarning]
    assert list(run.record.warnings) == messages
    return run, messages


def test_a_warning_points_to_the_line_that_called():
    with pytest.warns(TrainingWarning, match="batch 1000") as caught:
        train(mlp(4, 8, 3), (X, Y), epochs=1, batch=1000)
    assert [item.filename for item in caught] == [__file__]


def test_nothing_is_warned_of_in_a_plain_run():
    assert warned()[1] == []


def test_a_batch_larger_than_the_data():
    run, messages = warned(batch=1000)
    assert messages == ["batch 1000 is larger than the 70 training rows: every epoch is a single step"]
    assert (run.stopped, run.history.rows[0].steps) == (Stopped.DONE, 1)


def test_empty_classes_are_named():
    data = Data("d", Split(X, Y), classes=("a", "b", "c", "bird", "fish"))
    run, messages = warned(network="mlp:8", data=data)
    assert len(messages) == 1
    assert "2 of 5 classes have no training row (bird, fish)" in messages[0]
    assert run.network.output.out_features == 5
    many = Data("d", Split(X, Y), classes=tuple(f"c{number}" for number in range(12)))
    assert "(c3, c4, c5, c6, c7 …)" in warned(network="mlp:8", data=many)[1][0]


def test_a_class_that_only_the_validation_has_is_empty():
    keep = Y != 2
    _, messages = warned(data={"train": (X[keep], Y[keep]), "validation": (X, Y)})
    assert "1 of 3 classes have no training row (2)" in messages[0]


def test_one_class_and_one_row():
    assert "all training rows belong to one class" in warned(data=(X, Y * 0))[1][0]
    run, messages = warned(data=(X[:1], Y[:1]))
    assert [sentence.split()[0] for sentence in messages] == ["batch", "all", "the"]
    assert run.stopped is Stopped.DONE
    assert run.history.rows[-1].train_accuracy in (0.0, 1.0)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("piecewise:0.1,0.01,bounds=[100]", "piecewise:0.1,0.01,bounds=[100]: the run ends with 12 steps"),
        ("exponential:0.1,1", "exponential:0.1,1.0"),
        ("warm-up:100,cosine:0.1", "warm-up"),
    ],
)
def test_a_schedule_that_does_not_fit_the_run(schedule, words):
    run, messages = warned(schedule=schedule, epochs=4)
    assert len(messages) == 1
    assert words in messages[0]
    assert run.stopped is Stopped.DONE


def test_inputs_that_are_far_too_large():
    run, messages = warned(data=(X * 1e6, Y), schedule=1e-9)
    assert re.search(r"inputs reach [4-9]\.?\d*e\+06", messages[0])
    assert all(math.isfinite(value) for value in run.history.column("train_loss"))


# batch norm and the row left over


def test_a_single_row_left_over_is_left_out_of_batch_norm_another_each_time():
    x, y = rows(33)
    run = train(Mlp((8,), batch_norm="before"), (x, y), batch=16, epochs=2)
    assert run.history.column("steps") == (2, 2)
    assert any("leave 1 over, too few for batch norm" in note for note in run.record.notes)
    plain = train("mlp:8", (x, y), schedule=0.01, batch=16, epochs=2)
    assert plain.history.column("steps") == (3, 3)
    assert plain.record.notes == ()


def test_two_rows_left_over_are_a_batch():
    run = train(Mlp((8,), batch_norm="before"), rows(34), schedule=0.01, batch=16, epochs=1)
    assert run.history.rows[0].steps == 3
    assert run.record.notes == ()


def test_a_frozen_batch_norm_takes_any_batch():
    network = mlp(4, 8, 3, batch_norm="before")
    freeze(network, "norm1")
    assert train(network, rows(33), batch=16, epochs=1).history.rows[0].steps == 3
    assert train(network, rows(5), batch=1, epochs=1).history.rows[0].steps == 5


@pytest.mark.parametrize(
    ("count", "batch", "steps"), [(70, 32, 3), (64, 32, 2), (65, 32, 3), (1, 1, 1), (7, 1, 7), (7, 7, 1)]
)
def test_steps_of_an_epoch(count, batch, steps):
    assert plan(data=rows(count), batch=batch).span.steps == steps


# worked out


def test_the_normalisation_is_that_asked_for_else_the_networks_else_the_datas(tmp_path):
    data = Data("d", Split(X, Y), normalisation=Normalisation((0.5,), (2.0,)))
    assert plan(data=data).normalisation == data.normalisation
    assert plan(data=data, normalise="0.1/0.2").normalisation == Normalisation((0.1,), (0.2,))
    assert plan(mlp(4, 3), data).normalisation == data.normalisation
    trained = train(mlp(4, 3), data, normalise="0.3/0.4", epochs=1, out=tmp_path / "run").network
    plainly = train(mlp(4, 3), data, normalise="none", epochs=1).network
    assert plan(trained, data).normalisation == Normalisation((0.3,), (0.4,))
    assert plan(plainly, data).normalisation == NONE
    for given in (tmp_path / "run", str(tmp_path / "run"), tmp_path / "run" / "network.safetensors"):
        assert plan(given, data).normalisation == Normalisation((0.3,), (0.4,))


def test_a_network_from_a_file_is_trained_further(tmp_path):
    network = mlp(4, 8, 3, seed=9)
    file = save(network, tmp_path / "net.safetensors")
    assert plan(file).inputs["network"] == plan(str(file)).inputs["network"] == plan(network).inputs["network"]


def test_a_network_by_name_is_built_for_the_classes_there_are():
    assert plan(data=Data("d", Split(X, Y))).network.output.out_features == 3
    assert plan(data=Data("d", Split(X, Y), classes=tuple("abcde"))).network.output.out_features == 5
    assert plan(nn.Sequential(nn.Linear(4, 7))).card.classes == ()  # seven outputs, three names: none fits


def test_settings_are_written_out_in_full():
    written = plan(mlp(4, 8, 3), penalties=["l2:0.1"], clip="norm:2", loss=F.cross_entropy).written
    assert written == {
        "network": "mlp:8,input_shape=[4],classes=3", "data": "arrays", "optimiser": "sgd", "schedule": "constant:0.1",
        "clip": "norm:threshold=2.0", "stop": None, "penalties": ["l2:0.1"],
        "loss": identity_of(F.cross_entropy), "augment": "none", "batch": 32, "epochs": 2, "validation": None,
        "seed": 0, "device": "cpu", "normalise": "none", "frozen": [],
    }  # fmt: skip
    own = nn.Sequential(nn.Linear(4, 3))
    own[0].bias.requires_grad_(False)
    assert plan(own).written["network"] == "Sequential with 15 parameters"
    assert plan(own).written["frozen"] == ["0.bias"]


def test_numpys_whole_numbers_are_taken():
    run = train(mlp(4, 3), (X, Y), epochs=np.int64(1), batch=np.int32(35), seed=np.uint8(3), keep=np.arange(2))
    assert run.record.settings["batch"] == 35
    assert type(run.record).from_json(run.record.to_json()) == run.record
    assert sorted(run.kept) == [0, 1]


def test_a_divided_folder_brings_its_own_validation(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for split, count in (("train", 6), ("validation", 4), ("test", 2)):
        for name, shade in (("dark", 20), ("light", 200)):
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(count):
                image.new("L", (4, 4), shade + number).save(tmp_path / split / name / f"{number}.png")
    for given in (tmp_path, str(tmp_path), f"folder:{tmp_path}"):
        made = plan(data=given)
        assert (len(made.train), len(made.validation)) == (12, 8)
        assert made.card.classes == ("dark", "light")


def test_the_plan_copies_the_network_and_leaves_modes_and_layout_of_the_given_one():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 3)).eval()
    made = plan(network, (torch.rand(9, 3, 4, 4), Y[:9]), batch=9)
    assert made.network is not network
    assert made.layout.channels_last
    assert made.network[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not network[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not network.training
    assert card_of(network).lineage.parent is None


@pytest.mark.parametrize(
    ("data", "card", "expected"),
    [
        (("a", "b", "c"), (), ("a", "b", "c")),
        (("a", "b", "c"), ("x", "y", "z"), ("a", "b", "c")),
        (("x", "y"), ("x", "y", "z"), ("x", "y", "z")),
        (("a", "b"), ("x", "y", "z"), ("a", "b", "output 2")),
        (("a", "b"), (), ("a", "b", "output 2")),
        (("x", "z"), ("x", "y", "z"), ("x", "z", "output 2")),  # z was learnt by the second output
        (("a", "b", "c", "d"), (), ()),
        ((), ("x", "y", "z"), ("x", "y", "z")),
    ],
)
def test_outputs_are_called_what_they_stand_for(data, card, expected):
    labels = torch.arange(6) % 2
    network = with_card(mlp(2, 3), dataclasses.replace(card_of(mlp(2, 3)), classes=card))
    made = make_plan(network, Data("mine", train=Split(torch.zeros(6, 2), labels), classes=data), settings())
    assert made.card.classes == expected


def test_rows_without_names_leave_the_names_of_the_network():
    network = with_card(mlp(2, 3), dataclasses.replace(card_of(mlp(2, 3)), classes=("x", "y", "z")))
    made = make_plan(network, (torch.zeros(6, 2), torch.arange(6) % 3), settings())
    assert made.card.classes == ("x", "y", "z")


def settings():
    return Settings.read(optimiser="sgd", schedule=0.1, loss="cross-entropy", batch=2, epochs=1)


@pytest.mark.parametrize(("channels", "last"), [(2, False), (7, False), (8, True)])
def test_channels_come_last_only_where_the_gradient_stays_in_its_memory(channels: int, last: bool) -> None:
    """A strided 1×1 convolution of few channels: its gradient aborts the process where channels come last."""
    network = nn.Sequential(
        nn.Conv2d(3, channels, 3), nn.Conv2d(channels, 4, 1, stride=2), nn.Flatten(), nn.Linear(36, 2)
    )
    network.to(memory_format=torch.channels_last)
    data = Data("few", train=Split(torch.randn(8, 3, 8, 8), torch.arange(8) % 2))
    settings = Settings.read(optimiser="sgd", schedule=0.1, loss="cross-entropy", batch=4, epochs=1)
    plan = make_plan(network, data, settings, 1)
    assert plan.layout.channels_last == last
    assert plan.network[0].weight.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
