"""Transfer learning: the lower blocks of a trained network under a new head (slides, seed 002).

The slides: reuse the lower layers of a pretrained network, add layers for the new data on top of them, and resize the
data to the input size of the network. A *block* is the unit that can be cut off: a dense layer or a convolution, in
residual networks the stem or a residual block (:mod:`weightsmith.networks.editing.blocks`).

>>> from weightsmith.networks.models.vgg import vgg
>>> network = graft(vgg(5, classifier=(32,)), (1, 28, 28), 4, reuse=2, hidden=(16,))
>>> [name for name, _ in network.named_children()], network.head.dense1
(['resize', 'channels', 'base', 'pool', 'head'], Linear(in_features=128, out_features=16, bias=True))
>>> [block.layers for block in reused(network)]
[('base.features.0',), ('base.features.3',)]
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Literal, Self

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.core.options import param
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.networks.card import Card, card_of, weights_digest, with_card
from weightsmith.networks.editing.blocks import Block, Chain, without_last_dense
from weightsmith.networks.models.architecture import Architecture, WidthSlot, architecture_of
from weightsmith.networks.models.mlp import Mlp
from weightsmith.networks.precision import like_of
from weightsmith.networks.running import FAILURES, cannot_take
from weightsmith.networks.wrappers import check_open

__all__ = ["Brightness", "Channels", "Grafted", "Resize", "fit_inputs", "graft", "reused"]


class Grafted(Architecture, name="grafted"):
    """The first ``reuse`` blocks of ``base`` under a new head of dense layers.

    Inputs of another shape than the base takes are resized, and grey images are copied to its channels. Feature maps at
    the end of the reused part are averaged or flattened before the head.
    """

    base: str = param(doc="text form of the network whose lower part is reused")
    reuse: int = param(ge=1, doc="number of its blocks to reuse")
    hidden: tuple[int, ...] = param(default=(), ge=1, doc="widths of the head's hidden layers")
    dropout: float = param(default=0.0, ge=0, lt=1, doc="rate after each hidden layer of the head")
    pool: Literal["mean", "flatten"] = param(default="mean", doc="feature maps are averaged or flattened")
    normalise: str = param(default="none", doc="normalisation after grey images are copied to the base's channels")

    def check(self) -> None:
        """The base must be complete, and its inputs reachable by resizing and channel conversion."""
        super().check()
        base = self.base_option
        if not base.input_shape or base.classes is None:
            raise OptionError(f"grafted: the base {self.base} must give its input_shape and classes")
        if self.input_shape:
            self._inputs()

    @functools.cached_property
    def base_option(self) -> Architecture:
        """The base as an option object, parsed only once, because a base may be nested in others."""
        return Architecture.parse(self.base)

    def assemble(self) -> nn.Module:
        """The input adapters, ``base``, ``pool`` for feature maps, and ``head``."""
        chain = Chain(self.base_option.assemble())
        if self.reuse >= len(chain.blocks):
            raise OptionError(f"grafted: {self.base} has {len(chain.blocks) - 1} blocks to reuse, not {self.reuse}")
        lower = chain.lower(self.reuse)
        pool, width = _pooled(_features(lower, self.base_option.input_shape), self.pool)
        return _Graft(self._inputs(), lower, chain.blocks[: self.reuse], pool, self.head(width).assemble())

    def width_slots(self) -> dict[str, WidthSlot]:
        """The slots of the reused layers of the base, and of the head's hidden layers."""
        reused = {layer for block in Chain(self.base_option.outline()).blocks[: self.reuse] for layer in block.layers}
        base, head = self.base_option.width_slots(), self.head(1).width_slots()
        return {
            **{
                f"base.{layer}": WidthSlot(f"base.{p.parameter}", p.position)
                for layer, p in base.items()
                if layer in reused
            },
            **{f"head.{layer}": slot for layer, slot in head.items()},
        }

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """The widths of the base, as ``base.…``, and the head's."""
        base = self.base_option.widths_in_use()
        return {"hidden": self.hidden, **{f"base.{parameter}": widths for parameter, widths in base.items()}}

    def with_widths(self, widths: Mapping[str, tuple[int, ...]]) -> Self:
        """The widths of the base are written into its own spec."""
        below = {key.removeprefix("base."): value for key, value in widths.items() if key.startswith("base.")}
        return dataclasses.replace(self, base=str(self.base_option.with_widths(below)), hidden=widths["hidden"])

    def head(self, width: int) -> Mlp:
        """The head for that many features, as an architecture of its own."""
        return Mlp(
            self.hidden,
            dropout=self.dropout,
            dropout_layers=max(1, len(self.hidden)),
            input_shape=(width,),
            classes=self.classes,
            activation=self.activation,
            initialiser=self.initialiser,
        )

    def _inputs(self) -> OrderedDict[str, nn.Module]:
        return fit_inputs(self.input_shape, self.base_option.input_shape, Normalisation.parse(self.normalise))


def graft(
    base: nn.Module,
    input_shape: Sequence[int],
    classes: int | Sequence[str],
    *,
    reuse: int | None = None,
    seed: int = 0,
    **options: object,
) -> nn.Module:
    """A network for inputs of ``input_shape`` on the lowest ``reuse`` blocks of ``base`` (None: all but the last).

    ``classes`` are the names or the number of the new classes; further parameters of :class:`Grafted` (``hidden``,
    ``dropout``, ``pool``, ``activation``) are given by name. The default activation is that of the base. The reused
    weights are copied, those of the head drawn from ``seed``. The card keeps the base's normalisation; one that does
    not fit grey images becomes part of the network.

    ``base`` may be a user-defined module. The result then has no architecture, so that loading it needs the user's
    function; if its data flow cannot be traced, only its last dense layer can be cut off.
    """
    shape, count = tuple(input_shape), classes if isinstance(classes, int) else len(classes)
    card, architecture = card_of(base), architecture_of(base)
    takes = (architecture.input_shape if architecture is not None else card.input_shape) or shape
    inside = len(card.normalisation.mean) > 1 and shape[0] != takes[0]
    values = {"normalise": str(card.normalisation) if inside else "none", **options}
    values |= {"input_shape": shape, "classes": count}
    if architecture is not None:
        blocks = len(Chain(base).blocks) - 1 if reuse is None else reuse
        values = {"activation": architecture.activation, "base": str(architecture), "reuse": blocks, **values}
        network = Grafted.from_values(values).build(seed)
        _copy(base, network.get_submodule("base"))
    else:
        # A placeholder base to parse the options: a user-defined module has no text form.
        stand_in = Mlp((1,), input_shape=takes, classes=1)
        spec = Grafted.from_values({"base": str(stand_in), "reuse": 1, **values})
        network = _on_own_module(base, takes, reuse, spec, seed)
    lineage = card.lineage.then(f"cut, with a new head for {count} classes", weights_digest(base))
    normalisation, names = NONE if inside else card.normalisation, () if isinstance(classes, int) else tuple(classes)
    kept = dict(network.named_modules())
    widths = {f"base.{layer}": units for layer, units in card.widths.items() if f"base.{layer}" in kept}
    new = Card(architecture_of(network), None, shape, normalisation, names, lineage, widths=widths)
    return with_card(network.requires_grad_(True), new)


def reused(network: nn.Module) -> tuple[Block, ...]:
    """The blocks that a grafted network took over from its base, lowest first, by their names in this network."""
    if not isinstance(network, _Graft):
        raise UsageError(f"{type(network).__name__} is not a grafted network: it has no reused blocks")
    return network.blocks


class _Graft(nn.Sequential):
    """Input adapters, base, pool and head in sequence; ``blocks`` are those of the base."""

    def __init__(
        self,
        inputs: OrderedDict[str, nn.Module],
        lower: nn.Module,
        blocks: tuple[Block, ...],
        pool: nn.Module | None,
        head: nn.Module,
    ) -> None:
        middle = {"base": lower} if pool is None else {"base": lower, "pool": pool}
        super().__init__(OrderedDict(**inputs, **middle, head=head))
        self.blocks = tuple(block.under("base") for block in blocks)


def _on_own_module(base: nn.Module, takes: tuple[int, ...], reuse: int | None, spec: Grafted, seed: int) -> nn.Module:
    """A graft on a user-defined module."""
    try:
        chain = Chain(base, _example(base, takes))
        lower = chain.lower(len(chain.blocks) - 1 if reuse is None else reuse)
        blocks = chain.blocks[: reuse if reuse is not None else -1]
    except UsageError:
        check_open(base)
        lower, blocks = without_last_dense(base, _example(base, takes))
        if reuse not in (None, len(blocks)):
            raise
    pool, width = _pooled(_features(lower, takes), spec.pool)
    inputs = fit_inputs(spec.input_shape, takes, Normalisation.parse(spec.normalise))
    head = spec.head(width).build(seed).to(like_of(base).dtype)
    return _Graft(inputs, lower, blocks, pool, head)


def _example(network: nn.Module, shape: tuple[int, ...]) -> Tensor:
    like = like_of(network)
    return torch.zeros((2, *shape), dtype=like.dtype, device=like.device)


@torch.no_grad()
def _features(lower: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """The output of the reused part for two inputs of that shape."""
    example = _example(lower, shape)
    try:
        found = lower.eval()(example)
    except FAILURES as error:
        raise cannot_take(lower, example, error) from error
    if not isinstance(found, Tensor) or found.dim() < 2 or found.shape[0] != 2:
        what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise UsageError(
            f"the kept part of the base gives {what} for two inputs, not features per input; reuse more or fewer blocks"
        )
    return found


def _pooled(features: Tensor, kind: str) -> tuple[nn.Module | None, int]:
    """The pooling layer, if there are feature maps and pooling is wanted, and the number of features after it."""
    pools = {3: nn.AdaptiveAvgPool1d, 4: nn.AdaptiveAvgPool2d, 5: nn.AdaptiveAvgPool3d}
    if kind == "flatten" or features.dim() not in pools:
        return None, math.prod(features.shape[1:])
    return pools[features.dim()](1), features.shape[1]


@torch.no_grad()
def _copy(base: nn.Module, lower: nn.Module) -> None:
    """Copy the weights and statistics of ``base`` into the kept part."""
    source = base.state_dict()
    for name, target in lower.state_dict().items():
        if name not in source or source[name].shape != target.shape:
            raise DataMismatch(f"the base was changed since it was built: {name} is not as its architecture says")
        target.copy_(source[name])


# Input adapters: convert inputs of one shape to another, so that a network can be reused on other data.
#
# Images are resized by bilinear interpolation (with anti-aliasing if they shrink), a grey image is copied to every
# channel, a coloured one is reduced to a single channel by its brightness. All of this is linear with weights that add
# up to 1, so inputs can be normalised before or after it; only a normalisation with a value per channel must come after
# grey images are copied to the channels.
#
# >>> list(fit_inputs((1, 28, 28), (3, 32, 32)))
# ['resize', 'channels']
# >>> fit_inputs((3, 32, 32), (3, 32, 32))
# OrderedDict()


def fit_inputs(
    given: tuple[int, ...], wanted: tuple[int, ...], normalisation: Normalisation = NONE
) -> OrderedDict[str, nn.Module]:
    """The layers, by name, that convert inputs of shape ``given`` to shape ``wanted``; none if the shapes are equal.

    ``normalisation`` is applied after grey images are copied to the channels, and refused otherwise: it then belongs in
    the network's card, which describes the preprocessing of raw inputs.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if 1 in (len(given), len(wanted)) and math.prod(given) == math.prod(wanted):
        if len(wanted) == 3 and len(given) == 1:
            layers["shape"] = nn.Unflatten(1, wanted)
        elif len(wanted) == 1 and len(given) > 1:
            layers["shape"] = nn.Flatten()
    elif len(given) == len(wanted) == 3 and (given[0] == wanted[0] or 1 in (given[0], wanted[0])):
        if given[1:] != wanted[1:]:
            layers["resize"] = Resize(given[1:], wanted[1:])
        if given[0] == 1 != wanted[0]:
            layers["channels"] = Channels(wanted[0], normalisation)
        elif wanted[0] == 1 != given[0]:
            layers["brightness"] = Brightness(given[0])
    elif given != wanted:
        raise DataMismatch(f"inputs of shape {given} cannot be converted to the {wanted} that the network takes")
    if normalisation != NONE and "channels" not in layers:
        raise DataMismatch(
            f"the normalisation {normalisation} belongs on the card: no grey images are copied to channels"
        )
    return layers


class Resize(nn.Module):
    """Resize images to another height and width, bilinear; pixels are areas (corners are not aligned)."""

    def __init__(self, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        super().__init__()
        self.size = wanted
        self.smooth = any(after < before for before, after in zip(given, wanted, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c, *size)."""
        return nn.functional.interpolate(x, self.size, mode="bilinear", align_corners=False, antialias=self.smooth)

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return f"{self.size[0]}×{self.size[1]}{', smoothed' if self.smooth else ''}"


class Channels(nn.Module):
    """Copy a grey image to every channel, each with its own normalisation.

    >>> Channels(2, Normalisation((0.0, 0.5), (1.0, 0.5)))(torch.ones(1, 1, 1, 1)).flatten()
    tensor([1., 1.])
    """

    def __init__(self, count: int, normalisation: Normalisation = NONE) -> None:
        super().__init__()
        if len(normalisation.mean) not in (0, 1, count):
            raise DataMismatch(f"normalisation {normalisation} does not fit {count} channels")
        means, deviations = normalisation.mean or (0.0,), normalisation.std or (1.0,)
        self.means, self.deviations = (values * (count // len(values)) for values in (means, deviations))

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1, h, w) → (n, count, h, w)."""
        return torch.cat([(x - m) / s for m, s in zip(self.means, self.deviations, strict=True)], dim=1)

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return f"{len(self.means)}, means={self.means}, deviations={self.deviations}"


class Brightness(nn.Module):
    """One channel from several: 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601) of three, otherwise the mean."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.shares = (0.299, 0.587, 0.114) if count == 3 else (1 / count,) * count

    def forward(self, x: Tensor) -> Tensor:
        """(n, count, h, w) → (n, 1, h, w)."""
        first, *others = (x[:, i : i + 1] * share for i, share in enumerate(self.shares))
        for other in others:
            first = first + other
        return first

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return ", ".join(f"{share:.3g}" for share in self.shares)
