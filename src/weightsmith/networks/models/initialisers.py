"""Initial weights: Glorot, He and LeCun, uniform and normal, drawn from an explicit generator.

With fan-in n and fan-out m (times the kernel size for convolutions) the variance of a weight is

    Glorot 2 / (n + m)        He 2 / n        LeCun 1 / n

(Glorot & Bengio 2010; He et al. 2015; LeCun et al. 1998), and biases are zero. A uniform draw of that variance
lies within ±sqrt(3·variance). torch's default for ``nn.Linear`` is none of these: U(±1/sqrt(n)), bias included, 2.1
times narrower than Glorot's on 784→300; for comparisons it is available as ``torch-default``. Normal draws are not
truncated: Keras redraws values beyond two deviations (and widens the rest to the same variance), so that its largest
weights are smaller, 2.27 standard deviations at most.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from weightsmith.core.errors import UnknownName

__all__ = ["INITIALISERS", "initialise", "variance"]

INITIALISERS = (
    "glorot-normal",
    "glorot-uniform",
    "he-normal",
    "he-uniform",
    "lecun-normal",
    "lecun-uniform",
    "torch-default",
)

_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def variance(name: str, fan_in: int, fan_out: int) -> float:
    """The variance that the initialiser ``name`` gives a weight.

    >>> variance("glorot-uniform", 784, 300) ** 0.5
    0.0429...
    """
    if name not in INITIALISERS:
        raise UnknownName("initialiser", name, INITIALISERS)
    family = name.partition("-")[0]
    return {"glorot": 2 / (fan_in + fan_out), "he": 2 / fan_in, "lecun": 1 / fan_in, "torch": 1 / (3 * fan_in)}[family]


@torch.no_grad()
def initialise(module: nn.Module, name: str, generator: torch.Generator) -> nn.Module:
    """Initialise every parameter of ``module`` in place, drawing from ``generator`` in the order of its layers.

    Linear and convolution weights are drawn by ``name``; their biases are zero (for ``torch-default`` drawn like the
    weights); batch norm gets scale 1, shift 0 and fresh statistics. Other layers with parameters or buffers are
    refused. The fans of a grouped convolution are counted as in torch: inputs per group, outputs of all groups.
    """
    for path, layer in module.named_modules():
        if isinstance(layer, _WEIGHTED):
            _draw(layer, name, generator)
        elif isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.reset_parameters()
        elif any(True for own in (layer.parameters, layer.buffers) for _ in own(recurse=False)):
            raise UnknownName(
                f"layer kind to initialise, at {path!r}:", type(layer).__name__, ["Linear", "Conv", "BatchNorm"]
            )
    return module


def _draw(layer: nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d, name: str, generator: torch.Generator) -> None:
    receptive = math.prod(layer.weight.shape[2:])
    fan_in, fan_out = layer.weight.shape[1] * receptive, layer.weight.shape[0] * receptive
    deviation = math.sqrt(variance(name, fan_in, fan_out))
    bound = deviation * math.sqrt(3)
    if name.endswith("normal"):
        layer.weight.normal_(0, deviation, generator=generator)
    else:
        layer.weight.uniform_(-bound, bound, generator=generator)
    if layer.bias is None:
        return
    if name == "torch-default":
        layer.bias.uniform_(-bound, bound, generator=generator)
    else:
        layer.bias.zero_()
