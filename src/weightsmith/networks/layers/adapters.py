"""LoRA adapters: two low-rank factors per layer, read as the product that is added to its weight.

    ΔW = s · B A        B: out × r,  A: r × in,  s = α/r   (α/√r with ``use_rslora``)

(Hu et al., arXiv 2106.09685, section 4.1; Kalajdzievski, arXiv 2312.03732.) A convolution has B with a kernel of one
position, so that ΔW[o, i, …] = s · Σ_k B[o, k] A[k, i, …]; an embedding has its factors transposed, ΔW = s · (B A)ᵀ.

An adapter is recognised by the names of its tensors, as PEFT (``lora_A``, ``lora_B``, ``lora_embedding_A`` …) and the
tools around Stable Diffusion (``lora_down``, ``lora_up``, with ``alpha`` beside them) write them. PEFT stores the other
settings in ``adapter_config.json`` in the same folder; without that file s is 1, with a note. The rank is always that
of the tensors. PEFT itself is not needed.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.layers.forms import Form
from weightsmith.networks.layers.names import find_in_weights
from weightsmith.networks.layers.pending import Findings, PendingLayer
from weightsmith.networks.readers.ranges import read_json, shown
from weightsmith.networks.weights import Entry, Weights

__all__ = ["PRODUCT", "find_in_adapter", "is_adapter"]

PRODUCT = "the product of a LoRA adapter"
"""The beginning of the note of every layer that is a product, and so already a difference to a base."""

_CONFIG = "adapter_config.json"
_PART = re.compile(
    r"(?P<layer>.+?)[._]lora[._](?P<embedding>embedding_)?(?P<part>[ABE]|down|up|mid|magnitude_vector)"
    r"(?:\.(?!weight$|bias$)(?P<adapter>[^.]+))?(?P<leaf>\.weight|\.bias)?"
)
_PARTS = {"A": "A", "down": "A", "B": "B", "up": "B", "E": "E", "mid": "mid", "magnitude_vector": "magnitude"}
_WRAPPER = "base_model.model."
_MOST_PATTERNS, _LONGEST = 10_000, 300
_SAVED_WHOLE = re.compile(r"\.modules_to_save\.[^.]+(?=\.)")
_SCALE = "the scale of a product, applied"
_BESIDE = {"alpha": _SCALE, "magnitude": "DoRA's magnitudes act on base and product together: not applied"}
# Initialisations that move a part of the base into the adapter, so that the product contains more than was learnt.
_STARTS = ("pissa", "olora", "corda", "loftq", "eva")


def is_adapter(weights: Weights) -> bool:
    """Whether ``weights`` are an adapter, by the names of its tensors, or by its file name and configuration."""
    if any(_PART.fullmatch(name) for name in weights.entries):
        return True
    return weights.path.name.startswith("adapter_model") and _config_path(weights) is not None


def find_in_adapter(weights: Weights) -> Findings:
    """The products of an adapter as layers, under the names of their base layers; whole weights unchanged."""
    settings = _Settings.of(weights)
    if settings.kind not in ("LORA", ""):
        findings = Findings(left_out=list(weights.left_out))
        for entry in weights.entries.values():
            findings.leave(entry.name, entry.shape, f"part of a {settings.kind} adapter, which is not read")
        return findings
    pairs, loose = _sorted_out(weights.entries)
    findings = Findings()
    for name, pair in pairs.items():
        planned = _plan(weights, settings, name, pair)
        if isinstance(planned, PendingLayer):
            findings.plans.append(planned)
            continue
        for part in pair.factors:
            findings.leave(part.name, part.shape, planned)
    for entry, reason in loose:
        findings.leave(entry.name, entry.shape, reason, 0 if reason == _SCALE else None)
    used = {entry.name for pair in pairs.values() for entry in pair.parts.values()} | {entry.name for entry, _ in loose}
    rest = find_in_weights(_Rest(weights, used))
    for plan in rest.plans:
        plan.notes.append("a whole weight beside the products of an adapter")
    return Findings([*findings.plans, *rest.plans], [*findings.left_out, *rest.left_out])


@dataclass
class _Pair:
    """The tensors of one layer: ``A``, ``B`` and optional others."""

    embedding: bool = False
    parts: dict[str, Entry] = field(default_factory=dict)

    @property
    def factors(self) -> list[Entry]:
        """The low-rank factors: neither the scale nor DoRA's magnitude."""
        return [entry for part, entry in self.parts.items() if part not in ("alpha", "magnitude")]


@dataclass(frozen=True)
class _Settings:
    """The contents of ``adapter_config.json``; ``known`` is False without one."""

    known: bool = False
    kind: str = ""
    rank: int | None = None
    alpha: float | None = None
    root: bool = False
    ranks: Mapping[str, float] = field(default_factory=dict)
    alphas: Mapping[str, float] = field(default_factory=dict)
    start: str = ""
    targets_parameters: bool = False
    path: Path | None = None

    @classmethod
    def of(cls, weights: Weights) -> _Settings:
        """The settings that belong to ``weights``."""
        path = _config_path(weights)
        if path is None:
            return cls()
        config = read_json(path)
        if not isinstance(config, Mapping):
            raise FileRefused(path, "is not the configuration of an adapter: not a JSON object")
        start = config.get("init_lora_weights")
        rank = _number(config, "r", path)
        return cls(
            known=True,
            kind=str(config.get("peft_type") or "").rpartition(".")[2].upper(),
            rank=None if rank is None else int(rank),
            alpha=_number(config, "lora_alpha", path),
            root=config.get("use_rslora") is True,
            ranks=_patterns(config, "rank_pattern", path),
            alphas=_patterns(config, "alpha_pattern", path),
            start=start.lower() if isinstance(start, str) and start.lower().startswith(_STARTS) else "",
            targets_parameters=bool(config.get("target_parameters")),
            path=path,
        )

    def scaling(self, layer: str, rank: int) -> tuple[float, str]:
        """s for a layer, and a note on its source."""
        alpha, unread = _matched(self.alphas, layer, self.alpha)
        if alpha is None:
            why = "no lora_alpha in its configuration" if self.known else "no configuration"
            return 1.0, f"scaling unknown ({why}): 1 used"
        divisor, text = (math.sqrt(rank), "√r") if self.root else (float(rank), "r")
        beside = f"; the pattern {shown(unread)} of its configuration is not read" if unread else ""
        return alpha / divisor, f"scaling {alpha / divisor:g} (α/{text} with α = {alpha:g}){beside}"


class _Rest(Weights):
    """The other tensors of an adapter, under the names of the base network."""

    format = "adapter"

    def __init__(self, weights: Weights, used: set[str]) -> None:
        self._weights = weights
        self._names: dict[str, str] = {}
        for name in weights.entries:
            if name not in used:
                bare = _base_name(name)
                self._names[name if bare in self._names else bare] = name
        stored = [Entry(bare, weights.entries[n].shape, weights.entries[n].dtype) for bare, n in self._names.items()]
        bare_of = {name: bare for bare, name in self._names.items()}
        aliases = {bare_of[n]: bare_of[first] for n, first in weights.aliases.items() if {n, first} <= bare_of.keys()}
        super().__init__(weights.path, stored, left_out=weights.left_out, aliases=aliases, scaled_by_name=False)

    def is_real(self, name: str) -> bool:
        """Delegated to the adapter's reader."""
        return self._weights.is_real(self._names[name])

    def _read(self, name: str) -> Tensor:
        return self._weights.tensor(self._names[name])


def _config_path(weights: Weights) -> Path | None:
    """The configuration beside a file of weights, or in their folder."""
    if weights.format == "state dict":
        return None  # its path is not a file
    with reading(weights.path):
        if not weights.path.exists():
            return None
        path = (weights.path if weights.path.is_dir() else weights.path.parent) / _CONFIG
        return path if path.is_file() else None


def _sorted_out(entries: Mapping[str, Entry]) -> tuple[dict[str, _Pair], list[tuple[Entry, str]]]:
    """The pairs by the name of their layer, and parts of pairs that are not matrices."""
    pairs: dict[str, _Pair] = {}
    loose: list[tuple[Entry, str]] = []
    for name, entry in entries.items():
        match = _PART.fullmatch(name)
        if match is None:
            continue
        adapter = match["adapter"]
        layer = _base_name(match["layer"]) + (f".{adapter}" if adapter and adapter != "default" else "")
        if match["leaf"] == ".bias":
            loose.append((entry, "bias"))
            continue
        pair = pairs.setdefault(layer, _Pair())
        pair.embedding |= match["embedding"] is not None
        pair.parts[_PARTS[match["part"]]] = entry
        scale = entries.get(f"{match['layer']}.alpha")
        if scale is not None and scale.parameters == 1:
            pair.parts["alpha"] = scale
    for pair in pairs.values():
        loose += [(pair.parts[part], reason) for part, reason in _BESIDE.items() if part in pair.parts]
    return pairs, loose


def _plan(weights: Weights, settings: _Settings, layer: str, pair: _Pair) -> PendingLayer | str:
    """The product of a pair as a layer, or why there is none."""
    a, b = pair.parts.get("A"), pair.parts.get("B")
    if a is None or b is None:
        return f"the other part (lora_{'A' if a is None else 'B'}) is missing"
    if "E" in pair.parts or "mid" in pair.parts:
        return "the product has a third part (AdaLoRA, Tucker), which is not read"
    if not all(weights.is_real(entry.name) for entry in (a, b)):
        return "not real numbers"
    shape = _product_shape(a.shape, b.shape, pair.embedding)
    if shape is None:
        return f"the shapes {b.shape} and {a.shape} do not multiply"
    rank = a.shape[0]
    asked, _ = _matched(settings.ranks, layer, settings.rank)
    if settings.targets_parameters and asked is not None and rank != asked:
        return f"{rank} rows where r is {asked:g}: an adapter of several parameters at once, which is not read"
    notes = [f"{PRODUCT} B·A of rank at most {rank}"]
    if "alpha" in pair.parts:
        stored = float(weights.tensor(pair.parts["alpha"].name).reshape(()))
        scaling, note = stored / rank, f"scaling {stored / rank:g} (α/r with α = {stored:g})"
    else:
        scaling, note = settings.scaling(layer, rank)
    notes.append(note)
    if "magnitude" in pair.parts:
        notes.append("DoRA: its magnitudes need the base and are not applied")
    if settings.start:
        notes.append(f"started by {settings.start}, which takes a part of the base into the product")
    form = Form("Embedding" if pair.embedding else "Linear" if len(shape) == 2 else f"Conv{len(shape) - 2}d")
    read = functools.partial(_product, weights, pair, scaling, shape)
    return PendingLayer(layer, form, shape, a.dtype, a.parameters + b.parameters, read, notes)


def _product_shape(a: tuple[int, ...], b: tuple[int, ...], embedding: bool) -> tuple[int, ...] | None:
    """The shape of ΔW; None if the parts do not fit."""
    if len(a) != len(b) or not 2 <= len(a) <= 5 or 0 in (*a, *b) or a[0] != b[1] or any(n != 1 for n in b[2:]):
        return None
    if embedding:
        return (a[1], b[0]) if len(a) == 2 else None
    return b[0], *a[1:]


def _product(weights: Weights, pair: _Pair, scaling: float, shape: tuple[int, ...]) -> Tensor:
    """s · B A in double precision: rounding must not add eigenvalues to a matrix of rank r."""
    a, b = pair.parts["A"].name, pair.parts["B"].name
    weights.check_memory(f"the product of {b} and {a}", math.prod(shape) * 8)
    down = weights.tensor(a).to(torch.float64).flatten(1)
    up = weights.tensor(b).to(torch.float64).flatten(1)
    made = (up @ down).mul_(scaling)
    return made.t() if pair.embedding else made.reshape(shape)


def _base_name(name: str) -> str:
    return _SAVED_WHOLE.sub("", name.removeprefix(_WRAPPER))


def _number(config: Mapping[str, Any], key: str, path: Path) -> float | None:
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise FileRefused(path, f"{key} is {shown(value)}: not a number > 0")
    return float(value)


def _patterns(config: Mapping[str, Any], key: str, path: Path) -> dict[str, float]:
    patterns = config.get(key) or {}
    if not isinstance(patterns, Mapping) or len(patterns) > _MOST_PATTERNS:
        raise FileRefused(path, f"{key} is not an object of at most {_MOST_PATTERNS:,} patterns")
    return {name: number for name in patterns if (number := _number(patterns, name, path)) is not None}


def _matched(patterns: Mapping[str, float], layer: str, otherwise: float | None) -> tuple[float | None, str]:
    """The value of the first pattern that fits the end of a layer's name, and a pattern that could not be tried."""
    unread = ""
    for pattern, value in patterns.items():
        if not _is_harmless(pattern, layer):
            unread = unread or pattern
        elif re.fullmatch(rf"(?:.*\.)?(?:{pattern})", layer):
            return value, unread
    return otherwise, unread


def _is_harmless(pattern: str, text: str) -> bool:
    """Whether a regular expression from a file is safe to run: nested or many repetitions can take forever."""
    if max(len(pattern), len(text)) > _LONGEST or len(re.findall(r"[*+{]", pattern)) > 2:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return not re.search(r"\)[*+?{]", pattern)
