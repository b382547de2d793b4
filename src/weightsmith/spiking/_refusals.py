"""What cannot be made spiking, and the way out."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx, nn

from weightsmith.core.errors import UsageError
from weightsmith.spiking._kinds import called, module_of

__all__ = ["refusal"]

_SCORES = "softmax inside: take it off, the scores before it suffice"
_ACTIVATION = "only ReLU converts: a spike rate is max(0, x) of its input; train with ReLU"
_NORM = "normalises by the values of each image, which spikes do not carry; use batch norm, which is folded away"
_CONVOLUTION = "of the convolutions only Conv2d converts"
_REASONS: dict[str, str] = {
    **dict.fromkeys(("softmax", "logsoftmax", "softmax2d", "softmin"), _SCORES),
    **dict.fromkeys(
        (
            *("sigmoid", "tanh", "gelu", "silu", "mish", "elu", "selu", "celu", "glu", "leakyrelu", "prelu", "rrelu"),
            *("relu6", "hardtanh", "hardswish", "hardsigmoid", "hardshrink", "softplus", "softsign", "softshrink"),
            *("logsigmoid", "tanhshrink", "threshold", "clamp", "clampmin", "abs", "exp", "pow", "sqrt"),
        ),
        _ACTIVATION,
    ),
    **dict.fromkeys(
        ("layernorm", "groupnorm", "localresponsenorm", "rmsnorm", "instancenorm1d", "instancenorm2d", "normalize"),
        _NORM,
    ),
    **dict.fromkeys(
        ("conv1d", "conv3d", "convtranspose1d", "convtranspose2d", "convtranspose3d"),
        _CONVOLUTION,
    ),
    **dict.fromkeys(("linear", "conv2d"), "only as a module (nn.Linear, nn.Conv2d), not as a function of weights"),
    "multiheadattention": "attention multiplies signals with each other, which neurons that add up cannot",
    "cat": "joins signals, which is not supported; what is added (a residual network) is",
}
_OTHER = (
    "has no spiking form here; what has: Linear, Conv2d, folded batch norm, ReLU, average and max pooling, residual "
    "adds, flatten, dropout"
)


def refusal(node: fx.Node, modules: Mapping[str, nn.Module]) -> UsageError:
    """The error that names a node of a kind that does not convert."""
    module = module_of(node, modules)
    if module is not None:
        name = type(module).__name__
    else:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    reason = _REASONS.get(name.lower().replace("_", ""), _OTHER)
    return UsageError(f"{called(node, modules)} cannot be made spiking: {reason}")
