"""Texts and numbers on figures of networks: names from files may hold anything, and axes any range."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from weightsmith.grading.results import LayerGrade

__all__ = [
    "columns",
    "head",
    "is_wide",
    "law_text",
    "layer_label",
    "network_labels",
    "number",
    "readable_ticks",
    "shown",
]

_FONT = "DejaVu Sans"
_LETTERS_PER_INCH, _HANDLE = 18, 7  # of a legend: its letters, and the width of a line sample in letters
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUFFIXES = (".safetensors", ".onnx", ".keras", ".ckpt", ".pth", ".bin", ".npz", ".pt", ".h5")


def shown(name: str, longest: int = 40) -> str:
    """``name`` as text for a figure: on one line, never as a formula, without its middle beyond ``longest`` letters.

    >>> shown("encoder.blocks.11.attention.output.dense", 24)
    'encoder.bloc…utput.dense'
    >>> print(shown("price in $ and $"))  # matplotlib reads text between two dollars as mathematics
    price in \\$ and \\$
    """
    known = _letters()
    name = "".join(letter if ord(letter) in known else "\N{WHITE SQUARE}" for letter in name)
    if len(name) > longest:
        name = f"{name[: longest // 2]}…{name[len(name) - (longest - 1) // 2 :]}"
    # A label that begins with an underscore is left out of legends.
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def number(value: float) -> str:
    """Three digits, of any magnitude.

    >>> [number(value) for value in (3.914, 0.0001234, 1234567.0, 12.0)]
    ['3.91', '0.000123', '1.23e+06', '12']
    """
    return f"{value:.3g}"


def layer_label(layer: LayerGrade) -> str:
    """The name of a layer, and the number of its matrix."""
    return layer.name if layer.slice is None else f"{layer.name}[{layer.slice}]"


def network_labels(sources: Sequence[str]) -> list[str]:
    """Short names of networks: file names if these are unique, else sources, else numbered ones.

    >>> network_labels(["nets/a.pt", "nets/b.pt"]), network_labels(["a/x.pt", "b/x.pt"]), network_labels(["x", "x"])
    (['a', 'b'], ['a/x.pt', 'b/x.pt'], ['x (1)', 'x (2)'])
    """
    ends = [source.replace("\\", "/").rstrip("/").rpartition("/")[2] or source for source in sources]
    bare = [next((end.removesuffix(suffix) for suffix in _SUFFIXES if end.endswith(suffix)), end) for end in ends]
    for names in (bare, ends, list(sources)):
        if len(set(names)) == len(names) and all(names):
            return names
    return [f"{source} ({count})" for count, source in enumerate(sources, 1)]


def columns(labels: Sequence[str], width: float) -> int:
    """The number of columns in which a legend of these labels fits into ``width`` inches, filled column by column.

    >>> columns(["short"] * 5, 5.5), columns(["a label of some thirty letters"] * 3, 5.5)
    (5, 2)
    """
    for count in range(len(labels), 1, -1):
        rows, more = divmod(len(labels), count)  # the first columns have one more
        starts = [column * rows + min(column, more) for column in range(count + 1)]
        longest = [max(map(len, labels[start:stop])) for start, stop in itertools.pairwise(starts)]
        if sum(longest) + _HANDLE * count <= width * _LETTERS_PER_INCH:
            return count
    return 1


def law_text(layer: LayerGrade) -> str:
    """The fitted law in numbers, or the reason why there is none."""
    fit = layer.fit
    if fit is None:
        return f"no fit: {layer.status.value}" + (f" ({layer.reason})" if layer.reason else "")
    within = "" if layer.interval is None else f" [{number(layer.interval.low)}, {number(layer.interval.high)}]"
    parts = [f"α = {number(fit.alpha)}{within}", f"λ_min = {number(fit.xmin)}", f"D = {number(fit.D)}"]
    parts.append(f"tail {fit.tail:,} of {fit.evals:,}")
    if layer.goodness is not None:
        parts.append(f"p = {number(layer.goodness.p)}")
    return " · ".join(parts)


def head(figure: Figure, axes: Axes, layer: LayerGrade) -> None:
    """The name of the layer above the figure, and the law above its first axes."""
    figure.suptitle(shown(layer_label(layer), 56), x=0.01, ha="left", fontsize=9, fontweight="bold")
    # A fixed height saves matplotlib a search, a fifth of the time of a figure.
    axes.set_title(shown(law_text(layer), 96), y=1.0, fontsize=7.5, fontweight="normal")


_WIDE = 30.0


def is_wide(values: Sequence[float]) -> bool:
    """Whether the largest of positive values is so many times the smallest that their axis should be logarithmic.

    >>> is_wide([1, 100]), is_wide([0, 100]), is_wide([])
    (True, False, False)
    """
    return bool(values) and min(values) > 0 and max(values) / min(values) > _WIDE


def readable_ticks(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis of ordinary size, powers of ten beyond, without minor ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    axis.set_minor_locator(NullLocator())
    if decades < 0.3:  # so narrow that it is nearly linear
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(ScalarFormatter())
        return
    plain = low >= 1e-3 and high <= 1e4 and decades < 2.5
    axis.set_major_formatter(
        FuncFormatter((lambda value, _: f"{value:,g}") if plain else (lambda value, _: _power(value)))
    )
    if plain or decades < 1.5:
        fine = decades < (1.2 if plain else 0.6)  # powers of ten are longer texts, and need more room
        steps = (1, 1.5, 2, 3, 4, 6, 8) if fine else (1, 2, 5)
        powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
        positions = [digit * 10.0**power for power in powers for digit in steps]
        axis.set_major_locator(FixedLocator([position for position in positions if low <= position <= high]))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0,)))


def _power(value: float) -> str:
    """``10⁻³`` or ``2·10⁶`` as plain text, which draws many times faster than a formula."""
    digits, exponent = f"{value:.3e}".split("e")
    digits = digits.rstrip("0").rstrip(".")
    factor = "" if digits == "1" else f"{digits}·"
    return f"{factor}10{str(int(exponent)).translate(_RAISED)}"


@functools.cache
def _letters() -> frozenset[int]:
    """The characters in the font of the figures; others make matplotlib warn and draw an empty box."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    drawn = get_font(findfont(FontProperties(family=_FONT))).get_charmap()
    return frozenset(code for code in drawn if chr(code).isprintable())
