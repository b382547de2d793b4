"""A spiking network in plain torch: needs torch, safetensors and the weights beside this file, nothing else.

    network = SpikingModule("network.safetensors")      # .double() makes sums independent of their order
    scores, spikes = network(x, steps=4)                # x as the data have it; scores.argmax(1) is the answer

``spikes`` has for every population (images, steps, …): 0 and 1, −1 where a spike is taken back, or whole numbers of the
smallest size (graded). An input with one more dimension holds the input of every step and is not encoded. Written by
``weightsmith export``, which compares every spike with its own engine.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["SpikingModule"]


class SpikingModule(nn.Module):
    """The network in ``file``; it holds no state between calls."""

    def __init__(self, file: str | Path) -> None:
        super().__init__()
        with safe_open(str(file), framework="pt") as weights:
            facts = json.loads(weights.metadata()["weightsmith"])
            tensors = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118  # no mapping
        tensors = {name: value.float() if value.dtype == torch.int8 else value for name, value in tensors.items()}
        self.nodes: list[dict[str, Any]] = facts["nodes"]
        self.neuron, self.shape, self.step = facts["neuron"], facts["input_shape"], facts["encode"].get("step")
        self.mean, self.std = (facts["card"]["normalisation"][part] for part in ("mean", "std"))
        self.graded = self.neuron["name"] == "graded"
        self.signed = self.graded or bool(self.neuron.get("signed"))
        self.largest: int = 2 ** (self.neuron["sizes"] - 1) if self.graded else 1
        for number, node in enumerate(self.nodes):
            for field in ("weight", "bias", "factor", "threshold", "leak"):
                self.register_buffer(f"{field}_{number}", tensors.get(f"{node['name']}.{field}"))

    @torch.no_grad()
    def forward(self, x: Tensor, steps: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The sums of the output over the steps, and all spikes."""
        dtype = next(value.dtype for value in self.buffers())
        each_step = x.dim() == len(self.shape) + 2
        x = x.to(dtype) if each_step else self._normalised(x).to(dtype)
        state: dict[str, Tensor] = {}
        trains: dict[str, list[Tensor]] = {}
        scores = torch.zeros(())
        for step in range(steps):
            entering = x[:, step] if each_step else x
            once = self.graded and step > 0  # constant inputs and biases came at the first step
            values = {"input": entering * 0 if once else entering}
            for number, node in enumerate(self.nodes):
                values[node["name"]] = self._value(number, node, values, state, once)
                if node["kind"] == "Neurons":
                    sent = values[node["name"]] * self.largest
                    trains.setdefault(node["name"], []).append(sent.to(torch.int8))
            scores = scores + values[self.nodes[-1]["name"]]
        return scores, {name: torch.stack(train, dim=1) for name, train in trains.items()}

    def _normalised(self, x: Tensor) -> Tensor:
        x = x.float() / 255 if x.dtype == torch.uint8 else x
        if self.mean:
            mean, std = x.new_tensor(self.mean), x.new_tensor(self.std)
            x = (x - _spread(mean, x)) / _spread(std, x) if len(mean) > 1 else (x - mean) / std
        x = x.reshape(len(x), *self.shape)
        return x if self.step is None else torch.round(x / self.step).clamp(-127, 127)  # 8 bits

    def _value(
        self, number: int, node: dict[str, Any], values: dict[str, Tensor], state: dict[str, Tensor], once: bool
    ) -> Tensor:
        own = {field: getattr(self, f"{field}_{number}") for field in ("weight", "bias", "factor")}
        name, kind = node["name"], node["kind"]
        x = values[node["sources"][0] if kind == "Add" else node["source"]]
        if kind == "Neurons":
            return self._fire(number, node, x, state)
        if kind == "Synapses":
            if own["weight"].dim() == 2:
                made = functional.linear(x, own["weight"])
            else:
                made = functional.conv2d(
                    x, own["weight"], None, node["stride"], node["padding"], node["dilation"], node["groups"]
                )
            return made if own["bias"] is None or once else made + _spread(own["bias"], made)
        if kind == "Pool":
            total = functional.avg_pool2d(x, node["kernel"], node["stride"], node["padding"], divisor_override=1)
            return total / math.prod(node["kernel"]) if node["average"] else total
        if kind == "Gate":
            return self._gate(node, x, state)
        if kind == "Scale":
            return x * _spread(own["factor"], x)
        if kind == "Add":
            return torch.stack([values[source] for source in node["sources"]]).sum(dim=0)
        if kind == "Flatten":
            return x.flatten(1)
        raise ValueError(f"{name}: nodes of kind {kind} are not supported by this file")

    def _fire(self, number: int, node: dict[str, Any], current: Tensor, state: dict[str, Tensor]) -> Tensor:
        """One step: the current is added to the membrane, spikes are sent, and their amount is subtracted."""
        name = node["name"]
        threshold: Tensor = _spread(getattr(self, f"threshold_{number}"), current)
        leak = getattr(self, f"leak_{number}")
        leak = self.neuron.get("leak", 1.0) if leak is None else _spread(leak, current)
        before = state.get(name, (threshold * node["start"]).expand_as(current))
        sent = state.get(f"{name} sent", torch.zeros_like(current))
        if self.graded:
            membrane: Tensor = before + current
            missing = membrane.clamp(min=0) / threshold * self.largest - sent
            spikes: Tensor = (missing.abs() >= 0.5).to(current.dtype)
            for power in range(self.neuron["sizes"] - 1):
                spikes = torch.where(missing.abs() >= 1.5 * 2**power, 2.0 ** (power + 1), spikes).to(current.dtype)
            spikes = spikes * missing.sign()
            state[name], state[f"{name} sent"] = membrane, sent + spikes
            return spikes / self.largest
        late, soft = self.neuron["delay"], self.neuron["reset"] == "soft"
        membrane = before if late else leak * before + current
        spikes = (membrane > threshold).to(current.dtype)
        if self.signed:
            spikes = spikes - ((membrane < 0) & (sent > 0)).to(current.dtype)
        if late:
            kept = leak * membrane if soft else leak * membrane * (1 - spikes)
            after = kept + current - (threshold * spikes if soft else 0)
        else:
            after = membrane - threshold * spikes if soft else membrane * (1 - spikes)
        state[name], state[f"{name} sent"] = after, sent + spikes
        return spikes

    def _gate(self, node: dict[str, Any], spikes: Tensor, state: dict[str, Tensor]) -> Tensor:
        """Max pooling: each window passes the unit that sent most; for other values, the change of the largest sum."""
        window = (node["kernel"], node["stride"], node["padding"])
        before = state.get(node["name"], torch.zeros_like(spikes))
        counts = state[node["name"]] = before + spikes
        if self.signed or not self._reads_spikes(node):
            return functional.max_pool2d(counts, *window) - functional.max_pool2d(before, *window)
        _, chosen = functional.max_pool2d(counts, *window, return_indices=True)
        return spikes.flatten(2).gather(2, chosen.flatten(2)).reshape(chosen.shape)

    def _reads_spikes(self, gate: dict[str, Any]) -> bool:
        source = next((node for node in self.nodes if node["name"] == gate["source"]), {"kind": "input"})
        return source["kind"] == "Neurons" or (source["kind"] == "Gate" and self._reads_spikes(source))


def _spread(values: Tensor, like: Tensor) -> Tensor:
    """Values per channel, or per unit, shaped to broadcast with (images, channels, …)."""
    return values.reshape(1, *values.shape, *[1] * (like.dim() - 1 - values.dim()))
