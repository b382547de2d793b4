"""A probe that measures the gradient and the update of each layer on single steps of a training run.

For the layer k with weights and bias θ (seed 002, eqs. 6–9) it takes

    sensitivity   s = ∂loss/∂n, n the net input (what Linear and the convolutions give out): the mean over the images of
                  the batch of ‖∂loss_image/∂n_image‖. The loss is the mean over the batch, so torch's gradient is
                  multiplied by the number of images.
                  For attention and recurrent layers only the outputs are accessible, and are used as n.
    update        ‖Δθ‖ / ‖θ‖, from the values of θ before and after the step, for any optimiser.
    idle units    those with ∂loss/∂n = 0 exactly for every image (and position): a ReLU that none of them opens. It
                  needs no knowledge of the activation.
    saturation    the share of sigmoids and tanhs behind the layer that are flat (:mod:`.saturation`).
    through time  of recurrent layers, how the gradient changes from time step to time step (:mod:`.through_time`).
    scale         the root mean square of the non-zero values that enter the layer; judged for the first layer.

The hooks are removed after each step, and neither network nor gradients are changed.

>>> network = nn.Sequential(nn.Linear(2, 3), nn.Sigmoid(), nn.Linear(3, 2))
>>> probe = Probe(network)
>>> with probe.step(0):
...     nn.functional.cross_entropy(network(torch.ones(4, 2)), torch.zeros(4, dtype=torch.int64)).backward()
>>> [(layer.name, len(layer.sensitivity)) for layer in probe.diagnosis().layers]
[('0', 1), ('2', 1)]
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.hooks import RemovableHandle

from weightsmith.core.errors import UsageError
from weightsmith.training.diagnosis.gradients import GradientDiagnosis, Reading
from weightsmith.training.diagnosis.saturation import SaturationWatch, flat_share
from weightsmith.training.diagnosis.through_time import RECURRENT, TimeWatch
from weightsmith.training.diagnosis.verdicts import judge

__all__ = ["Probe"]

# Layers that output their net input (an embedding is a dense layer on one-hot inputs), and those whose output is used
# in its place. For any other module with weights only the update can be measured.
_NET_INPUT = (nn.Linear, nn.Bilinear, nn.Embedding, nn.EmbeddingBag, nn.modules.conv._ConvNd)
_SEEN = (*_NET_INPUT, nn.MultiheadAttention, *RECURRENT)

# Norms in this range are exact enough in single precision; beyond it, squares overflow or underflow.
_SQUARES = (1e-12, 1e18)


class Probe:
    """Measures chosen steps of the training of ``network`` and judges its gradients."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._layers = _weight_layers(network)
        if not self._layers:
            raise UsageError("the network has no layer with weights, so there are no gradients to measure")
        self._order: list[str] = []
        self._probes: list[int] = []
        self._readings: dict[str, list[Reading]] = {name: [] for name in self._layers}

    @property
    def probes(self) -> tuple[int, ...]:
        """The steps measured so far."""
        return tuple(self._probes)

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Measure the step ``number``: the block contains forward pass, backward pass and update.

        A block without a forward pass leaves no reading. Neither does one that ends in an exception, unless some
        numbers were not finite, which may be why it ended.
        """
        watches = {name: _Watch(layer) for name, layer in self._layers.items()}
        passes: list[int] = []
        calls: list[str] = []
        ended = False
        try:
            with contextlib.ExitStack() as hooks:
                hooks.callback(_count_images(self._network, passes).remove)
                saturation = _while_it_runs(self._network, hooks, SaturationWatch(calls))
                for name, watch in watches.items():
                    watch.install(hooks, passes, calls, name)
                yield
            ended = True
        finally:
            readings = (
                {name: watch.reading(taken=ended, saturated=saturation.share(name)) for name, watch in watches.items()}
                if calls
                else {}
            )
            if readings and (ended or not all(reading.finite for reading in readings.values())):
                self._note(number, readings, calls)

    def _note(self, number: int, readings: Mapping[str, Reading], calls: list[str]) -> None:
        self._order = self._order or _forward_order(list(self._layers), calls)
        self._probes.append(number)
        for name, reading in readings.items():
            self._readings[name].append(reading)

    def diagnosis(self) -> GradientDiagnosis:
        """The verdict on all steps measured so far."""
        if not self._probes:
            raise UsageError("no step has been measured yet: run one inside `with probe.step(number)`")
        return judge(self.probes, {name: tuple(self._readings[name]) for name in self._order})

    def to_state(self, since: int = 0) -> dict[str, Any]:
        """The measurements after the first ``since`` measured steps, as plain JSON values."""
        readings = {name: [reading.to_dict() for reading in found[since:]] for name, found in self._readings.items()}
        return {"probes": self._probes[since:], "order": list(self._order), "readings": readings}

    @classmethod
    def from_state(cls, network: nn.Module, *states: Mapping[str, Any]) -> Self:
        """A probe of ``network`` that continues where :meth:`to_state` was called; several states are parts of one."""
        probe = cls(network)
        for state in states:
            # Older states have the output projection of an attention layer as a layer of its own.
            other = set(state["readings"]) ^ set(probe._layers)
            if strange := sorted(name for name in other if name.rpartition(".")[0] not in probe._layers):
                raise UsageError(
                    f"the state of the probe belongs to another network: only one of them has the layer {strange[0]!r}"
                )
            probe._probes += state["probes"]
            probe._order = [name for name in state["order"] if name in probe._layers]
            for name in probe._layers:
                probe._readings[name] += map(Reading.from_dict, state["readings"][name])
        return probe


class _Watch:
    """The hooks and measurements of one layer during one step."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self._trained = [p for p in _own_parameters(layer) if p.requires_grad]
        self._before = [p.detach().clone() for p in self._trained]
        self._squares: dict[int, Tensor] = {}  # of the norms of ∂loss/∂n, an entry per image, for each forward pass
        self._gradients: list[Tensor] = []
        self._uses = 0
        self._output_finite = True
        self._idle: Tensor | None = None
        self._flat: list[float] = []
        self._scale: float | None = None
        self._time: TimeWatch | None = None

    def install(self, hooks: contextlib.ExitStack, passes: list[int], calls: list[str], name: str) -> None:
        """Listen to the layer until ``hooks`` is closed; ``passes`` holds the images of each forward pass so far."""

        def forward(layer: nn.Module, inputs: Any, output: Any) -> None:
            calls.append(name)
            if len(calls) == 1 and inputs and isinstance(inputs[0], Tensor) and inputs[0].is_floating_point():
                self._scale = _scale(inputs[0].detach())
            output = _seen_output(layer, output)
            if output is None:
                return
            if isinstance(layer, nn.RNN | nn.RNNCell) and layer.nonlinearity == "tanh":
                self._flat.append(flat_share("tanh", output))
            # The step may end before its backward pass, when the loss is not finite.
            self._output_finite &= _all_finite(output.detach())
            if output.requires_grad:
                images = passes[-1] if passes else len(output)
                _listen(hooks, output, functools.partial(self._arrived, len(passes), images))

        hooks.callback(self._layer.register_forward_hook(forward).remove)
        if isinstance(self._layer, RECURRENT):
            self._time = TimeWatch(self._layer, hooks)
        for parameter in self._trained:
            _listen(hooks, parameter, self._at_weights)

    def _arrived(self, number: int, images: int, gradient: Tensor) -> None:
        squares = _squares_per_image(gradient.detach(), images)
        # A layer that is used twice has two net inputs: the norm is taken over both together.
        self._squares[number] = self._squares[number] + squares if number in self._squares else squares
        self._uses += 1
        idle = _idle_units(self._layer, gradient.detach())
        self._idle = idle if self._idle is None or len(self._idle) != len(idle) else self._idle & idle

    def _at_weights(self, gradient: Tensor) -> None:
        self._gradients.append(_norm([gradient.detach()]))

    def reading(self, *, taken: bool, saturated: float | None) -> Reading:
        """The reading; if the step was completed, its update is the difference to the present weights."""
        # mean over the images of images·‖row of the gradient‖, which is the sum of the norms
        sensitivity = math.fsum(float(s.sqrt().sum()) for s in self._squares.values()) if self._uses else None
        gradient = math.hypot(*map(float, self._gradients)) if self._gradients else None
        size = float(_norm(self._before))
        change = float(_norm([p.detach() - old for p, old in zip(self._trained, self._before, strict=True)]))
        numbers = (sensitivity, gradient, size, change)
        return Reading(
            sensitivity=_finite(sensitivity),
            update=_finite(change / size) if size and taken else None,
            gradient=_finite(gradient),
            uses=self._uses,
            finite=self._output_finite and all(number is None or math.isfinite(number) for number in numbers),
            output_finite=self._output_finite,
            trained=bool(self._trained),
            idle=None if self._idle is None else "".join("01"[unit] for unit in self._idle.tolist()),
            saturated=sum(self._flat) / len(self._flat) if self._flat else saturated,
            scale=_finite(self._scale),
            through_time=None if self._time is None else self._time.reading(),
        )


def _seen_output(layer: nn.Module, output: Any) -> Tensor | None:
    """The output whose gradient is taken as the layer's sensitivity; None if it is not accessible."""
    if not isinstance(layer, _SEEN):
        return None
    first = output[0] if isinstance(output, tuple) and not isinstance(output, PackedSequence) else output
    first = first.data if isinstance(first, PackedSequence) else first
    return first if isinstance(first, Tensor) else None


def _idle_units(layer: nn.Module, gradient: Tensor) -> Tensor:
    """Which units get no gradient although they have weights; units with zero weights were pruned on purpose."""
    positions = len(layer.kernel_size) if isinstance(layer, nn.modules.conv._ConvNd) else 0
    unit = gradient.dim() - 1 - positions
    others = [axis for axis in range(gradient.dim()) if axis != unit]
    idle: Tensor = (torch.linalg.vector_norm(gradient, dim=others) if others else gradient) == 0
    if others and bool(idle.any()):  # squares of small numbers may be zero where the numbers are not
        rows = gradient.movedim(unit, 0)[idle]
        idle[idle.clone()] = ~(rows != 0).flatten(1).any(1)
    weight = getattr(layer, "weight", None)
    if isinstance(layer, nn.Linear) and isinstance(weight, Tensor):
        idle &= (weight.detach() != 0).any(1)
    return idle


def _scale(x: Tensor) -> float | None:
    """The root mean square of the values that are not zero; None if all are."""
    count = int(torch.count_nonzero(x))
    return float(torch.linalg.vector_norm(x, dtype=torch.float64)) / count**0.5 if count else None


def _while_it_runs(network: nn.Module, hooks: contextlib.ExitStack, watch: SaturationWatch) -> SaturationWatch:
    """Let ``watch`` see the calls in the forward passes of ``network``, but not those of loss and update."""
    running = contextlib.ExitStack()

    def begin(*_: Any) -> None:
        running.enter_context(watch)

    hooks.callback(running.close)
    hooks.callback(network.register_forward_pre_hook(begin).remove)
    hooks.callback(network.register_forward_hook(lambda *_: running.close(), always_call=True).remove)
    return watch


def _listen(hooks: contextlib.ExitStack, tensor: Tensor, heard: Callable[[Tensor], None]) -> None:
    """Call ``heard`` with the gradient of ``tensor`` until ``hooks`` is closed."""
    hooks.callback(tensor.register_hook(heard).remove)  # type: ignore[no-untyped-call]


def _weight_layers(network: nn.Module) -> dict[str, nn.Module]:
    """Modules that hold weights (parameters of two or more dimensions), except norms, by name."""
    found: dict[str, nn.Module] = {}
    inside: set[nn.Module] = set()  # what computes a parametrised weight belongs to its layer
    for name, module in network.named_modules():
        known = isinstance(module, _SEEN)
        weights = any(p.dim() > 1 for p in module.parameters(recurse=False)) and not isinstance(module, nn.LayerNorm)
        if module not in inside and (known or weights):
            found[name or type(module).__name__] = module
        if known:
            inside |= set(module.modules())
    return found


def _own_parameters(layer: nn.Module) -> list[nn.Parameter]:
    return list(layer.parameters(recurse=isinstance(layer, _SEEN)))


def _forward_order(names: list[str], calls: list[str]) -> list[str]:
    """Layers in the order of the forward pass; one that was not called follows the one registered before it."""
    first = {name: position for position, name in reversed(list(enumerate(calls)))}
    order, position = [], -1
    for number, name in enumerate(names):
        position = first.get(name, position)
        order.append((position, number, name))
    return [name for _, _, name in sorted(order)]


def _count_images(network: nn.Module, passes: list[int]) -> RemovableHandle:
    """Let each forward pass of ``network`` add the length of its first tensor to ``passes``."""

    def note(_network: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        passes.extend([len(x) for x in (*args, *named.values()) if isinstance(x, Tensor) and x.dim()][:1])

    return network.register_forward_pre_hook(note, with_kwargs=True)


def _squares_per_image(gradient: Tensor, images: int) -> Tensor:
    """The squared norm of the part of ``gradient`` that belongs to each image."""
    shape = list(gradient.shape)
    if images not in shape:
        if not shape or shape[0] % images:  # it cannot be assigned to images: every image gets the same share
            return (_norm([gradient]).square() / images).expand(images)
        gradient = gradient.reshape(images, -1)  # windows or time steps folded into the batch
    own = gradient.shape.index(images)
    others = [axis for axis in range(gradient.dim()) if axis != own]
    norms: Tensor = torch.linalg.vector_norm(gradient, dim=others) if others else gradient.abs()
    if not bool(((norms > _SQUARES[0]) & (norms < _SQUARES[1])).all()):
        norms = torch.linalg.vector_norm(gradient, dim=others, dtype=torch.float64) if others else norms
    return norms.to(torch.float64).square()


def _all_finite(x: Tensor) -> bool:
    """Whether there is neither NaN nor infinity; the sum of finite numbers may overflow, so each is then checked."""
    return bool(x.sum().isfinite()) or bool(x.isfinite().all())


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of all of them together, in double precision: squares of large gradients overflow floats."""
    norms = [torch.linalg.vector_norm(tensor, dtype=torch.float64) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros((), dtype=torch.float64)


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
