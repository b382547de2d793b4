"""The results of grading: a status and optional numbers for each layer, and aggregates with their coverage."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UnknownName
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval
from weightsmith.grading.classes import ClassShares
from weightsmith.grading.fits.alternatives import Alternative
from weightsmith.grading.fits.powerlaw import PowerLaw, SliceFit
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.grading.metrics import LayerMetrics
from weightsmith.grading.random_matrix.aspect import FixedAspect
from weightsmith.grading.random_matrix.noise import Bulk
from weightsmith.grading.random_matrix.twin import Twin
from weightsmith.grading.random_matrix.universality import Universality
from weightsmith.networks.layers.channels import GUESS

__all__ = [
    "Coverage",
    "Grades",
    "LayerGrade",
    "Measure",
    "Omitted",
    "Status",
    "Verdict",
    "VerdictKind",
    "interval_doubt",
]

Cell = float | int | str | None

_SHORT_TAIL, _LARGE_BODY = 20, 5  # planted: tails of 20 and 50 eigenvalues, bodies 1 and 9 times the tail


class Status(enum.Enum):
    """Whether a layer has a fit, or why not."""

    FITTED = "fitted"
    TOO_SMALL = "too small"
    """Fewer than eight eigenvalues, or matrices of a single row or column."""
    ZERO = "zero"
    CONSTANT = "constant"
    """Every weight is the same number."""
    LOW_RANK = "low rank"
    """Fewer than eight eigenvalues differ from zero."""
    FLAT = "flat"
    """All eigenvalues are equal, as in an orthogonal matrix: there is no tail."""
    DEGENERATE = "degenerate"
    """Fewer than eight distinct eigenvalues, or only one per matrix: too few for a fit."""
    NON_FINITE = "non-finite"
    OUT_OF_RANGE = "out of range"
    """The squares of the weights are outside the range of float64."""


class VerdictKind(enum.Enum):
    """The verdicts on a layer, in the order in which they are tested."""

    CANNOT_BE_FITTED = "cannot be fitted"
    NO_HEAVY_TAIL = "looks like noise"
    CANNOT_SAY = "cannot say"
    OVER_REGULARISED = "over-regularised"
    WELL_TRAINED = "well trained"
    WEAKLY_TRAINED = "weakly trained"
    NOT_JUDGED = "not judged"

    @classmethod
    def _missing_(cls, value: object) -> VerdictKind | None:
        return cls.NO_HEAVY_TAIL if value == "no heavy tail" else None  # the value in files written by 0.1


@dataclass(frozen=True, eq=False)
class Verdict(Record):
    """The verdict on a layer, and the numbers behind it."""

    kind: VerdictKind
    because: str


def interval_doubt(tail: int, evals: int, spikes: int | None) -> str | None:
    """Why the 95 % interval of α may be too narrow, or None.

    On planted truths (docs/results/planted.md, "bodies") it covers α in fewer than 90 % of trials in two cases: a bulk
    of noise reaches into the tail (69 to 84 %), or the tail is short beside a large body (89 % with 20 eigenvalues and
    nine times as many below). The first is suspected where fewer than half of the tail's eigenvalues are ``spikes``,
    beyond what noise reaches. The same page shows under "marks" how well this separates the cases.
    """
    if spikes is not None and 2 * spikes < tail:
        return f"of {tail} eigenvalues in the tail only {spikes} are beyond what noise reaches"
    if tail <= _SHORT_TAIL and evals - tail >= _LARGE_BODY * tail:
        return f"the tail has {tail} of {evals} eigenvalues"
    return None


@dataclass(frozen=True, eq=False, repr=False)
class LayerGrade(Record):
    """One layer, or with ``slice`` one matrix of it.

    ``N`` × ``M`` is the size of each of its ``matrices`` (N ≥ M), ``evals`` how many eigenvalues they have together.
    All eigenvalues are those of WᵀW times ``factor``. ``slices`` are the fits of the single matrices of a layer whose
    eigenvalues are pooled. Values that could not be computed, or were not selected, are None.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    N: int
    M: int
    matrices: int
    evals: int
    status: Status
    verdict: Verdict
    reason: str | None = None
    slice: int | None = None
    factor: float = 1.0
    tied_with: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fit: PowerLaw | None = None
    interval: Interval | None = None
    shares: ClassShares | None = None
    goodness: Goodness | None = None
    alternatives: tuple[Alternative, ...] = ()
    bulk: Bulk | None = None
    twin: Twin | None = None
    aspect: FixedAspect | None = None
    universality: Universality | None = None
    metrics: LayerMetrics | None = None
    slices: tuple[SliceFit, ...] = ()
    eigenvalues: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def fitted(self) -> bool:
        """Whether the layer has an α."""
        return self.fit is not None

    @property
    def guessed(self) -> bool:
        """Whether the number of groups is a guess: a file of tensors does not store the groups of a convolution."""
        return any(note.startswith(GUESS) for note in self.notes)

    @property
    def words(self) -> str:
        """The verdict in words: ``well trained``, ``leans weakly trained (81 %)``, ``cannot say (…)``; else the status.

        A clear verdict holds at the confidence of the interval; a layer whose law is rejected leans to no class.
        """
        if self.fit is None:
            return self.status.value
        if self.verdict.kind is VerdictKind.CANNOT_SAY:
            if self.goodness is not None and self.goodness.rejected:
                return "cannot say (power law rejected)"
            if self.shares is not None and self.interval is not None:
                return self.shares.words
        return str(self.verdict.kind.value)

    @property
    def narrow(self) -> str | None:
        """Why the interval of α may be too narrow, or None: :func:`interval_doubt`."""
        if self.fit is None or self.interval is None or self.verdict.kind is VerdictKind.NO_HEAVY_TAIL:
            return None
        return interval_doubt(self.fit.tail, self.evals, None if self.bulk is None else self.bulk.spikes)

    @property
    def alpha(self) -> float | None:
        """The exponent of the tail."""
        return None if self.fit is None else self.fit.alpha

    @property
    def alpha_low(self) -> float | None:
        """The lower end of the interval of α."""
        return None if self.interval is None else self.interval.low

    @property
    def alpha_high(self) -> float | None:
        """The upper end of the interval of α."""
        return None if self.interval is None else self.interval.high

    def __repr__(self) -> str:
        where = self.name if self.slice is None else f"{self.name}[{self.slice}]"
        return f"<LayerGrade {where}: {self.status.value}, {self.words}: {self.verdict.because}>"

    def row(self) -> dict[str, Cell]:
        """The layer as one flat row, for JSON and CSV; the same columns for every layer."""
        against = {other.name: other for other in self.alternatives}
        row: dict[str, Cell] = {
            "name": self.name,
            "slice": self.slice,
            "kind": self.kind,
            "status": self.status.value,
            "N": self.N,
            "M": self.M,
            "matrices": self.matrices,
            "evals": self.evals,
            "parameters": self.parameters,
            "factor": None if self.metrics is None else self.factor,
            "alpha": self.alpha,
            "alpha_low": self.alpha_low,
            "alpha_high": self.alpha_high,
        }
        row |= _cells(
            self.shares,
            share_over_regularised="over_regularised",
            share_well_trained="well_trained",
            share_weakly_trained="weakly_trained",
        )
        row |= _cells(self.fit, sigma="sigma", xmin="xmin", D="D", tail="tail")
        row |= _cells(self.metrics, **{name: name for name in LayerMetrics.__dataclass_fields__})
        row |= _cells(
            self.bulk,
            bulk_sigma="sigma",
            bulk_edge="high",
            noise_threshold="threshold",
            spikes="spikes",
            soft_rank="soft_rank",
            spike_alpha="spike_alpha",
        )
        row |= _cells(self.goodness, p_fit="p")
        for name in ("exponential", "lognormal", "truncated power law"):
            key = name.replace(" ", "_")
            row |= _cells(against.get(name), **{f"ratio_{key}": "normalised", f"p_{key}": "p"})
        row |= _cells(self.twin, twin_distance="distance", twin_lambda_max="lambda_max", traps="traps")
        row |= _cells(self.aspect, alpha_fixed_aspect="alpha")
        row |= {
            "universality": None if self.universality is None else self.universality.value,
            "verdict": self.verdict.kind.value,
            "words": self.words,
            "because": self.verdict.because,
            "interval_may_be_narrow": self.narrow,
            "reason": self.reason,
            "tied_with": ", ".join(self.tied_with) or None,
            "notes": "; ".join(self.notes) or None,
        }
        return row


def _exponent(layer: LayerGrade) -> str:
    if layer.fit is None:
        return layer.status.value
    if layer.interval is None:
        return f"{layer.fit.alpha:.2f}"
    return f"{layer.fit.alpha:.2f} [{layer.interval.low:.2f}, {layer.interval.high:.2f}]"


def _cells(record: Record | None, **columns: str) -> dict[str, Cell]:
    """Fields of ``record`` under the names of their columns; None in every column without a record."""
    return {column: None if record is None else getattr(record, name) for column, name in columns.items()}


@dataclass(frozen=True, eq=False)
class Measure(Record):
    """One number for a whole network, with the number of ``layers`` behind it and its exact ``meaning``.

    ``baseline`` marks measures that need no fit; a measure that does not beat them gains nothing from its power laws.
    """

    name: str
    value: float | None
    layers: int
    meaning: str
    baseline: bool = False


@dataclass(frozen=True, eq=False)
class Omitted(Record):
    """A tensor that was not graded: how many parameters it has, and why."""

    name: str
    parameters: int
    reason: str


@dataclass(frozen=True, eq=False)
class Coverage(Record):
    """The graded share of a network. ``graded`` are parameters in layers with a fit.

    If each matrix of a convolution has its own fit, ``layers`` and ``fitted`` count matrices; ``unit`` states it.
    """

    layers: int
    fitted: int
    parameters: int
    graded: int
    left_out: tuple[Omitted, ...] = ()
    unit: str = "layers"

    @property
    def line(self) -> str:
        """``17 of 22 layers fitted, with 252,464 of 272,474 parameters (92.66 %)``."""
        share = f" ({100 * self.graded / self.parameters:.2f} %)" if self.parameters else ""
        return (
            f"{self.fitted:,} of {self.layers:,} {self.unit} fitted, "
            f"with {self.graded:,} of {self.parameters:,} parameters{share}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Grades(Record):
    """The grades of a network: its layers in order, measures of the whole, and what was left out."""

    source: str
    settings: dict[str, Any]
    layers: tuple[LayerGrade, ...]
    measures: tuple[Measure, ...]
    coverage: Coverage
    notes: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)

    def __iter__(self) -> Iterator[LayerGrade]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __contains__(self, name: object) -> bool:
        return any(name in (layer, layer.name) for layer in self.layers)

    def __getitem__(self, which: int | str) -> LayerGrade:
        """The layer called ``which`` (the first of its slices), or the one at that index."""
        if isinstance(which, int):
            return self.layers[which]
        for layer in self.layers:
            if layer.name == which:
                return layer
        raise UnknownName("layer", str(which), [layer.name for layer in self.layers])

    def __repr__(self) -> str:
        return f"<Grades of {self.source}: {self.coverage.line}>"

    def __str__(self) -> str:
        """A line per layer: name, α with its interval, verdict; then the coverage."""
        rows = [(layer.name if layer.slice is None else f"{layer.name}[{layer.slice}]", layer) for layer in self.layers]
        width = max((len(name) for name, _ in rows), default=0)
        lines = [f"{name:<{width}}  {_exponent(layer):>20}  {layer.words}" for name, layer in rows]
        return "\n".join([self.source, *lines, self.coverage.line])

    def measure(self, name: str) -> Measure:
        """The measure called ``name``."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise UnknownName("measure", name, [measure.name for measure in self.measures])

    @property
    def summary(self) -> dict[str, float | None]:
        """The measures by name."""
        return {measure.name: measure.value for measure in self.measures}

    def verdicts(self) -> dict[VerdictKind, int]:
        """How many layers have each verdict; verdicts that do not occur are left out."""
        counts = {kind: sum(layer.verdict.kind is kind for layer in self.layers) for kind in VerdictKind}
        return {kind: count for kind, count in counts.items() if count}

    def to_table(self) -> dict[str, Any]:
        """The output of ``--json``: ``layers`` as flat rows, ``summary``, ``coverage`` and origin."""
        return {
            "source": self.source,
            "layers": [layer.row() for layer in self.layers],
            "summary": self.summary,
            "meaning": {measure.name: measure.meaning for measure in self.measures},
            "coverage": {"line": self.coverage.line, **self.coverage.to_dict()},
            "settings": self.settings,
            "notes": list(self.notes),
            "origin": self.origin.to_dict(),
        }
