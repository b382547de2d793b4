"""Order graded networks, with the probability of each order, and warn of those that look too good.

Networks are ordered by ``alpha_weighted``, the mean over layers of α·log₁₀ λ_max, the smallest first. λ_max is exact,
α is an estimate: with s the standard deviation of ln(α − 1) from the interval of a layer (half its width on that scale
over the normal quantile of its confidence), α has the standard deviation (α − 1)·s, and the mean over L layers has

    σ² = Σ ((α − 1)·s·log₁₀ λ_max)² / L²

A network comes before another with probability Φ(difference / √(σ₁² + σ₂²)). That is how sure the *order of this
measure* is. Weights cannot show whether the accuracies have the same order. Therefore the ranking also lists which
other measures give the same order, each in the direction in which it is claimed to be good.

**Too good to be true.** A network ruined by a large learning rate or by pruning can have the best exponents. A network
is out of line if its loss of rank exceeds that of every other by more than 5 %; or if its λ_max (median over layers) is
ten times larger or smaller than that of the nearest other (fifty times for a single layer); or if its stable rank per
column or the distance to its randomised twin is three times larger or smaller. Of two networks both are then named: the
weights do not show which of them is out of line. A network is not ranked if half of its layers have no eigenvalue
beyond noise and two other networks are left: an untrained network has small norms and a meaningless α. A network whose
dense layers all hardly differ from random weights is ranked with a warning. Another warning is given if the numbers of
parameters differ more than twofold: norms and α·log λ_max grow with width.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from weightsmith.core.records import Record
from weightsmith.grading.answer import advice
from weightsmith.grading.results import Grades, LayerGrade, VerdictKind

__all__ = ["DIRECTIONS", "RankedPair", "Ranking", "rank_networks"]

DIRECTIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "alpha",
            "alpha_median",
            "alpha_weighted",
            "alpha_fixed_aspect",
            "alpha_hat",
            "alpha_hat_mean",
            "alpha_hat_raw",
            "alpha_hat_mean_raw",
            "alpha_hat_pooled",
            "alpha_hat_pooled_mean",
            "alpha_hat_pooled_raw",
            "alpha_hat_pooled_mean_raw",
            "lambda_hat",
            "lambda_hat_raw",
            "log_alpha_norm",
            "log_norm",
            "log_spectral_norm",
            "log_product_norm",
            "log_product_spectral_norm",
            "log_stable_rank",
            "soft_rank",
            "stable_rank",
            "rank_loss",
            "traps",
        ),
        "smaller",
    ),
    "alpha_in_range": "larger",
    "entropy": "smaller",
    "spikes": "larger",
    "twin_distance": "larger",
}
"""The direction in which each measure is claimed to be good, by Martin & Mahoney or by the tools that use it."""

_BY = "alpha_weighted"
_BESIDE = ("alpha", "alpha_in_range", "log_spectral_norm", "log_norm", "stable_rank")
_LOST_RANK, _SCALE, _SHAPE, _ONE_LAYER = 0.05, 10.0, 3.0, 50.0
_CLEAR, _LIKELY = 0.95, 0.75
_ALIKE = 2.0  # the ratio up to which networks count as equally large


@dataclass(frozen=True, eq=False)
class RankedPair(Record):
    """Two networks that follow each other, and the probability that the first comes first; None without intervals."""

    first: str
    second: str
    probability: float | None


@dataclass(frozen=True, eq=False)
class Ranking(Record):
    """The networks in order, how sure the order is, which measures agree, the warnings, and who is not ranked."""

    by: str
    names: tuple[str, ...]
    pairs: tuple[RankedPair, ...]
    agree: tuple[str, ...]
    differ: tuple[str, ...]
    warnings: tuple[str, ...]
    unranked: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """The first network, how clearly it comes first, and how many other measures disagree."""
        (first, probability), second = (self.names[0], self.pairs[0].probability), self.names[1]
        other, all_others = len(self.differ), len(self.differ) + len(self.agree)
        doubt = f"; {other} of {all_others} other measures order the networks differently" if other else ""
        if probability is None:
            return f"Best by {self.by}: {first}; without intervals of α there is no probability{doubt}"
        if probability >= _LIKELY:
            sure = "clearly" if probability >= _CLEAR else "probably"
            return f"Best by {self.by}: {first}, {sure} before {second}{doubt}"
        return f"Best by {self.by}: {first} or {second}; they hardly differ{doubt}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The conclusion, line by line."""
        order = self.names[0]
        for pair in self.pairs:
            sure = "" if pair.probability is None else f" ({100 * min(pair.probability, 0.99):.0f} %)"
            order += f" before{sure} {pair.second}"
        said = f"the same order by {', '.join(self.agree)}" if self.agree else "no other measure has this order"
        other = f"; another by {', '.join(self.differ)}" if self.differ else ""
        return (
            self.best,
            f"Order by {self.by} (smaller is claimed to be better; in brackets, how sure this order is): {order}",
            f"Agreement: {said}{other}. This orders weights, not accuracies: where you have labels, "
            "choose by the accuracy on validation rows.",
            *(f"Warning: {warning}" for warning in self.warnings),
        )


def rank_networks(several: Sequence[Grades], names: Sequence[str]) -> Ranking | None:
    """The ranking of the networks that have a value; None for fewer than two."""
    found = [(grades, name, _value(grades, _BY)) for grades, name in zip(several, names, strict=True)]
    ranked = sorted(
        ((grades, name, value) for grades, name, value in found if value is not None), key=lambda item: item[2]
    )
    judged = [item for item in ranked if not _is_noise(item[0])]
    unranked = tuple(name for grades, name, _ in ranked if _is_noise(grades)) if len(judged) > 1 else ()
    ranked = judged if unranked else ranked
    if len(ranked) < 2:
        return None
    order = tuple(name for _, name, _ in ranked)
    pairs = tuple(RankedPair(a[1], b[1], _probability(a[0], b[0], b[2] - a[2])) for a, b in itertools.pairwise(ranked))
    same: dict[bool, list[str]] = {True: [], False: []}
    for measure in _BESIDE:
        values = {name: _value(grades, measure) for grades, name, _ in ranked}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) == len(ranked):
            sign = 1 if DIRECTIONS[measure] == "smaller" else -1
            steps = [sign * (known[b] - known[a]) for a, b in itertools.pairwise(order)]
            if min(steps) != 0:  # a tie is neither agreement nor contradiction
                same[min(steps) > 0].append(measure)
    agree, differ = ([f"{name} ({DIRECTIONS[name]})" for name in same[key]] for key in (True, False))
    return Ranking(_BY, order, pairs, tuple(agree), tuple(differ), _warnings(several, names, unranked), unranked)


def _value(grades: Grades, name: str) -> float | None:
    return next((measure.value for measure in grades.measures if measure.name == name), None)


def _probability(a: Grades, b: Grades, difference: float) -> float | None:
    deviations = [_deviation(grades) for grades in (a, b)]
    if None in deviations:
        return None
    spread = math.hypot(*(deviation for deviation in deviations if deviation is not None))
    return NormalDist().cdf(difference / spread) if spread > 0 else 1.0


def _deviation(grades: Grades) -> float | None:
    """σ of the mean of α·log₁₀ λ_max; None if no layer has an interval. Layers without one count with the mean σ."""
    fitted = [layer for layer in grades.layers if layer.fit is not None and layer.metrics is not None]
    terms = [term for term in map(_term, fitted) if term is not None]
    if not terms:
        return None
    return math.sqrt(statistics.fmean(term * term for term in terms) / len(fitted))


def _term(layer: LayerGrade) -> float | None:
    if layer.interval is None or layer.alpha is None or layer.metrics is None or layer.interval.low <= 1:
        return None
    quantile = NormalDist().inv_cdf((1 + layer.interval.confidence) / 2)
    spread = math.log((layer.interval.high - 1) / (layer.interval.low - 1)) / (2 * quantile)
    return (layer.alpha - 1) * spread * layer.metrics.log_spectral_norm


def _warnings(several: Sequence[Grades], names: Sequence[str], unranked: Sequence[str]) -> tuple[str, ...]:
    signs: tuple[tuple[str, Callable[[Grades], float | None], float], ...] = (
        ("its largest eigenvalues are {ratio} those of the nearest other", _scale, _SCALE),
        ("its stable rank is {ratio} that of the nearest other", _shape, _SHAPE),
        ("its distance to its randomised twin is {ratio} that of the nearest other", _twin, _SHAPE),
    )
    warnings = []
    for index, (grades, name) in enumerate(zip(several, names, strict=True)):
        others = [other for place, other in enumerate(several) if place != index]
        reasons = []
        lost, most = _lost_rank(grades), max(map(_lost_rank, others))
        if lost > most + _LOST_RANK:
            reasons.append(f"it has lost {100 * lost:.0f} % of its rank, the others at most {100 * most:.0f} %")
        for words, measure, factor in signs:
            own, theirs = measure(grades), [value for value in map(measure, others) if value]
            ratios = [own / value for value in theirs] if own else []
            nearest = min(ratios, key=lambda ratio: abs(math.log(ratio)), default=1.0)
            if not 1 / factor < nearest < factor:
                reasons.append(words.format(ratio=f"{nearest:.2g} times"))
        if not reasons and (leap := _leap(grades, others)) is not None:
            reasons.append(leap)
        if _is_noise(grades):
            noise, fitted = _noise(grades)
            place = "it is not ranked" if name in unranked else "its place has no meaning"
            warnings.append(f"{noise} of {fitted} layers of {name} do not differ from random weights: {place}")
        elif any(advice(layer, grades) == "train longer" for layer in grades.layers):
            warnings.append(f"the dense layers of {name} hardly differ from random weights: its place means little")
        if reasons:
            warnings.append(
                f"{name} is out of line: {'; '.join(reasons)}. Whatever its place, check it before you use it"
            )
    sizes = [grades.coverage.parameters for grades in several]
    if max(sizes) > _ALIKE * min(sizes):
        warnings.append(
            f"the networks have {min(sizes):,} to {max(sizes):,} parameters; these measures compare networks of one "
            "size"
        )
    return tuple(warnings)


def _lost_rank(grades: Grades) -> float:
    """The share of eigenvalues that are zero, over layers that have any."""
    known = [(layer.metrics.rank_loss, layer.evals) for layer in grades.layers if layer.metrics is not None]
    dead = sum(layer.evals for layer in grades.layers if layer.status.value == "zero")
    evals = sum(size for _, size in known) + dead
    return (sum(lost for lost, _ in known) + dead) / evals if evals else 0.0


def _noise(grades: Grades) -> tuple[int, int]:
    """How many layers have no eigenvalue beyond noise, of how many with a fit."""
    fitted = [layer for layer in grades.layers if layer.fitted]
    return sum(layer.verdict.kind is VerdictKind.NO_HEAVY_TAIL for layer in fitted), len(fitted)


def _is_noise(grades: Grades) -> bool:
    noise, fitted = _noise(grades)
    return fitted > 0 and 2 * noise >= fitted


def _leap(grades: Grades, others: Sequence[Grades]) -> str | None:
    """The layer whose λ_max differs most from the same layer of every other network, if by more than fifty times."""
    found: list[tuple[float, str]] = []
    for layer in grades.layers:
        theirs = [
            same.metrics.lambda_max
            for other in others
            for same in other.layers
            if same.name == layer.name and same.metrics is not None and same.metrics.lambda_max > 0
        ]
        if layer.metrics is not None and layer.metrics.lambda_max > 0 and theirs:
            nearest = min(
                (layer.metrics.lambda_max / value for value in theirs), key=lambda ratio: abs(math.log(ratio))
            )
            found.append((nearest, layer.name))
    ratio, name = max(found, key=lambda each: abs(math.log(each[0])), default=(1.0, ""))
    if 1 / _ONE_LAYER < ratio < _ONE_LAYER:
        return None
    return f"the largest eigenvalue of {name} is {ratio:.2g} times that of the nearest other"


def _scale(grades: Grades) -> float | None:
    values = [layer.metrics.lambda_max / layer.factor for layer in grades.layers if layer.metrics is not None]
    return statistics.median(values) if values else None


def _shape(grades: Grades) -> float | None:
    values = [layer.metrics.stable_rank / layer.M for layer in grades.layers if layer.metrics is not None]
    return statistics.median(values) if values else None


def _twin(grades: Grades) -> float | None:
    values = [layer.twin.distance for layer in grades.layers if layer.twin is not None]
    return statistics.median(values) if values else None
