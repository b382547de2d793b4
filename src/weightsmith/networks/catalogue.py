"""Recognise a file of weights by its keys and shapes, so that known networks need no option at all.

Each *layout* proposes an architecture from the names and shapes alone; the proposal counts only if the network it
builds has exactly the file's keys and shapes. What had to be guessed (an activation, a normalisation) is a note that
the command line prints.
"""

from __future__ import annotations

import dataclasses
import os.path
import re
from collections.abc import Callable, Mapping
from typing import Literal

import torch

from weightsmith.core.errors import OptionError
from weightsmith.data.normalise import HALF, IMAGENET, NONE, Normalisation
from weightsmith.networks.architecture import Architecture
from weightsmith.networks.mlp import Mlp
from weightsmith.networks.resnet import Resnet
from weightsmith.networks.vgg import LISTS, Vgg
from weightsmith.networks.weights import Weights

__all__ = ["LAYOUTS", "Match", "Removed", "bare_names", "expected_shapes", "recognise"]

Shapes = Mapping[str, tuple[int, ...]]
Removed = Literal["skip", "zero"]


@dataclasses.dataclass(frozen=True)
class Match:
    """A recognised network: how to build it, what to feed it, which key goes where, and what was guessed."""

    layout: str
    architecture: Architecture
    normalisation: Normalisation
    keys: dict[str, str]
    notes: tuple[str, ...] = ()


def recognise(weights: Weights, removed: Removed = "skip") -> Match | None:
    """The match of a file's keys and shapes, or None if no layout fits.

    ``removed`` says what convolutions of a residual network that are all zero mean: ``skip`` (taken out, the input
    passes on, as distiller's layer removal does) or ``zero`` (layers like any other, whose output is zero).
    """
    names = bare_names(weights.entries)
    shapes = {names[name]: entry.shape for name, entry in weights.entries.items()}
    for layout in LAYOUTS:
        match = layout(shapes)
        if match is not None:
            match = dataclasses.replace(match, keys={name: match.keys[bare] for name, bare in names.items()})
            return _without_removed(match, weights) if removed == "skip" else match
    return None


def bare_names(names: Mapping[str, object]) -> dict[str, str]:
    """Each name without the prefix that wrappers put before all of them (``module.``, ``model.``, ``_orig_mod.``)."""
    prefix = re.match(r"((?:module|model|net|network|_orig_mod)\.)*", os.path.commonprefix(list(names)))
    length = prefix.end() if prefix else 0
    return {name: name[length:] for name in names}


def expected_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Keys and shapes of the network an architecture builds, without building it."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in architecture.assemble().state_dict().items()}


def _residual(shapes: Shapes) -> Match | None:
    """CIFAR ResNets as akamaster/pytorch_resnet_cifar10 and IntelLabs/distiller write them, and our own."""
    blocks = sorted({int(m[1]) for m in (re.fullmatch(r"layer1\.(\d+)\.conv1\.weight", name) for name in shapes) if m})
    last = next((name for name in ("linear", "fc") if f"{name}.weight" in shapes), None)
    if last is None or not blocks or "layer3.0.conv1.weight" not in shapes:
        return None
    has_convolution = any(re.search(r"\.(downsample|shortcut)\.0\.weight$", name) for name in shapes)
    convolutions = [[f"layer{s}.{b}.conv{c}.weight" for b in blocks for c in (1, 2)] for s in (1, 2, 3)]
    if not all(name in shapes for stage in convolutions for name in stage):
        return None
    widths = tuple(shapes[stage[-1]][0] for stage in convolutions)
    inner = tuple(shapes[name][0] for stage in convolutions for name in stage[::2])
    plain = inner == tuple(width for width in widths for _ in blocks)
    classes, (channels, *_) = shapes[f"{last}.weight"][0], shapes["conv1.weight"][1:]
    try:
        architecture = Resnet(
            6 * len(blocks) + 2,
            shortcut="conv" if has_convolution else "pad",
            widths=widths,
            inner=() if plain else inner,
            input_shape=(channels, 32, 32),
            classes=classes,
        )
    except OptionError:
        return None
    keys = {name: re.sub(rf"^{last}\.", "fc.", name).replace(".shortcut.", ".downsample.") for name in shapes}
    origins = {
        ("linear", False): ("akamaster/pytorch_resnet_cifar10", IMAGENET),
        ("fc", True): ("IntelLabs/distiller", HALF),
    }
    origin, normalisation = origins.get((last, has_convolution), ("CIFAR ResNet", NONE))
    guessed = () if normalisation is not NONE else ("normalisation not known: none used",)
    return _verified(origin, architecture, normalisation, keys, shapes, guessed)


def _vgg(shapes: Shapes) -> Match | None:
    """VGG with ``features`` and ``classifier`` as our builder names them."""
    convolutions = [shape for name, shape in shapes.items() if name.startswith("features.") and len(shape) == 4]
    dense = [shape for name, shape in shapes.items() if name.startswith("classifier.") and len(shape) == 2]
    ordered = sorted(((int(n.split(".")[1]), s) for n, s in shapes.items() if len(s) == 4 and n.startswith("features.")))
    depths = {sum(item != "A" for item in plan): depth for depth, plan in LISTS.items()}
    if len(convolutions) not in depths or not dense:
        return None
    depth = depths[len(convolutions)]
    layers = sorted(((int(n.split(".")[1]), s) for n, s in shapes.items() if len(s) == 2 and n.startswith("classifier.")))
    widths, hidden = tuple(s[0] for _, s in ordered), tuple(s[0] for _, s in layers)
    # The first dense layer sees the last convolution's channels times the pixels left: the image is square.
    pixels = layers[0][1][1] / widths[-1]
    side = round(pixels**0.5) * 2 ** LISTS[depth].count("A")
    try:
        architecture = Vgg(
            depth,  # type: ignore[arg-type]  # checked by the option itself
            widths=() if widths == tuple(item for item in LISTS[depth] if item != "A") else widths,
            classifier=hidden[:-1],
            input_shape=(ordered[0][1][1], side, side),
            classes=hidden[-1],
            bias="features.0.bias" in shapes,
            batch_norm=any(name.endswith("running_mean") for name in shapes),
        )
    except OptionError:
        return None
    notes = ("average pooling, ReLU and normalisation 0.5/0.5 assumed",)
    return _verified("VGG", architecture, HALF, {name: name for name in shapes}, shapes, notes)


def _dense_chain(shapes: Shapes) -> Match | None:
    """Nothing but dense layers, each fitting the one before: an MLP, whatever its layers are called."""
    weights = [name for name, shape in shapes.items() if len(shape) == 2]
    weights.sort(key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
    if "output.weight" in weights:
        weights.append(weights.pop(weights.index("output.weight")))
    chain = [shapes[name] for name in weights]
    if not chain or any(after[1] != before[0] for before, after in zip(chain, chain[1:], strict=False)):
        return None
    biases = [name for name, shape in shapes.items() if len(shape) == 1]
    architecture = Mlp(
        tuple(shape[0] for shape in chain[:-1]), input_shape=(chain[0][1],), classes=chain[-1][0], bias=bool(biases)
    )
    keys = {}
    for number, name in enumerate(weights, start=1):
        ours = "output" if number == len(weights) else f"dense{number}"
        keys[name], keys[name.removesuffix("weight") + "bias"] = f"{ours}.weight", f"{ours}.bias"
    keys = {name: keys[name] for name in shapes if name in keys}
    notes = ("ReLU between the dense layers assumed; normalisation not known: none used",)
    return _verified("dense layers", architecture, NONE, keys, shapes, notes)


LAYOUTS: tuple[Callable[[Shapes], Match | None], ...] = (_residual, _vgg, _dense_chain)


def _verified(
    origin: str,
    architecture: Architecture,
    normalisation: Normalisation,
    keys: dict[str, str],
    shapes: Shapes,
    notes: tuple[str, ...],
) -> Match | None:
    """A match, if the architecture has exactly the file's keys and shapes (counters of batch norm aside)."""
    expected = {key: shape for key, shape in expected_shapes(architecture).items() if not _is_counter(key)}
    found = {keys.get(name, name): shape for name, shape in shapes.items() if not _is_counter(name)}
    return Match(origin, architecture, normalisation, keys, notes) if found == expected else None


def _is_counter(name: str) -> bool:
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
    kept = set(expected_shapes(architecture))
    keys = {name: key for name, key in match.keys.items() if key in kept}
    note = f"removed layers are skipped: {', '.join(zero)} (all zero; --removed zero keeps them)"
    return dataclasses.replace(match, architecture=architecture, keys=keys, notes=(*match.notes, note))
