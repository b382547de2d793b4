"""Distillation: the cut network learns to compute what the original one does, from inputs alone.

Every layer that read removed units, or the residual sum that it enters, has a target in the original network, and so
have the outputs z. On batches of unlabelled rows Adam minimises

    L = ‖z′ − z‖² / var z + mean over layers of ‖f′ − f‖² / var f  (+ labels · cross entropy, if labels are used)

All positions and channels of an image are targets, so a few thousand images and one pass suffice where training on
labels alone loses accuracy (docs/results/channels.md). Batch norms keep their statistics. The rate falls along a
cosine; of three rates, the largest that brings the outputs on held-back rows nearer to the original ones is taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import pinned_threads, stream
from weightsmith.data.targets import Kind
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.tracing import trace
from weightsmith.networks.evaluation import batches_for, inputs_of, scores, targets_for
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import memory_format_of
from weightsmith.reducing.budget import divergence
from weightsmith.reducing.recovery.recover import Distill
from weightsmith.reducing.refitting.flow import SUMS
from weightsmith.reducing.surgery.sites import Site
from weightsmith.training.losses import usual_loss

__all__ = ["Distilled", "Kept", "distilled", "watched_layers"]

RATES = (2e-3, 5e-4, 1e-4)
_WARM = 10  # steps of warm-up
_REMEMBERED = 2**29  # bytes of targets that are cached, if there are several passes
_JUDGED = 500  # held-back rows on which a rate is judged

Kept = dict[str, Tensor | None]
"""Layers to compare, each with those of its outputs that are left (None: all)."""


@dataclasses.dataclass(frozen=True)
class Distilled:
    """The recovered network, the rate it was trained with, and the divergence of its outputs before and after.

    ``rate`` is None if no rate brought the outputs nearer to the original ones; the network is then the cut one.
    """

    network: nn.Module
    rate: float | None
    before: float
    after: float


def distilled(
    original: nn.Module,
    cut: nn.Module,
    data: Data,
    option: Distill,
    layers: Kept,
    *,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 1,
    progress: StepCallback | None = None,
) -> Distilled:
    """Train a copy of ``cut`` on training rows of ``data`` towards ``original``; validation rows judge the rates."""
    held = data.split("validation").x[:_JUDGED]
    run: dict[str, Any] = {"threads": threads, "device": device}
    expected = scores(original, held, **run)
    kind = Kind.LABELS if expected.shape[1] == 1 and data.kind is Kind.CLASSES else data.kind
    before = divergence(expected, scores(cut, held, **run), kind)
    lessons = _Lessons(original, cut, data, option, layers=layers, seed=seed, device=device)
    for rate in RATES if option.rate is None else (option.rate,):
        with pinned_threads(threads), torch.inference_mode(False), torch.enable_grad():
            network = _trained(cut, lessons, option, rate, progress)
        after = divergence(expected, scores(network, held, **run), kind)
        if after < before:
            return Distilled(network, rate, before, after)
    return Distilled(cut, None, before, before)


def watched_layers(sites: Sequence[Site], kept: Mapping[str, Sequence[int]]) -> Kept:
    """The layers that read units of the sites, with the outputs that a cut to the ``kept`` units leaves of each."""
    layers: Kept = {port.layer: None for site in sites for port in site.readers}
    for site in sites:
        for port in site.writers:
            left = np.sort(port.of(kept[site.name]))
            if port.layer in layers and len(left) < port.indices.size:
                layers[port.layer] = torch.from_numpy(left)
    return layers


def _trained(
    cut: nn.Module, lessons: _Lessons, option: Distill, rate: float, progress: StepCallback | None
) -> nn.Module:
    network = copied(cut).to(lessons.device).eval()  # batch norms keep their statistics, dropout is off
    frozen = {name for name, value in network.named_parameters() if not value.requires_grad}
    taught = [value for name, value in network.named_parameters() if value.is_floating_point() and name not in frozen]
    optimiser = torch.optim.Adam(taught, lr=rate)
    watched = _Watched(network, lessons.layers)
    total = option.epochs * len(lessons)
    for step in range(total):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / _WARM) * (1 + math.cos(math.pi * step / total)) / 2
        optimiser.zero_grad()
        lessons.loss(watched, step).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if progress is not None:
            progress(step + 1, total)
    return with_card(network.cpu(), card_of(cut))


class _Lessons:
    """Batches of rows with the outputs of the original network, layer by layer; computed when they are needed."""

    def __init__(
        self,
        original: nn.Module,
        cut: nn.Module,
        data: Data,
        option: Distill,
        *,
        layers: Kept,
        seed: int,
        device: str,
    ) -> None:
        split = data.split("train")
        drawn = stream(seed, "distill").permutation(len(split))[: option.rows]
        outputs = scores(cut, split.x[:1], device=device).shape[1]
        targets = targets_for(card_of(cut), data, split.y[torch.from_numpy(drawn)], outputs)[1]
        self._x, self._y = split.x[torch.from_numpy(drawn)], targets
        self._batch, self._labels, self.device, self._card = option.batch, option.labels, device, card_of(cut)
        self._dtype, self._loss = input_type(cut), usual_loss(self._y)
        teacher = copied(original).to(device).eval().requires_grad_(False)
        self._format = memory_format_of(teacher, inputs_of(teacher, split.x[:2]).to(device))
        self.layers = layers if _traceable(original, cut) else {}
        self._teacher = _Watched(teacher, self.layers)
        self._scales: dict[str, float] = {}
        self._remembered: dict[int, tuple[Tensor, dict[str, Tensor]]] = {}
        self._room = _REMEMBERED if option.epochs > 1 else 0

    def __len__(self) -> int:
        return math.ceil(len(self._x) / self._batch)

    def loss(self, student: _Watched, step: int) -> Tensor:
        """The distance of the student from the original network on one batch."""
        part = slice(step % len(self) * self._batch, (step % len(self) + 1) * self._batch)
        ((_, inputs),) = batches_for(self._card, self._x[part], self._batch, self._dtype, self._format)
        inputs = inputs.to(self.device)
        expected, targets = self._expected(step % len(self), inputs)
        given, features = student(inputs.clone())
        total = self._share("", given, expected)
        if features:
            shares = [self._share(name, features[name], _left(targets[name], self.layers[name])) for name in features]
            total = total + torch.stack(shares).mean()
        if self._labels:
            total = total + self._labels * self._loss(given, self._y[part].to(self.device))
        return total

    @torch.no_grad()
    def _expected(self, batch: int, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The outputs of the original network for a batch; cached for later passes while there is room."""
        if batch not in self._remembered:
            found = self._teacher(inputs.clone())
            self._room -= sum(each.nbytes for each in (found[0], *found[1].values()))
            if self._room < 0:
                return found
            self._remembered[batch] = found
        return self._remembered[batch]

    def _share(self, name: str, given: Tensor, expected: Tensor) -> Tensor:
        """The squared distance as a share of the variance in the first batch."""
        if name not in self._scales:
            self._scales[name] = max(float(expected.var()), torch.finfo(torch.float32).tiny)
        return (given - expected).square().mean() / self._scales[name]


def _left(values: Tensor, kept: Tensor | None) -> Tensor:
    if kept is None:
        return values
    axis = values.dim() - 1 if values.dim() < 4 else 1
    return values.index_select(axis, kept.to(values.device))


class _Watched:
    """A network that also returns the outputs of some of its layers, or of the residual sums that they enter."""

    def __init__(self, network: nn.Module, layers: Sequence[str] | Kept) -> None:
        self._network, self._run = network, None
        if layers:
            self._run = _Capture(fx.GraphModule(network, trace(network).graph))
            self._run.watch(layers)

    def __call__(self, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self._run is None:
            return self._network(inputs), {}
        self._run.found = {}
        return self._run.run(inputs), self._run.found


class _Capture(fx.Interpreter):
    """Stores the values of the watched nodes."""

    def watch(self, layers: Sequence[str] | Kept) -> None:
        """For each layer, watch the batch norm or the sum that follows it, if there is one."""
        self.found: dict[str, Tensor] = {}
        self._names: dict[str, str] = {}
        for node in self.module.graph.nodes:  # type: ignore[union-attr]
            if node.op == "call_module" and node.target in layers:
                self._names[self._last(node).name] = str(node.target)

    def _last(self, node: fx.Node) -> fx.Node:
        while len(node.users) == 1:
            (user,) = node.users
            module = self.module.get_submodule(str(user.target)) if user.op == "call_module" else None
            if not isinstance(module, nn.modules.batchnorm._BatchNorm) and user.target not in SUMS:
                break
            node = user
            if user.target in SUMS:
                break
        return node

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, and store its value if it is watched."""
        value = super().run_node(n)
        if n.name in self._names:
            self.found[self._names[n.name]] = value
        return value


def _traceable(*networks: nn.Module) -> bool:
    try:
        for network in networks:
            trace(network)
    except UsageError:
        return False
    return True
