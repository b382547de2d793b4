"""Where figures go: into a folder under names of their own, or to a file whose suffix says what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.cli.grade import check_targets
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_places", "is_figure_file", "write_figures"]

_SUFFIXES = (".svg", ".png", ".pdf")


def check_places(csv: Path | None, figures: Path | None, folder: Path | None = None) -> None:
    """Before any work: can what --csv, --figures and --out ask for be written there?"""
    to_files, to_folders = {"--csv": csv}, {"--out": folder}
    if figures is not None:
        (to_files if is_figure_file(figures) else to_folders)["--figures"] = figures
    check_targets(to_files, to_folders)


def is_figure_file(place: Path) -> bool:
    """Whether ``place`` is a file to draw into, not a folder; a suffix that cannot be drawn is refused.

    >>> is_figure_file(Path("angles.PNG")), is_figure_file(Path("figures"))
    (True, False)
    """
    if place.is_dir() or not place.suffix:
        return False
    if place.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"--figures {place}: a figure is written as .svg, .png or .pdf; a folder must exist or have no dot"
        )
    return True


def write_figures(place: Path, figures: Mapping[str, Callable[[], Figure]]) -> list[Path]:
    """Draw each figure and write it: ``place/name.svg``, or for a file ``place`` itself (of several ``stem-name``)."""
    from weightsmith.reporting.figures.style import save_figure

    to_file = is_figure_file(place)
    written = []
    for name, draw in figures.items():
        if not to_file:
            path = place / f"{name}.svg"
        else:
            path = place if len(figures) == 1 else place.with_name(f"{place.stem}-{name}{place.suffix}")
        written.append(save_figure(draw(), path))
    return written
