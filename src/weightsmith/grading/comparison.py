"""Compare networks, and test whether any measure of their weights ranks them as their accuracies do.

Baselines are the rank correlations of plain norms, which need no power law, and of size alone, because these often
order a series of networks just as well. With a handful of networks and dozens of measures some measure always looks
good. Therefore the p-values are exact, the summary counts how many measures were tried, and whether α adds anything is
tested on ``CONTESTS`` only, pairs that are fixed before any accuracy is seen. By chance alone the best of nine α-hats
wins about twice as often as it loses against the best of four norms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import nn

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.records import Record
from weightsmith.core.statistics import Correlation, rank_correlation
from weightsmith.grading.partial import PARTIALS, PartialCorrelation, partial_rank_correlation
from weightsmith.grading.ranking import DIRECTIONS, Ranking, rank_networks
from weightsmith.grading.results import Grades, Measure

__all__ = ["CONTESTS", "ComparedMeasure", "Contest", "GradeComparison", "compare"]

CONTESTS = (("alpha_hat", "lambda_hat"), ("alpha_weighted", "log_spectral_norm"))
"""Each measure and the same measure without α: the sum of eq. 3, and the mean that WeightWatcher takes."""

_LEVEL = 0.05
_SAME_NUMBERS = ("conv", "normalise", "cut")  # settings that change what the numbers are, not which layers are in them

Cell = float | int | str | bool | None


@dataclass(frozen=True, eq=False)
class ComparedMeasure(Record):
    """One measure over all networks: a value (or None) for each network, and the number of ``layers`` behind it.

    With accuracies: Kendall's τ-b and Spearman's ρ between values and accuracies over the networks that have a value,
    or the ``reason`` why there are none. ``right`` of ``pairs`` of networks with different accuracies are ordered as
    claimed for α-hat and norms: the smaller value has the higher accuracy. ``better`` is the direction claimed to be
    good for this measure, ``smaller`` or ``larger``.
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
    better: str | None = None


@dataclass(frozen=True, eq=False)
class Contest(Record):
    """A measure against the same measure without α, over the ``networks`` that have both.

    Of ``pairs`` of networks with different accuracies, the two measures order ``right`` and ``against_right`` as
    claimed, the smaller value at the higher accuracy. Equal values count half, so that neither measure is favoured by
    chance: reversing the accuracies swaps winner and loser.
    """

    measure: str
    against: str
    networks: int
    pairs: int
    right: float
    against_right: float

    @property
    def outcome(self) -> Literal["better", "worse", "no better"]:
        """Whether the measure orders the networks better than its competitor."""
        if self.right == self.against_right:
            return "no better"
        return "better" if self.right > self.against_right else "worse"


@dataclass(frozen=True, eq=False)
class GradeComparison(Record):
    """The table of networks and measures; with accuracies the strongest correlations come first.

    ``contests`` and, in words, ``sentence`` state whether measures with α order the networks better than the same
    measures without it, and how significant that is; ``partials`` state whether α adds anything to depth and norms.
    """

    names: tuple[str, ...]
    measures: tuple[ComparedMeasure, ...]
    coverage: tuple[str, ...]
    accuracy: tuple[float, ...] | None = None
    sentence: str | None = None
    notes: tuple[str, ...] = ()
    contests: tuple[Contest, ...] = ()
    ranking: Ranking | None = None
    partials: tuple[PartialCorrelation, ...] = ()

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

    ``accuracy`` has one number per network, the higher the better (give errors with a minus sign); ``names`` are the
    names of the networks, by default their sources. Grades with different ``conv``, ``normalise`` or ``cut`` are not
    comparable: they are noted, and with ``accuracy`` refused.
    """
    if isinstance(networks, str | Path | Mapping | Grades | nn.Module):
        raise UsageError(f"compare takes several networks as a list, not one {type(networks).__name__}")
    several = _graded(list(networks), options)
    if names is not None and len(names) != len(several):
        raise DataMismatch(f"{len(names)} names for {len(several)} networks")
    called = _distinct([grades.source for grades in several] if names is None else [str(name) for name in names])
    table = _table(several)
    measured = None if accuracy is None else _checked(accuracy, len(several))
    sentence: str | None = None
    contests: tuple[Contest, ...] = ()
    partials: tuple[PartialCorrelation, ...] = ()
    if measured is not None:
        _refuse_other_numbers(several)
        table = sorted((_correlated(row, measured) for row in table), key=_strength)
        contests = _contests(table, measured)
        partials = _partials(table, measured)
        sentence = _in_words(table, contests)
    coverage = tuple(grades.coverage.line for grades in several)
    notes, ranking = _notes(several, called), rank_networks(several, called)
    return GradeComparison(called, tuple(table), coverage, measured, sentence, notes, contests, ranking, partials)


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
    strange = next((index for index, value in enumerate(numbers) if not math.isfinite(value)), None)
    if strange is not None:
        raise UsageError(f"accuracy[{strange}] is {numbers[strange]}: must be a finite number")
    return numbers


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Unique column names: repeated names are numbered."""
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
        better = DIRECTIONS.get(name)
        table.append(ComparedMeasure(name, first.meaning, first.baseline, values, layers, better=better))
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
    """The sort key that puts the strongest correlation first."""
    if row.kendall is None or row.spearman is None:
        return 1.0, 1.0
    return -abs(row.kendall.value), -abs(row.spearman.value)


def _contests(table: Sequence[ComparedMeasure], accuracy: tuple[float, ...]) -> tuple[Contest, ...]:
    known = {row.name: row for row in table}
    found = []
    for name, plain in CONTESTS:
        # Grades of an earlier version have no sum without α: the mean is used instead, under its own name.
        other = known.get(plain, known.get("log_spectral_norm"))
        if name in known and other is not None:
            found.append(_contest(known[name], other, accuracy))
    return tuple(contest for contest in found if contest.pairs)


def _contest(row: ComparedMeasure, other: ComparedMeasure, accuracy: tuple[float, ...]) -> Contest:
    both = [
        (own, plain, share)
        for own, plain, share in zip(row.values, other.values, accuracy, strict=True)
        if own is not None and plain is not None
    ]
    pairs = [(a, b) if a[2] < b[2] else (b, a) for a, b in itertools.combinations(both, 2) if a[2] != b[2]]

    def right(index: int) -> float:
        return sum((1 + (low[index] > high[index]) - (low[index] < high[index])) / 2 for low, high in pairs)

    return Contest(row.name, other.name, len(both), len(pairs), right(0), right(1))


def _partials(table: Sequence[ComparedMeasure], accuracy: tuple[float, ...]) -> tuple[PartialCorrelation, ...]:
    """Each of ``PARTIALS`` over the networks that have all values; controls that are constant over them are dropped.

    Networks of one depth, for instance, are compared given their norms alone.
    """
    known = {row.name: row for row in table}
    found = []
    for name, controls in PARTIALS:
        if not all(one in known for one in (name, *controls)):
            continue
        columns = zip(accuracy, *(known[one].values for one in (name, *controls)), strict=True)
        complete = [values for values in columns if None not in values]
        given = tuple(one for place, one in enumerate(controls, 2) if len({row[place] for row in complete}) > 1)
        if not given:
            continue
        right, own, *others = zip(*complete, strict=True)
        kept = [values for one, values in zip(controls, others, strict=True) if one in given]
        plain, answer = partial_rank_correlation(own, right, kept)
        made = PartialCorrelation(name, given, len(complete), plain if math.isfinite(plain) else None)
        found.append(replace(made, reason=answer) if isinstance(answer, str) else replace(made, interval=answer))
    return tuple(found)


def _in_words(table: Sequence[ComparedMeasure], contests: tuple[Contest, ...]) -> str:
    known = {row.name: row for row in table}
    tested = [row for row in table if row.kendall is not None]
    if not contests:
        return f"No correlation of α-hat and of norms could be computed over {len(table[0].values)} networks."
    fixed = ", ".join(f"{contest.measure} with {contest.against}" for contest in contests)
    parts = [f"Only pairs fixed beforehand are compared, each a measure with α and one without: {fixed}."]
    parts += [_contest_text(contest, known) for contest in contests]
    hat, size = known[contests[0].measure].kendall, known["parameters"].kendall
    if hat is not None and size is not None and size.value > 0 and size.value >= -hat.value:
        parts.append(f"The number of parameters alone does as well (τ = {size.value:+.2f}).")
    return " ".join([*parts, *_caution(tested)])


def _contest_text(contest: Contest, known: Mapping[str, ComparedMeasure]) -> str:
    own, other = known[contest.measure], known[contest.against]
    text = (
        f"{own.name} orders the networks {contest.outcome} than {other.name}: right in {contest.right:g} against "
        f"{contest.against_right:g} of {contest.pairs} pairs ({_correlation_text(own)}; {_correlation_text(other)})"
    )
    if 2 * contest.right <= contest.pairs:
        text += ", but not as claimed: smaller values are not better"
    return f"{text}."


def _correlation_text(row: ComparedMeasure) -> str:
    if row.kendall is None:
        return f"{row.name}: {row.reason}"
    return f"{row.name}: τ = {row.kendall.value:+.2f}, p = {row.kendall.p:.2g}, n = {row.kendall.n}"


def _caution(tested: Sequence[ComparedMeasure]) -> list[str]:
    """A caution about multiple comparisons: many measures over few networks."""
    found = [row.kendall for row in tested if row.kendall is not None]
    if not found:  # every measure has the same value for all networks
        return []
    count, best, n = len(found), min(tau.p for tau in found), max(tau.n for tau in found)
    corrected = min(1.0, count * best)
    words = [
        f"{count} measures were tried: the smallest p, {best:.2g}, is {corrected:.2g} after Bonferroni's correction."
    ]
    if 2 / math.factorial(n) >= _LEVEL:
        words.append(f"With {n} networks no order can reach p < {_LEVEL}.")
    elif corrected >= _LEVEL:
        words.append("No measure is significant after this correction.")
    return words


def _refuse_other_numbers(several: list[Grades]) -> None:
    for key in _SAME_NUMBERS:
        values = _values(several, key)
        if len(values) > 1:
            raise DataMismatch(
                f"graded with {key} = {' and '.join(values)}: these grades are not comparable; grade all alike"
            )


def _values(several: list[Grades], key: str) -> list[str]:
    """The different values of a setting, as text."""
    found = [grades.settings.get(key) for grades in several]
    return list(dict.fromkeys("all" if key == "layers" and value is None else str(value) for value in found))


def _notes(several: list[Grades], names: tuple[str, ...]) -> tuple[str, ...]:
    """Notes on what makes the numbers hard to compare: different settings, layers without a fit."""
    notes = []
    for key in dict.fromkeys(itertools.chain.from_iterable(grades.settings for grades in several)):
        values = _values(several, key)
        if len(values) > 1:
            notes.append(f"graded with different settings: {key} = {', '.join(values)}")
    for name, grades in zip(names, several, strict=True):
        covered = grades.coverage
        if covered.layers > covered.fitted:
            missing = f"{covered.layers - covered.fitted} of {covered.layers} {covered.unit}"
            notes.append(f"{name}: {missing} have no fit and are left out of measures that need one")
    return tuple(notes)
