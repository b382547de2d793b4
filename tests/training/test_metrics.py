from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.training.loop import train
from weightsmith.training.metrics import f1, mae, read_metrics, rmse

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(80, 3, generator=DRAW)


def test_f1_is_that_of_scikit_learn():
    answers, labels = torch.randn(60, 4, generator=DRAW), torch.randint(0, 4, (60,), generator=DRAW)
    assert f1(answers, labels) == pytest.approx(f1_score(labels, answers.argmax(1), average="macro"))
    on = torch.rand(60, 4, generator=DRAW) > 0.5
    assert f1(answers, on) == pytest.approx(f1_score(on, answers > 0, average="macro"))


def test_errors_of_values():
    answers, targets = torch.tensor([[1.0], [4.0]]), torch.tensor([[2.0], [2.0]])
    assert mae(answers, targets) == 1.5
    assert rmse(answers, targets) == pytest.approx(2.5**0.5)
    with pytest.raises(UsageError, match="mae is for values"):
        mae(answers, torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="f1 is for classes"):
        f1(answers, targets)


def test_metrics_by_name_and_function():
    assert [metric.name for metric in read_metrics(["f1", rmse])] == ["f1", "rmse"]
    with pytest.raises(UnknownName, match="unknown metric 'f2'"):
        read_metrics("f2")
    with pytest.raises(UsageError, match="two metrics are called f1"):
        read_metrics(["f1", f1])


def late_score(answers: torch.Tensor, targets: torch.Tensor) -> float:
    del targets
    late_score.calls += 1
    return -abs(late_score.calls - 2) + 0 * float(answers.sum())


def test_a_metric_of_ones_own_is_watched_stopped_on_and_its_best_epoch_restored():
    late_score.calls = 0
    y = (X[:, 0] > 0).long()
    stop = "early:2,monitor=validation_late_score"
    run = train(nn.Linear(3, 2), (X, y), metrics=late_score, validation=0.25, stop=stop, schedule=0.01, epochs=9)
    assert run.history.column("validation_late_score") == (-1, 0, -1, -2)
    assert (run.record.best_epoch, run.record.restored, run.stopped.value) == (2, 2, "early")


def test_errors_are_measured_in_the_units_of_the_data():
    y = 1000 + 50 * X[:, :1].double().numpy()
    run = train(
        "mlp:8", (X.numpy(), y), metrics=["mae", "rmse"], validation=0.25, epochs=1, schedule=1e-9, optimiser="sgd"
    )
    (row,) = run.history.rows
    assert 10 < row.extra["validation_mae"] <= row.extra["validation_rmse"] < 500
    assert row.train_accuracy is None
    assert {"train_r2", "validation_r2"} <= set(row.extra)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": "f1"}, "measured on validation rows"),
        ({"stop": "early:2,monitor=validation_luck", "validation": 0.2}, "does not say whether it should rise"),
        ({"stop": "early:2,monitor=validation_r2", "validation": 0.2}, "watch validation_loss or validation_accuracy"),
    ],
)
def test_what_cannot_be_watched_is_refused_before_training(options, words):
    with pytest.raises(UsageError, match=words):
        train(nn.Linear(3, 2), (X, (X[:, 0] > 0).long()), epochs=1, **options)
    with pytest.raises(UsageError, match="watch validation_loss or validation_r2"):
        train("mlp:4", (X, X[:, :1]), epochs=1, stop="early:2,monitor=validation_accuracy", validation=0.2)


def test_what_is_no_number_is_named():
    with pytest.raises(UsageError, match="metric nothing gives nan"):
        train(nn.Linear(3, 2), (X, (X[:, 0] > 0).long()), metrics=nothing, validation=0.2, epochs=1)


def nothing(answers: torch.Tensor, targets: torch.Tensor) -> float:
    del answers, targets
    return float(np.nan)


def test_a_function_of_a_file_is_a_metric(tmp_path, monkeypatch):
    code = "def near_score(answers, targets):\n    return float((answers.argmax(1) == targets).float().mean())\n"
    (tmp_path / "own_measures.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    run = train(
        nn.Linear(3, 2),
        (X, (X[:, 0] > 0).long()),
        epochs=2,
        validation=0.25,
        metrics="own_measures.py:near_score",
    )
    for row in run.history.rows:
        assert row.extra["validation_near_score"] == pytest.approx(row.validation_accuracy)


def test_a_metric_that_gives_no_number_is_named():
    with pytest.raises(UsageError, match=r"the metric per_class_score gives a Tensor of shape \(2,\), not one number"):
        train(nn.Linear(3, 2), (X, (X[:, 0] > 0).long()), epochs=1, validation=0.25, metrics=per_class_score)


def per_class_score(answers, targets):
    return answers.mean(dim=0)
