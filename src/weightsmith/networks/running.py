"""Run a module as its author wrote it, and name the layer that fails.

On a CPU, ResNet-20 runs 1.8 times faster on images in channels-last memory format. But ``x.view(len(x), -1)`` after a
convolution fails in that format, and a module that depends on strides may compute something else. So a module first
runs on a few rows in both formats, and channels last is used only if the outputs agree (:func:`memory_format_of`).
Everything that runs a user's module goes through here.

>>> class Viewing(nn.Sequential):
...     def forward(self, x):
...         return super().forward(x).view(len(x), -1)
>>> images = torch.ones(2, 3, 4, 4)
>>> memory_format_of(Viewing(nn.Conv2d(3, 2, 3)), images)
torch.contiguous_format
>>> memory_format_of(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten()), images)
torch.channels_last
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from weightsmith.core.errors import DataMismatch, WeightsmithError
from weightsmith.networks.card import card_of

__all__ = [
    "FAILURES",
    "arranged",
    "cannot_take",
    "check_scores",
    "memory_format_of",
    "outputs_of",
    "same_answers",
    "undisturbed",
]

FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AssertionError, AttributeError, ArithmeticError)
"""The exceptions that a module's code raises for inputs it cannot take."""


def outputs_of(network: nn.Module, inputs: Tensor) -> Tensor:
    """The scores of ``network`` for a batch, images × classes; a failure is reported with the layer and the reason."""
    try:
        outputs = _called(network, inputs)
    except WeightsmithError:
        raise
    except FAILURES as error:
        raise cannot_take(network, inputs, error) from error
    return check_scores(outputs, len(inputs))


def check_scores(outputs: Any, rows: int) -> Tensor:
    """``outputs`` of a network for ``rows`` rows, checked to be one score per class."""
    if not isinstance(outputs, Tensor):
        raise DataMismatch(
            f"the network gives a {type(outputs).__name__}, not one score per class; pass a module whose forward "
            "returns the scores alone"
        )
    if outputs.dim() != 2 or len(outputs) != rows:
        raise DataMismatch(
            f"the network gives {tuple(outputs.shape)}, not one score per class ({rows} rows × classes); pass a "
            "module whose forward returns that"
        )
    return outputs


def cannot_take(network: nn.Module, inputs: Tensor, error: Exception) -> DataMismatch:
    """The error for inputs on which ``network`` failed; it names the failing layer."""
    layer = _failing_layer(network, inputs)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    shape = tuple(inputs.shape[1:])
    if isinstance(error, IndexError):
        most = int(inputs.max()) if not inputs.is_floating_point() else None
        found = "" if most is None else f"; the largest token is {most}, so an embedding needs {most + 1} rows"
        return DataMismatch(f"the network cannot take these inputs ({layer}: {reason}){found}")
    return DataMismatch(
        f"the network cannot take inputs of shape {shape} ({layer}: {reason}); {_way_out(network, shape)}"
    )


def _way_out(network: nn.Module, given: tuple[int, ...]) -> str:
    """The shape that the card states, if it is another; for images, how a folder is read in that size."""
    taken = card_of(network).input_shape
    if taken in ((), given):
        return "give rows of the shape that it takes"
    if len(taken) != 3 or len(given) != 3 or taken[0] != given[0]:
        return f"it takes {taken}"
    size = taken[1] if taken[1] == taken[2] else f"[{taken[1]},{taken[2]}]"
    return f"it takes {taken} (images in a folder: folder:PATH,size={size})"


@torch.no_grad()
def memory_format_of(network: nn.Module, inputs: Tensor) -> torch.memory_format:
    """The memory format for running ``network``, tried on the first rows of ``inputs`` (in the form it takes).

    Channels last for images, if the outputs agree with those of the plain format up to rounding. Outputs that differ
    each time (dropout left on) cannot be compared: channels last is then used if it runs.
    """
    if inputs.dim() != 4:
        return torch.contiguous_format
    with undisturbed(network):
        try:
            last = _called(network, _copy(inputs, torch.channels_last))
        except FAILURES:
            return torch.contiguous_format
        try:
            plain = _called(network, _copy(inputs, torch.contiguous_format))
            if same_answers(last, plain) or not _equal(plain, _called(network, _copy(inputs, torch.contiguous_format))):
                return torch.channels_last
        except FAILURES:  # the module needs channels last
            return torch.channels_last
    return torch.contiguous_format


def arranged(network: nn.Module, inputs: Tensor) -> Tensor:
    """``inputs`` in the memory format for running ``network``."""
    return inputs.contiguous(memory_format=memory_format_of(network, inputs)) if inputs.dim() == 4 else inputs


def same_answers(some: Any, others: Any) -> bool:
    """Whether two outputs are equal up to rounding: √ε times the largest value, with ε of their type."""
    if not isinstance(some, Tensor) or not isinstance(others, Tensor) or some.shape != others.shape:
        return False
    if not others.is_floating_point() or not others.numel():
        return torch.equal(some, others)
    finite = others[others.isfinite()]
    largest = float(finite.abs().max()) if len(finite) else 0.0
    near = torch.finfo(others.dtype).eps ** 0.5 * largest
    return torch.allclose(some, others, rtol=0.0, atol=near, equal_nan=True)


@contextlib.contextmanager
def undisturbed(network: nn.Module) -> Iterator[None]:
    """Restore the buffers of ``network`` and torch's random state after a trial."""
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in before:
                    if not _equal(buffer, value):
                        buffer.copy_(value)


def _called(network: nn.Module, inputs: Tensor) -> Any:
    """The outputs; a traced module is called directly, because it would print the errors that it raises."""
    return nn.Module.__call__(network, inputs) if isinstance(network, fx.GraphModule) else network(inputs)


def _copy(inputs: Tensor, memory_format: torch.memory_format) -> Tensor:
    """A copy of the first two rows, because a module may begin with an in-place operation."""
    return inputs[:2].clone(memory_format=memory_format)


def _equal(some: Any, others: Any) -> bool:
    return isinstance(some, Tensor) and isinstance(others, Tensor) and torch.equal(some, others)


@torch.no_grad()
def _failing_layer(network: nn.Module, inputs: Tensor) -> str:
    """The innermost module that was running when the network failed, found by running it again."""
    running: list[str] = []
    with undisturbed(network), contextlib.ExitStack() as hooks:
        for name, module in network.named_modules():
            shown = f"{name or 'the network'} ({_kind(module)})"
            hooks.callback(module.register_forward_pre_hook(lambda *_, shown=shown: running.append(shown)).remove)
            hooks.callback(module.register_forward_hook(lambda *_: running.pop() and None).remove)
        with contextlib.suppress(*FAILURES):
            _called(network, inputs.clone())
    return running[-1] if running else _kind(network)


def _kind(module: nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))  # the original class of a scripted module
