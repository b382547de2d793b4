"""The figure of accuracy against time steps: how long a spiking network must run to match its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.spiking._panels import CAPTION, legend_below, step_axis
from weightsmith.reporting.figures.style import DASHED, DOTTED, GREY, INK, LINES, house_style, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.results import Decisions, SpikeRecord

__all__ = ["NETWORK", "draw_accuracy", "run_labels", "run_look"]


_ENDED: dict[str, Any] = {"linestyle": DOTTED, "linewidth": 1.1, "zorder": 1.8}
_NOTABLE = 0.01  # share of undecided images from which it is shown


def draw_accuracy(*records: SpikeRecord) -> Figure:
    """Accuracy after each step with its Wilson interval, a line per run, and that of the network (dashed).

    Runs are labelled by the settings in which they differ. Below is the share of images without an output spike so
    far, if it is ever above one in a hundred; a dotted line is the mean number of steps per image,
    with early exit.
    """
    labels = run_labels(records)
    silent = any((found.undecided >= _NOTABLE * found.images).any() for found in _decisions(records))
    with house_style():
        figure, axes = new_figure(5.5, 4.4 if silent else 3.5, 1 + silent, heights=(3, 1) if silent else None)
        _draw_networks(axes[0], records)
        for index, (record, label) in enumerate(zip(records, labels, strict=True)):
            _draw_run(axes, record, label, run_look(index, record.steps), max(0.04, 0.3 / (1 + len(records))))
        if any(_ended_early(record) for record in records):
            axes[0].plot([], [], color=GREY, label="mean steps per image", **_ENDED)
        axes[0].set_ylabel("accuracy (%)")
        axes[0].set_title(_caption(_decisions(records)), **CAPTION)
        step_axis(axes[-1], max(record.steps for record in records))
        if silent:
            axes[1].set_ylabel("undecided (%)")
            axes[1].set_ylim(0, None)
            figure.align_ylabels()
        legend_below(figure, axes[0].get_legend_handles_labels()[0])
    return figure


def _draw_run(axes: Sequence[Axes], record: SpikeRecord, label: str, look: dict[str, Any], shade: float) -> None:
    decisions = record.decisions
    steps = np.arange(1, record.steps + 1)
    found = [decisions.accuracy(step) for step in steps.tolist()]
    low, value, high = (100 * np.array([getattr(one, end) for one in found]) for end in ("low", "value", "high"))
    if record.steps > 1:
        axes[0].fill_between(steps, low, high, color=look["color"], alpha=shade, linewidth=0)
    else:
        axes[0].vlines(steps, low, high, color=look["color"], alpha=0.6, linewidth=1.2)
    axes[0].plot(steps, value, label=f"{label}: {value[-1]:.1f} %", **look)
    if _ended_early(record):
        axes[0].axvline(decisions.ended, color=look["color"], **_ENDED)
    for below in axes[1:]:
        below.plot(steps, 100 * decisions.undecided / decisions.images, **look)


def _draw_networks(axes: Axes, records: Sequence[SpikeRecord]) -> None:
    """A line with its band for the network, or for each if runs have several networks or different images."""
    networks = [decisions.network for decisions in _decisions(records)]
    if all(network == networks[0] for network in networks):
        axes.axhspan(100 * networks[0].low, 100 * networks[0].high, color=NETWORK["color"], alpha=0.07, linewidth=0)
        axes.axhline(100 * networks[0].value, label=f"network: {100 * networks[0].value:.1f} %", **NETWORK)
        return
    for index, network in enumerate(networks):
        axes.axhline(100 * network.value, **(NETWORK | {"color": run_look(index, 1)["color"]}))
    axes.plot([], [], label="network of each run", **NETWORK)


def _decisions(records: Sequence[SpikeRecord]) -> list[Decisions]:
    return [record.decisions for record in records]


def _ended_early(record: SpikeRecord) -> bool:
    return record.decisions.ended < record.steps


def _caption(decisions: Sequence[Decisions]) -> str:
    judged = {(found.images, found.split) for found in decisions}
    bands = f"bands: Wilson, {100 * decisions[0].network.confidence:g} %"
    if len(judged) > 1:
        return f"runs on different images, {bands}"
    ((images, split),) = judged
    return f"{images:,} {split} image{'s' * (images > 1)}, {bands}"


# Lines of runs against time steps: labels, styles, and the original network.


NETWORK: dict[str, Any] = {"color": INK, "linewidth": 1.0, "linestyle": DASHED, "zorder": 1.9}
"""The line style of the converted network."""

_STYLES: tuple[Any, ...] = ("-", (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)))
_MARKED = 32  # steps up to which each is marked
_LONGEST = 60
_WITHOUT = {
    "adjust": "not adjusted",
    "early": "no early exit",
    "mismatch": "no mismatch",
    "test_rows": "all rows",
    "images": "all rows",  # its name in records of earlier versions
}
_COUNTED = {
    "settle": "settle {}",
    "steps": "{} steps",
    "seed": "seed {}",
    "test_rows": "{} rows",
    "images": "{} rows",
}
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
