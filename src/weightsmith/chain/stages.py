"""The stages of a recipe: their options, and the checks of values before anything runs.

Options are those of the verbs, in their text form: ``schedule = "cosine:0.1"``. The links come in addition:
``watch`` in ``train``, ``plan = "alpha"`` and ``price = "synaptic"`` in ``reduce``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from weightsmith.chain.prices import Price
from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.verbs import Doc, Parameter, parameters
from weightsmith.grading.grade import grade
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.building import is_factory
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


def _network(value: Any) -> str:
    """An architecture, or a function of the user's own, which is called when the stage runs."""
    text = str(value) if isinstance(value, Architecture) else value
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"network must be text in quotes, not {value!r}")
    return text if is_factory(text) else str(Architecture.parse(text))


VERBS: Mapping[str, Callable[..., Any]] = {
    "train": train,
    "grade": grade,
    "angles": angles,
    "reduce": reduce,
    "spike": spike,
    "sweep": spike_sweep,
}
"""The verb behind each kind of stage."""

_LINKS: Mapping[str, tuple[Parameter, ...]] = {
    "train": (
        Parameter("network", str, doc=Doc("mlp:300,100, vgg:11 … or package.module:function", read=_network)),
        Parameter("preset", Literal["spike-ready"], doc=Doc("options that fit together under one name")),
        Parameter("watch", tuple[Literal["alpha", "angles"], ...], doc=Doc("what is measured after every epoch")),
    ),
    "reduce": (Parameter("price", Price | str, doc=Doc("what genetic and pareto pay for: units or synaptic:…")),),
}
"""What a stage takes beside the options of its verb: links between the workshops, and what the verb is given."""


def _options(kind: str) -> dict[str, Parameter]:
    """What text can say of the verb's options, less what surrounds the call, and the links between workshops."""
    own = {
        name: each for name, each in parameters(VERBS[kind]).items()
        if each.plain and each.doc.recorded and not each.doc.surrounds
    }  # fmt: skip
    return own | {each.name: each for each in _LINKS.get(kind, ())}


KINDS: Mapping[str, Mapping[str, Parameter]] = {kind: _options(kind) for kind in VERBS}
"""The options of each kind of stage, as the signatures of the verbs declare them."""

REQUIRED: Mapping[str, tuple[str, ...]] = {"train": ("network",), "reduce": ("by",)}
"""Options that a stage cannot do without."""


def checked(kind: str, key: str, value: Any) -> Any:
    """``value`` as the stage keeps it, in JSON, or an error that says what is wrong with it."""
    if key not in KINDS[kind]:
        raise UnknownName(f"key of {kind}", key, [*KINDS[kind], "name", "of"])
    option = KINDS[kind][key]
    return option.written(option.read(value))


def uses_search(stage: Stage) -> bool:
    """Whether a reduction uses a search, which can be given a price."""
    return isinstance(Method.parse(stage.options["by"]), Genetic | Pareto)
