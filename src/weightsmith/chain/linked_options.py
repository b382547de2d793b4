"""Options of recipes and commands that link two workshops, in addition to those in a verb's signature.

The verb takes a function or an object for them, such as ``price=`` of ``reduce``; recipes and commands give them as
text. The help texts import this module, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from weightsmith.core.errors import OptionError
from weightsmith.core.verbs import Doc, Parameter

__all__ = ["LINKS"]


def _network(value: Any) -> str:
    """An architecture, or a function of the user, which is called when the stage runs."""
    from weightsmith.networks.models.architecture import Architecture
    from weightsmith.networks.models.factories import is_factory

    text = str(value) if isinstance(value, Architecture) else value
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"network must be text in quotes, not {value!r}")
    return text if is_factory(text) else str(Architecture.parse(text))


def _price(value: Any) -> Any:
    from weightsmith.chain.prices import Price

    return Price.of(value)


LINKS: Mapping[str, tuple[Parameter, ...]] = {
    "train": (
        Parameter("network", str, doc=Doc("mlp:300,100, vgg:11 … or mynet:PartNet", read=_network)),
        Parameter(
            "preset",
            Literal["spike-ready"] | None,
            None,
            doc=Doc("settings that belong together: spike-ready prepares for conversion"),
        ),
        Parameter(
            "watch",
            tuple[Literal["alpha", "angles", "rates"], ...],
            (),
            doc=Doc("after each epoch: alpha (of every layer), angles (share of redundant units), rates (set by α)"),
        ),
    ),
    "reduce": (
        Parameter(
            "price",
            str,
            "units",
            doc=Doc("cost in genetic and pareto: units, or synaptic:… (operations after conversion)", read=_price),
        ),
    ),
}
"""The linked options of each kind of stage; one with the name of a verb's option replaces it."""
