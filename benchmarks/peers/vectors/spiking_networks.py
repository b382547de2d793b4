"""Spikes of whole networks in SpikingJelly: an MLP, VGG-5 and ResNet-20, without and with leak, soft and hard reset.

``benchmarks/peers/spiking_work.py`` says how networks, inputs and thresholds are made. Every ReLU is replaced by a
neuron of SpikingJelly and the network is run step by step as it is: pools and shortcuts pass values on, the neuron
after a residual add is given both branches of the same step, the output layer's values are summed over the steps.

In float64 no membrane comes near its threshold, so every single spike is fixed. In float32 the spikes come out the same
here; on another processor, with sums in another order, a few may not.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from spikingjelly.activation_based import neuron
from torch import Tensor, nn

from benchmarks.peers.spiking_work import NETWORKS, RATES, SETTINGS, Setting, Work, digest, thresholds, work

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("numpy", "spikingjelly", "torch")

_PRECISIONS = {"float32": torch.float32, "float64": torch.float64}
_MEANING = {
    "counts": "spikes of each layer over all steps and rows",
    "counts_per_step": "the same for each step, float64; of vgg5 and resnet20 for the last layer only",
    "drive": "what the network is given, (steps, rows, …): signed spikes, for resnet20 the same image at every step",
    "neurons": "the ReLUs of the torch module in the order in which they are reached, which is that of all lists",
    "scores": "outputs for the first row, summed over the steps, float64; bias at every step, no threshold",
    "settings": "v ← leak·v + I, a spike at the threshold θ, then v ← v − θ (soft) or v ← 0 (hard); v is 0 at first",
    "sha256": "its first 12 digits; in a run: of each layer's spikes in float64, as uint8 (steps, rows, …); of drive "
    "and weights: float64, parameter after parameter",
    "sizes": "neurons per row",
    "source": "networks, drives and thresholds are made by benchmarks/peers/spiking_work.py",
    "thresholds": "θ of each layer, exact in float32; in float64 no membrane comes nearer to it than 1e-6·θ",
}


def vectors() -> dict[str, Any]:
    """Per network and setting: thresholds, spikes per layer and step, output scores of the first row."""
    networks = {name: _network(work(name)) for name in NETWORKS}
    networks["mlp"]["weights"] = {"sha256": digest(*work("mlp").network.parameters())}
    return {
        "meaning": _MEANING,
        "networks": networks,
        "settings": {name: {"leak": setting.leak, "reset": setting.reset} for name, setting in SETTINGS.items()},
    }


def _network(given: Work) -> dict[str, Any]:
    runs, sizes = {}, []
    for name, setting in SETTINGS.items():
        at = thresholds(given, setting)
        results = {precision: _run(given, setting, at, dtype) for precision, dtype in _PRECISIONS.items()}
        runs[name] = {**_facts(results), "thresholds": list(at)}
        sizes = [train[0, 0].numel() for train in results["float64"][0]]
    return {
        "drive": {"sha256": digest(given.drive), "shape": list(given.drive.shape)},
        "neurons": list(given.neurons),
        "runs": runs,
        "sizes": sizes,
    }


def _facts(results: dict[str, tuple[list[Tensor], Tensor]]) -> dict[str, Any]:
    trains, scores = results["float64"]
    rates = [float(train.double().mean()) for train in trains]
    if not all(RATES[0] < rate < RATES[1] for rate in rates):
        raise ValueError(f"the thresholds give rates {rates}, not all between {RATES[0]} and {RATES[1]}")
    per_step = [train.flatten(1).sum(dim=1).tolist() for train in trains]
    return {
        "counts": {precision: [int(train.sum()) for train in found] for precision, (found, _) in results.items()},
        "counts_per_step": per_step if len(per_step) == 2 else per_step[-1:],
        # So many significant digits that no order of sums changes them.
        "scores": [float(f"{score:.11g}") for score in scores[0].tolist()],
        "sha256": [digest(train) for train in trains],
    }


@torch.no_grad()
def _run(given: Work, setting: Setting, at: tuple[float, ...], dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """The uint8 spikes of each layer, (steps, rows, …), and the summed output."""
    network = copy.deepcopy(given.network).to(dtype)
    trains: list[list[Tensor]] = [[] for _ in at]
    for name, threshold, train in zip(given.neurons, at, trains, strict=True):
        node = _node(setting, threshold)
        node.register_forward_hook(lambda _node, _inputs, spikes, train=train: train.append(spikes.to(torch.uint8)))
        network.set_submodule(name, node)
    scores = torch.stack([network(value.to(dtype)) for value in given.drive]).sum(dim=0)
    return [torch.stack(train) for train in trains], scores


def _node(setting: Setting, threshold: float) -> nn.Module:
    """A neuron of theirs; without ``decay_input=False`` its current would be divided by tau as well."""
    reset = None if setting.reset == "soft" else 0.0
    if setting.leak == 1:
        node = neuron.IFNode(v_threshold=threshold, v_reset=reset)
    else:
        node = neuron.LIFNode(1 / (1 - setting.leak), decay_input=False, v_threshold=threshold, v_reset=reset)
    assert isinstance(node, nn.Module)
    return node
