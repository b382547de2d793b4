"""Lines of runs against time steps: labels, styles, and the original network."""

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
"""The line style of the converted network."""

_STYLES: tuple[Any, ...] = ("-", (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)))
_MARKED = 32  # steps up to which each is marked
_LONGEST = 60
_WITHOUT = {"adjust": "not adjusted", "early": "no early exit", "mismatch": "no mismatch", "images": "all images"}
_COUNTED = {"settle": "settle {}", "steps": "{} steps", "seed": "seed {}", "images": "{} images"}
_UNSEEN = ("watch", "device")  # settings that do not affect figures


def run_labels(records: Sequence[SpikeRecord]) -> list[str]:
    """The label of each run: the settings in which it differs from others, or neuron and encoding of a single one."""
    if not records:
        raise UsageError("no runs were given: there is nothing to draw")
    runs = [_settings(record) for record in records]
    if len(runs) == 1:
        return [shown(f"{runs[0].get('neuron')}, {runs[0].get('encode')}", _LONGEST)]
    keys = dict.fromkeys(key for settings in runs for key in settings)
    apart = [key for key in keys if len({str(settings.get(key)) for settings in runs}) > 1]
    if len({settings["network"] for settings in runs}) == len({_network(settings) for settings in runs}):
        apart = [key for key in apart if key != "weights"]  # the network's name says it already
    labels = [", ".join(_worded(key, settings.get(key)) for key in apart) for settings in runs]
    if len(set(labels)) < len(labels):
        labels = [f"run {number}{f': {label}' if label else ''}" for number, label in enumerate(labels, 1)]
    return [shown(label, _LONGEST) for label in labels]


def run_look(index: int, steps: int) -> dict[str, Any]:
    """Colour and line style of the run at ``index``, with marks if its steps are few: a single one is only a point.

    Neighbours have different line styles, so that overlapping lines are visible.
    """
    marks = {"marker": "o", "markersize": 2.5 if steps > 1 else 5} if steps <= _MARKED else {}
    return {
        "color": LINES[index % len(LINES)],
        "linestyle": _STYLES[(index + index // len(LINES)) % len(_STYLES)],
        **marks,
    }


def _settings(record: SpikeRecord) -> dict[str, Any]:
    """The settings of a run, and its network."""
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
