"""Links between the packages: a measurement of one becomes an option of another.

    grade advises reduce    :func:`keep_by_alpha`     a share to keep for each layer, by its α
    spike prices reduce     :mod:`weightsmith.chain.prices`    synaptic operations in place of units, in a search
    grade watches train     :func:`live_alpha`        α of every layer after each epoch
    grade steers train      :func:`rates_by_alpha`    a factor of the learning rate for each layer, by its α
    reduce watches train    :func:`live_redundancy`   the share of redundant units, after each epoch

Two more links are options of training itself: the L4-balance penalty (``preset="spike-ready"``) prepares a network for
conversion, and kept epochs (``keep``) are what a reduction rewinds to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from weightsmith.core.errors import UnknownName
from weightsmith.grading.grade import grade
from weightsmith.grading.plans import alpha_plan
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.reducing.inspecting import angles
from weightsmith.training.run import EpochEnd, Hook

__all__ = ["WATCHED", "keep_by_alpha", "live_alpha", "live_redundancy", "rates_by_alpha", "watchers"]

WATCHED = ("alpha", "angles", "rates")
"""Names of the hooks in recipes and commands; after each epoch they measure, and ``rates`` also sets learning rates."""


def keep_by_alpha(network: nn.Module, keep: float, *, threads: int = 1) -> LayerPlan:
    """The share of units that each layer should keep by its α, ``keep`` overall (:func:`weightsmith.alpha_plan`)."""
    return alpha_plan(grade(network, evidence="none", threads=threads), keep=keep)


def live_alpha(*, layers: str | Sequence[str] | None = None, threads: int = 1) -> Hook:
    """A hook for ``train(hooks=…)``: the α of every layer that has one, and their mean, after each epoch.

    Columns are ``alpha`` and ``alpha/<layer>``. There are no intervals: the purpose is the drift over epochs.
    """

    def watch(end: EpochEnd) -> dict[str, float]:
        grades = grade(end.network, layers=layers, evidence="none", threads=threads)
        found = {f"alpha/{layer.name}": layer.alpha for layer in grades.layers if layer.alpha is not None}
        return {"alpha": math.fsum(found.values()) / len(found), **found} if found else {}

    return watch


def rates_by_alpha(*, least: float = 0.5, most: float = 1.5, threads: int = 1) -> Hook:
    """A hook for ``train(hooks=…)``: after each epoch every layer gets its own learning rate by its α.

        factor_l = s₁ + (s₂ − s₁)·(α_l − α_min) / (α_max − α_min),   s₁ = ``least``, s₂ = ``most``

    Layers with a light tail (a large α), which count as less trained, learn faster (Zhou et al., "Temperature
    balancing", NeurIPS 2023; there α is Hill's estimate from half of the eigenvalues, here the fit of ``grade``).
    Layers without an α, and all layers where fewer than two have one, keep the schedule's rate. Columns are
    ``rate/<layer>``.
    """

    def steer(end: EpochEnd) -> dict[str, float]:
        grades = grade(end.network, evidence="none", threads=threads)
        found = {layer.name: layer.alpha for layer in grades.layers if layer.alpha is not None}
        end.rates.clear()
        if len(found) < 2 or max(found.values()) == min(found.values()):
            return {}
        low, high = min(found.values()), max(found.values())
        end.rates.update({name: least + (most - least) * (alpha - low) / (high - low) for name, alpha in found.items()})
        return {f"rate/{name}": factor for name, factor in end.rates.items()}

    return steer


def live_redundancy(data: Any, *, angle: float = 15.0, rows: int = 500, seed: int = 0, threads: int = 1) -> Hook:
    """A hook for ``train(hooks=…)``: the share of each layer's units that lie within ``angle`` of another.

    Columns are ``redundant/<layer>``, measured on ``rows`` training rows. A layer is wide enough when some units remain
    redundant: a network that is "too wide" by this measure can be trained as it is and reduced afterwards.
    """

    def watch(end: EpochEnd) -> dict[str, float]:
        found = angles(end.network, data, angle=angle, rows=rows, seed=seed, top=1, threads=threads)
        return {f"redundant/{site.name}": 1 - site.left / site.units for site in found.record.sites}

    return watch


def watchers(names: Sequence[str], data: Any, *, seed: int = 0, threads: int = 1) -> tuple[Hook, ...]:
    """The ``train`` hooks for ``names``, each of :data:`WATCHED`."""
    for name in names:
        if name not in WATCHED:
            raise UnknownName("measure to watch", name, WATCHED)
    made = {
        "alpha": lambda: live_alpha(threads=threads),
        "angles": lambda: live_redundancy(data, seed=seed, threads=threads),
        "rates": lambda: rates_by_alpha(threads=threads),
    }
    return tuple(made[name]() for name in dict.fromkeys(names))
