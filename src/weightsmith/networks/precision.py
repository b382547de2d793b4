"""The type a network computes in, and whether this CPU supports it.

Some machines, mostly virtual ones, announce instructions for 16-bit numbers that they do not have: the first product
then ends Python with an illegal instruction, which cannot be caught. So a small product and a small convolution are
tried in a child process, once for each type, and only when a network of that type is about to run on the CPU.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError

__all__ = ["how_python_ends", "input_type", "like_of"]

_PROBED = (torch.bfloat16, torch.float16)
# With this setting oneDNN, torch's library for CPUs, uses no 16-bit instructions; it is read when oneDNN starts.
_WAY_OUT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}
# Large enough for torch to hand them to oneDNN, forward and backward.
_TRIAL = """
import sys, torch
torch.set_num_threads(1)
dtype = getattr(torch, sys.argv[1])
for layer, shape in (torch.nn.Linear(64, 64), (64, 64)), (torch.nn.Conv2d(16, 16, 3), (8, 16, 8, 8)):
    layer.to(dtype)(torch.ones(shape, dtype=dtype, requires_grad=True)).sum().backward()
"""


def like_of(network: nn.Module, device: torch.device | None = None) -> Tensor:
    """A tensor with the type and device of ``network``; float32 for a network without parameters.

    Refuses a network with a layer of a type that would crash Python on this CPU, unless it is to run on another
    ``device``. Everything that runs a network calls this first.
    """
    floating = [(name, value) for name, value in network.named_parameters() if value.is_floating_point()]
    for name, value in floating:
        if value.dtype in _PROBED and (device or value.device).type == "cpu" and (end := how_python_ends(value.dtype)):
            layer, _, _ = name.rpartition(".")
            kind = str(value.dtype).removeprefix("torch.")
            setting = " ".join(f"{key}={word}" for key, word in _WAY_OUT.items())
            other = "" if how_python_ends(value.dtype, eased=True) else f", or start Python with {setting}"
            raise UsageError(
                f"{layer or type(network).__name__} is of type {kind}, and products of that type crash Python on this "
                f"CPU ({end}); make it float32 with network.float(){other}"
            )
    return floating[0][1] if floating else torch.empty(0)


def input_type(network: nn.Module) -> torch.dtype:
    """The type of the inputs of ``network``: int64 (tokens) if it begins with an embedding, else its own type.

    The first layer with parameters decides.

    >>> input_type(nn.Sequential(nn.Embedding(10, 2), nn.Flatten(), nn.Linear(8, 2))), input_type(nn.Linear(8, 2))
    (torch.int64, torch.float32)
    """
    holders = (module for module in network.modules() if any(True for _ in module.parameters(recurse=False)))
    first = next(holders, None)
    return torch.int64 if isinstance(first, nn.Embedding | nn.EmbeddingBag) else like_of(network).dtype


@functools.cache
def how_python_ends(dtype: torch.dtype, *, eased: bool = False) -> str | None:
    """The signal that ends a child process multiplying in ``dtype`` on the CPU ("illegal instruction"), or None.

    ``eased``: without the instructions for 16-bit floats. A child that ends with a Python error counts as None: torch
    then reports by itself what it does not support.
    """
    words = [sys.executable, "-c", _TRIAL, str(dtype).removeprefix("torch.")]
    told = os.environ | _WAY_OUT if eased else None
    code = subprocess.run(words, env=told, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode
    return (signal.strsignal(-code) or f"signal {-code}").lower() if code < 0 else None
