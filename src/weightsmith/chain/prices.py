"""The price of units in a genetic search: their number, or their synaptic operations after conversion.

A price is an option of a recipe and of the command line; :func:`price_of` turns it into the function that
``reduce(price=…)`` takes.

>>> str(Synaptic(encode="poisson", neuron="lif:0.9"))
'synaptic:encode=poisson,neuron=lif:0.9'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import DataMismatch
from weightsmith.core.options import Option, param
from weightsmith.core.seeds import stream
from weightsmith.reducing.subject import read_subject
from weightsmith.reducing.surgery.sites import find_sites
from weightsmith.spiking.encoding import Encode
from weightsmith.spiking.energy.synaptic_prices import synaptic_prices
from weightsmith.spiking.monitors.unit_counts import UnitCounts
from weightsmith.spiking.neurons import Neuron
from weightsmith.spiking.spike import spike
from weightsmith.training.run import TrainRun

__all__ = ["Price", "Synaptic", "SynapticPrice", "Units", "price_of"]


class Price(Option, family="price"):
    """The family of prices: ``units``, ``synaptic``."""


class Units(Price, name="units"):
    """Every unit costs the same."""


class Synaptic(Price, name="synaptic"):
    """A unit costs its accumulates per image; convert with the same options as the final network."""

    encode: str = param(default="constant", kw_only=True, doc="text form of the input: constant, poisson")
    neuron: str = param(default="if", kw_only=True, doc="text form of the neurons, such as lif:0.9")
    steps: int = param(default=32, ge=1, kw_only=True, doc="steps over which spikes are counted")
    images: int = param(default=200, ge=1, kw_only=True, doc="training rows on which spikes are counted")

    def check(self) -> None:
        """Parse both text forms and store their shortest form."""
        object.__setattr__(self, "encode", str(Encode.parse(self.encode)))
        object.__setattr__(self, "neuron", str(Neuron.parse(self.neuron)))


@dataclasses.dataclass(frozen=True, eq=False)
class SynapticPrice:
    """The accumulates per image of each unit; calling it with masks (masks × units) gives their prices."""

    of_unit: NDArray[np.float64]

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The price of each mask: the sum over its kept units."""
        if masks.shape[1] != len(self.of_unit):
            raise DataMismatch(
                f"these are prices of {len(self.of_unit)} units, but the masks have {masks.shape[1]}; make both for "
                "the same network and layers"
            )
        return np.asarray(masks @ self.of_unit, np.float64)


def price_of(
    price: Price | str,
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    layers: str | Sequence[str] | None = None,
    seed: int = 0,
) -> SynapticPrice | None:
    """The function for ``reduce(by="genetic:…" or "pareto", price=…)``; None for ``units``, the default.

    For ``synaptic`` the network is converted and run on training rows (:func:`synaptic_prices`). Spikes between two
    units are in the price of both. ``layers`` must be those given to ``reduce``.
    """
    asked = Price.of(price)
    if not isinstance(asked, Synaptic):
        return None
    subject = read_subject(network, data, rows=None, seed=seed)
    sites = find_sites(subject.network, subject.example[:2]).matching(layers)
    twin = spike(
        subject.network,
        subject.data,
        encode=asked.encode,
        neuron=asked.neuron,
        steps=asked.steps,
        test_rows=1,
        watch=0,
        seed=seed,
    )
    counts = UnitCounts(twin.network)
    rows = np.sort(stream(seed, "priced rows").permutation(len(subject.train))[: asked.images])
    twin.network.run(subject.train.x[rows], asked.steps, seed=seed, observers=[counts])
    prices = synaptic_prices(twin.network, counts)
    missing = [layer for site in sites for layer in site.layers if layer not in prices]
    if missing:
        raise DataMismatch(
            f"{missing[0]} has no population of its own in the spiking network, so its units have no price; "
            "exclude it with layers, or search without price"
        )
    return SynapticPrice(np.concatenate([sum(prices[layer] for layer in site.layers) for site in sites]))
