from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

from weightsmith.core.errors import DataMismatch
from weightsmith.networks import mlp
from weightsmith.networks.models.dropout import Dropout, reseed_dropout
from weightsmith.training.engines import choice
from weightsmith.training.engines.choice import AutogradEngine, DenseEngine, engine_for
from weightsmith.training.engines.flat import Flat
from weightsmith.training.losses import CrossEntropy, SquaredError

X = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def convolutional() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3))


@pytest.mark.parametrize(
    "loss", [CrossEntropy(0.2), SquaredError("softmax"), F.cross_entropy], ids=["smoothed", "squared", "a function"]
)
def test_autograd_leaves_the_gradient_of_this_batch_alone_in_the_vector(loss):
    network = convolutional()
    plain = copy.deepcopy(network)
    flat = Flat(network)
    engine = AutogradEngine(network, loss, flat)
    for rows in (slice(0, 6), slice(1, 4)):
        flat.gradient.fill_(5)
        value, scores = engine(X[rows], Y[rows])
        expected_scores = plain(X[rows])
        expected = loss(expected_scores, Y[rows])
        gradients = torch.autograd.grad(expected, list(plain.parameters()))
        assert torch.equal(value, expected.detach())
        assert torch.equal(scores, expected_scores.detach())
        assert not value.requires_grad
        assert not scores.requires_grad
        for ours, theirs in zip(flat.gradients, gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def test_a_tied_weight_gets_the_sum_of_both_gradients():
    network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    network[2].weight = network[0].weight
    x, y = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 3, 0])
    one, two = (network[0].weight.detach().clone().requires_grad_() for _ in range(2))
    expected = torch.autograd.grad(F.cross_entropy(torch.tanh(x @ one.t()) @ two.t(), y), (one, two))
    flat = Flat(network)
    engine_for(network, CrossEntropy(), flat)(x, y)
    torch.testing.assert_close(flat.gradients[0], expected[0] + expected[1])


def test_the_dense_engine_is_chosen_where_it_applies_and_only_there():
    plain, normed = mlp(7, 6, 4), mlp(7, 6, 4, batch_norm="before")
    assert isinstance(engine_for(plain, CrossEntropy(), Flat(plain)), DenseEngine)
    assert isinstance(engine_for(normed, CrossEntropy(), Flat(normed)), AutogradEngine)


@pytest.mark.parametrize(
    ("network", "given"),
    [
        (nn.Conv2d(3, 5, 3), r"\(6, 5, 2, 2\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(48, 1), nn.Flatten(0)), r"\(6,\)"),
        (nn.Sequential(nn.Flatten(), nn.GRU(48, 3)), "tuple"),
    ],
)
def test_what_is_not_one_score_per_class_is_refused(network, given):
    engine = AutogradEngine(network, CrossEntropy(), Flat(network))
    with pytest.raises(DataMismatch, match=f"the network gives {given}, not one score per class"):
        engine(X, Y)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "leaky": nn.LeakyReLU,
    "leaky 0.3": lambda: nn.LeakyReLU(0.3, inplace=True),
    "leaky 0": lambda: nn.LeakyReLU(0.0),
    "elu": nn.ELU,
    "elu 0.5": lambda: nn.ELU(0.5),
    "selu": nn.SELU,
    "none": lambda: None,  # type: ignore[dict-item,return-value]
}


def softplus_margin(scores: Tensor, labels: Tensor) -> Tensor:
    """A loss of the user's own."""
    signs = 2 * F.one_hot(labels, scores.shape[1]) - 1
    return F.softplus(-signs * scores).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": CrossEntropy(),
    "smoothed": CrossEntropy(0.1),
    "squared": SquaredError(),
    "squared of sigmoid": SquaredError("sigmoid"),
    "callable": softplus_margin,
    "torch's module": nn.CrossEntropyLoss(),
}


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def filled(network: nn.Module, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    """The network with random weights and biases of about unit size."""
    network.to(dtype)
    for value in network.parameters():
        value.data = torch.randn(value.shape, generator=drawn(seed), dtype=dtype) / max(1, value.shape[-1]) ** 0.5
    return network.train()


def stack(
    activation: Callable[[], nn.Module | None], *, bias: bool = True, widths: tuple[int, ...] = (7, 6, 5, 4)
) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs, bias=bias), *([made] if (made := activation()) else [])]
    return nn.Sequential(*layers[: -1 if activation() else None])


def by_autograd(network: nn.Module, loss: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    scores = network(x)
    value = loss(scores, y)
    return value.detach(), scores.detach(), list(torch.autograd.grad(value, list(network.parameters())))


def compare(network: nn.Module, loss: Any, batches: list[tuple[Tensor, Tensor]], rtol: float, atol: float) -> None:
    """Loss, scores and gradients of the engine against autograd's, batch after batch with the same engine."""
    reference = copy.deepcopy(network)
    flat = Flat(network)
    engine = DenseEngine.of(network, loss, flat)
    assert engine is not None
    for number, (x, y) in enumerate(batches):
        reseed_dropout(reference, drawn(number))
        expected_loss, expected_scores, expected = by_autograd(reference, loss, x, y)
        reseed_dropout(network, drawn(number))
        flat.gradient.fill_(7)  # what an earlier step left must not show
        kept = x.clone()
        value, scores = engine(x, y)
        assert torch.equal(x, kept)
        assert not value.requires_grad
        assert not scores.requires_grad
        torch.testing.assert_close(value, expected_loss, rtol=rtol, atol=atol)
        torch.testing.assert_close(scores, expected_scores, rtol=rtol, atol=atol)
        for ours, theirs in zip(flat.gradients, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)


def batch(
    rows: int, features: int, classes: int, dtype: torch.dtype = torch.float64, seed: int = 1
) -> tuple[Tensor, Tensor]:
    generator = drawn(seed)
    x = torch.randn(rows, features, generator=generator, dtype=dtype)
    return x, torch.randint(0, classes, (rows,), generator=generator)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_as_autograd_in_double_precision(name, bias):
    network = filled(stack(ACTIVATIONS[name], bias=bias))
    compare(network, CrossEntropy(), [batch(9, 7, 4)], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_as_autograd_in_single_precision(name):
    network = filled(stack(ACTIVATIONS[name], widths=(40, 30, 20, 10)), torch.float32)
    compare(network, CrossEntropy(), [batch(32, 40, 10, torch.float32)], rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_as_autograd(name):
    compare(filled(stack(nn.Tanh)), LOSSES[name], [batch(9, 7, 4)], rtol=1e-12, atol=1e-12)


def test_the_gradient_is_that_of_differences():
    """Without autograd: central differences of the loss in double precision."""
    network = filled(stack(nn.ELU, widths=(3, 4, 2)))
    x, y = batch(5, 3, 2)
    flat = Flat(network)
    engine = DenseEngine.of(network, CrossEntropy(), flat)
    assert engine is not None
    engine(x, y)
    gradient, step = flat.gradient.clone(), 1e-6
    differences = torch.zeros_like(gradient)
    for index in range(len(gradient)):
        for sign in (1, -1):
            flat.parameter.data[index] += sign * step
            differences[index] += sign * F.cross_entropy(network(x), y).item() / (2 * step)
            flat.parameter.data[index] -= sign * step
    used = torch.cat([value.data.reshape(-1) for value in flat.values]).numel()
    assert int((differences != 0).sum()) <= used
    torch.testing.assert_close(gradient, differences, rtol=1e-6, atol=1e-8)


def test_batches_of_other_sizes_in_a_row():
    rows = [8, 3, 1, 20, 19, 8]
    batches = [batch(count, 7, 4, seed=number) for number, count in enumerate(rows)]
    compare(filled(stack(nn.ReLU)), CrossEntropy(), batches, rtol=1e-12, atol=1e-12)
    compare(filled(stack(nn.SELU)), SquaredError(), batches, rtol=1e-12, atol=1e-12)


def test_room_is_held_for_no_more_than_the_two_lengths_of_an_epoch():
    network = filled(stack(nn.ReLU))
    engine = DenseEngine.of(network, CrossEntropy(), Flat(network))
    assert engine is not None
    for rows in range(1, 30):
        engine(*batch(rows, 7, 4))
        assert len(engine._buffers) <= 2


@pytest.mark.parametrize("kind", ["inverted", "after"])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
def test_dropout_with_the_same_generator_as_autograd(kind, rate):
    layers = [
        nn.Flatten(),
        Dropout(rate, kind),
        nn.Linear(7, 9),
        nn.Tanh(),
        Dropout(rate, kind),
        nn.Linear(9, 8),
        Dropout(rate, kind),  # no activation before it
        nn.Linear(8, 4),
    ]
    batches = [batch(count, 7, 4, seed=count) for count in (6, 11, 2)]
    compare(filled(nn.Sequential(*layers)), CrossEntropy(), batches, rtol=1e-12, atol=1e-12)


def test_dropout_before_the_images_are_flattened():
    network = filled(nn.Sequential(Dropout(0.4), nn.Flatten(), nn.Linear(12, 4)))
    x = torch.randn(5, 3, 2, 2, generator=drawn(), dtype=torch.float64)
    compare(network, CrossEntropy(), [(x, torch.tensor([0, 1, 2, 3, 0]))], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"activation": "selu"}, {"activation": "leaky-relu:0.2", "dropout": 0.5}, {"bias": False}]
)
def test_our_own_networks_are_taken(options):
    network = filled(mlp(7, 6, 5, 4, **options))
    compare(network, CrossEntropy(), [batch(9, 7, 4)], rtol=1e-12, atol=1e-12)


def test_an_activation_behind_the_output_belongs_to_the_network():
    network = filled(nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 4), nn.Sigmoid()))
    for loss in (SquaredError(), CrossEntropy()):
        compare(copy.deepcopy(network), loss, [batch(9, 7, 4)], rtol=1e-12, atol=1e-12)


def test_scores_that_are_not_finite_show_in_the_loss():
    network = filled(stack(nn.ReLU), torch.float32)
    flat = Flat(network)
    engine = DenseEngine.of(network, CrossEntropy(), flat)
    assert engine is not None
    flat.parameter.data.mul_(1e30)
    loss, _ = engine(*batch(9, 7, 4, torch.float32))
    assert not bool(torch.isfinite(loss))


layer_kinds = st.sampled_from([name for name in ACTIVATIONS if name != "none"])


@st.composite
def stacks(draw: Any) -> tuple[nn.Sequential, int, int]:
    """Random plain stacks: widths, bias, activation and dropout of each layer drawn on their own."""
    widths = draw(st.lists(st.integers(1, 9), min_size=2, max_size=5))
    rate = st.sampled_from([0.0, 0.25, 0.8])
    kind = st.sampled_from(["inverted", "after"])
    layers: list[nn.Module] = [Dropout(draw(rate), draw(kind))] if draw(st.booleans()) else []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        layers.append(nn.Linear(inputs, outputs, bias=draw(st.booleans())))
        if draw(st.booleans()):
            layers.append(ACTIVATIONS[draw(layer_kinds)]())
        if index < len(widths) - 2 and draw(st.booleans()):
            layers.append(Dropout(draw(rate), draw(kind)))
    return nn.Sequential(*layers), widths[0], widths[-1]


@settings(max_examples=60, deadline=None)
@given(
    stacks(), st.lists(st.integers(1, 12), min_size=1, max_size=3), st.sampled_from(list(LOSSES)), st.integers(0, 99)
)
def test_random_stacks_as_autograd(made, rows, loss, seed):
    network, features, classes = made
    batches = [batch(count, features, classes, seed=seed + number) for number, count in enumerate(rows)]
    compare(filled(network, seed=seed), LOSSES[loss], batches, rtol=1e-11, atol=1e-11)


# what must be left to autograd


class Louder(nn.ReLU):
    def forward(self, values: Tensor) -> Tensor:
        return 2 * super().forward(values)


class OwnLinear(nn.Linear):
    def forward(self, values: Tensor) -> Tensor:
        return super().forward(values) + 1


class OwnSequential(nn.Sequential):
    def forward(self, values: Tensor) -> Tensor:
        return super().forward(values) + 1


class OwnDropout(Dropout):
    pass


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, values: Tensor) -> Tensor:
        return values + self.inner(values)


def around(*middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(7, 6), *middle, nn.Linear(6, 4))


def tied() -> nn.Sequential:
    network = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    network[4].weight = network[2].weight
    return network


def used_twice() -> nn.Sequential:
    shared = nn.Linear(6, 6)
    return nn.Sequential(nn.Linear(7, 6), shared, nn.ReLU(), shared)


def with_frozen(name: str) -> nn.Sequential:
    network = around(nn.ReLU())
    network.get_parameter(name).requires_grad_(False)
    return network


def patched() -> nn.Sequential:
    network = around(nn.ReLU())
    network[1].forward = lambda values: values + 1  # type: ignore[method-assign]
    return network


def listened_to(register: str, module: int | None = 1) -> nn.Sequential:
    network = around(nn.ReLU())
    getattr(network if module is None else network[module], register)(lambda *_: None)
    return network


def changed(change: Callable[[nn.Module], Any]) -> nn.Sequential:
    network = around(nn.ReLU())
    change(network[0])
    return network


REFUSED: dict[str, Callable[[], nn.Module]] = {
    "an activation of a derived class": lambda: around(Louder()),
    "a linear layer of a derived class": lambda: nn.Sequential(OwnLinear(7, 4)),
    "a Sequential of a derived class": lambda: OwnSequential(nn.Linear(7, 4)),
    "a dropout of a derived class": lambda: around(OwnDropout(0.1)),
    "a module that is no Sequential": lambda: nn.Linear(7, 4),
    "an unknown activation": lambda: around(nn.GELU()),
    "an activation with weights": lambda: around(nn.PReLU()),
    "a relative of ReLU": lambda: around(nn.ReLU6()),
    "a relative of ELU": lambda: around(nn.CELU()),
    "a leaky ReLU with a falling side": lambda: around(nn.LeakyReLU(-0.1)),
    "an ELU with a falling side": lambda: around(nn.ELU(-0.1)),
    "softmax": lambda: around(nn.Softmax(1)),
    "batch norm": lambda: around(nn.BatchNorm1d(6)),
    "layer norm": lambda: around(nn.LayerNorm(6)),
    "batch norm of ours": lambda: mlp(7, 6, 4, batch_norm="after", statistics="seed"),
    "alpha dropout of ours": lambda: mlp(7, 6, 4, activation="selu", dropout=0.2),
    "alpha dropout of torch": lambda: around(nn.AlphaDropout(0.2)),
    "dropout of torch": lambda: around(nn.Dropout(0.2)),
    "dropout on the output": lambda: nn.Sequential(nn.Linear(7, 4), Dropout(0.2)),
    "dropout twice in a row": lambda: around(Dropout(0.2), Dropout(0.2)),
    "dropout twice on the input": lambda: nn.Sequential(Dropout(0.2), Dropout(0.2), nn.Linear(7, 4)),
    "an activation after dropout": lambda: around(Dropout(0.2), nn.ReLU()),
    "two activations in a row": lambda: around(nn.ReLU(), nn.Tanh()),
    "an activation on the input": lambda: nn.Sequential(nn.ReLU(), nn.Linear(7, 4)),
    "a flatten in the middle": lambda: around(nn.Flatten()),
    "a flatten of other dimensions": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(7, 4)),
    "identity": lambda: around(nn.Identity()),
    "a nested Sequential": lambda: around(nn.Sequential(nn.ReLU())),
    "a residual module": lambda: around(Residual()),
    "a convolution": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4)),
    "bilinear": lambda: nn.Sequential(nn.Bilinear(7, 7, 4)),
    "tied weights": tied,
    "a layer used twice": used_twice,
    "a frozen weight": lambda: with_frozen("0.weight"),
    "a frozen bias": lambda: with_frozen("2.bias"),
    "a forward hook": lambda: listened_to("register_forward_hook"),
    "a forward hook on the whole": lambda: listened_to("register_forward_hook", None),
    "a forward pre-hook": lambda: listened_to("register_forward_pre_hook", 0),
    "a backward hook": lambda: listened_to("register_full_backward_hook"),
    "a backward pre-hook": lambda: listened_to("register_full_backward_pre_hook", 2),
    "a patched module": patched,
    "a parametrisation": lambda: changed(parametrizations.weight_norm),
    "spectral norm": lambda: changed(parametrizations.spectral_norm),
    "torch's pruning": lambda: changed(lambda layer: prune.l1_unstructured(layer, "weight", 0.5)),
    "half precision": lambda: around(nn.ReLU()).half(),
    "bfloat16": lambda: around(nn.ReLU()).bfloat16(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_left_to_autograd(name):
    network = REFUSED[name]()
    assert DenseEngine.of(network, CrossEntropy(), Flat(network)) is None


@pytest.mark.parametrize("onednn", [False, True])
def test_a_large_product_is_the_same_by_either_library(onednn, monkeypatch):
    asked = []
    monkeypatch.setattr(choice, "_prefers_onednn", lambda device: asked.append(device) or onednn)
    generator = torch.Generator().manual_seed(0)
    left, right, bias = (torch.randn(shape, generator=generator) for shape in ((300, 128), (90, 128), (90,)))
    for first, second, shift in ((left, right.t(), bias), (left.t(), left, None), (left[:2], right.t(), bias)):
        out = first.new_empty(len(first), second.shape[1])
        choice._multiply(first, second, out, shift)
        exact = first.double() @ second.double() + (0 if shift is None else shift.double())
        torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-4)
    assert asked == ["cpu", "cpu"]  # the third is small


@pytest.mark.parametrize(
    ("maker", "level", "expected"),
    [("AuthenticAMD", "AVX512", True), ("GenuineIntel", "AVX512", False), ("AuthenticAMD", "AVX2", False)],
)
def test_onednn_is_preferred_where_mkl_keeps_to_narrower_vectors(maker, level, expected, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"vendor_id\t: {maker}\n")
    monkeypatch.setattr(choice, "Path", lambda _: tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: level)
    assert choice._prefers_onednn.__wrapped__("cpu") is expected
    assert choice._prefers_onednn.__wrapped__("cuda") is False
