"""Figures of a training run: learning curves, rate search, schedules, and watched measures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._networks import look
from weightsmith.reporting.figures.gradients import gradient_figure
from weightsmith.reporting.figures.labels import columns, is_wide, shown
from weightsmith.reporting.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LINES,
    ORANGE,
    house_style,
    new_figure,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from weightsmith.training.finder import RateCurve
    from weightsmith.training.run import History

__all__ = ["curves", "gradient_figure", "rate_curve", "save_figure", "schedule_figure", "watched_figure"]


def curves(history: History, *, best: int | None = None) -> Figure:
    """Loss, accuracy and rate against epochs, for training and validation.

    Training values are those of the batches during the epoch, as in the history. ``best`` is the epoch
    to mark; without it, that of the lowest validation loss, if there is a validation.
    """
    if not history.rows:
        raise UsageError("the history has no epochs: there is nothing to draw")
    epochs = [row.epoch for row in history.rows]
    validated = [(row.validation_loss, row.epoch) for row in history.rows if row.validation_loss is not None]
    label = "best epoch"
    if best is None and validated:
        best, label = min(validated)[1], "lowest validation loss: epoch"
    with house_style():
        figure, (loss, accuracy, rate) = new_figure(5.5, 5.2, 3, heights=(3, 3, 1.4))
        score = "r2" if "train_r2" in history.columns else "accuracy"
        for axes, what, scale in ((loss, "loss", 1), (accuracy, score, 100)):
            for split, colour in (("train", BLUE), ("validation", ORANGE)):
                values = [math.nan if v is None else scale * v for v in _column(history, f"{split}_{what}")]
                if not all(map(math.isnan, values)):
                    name = "training" if split == "train" else split
                    axes.plot(epochs, values, color=colour, label=name, **_marks(len(epochs)))
        rate.plot(epochs, [row.rate for row in history.rows], color=INK, drawstyle="steps-mid", **_marks(len(epochs)))
        for axes, text in (
            (loss, "loss (mean per image)"),
            (accuracy, "R² (%)" if score == "r2" else "accuracy (%)"),
            (rate, "learning rate"),
        ):
            axes.set_ylabel(text)
        _logarithmic_if_wide(loss, (*history.column("train_loss"), *history.column("validation_loss")))
        _logarithmic_if_wide(rate, history.column("rate"))
        if best is not None:
            for axes in (loss, accuracy, rate):
                axes.axvline(best, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            loss.plot([], [], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), label=f"{label} {best}")
        figure.legend(*loss.get_legend_handles_labels(), loc="outside upper left", ncols=3)
        _epochs_below(rate, epochs)
        figure.align_ylabels()
    return figure


def _column(history: History, name: str) -> tuple[float | None, ...]:
    return history.column(name) if name in history.columns else (None,) * len(history)


def rate_curve(curve: RateCurve) -> Figure:
    """The loss against the rate of the following step: raw, smoothed, and the suggested rates."""
    if not curve.rates:
        raise UsageError(f"the sweep holds no steps ({curve.reason}): there is nothing to draw")
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.2)
        axes.plot(curve.rates, curve.losses, ".", color=GREY, markersize=2.5, alpha=0.7, label="loss of a batch")
        axes.plot(curve.rates, curve.smoothed, color=BLUE, label="smoothed")
        marks = (
            (curve.suggestion, ORANGE, "-", "suggestion {:.2g}: steepest fall"),
            (curve.tenth, INK, (0, (4, 3)), "{:.2g}: a tenth of the rate at the minimum"),
        )
        for rate, colour, style, text in marks:
            if rate is not None:
                axes.axvline(rate, color=colour, linewidth=1.1, linestyle=style, label=text.format(rate))
        axes.set_xscale("log")
        axes.set_xlim(curve.rates[0] / 1.5, curve.rates[-1] * 1.5)
        axes.set_ylim(*_without_spikes(curve.smoothed, curve.losses))
        axes.set_xlabel("learning rate of the step")
        axes.set_ylabel("loss (mean per image)")
        axes.legend(loc="best")
    return figure


def schedule_figure(rates: Mapping[str, Sequence[float]], *, steps_per_epoch: int | None = None) -> Figure:
    """The rate at every step (``rates["power"][t]`` is that of step t), a line per schedule, epochs on top if given."""
    if not rates or not all(len(values) for values in rates.values()):
        raise UsageError("every schedule needs at least one rate to be drawn")
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.0)
        for index, (name, values) in enumerate(rates.items()):
            style = ("-", (0, (5, 2)), (0, (1, 1.5)))[index // len(LINES) % 3]
            axes.plot(range(len(values)), values, color=LINES[index % len(LINES)], linestyle=style, label=name)
        axes.set_xlim(0, max(map(len, rates.values())))
        axes.set_xlabel("step")
        axes.set_ylabel("learning rate")
        _logarithmic_if_wide(axes, itertools.chain.from_iterable(rates.values()))
        if len(rates) > 1:
            axes.legend(loc="best")
        else:
            axes.set_title(next(iter(rates)))
        if steps_per_epoch:
            top = axes.secondary_xaxis("top", functions=_scaled(1 / steps_per_epoch))
            top.set_xlabel("epoch")
    return figure


def _marks(count: int) -> dict[str, Any]:
    """Markers on the line if they do not overlap; a single epoch is only a marker."""
    return {"marker": "o", "markersize": 3} if count <= 30 else {}


def _epochs_below(axes: Axes, epochs: Sequence[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.02)
    if len(epochs) == 1:
        axes.set_xlim(epochs[0] - 1, epochs[0] + 1)


def _scaled(factor: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Conversion to another unit and back."""
    return lambda value: value * factor, lambda value: value / factor


def _logarithmic_if_wide(axes: Axes, values: Iterable[float | None]) -> None:
    known = [value for value in values if value is not None]
    if is_wide(known):
        axes.set_yscale("log")
    elif known and max(known) > 0:
        axes.set_ylim(0, 1.06 * max(known))


def _without_spikes(smoothed: Sequence[float], losses: Sequence[float]) -> tuple[float, float]:
    """Limits that show the fall of the loss: the last values of a sweep would flatten it."""
    low = min(*smoothed, *losses)
    start = max(losses[: max(1, len(losses) // 4)])
    high = min(max(losses), low + 1.6 * max(start - low, 1e-12))
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


# Measures watched after every epoch: penalties, clipping, α by layer, …


_DISTINCT = 12  # lines up to which each has its own style
_LIGHT, _DARK = (0.68, 0.82, 0.92), (0.0, 0.24, 0.42)
_WIDTH = 5.5


def watched_figure(
    history: History,
    lines: Mapping[str, str],
    quantity: str,
    *,
    band: tuple[float, float] | None = None,
) -> Figure:
    """A line against epochs for each of ``lines``, which maps columns of the history to labels.

    ``quantity`` names the axis, ``band`` is a range to shade. Many lines are shaded from light, the first, to dark,
    the last.
    """
    known = {column: [math.nan if v is None else v for v in history.column(column)] for column in lines}
    known = {column: values for column, values in known.items() if not all(map(math.isnan, values))}
    if not known:
        raise UsageError(f"{quantity}: the history holds no value of {', '.join(lines) or 'it'}")
    epochs = [row.epoch for row in history.rows]
    marks: dict[str, Any] = {"marker": "o", "markersize": 3} if len(epochs) <= 30 else {}
    with house_style():
        figure, (axes,) = new_figure(_WIDTH, 3.0)
        drawn = [
            axes.plot(epochs, values, label=shown(lines[column], 30), **_look(index, len(known)), **marks)[0]
            for index, (column, values) in enumerate(known.items())
        ]
        if band is not None:
            axes.axhspan(*band, color=GREEN, alpha=0.09, linewidth=0, zorder=0)
        axes.set_ylabel(shown(quantity))
        _epochs_below(axes, epochs)
        if len(drawn) > 1:
            _legend(figure, drawn)
    return figure


def _look(index: int, count: int) -> dict[str, Any]:
    if count <= _DISTINCT:
        colour, style = look(index)
        return {"color": colour, "linestyle": style}
    share = index / (count - 1)
    mixed = tuple(light + share * (dark - light) for light, dark in zip(_LIGHT, _DARK, strict=True))
    return {"color": mixed, "linewidth": 0.9}


def _legend(figure: Figure, drawn: list[Line2D]) -> None:
    """All lines by name, or the first and the last of a shaded sequence."""
    handles = drawn if len(drawn) <= _DISTINCT else [drawn[0], drawn[-1]]
    count = columns([str(handle.get_label()) for handle in handles], _WIDTH)
    figure.legend(handles=handles, loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=2.2)
