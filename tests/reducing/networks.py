"""Networks that tests cut: every kind that is supported, with batch norms that have seen something."""

from __future__ import annotations

import torch
from torch import nn

from weightsmith.core.seeds import torch_stream
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg

KINDS = ("mlp", "mlp with batch norm", "vgg", "vgg with bias", "vgg with batch norm", "resnet pad", "resnet conv")


def network(kind: str, seed: int = 0) -> nn.Module:
    """A network of that kind with weights, biases and statistics drawn from the seed."""
    small = {"widths": (6, 8, 10), "classifier": (12,)}
    made = {
        "mlp": lambda: mlp(10, 20, 12, 5, activation="sigmoid"),
        "mlp with batch norm": lambda: mlp(10, 20, 12, 5, batch_norm="before", dropout=0.2),
        "vgg": lambda: vgg(5, (3, 8, 8), 5, **small),
        "vgg with bias": lambda: vgg(5, (3, 8, 8), 5, bias=True, **small),
        "vgg with batch norm": lambda: vgg(5, (3, 8, 8), 5, batch_norm=True, bias=True, **small),
        "resnet pad": lambda: resnet(8, (3, 8, 8), 5, widths=(4, 6, 8)),
        "resnet conv": lambda: resnet(8, (3, 8, 8), 5, widths=(4, 6, 8), shortcut="conv"),
    }[kind]()
    generator = torch_stream(seed, "test network")
    with torch.no_grad():
        for name, tensor in (*made.named_parameters(), *made.named_buffers()):
            if name.endswith("num_batches_tracked"):
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(noise.square() + 0.5)
            elif tensor.dim() == 1:
                tensor.add_(0.3 * noise)
            else:
                tensor.add_(0.1 * noise)
    return made.eval()


def inputs(kind: str, count: int = 16, seed: int = 0) -> torch.Tensor:
    """Inputs that a network of that kind takes."""
    shape = (10,) if kind.startswith("mlp") else (3, 8, 8)
    return torch.randn((count, *shape), generator=torch_stream(seed, "test inputs"))
