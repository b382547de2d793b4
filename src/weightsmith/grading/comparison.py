"""Several networks side by side, and whether any measure of their weights orders them as their accuracies do.

Rank correlations stand beside those of plain norms, which need no power law, and of mere size, because a series of
networks is often ordered as well by these. With a handful of networks and dozens of measures some measure always looks
good: the p-values are exact, and what is said in words counts how many measures were tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.records import Record
from weightsmith.core.statistics import Correlation, rank_correlation
from weightsmith.grading.results import Grades, Measure

__all__ = ["ComparedMeasure", "GradeComparison", "compare"]

_LEVEL = 0.05

Cell = float | int | str | bool | None


@dataclass(frozen=True, eq=False)
class ComparedMeasure(Record):
    """One measure over all networks: a value for each, None where there is none, from how many ``layers`` each.

    With accuracies: Kendall's τ-b and Spearman's ρ between values and accuracies over the networks that have a value,
    or the ``reason`` why there are none. ``right`` of ``pairs`` of networks with different accuracies are ordered as
    claimed for α-hat and norms: the smaller value has the higher accuracy.
    """

    name: str
    meaning: str
    baseline: bool
    values: tuple[float | None, ...]
    layers: tuple[int, ...]
    kendall: Correlation | None = None
    spearman: Correlation | None = None
    right: int | None = None
    pairs: int | None = None
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class GradeComparison(Record):
    """The table of networks and measures; with accuracies the strongest correlations come first.

    ``sentence`` says in words whether α-hat orders the networks better than plain norms do, and what that is worth.
    """

    names: tuple[str, ...]
    measures: tuple[ComparedMeasure, ...]
    coverage: tuple[str, ...]
    accuracy: tuple[float, ...] | None = None
    sentence: str | None = None
    notes: tuple[str, ...] = ()

    def measure(self, name: str) -> ComparedMeasure:
        """The measure called ``name``."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise UnknownName("measure", name, [measure.name for measure in self.measures])

    def rows(self) -> list[dict[str, Cell]]:
        """The table as flat rows, one per measure, a column for each network; the same columns in every row."""
        rows: list[dict[str, Cell]] = []
        for measure in self.measures:
            tau, rho = measure.kendall, measure.spearman
            row: dict[str, Cell] = {"measure": measure.name, "baseline": measure.baseline}
            row |= dict(zip(self.names, measure.values, strict=True))
            if self.accuracy is not None:
                row |= {"kendall": None if tau is None else tau.value, "p_kendall": None if tau is None else tau.p}
                row |= {"spearman": None if rho is None else rho.value, "p_spearman": None if rho is None else rho.p}
                row |= {"networks": None if tau is None else tau.n, "reason": measure.reason}
            rows.append(row | {"meaning": measure.meaning})
        return rows


def compare(
    networks: Iterable[Any],
    accuracy: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    **options: Any,
) -> GradeComparison:
    """Compare grades, or networks, which are graded with ``options`` first.

    ``accuracy`` has one number per network, the higher the better (give errors with a minus sign); ``names`` are what
    the networks are called, by default where they come from.
    """
    several = _graded(list(networks), options)
    if names is not None and len(names) != len(several):
        raise DataMismatch(f"{len(names)} names for {len(several)} networks")
    called = _distinct([grades.source for grades in several] if names is None else [str(name) for name in names])
    table = _table(several)
    measured = None if accuracy is None else _checked(accuracy, len(several))
    sentence = None
    if measured is not None:
        table = sorted((_correlated(row, measured) for row in table), key=_strength)
        sentence = _in_words(table, measured)
    coverage = tuple(grades.coverage.line for grades in several)
    return GradeComparison(called, tuple(table), coverage, measured, sentence, _notes(several, called))


def _graded(networks: list[Any], options: dict[str, Any]) -> list[Grades]:
    if not networks:
        raise UsageError("there is no network to compare")
    if options and any(isinstance(network, Grades) for network in networks):
        raise UsageError(f"{min(options)}: these networks are graded already; grading options go to grade()")
    from weightsmith.grading.grade import grade

    return [network if isinstance(network, Grades) else grade(network, **options) for network in networks]


def _checked(accuracy: Sequence[float], count: int) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in accuracy)
    if len(numbers) != count:
        raise DataMismatch(f"{len(numbers)} accuracies for {count} networks")
    strange = next((place for place, value in enumerate(numbers) if not math.isfinite(value)), None)
    if strange is not None:
        raise UsageError(f"accuracy[{strange}] is {numbers[strange]}: must be a finite number")
    return numbers


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Names as columns of a table: a repeated one gets a number."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    counts = dict.fromkeys(seen, 0)
    found = []
    for name in names:
        counts[name] += 1
        found.append(f"{name} ({counts[name]})" if seen[name] > 1 else name)
    return tuple(found)


def _table(several: list[Grades]) -> list[ComparedMeasure]:
    """All measures in the order in which the networks have them, then the size of the networks."""
    known: dict[str, Measure] = {}
    for measure in itertools.chain.from_iterable(grades.measures for grades in several):
        known.setdefault(measure.name, measure)
    found = [{measure.name: measure for measure in grades.measures} for grades in several]
    table = []
    for name, first in known.items():
        own = [measures.get(name) for measures in found]
        values = tuple(None if measure is None else measure.value for measure in own)
        layers = tuple(0 if measure is None else measure.layers for measure in own)
        table.append(ComparedMeasure(name, first.meaning, first.baseline, values, layers))
    counted = tuple(grades.coverage.layers for grades in several)
    sizes = tuple(float(grades.coverage.parameters) for grades in several)
    depths = tuple(float(grades.coverage.layers) for grades in several)
    return [
        *table,
        ComparedMeasure("parameters", "number of parameters, graded or not", True, sizes, counted),
        ComparedMeasure("layers", "number of layers, fitted or not", True, depths, counted),
    ]


def _correlated(row: ComparedMeasure, accuracy: tuple[float, ...]) -> ComparedMeasure:
    present = [(value, right) for value, right in zip(row.values, accuracy, strict=True) if value is not None]
    values, accuracies = [value for value, _ in present], [right for _, right in present]
    for what, numbers in (("accuracies are", accuracies), ("values are", values)):
        if len(numbers) < 2:
            return replace(row, reason=f"{len(numbers)} of {len(accuracy)} networks have a value")
        if len(set(numbers)) == 1:
            return replace(row, reason=f"all {what} equal")
    different = [(a, b) for a, b in itertools.combinations(present, 2) if a[1] != b[1]]
    return replace(
        row,
        kendall=rank_correlation(values, accuracies, "kendall"),
        spearman=rank_correlation(values, accuracies, "spearman"),
        right=sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in different),
        pairs=len(different),
    )


def _strength(row: ComparedMeasure) -> tuple[float, float]:
    """The strongest first; the order of equals is kept."""
    if row.kendall is None or row.spearman is None:
        return 1.0, 1.0
    return -abs(row.kendall.value), -abs(row.spearman.value)


def _in_words(table: Sequence[ComparedMeasure], accuracy: tuple[float, ...]) -> str:
    tested = [row for row in table if row.kendall is not None]
    hats = [row for row in tested if row.name.startswith("alpha_hat") or row.name == "alpha_weighted"]
    norms = [row for row in tested if row.baseline and "norm" in row.name]
    if not hats or not norms:
        return f"No correlation of α-hat and of norms could be computed over {len(accuracy)} networks."
    printed = next((row for row in hats if row.name == "alpha_hat"), hats[0])
    hat, norm = min([printed, *hats], key=_claimed), min(norms, key=_claimed)
    parts = [f"{_against(hat, norm)} ({_told(hat)}; {_told(norm)})."]
    if printed.name != hat.name:
        parts.append(f"α-hat as eq. 3 prints it has {_told(printed)}.")
    sizes = [row for row in tested if row.name in ("parameters", "layers")]
    larger = max(sizes, key=lambda row: row.kendall.value if row.kendall else -1.0, default=None)
    if larger is not None and larger.kendall and hat.kendall and larger.kendall.value >= -hat.kendall.value:
        parts.append(f"The number of {larger.name} alone does as well (τ = {larger.kendall.value:+.2f}).")
    return " ".join([*parts, *_caution(tested)])


def _claimed(row: ComparedMeasure) -> float:
    """τ in the direction that is claimed for α-hat and norms: the smaller, the better."""
    return math.inf if row.kendall is None else row.kendall.value


def _against(hat: ComparedMeasure, norm: ComparedMeasure) -> str:
    """The verdict; between measures of the same networks it rests on pairs of networks, which are counted."""
    gain = _claimed(norm) - _claimed(hat)
    if _claimed(hat) >= 0:
        return "The best α-hat does not order the networks as claimed: the smaller is not the better"
    if gain < 0:
        return "The best α-hat orders the networks worse than a plain norm, which needs no fit"
    if gain == 0 or hat.right is None or norm.right is None:
        return "The best α-hat orders the networks no better than a plain norm, which needs no fit"
    more = hat.right - norm.right
    return f"The best α-hat orders the networks better than the best plain norm, by {more} of {hat.pairs} pairs"


def _told(row: ComparedMeasure) -> str:
    if row.kendall is None:
        return f"{row.name}: {row.reason}"
    return f"{row.name}: τ = {row.kendall.value:+.2f}, p = {row.kendall.p:.2g}, n = {row.kendall.n}"


def _caution(tested: Sequence[ComparedMeasure]) -> list[str]:
    """What many measures over few networks are worth."""
    found = [row.kendall for row in tested if row.kendall is not None]
    count, best, n = len(found), min(tau.p for tau in found), max(tau.n for tau in found)
    corrected = min(1.0, count * best)
    words = [
        f"{count} measures were tried: the smallest p, {best:.2g}, is {corrected:.2g} after Bonferroni's correction."
    ]
    if 2 / math.factorial(n) >= _LEVEL:
        words.append(f"With {n} networks no order whatever can reach p < {_LEVEL}.")
    elif corrected >= _LEVEL:
        words.append("No measure is significant once that is counted.")
    return words


def _notes(several: list[Grades], names: tuple[str, ...]) -> tuple[str, ...]:
    """What makes the numbers hard to compare: other settings, layers without a fit."""
    notes = []
    for key in several[0].settings:
        values = [grades.settings.get(key) for grades in several]
        if key not in ("base", "layers") and any(value != values[0] for value in values):
            notes.append(f"graded with different settings: {key} = {', '.join(map(str, dict.fromkeys(values)))}")
    for name, grades in zip(names, several, strict=True):
        missing = grades.coverage.layers - grades.coverage.fitted
        if missing:
            notes.append(f"{name}: {missing} of {grades.coverage.layers} layers have no fit and are in no measure")
    return tuple(notes)
