"""Layers of a state dict or file, inferred from names, shapes and neighbours; guesses are noted."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from torch import Tensor

from weightsmith.core.text import natural
from weightsmith.networks.layers.channels import GUESS, Channels
from weightsmith.networks.layers.effective import Effective, find_effective
from weightsmith.networks.layers.forms import GATES, Form
from weightsmith.networks.layers.pending import Findings, PendingLayer, buffer, layer_name, why_not_real
from weightsmith.networks.weights import Entry, Weights

__all__ = ["Guess", "find_in_weights", "guess", "split_attention"]

_BUFFERS = frozenset(["running_mean", "running_var", "num_batches_tracked", "inv_freq", "position_ids"])
_RECURRENT = re.compile(r"(.*?)weight_(ih|hh|hr)((?:_l\d+)?(?:_reverse)?)")
_WEIGHT_LIKE = re.compile(r"weight|kernel|filter|^w\d*$", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed|^wte$|^wpe$|^lookup", re.IGNORECASE)
_TRANSPOSED = re.compile(r"transpose|deconv|upconv|convt", re.IGNORECASE)
_DEPTHWISE = re.compile(r"depthwise|(^|_)dw(_|$|conv)", re.IGNORECASE)

# Kinds by which a format marks a tensor that is not a layer.
_NO_LAYERS = {"Buffer": "Buffer", "Bias": "bias", "Scale": "scale of a norm"}

# A form with notes on what was guessed, or the reason why a tensor is not a layer.
Guess = tuple[Form, list[str]] | str


def find_in_weights(weights: Weights) -> Findings:
    """The layers among the entries of ``weights``, each read only on demand."""
    findings = Findings(left_out=list(weights.left_out))
    effective = find_effective(weights.entries)
    plans: dict[str, list[PendingLayer]] = {}
    names = list(weights.entries)
    # Sorted names (safetensors: within each type) are not in the order of depth, and layer 10 comes after layer 2.
    matrices = [name for name, entry in weights.entries.items() if len(entry.shape) > 1]
    is_sorted = matrices == sorted(matrices)
    convolutions = [entry.shape[0] for entry in weights.entries.values() if 2 < len(entry.shape) <= 5]
    channels = Channels(widths=frozenset(convolutions if is_sorted else ()))
    for name in sorted(names, key=natural) if is_sorted else names:
        entry = weights.entries[name]
        if name in weights.aliases:
            continue
        made = effective.get(name)
        if made is not None:
            if name == made.parts[0]:
                _plan_effective(findings, weights, made, channels)
            elif made.parts.index(name) >= made.trained:
                findings.left_out.append(buffer(name, entry.shape))
            continue
        guessed = _guess_entry(weights, entry, channels)
        if isinstance(guessed, str):
            _leave(findings, entry, guessed)
            continue
        form, notes = guessed
        channels.pass_through(layer_name(name), form, entry.shape)
        plans[name] = _plans(entry, form, notes, functools.partial(weights.tensor, name))
        findings.plans += plans[name]
    for name, first in weights.aliases.items():
        for plan in plans.get(first, ()):
            plan.tie(name)
    if is_sorted:
        findings.plans.sort(key=lambda plan: natural(plan.name))
    return findings


def guess(name: str, shape: tuple[int, ...], entries: Mapping[str, Entry], channels: Channels) -> Guess:
    """The form of a real tensor by its name, its shape and its neighbours, or why it is not a layer."""
    module, _, leaf = name.rpartition(".")
    if len(shape) < 2 or leaf.lower().endswith("bias") or leaf.startswith("bias"):
        return _reason_small(module, leaf, entries)
    if 0 in shape:
        return "has no values"
    recurrent = _recurrent(name, shape, entries)
    if recurrent is not None:
        return recurrent, []
    if leaf == "in_proj_weight" and len(shape) == 2 and shape[0] % 3 == 0:
        return Form("MultiheadAttention", gates=3), []
    if leaf in ("q_proj_weight", "k_proj_weight", "v_proj_weight") and len(shape) == 2:
        return Form("MultiheadAttention"), []
    bias = entries.get(f"{module}.bias" if module else "bias")
    if bias is not None and bias.shape == shape:
        return "has the shape of its bias: an elementwise scale"
    notes = []
    if not _WEIGHT_LIKE.search(leaf):
        if shape[0] == 1 or (len(shape) == 2 and 1 in shape):
            return "has a side of length 1 and is not called a weight"
        notes.append(f"called {leaf!r}: taken for a weight by its {len(shape)} dimensions")
    if len(shape) == 2:
        own = module.rpartition(".")[2] or leaf
        return Form("Embedding" if _EMBEDDING.search(own) else "Linear"), notes
    if len(shape) == 3 and "expert" in name.lower():
        return Form("Experts"), notes
    if len(shape) > 5:
        return f"has {len(shape)} dimensions: no kind of layer is known for that"
    form, more = _convolution(module or leaf, shape, bias, channels)
    return form, notes + more


def _guess_entry(weights: Weights, entry: Entry, channels: Channels) -> Guess:
    kind = weights.kinds.get(entry.name)
    if kind in _NO_LAYERS:
        return _NO_LAYERS[kind]
    if kind is not None and Form.parse(kind).fits(entry.shape):
        form = Form.parse(kind)
        return form, [f"{form.groups} groups"] if form.groups > 1 else []
    leaf = entry.name.rpartition(".")[2]
    if leaf == "bias" and len(entry.shape) == 4 and entry.shape == (1, 1, entry.shape[-1], entry.shape[-1]):
        return "Buffer"  # the causal mask of GPT-2
    if not weights.is_real(entry.name) and len(entry.shape) > 1 and _WEIGHT_LIKE.search(leaf):
        return why_not_real(entry.dtype)
    inside = ".parametrizations." in f".{entry.name}"
    if not weights.is_real(entry.name) or leaf in _BUFFERS or (inside and leaf.startswith(("_", "base"))):
        return "Buffer"
    if inside:
        return "part of a parametrisation"
    return guess(entry.name, entry.shape, weights.entries, channels)


def _leave(findings: Findings, entry: Entry, reason: str) -> None:
    if reason == "Buffer":
        findings.left_out.append(buffer(entry.name, entry.shape))
    else:
        findings.leave(entry.name, entry.shape, reason)


def _plan_effective(findings: Findings, weights: Weights, made: Effective, channels: Channels) -> None:
    entries = {**weights.entries, made.name: Entry(made.name, made.shape, "float32")}
    guessed = guess(made.name, made.shape, entries, channels)
    if isinstance(guessed, str):
        for part in made.parts[: made.trained]:
            findings.leave(part, weights.entries[part].shape, guessed)
        return

    def read() -> Tensor:
        return made.combine(*(weights.tensor(part) for part in made.parts))

    form, notes = guessed
    channels.pass_through(layer_name(made.name), form, made.shape)
    stored = sum(weights.entries[part].parameters for part in made.parts[: made.trained])
    dtype = weights.entries[made.parts[0]].dtype
    findings.plans.append(
        PendingLayer(layer_name(made.name), form, made.shape, dtype, stored, read, [*notes, made.note])
    )


def _plans(entry: Entry, form: Form, notes: list[str], read: Callable[[], Tensor]) -> list[PendingLayer]:
    """The layers of one tensor: one, or query, key and value separately."""
    if form.kind == "MultiheadAttention" and form.gates == 3:
        return split_attention(entry, read)
    return [PendingLayer(layer_name(entry.name), form, entry.shape, entry.dtype, entry.parameters, read, notes)]


def split_attention(entry: Entry, read: Callable[[], Tensor]) -> list[PendingLayer]:
    """The joint input projection of an attention layer as three layers: query, key, value."""
    rows, columns = entry.shape[0] // 3, entry.shape[1]

    def third(index: int) -> Tensor:
        return read().narrow(0, index * rows, rows)

    return [
        PendingLayer(
            entry.name + part,
            Form("MultiheadAttention"),
            (rows, columns),
            entry.dtype,
            rows * columns,
            functools.partial(third, index),
            part=part,
        )
        for index, part in enumerate((".q", ".k", ".v"))
    ]


def _reason_small(module: str, leaf: str, entries: Mapping[str, Entry]) -> str:
    if "bias" in leaf.lower():
        return "bias"
    if f"{module}.running_mean" in entries:
        return "scale of a batch norm"
    return "one-dimensional: a scale, no matrix"


def _recurrent(name: str, shape: tuple[int, ...], entries: Mapping[str, Entry]) -> Form | None:
    """LSTM, GRU or RNN by the ratio of rows to the hidden size; None if the ratio fits none of them."""
    match = _RECURRENT.fullmatch(name)
    if match is None or len(shape) != 2:
        return None
    base, part, suffix = match.groups()
    hidden = entries.get(f"{base}weight_hh{suffix}")
    projected = entries.get(f"{base}weight_hr{suffix}")
    if hidden is None or len(hidden.shape) != 2:
        return None
    size = projected.shape[-1] if projected is not None else hidden.shape[1]
    gates, rest = divmod(hidden.shape[0], size) if size else (0, 1)
    if rest or gates not in GATES:
        return None
    return Form(GATES[gates], gates=1 if part == "hr" else gates)


def _convolution(module: str, shape: tuple[int, ...], bias: Entry | None, channels: Channels) -> tuple[Form, list[str]]:
    """The form of a convolution from its dimensions and the length of its bias, which is the number of outputs."""
    dimensions = len(shape) - 2
    own = module.rpartition(".")[2]
    outputs = bias.shape[0] if bias is not None and len(bias.shape) == 1 else None
    if (
        outputs is not None
        and outputs != shape[0]
        and outputs % shape[1] == 0
        and shape[0] % (outputs // shape[1]) == 0
    ):
        note = "taken for a transposed convolution: its bias fits no other"
        return Form(f"ConvTranspose{dimensions}d", outputs // shape[1]), [note]
    if _TRANSPOSED.search(own) and (outputs is None or outputs == shape[1]):
        words = "taken for a transposed convolution by its name"
        return Form(f"ConvTranspose{dimensions}d"), [words if outputs else f"{GUESS}{words}, in one group"]
    kind = f"Conv{dimensions}d"
    if shape[1] == 1 and shape[0] > 1:
        if _DEPTHWISE.search(own) or shape[0] in channels.made:
            return Form(kind, shape[0]), [f"{GUESS}one input per filter: taken for depthwise"]
        return Form(kind), [f"{GUESS}one input per filter, not as many filters as channels before: taken for ordinary"]
    groups = channels.possible_groups(module, shape)
    note = (
        f"{GUESS}{shape[1]} inputs per filter after {groups * shape[1]} channels: taken for one group, may be {groups} "
        f"(conv_groups {module}={groups})"
    )
    return Form(kind), [note] if groups else []
