"""Figure 3 of the L4-norm paper: two neurons with weights of the same length, and the inputs at which each fires more.

Means alone would put the border between them at the angular midpoint. The neuron with the larger L4 norm, B, has the
larger variance there, which decides if the mean stays below the threshold: B also wins inputs that point closer to A.
If the mean is above the threshold this is no longer so; with a hard reset, B even loses inputs, because more of its
overshoot beyond the threshold is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.options import check_int
from weightsmith.core.records import Record
from weightsmith.core.seeds import subseed
from weightsmith.papers.theory.drift import directions
from weightsmith.reporting.figures.style import (
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    INK,
    ORANGE,
    arrow,
    grid,
    house_style,
    legend,
)
from weightsmith.spiking.theory._checks import ascending, check_reset, numbers
from weightsmith.spiking.theory.firing import count_spikes, poisson_train
from weightsmith.spiking.theory.potential import exceeds, shot_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["LENGTHS", "Dominance", "dominance", "draw_dominance"]


LENGTHS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0)

_PARTS = 20  # parts of the time, whose differences give the standard error
_SURE = 2.0  # standard errors
_FINE = 9001  # angles at which the predicted border is searched, a hundredth of a degree apart


@dataclass(frozen=True, eq=False)
class Dominance(Record):
    """The data of Figure 3: which of two neurons fires more at each input, and where the border between them is.

    Inputs have the length ``lengths[i]`` (input spikes per unit of time) and the angle ``angles[j]`` in degrees.
    ``rates_a`` and ``rates_b`` are (lengths, angles), in spikes per unit of time; ``lead`` is the lead of B over A
    in standard errors. Borders are angles in degrees: ``midpoint`` where the means are equal, ``border`` where the
    simulated rates are, ``predicted`` where the potentials without threshold are equally likely to be above it
    (lognormal, steady state). The last two are None at a length where one neuron is ahead at all angles, or
    there are too few spikes to decide.
    """

    angle_a: float
    angle_b: float
    threshold: float
    tau: float
    reset: str
    duration: float
    lengths: NDArray[np.float64]
    angles: NDArray[np.float64]
    rates_a: NDArray[np.float64]
    rates_b: NDArray[np.float64]
    lead: NDArray[np.float64]
    midpoint: float
    border: tuple[float | None, ...]
    predicted: tuple[float | None, ...]
    seed: int

    @property
    def winner(self) -> NDArray[np.int8]:
        """(lengths, angles): 1 where B fires more, −1 where A does, 0 where it is undecided."""
        return np.where(np.abs(self.lead) < _SURE, 0, np.sign(self.lead)).astype(np.int8)


def dominance(
    *,
    angle_a: float = 45.0,
    angle_b: float = 0.0,
    threshold: float = 2.0,
    tau: float = 1.0,
    reset: Literal["hard", "soft"] = "hard",
    lengths: ArrayLike = LENGTHS,
    points: int = 37,
    duration: float = 20_000.0,
    seed: int = 0,
) -> Dominance:
    """Figure 3: both neurons receive the same Poisson spikes, at ``points`` angles from 0 to 90° for each length.

    Weights have length 1. The paper gives no numbers: ours are the two vectors of its section 3.3, A = ⟨√½, √½⟩ and
    B = ⟨1, 0⟩, and the threshold and time constant of its Figure 5. ``angle_b`` must be the smaller of the two.
    """
    if not 0 <= angle_b < angle_a <= 90:
        raise OptionError(f"angles must be 0 ≤ angle_b < angle_a ≤ 90 degrees, not {angle_b!r} and {angle_a!r}")
    check_reset(reset)
    radii = ascending(numbers(lengths, "lengths"), "lengths")
    if radii[0] <= 0:
        raise OptionError(f"lengths of inputs must be > 0, not {radii[0]:g}")
    if check_int("points", points) < 3:
        raise OptionError(f"points must be ≥ 3, not {points}")
    angles, weights = np.linspace(0.0, 90.0, points), directions(np.array([angle_a, angle_b]))
    predicted = tuple(_predicted(length, weights, tau, threshold) for length in radii)
    spikes = np.empty((radii.size, points, 2, _PARTS), np.int64)
    for i, length in enumerate(radii):
        for j, direction in enumerate(directions(angles)):
            train = poisson_train(length * direction, duration, subseed(seed, "dominance", i, j))
            spikes[i, j] = count_spikes(train, weights, tau, threshold, reset=reset, parts=_PARTS)
    rates, lead = spikes.sum(-1) / duration, _in_errors(spikes[:, :, 1] - spikes[:, :, 0])
    decided = [bool((row >= _SURE).any() and (row <= -_SURE).any()) for row in lead]
    differences = rates[:, :, 1] - rates[:, :, 0]
    return Dominance(
        angle_a=float(angle_a),
        angle_b=float(angle_b),
        threshold=float(threshold),
        tau=float(tau),
        reset=reset,
        duration=float(duration),
        lengths=radii,
        angles=angles,
        rates_a=rates[:, :, 0],
        rates_b=rates[:, :, 1],
        lead=lead,
        midpoint=(angle_a + angle_b) / 2,
        border=tuple(_border(angles, row) if sure else None for row, sure in zip(differences, decided, strict=True)),
        predicted=predicted,
        seed=seed,
    )


def _in_errors(ahead: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the parts divided by its standard error; if that is zero, ``_SURE``, or 0 if neither is ahead."""
    mean, error = ahead.mean(-1), ahead.std(-1, ddof=1) / np.sqrt(ahead.shape[-1])
    lead: NDArray[np.float64] = np.divide(mean, error, out=np.sign(mean) * _SURE, where=error > 0)
    return lead


def _border(angles: NDArray[np.float64], ahead: NDArray[np.float64]) -> float | None:
    """The angle up to which B, and beyond which A, is ahead; None if one of them is ahead everywhere.

    Noisy differences change their sign several times: the border is the angle with the least total on the wrong side.
    """
    last = int(np.argmax(np.cumsum(ahead)))
    if last == angles.size - 1 or ahead[last] <= 0:
        return None
    share = ahead[last] / (ahead[last] - ahead[last + 1])
    return float(angles[last] + share * (angles[last + 1] - angles[last]))


def _predicted(length: float, weights: NDArray[np.float64], tau: float, threshold: float) -> float | None:
    angles = np.linspace(0.0, 90.0, _FINE)
    moments = shot_noise(weights[:, None], length * directions(angles), tau)
    # A unit without input has no lognormal potential; it is never above the threshold.
    reached = moments.mean > 0
    above = np.zeros_like(moments.mean)
    above[reached] = exceeds(threshold, moments.mean[reached], moments.variance[reached])
    return _border(angles, above[1] - above[0])


# Figure 3 of the L4-norm paper: which of two neurons fires more, over the plane of inputs.


_SIMULATED: dict[str, Any] = {"color": INK, "linewidth": 1.4}
_PREDICTED: dict[str, Any] = {"color": GREEN, "linewidth": 1.6, "linestyle": DOTTED}
_MIDPOINT: dict[str, Any] = {"color": INK, "linewidth": 1.1, "linestyle": DASHED}
_PALE_ORANGE, _PALE_GREY, _PALE_BLUE = "#F6D5C2", "#E8E8E8", "#C3DCEB"


def draw_dominance(*found: Dominance) -> Figure:
    """Figure 3: which neuron fires more at each input, one plane per record, and the borders as angles."""
    if not found:
        raise UsageError("there is nothing to draw: give one record of dominance(), or several")
    with house_style():
        figure, axes = grid(2.7 * len(found) + 3.1, 3.4, 1, len(found) + 1)
        for plane, one in zip(axes[0], found, strict=False):
            _draw_plane(plane, one)
        _draw_borders(axes[0, -1], found)
        mark: dict[str, Any] = {"linestyle": "none", "marker": "s", "markersize": 6}
        legend(
            figure,
            [
                {"color": _PALE_ORANGE, "label": "A fires more", **mark},
                {"color": _PALE_BLUE, "label": "B fires more", **mark},
                {"color": _PALE_GREY, "label": "undecided", **mark},
                {"label": "angular midpoint", **_MIDPOINT},
                {"label": "simulated border", **_SIMULATED},
                {"label": "border by eqs. 1–2, lognormal", **_PREDICTED},
            ],
        )
    return figure


def _draw_plane(axes: Axes, found: Dominance) -> None:
    from matplotlib.colors import ListedColormap

    radii, angles = np.meshgrid(_edges(found.lengths), np.radians(_edges(found.angles, 90.0)), indexing="ij")
    cells: dict[str, Any] = {"cmap": ListedColormap([_PALE_ORANGE, _PALE_GREY, _PALE_BLUE]), "vmin": -1, "vmax": 1}
    axes.pcolormesh(radii * np.cos(angles), radii * np.sin(angles), found.winner, linewidth=0, rasterized=True, **cells)
    largest = 1.04 * float(radii.max())
    for angle, name, colour in ((found.angle_a, "A", ORANGE), (found.angle_b, "B", BLUE)):
        tip = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
        arrow(axes, tip, colour, 1.8)
        at: dict[str, Any] = {"textcoords": "offset points", "xytext": (2, 5), "ha": "left", "va": "bottom"}
        axes.annotate(name, (tip[0], tip[1]), color=colour, fontweight="bold", **at)
    far = np.array([0.0, largest])
    middle = np.radians(found.midpoint)
    axes.plot(far * np.cos(middle), far * np.sin(middle), **_MIDPOINT)
    for borders, style in ((found.border, _SIMULATED), (found.predicted, _PREDICTED)):
        lengths, degrees = _known(found, borders)
        axes.plot(lengths * np.cos(np.radians(degrees)), lengths * np.sin(np.radians(degrees)), **style)
    axes.set_aspect("equal")
    axes.set_xlim(0, largest)
    axes.set_ylim(0, largest)
    axes.set_xlabel("rate of input 1")
    axes.set_ylabel("rate of input 2")
    axes.set_title(f"{found.reset.capitalize()} reset, threshold {found.threshold:g}")


def _edges(middles: NDArray[np.float64], most: float = np.inf) -> NDArray[np.float64]:
    """The borders of cells around ascending values; the outer cells end at the limits of the range."""
    if middles.size == 1:
        return np.array([0.5, 1.5]) * middles
    between = (middles[1:] + middles[:-1]) / 2
    first, last = 2 * middles[0] - between[0], 2 * middles[-1] - between[-1]
    return np.concatenate([[max(first, 0.0)], between, [min(last, most)]])


def _draw_borders(axes: Axes, found: Sequence[Dominance]) -> None:
    """The borders as angles against the length of the input."""
    first = found[0]
    axes.axhline(first.midpoint, **_MIDPOINT)
    for one, shape in zip(found, "os^vD" * len(found), strict=False):
        axes.plot(*_known(one, one.border), marker=shape, markersize=3.5, label=f"{one.reset} reset", **_SIMULATED)
    axes.plot(*_known(first, first.predicted), **_PREDICTED)
    for angle, name, colour in ((first.angle_a, "A", ORANGE), (first.angle_b, "B", BLUE)):
        axes.axhline(angle, color=colour, linewidth=1.0)
        axes.annotate(
            name,
            (1, angle),
            xytext=(3, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight="bold",
        )
    axes.set_xlim(0, None)
    axes.set_ylim(-2, None)
    axes.set_xlabel("length of the input (spikes per τ)" if first.tau == 1 else "length of the input (rate)")
    axes.set_ylabel("angle of the border (°)")
    axes.set_title("Borders")
    if len(found) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0.02, 0.08))


def _known(found: Dominance, borders: Sequence[float | None]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths and angles where there is a border."""
    pairs = [(length, angle) for length, angle in zip(found.lengths, borders, strict=True) if angle is not None]
    lengths, degrees = np.array(pairs).reshape(-1, 2).T
    return lengths, degrees
