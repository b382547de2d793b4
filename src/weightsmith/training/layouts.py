"""The memory layout a network trains in: channels last where that is faster and the network computes the same.

Filters and images are rearranged, which may break a module (``weight.view(len(weight), -1)``). So the layout is tested:
the scores of the first rows must equal those of the plain layout up to rounding, and a training step must be possible.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.normalise import Normalisation
from weightsmith.data.tensors import Split
from weightsmith.networks.card import Card
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import FAILURES, outputs_of, same_answers, undisturbed
from weightsmith.training.feeding import Layout
from weightsmith.training.suitability import scores_of

__all__ = ["plain_layout", "trained_layout"]


def plain_layout(network: nn.Module, card: Card, device: str) -> Layout:
    """The plain layout of the network's inputs; its parameters are moved to ``device`` and made contiguous."""
    try:
        target = torch.device(device)
        network.to(target)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
        first = str(error).splitlines()[0]
        raise UsageError(f"device {device!r} cannot be used here ({first})") from error
    _rearrange(network, torch.contiguous_format)
    return Layout(card.input_shape, input_type(network), target, channels_last=False)


def trained_layout(network: nn.Module, part: Split, normalisation: Normalisation, layout: Layout) -> Layout:
    """The layout to train ``network`` in, which is in training mode; its filters are rearranged accordingly.

    A network that cannot take a step of training in the plain layout either is refused.
    """
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    if convolutions and not any(map(_overflows, convolutions)):
        plain = scores_of(network, part, normalisation, layout)
        draws = not torch.equal(plain, scores_of(network, part, normalisation, layout))
        last = dataclasses.replace(layout, channels_last=True)
        _rearrange(network, torch.channels_last)
        try:
            if same_answers(scores_of(network, part, normalisation, last), plain) or draws:
                _try_step(network, part, normalisation, last)
                return last
        except (DataMismatch, UsageError):
            pass  # if the plain layout fails too, it raises the error
        _rearrange(network, torch.contiguous_format)
    _try_step(network, part, normalisation, layout)
    return layout


def _rearrange(network: nn.Module, memory_format: torch.memory_format) -> None:
    network.to(memory_format=memory_format)  # type: ignore[call-overload]


def _try_step(network: nn.Module, part: Split, normalisation: Normalisation, layout: Layout) -> None:
    """Compute and discard the gradient of the first two rows in training mode; refuses a network that has none."""
    trainable = [value for value in network.parameters() if value.requires_grad]
    if not trainable:
        return  # refused when training begins
    with undisturbed(network), torch.enable_grad():
        try:
            scores = outputs_of(network, layout.arrange(normalisation.apply(part.x[:2])))
        except DataMismatch as error:
            raise DataMismatch(f"in training mode {error}") from error
        if not scores.requires_grad:
            raise UsageError(
                f"{type(network).__name__}: its scores depend on no trainable parameter (detach, no_grad or argmax in "
                "its forward?); there is no gradient to follow"
            )
        try:
            torch.autograd.grad(scores.sum(), trainable, allow_unused=True)
        except FAILURES as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UsageError(
                f"{type(network).__name__}: its gradient cannot be computed ({first}); an in-place operation must not "
                "overwrite values that the gradient needs"
            ) from error


def _overflows(convolution: nn.Conv2d) -> bool:
    """Whether its gradient, with channels last, writes beyond its memory in torch 2.13's library for CPUs (oneDNN).

    Seen for strided 1×1 convolutions of 2 to 6 channels (glibc aborts); a shortcut of a reduced network is one.
    """
    return set(convolution.kernel_size) == {1} and max(convolution.stride) > 1 and convolution.in_channels < 8
