"""Refit of a cut network: every layer that reads removed units is solved by least squares, in network order.

The inputs x′ of a layer come from the cut network, whose earlier layers are refitted already; its target is its output
in the original network, before the activation. Where its output is added to another branch s (a residual sum), the
target also compensates for the change of that branch:

    W′ x′ + b′  ≈  W x + b + (s − s′) / γ̄

γ̄ is the factor of the batch norm between the layer and the sum (1 without one), so that batch norms stay in the
network and the solution is that of the folded network. Constants go into the bias, or into the mean of the batch norm
behind. At the end the output layer is refitted with a stronger penalty.

A dense layer that reads every channel at many positions (behind a flattening) has too many inputs for that: instead the
channels of the original network are regressed on those left, h ≈ A h′ + a at every position, and W is multiplied by A.
A layer inside a module that is one step of the flow (torch's encoder layers) is solved on its own inputs in the
original network: W′ x_kept ≈ W x.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Record
from weightsmith.core.seeds import stream
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.networks.evaluation import batches_for, inputs_of
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import memory_format_of
from weightsmith.reducing.decisions import Choice
from weightsmith.reducing.refitting.flow import NOT_A_STEP, SideBySide, Stop, Values
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.refitting.patches import at_least_float, is_supported
from weightsmith.reducing.refitting.regression import PatchRegression, Variance, norm_scale, precision_of
from weightsmith.reducing.refitting.solving import Change, Regression
from weightsmith.reducing.surgery.masking import unit_axis
from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["LayerRefit", "RefitRecord", "refit", "stand_ins"]

BLOCK = 50  # images at a time
_LAST_RIDGE = 1e-3
_MOST_COLUMNS = 16384  # 2 GB of moments


@dataclasses.dataclass(frozen=True, eq=False)
class LayerRefit(Record):
    """One refitted layer: its squared error before and after, as shares of the variance of its targets."""

    layer: str
    before: float
    after: float
    sum: bool


@dataclasses.dataclass(frozen=True, eq=False)
class RefitRecord(Record):
    """The record of a refit: the number of rows, the layers in order, and layers left unchanged, with the reason."""

    rows: int
    layers: tuple[LayerRefit, ...]
    left: dict[str, str] = dataclasses.field(default_factory=dict)


@torch.no_grad()
def refit(
    original: nn.Module,
    cut: nn.Module,
    sites: Sequence[Site],
    choices: Sequence[Choice],
    *,
    x: Tensor,
    option: LeastSquares,
    seed: int = 0,
    device: str = "cpu",
    progress: StepCallback | None = None,
) -> RefitRecord:
    """Refit ``cut``, which is ``original`` without the units of ``choices``, in place, on the unlabelled rows ``x``."""
    before = original if device == "cpu" else copied(original).to(device)
    cut.to(device)
    readers = _Readers(sites, choices)
    dtype = input_type(original)
    known = memory_format_of(before, inputs_of(before, x[:2]).to(device))
    blocks = [inputs.to(device) for _, inputs in batches_for(card_of(original), x, BLOCK, dtype, known)]
    both = SideBySide(before, cut, blocks)
    last = both.output_layer()
    layers = [layer for layer in readers.reads if is_supported(original.get_submodule(layer))]
    if last is not None and last not in layers and is_supported(original.get_submodule(last)):
        layers.append(last)
    stops, left = both.stops(layers)
    left |= {
        layer: f"a {type(original.get_submodule(layer)).__name__} cannot be refitted"
        for layer in readers.reads
        if not is_supported(original.get_submodule(layer))
    }
    saved = {name: value.clone() for name, value in cut.state_dict().items()}
    refitting = _Refitting(before, cut, readers, seed)
    hidden = [layer for layer, why in left.items() if why == NOT_A_STEP and layer in readers.reads]
    done = refitting.inside(hidden, blocks, option.ridge) if hidden else []
    for each in done:
        del left[each.layer]
    for number, (stop, values) in enumerate(both.walk(stops), start=1):
        if stop.layer == last:
            checked = _checked(values, before, blocks[0])
            solved = refitting.solve(stop, checked, max(option.ridge, _LAST_RIDGE))
        else:
            solved = refitting.solve(stop, values, option.ridge)
        if isinstance(solved, str):
            left[stop.layer] = solved
        else:
            done.append(solved)
        if progress is not None:
            progress(number, len(stops))
    if not all(bool(value.isfinite().all()) for value in cut.state_dict().values() if value.is_floating_point()):
        cut.load_state_dict(saved)
        left |= dict.fromkeys((layer.layer for layer in done), "the solution is not finite")
        done = []
    cut.cpu()
    return RefitRecord(len(x), tuple(done), left)


def _checked(values: Iterator[Values], original: nn.Module, block: Tensor) -> Iterator[Values]:
    """The values of the output layer; refused if the steps, run one by one, do not reproduce the network's outputs."""
    expected = original(block.clone())
    for number, each in enumerate(values):
        if number == 0 and not torch.allclose(
            each.output, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())
        ):
            raise UsageError("the steps of the network, run one by one, do not reproduce its outputs")
        yield each


class _Readers:
    """The layers that read removed units, with the sites they read, and the kept outputs of every layer."""

    def __init__(self, sites: Sequence[Site], choices: Sequence[Choice]) -> None:
        known = {site.name: site for site in sites}
        self.reads: dict[str, list[tuple[Port, Choice]]] = {}
        self._gone: dict[str, set[int]] = {}
        self._spread: set[str] = set()
        for choice in choices:
            site, gone = known[choice.site], [removal.unit for removal in choice.removals]
            if not gone:
                continue
            for port in site.readers:
                self.reads.setdefault(port.layer, []).append((port, choice))
                if site.is_spread(port):
                    self._spread.add(port.layer)
            for port in site.writers:
                self._gone.setdefault(port.layer, set()).update(port.of(gone).tolist())
        self.shifts = {layer: taker for site in sites for layer, taker in site.shifts.items()}

    def outputs(self, layer: str, total: int) -> Tensor:
        """The indices of the kept outputs of a layer."""
        gone = self._gone.get(layer, set())
        return torch.tensor([index for index in range(total) if index not in gone], dtype=torch.int64)

    def inputs(self, layer: str, total: int) -> Tensor:
        """The indices of the kept inputs of a layer."""
        gone = {
            index
            for port, choice in self.reads[layer]
            for index in port.of([removal.unit for removal in choice.removals]).tolist()
        }
        return torch.tensor([index for index in range(total) if index not in gone], dtype=torch.int64)

    def spread(self, layer: str) -> tuple[Port, Choice] | None:
        """The one site that the layer reads at several inputs for each unit; None if it is read in another way."""
        read = self.reads.get(layer, [])
        return read[0] if len(read) == 1 and layer in self._spread else None


class _Refitting:
    """A refit in progress: each solved layer is written into the cut network at once."""

    def __init__(self, original: nn.Module, cut: nn.Module, readers: _Readers, seed: int) -> None:
        self.original, self.cut, self.readers, self.seed = original, cut, readers, seed

    def solve(self, stop: Stop, values: Iterator[Values], ridge: float) -> LayerRefit | str:
        """Solve one layer and write its weight, or return why it stays unchanged; always consumes all values."""
        layer = self.cut.get_submodule(stop.layer)
        spread = self.readers.spread(stop.layer) if isinstance(layer, nn.Linear) else None
        if spread is not None and layer.in_features == spread[0].of(spread[1].kept).size:
            return self._by_channels(stop, values, ridge, spread)
        columns = outputs_first(layer)[0].numel()
        if columns <= _MOST_COLUMNS:
            return self._by_patches(stop, values, ridge)
        for _ in values:
            pass
        return f"reads {columns} values at once, more than the {_MOST_COLUMNS} that a refit solves for"

    def _by_patches(self, stop: Stop, values: Iterator[Values], ridge: float) -> LayerRefit:
        """Regress the targets on what the layer multiplies by its weight."""
        problem = self._problem(stop)
        for block in values:
            problem.add(block)
        return self._solved(stop, problem, ridge)

    def _problem(self, stop: Stop) -> PatchRegression:
        old = self.original.get_submodule(stop.layer)
        kept = self.readers.outputs(stop.layer, len(outputs_first(old)))
        return PatchRegression(
            old,
            self.cut.get_submodule(stop.layer),
            kept,
            scale=norm_scale(self.original, stop.norm, kept),
            constant=self._taker(stop) is not None,
            generator=stream(self.seed, "refit", stop.layer),
        )

    def _solved(self, stop: Stop, problem: PatchRegression, ridge: float) -> LayerRefit:
        change, total = problem.solve(ridge)
        self._apply(self.cut.get_submodule(stop.layer), change, self._taker(stop))
        return _layer_refit(stop.layer, change, total, summed=problem.summed)

    def inside(self, layers: Sequence[str], blocks: Sequence[Tensor], ridge: float) -> list[LayerRefit]:
        """Refit layers inside modules that are one step of the flow, such as torch's encoder layers.

        Their inputs in the cut network are not visible, so both inputs and targets are those of the original.
        """
        stops = {layer: Stop(layer, layer, layer, None, None) for layer in layers}
        problems = {layer: self._problem(stop) for layer, stop in stops.items()}
        handles = []

        def adding(layer: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
            def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                axis = unit_axis(module, inputs[0])
                kept = self.readers.inputs(layer, inputs[0].shape[axis]).to(inputs[0].device)
                problems[layer].add(Values(inputs[0].index_select(axis, kept), inputs[0], output, None))

            return hook

        try:
            handles += [self.original.get_submodule(name).register_forward_hook(adding(name)) for name in layers]
            for block in blocks:
                self.original(block.clone())
        finally:
            for handle in handles:
                handle.remove()
        return [self._solved(stops[layer], problem, ridge) for layer, problem in problems.items() if problem.rows]

    def _by_channels(
        self, stop: Stop, values: Iterator[Values], ridge: float, spread: tuple[Port, Choice]
    ) -> LayerRefit:
        """Regress the original channels on those left, equally at all positions, and multiply the weight by the map."""
        port, choice = spread
        old, new = self.original.get_submodule(stop.layer), self.cut.get_submodule(stop.layer)
        taker = self._taker(stop)
        indices = torch.from_numpy(port.indices)  # unit × position
        left = _places_left(indices, torch.tensor(choice.kept))
        dtype = at_least_float(new.get_parameter("weight")).dtype
        mapped, constants = (torch.from_numpy(part).to(dtype) for part in stand_ins(choice))
        precision = precision_of(new.get_parameter("weight"))
        found = Regression(len(left), choice.units, constant=taker is not None, precision=precision)
        channels_seen = Variance(choice.units)
        for block in values:
            rows, whole = (
                at_least_float(given.reshape(-1, given.shape[-1])[:, where.to(given.device)].movedim(1, -1))
                .flatten(0, 1)
                .cpu()
                for given, where in ((block.given, left), (block.original, indices))
            )
            found.add(rows.numpy(), (whole - rows @ mapped - constants).numpy())
            channels_seen.add(whole.numpy())
        change = found.solve(ridge)
        weight = old.get_parameter("weight").double().cpu()
        read = weight[self.readers.outputs(stop.layer, len(weight))][:, indices]  # outputs × units × positions
        moved = torch.einsum("oup,uk->okp", read, torch.from_numpy(change.weight))
        delta = torch.zeros(new.get_parameter("weight").shape, dtype=torch.float64)
        delta[:, left.reshape(-1)] = moved.reshape(len(moved), -1)
        bias = torch.einsum("oup,u->o", read, torch.from_numpy(change.bias))
        self._apply(new, dataclasses.replace(change, weight=delta.numpy(), bias=bias.numpy()), taker)
        return _layer_refit(stop.layer, change, channels_seen.total, summed=False)

    def _taker(self, stop: Stop) -> str | None:
        """The layer that takes a constant added to the outputs of this one: itself, or the batch norm behind it."""
        if getattr(self.cut.get_submodule(stop.layer), "bias", None) is not None:
            return stop.layer
        return self.readers.shifts.get(stop.layer)

    def _apply(self, layer: nn.Module, change: Change, taker: str | None) -> None:
        weight = outputs_first(layer)
        weight.add_(torch.from_numpy(change.weight).reshape(weight.shape).to(weight))
        if taker is None:
            return
        amount = torch.from_numpy(np.ascontiguousarray(change.bias)).to(weight)
        owner = self.cut.get_submodule(taker)
        if owner is layer:
            layer.get_parameter("bias").add_(amount)
        else:
            owner.get_buffer("running_mean").sub_(amount)


def stand_ins(choice: Choice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The replacement of every unit in the cut network: h ≈ h′ A + a, with A (kept × units) and a (units).

    >>> from weightsmith.reducing.decisions import Removal
    >>> mapped, constants = stand_ins(Choice("dense1", 3, (Removal(1, (0,), (2.0,), 0.5),)))
    >>> mapped.tolist(), constants.tolist()
    ([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 0.5, 0.0])
    """
    whole = np.eye(choice.units)
    constants = np.zeros(choice.units)
    for removal in reversed(choice.removals):
        into, factors = list(removal.into), np.array(removal.factors)
        constants[removal.unit] = removal.constant + factors @ constants[into] if into else removal.constant
        whole[:, removal.unit] = whole[:, into] @ factors if into else 0.0
    return whole[list(choice.kept)], constants


def _places_left(indices: Tensor, stays: Tensor) -> Tensor:
    """The inputs of the cut layer that belong to each kept unit: ranks of the old inputs among the kept ones."""
    old = indices[stays]
    order = torch.empty(int(indices.max()) + 1, dtype=torch.int64)
    order[old.reshape(-1).sort().values] = torch.arange(old.numel())
    return order[old]


def _layer_refit(layer: str, change: Change, total: float, *, summed: bool) -> LayerRefit:
    before, after = (error / total if total > 0 else 0.0 for error in (change.before, change.after))
    return LayerRefit(layer, before, after, summed)
