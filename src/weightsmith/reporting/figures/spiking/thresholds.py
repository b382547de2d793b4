"""The figure of all settings of a sweep: training accuracy by leak and threshold factor, and the chosen ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.spiking._panels import CAPTION
from weightsmith.reporting.figures.style import BLUE, INK, ORANGE, grid, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.sweep.results import SpikeSweep

__all__ = ["draw_thresholds", "threshold_cells"]

_NUMBERED = 12  # leaks and factors up to which every cell shows its number
_SHADES = ("#F5F8FA", BLUE, "#00283E")
_RESETS = ("soft", "hard")

_Numbers = NDArray[np.float64]


def threshold_cells(sweep: SpikeSweep, steps: int) -> dict[tuple[str, bool], _Numbers]:
    """Accuracies in per cent (leaks, factors) by reset and adjustment, after ``steps`` steps.

    Of the smoothings the most accurate one counts; NaN for a missing setting. Settings that were
    eliminated early have the accuracy on the images they saw.
    """
    if steps not in sweep.steps:
        raise UsageError(f"the sweep has answers after {', '.join(map(str, sweep.steps))} steps, not after {steps}")
    leaks, factors = _axes_of(sweep)
    found: dict[tuple[str, bool], _Numbers] = {}
    for result in sweep.table:
        setting = result.setting
        cells = found.setdefault(
            (setting.reset, setting.smoothing is not None), np.full((len(leaks), len(factors)), np.nan)
        )
        cell = leaks.index(setting.leak), factors.index(setting.factor)
        accuracy = 100 * result.correct[sweep.steps.index(steps)] / result.seen
        cells[cell] = np.fmax(cells[cell], accuracy)
    order = [*_RESETS, *sorted({reset for reset, _ in found} - set(_RESETS))]
    return {key: found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))}


def draw_thresholds(sweep: SpikeSweep, steps: int | None = None) -> Figure:
    """Accuracy on the training images by leak (down) and factor on the thresholds (across), darker is better.

    A column of panels per reset; above without adjustment, below with the best smoothing. In each row a frame marks
    the chosen setting. Without ``steps``, after the most.
    """
    if not sweep.table:
        raise UsageError("the sweep has no settings: there is nothing to draw")
    wanted = max(sweep.steps) if steps is None else steps
    panels = threshold_cells(sweep, wanted)
    leaks, factors = _axes_of(sweep)
    resets = list(dict.fromkeys(reset for reset, _ in panels))
    kinds = sorted({adjusted for _, adjusted in panels})
    known = np.concatenate([cells[np.isfinite(cells)] for cells in panels.values()])
    low, high = float(known.min()), float(known.max())
    with house_style():
        from matplotlib.colors import LinearSegmentedColormap

        shades = LinearSegmentedColormap.from_list("accuracy", _SHADES)
        look: dict[str, Any] = {"cmap": shades, "vmin": low, "vmax": high if high > low else low + 1}
        width = min(7.0, 1.6 + len(resets) * max(1.8, 0.42 * len(factors)))
        height = 1.0 + len(kinds) * min(4.0, 0.55 + 0.27 * len(leaks))
        figure, axes = grid(width, height, len(kinds), len(resets), sharex=True, sharey=True)
        for row, adjusted in enumerate(kinds):
            for column, reset in enumerate(resets):
                panel = axes[row, column]
                if (reset, adjusted) in panels:
                    image = _draw_cells(panel, panels[reset, adjusted], look)
                _frame(panel, _chosen(sweep, wanted, reset, adjusted=adjusted))
                panel.set_title(f"{shown(reset, 20)} reset, {'adjusted' if adjusted else 'baseline'}", **CAPTION)
        _name(axes[0, 0], leaks, factors)
        for panel in axes[-1]:
            panel.set_xlabel("threshold factor")
        for panel in axes[:, 0]:
            panel.set_ylabel("leak")
        bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02, aspect=30)
        bar.set_label("training accuracy (%)")
        bar.outline.set_visible(False)
        title = f"After {wanted} step{'s' * (wanted != 1)}, {sweep.train_images:,} training images; framed: chosen"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold")
    return figure


def _axes_of(sweep: SpikeSweep) -> tuple[list[float], list[float]]:
    """Leaks from the largest, which leaks least, and factors from the smallest."""
    settings = [result.setting for result in sweep.table]
    return sorted({one.leak for one in settings}, reverse=True), sorted({one.factor for one in settings})


def _draw_cells(axes: Axes, cells: _Numbers, look: dict[str, Any]) -> Any:
    axes.grid(visible=False)
    axes.tick_params(length=0)
    image = axes.imshow(cells, interpolation="nearest", aspect="auto", **look)
    if max(cells.shape) <= _NUMBERED:
        dark = look["vmin"] + 0.35 * (look["vmax"] - look["vmin"])
        for row, column in np.argwhere(np.isfinite(cells)).tolist():
            value = cells[row, column]
            text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6}
            axes.text(column, row, f"{value:.1f}", color="white" if value > dark else INK, **text)
    return image


def _chosen(sweep: SpikeSweep, steps: int, reset: str, *, adjusted: bool) -> list[tuple[int, int]]:
    """Cells (row, column) of the chosen settings."""
    leaks, factors = _axes_of(sweep)
    found = []
    for choice in sweep.chosen:
        setting = choice.adjusted if adjusted else choice.baseline
        if choice.steps == steps and choice.reset == reset and setting is not None:
            found.append((leaks.index(choice.leak), factors.index(setting.factor)))
    return found


def _frame(axes: Axes, chosen: Sequence[tuple[int, int]]) -> None:
    from matplotlib.patches import Rectangle

    for row, column in chosen:
        corner = column - 0.5, row - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=ORANGE, linewidth=1.6, clip_on=False, zorder=4))


def _name(axes: Axes, leaks: Sequence[float], factors: Sequence[float]) -> None:
    """Ticks at every leak and factor, or at some of many; panels share them."""
    for axis, values in ((axes.yaxis, leaks), (axes.xaxis, factors)):
        step = -(-len(values) // (2 * _NUMBERED))
        axis.set_ticks(range(0, len(values), step), labels=[f"{value:g}" for value in values[::step]])
