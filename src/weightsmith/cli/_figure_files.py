"""Write figures into a folder under their own names, or to a file whose suffix sets the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.cli.grade import check_targets
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_writable", "is_figure_file", "write_figures"]

_SUFFIXES = (".svg", ".png", ".pdf")


def check_writable(csv: Path | None, figures: Path | None, folder: Path | None = None) -> None:
    """Check before any work that the paths of --csv, --figures and --out can be written."""
    to_files, to_folders = {"--csv": csv}, {"--out": folder}
    if figures is not None:
        (to_files if is_figure_file(figures) else to_folders)["--figures"] = figures
    check_targets(to_files, to_folders)


def is_figure_file(path: Path) -> bool:
    """Whether ``path`` is a figure file, not a folder; an unsupported suffix raises.

    >>> is_figure_file(Path("angles.PNG")), is_figure_file(Path("figures"))
    (True, False)
    """
    if path.is_dir() or not path.suffix:
        return False
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"--figures {path}: a figure is written as .svg, .png or .pdf; a folder must exist or have no dot"
        )
    return True


def write_figures(target: Path, figures: Mapping[str, Callable[[], Figure]]) -> list[Path]:
    """Draw and write each figure: ``target/name.svg``, or for a file ``target`` itself (of several ``stem-name``)."""
    from weightsmith.reporting.figures.style import save_figure

    to_file = is_figure_file(target)
    written = []
    for name, draw in figures.items():
        if not to_file:
            path = target / f"{name}.svg"
        else:
            path = target if len(figures) == 1 else target.with_name(f"{target.stem}-{name}{target.suffix}")
        written.append(save_figure(draw(), path))
    return written
