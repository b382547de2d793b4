"""The stages of a recipe: their options, and the checks of values before anything runs.

Options are those of the verbs in their text form, such as ``schedule = "cosine:0.1"``, and the links: ``watch`` in
``train``, ``plan = "alpha"`` and ``price = "synaptic"`` in ``reduce``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from weightsmith.chain.linked_options import LINKS
from weightsmith.core.errors import UnknownName
from weightsmith.core.verbs import Parameter, parameters
from weightsmith.grading.grade import grade
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.inspecting import angles
from weightsmith.reducing.methods import Genetic, Pareto
from weightsmith.reducing.reduce import reduce
from weightsmith.spiking.spike import spike
from weightsmith.spiking.sweep.sweeping import spike_sweep
from weightsmith.training.loop import train

__all__ = ["KINDS", "REQUIRED", "VERBS", "Stage", "checked", "uses_search"]


@dataclasses.dataclass(frozen=True)
class Stage:
    """One step of a chain: a verb (``kind``), the stage whose network it takes (None: the initial network), options.

    ``options`` holds the recipe's values, checked, as JSON values; missing ones have the verb's default.
    """

    kind: str
    name: str
    of: str | None
    options: dict[str, Any]


VERBS: Mapping[str, Callable[..., Any]] = {
    "train": train,
    "grade": grade,
    "angles": angles,
    "reduce": reduce,
    "spike": spike,
    "sweep": spike_sweep,
}
"""The verb behind each kind of stage."""


def _options(kind: str) -> dict[str, Parameter]:
    """The verb's options that can be given as text, except seed, threads and the like, and the links."""
    own = {
        name: each for name, each in parameters(VERBS[kind]).items()
        if each.plain and each.doc.recorded and not each.doc.surrounds
    }  # fmt: skip
    return own | {each.name: each for each in LINKS.get(kind, ())}


KINDS: Mapping[str, Mapping[str, Parameter]] = {kind: _options(kind) for kind in VERBS}
"""The options of each kind of stage, as the signatures of the verbs declare them."""

REQUIRED: Mapping[str, tuple[str, ...]] = {"train": ("network",), "reduce": ("by",)}
"""The required options of a stage."""


def checked(kind: str, key: str, value: Any) -> Any:
    """``value`` in the JSON form that the stage stores; raises if it is wrong."""
    if key not in KINDS[kind]:
        raise UnknownName(f"key of {kind}", key, [*KINDS[kind], "name", "of"])
    option = KINDS[kind][key]
    return option.written(option.read(value))


def uses_search(stage: Stage) -> bool:
    """Whether a reduction uses a search, which can be given a price."""
    return isinstance(Method.parse(stage.options["by"]), Genetic | Pareto)
