"""Records of a comparison of two networks; differences are B − A."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple

from weightsmith.core.errors import UnknownName
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval

__all__ = [
    "NO_LAYERS",
    "LatencyDiff",
    "LayerDiff",
    "LayerFacts",
    "LoneAccuracy",
    "LoneLayer",
    "Missing",
    "NetworkDiff",
    "NetworkFacts",
    "PairedAccuracy",
    "SettingDiff",
    "UnitsDiff",
    "WeightDistance",
    "sentences",
]

NO_LAYERS = "layers: "
"""How the note begins that says why no layers could be compared."""

_NUMBERS = ("alpha", "log_spectral_norm", "log_norm", "stable_rank", "median_angle", "least_angle")


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkFacts(Record):
    """One of the two networks: kind, digest, size, and cost per image; None where unknown.

    ``macs`` are multiply–accumulates of one input, ``connections`` are these without zeros of the padding and weights
    of 0. ``picojoules`` is the energy of an image: connections times the price of a MAC, or for a spiking network the
    energy counted (or estimated, see ``energy_basis``) on the data. ``numbers`` is the number format: float32 or int8.
    """

    name: str
    kind: str
    network: str
    architecture: str | None
    parameters: int
    file_bytes: int | None
    macs: int | None = None
    picojoules: float | None = None
    energy_basis: str | None = None
    connections: int | None = None
    numbers: str = "float32"


@dataclasses.dataclass(frozen=True, eq=False)
class LayerFacts(Record):
    """One layer of one network: the exponent of its tail with its interval, norms, and angles between its units.

    ``log_spectral_norm`` is log₁₀ λ_max and ``log_norm`` log₁₀ Σλ, λ the eigenvalues that ``grade`` shows (squares of
    singular values). Angles, in degrees from 0 to 90, are those between the lines on which the incoming weights of two
    units lie: 0 for parallel weights, 90 for unrelated ones.
    """

    shape: tuple[int, ...]
    parameters: int
    status: str
    alpha: float | None = None
    alpha_low: float | None = None
    alpha_high: float | None = None
    log_spectral_norm: float | None = None
    log_norm: float | None = None
    stable_rank: float | None = None
    median_angle: float | None = None
    least_angle: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class WeightDistance(Record):
    """The distance between the weights: ‖A − B‖_F/‖A‖_F and ⟨A, B⟩/(‖A‖_F ‖B‖_F); None with the ``reason``.

    ``norm`` is ‖A‖_F.
    """

    relative: float | None = None
    cosine: float | None = None
    norm: float | None = None
    reason: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class LayerDiff(Record):
    """A layer that both networks have by name."""

    name: str
    kind: str
    a: LayerFacts
    b: LayerFacts
    distance: WeightDistance

    @property
    def changes(self) -> dict[str, float | None]:
        """B − A of every number; None where one of the networks lacks it."""
        pairs = {name: (getattr(self.a, name), getattr(self.b, name)) for name in _NUMBERS}
        return {name: None if a is None or b is None else b - a for name, (a, b) in pairs.items()}

    @property
    def changed(self) -> bool:
        """Whether the weights differ, if that is known."""
        if self.distance.relative is not None:
            return self.distance.relative != 0
        return self.a != self.b


@dataclasses.dataclass(frozen=True, eq=False)
class LoneLayer(Record):
    """A layer that only one of the networks has."""

    name: str
    shape: tuple[int, ...]
    parameters: int


@dataclasses.dataclass(frozen=True, eq=False)
class UnitsDiff(Record):
    """The units of a layer in both networks, and the median and smallest angle between their activations.

    None for a network without that layer. Angles are folded to 0–90 degrees: complementary units are as redundant as
    similar ones.
    """

    name: str
    units_a: int | None
    units_b: int | None
    median_a: float | None
    median_b: float | None
    least_a: float | None
    least_b: float | None


@dataclasses.dataclass(frozen=True, eq=False)
class SettingDiff(Record):
    """A setting that differs between the records of two results; None where one has no such setting."""

    name: str
    a: str | None
    b: str | None


@dataclasses.dataclass(frozen=True, eq=False)
class PairedAccuracy(Record):
    """Both networks on the same rows: accuracies, rows on which only one is right, and agreement.

    ``difference`` is B − A with Bonett and Price's interval, ``p`` McNemar's (exact). ``agreement`` is the share of
    rows on which both give the same answer, right or wrong; a row without an answer (NaN, or no spike at the output)
    agrees with nothing.
    """

    data: str
    split: str
    images: int
    a: Interval
    b: Interval
    both: int
    only_a: int
    only_b: int
    neither: int
    difference: Interval
    p: float
    agreement: Interval


@dataclasses.dataclass(frozen=True, eq=False)
class LoneAccuracy(Record):
    """The accuracy of one of the networks (``of`` is A or B) on rows that the other cannot be run on."""

    of: Literal["A", "B"]
    data: str
    split: str
    images: int
    accuracy: Interval


@dataclasses.dataclass(frozen=True, eq=False)
class LatencyDiff(Record):
    """Seconds per image in batches of one size: the best of the samples, and the time of B over that of A.

    The ratio is the median over alternating samples, with their middle half. ``clock`` names the clock.
    """

    batch: int
    a: float
    b: float
    ratio: float
    low: float
    high: float
    clock: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkDiff(Record):
    """Two networks side by side. ``notes`` name what could not be compared, and why.

    Where only one of them could be run on the data, ``lone_accuracy`` replaces ``accuracy``. ``relation`` says how
    one was made from the other, if their lineages show it. The result is reproducible for the same networks, data and
    seed, except for ``latency``, which is measured.
    """

    described_by: ClassVar[str] = "chain.diff.section.diff_section"

    a: NetworkFacts
    b: NetworkFacts
    relation: str | None
    settings: tuple[SettingDiff, ...]
    layers: tuple[LayerDiff, ...]
    only_a: tuple[LoneLayer, ...]
    only_b: tuple[LoneLayer, ...]
    units: tuple[UnitsDiff, ...]
    accuracy: PairedAccuracy | None
    latency: tuple[LatencyDiff, ...]
    notes: tuple[str, ...]
    origin: Origin
    lone_accuracy: LoneAccuracy | None = None

    def __repr__(self) -> str:
        return f"<NetworkDiff of {self.a.name} and {self.b.name}: {self}>"

    def __str__(self) -> str:
        """One line: what is the same, and what changed by how much."""
        if self.identical:
            return "the same weights"
        parts = [f"{self.a.parameters:,} → {self.b.parameters:,} parameters"]
        differ = f"{sum(layer.changed for layer in self.layers)} of {len(self.layers)} common layers differ"
        parts.append(differ if self.layers else "no layers could be compared")
        if self.accuracy is not None:
            change = self.accuracy.difference
            ends = f"{change.low * 100:+.2f} to {change.high * 100:+.2f} points".replace("-", "−")
            parts.append(f"accuracy {self.accuracy.a.value:.2%} → {self.accuracy.b.value:.2%} ({ends})")
        if self.lone_accuracy is not None:
            parts.append(f"accuracy of {self.lone_accuracy.of} alone {self.lone_accuracy.accuracy.value:.2%}")
        return ", ".join(parts)

    def __getitem__(self, name: str) -> LayerDiff:
        """The common layer of that name."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise UnknownName("common layer", name, [layer.name for layer in self.layers])

    @property
    def identical(self) -> bool:
        """Whether both have the same weights under the same names."""
        return self.a.network == self.b.network

    @property
    def relative(self) -> float | None:
        """‖A − B‖_F / ‖A‖_F over all layers whose weights could be compared."""
        found = [layer.distance for layer in self.layers]
        sizes = [(each.relative, each.norm) for each in found if each.relative is not None and each.norm is not None]
        total = math.hypot(*(norm for _, norm in sizes))
        return math.hypot(*(share * norm for share, norm in sizes)) / total if total else None


# Notes on what could not be compared, one sentence per reason.


class Missing(NamedTuple):
    """A value that is missing for a network, and the reason."""

    what: str
    of: str
    reason: str


def sentences(missing: Iterable[Missing]) -> list[str]:
    """One sentence per reason, with all values that are missing for it, in one network or both.

    >>> sentences([Missing("MACs", "a", "no code"), Missing("accuracy", "b", "shape"), Missing("time", "a", "no code")])
    ['MACs and time of a: no code', 'accuracy of b: shape']
    >>> sentences([Missing("MACs", name, "no code") for name in "ab"])
    ['MACs of a and b: no code']
    """
    whats: dict[tuple[str, str], list[str]] = {}
    for each in missing:
        found = whats.setdefault((each.of, each.reason), [])
        if each.what not in found:
            found.append(each.what)
    names: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (name, reason), found in whats.items():
        names.setdefault((tuple(found), reason), []).append(name)
    return [f"{_listed(found)} of {_listed(of)}: {reason}" for (found, reason), of in names.items()]


def _listed(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1]) if words[1:] else words)
