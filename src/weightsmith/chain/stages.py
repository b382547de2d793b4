"""The stages of a recipe: their options, and the checks of values before anything runs.

Options are those of the verbs, in their text form: ``schedule = "cosine:0.1"``. The links come in addition:
``watch`` in ``train``, ``plan = "alpha"`` and ``price = "synaptic"`` in ``reduce``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from weightsmith.chain.links import WATCHED
from weightsmith.chain.prices import Price
from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.options import Option, check_int
from weightsmith.data.augment import Augment
from weightsmith.data.normalise import Normalisation
from weightsmith.grading.evidence import Evidence
from weightsmith.grading.fits.cuts import TailCut
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.building import is_factory
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.methods import Genetic, Pareto
from weightsmith.reducing.recovery.recover import FineTune, Recover
from weightsmith.reducing.surgery.sizes import Target
from weightsmith.spiking.conversion.balance import Balance
from weightsmith.spiking.encoding import Encode
from weightsmith.spiking.energy.cost import PriceList
from weightsmith.spiking.l4.adjust import Adjust
from weightsmith.spiking.neurons import Devices, Neuron
from weightsmith.spiking.simulation.exits import Exit
from weightsmith.spiking.sweep.racing import Race
from weightsmith.training.clipping import Clip
from weightsmith.training.losses import Loss
from weightsmith.training.optimisers import Optimiser
from weightsmith.training.penalties import Penalty
from weightsmith.training.presets import PRESETS
from weightsmith.training.schedules import as_schedule
from weightsmith.training.stopping import Stop

__all__ = ["KINDS", "REQUIRED", "Stage", "checked", "uses_search"]

Check = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Stage:
    """One step of a chain: a verb (``kind``), the stage whose network it takes (None: the initial network), options.

    ``options`` holds the recipe's values, checked, as JSON values; missing ones have the verb's default.
    """

    kind: str
    name: str
    of: str | None
    options: dict[str, Any]


def _number(least: int = 1) -> Check:
    return lambda value: check_int("it", value, least=least)


def _real(low: float, high: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise OptionError(f"must be a number from {low:g} to {high:g}, not {value!r}")
        return value

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"must be true or false, not {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise OptionError(f"must be text in quotes, not {value!r}")
    return value


def _one_of(*known: str) -> Check:
    def check(value: Any) -> str:
        if _text(value) not in known:
            raise UnknownName("value", value, known)
        return str(value)

    return check


def _several(check: Check) -> Check:
    return lambda value: [check(item) for item in (value if isinstance(value, list | tuple) else [value])]


def _option(family: type[Option]) -> Check:
    """A member of the family by its text form, or as an object if the recipe is written in Python."""
    return lambda value: str(family.of(value if isinstance(value, Option) else _text(value)))


def _perhaps(family: type[Option]) -> Check:
    """The same, or ``none`` for the absence of one."""
    check = _option(family)
    absent = "none"
    return lambda value: None if isinstance(value, str) and value.strip().lower() == absent else check(value)


def _schedule(value: Any) -> Any:
    found = as_schedule(value, 0.1)
    return str(found) if isinstance(value, Option) else value


def _normalisation(value: Any) -> str:
    return str(Normalisation.parse(_text(value)))


def _network(value: Any) -> str:
    """An architecture, or a function of the user's own, which is called when the stage runs."""
    text = str(value) if isinstance(value, Architecture) else _text(value)
    return text if is_factory(text) else str(Architecture.parse(text))


def _fine_tune(value: Any) -> str:
    found = Recover.parse(_text(value))
    if not isinstance(found, FineTune):
        raise OptionError(f"a network from scratch is trained as fine-tune:… says, not {found}")
    return str(found)


_PATTERNS = _several(_text)
_SPIKING: dict[str, Check] = {
    "encode": _option(Encode),
    "balance": _option(Balance),
    "precision": _one_of("float32", "float64", "int8"),
}

KINDS: Mapping[str, Mapping[str, Check]] = {
    "train": {
        "network": _network,
        "preset": _one_of(*PRESETS),
        "optimiser": _option(Optimiser),
        "schedule": _schedule,
        "clip": _perhaps(Clip),
        "stop": _perhaps(Stop),
        "penalties": _several(_option(Penalty)),
        "loss": _option(Loss),
        "augment": _perhaps(Augment),
        "batch": _number(),
        "epochs": _number(),
        "validation": _real(0, 0.99),
        "normalise": _normalisation,
        "keep": _several(_number(0)),
        "watch": _several(_one_of(*WATCHED)),
        "diagnose": _flag,
    },
    "grade": {
        "layers": _PATTERNS,
        "conv": _one_of("pooled", "slices"),
        "evidence": _option(Evidence),
        "cut": _option(TailCut),
        "precision": _one_of("float64", "float32"),
        "fold": _flag,
    },
    "angles": {
        "angle": _real(0, 90),
        "layers": _PATTERNS,
        "rows": _number(),
        "top": _number(),
    },
    "reduce": {
        "by": _option(Method),
        "target": _perhaps(Target),
        "plan": _text,
        "price": _option(Price),
        "layers": _PATTERNS,
        "recover": _perhaps(Recover),
        "rows": _number(),
        "test_rows": _number(),
        "random": _number(0),
        "scratch": _fine_tune,
        "scratch_seeds": _several(_number(0)),
        "batch": _number(),
    },
    "spike": {
        **_SPIKING,
        "neuron": _option(Neuron),
        "adjust": _perhaps(Adjust),
        "steps": _number(),
        "early": _perhaps(Exit),
        "settle": _number(0),
        "mismatch": _perhaps(Devices),
        "prices": _option(PriceList),
        "images": _number(),
        "watch": _number(0),
    },
    "sweep": {
        **_SPIKING,
        "leaks": _several(_real(0, 1)),
        "resets": _several(_one_of("soft", "hard")),
        "factors": _several(_real(0, 1e6)),
        "smoothings": _several(_real(0, 1e6)),
        "steps": _several(_number()),
        "train_images": _number(),
        "test_images": _number(),
        "race": _perhaps(Race),
    },
}
"""The options of each kind of stage, documented at the verb."""

REQUIRED: Mapping[str, tuple[str, ...]] = {"train": ("network",), "reduce": ("by",)}
"""Required options of a stage."""


def checked(kind: str, key: str, value: Any) -> Any:
    """``value`` in the form the stage uses, or an error that says what is wrong with it."""
    if key not in KINDS[kind]:
        raise UnknownName(f"key of {kind}", key, [*KINDS[kind], "name", "of"])
    return KINDS[kind][key](value)


def uses_search(stage: Stage) -> bool:
    """Whether a reduction uses a search, which can be given a price."""
    return isinstance(Method.parse(stage.options["by"]), Genetic | Pareto)
