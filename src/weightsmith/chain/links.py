"""Links between the packages: a measurement of one becomes an option of another.

    grade advises reduce    :func:`keep_by_alpha`     a share to keep for each layer, by its α
    spike prices reduce     :mod:`weightsmith.chain.prices`    synaptic operations in place of units, in a search
    grade watches train     :func:`live_alpha`        α of every layer after each epoch
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

__all__ = ["WATCHED", "keep_by_alpha", "live_alpha", "live_redundancy", "watchers"]

WATCHED = ("alpha", "angles")
"""Measures that can be watched during training, by their names in recipes and on the command line."""


def keep_by_alpha(network: nn.Module, keep: float, *, threads: int = 1) -> LayerPlan:
    """The share of units that each layer should keep by its α, ``keep`` in all (:func:`weightsmith.alpha_plan`)."""
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


def live_redundancy(data: Any, *, angle: float = 15.0, rows: int = 500, seed: int = 0, threads: int = 1) -> Hook:
    """A hook for ``train(hooks=…)``: of each layer the share of units that lie within ``angle`` of another.

    Columns are ``redundant/<layer>``, measured on ``rows`` training rows. A width is enough when some units remain
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
    }
    return tuple(made[name]() for name in dict.fromkeys(names))
