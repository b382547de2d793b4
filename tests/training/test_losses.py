from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.training.losses import CrossEntropy, Loss, SquaredError

SCORES = [[0.2, -1.0, 3.0], [5.0, 0.0, 0.5], [1.0, 1.0, 1.0], [-2.0, 0.1, -0.1]]
LABELS = [2, 1, 0, 0]


def scores() -> torch.Tensor:
    return torch.tensor(SCORES, dtype=torch.float64, requires_grad=True)


def softmax(row: list[float]) -> list[float]:
    total = sum(map(math.exp, row))
    return [math.exp(number) / total for number in row]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_cross_entropy_is_its_formula(smoothing):
    losses = []
    for row, label in zip(SCORES, LABELS, strict=True):
        target = [(1 - smoothing) * (j == label) + smoothing / 3 for j in range(3)]
        losses.append(-sum(q * math.log(p) for q, p in zip(target, softmax(row), strict=True)))
    loss = CrossEntropy(smoothing)(scores(), torch.tensor(LABELS))
    assert loss.item() == pytest.approx(sum(losses) / 4, rel=1e-12)


ACTIVATIONS = {
    "identity": lambda row: row,
    "sigmoid": lambda row: [1 / (1 + math.exp(-number)) for number in row],
    "softmax": softmax,
}


@pytest.mark.parametrize("output", ACTIVATIONS)
def test_squared_error_is_its_formula(output):
    losses = [
        sum(((j == label) - a) ** 2 for j, a in enumerate(ACTIVATIONS[output](row)))
        for row, label in zip(SCORES, LABELS, strict=True)
    ]
    loss = SquaredError(output)(scores(), torch.tensor(LABELS))
    assert loss.item() == pytest.approx(sum(losses) / 4, rel=1e-12)


@pytest.mark.parametrize("output", ["identity", "sigmoid"])
def test_squared_error_has_the_sensitivity_of_equation_7(output):
    n = scores()
    SquaredError(output)(n, torch.tensor(LABELS)).backward()
    a = torch.tensor([ACTIVATIONS[output](row) for row in SCORES], dtype=torch.float64)
    y = torch.eye(3, dtype=torch.float64)[LABELS]
    slope = a * (1 - a) if output == "sigmoid" else torch.ones_like(a)
    assert torch.allclose(n.grad * len(LABELS), -2 * (y - a) * slope, atol=1e-12)


def test_squared_error_is_the_librarys_mean_times_the_classes():
    y = torch.eye(3, dtype=torch.float64)[LABELS]
    theirs = torch.nn.functional.mse_loss(scores(), y)
    assert SquaredError()(scores(), torch.tensor(LABELS)).item() == pytest.approx(3 * theirs.item(), rel=1e-12)


@pytest.mark.parametrize(
    "text", ["cross-entropy", "cross-entropy:0.2", *(f"squared-error:{name}" for name in ACTIVATIONS)]
)
def test_rows_of_targets_are_taken_as_well(text):
    loss = Loss.parse(text)
    one_hot = torch.eye(3, dtype=torch.float64)[LABELS]
    assert loss(scores(), one_hot).item() == pytest.approx(loss(scores(), torch.tensor(LABELS)).item(), rel=1e-12)
    assert Loss.parse(str(loss)) == loss


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=6), st.data())
def test_a_mean_over_images_does_not_change_when_they_are_repeated(row, data):
    label = data.draw(st.integers(0, len(row) - 1))
    once, labels = torch.tensor([row], dtype=torch.float64), torch.tensor([label])
    for loss in (CrossEntropy(), CrossEntropy(0.1), SquaredError(), SquaredError("softmax")):
        repeated = loss(once.repeat(3, 1), labels.repeat(3))
        assert repeated.item() == pytest.approx(loss(once, labels).item(), rel=1e-9, abs=1e-12)
        assert repeated.item() >= 0


def test_single_precision_stays_so():
    for loss in (CrossEntropy(0.1), SquaredError(), SquaredError("sigmoid")):
        assert loss(torch.zeros(2, 3), torch.tensor([0, 1])).dtype == torch.float32


def test_ranges():
    with pytest.raises(OptionError, match="smoothing must be < 1"):
        CrossEntropy(1.0)
    with pytest.raises(OptionError, match="one of identity, sigmoid, softmax"):
        SquaredError("tanh")
