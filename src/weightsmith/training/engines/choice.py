"""The gradient of one batch: by autograd for any network, by the dense engine for plain dense ones."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch
from weightsmith.networks.models.dropout import Dropout
from weightsmith.training.engines.flat import Flat
from weightsmith.training.engines.pooling import has_hooks, pooled_first
from weightsmith.training.losses import CrossEntropy, LossFunction, by_row

__all__ = ["AutogradEngine", "DenseEngine", "Engine", "LossFunction", "Outcome", "engine_for"]


class Outcome(NamedTuple):
    """The result of a batch: the loss (mean over its images) and the scores (image × class), detached."""

    loss: Tensor
    scores: Tensor


class Engine(Protocol):
    """Called with inputs and targets, it leaves the gradient of the mean loss in the flat gradient.

    With ``weights`` the loss of each row is multiplied by its weight before the mean is taken.
    """

    def __call__(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The loss and the scores."""


def _mean_loss(loss: LossFunction, scores: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    return loss(scores, y) if weights is None else (by_row(loss)(scores, y) * weights).mean()


class AutogradEngine:
    """Any network, any loss: torch's autograd."""

    def __init__(self, network: Callable[[Tensor], Any], loss: LossFunction, flat: Flat) -> None:
        self._network, self._loss, self._flat = network, loss, flat

    def __call__(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Forward, backward; the gradients are added up into the flat vector, which is cleared first."""
        self._flat.gradient.zero_()
        scores = self._network(x)
        if not isinstance(scores, Tensor) or scores.dim() != 2:
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise DataMismatch(f"the network gives {shape}, not one score per class (images × classes)")
        loss = _mean_loss(self._loss, scores, y, weights)
        torch.autograd.backward(loss)
        return Outcome(loss.detach(), scores.detach())


def engine_for(network: nn.Module, loss: LossFunction, flat: Flat) -> Engine:
    """The dense engine where it applies (its results are those of autograd, faster), else autograd."""
    return DenseEngine.of(network, loss, flat) or AutogradEngine(pooled_first(network), loss, flat)


# Hand-written backpropagation for plain dense networks: eqs. 6 to 9 of the slides (seed 002), without a graph.
#
# With inputs a⁰ = x, net inputs nᵏ = aᵏ⁻¹Wᵏᵀ + bᵏ and activations aᵏ = f(nᵏ),
#
#     sˡ = ∂L/∂nˡ                                  from the loss
#     sᵏ = (sᵏ⁺¹ Wᵏ⁺¹) ⊙ f'(nᵏ)                     eq. 8
#     ∂L/∂Wᵏ = sᵏᵀ aᵏ⁻¹,   ∂L/∂bᵏ = Σ_images sᵏ      eq. 9
#
# For networks of a few hundred units and batches of a few dozen images most of autograd's time is bookkeeping. Here
# the products go straight into reused buffers and into the flat gradient; f' is computed by torch's own kernels from
# aᵏ, so the numbers are those of autograd. Anything but a plain stack of known layers is left to autograd.


_aten = torch.ops.aten
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

# Each activation: computed in place on the net input, and its derivative times g, in place on g, from its result a.
_Forward = Callable[[Tensor], Any]
_Backward = Callable[[Tensor, Tensor], Any]


def _kernels(module: nn.Module) -> tuple[_Forward, _Backward] | None:
    """The two kernels of an activation module; None for an unknown one or a subclass of a known one."""
    if type(module) not in (nn.ReLU, nn.Sigmoid, nn.Tanh, nn.LeakyReLU, nn.ELU, nn.SELU):
        return None
    match module:
        case nn.ReLU():
            return torch.relu_, lambda g, a: _aten.threshold_backward.grad_input(g, a, 0, grad_input=g)
        case nn.Sigmoid():
            return torch.sigmoid_, lambda g, a: _aten.sigmoid_backward.grad_input(g, a, grad_input=g)
        case nn.Tanh():
            return torch.tanh_, lambda g, a: _aten.tanh_backward.grad_input(g, a, grad_input=g)
        case nn.LeakyReLU(negative_slope=slope) if slope >= 0:
            return (
                lambda n: nn.functional.leaky_relu_(n, slope),
                lambda g, a: _aten.leaky_relu_backward.grad_input(g, a, slope, True, grad_input=g),
            )
        case nn.ELU(alpha=alpha) if alpha >= 0:
            return (
                lambda n: nn.functional.elu_(n, alpha),
                lambda g, a: _aten.elu_backward.grad_input(g, alpha, 1, 1, True, a, grad_input=g),
            )
        case nn.SELU():
            return (
                nn.functional.selu_,
                lambda g, a: _aten.elu_backward.grad_input(g, _SELU_ALPHA, _SELU_SCALE, 1, True, a, grad_input=g),
            )
    return None


@dataclasses.dataclass
class _Layer:
    """A dense layer with the activation and the dropout behind it."""

    linear: nn.Linear
    forward: _Forward | None = None
    backward: _Backward | None = None
    dropout: Dropout | None = None


class _LayerBuffers:
    """The buffers and views of one layer for batches of ``rows``, made once, not in every step."""

    def __init__(self, layer: _Layer, rows: int) -> None:
        linear, bias = layer.linear, dict(layer.linear.named_parameters()).get("bias")
        self.weight = linear.weight.detach()
        self.transposed = self.weight.t()
        self.bias = None if bias is None else bias.detach()
        self.weight_gradient, self.bias_gradient = linear.weight.grad, None if bias is None else bias.grad
        self.forward, self.backward = layer.forward, layer.backward
        self.activation = self.weight.new_empty((rows, linear.out_features))
        self.sensitivity = torch.empty_like(self.activation)
        self.sensitivity_transposed = self.sensitivity.t()
        self.dropout = layer.dropout if layer.dropout is not None and layer.dropout.rate else None
        drops = self.dropout is not None
        self.kept = torch.empty_like(self.activation) if drops else self.activation
        self.leaving = torch.empty_like(self.activation) if drops else self.activation


class DenseEngine:
    """The gradient of a plain dense network; made by :meth:`of`, which returns None where it does not apply."""

    def __init__(self, layers: list[_Layer], entry: Dropout | None, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._layers, self._entry, self._loss = layers, entry, loss
        self._plain = type(loss) is CrossEntropy and not loss.smoothing
        self._buffers: dict[int, tuple[list[_LayerBuffers], Tensor]] = {}

    @classmethod
    def of(cls, network: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], flat: Flat) -> DenseEngine | None:
        """The engine for ``network`` if it is a plain stack, all of it trainable and without hooks."""
        if type(network) is not nn.Sequential or any(has_hooks(module) for module in network.modules()):
            return None
        if flat.parameter.dtype not in (torch.float32, torch.float64):
            return None
        stack = _read(list(network))
        if stack is None:
            return None
        layers, entry = stack
        owned = {id(value) for value in flat.values}
        parameters = [value for layer in layers for value in layer.linear.parameters()]
        if len({id(value) for value in parameters}) != len(parameters) or {id(value) for value in parameters} != owned:
            return None
        return cls(layers, entry, loss)

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Forward and backward; the gradient is in the parameters' ``grad`` afterwards."""
        inputs = x.flatten(1)
        if self._entry is not None:
            inputs = self._entry(inputs)
        buffers, minus_one = self._buffers_for(len(inputs))
        _forward(buffers, inputs)
        loss = self._at_the_output(buffers[-1], y, minus_one, weights)
        _backward(buffers, inputs)
        return loss, buffers[-1].activation

    def _buffers_for(self, rows: int) -> tuple[list[_LayerBuffers], Tensor]:
        """The buffers for batches of this length; an epoch has two lengths at most, a third replaces them."""
        if rows not in self._buffers:
            if len(self._buffers) > 1:
                self._buffers.clear()
            buffers = [_LayerBuffers(layer, rows) for layer in self._layers]
            self._buffers[rows] = buffers, buffers[0].weight.new_full((rows, 1), -1)
        return self._buffers[rows]

    def _at_the_output(self, last: _LayerBuffers, y: Tensor, minus_one: Tensor, weights: Tensor | None) -> Tensor:
        """The loss, and its derivative by the scores: softmax − one-hot for plain cross-entropy, else autograd."""
        if self._plain and weights is None:
            logarithms = torch.log_softmax(last.activation, 1)
            torch.exp(logarithms, out=last.sensitivity)
            last.sensitivity.scatter_add_(1, y[:, None], minus_one).div_(len(minus_one))
            return nn.functional.nll_loss(logarithms, y)
        with torch.enable_grad():
            scores = last.activation.clone().requires_grad_()
            loss = _mean_loss(self._loss, scores, y, weights)
            (gradient,) = torch.autograd.grad(loss, scores)
        last.sensitivity.copy_(gradient)
        return loss.detach()


def _forward(buffers: list[_LayerBuffers], inputs: Tensor) -> None:
    """Compute net inputs and activations of every layer into their buffers."""
    for buffer in buffers:
        _multiply(inputs, buffer.transposed, buffer.activation, buffer.bias)
        if buffer.forward is not None:
            buffer.forward(buffer.activation)
        if buffer.dropout is not None:  # as the module does it; the activation itself is kept for its derivative
            keep = 1 - buffer.dropout.rate
            buffer.kept.bernoulli_(keep, generator=buffer.dropout.generator)
            torch.mul(buffer.activation, buffer.kept, out=buffer.leaving)
            if buffer.dropout.kind == "inverted":
                buffer.leaving.div_(keep)
        inputs = buffer.leaving


def _backward(buffers: list[_LayerBuffers], inputs: Tensor) -> None:
    """Sensitivities from the last layer down, and the gradients they give."""
    for number in range(len(buffers) - 1, -1, -1):
        buffer = buffers[number]
        if buffer.dropout is not None:
            if buffer.dropout.kind == "inverted":
                buffer.sensitivity.div_(1 - buffer.dropout.rate)
            buffer.sensitivity.mul_(buffer.kept)
        if buffer.backward is not None:
            buffer.backward(buffer.sensitivity, buffer.activation)
        below = buffers[number - 1] if number else None
        assert buffer.weight_gradient is not None
        _multiply(buffer.sensitivity_transposed, inputs if below is None else below.leaving, buffer.weight_gradient)
        if buffer.bias_gradient is not None:
            torch.sum(buffer.sensitivity, 0, out=buffer.bias_gradient)
        if below is not None:
            _multiply(buffer.sensitivity, buffer.weight, below.sensitivity)


_LARGE = 2_000_000  # multiplications of a product from which oneDNN pays


def _multiply(left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None = None) -> None:
    """out = left · right + bias, by the faster of torch's two libraries."""
    if left.numel() * right.shape[1] >= _LARGE and left.dtype == torch.float32 and _prefers_onednn(left.device.type):
        out.copy_(torch.ops.mkldnn._linear_pointwise(left, right.t(), bias, "none", [], ""))
    elif bias is None:
        torch.mm(left, right, out=out)
    else:
        torch.addmm(bias, left, right, out=out)


@functools.cache
def _prefers_onednn(device: str) -> bool:
    """Whether oneDNN multiplies faster than MKL, which torch uses by default.

    On AVX-512 processors that are not Intel's MKL keeps to AVX2 and is half as fast (measured on an AMD EPYC: 110
    against 250 GFLOP/s). Known by the maker's name, not by the clock, so that equal runs choose alike.
    """
    if device != "cpu" or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    processor = Path("/proc/cpuinfo")
    maker = processor.read_text(encoding="utf-8", errors="replace") if processor.exists() else "GenuineIntel"
    return "GenuineIntel" not in maker and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _read(modules: list[nn.Module]) -> tuple[list[_Layer], Dropout | None] | None:
    """The layers of a plain stack and the dropout on its input; None if it contains anything else."""
    layers: list[_Layer] = []
    entry: Dropout | None = None
    for module in modules:
        if type(module) is nn.Flatten and not layers and (module.start_dim, module.end_dim) == (1, -1):
            continue
        if type(module) is nn.Linear:
            layers.append(_Layer(module))
        elif type(module) is Dropout and module.kind != "alpha" and not (layers and layers[-1].dropout):
            if layers:
                layers[-1].dropout = module
            elif entry is None:
                entry = module
            else:
                return None
        elif (
            layers
            and (kernels := _kernels(module)) is not None
            and layers[-1].forward is None
            and layers[-1].dropout is None
        ):
            layers[-1].forward, layers[-1].backward = kernels
        else:
            return None
    return (layers, entry) if layers and layers[-1].dropout is None else None
