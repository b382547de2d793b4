"""The output files of ``weightsmith grade``: record, table, figures, page and plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weightsmith.cli._figure_files import write_figures
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.records import write_record
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from weightsmith.grading.comparison import GradeComparison
    from weightsmith.grading.results import Grades
    from weightsmith.networks.layer_plan import LayerPlan

__all__ = ["PlanFile", "draw", "rows_as_csv", "write_page", "write_plans", "write_records"]


class PlanFile(NamedTuple):
    """A plan, its rule, and its path."""

    rule: str
    path: Path
    plan: LayerPlan


def rows_as_csv(several: Sequence[Grades]) -> str:
    """The flat rows of all layers under one header; with several networks the first column names them."""
    rows = [
        {**({"network": grades.source} if len(several) > 1 else {}), **layer.row()}
        for grades in several
        for layer in grades.layers
    ]
    return csv_rows(rows)


def write_records(folder: Path, several: Sequence[Grades], comparison: GradeComparison | None) -> list[Path]:
    """Write ``record.json`` (several networks: one in each numbered folder), ``layers.csv``, ``comparison.json``."""
    written = [
        write_record(own / "record.json", grades)
        for own, grades in zip(_folders(folder, several), several, strict=True)
    ]
    written.append(write_atomic(folder / "layers.csv", rows_as_csv(several)))
    if comparison is not None:
        written.append(write_record(folder / "comparison.json", comparison))
    return written


def draw(target: Path, several: Sequence[Grades], comparison: GradeComparison | None) -> list[Path]:
    """Draw α by layer and as a histogram for all networks, the class shares of each, and the spectra of its layers.

    With accuracies, also draw the measures against them; for checkpoints of one run, α, stable rank and λ_max by epoch.
    """
    from weightsmith.reporting.figures import grading
    from weightsmith.reporting.figures.comparison import contest_measures
    from weightsmith.reporting.figures.epochs import checkpoint_epochs

    drawn = [grades for grades in several if grades.layers]
    figures: dict[str, Callable[[], Figure]] = {}
    if drawn:
        figures["alpha"] = partial(grading.alpha_figure, drawn)
    if any(layer.fitted for grades in drawn for layer in grades.layers):
        figures["alpha_histogram"] = partial(grading.alpha_histogram, drawn)
    if comparison is not None and comparison.accuracy is not None and contest_measures(comparison):
        figures["comparison"] = partial(grading.comparison_figure, comparison)
    if checkpoint_epochs(several) is not None:
        figures["epochs"] = partial(grading.epochs_figure, several)
    for own, grades in zip(_folders(Path(), several), several, strict=True):
        if any(layer.shares is not None for layer in grades.layers):
            figures[(own / "shares").as_posix()] = partial(grading.shares_figure, grades)
        for number, layer in enumerate(grades.layers, 1):
            if layer.fitted:
                name = f"{number:03d}-{_plain(layer.name)}{'' if layer.slice is None else f'-{layer.slice}'}"
                figures[(own / f"{name}-spectrum").as_posix()] = partial(grading.spectrum_figure, layer)
                figures[(own / f"{name}-cut").as_posix()] = partial(grading.cut_figure, layer)
    return write_figures(target, figures)


def write_page(path: Path, several: Sequence[Grades], comparison: GradeComparison | None) -> Path:
    """One self-contained HTML file."""
    from weightsmith.reporting.grading_page import grading_page

    return write_atomic(path, grading_page(several, comparison))


def write_plans(
    path: Path, network: nn.Module | Path, grades: Grades, keep: float, layers: Sequence[str] | None
) -> list[PlanFile]:
    """Write the α plan to ``path``, and the baseline plans next to it, because α alone is doubtful."""
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
    """A file name that is valid on every system: layer names of some formats contain slashes."""
    return re.sub(r"[^\w.-]+", "_", name)[:80]
