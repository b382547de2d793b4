"""What the verdicts of a network mean, each that occurs in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weightsmith.grading.results import LayerGrade

__all__ = ["verdict_words"]


def verdict_words(layers: Sequence[LayerGrade], more: str = "") -> list[str]:
    """A line for each verdict that occurs, in the order in which they are asked for.

    ``more`` says where there is more about layers of which nothing can be said.
    """
    from weightsmith.grading.results import VerdictKind
    from weightsmith.grading.verdicts import HEAVIEST, LIGHTEST

    whole = "the whole interval of α lies"
    meanings = {
        VerdictKind.CANNOT_BE_FITTED: _statuses(layers),
        VerdictKind.NO_HEAVY_TAIL: "no eigenvalue lies beyond what noise reaches, whatever α is",
        VerdictKind.CANNOT_SAY: "; ".join(filter(None, (_doubts(layers), more))),
        VerdictKind.OVER_REGULARISED: f"{whole} below {HEAVIEST:g}",
        VerdictKind.WELL_TRAINED: f"{whole} between {HEAVIEST:g} and {LIGHTEST:g}",
        VerdictKind.WEAKLY_TRAINED: f"{whole} above {LIGHTEST:g}",
        VerdictKind.NOT_JUDGED: "α alone says too little; --evidence fast asks for more",
    }
    found = {layer.verdict.kind for layer in layers}
    return [f"{kind.value}: {meaning}" for kind, meaning in meanings.items() if kind in found]


def _statuses(layers: Sequence[LayerGrade]) -> str:
    counts = Counter(layer.status.value for layer in layers if layer.fit is None)
    return ", ".join(f"{status} ({count})" for status, count in counts.items())


def _doubts(layers: Sequence[LayerGrade]) -> str:
    """Why nobody can say, the commonest reason first."""
    from weightsmith.grading.results import VerdictKind

    counts = Counter(_doubt(layer) for layer in layers if layer.verdict.kind is VerdictKind.CANNOT_SAY)
    return " or ".join(
        f"{reason} ({count}{'' if place else ' layer' if count == 1 else ' layers'})"
        for place, (reason, count) in enumerate(counts.most_common())
    )


def _doubt(layer: LayerGrade) -> str:
    from weightsmith.grading.verdicts import HEAVIEST, LIGHTEST

    if layer.interval is None:
        return "α has no interval"
    if layer.goodness is not None and layer.goodness.rejected:
        return "a power law is rejected, as one in ten true ones would be"
    if any(layer.interval.low <= border <= layer.interval.high for border in (HEAVIEST, LIGHTEST)):
        return "the interval of α reaches into another class"
    return "other evidence speaks against it"
