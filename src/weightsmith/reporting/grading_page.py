"""Grades as one self-contained HTML page: of one network, of several, or of their comparison alone."""

from __future__ import annotations

from collections.abc import Sequence

from weightsmith.core.errors import UsageError
from weightsmith.grading.comparison import GradeComparison, compare
from weightsmith.grading.results import Grades
from weightsmith.reporting.figures.labels import network_labels
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Section
from weightsmith.reporting.sections.comparing import comparison_section
from weightsmith.reporting.sections.grading import MOST_SPECTRA, grading_section

__all__ = ["grading_page"]

_LEAD = (
    "How well networks are trained, from their weights alone: a power law is fitted to the tail of each layer’s "
    "eigenvalue spectrum, whose density falls as λ to the power −α. Every exponent α has its interval, and "
    "plain norms, which need no fit, are shown for comparison."
)


def grading_page(
    grades: Grades | GradeComparison | Sequence[Grades],
    comparison: GradeComparison | None = None,
    *,
    spectra: int = MOST_SPECTRA,
) -> str:
    """The page of one network, of several with their comparison, or of a comparison alone.

    Several networks are compared here if no ``comparison`` is given. The spectra of up to ``spectra`` layers,
    shared between the networks, are drawn; the page says how many it leaves out. Equal grades give equal bytes.
    """
    networks, comparison = _sorted_out(grades, comparison)
    labels = network_labels([network.source for network in networks])
    share = max(1, spectra // max(1, len(networks))) if spectra > 0 else 0
    sections: list[Section] = [] if comparison is None else [comparison_section(comparison, networks=networks)]
    sections += [
        grading_section(network, label, spectra=share) for network, label in zip(networks, labels, strict=True)
    ]
    return render(_title(labels, comparison), sections, lead=_LEAD)


def _sorted_out(
    grades: Grades | GradeComparison | Sequence[Grades], comparison: GradeComparison | None
) -> tuple[list[Grades], GradeComparison | None]:
    if isinstance(grades, GradeComparison):
        return [], grades
    networks = [grades] if isinstance(grades, Grades) else list(grades)
    if not networks:
        raise UsageError("no grades were given: there is no page to write")
    if comparison is not None and len(comparison.names) != len(networks):
        raise UsageError(f"the comparison is of {len(comparison.names)} networks, the grades are of {len(networks)}")
    return networks, compare(networks) if comparison is None and len(networks) > 1 else comparison


def _title(labels: Sequence[str], comparison: GradeComparison | None) -> str:
    if len(labels) == 1:
        return f"Grades of {labels[0]}"
    return f"Grades of {len(labels if comparison is None else comparison.names)} networks"
