"""The output files of ``weightsmith grade``: record, table, figures, page and plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from weightsmith.cli.grading_report import PlanFile, rows_as_csv
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.grading.comparison import GradeComparison
    from weightsmith.grading.results import Grades

__all__ = ["FigureFormat", "write_figures", "write_page", "write_plans", "write_records"]

FigureFormat = Literal["svg", "png", "pdf"]


def write_records(folder: Path, several: Sequence[Grades], comparison: GradeComparison | None) -> list[Path]:
    """``record.json`` of one network (of several, a numbered folder each), ``layers.csv``, ``comparison.json``."""
    written = [
        write_atomic(own / "record.json", grades.to_json(indent=1) + "\n")
        for own, grades in zip(_folders(folder, several), several, strict=True)
    ]
    written.append(write_atomic(folder / "layers.csv", rows_as_csv(several)))
    if comparison is not None:
        written.append(write_atomic(folder / "comparison.json", comparison.to_json(indent=1) + "\n"))
    return written


def write_figures(
    folder: Path, several: Sequence[Grades], comparison: GradeComparison | None, suffix: FigureFormat = "svg"
) -> list[Path]:
    """α by layer and as a histogram, of all networks together; the shares of the classes of each; spectra of layers.

    With accuracies also measures against them. ``suffix`` is the file format.
    """
    from weightsmith.reporting.figures import grading as draw
    from weightsmith.reporting.figures.comparison import contest_measures

    drawn = [grades for grades in several if grades.layers]
    written = []
    if drawn:
        written.append(draw.save_figure(draw.alpha_figure(drawn), folder / f"alpha.{suffix}"))
    if any(layer.fitted for grades in drawn for layer in grades.layers):
        written.append(draw.save_figure(draw.alpha_histogram(drawn), folder / f"alpha_histogram.{suffix}"))
    if comparison is not None and comparison.accuracy is not None and contest_measures(comparison):
        written.append(draw.save_figure(draw.comparison_figure(comparison), folder / f"comparison.{suffix}"))
    for own, grades in zip(_folders(folder, several), several, strict=True):
        if any(layer.shares is not None for layer in grades.layers):
            written.append(draw.save_figure(draw.shares_figure(grades), own / f"shares.{suffix}"))
        for number, layer in enumerate(grades.layers, 1):
            if layer.fitted:
                name = f"{number:03d}-{_plain(layer.name)}{'' if layer.slice is None else f'-{layer.slice}'}"
                written.append(draw.save_figure(draw.spectrum_figure(layer), own / f"{name}-spectrum.{suffix}"))
                written.append(draw.save_figure(draw.cut_figure(layer), own / f"{name}-cut.{suffix}"))
    return written


def write_page(path: Path, several: Sequence[Grades], comparison: GradeComparison | None) -> Path:
    """One self-contained HTML file."""
    from weightsmith.reporting.grading_page import grading_page

    return write_atomic(path, grading_page(several, comparison))


def write_plans(
    path: Path, network: nn.Module | Path, grades: Grades, keep: float, layers: Sequence[str] | None
) -> list[PlanFile]:
    """The plan by α at ``path``, and next to it its baselines, because α alone is doubtful."""
    from weightsmith.grading.plans import alpha_plan
    from weightsmith.networks.layer_plan import LayerPlan, norm_plan

    plans = {
        "alpha": alpha_plan(grades, keep),
        "uniform": LayerPlan.uniform(network, keep, layers=layers),
        "norm": norm_plan(network, keep, layers=layers),
    }
    written = []
    for rule, plan in plans.items():
        target = path if rule == "alpha" else path.with_name(f"{path.stem}-{rule}{path.suffix}")
        written.append(PlanFile(rule, plan.save(target), plan))
    return written


def _folders(folder: Path, several: Sequence[Grades]) -> list[Path]:
    """A folder for each network; a single one gets ``folder`` itself."""
    if len(several) == 1:
        return [folder]
    return [folder / f"{number}-{_plain(Path(grades.source).stem)}" for number, grades in enumerate(several, 1)]


def _plain(name: str) -> str:
    """A valid file name on every system: layers of some formats have slashes in theirs."""
    return re.sub(r"[^\w.-]+", "_", name)[:80]
