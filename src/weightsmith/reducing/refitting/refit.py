"""Refit of a cut network: every layer that reads removed units is solved anew, in the order of the network.

The inputs x′ of a layer come from the cut network, whose earlier layers are refitted already; its target is what it
gave in the original network, before the activation. Where its output is added to another branch s (a residual sum),
the target also makes good what that branch has lost:

    W′ x′ + b′  ≈  W x + b + (s − s′) / γ̄

γ̄ is the factor of the batch norm between the layer and the sum (1 without one), so that batch norms stay in the
network and the solution is that of the folded one. Constants go into the bias, or into the mean of the batch norm
behind. At the end the layer that gives the output is refitted with a stronger penalty.

A dense layer that reads every channel at many positions (behind a flattening) has too many inputs for that: instead the
channels of the original network are regressed on those left, h ≈ A h′ + a at every position, and W is multiplied by A.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

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
from weightsmith.networks.evaluation import batches_for, inputs_of
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import memory_format_of
from weightsmith.reducing.decisions import Choice
from weightsmith.reducing.refitting.flow import SideBySide, Stop, Values
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.refitting.patches import at_least_float, drawn_places, input_rows, is_supported, output_rows
from weightsmith.reducing.refitting.solving import Change, Regression
from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["LayerRefit", "RefitRecord", "refit", "stand_ins"]

PLACES = 64  # output positions of a convolution that are looked at in each image
BLOCK = 50  # images at a time
_LAST_RIDGE = 1e-3
_DEAD = 1e-3  # a batch norm's factor below this share of its largest carries no correction of a sum
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
    """What a refit did: rows looked at, layers in their order, and layers left as they were, with the reason."""

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
        layer: f"a {type(original.get_submodule(layer)).__name__} is not solved for"
        for layer in readers.reads
        if not is_supported(original.get_submodule(layer))
    }
    saved = {name: value.clone() for name, value in cut.state_dict().items()}
    done = []
    refitting = _Refitting(before, cut, readers, seed)
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
    """The values of the output layer; refused if the steps, run one by one, do not give what the network gives."""
    expected = original(block.clone())
    for number, each in enumerate(values):
        if number == 0 and not torch.allclose(
            each.output, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())
        ):
            raise UsageError("its steps, run one by one, do not give the outputs of the network")
        yield each


class _Readers:
    """The layers that read removed units, with the sites they read, and the outputs of every layer that stay."""

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
        """The outputs of a layer that stay."""
        gone = self._gone.get(layer, set())
        return torch.tensor([index for index in range(total) if index not in gone], dtype=torch.int64)

    def spread(self, layer: str) -> tuple[Port, Choice] | None:
        """The one site that the layer reads at several inputs for each unit; None if it is read in another way."""
        read = self.reads.get(layer, [])
        return read[0] if len(read) == 1 and layer in self._spread else None


class _Refitting:
    """A refit under way: each layer that is solved is written into the cut network at once."""

    def __init__(self, original: nn.Module, cut: nn.Module, readers: _Readers, seed: int) -> None:
        self.original, self.cut, self.readers, self.seed = original, cut, readers, seed

    def solve(self, stop: Stop, values: Iterator[Values], ridge: float) -> LayerRefit | str:
        """Solve one layer and write its weight; or why it stays as it is. All values are taken in any case."""
        layer = self.cut.get_submodule(stop.layer)
        spread = self.readers.spread(stop.layer) if isinstance(layer, nn.Linear) else None
        if spread is not None and layer.in_features == spread[0].of(spread[1].kept).size:
            return self._by_channels(stop, values, ridge, spread)
        columns = layer.get_parameter("weight")[0].numel()
        if columns <= _MOST_COLUMNS:
            return self._by_patches(stop, values, ridge)
        for _ in values:
            pass
        return f"reads {columns} values at once, more than the {_MOST_COLUMNS} that a refit solves for"

    def _by_patches(self, stop: Stop, values: Iterator[Values], ridge: float) -> LayerRefit:
        """Regress the targets on what the layer multiplies by its weight."""
        old, new = self.original.get_submodule(stop.layer), self.cut.get_submodule(stop.layer)
        taker = self._taker(stop)
        kept = self.readers.outputs(stop.layer, len(old.get_parameter("weight")))
        weight, offset = at_least_float(new.get_parameter("weight").flatten(1)), _offset(new)
        scale = _scale(self.original, stop.norm, kept)
        found = Regression(weight.shape[1], len(weight), constant=taker is not None, precision=_precision(weight))
        targets_seen = _Variance(len(weight))
        generator = stream(self.seed, "refit", stop.layer)
        summed = False
        for block in values:
            places = drawn_places(old, block.output, PLACES, generator)
            rows = at_least_float(input_rows(new, block.given, places))
            targets = at_least_float(output_rows(old, block.output, places)[:, kept.to(block.output.device)])
            drift = _drift(block, old, kept, places)
            if drift is not None:
                targets, summed = targets + drift * scale, True
            found.add(rows.cpu().numpy(), (targets - rows @ weight.T - offset).cpu().numpy())
            targets_seen.add(targets.cpu().numpy())
        change = found.solve(ridge)
        self._apply(new, change, taker)
        return _layer_refit(stop.layer, change, targets_seen.total, summed=summed)

    def _by_channels(
        self, stop: Stop, values: Iterator[Values], ridge: float, spread: tuple[Port, Choice]
    ) -> LayerRefit:
        """Regress the original channels on those left, at all positions alike, and multiply the weight by the map."""
        port, choice = spread
        old, new = self.original.get_submodule(stop.layer), self.cut.get_submodule(stop.layer)
        taker = self._taker(stop)
        indices = torch.from_numpy(port.indices)  # unit × position
        left = _places_left(indices, torch.tensor(choice.kept))
        dtype = at_least_float(new.get_parameter("weight")).dtype
        mapped, constants = (torch.from_numpy(part).to(dtype) for part in stand_ins(choice))
        precision = _precision(new.get_parameter("weight"))
        found = Regression(len(left), choice.units, constant=taker is not None, precision=precision)
        channels_seen = _Variance(choice.units)
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
        weight = layer.get_parameter("weight")
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
    """What the cut puts in place of every unit: h ≈ h′ A + a, with A (kept × units) and a (units).

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
    """The inputs of the cut layer that belong to each kept unit: ranks of the old ones among those that stay."""
    old = indices[stays]
    order = torch.empty(int(indices.max()) + 1, dtype=torch.int64)
    order[old.reshape(-1).sort().values] = torch.arange(old.numel())
    return order[old]


def _offset(layer: nn.Module) -> Tensor | float:
    bias = getattr(layer, "bias", None)
    return 0.0 if bias is None else at_least_float(bias)


def _scale(network: nn.Module, norm: str | None, kept: Tensor) -> Tensor | float:
    """1/γ̄ of each output, by which a drift behind the batch norm is brought before it; 0 for outputs it silences."""
    if norm is None:
        return 1.0
    module = network.get_submodule(norm)
    factor = (module.get_buffer("running_var").double() + float(module.eps)).rsqrt()  # type: ignore[arg-type]
    if module.weight is not None:
        factor = factor * module.get_parameter("weight").double()
    factor = factor[kept.to(factor.device)]
    alive = factor.abs() > _DEAD * factor.abs().max()
    inverse = torch.where(alive, 1.0 / torch.where(alive, factor, torch.ones_like(factor)), torch.zeros_like(factor))
    return inverse.to(at_least_float(module.get_buffer("running_var")).dtype)


def _drift(block: Values, layer: nn.Module, kept: Tensor, places: tuple[Tensor, ...] | None) -> Tensor | None:
    """By how much the other branch of the sum is too small, as rows; None without one of the same shape."""
    if block.drift is None:
        return None
    original, reduced = block.drift
    if original.shape != block.output.shape or reduced.shape[1] != len(kept):
        return None
    whole = at_least_float(output_rows(layer, original, places)[:, kept.to(original.device)])
    return whole - at_least_float(output_rows(layer, reduced, places))


def _precision(weight: Tensor) -> Literal["float64", "mixed"]:
    return "float64" if weight.dtype == torch.float64 else "mixed"


class _Variance:
    """Σ (t − mean)² over rows and outputs."""

    def __init__(self, outputs: int) -> None:
        self._rows, self._sums, self._squares = 0, np.zeros(outputs), np.zeros(outputs)

    def add(self, targets: NDArray[np.floating[Any]]) -> None:
        self._rows += len(targets)
        self._sums += targets.sum(axis=0, dtype=np.float64)
        self._squares += np.square(targets, dtype=np.float64).sum(axis=0)

    @property
    def total(self) -> float:
        return float((self._squares - self._sums**2 / max(self._rows, 1)).sum())


def _layer_refit(layer: str, change: Change, total: float, *, summed: bool) -> LayerRefit:
    before, after = (error / total if total > 0 else 0.0 for error in (change.before, change.after))
    return LayerRefit(layer, before, after, summed)
