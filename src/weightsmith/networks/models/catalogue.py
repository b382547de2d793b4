"""Recognise the architecture of a weight file by its keys and shapes.

Each *layout* proposes an architecture from the names and shapes alone; the proposal counts only if the network it
builds has exactly the file's keys and shapes. Guesses (an activation, a normalisation) become notes, which the command
line prints.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args

import torch

from weightsmith.core.errors import OptionError
from weightsmith.data.catalogue import CATALOGUE
from weightsmith.data.normalise import HALF, IMAGENET, NONE, Normalisation
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.mlp import Mlp
from weightsmith.networks.models.resnet import Resnet
from weightsmith.networks.models.vgg import LISTS, Vgg
from weightsmith.networks.weights import Weights

__all__ = ["LAYOUTS", "Match", "Removed", "bare_names", "common_names", "expected_shapes", "is_counter", "recognise"]

Shapes = Mapping[str, tuple[int, ...]]
Removed = Literal["skip", "zero"]

_GRAFTED = "base."
_WRAPPER = re.compile(r"(module|model|net|network|_orig_mod)\.")


@dataclasses.dataclass(frozen=True)
class Match:
    """A recognised network: its architecture, normalisation, mapping of keys, and notes on what was guessed."""

    layout: str
    architecture: Architecture
    normalisation: Normalisation
    keys: dict[str, str]
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


def recognise(weights: Weights, removed: Removed = "skip") -> Match | None:
    """The match of a file's keys and shapes, or None if no layout fits.

    ``removed`` sets how all-zero convolutions of a residual network are read: ``skip`` (removed, the input is passed
    on, as in distiller's layer removal) or ``zero`` (ordinary layers whose output is zero).
    """
    if removed not in get_args(Removed):
        raise OptionError(f"removed must be skip or zero, not {removed!r}")
    names = bare_names(weights.entries)
    shapes = {names[name]: entry.shape for name, entry in weights.entries.items()}
    for layout in LAYOUTS:
        if layout is _dense_chain and weights.format in ("onnx", "keras"):
            continue  # the file defines the operations between its layers, which we do not read: no guess
        try:
            match = layout(shapes)
        except OptionError:  # the shapes are outside what the architecture allows, so it is not that one
            continue
        if match is not None and _fits(match, shapes):
            match = dataclasses.replace(match, keys={name: match.keys[bare] for name, bare in names.items()})
            return _without_removed(match, weights) if removed == "skip" else match
    return None


def bare_names(names: Mapping[str, object]) -> dict[str, str]:
    """Each name without the prefix that wrappers put before all of them (``module.``, ``model.``, ``_orig_mod.``)."""
    bare = {name: name for name in names}
    while prefix := _WRAPPER.match(min(bare.values(), default="")):
        if not all(name.startswith(prefix[0]) for name in bare.values()):
            break
        bare = {name: rest.removeprefix(prefix[0]) for name, rest in bare.items()}
    return bare


def common_names(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """The names of two networks for comparison: without prefixes of wrappers, and without the ``base.`` that
    ``transfer`` puts before the names of the reused network.

    >>> common_names({"base.dense1": 0, "head": 0}, {"module.dense1": 0, "module.output": 0})
    ({'base.dense1': 'dense1', 'head': 'head'}, {'module.dense1': 'dense1', 'module.output': 'output'})
    """
    bare = [bare_names(first), bare_names(second)]
    for own, other in (bare, bare[::-1]):
        known = set(other.values())
        for name, text in own.items():
            inner = text
            while inner not in known and inner.startswith(_GRAFTED):
                inner = inner.removeprefix(_GRAFTED)
            if inner in known and inner not in own.values():
                own[name] = inner
    return bare[0], bare[1]


def expected_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Keys and shapes of the network an architecture builds, without allocating it."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in architecture.assemble().state_dict().items()}


def _residual(shapes: Shapes) -> Match | None:
    """CIFAR ResNets as akamaster/pytorch_resnet_cifar10 and IntelLabs/distiller write them, and our own."""
    last = next((name for name in ("linear", "fc") if f"{name}.weight" in shapes), None)
    blocks = sum(bool(re.fullmatch(r"layer1\.\d+\.conv1\.weight", name)) for name in shapes)
    stages = [[f"layer{s}.{b}.conv{c}.weight" for b in range(blocks) for c in (1, 2)] for s in (1, 2, 3)]
    convolutions = ["conv1.weight", *(name for stage in stages for name in stage)]
    if last is None or not blocks or not all(_is_filled(shapes.get(name, ()), 4) for name in convolutions):
        return None
    if not _is_filled(shapes[f"{last}.weight"], 2):
        return None
    widths = tuple(shapes[stage[-1]][0] for stage in stages)
    inner = tuple(shapes[name][0] for stage in stages for name in stage[::2])
    has_convolution = any(re.search(r"\.(downsample|shortcut)\.0\.weight$", name) for name in shapes)
    architecture = Resnet(
        6 * blocks + 2,
        shortcut="conv" if has_convolution else "pad",
        widths=widths,
        inner=() if inner == tuple(width for width in widths for _ in range(blocks)) else inner,
        input_shape=(shapes["conv1.weight"][1], 32, 32),
        classes=shapes[f"{last}.weight"][0],
    )
    keys = {name: re.sub(rf"^{last}\.", "fc.", name).replace(".shortcut.", ".downsample.") for name in shapes}
    if last == "linear" and not has_convolution:
        return Match("akamaster/pytorch_resnet_cifar10", architecture, IMAGENET, keys, classes=_cifar(architecture))
    if last == "fc" and has_convolution:
        return Match("IntelLabs/distiller", architecture, HALF, keys, classes=_cifar(architecture))
    return Match("CIFAR ResNet", architecture, NONE, keys, ("normalisation unknown: none used",))


def _cifar(architecture: Resnet) -> tuple[str, ...]:
    """The classes of CIFAR-10 for ten outputs: both repositories publish networks for CIFAR-10 only."""
    return CATALOGUE["cifar10"].classes if architecture.classes == 10 else ()


def _vgg(shapes: Shapes) -> Match | None:
    """VGG with ``features`` and ``classifier`` as our builder names them."""
    convolutions = [shapes[name] for name in _numbered(shapes, "features", 4)]
    dense = [shapes[name] for name in _numbered(shapes, "classifier", 2)]
    depths = {sum(item != "A" for item in plan): depth for depth, plan in LISTS.items()}
    if len(convolutions) not in depths or not dense or not all(_is_filled(s, len(s)) for s in convolutions + dense):
        return None
    depth = depths[len(convolutions)]
    widths = tuple(shape[0] for shape in convolutions)
    # The first dense layer sees the last convolution's channels times the pixels left of a square image.
    side = math.isqrt(dense[0][1] // widths[-1]) * 2 ** LISTS[depth].count("A")
    values = {
        "depth": depth,
        "widths": () if widths == tuple(item for item in LISTS[depth] if item != "A") else widths,
        "classifier": tuple(shape[0] for shape in dense[:-1]),
        "input_shape": (convolutions[0][1], side, side),
        "classes": dense[-1][0],
        "bias": "features.0.bias" in shapes,
        "batch_norm": any(name.endswith("running_mean") for name in shapes),
    }
    notes = ("average pooling, ReLU and normalisation 0.5/0.5 assumed",)
    return Match("VGG", Vgg.from_values(values), HALF, {name: name for name in shapes}, notes)


def _dense_chain(shapes: Shapes) -> Match | None:
    """Only dense layers, each fitting the one before: an MLP, whatever its layers are called."""
    weights = _in_order({name: shape for name, shape in shapes.items() if len(shape) == 2 and name.endswith("weight")})
    chain = [shapes[name] for name in weights]
    if not chain or any(after[1] != before[0] for before, after in itertools.pairwise(chain)):
        return None
    architecture = Mlp(
        tuple(shape[0] for shape in chain[:-1]),
        input_shape=(chain[0][1],),
        classes=chain[-1][0],
        bias=any(len(shape) == 1 for shape in shapes.values()),
    )
    ours = [*(f"dense{number}" for number in range(1, len(weights))), "output"]
    renamed = {name.removesuffix("weight"): f"{our}." for name, our in zip(weights, ours, strict=True)}
    keys = {name: re.sub(r"^.*?(?=weight$|bias$)", lambda m: renamed.get(m[0], m[0]), name) for name in shapes}
    notes = ("ReLU between the dense layers assumed", "normalisation unknown: none used")
    return Match("dense layers", architecture, NONE, keys, notes)


def _in_order(shapes: Shapes) -> list[str]:
    """Dense layers from first to last by the numbers in their names, or by shapes if these allow only one order.

    Empty if neither decides. The order in a file does not: safetensors files are sorted by name.
    """
    if any(re.search(r"lora|embed", name, re.IGNORECASE) for name in shapes):
        return []
    numbers = {name: [int(n) for n in re.findall(r"\d+", name)] for name in shapes}
    last = [name for name in shapes if re.search(r"(^|\.)output\.weight$", name)]
    counted = [name for name in shapes if name not in last]
    if (
        len(last) <= 1
        and all(numbers[name] for name in counted)
        and len({*map(tuple, numbers.values())}) == len(shapes)
    ):
        return [*sorted(counted, key=numbers.__getitem__), *last]
    fed = {shape[0] for shape in shapes.values()}
    order = [name for name, shape in shapes.items() if shape[1] not in fed]
    while len(order) < len(shapes):
        following = [name for name in shapes if name not in order and order and shapes[name][1] == shapes[order[-1]][0]]
        if len(order) == 0 or len(following) != 1:
            return []
        order += following
    return order if len(shapes) == 1 or sum(shape[1] not in fed for shape in shapes.values()) == 1 else []


LAYOUTS: tuple[Callable[[Shapes], Match | None], ...] = (_residual, _vgg, _dense_chain)


def _is_filled(shape: tuple[int, ...], rank: int) -> bool:
    return len(shape) == rank and 0 not in shape


def _numbered(shapes: Shapes, part: str, rank: int) -> list[str]:
    """The weights ``part.N.weight`` of that rank, by N."""
    names = [
        name for name, shape in shapes.items() if re.fullmatch(rf"{part}\.\d+\.weight", name) and len(shape) == rank
    ]
    return sorted(names, key=lambda name: int(name.split(".")[1]))


def _fits(match: Match, shapes: Shapes) -> bool:
    """Whether the proposed network has exactly the file's keys and shapes (counters of batch norm aside)."""
    expected = {key: shape for key, shape in expected_shapes(match.architecture).items() if not is_counter(key)}
    return expected == {match.keys[name]: shape for name, shape in shapes.items() if not is_counter(name)}


def is_counter(name: str) -> bool:
    """Whether a key is batch norm's count of batches, which many files leave out."""
    return name.endswith("num_batches_tracked")


def _without_removed(match: Match, weights: Weights) -> Match:
    """The match with its all-zero block convolutions taken out of the architecture."""
    if not isinstance(match.architecture, Resnet):
        return match
    inside = {name: key for name, key in match.keys.items() if re.fullmatch(r"layer\d\.\d+\.conv\d\.weight", key)}
    zero = sorted(key.removesuffix(".weight") for name, key in inside.items() if not weights.tensor(name).any())
    if not zero:
        return match
    architecture = dataclasses.replace(match.architecture, removed=tuple(zero))
    try:
        kept = set(expected_shapes(architecture))
    except OptionError as error:  # one of them changes shapes and cannot have been removed
        return dataclasses.replace(match, notes=(*match.notes, f"all-zero layers are kept: {error}"))
    keys = {name: key for name, key in match.keys.items() if key in kept}
    note = f"removed layers are skipped: {', '.join(zero)} (all zero; --removed zero keeps them)"
    return dataclasses.replace(match, architecture=architecture, keys=keys, notes=(*match.notes, note))
