"""Keras and torch against closed forms: activations, initialisers, batch norm, dropout, clipping, callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

CLOSED: dict[str, Callable[[float], float]] = {
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "relu": lambda x: max(x, 0.0),
    "selu": lambda x: SELU_SCALE * (x if x > 0 else SELU_ALPHA * math.expm1(x)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
}
SLOPES = [
    ("keras_layers", "leaky_relu", 0.2),
    ("keras_layers", "LeakyReLU_layer", 0.3),
    ("torch_layers", "leaky_relu", 0.01),
]


@pytest.mark.parametrize("topic", ["keras_layers", "torch_layers"])
@pytest.mark.parametrize("name", CLOSED)
def test_activations(reference: Any, topic: str, name: str) -> None:
    grid = reference(topic)["activations"]
    assert grid[name] == pytest.approx([CLOSED[name](x) for x in grid["x"]], abs=1e-14)


@pytest.mark.parametrize(("topic", "name", "slope"), SLOPES)
def test_leaky_slopes(reference: Any, topic: str, name: str, slope: float) -> None:
    grid = reference(topic)["activations"]
    assert grid[name] == pytest.approx([x if x > 0 else slope * x for x in grid["x"]], abs=1e-14)


@pytest.mark.parametrize("layer", ["dense_784_300", "conv_3x3_64_128"])
@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("Glorot", lambda fan_in, fan_out: 2 / (fan_in + fan_out)),
        ("He", lambda fan_in, fan_out: 2 / fan_in),
        ("Lecun", lambda fan_in, fan_out: 1 / fan_in),
    ],
)
def test_keras_initialisers(reference: Any, layer: str, name: str, variance: Callable[[int, int], float]) -> None:
    drawn = reference("keras_layers")["initialisers"][layer]
    *kernel, inputs, outputs = drawn["shape"]
    std = math.sqrt(variance(inputs * math.prod(kernel), outputs * math.prod(kernel)))
    uniform, normal = drawn[f"{name}Uniform"], drawn[f"{name}Normal"]
    # Over 70,000 draws each, so the standard deviation is known to about 0.3 %.
    assert uniform["std"] == pytest.approx(std, rel=0.01)
    assert normal["std"] == pytest.approx(std, rel=0.01)
    assert 0.999 < uniform["largest"] / (math.sqrt(3) * std) <= 1
    # A normal cut at two of its own deviations keeps 0.8796 of them; Keras widens it beforehand. On the torch
    # backend it draws four times at most, so about one value in 230,000 escapes the cut (here two do).
    bound = 2 * std / 0.87962566103423978
    assert 0.999 < normal["largest"] / bound <= (1 if layer == "conv_3x3_64_128" else 1.3)


def test_default_initialisers_differ_by_a_factor_of_two(reference: Any) -> None:
    keras = reference("keras_layers")["initialisers"]
    linear = reference("torch_layers")["initialisers"]["linear_784_300"]
    assert keras["dense_default"] == {"bias_largest": 0.0, "kernel_initializer": "GlorotUniform"}
    assert linear["weight"]["std"] == pytest.approx(1 / math.sqrt(3 * 784), rel=0.01)
    assert keras["dense_784_300"]["GlorotUniform"]["std"] / linear["weight"]["std"] == pytest.approx(2.08, abs=0.01)


@pytest.mark.parametrize(("layer", "fan_in"), [("linear_784_300", 784), ("conv_64_128_3x3", 64 * 9)])
def test_torch_draws_weight_and_bias_within_the_root_of_the_fan_in(reference: Any, layer: str, fan_in: int) -> None:
    drawn = reference("torch_layers")["initialisers"][layer]
    limit = 1 / math.sqrt(fan_in)
    # Over 70,000 weights, but only 300 or 128 biases.
    assert drawn["weight"]["std"] == pytest.approx(limit / math.sqrt(3), rel=0.005)
    assert 0.9999 < drawn["weight"]["largest"] / limit <= 1
    assert drawn["bias"]["std"] == pytest.approx(limit / math.sqrt(3), rel=0.1)
    assert 0.98 < drawn["bias"]["largest"] / limit <= 1


def test_batch_norm_after_ten_batches_of_mean_five(reference: Any) -> None:
    keras, torch_ = (reference(topic)["batch_norm"] for topic in ("keras_layers", "torch_layers"))
    after = np.arange(1, 11)
    # The batch is 3 and 7: biased variance 4, unbiased 8.
    expected = {
        "moving_mean": 5 * (1 - 0.99**after),
        "moving_variance": 4 - 3 * 0.99**after,
        "running_mean": 5 * (1 - 0.9**after),
        "running_var": 8 - 7 * 0.9**after,
    }
    for name, values in {**keras["constant_batches"], **torch_["constant_batches"]}.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-6, err_msg=name)
    assert round(keras["constant_batches"]["moving_mean"][-1], 2) == 0.48
    assert round(torch_["constant_batches"]["running_mean"][-1], 2) == 3.26


def test_frozen_batch_norm_moves_in_torch_only(reference: Any) -> None:
    assert reference("keras_layers")["batch_norm"]["frozen"] == {
        "moving_mean": [0.0] * 10,
        "moving_variance": [1.0] * 10,
    }
    torch_ = reference("torch_layers")["batch_norm"]
    assert torch_["frozen"] == torch_["constant_batches"]


@pytest.mark.parametrize(
    ("topic", "keys", "keep", "correction"),
    [
        ("keras_layers", ("moving_mean", "moving_variance"), 0.99, 0),
        ("torch_layers", ("running_mean", "running_var"), 0.9, 1),
    ],
)
def test_batch_norm_by_its_recursion(
    reference: Any, topic: str, keys: tuple[str, str], keep: float, correction: int
) -> None:
    entry = reference(topic)["batch_norm"]
    mean_key, variance_key = keys
    # Keras keeps this share of the old value, torch takes the other of the new one.
    assert entry["momentum"] == pytest.approx(keep if topic == "keras_layers" else 1 - keep)
    mean, variance = 0.0, 1.0
    varying = entry["varying_batches"]
    for batch, seen_mean, seen_variance in zip(
        varying["batches"], varying[mean_key], varying[variance_key], strict=True
    ):
        mean = keep * mean + (1 - keep) * float(np.mean(batch))
        variance = keep * variance + (1 - keep) * float(np.var(batch, ddof=correction))
        assert (seen_mean, seen_variance) == pytest.approx((mean, variance), rel=1e-6)
    constant = entry["constant_batches"]
    at_one = (1 - constant[mean_key][-1]) / math.sqrt(constant[variance_key][-1] + entry["epsilon"])
    assert entry["inference_at_1"] == pytest.approx(at_one, rel=1e-6)


@pytest.mark.parametrize("topic", ["keras_layers", "torch_layers"])
def test_dropout_scaling(reference: Any, topic: str) -> None:
    dropout = reference(topic)["dropout"]
    keep = 1 - dropout["rate"]
    assert dropout["dropout_of_ones"] == [0.0, 1 / keep]
    assert dropout["dropout_of_ones_inference"] == [1.0]
    # Klambauer et al. 2017: dropped units become α′ = −λα; a and b restore mean 0 and variance 1.
    alpha = -SELU_SCALE * SELU_ALPHA
    a = (keep + alpha**2 * keep * (1 - keep)) ** -0.5
    b = -a * (1 - keep) * alpha
    assert dropout["alpha_dropout_of_zeros"] == pytest.approx([a * alpha + b, b], rel=1e-6)
    assert dropout["alpha_dropout_of_ones"] == pytest.approx([a * alpha + b, a + b], rel=1e-6)


def _flat(parts: list[list[float]]) -> list[float]:
    return [value for part in parts for value in part]


def test_clipping(reference: Any) -> None:
    keras, torch_ = (reference(topic)["clipping"] for topic in ("keras_layers", "torch_layers"))
    assert torch_["gradients"] == keras["gradients"]
    assert torch_["limit"] == keras["limit"] == 1.0
    first, second = (np.array(gradient) for gradient in keras["gradients"])
    whole = math.hypot(*first, *second)
    assert _flat(keras["clipvalue"]) == _flat(torch_["clip_grad_value_"]) == [0.9, 1.0, 1.0]
    assert _flat(keras["clipnorm"]) == pytest.approx([*(first / math.hypot(*first)), 1.0], rel=1e-7)
    assert _flat(keras["global_clipnorm"]) == pytest.approx([*first / whole, *second / whole], rel=1e-7)
    # torch adds 1e-6 to the norm it divides by.
    shrunk = whole + 1e-6
    assert _flat(torch_["clip_grad_norm_"]) == pytest.approx([*first / shrunk, *second / shrunk], rel=1e-12)
    assert keras["clipnorm"][0] == pytest.approx([0.00899964, 0.9999595], abs=2e-8)
    assert _flat(torch_["clip_grad_norm_of_first"]) == pytest.approx(first / (math.hypot(*first) + 1e-6), rel=1e-12)


def _keras_cuts(losses: list[float], patience: int, cooldown: int = 0) -> list[int]:
    """A cut once ``patience`` bad epochs have passed; an epoch that ends the cooldown already counts as bad."""
    best, bad, rest, cuts = math.inf, 0, 0, []
    for epoch, loss in enumerate(losses, start=1):
        if rest:
            rest, bad = rest - 1, 0
        if loss < best - 1e-4:
            best, bad = loss, 0
        elif not rest:
            bad += 1
            if bad >= patience:
                cuts.append(epoch)
                rest, bad = cooldown, 0
    return cuts


def _torch_cuts(losses: list[float], patience: int, cooldown: int = 0, relative: bool = True) -> list[int]:
    """A cut in the bad epoch after ``patience`` bad ones; epochs of the cooldown never count as bad."""
    best, bad, rest, cuts = math.inf, 0, 0, []
    for epoch, loss in enumerate(losses, start=1):
        bar = best * (1 - 1e-4) if relative else best - 1e-4
        if loss < bar:
            best, bad = loss, 0
        else:
            bad += 1
        if rest:
            rest, bad = rest - 1, 0
        if bad > patience:
            cuts.append(epoch)
            rest, bad = cooldown, 0
    return cuts


def test_plateau_epochs(reference: Any) -> None:
    keras, torch_ = (reference(topic)["plateau"] for topic in ("keras_layers", "torch_layers"))
    flat, slow, small = keras["flat"], keras["slow"], keras["small"]
    assert (torch_["flat"], torch_["slow"], torch_["small"]) == (flat, slow, small)
    assert keras["cuts_after_epoch"] == {
        "flat_patience_2": _keras_cuts(flat, 2),
        "flat_patience_2_cooldown_2": _keras_cuts(flat, 2, cooldown=2),
        "slow_patience_2": _keras_cuts(slow, 2),
        "small_patience_1": _keras_cuts(small, 1),
    }
    assert torch_["cuts_after_epoch"] == {
        "flat_patience_2": _torch_cuts(flat, 2),
        "flat_patience_2_cooldown_2": _torch_cuts(flat, 2, cooldown=2),
        "slow_patience_2": _torch_cuts(slow, 2),
        "small_patience_1": _torch_cuts(small, 1),
        "small_patience_1_absolute": _torch_cuts(small, 1, relative=False),
    }
    assert (keras["cuts_after_epoch"]["flat_patience_2"][:3], torch_["cuts_after_epoch"]["flat_patience_2"][:2]) == (
        [3, 5, 7],
        [4, 7],
    )


def test_early_stopping_epochs(reference: Any) -> None:
    """Keras stops ``patience`` epochs after the best so far, and at the first bad one if patience is 0."""
    entry = reference("keras_layers")["early_stopping"]
    losses = entry["losses"]
    for name, stopped in entry["stops_after_epoch"].items():
        patience = max(int(name.removeprefix("patience_")), 1)
        expected = next(
            epoch for epoch in range(1, len(losses) + 1) if epoch - np.argmin(losses[:epoch]) - 1 >= patience
        )
        assert stopped == expected, name


def _cosine(fraction: float) -> float:
    return (1 + math.cos(math.pi * fraction)) / 2


def _one_cycle(step: int, total: int = 101, top: float = 0.1) -> float:
    start, peak, last = top / 25, 0.3 * total - 1, total - 1
    if step <= peak:
        return top + (start - top) * _cosine(step / peak)
    end = start / 1e4
    return end + (top - end) * _cosine((step - peak) / (last - peak))


SCHEDULES: dict[tuple[str, str], Callable[[int], float]] = {
    ("keras_layers", "cosine_100"): lambda t: 0.1 * _cosine(t / 100),
    ("keras_layers", "cosine_100_after_warmup_10"): lambda t: t / 100 if t < 10 else 0.1 * _cosine((t - 10) / 100),
    ("keras_layers", "exponential_0.1_per_20"): lambda t: 0.1 * 0.1 ** (t / 20),
    ("keras_layers", "inverse_time_20"): lambda t: 0.1 / (1 + t / 20),
    # Keras still has the old rate at the boundary itself, torch already has the new one.
    ("keras_layers", "piecewise_10_20"): lambda t: 0.1 if t <= 10 else 0.01 if t <= 20 else 0.001,
    ("torch_layers", "cosine_100"): lambda t: 0.1 * _cosine(t / 100),
    ("torch_layers", "exponential_0.1_per_20"): lambda t: 0.1 * 0.1 ** (t / 20),
    ("torch_layers", "multistep_10_20"): lambda t: 0.1 if t < 10 else 0.01 if t < 20 else 0.001,
    ("torch_layers", "one_cycle_100"): _one_cycle,
}


@pytest.mark.parametrize(("topic", "name"), SCHEDULES)
def test_schedules(reference: Any, topic: str, name: str) -> None:
    entry = reference(topic)["schedules"]
    expected = [SCHEDULES[topic, name](step) for step in entry["steps"]]
    assert entry["rates"][name] == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_every_schedule_is_checked(reference: Any) -> None:
    found = {(t, n) for t in ("keras_layers", "torch_layers") for n in reference(t)["schedules"]["rates"]}
    assert found == set(SCHEDULES)


def test_torch_here_gives_the_same(reference: Any) -> None:
    entry = reference("torch_layers")
    x = torch.tensor(entry["activations"]["x"], dtype=torch.float64)
    assert torch.nn.functional.selu(x).tolist() == pytest.approx(entry["activations"]["selu"], rel=1e-14)
    layer = torch.nn.BatchNorm1d(1, dtype=torch.float64)
    for batch in entry["batch_norm"]["varying_batches"]["batches"]:
        layer(torch.tensor(batch, dtype=torch.float64)[:, None])
    assert layer.running_var.item() == pytest.approx(entry["batch_norm"]["varying_batches"]["running_var"][-1])
