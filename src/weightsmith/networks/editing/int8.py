"""A network with 8-bit weights and activations, as integer hardware runs it.

Batch norms are folded, then every dense layer and convolution is converted to integers:

    w ≈ s_w · q_w     q_w = round(w / s_w) ∈ [−127, 127]        s_w = max|w| / 127, for each output channel
    x ≈ s_x (q_x − z) q_x = clamp(round(x / s_x) + z, 0, 255)   s_x, z from the range of x on unlabelled rows
    y = s_x s_w · Σ q_w (q_x − z) + b

as ONNX defines QuantizeLinear and DequantizeLinear (ties to even). The sums are exact: they are computed in float32 if
no sum can reach 2²⁴, else in float64, and rounded to integers. Operations between layers (sums of branches, pools,
activations) and layers of other kinds are computed in float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from weightsmith.core.errors import UsageError, WeightsmithError
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.networks.running import FAILURES

__all__ = ["Int8Layer", "folded", "has_int8", "int8_outline", "is_int8_file", "replaced", "tensor_bytes"]

_Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
_CONVOLUTIONS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Conv1d: functional.conv1d,
    nn.Conv2d: functional.conv2d,
    nn.Conv3d: functional.conv3d,
}
_EXACT = 2**24  # smaller integers are exact in float32


class Int8Layer(nn.Module):
    """A dense layer or convolution in integers; weights are rounded on construction, the input range is set later.

    ``weight`` (int8), ``weight_scale`` (one per output channel), ``input_scale`` and ``input_zero`` are q_w, s_w, s_x
    and z of the formula; ``bias`` stays in float32.
    """

    weight: Tensor
    weight_scale: Tensor
    input_scale: Tensor
    input_zero: Tensor
    bias: Tensor | None

    def __init__(self, layer: _Layer) -> None:
        super().__init__()
        self.kind = next((kind for kind in _CONVOLUTIONS if isinstance(layer, kind)), None)
        if self.kind is not None:
            assert not isinstance(layer, nn.Linear)
            self.window = {
                "stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups
            }  # fmt: skip
        weight = layer.weight.detach().float()
        scale = weight.flatten(1).abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        rounded = torch.round(weight / scale.reshape(-1, *[1] * (weight.dim() - 1))).clamp_(-127, 127)
        self.weight = nn.Parameter(rounded.to(torch.int8), requires_grad=False)
        bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().float().clone(), requires_grad=False)
        self.register_parameter("bias", bias)
        self.register_buffer("weight_scale", scale)
        self.register_buffer("input_scale", torch.ones(()))
        self.register_buffer("input_zero", torch.zeros((), dtype=torch.uint8))

    def set_range(self, low: float, high: float) -> None:
        """Set scale and zero point so that inputs from ``low`` to ``high``, and 0, can be represented."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = max((high - low) / 255, torch.finfo(torch.float32).tiny)
        self.input_scale.fill_(scale)
        self.input_zero.fill_(round(-low / scale))

    def forward(self, x: Tensor) -> Tensor:
        """The formula above, exactly."""
        zero = self.input_zero.float()
        # clamp(round(x / s) + z, 0, 255) − z, in place: otherwise these steps take as long as the sums
        whole = (x.float() / self.input_scale).round_().clamp_(-zero, 255 - zero)
        sums = self._sums(whole)
        axis = -1 if self.kind is None else 1
        shape = [1] * sums.dim()
        shape[axis] = -1
        result = sums.mul_((self.input_scale * self.weight_scale).reshape(shape))
        return result if self.bias is None else result.add_(self.bias.reshape(shape))

    def _sums(self, whole: Tensor) -> Tensor:
        most = 255 * int(self.weight.flatten(1).abs().sum(dim=1, dtype=torch.int64).max())
        dtype = torch.float32 if most < _EXACT else torch.float64
        return self.summed(whole.to(dtype), self.weight.to(dtype)).round_().float()

    def summed(self, values: Tensor, weight: Tensor) -> Tensor:
        """The sums of ``values`` times ``weight`` over the connections of the layer."""
        if self.kind is None:
            return functional.linear(values, weight)
        return _CONVOLUTIONS[self.kind](values, weight, **self.window)


def int8_outline(network: nn.Module) -> nn.Module:
    """``network`` with 8-bit layers whose values are still to be filled in, for instance from a file."""
    return with_card(replaced(network, None)[0], card_of(network)).eval()


def folded(network: nn.Module, example: Tensor | None) -> tuple[nn.Module, list[str]]:
    """A copy with batch norms folded, if it can be traced, and the names of the layers to convert to 8 bits."""
    try:
        plain: nn.Module = fold_batch_norm(network, example).network
    except (WeightsmithError, *FAILURES):
        plain = copy.deepcopy(network)
    plain = plain.eval()
    names = [
        name
        for name, layer in plain.named_modules()
        if type(layer) in (nn.Linear, *_CONVOLUTIONS) and getattr(layer, "padding_mode", "zeros") == "zeros"
    ]
    return plain, names


def replaced(network: nn.Module, example: Tensor | None) -> tuple[nn.Module, dict[str, Int8Layer]]:
    """A folded copy with 8-bit layers, and these layers by name; the ranges of their inputs are still to be set."""
    made, names = folded(network, example)
    if not names:
        raise UsageError(f"{type(network).__name__} has no dense layer or convolution that could be rounded to 8 bits")
    layers = {}
    for name in names:
        layers[name] = Int8Layer(made.get_submodule(name))  # type: ignore[arg-type]
        made.set_submodule(name, layers[name])
    return made, layers


def has_int8(network: nn.Module) -> bool:
    """Whether a network has 8-bit layers."""
    return any(isinstance(layer, Int8Layer) for layer in network.modules())


def is_int8_file(shapes: Mapping[str, object]) -> bool:
    """Whether these tensor names belong to a network with 8-bit layers."""
    return any(name.endswith(".weight_scale") and name.removesuffix("_scale") in shapes for name in shapes)


def tensor_bytes(network: nn.Module) -> int:
    """The size of all tensors in bytes, without batch counters, names and card."""
    return sum(
        value.numel() * value.element_size()
        for name, value in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    )
