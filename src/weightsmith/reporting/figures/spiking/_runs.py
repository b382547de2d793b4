"""Lines of runs against time steps: what each run is called, how it looks, and the network it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._panels import DASHED
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import INK, LINES

if TYPE_CHECKING:
    from weightsmith.spiking.results import SpikeRecord

__all__ = ["NETWORK", "run_labels", "run_look"]

NETWORK: dict[str, Any] = {"color": INK, "linewidth": 1.0, "linestyle": DASHED, "zorder": 1.9}
"""The line of the network that was converted."""

_STYLES: tuple[Any, ...] = ("-", (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)))
_MARKED = 32  # steps up to which each is marked
_LONGEST = 60
_WITHOUT = {"adjust": "not adjusted", "early": "no early exit", "mismatch": "no mismatch", "images": "all images"}
_COUNTED = {"settle": "settle {}", "steps": "{} steps", "seed": "seed {}", "images": "{} images"}
_UNSEEN = ("watch", "device")  # they change nothing that a figure shows


def run_labels(records: Sequence[SpikeRecord]) -> list[str]:
    """What each run is called: the settings in which it differs from others, or of a single one neuron and encoding."""
    if not records:
        raise UsageError("no runs were given: there is nothing to draw")
    told = [_told(record) for record in records]
    if len(told) == 1:
        return [shown(f"{told[0].get('neuron')}, {told[0].get('encode')}", _LONGEST)]
    keys = dict.fromkeys(key for settings in told for key in settings)
    apart = [key for key in keys if len({str(settings.get(key)) for settings in told}) > 1]
    if len({settings["network"] for settings in told}) == len({_network(settings) for settings in told}):
        apart = [key for key in apart if key != "weights"]  # the network's name says it already
    labels = [", ".join(_worded(key, settings.get(key)) for key in apart) for settings in told]
    if len(set(labels)) < len(labels):
        labels = [f"run {place}{f': {label}' if label else ''}" for place, label in enumerate(labels, 1)]
    return [shown(label, _LONGEST) for label in labels]


def run_look(place: int, steps: int) -> dict[str, Any]:
    """Colour and line of the run at ``place``, with marks where its steps are few: a single one is only a point.

    Neighbours have other lines, so that those are seen that lie under each other.
    """
    marks = {"marker": "o", "markersize": 2.5 if steps > 1 else 5} if steps <= _MARKED else {}
    return {
        "color": LINES[place % len(LINES)],
        "linestyle": _STYLES[(place + place // len(LINES)) % len(_STYLES)],
        **marks,
    }


def _told(record: SpikeRecord) -> dict[str, Any]:
    """The settings of a run, and which network it is of."""
    settings = {key: value for key, value in record.settings.items() if key not in _UNSEEN}
    network = record.network.partition(",input_shape")[0]
    return {"network": network, "weights": record.origin.inputs.get("network"), **settings}


def _network(settings: dict[str, Any]) -> tuple[Any, Any]:
    return settings["network"], settings["weights"]


def _worded(key: str, value: Any) -> str:
    if value is None:
        return _WITHOUT.get(key, f"no {key}")
    if key == "weights":
        return f"weights {str(value)[:6]}"
    return _COUNTED.get(key, "{}").format(value)
