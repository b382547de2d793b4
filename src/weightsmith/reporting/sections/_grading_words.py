"""What the verdicts on layers mean, by how they came about, and the settings of grades in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.results import Grades, LayerGrade, VerdictKind

__all__ = ["settings_words", "verdict_words"]


def settings_words(grades: Grades) -> str:
    """How the spectra were computed and the tails fitted."""
    settings = grades.settings
    about = [f"{key} {settings[key]}" for key in ("conv", "normalise", "evidence", "cut") if key in settings]
    about += [" ".join(str(settings[key]) for key in ("method", "precision") if key in settings)]
    factors = sorted({layer.factor for layer in grades.layers} - {1.0})
    if factors and settings.get("normalise") == "none":  # the other normalisation implies its own
        ends = dict.fromkeys(f"{end:g}" for end in (factors[0], factors[-1]))
        about.append(f"eigenvalues of convolutions × {' to '.join(ends)}")
    about += ["batch norm folded"] if settings.get("fold") else []
    about += [f"minus {settings['base']}"] if settings.get("base") else []
    return " · ".join(filter(None, about))


def verdict_words(layers: Sequence[LayerGrade], more: str = "") -> list[tuple[str, str]]:
    """Each verdict that occurs with its meaning, in order of precedence.

    ``more`` says where to find more about layers without a clear verdict.
    """
    whole = "the whole interval of α lies"
    meanings = {
        VerdictKind.CANNOT_BE_FITTED: _statuses(layers),
        VerdictKind.NO_HEAVY_TAIL: "no eigenvalue is larger than those of random weights; α means nothing here",
        VerdictKind.CANNOT_SAY: "; ".join(filter(None, (_doubts(layers), more))),
        VerdictKind.OVER_REGULARISED: f"{whole} below {HEAVIEST:g}: a few directions dominate",
        VerdictKind.WELL_TRAINED: f"{whole} between {HEAVIEST:g} and {LIGHTEST:g}",
        VerdictKind.WEAKLY_TRAINED: f"{whole} above {LIGHTEST:g}: little beyond its random start",
        VerdictKind.NOT_JUDGED: "α alone is not enough; --evidence fast computes more",
    }
    found = {layer.verdict.kind for layer in layers}
    return [(kind.value, meaning) for kind, meaning in meanings.items() if kind in found]


def _statuses(layers: Sequence[LayerGrade]) -> str:
    counts = Counter(layer.status.value for layer in layers if layer.fit is None)
    return ", ".join(f"{status} ({count})" for status, count in counts.items())


def _doubts(layers: Sequence[LayerGrade]) -> str:
    """Why a verdict is open, the most frequent reason first."""
    counts = Counter(_doubt(layer) for layer in layers if layer.verdict.kind is VerdictKind.CANNOT_SAY)
    return " or ".join(
        f"{reason} ({count}{'' if index else ' layer' if count == 1 else ' layers'})"
        for index, (reason, count) in enumerate(counts.most_common())
    )


def _doubt(layer: LayerGrade) -> str:
    if layer.interval is None:
        return "α has no interval"
    if layer.goodness is not None and layer.goodness.rejected:
        return "a power law is rejected, as one in ten true ones would be"
    if any(layer.interval.low <= border <= layer.interval.high for border in (HEAVIEST, LIGHTEST)):
        return "the interval of α reaches into another class"
    return "other evidence speaks against it"
