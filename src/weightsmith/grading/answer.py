"""The summary of a grade: how much was graded, which layers to look at first, and what the weights cannot show.

Each piece of advice was tested on networks damaged on purpose (docs/results/advice.md, made by
``python -m benchmarks.advice``): its rule holds for at least 70 % of the layers damaged in that way, and for few of the
networks that ``train`` makes by default. The tested layers are dense with 64 eigenvalues or more; other layers get no
advice.

- **train longer**: in every tested layer of the network, no eigenvalue lies beyond the noise, or the noise edge is
  above 0.58 of the largest eigenvalue (soft rank): no layer differs much from random weights. Training was stopped
  early, or noise was added. A single layer close to random weights is normal if the others have learned.
- **cut**: the stable rank is below 2.5 % of the number of units: far more units than directions.

*Regularise* is never advised: layers trained on random labels have the same spectra as well trained ones. Neither is
*leave*: just as many damaged layers are called well trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weightsmith.grading.results import Grades, LayerGrade, Status, VerdictKind

__all__ = ["ADVICE", "Answer", "advice", "answer"]

_NEAR_NOISE = 0.58
_FEW_DIRECTIONS = 0.025
_TESTED = 64  # eigenvalues of the smallest layers that advice was tested on
_MOST = 3  # layers that are named


def _all_near_noise(_: LayerGrade, tested: Sequence[LayerGrade]) -> bool:
    return all(
        layer.bulk is not None and (layer.bulk.spikes == 0 or layer.bulk.soft_rank > _NEAR_NOISE) for layer in tested
    )


def _has_few_directions(layer: LayerGrade, _: Sequence[LayerGrade]) -> bool:
    units = layer.shape[0]
    return layer.metrics is not None and layer.metrics.stable_rank < _FEW_DIRECTIONS * units


_REASONS = {
    "train longer": "hardly different from random weights, like all larger dense layers: train the network longer, "
    "unless it is accurate already",
    "cut": "far more units than directions in use: remove some (weightsmith reduce)",
}
ADVICE: dict[str, Callable[[LayerGrade, Sequence[LayerGrade]], bool]] = {
    "train longer": _all_near_noise,
    "cut": _has_few_directions,
}
"""Each piece of advice with its rule: a function of the layer and of all layers of its network that qualify."""


def advice(layer: LayerGrade, network: Grades) -> str | None:
    """The advice for a layer of a network, or None if no rule applies."""
    if not _is_tested(layer):
        return None
    tested = [other for other in network.layers if _is_tested(other)]
    return next((kind for kind, applies in ADVICE.items() if applies(layer, tested)), None)


def _is_tested(layer: LayerGrade) -> bool:
    return layer.fitted and layer.kind == "Linear" and layer.evals >= _TESTED


@dataclass(frozen=True)
class Answer:
    """Three lines: what was graded, what to look at first, what the weights cannot show."""

    graded: str
    look: str
    unknown: str

    @property
    def lines(self) -> tuple[str, str, str]:
        """The three lines with their labels."""
        return f"Graded: {self.graded}", f"Look first at: {self.look}", f"Weights cannot tell: {self.unknown}"


def answer(grades: Grades) -> Answer:
    """The three-line summary printed at the top of a grade.

    >>> from weightsmith.grading.grade import grade
    >>> from weightsmith.networks import mlp
    >>> print(answer(grade(mlp(64, 32, 10, seed=0))).look.partition("; ")[2])
    2 look like random weights, with too few eigenvalues to tell
    """
    return Answer(_graded(grades), _look(grades), _unknown(grades))


def _graded(grades: Grades) -> str:
    covered = grades.coverage
    share = f" ({100 * covered.graded / covered.parameters:.0f} % of the parameters)" if covered.parameters else ""
    fitted = [layer for layer in grades.layers if layer.fitted]
    if not fitted:
        return f"0 of {covered.layers} {covered.unit}: none could be fitted"
    which = f"{covered.fitted} of {covered.layers} {covered.unit}{share}"
    if any(layer.verdict.kind is VerdictKind.NOT_JUDGED for layer in fitted):
        return f"{which}; no verdicts without evidence"
    firm = [layer for layer in fitted if layer.verdict.kind is not VerdictKind.CANNOT_SAY]
    leaning = [layer for layer in fitted if layer.words.startswith("leans")]
    undecided = len(fitted) - len(firm) - len(leaning)
    clear = f"{len(firm)} with a clear verdict{_by_kind(layer.words for layer in firm)}"
    likely = _by_kind(layer.words.removeprefix("leans ").partition(" (")[0] for layer in leaning)
    return f"{which}. {clear}, {len(leaning)} with a likely one{likely}, {undecided} undecided"


def _by_kind(words: Iterable[str]) -> str:
    kinds = Counter(words).most_common()
    return f" ({', '.join(f'{kind}: {count}' for kind, count in kinds)})" if kinds else ""


_URGENT = (Status.NON_FINITE, Status.ZERO, Status.CONSTANT)


def _concern(layer: LayerGrade, network: Grades) -> int | None:
    """The priority of a layer, 0 the most urgent; None if it needs no attention."""
    if layer.status in _URGENT:
        return _URGENT.index(layer.status)
    if not layer.fitted:
        return None
    if layer.verdict.kind is VerdictKind.NO_HEAVY_TAIL and layer.evals < _TESTED:
        return None  # so few eigenvalues hardly ever stand out from noise
    order = ("looks like noise", "weakly trained", "over-regularised", "leans weakly", "leans over-regularised")
    place = next((index for index, words in enumerate(order) if layer.words.startswith(words)), None)
    if place is not None:
        return len(_URGENT) + place
    return None if advice(layer, network) is None else len(_URGENT) + len(order)


def _look(grades: Grades) -> str:
    concerns = [(_concern(layer, grades), -layer.parameters, index) for index, layer in enumerate(grades.layers)]
    found = sorted((concern, size, index) for concern, size, index in concerns if concern is not None)
    if not found:
        small = sum(layer.verdict.kind is VerdictKind.NO_HEAVY_TAIL for layer in grades.layers)
        doubt = f"; {small} look{'s' * (small == 1)} like random weights, with too few eigenvalues to tell" * (
            small > 0
        )
        return f"nothing: no layer is broken, or probably trained too little or regularised too much{doubt}"
    first = [grades.layers[index] for _, _, index in found[:_MOST]]
    named: dict[str, list[str]] = {}
    for layer in first:
        named.setdefault(_what_to_do(layer, grades), []).append(layer.name)
    parts = [f"{', '.join(names)}: {found}" for found, names in named.items()]
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    untested = any(layer.fitted and advice(layer, grades) is None for layer in first)
    limit = f". A remedy was tested for dense layers of {_TESTED} units or more only"
    return "; ".join(parts) + more + limit * untested


_MEANINGS = {
    "looks like noise": "not different from random weights",
    "weakly trained": "trained too little",
    "over-regularised": "regularised too much, or one direction dominates",
    "well trained": "well trained",
}


def _what_to_do(layer: LayerGrade, network: Grades) -> str:
    """The finding in plain words, and the advice if there is any."""
    if not layer.fitted:
        return f"its weights are {layer.status.value}: find out why"
    kind = advice(layer, network)
    if layer.verdict.kind is VerdictKind.CANNOT_SAY and layer.shares is not None and layer.words.startswith("leans"):
        found = f"probably {_MEANINGS[layer.shares.best]} ({layer.words.partition('(')[2]}"
    else:
        found = _MEANINGS.get(layer.words, layer.words)
    if kind is None:
        return found
    return _REASONS[kind] if kind == "train longer" else f"{found}, but {_REASONS[kind]}"


def _unknown(grades: Grades) -> str:
    parts = ["how accurate the network is, or whether its labels were right"]
    fitted = [layer for layer in grades.layers if layer.interval is not None]
    narrow = sum(layer.narrow is not None for layer in fitted)
    if narrow:
        parts.append(
            f"how sure {narrow} of {len(fitted)} verdicts are: these layers stand out little from random weights, and "
            "their intervals (marked ~) may be too narrow"
        )
    return "; ".join(parts)
