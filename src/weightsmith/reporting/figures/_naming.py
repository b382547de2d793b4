"""Labels of marks that may lie close together: each where it covers least, with a line if it is farther away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import GREY, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["name_marks"]

_SIZE, _LETTER, _LINE = 7.0, 0.6, 1.25  # points; width of a letter and height of a line relative to the font size
_MARK = 4.0  # half the width of a mark, in points
_REACHES = (7.0, 14.0, 24.0, 36.0, 50.0, 66.0)
_ALONG = 60  # parts of a line, each of which a name may cover
_FAR = 10.0  # distance from which a line leads to the mark
_ANGLES = (0, 180, 45, 135, -45, -135, 90, -90, 20, 160, -20, -160, 65, 115, -65, -115)


class _Box(NamedTuple):
    """A rectangle in points."""

    left: float
    low: float
    right: float
    high: float

    def shared(self, other: _Box) -> float:
        """The area of the intersection."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        tall = min(self.high, other.high) - max(self.low, other.low)
        return wide * tall if wide > 0 and tall > 0 else 0.0

    @property
    def area(self) -> float:
        return (self.right - self.left) * (self.high - self.low)


def name_marks(
    figure: Figure,
    axes: Axes,
    marks: Sequence[tuple[float, float, str]],
    bars: Sequence[tuple[float, float, float]] = (),
    lines: Sequence[tuple[tuple[float, float], tuple[float, float]]] = (),
) -> None:
    """Write the name of every mark (x, y, name) next to it, away from other names and marks, ``bars`` (x, low, high)
    and straight ``lines`` between two points.

    Do not change the limits of the axes afterwards.
    """
    figure.draw_without_rendering()  # positions need the final layout
    transform, points = axes.transData.transform, 72 / figure.dpi
    edges = axes.bbox
    frame = _Box(*(points * value for value in (edges.x0, edges.y0, edges.x1, edges.y1)))
    positions = [tuple(points * transform((x, y))) for x, y, _ in marks]
    taken = [_Box(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in positions]
    for x, low, high in bars:
        (left, bottom), (_, top) = points * transform((x, low)), points * transform((x, high))
        taken.append(_Box(left - 1, bottom, left + 1, top))
    for start, end in lines:
        first, last = points * transform(start), points * transform(end)
        for share in range(_ALONG + 1):
            x, y = first + (last - first) * share / _ALONG
            taken.append(_Box(x - 1, y - 1, x + 1, y + 1))
    for index in sorted(range(len(marks)), key=lambda each: (-positions[each][1], positions[each][0], each)):
        text = shown(marks[index][2], 30)
        (dx, dy), box = _best(positions[index], len(text), taken, frame)
        taken.append(box)
        far = math.hypot(dx, dy) > _FAR
        written = axes.annotate(
            text,
            marks[index][:2],
            (dx, dy),
            textcoords="offset points",
            ha=_alignment(dx),
            va="center",
            fontsize=_SIZE,
            color=INK,
            zorder=5,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            if far
            else None,
        )
        written.set_in_layout(False)


def _best(
    mark: tuple[float, ...], letters: int, taken: Sequence[_Box], frame: _Box
) -> tuple[tuple[float, float], _Box]:
    """The nearest position for a name where it covers nothing, or the one where it covers least."""
    found: list[tuple[float, tuple[float, float], _Box]] = []
    for reach in _REACHES:
        for angle in _ANGLES:
            dx, dy = reach * math.cos(math.radians(angle)), reach * math.sin(math.radians(angle))
            box = _box(mark[0] + dx, mark[1] + dy, letters, dx)
            covered = sum(box.shared(other) for other in taken) + (box.area - box.shared(frame))
            if covered <= 1e-6:
                return (dx, dy), box
            found.append((covered, (dx, dy), box))
    _, offset, box = min(found, key=lambda each: each[0])
    return offset, box


def _box(x: float, y: float, letters: int, dx: float) -> _Box:
    wide, tall = _LETTER * _SIZE * letters, _LINE * _SIZE
    left = {"left": x, "right": x - wide, "center": x - wide / 2}[_alignment(dx)]
    return _Box(left, y - tall / 2, left + wide, y + tall / 2)


def _alignment(dx: float) -> str:
    """The side of a name on which its mark lies."""
    return "center" if abs(dx) < 1 else "left" if dx > 0 else "right"
