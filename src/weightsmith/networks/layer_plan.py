"""Layer-wise keep ratios: which share of each layer to keep when pruning.

A rule gives every layer a score s, and a plan converts scores into the shares to keep:

    rᵢ = keep · (1 − τ + 2τ · (sᵢ − s_min)/(s_max − s_min))        from keep·(1 − τ) to keep·(1 + τ)
    kᵢ = min(1, c · rᵢ),     c such that Σ pᵢkᵢ / Σ pᵢ = keep       pᵢ the layer's parameters

so that plans of all rules keep the same number of parameters and can be compared. A layer without a score keeps the
target share and is listed in ``unscored``. The linear map with one common factor is that of AlphaPruning (Lu et al.,
NeurIPS 2024), which applies it to the share that is removed.

>>> plan = LayerPlan.from_scores({"a": 1.0, "b": 3.0}, {"a": 100, "b": 100}, keep=0.5, spread=0.2, source="an example")
>>> {name: round(share, 3) for name, share in plan.values.items()}, round(plan.mean, 12)
({'a': 0.4, 'b': 0.6}, 0.5)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from torch import nn

from weightsmith.core.errors import FileRefused, OptionError, UsageError
from weightsmith.core.records import Origin, Record, write_record
from weightsmith.core.storage import reading
from weightsmith.networks.layers.norms import entrywise
from weightsmith.networks.layers.walk import network_digest, opened, walk
from weightsmith.networks.weights import Weights

__all__ = ["LayerPlan", "norm_plan"]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerPlan(Record):
    """The share of each layer to keep, in (0, 1], by the layer's name.

    ``source`` names the rule, ``target`` is the share of all ``parameters`` (by layer) to keep, ``unscored`` lists the
    layers that keep the target because the rule gives them no score, and ``origin.inputs["network"]`` is the digest of
    the network.
    """

    values: dict[str, float]
    parameters: dict[str, int]
    source: str
    target: float
    unscored: tuple[str, ...] = ()
    origin: Origin = dataclasses.field(default_factory=Origin)

    def __post_init__(self) -> None:
        _check_share(self.target, "the target of a plan")
        for name, share in self.values.items():
            _check_share(share, f"the share kept of {name}")
        strange = [*(set(self.values) ^ set(self.parameters)), *(set(self.unscored) - set(self.values))]
        if not self.values or strange:
            problem = f"{min(strange)!r} is not in all of its parts" if strange else "there are no layers"
            raise UsageError(f"a plan names a share and a size for each layer: {problem}")

    @property
    def mean(self) -> float:
        """The share of all parameters that is kept: the mean of the values, weighted by the layers' parameters."""
        return _mean(list(self.values.values()), list(self.parameters.values()))

    @classmethod
    def uniform(cls, network: object, keep: float = 0.5, *, layers: str | Sequence[str] | None = None) -> Self:
        """The same share of every layer (of those the glob ``layers`` matches): the baseline of all other plans.

        ``network`` is anything that :func:`weightsmith.networks.walk` takes.
        """
        found = opened(network)
        sizes = {layer.name: layer.parameters for layer in walk(found, layers=layers).layers}
        return cls(dict.fromkeys(sizes, float(keep)), sizes, "uniform", float(keep), origin=_origin(found))

    @classmethod
    def from_scores(
        cls,
        scores: Mapping[str, float | None],
        parameters: Mapping[str, int],
        *,
        keep: float,
        spread: float,
        source: str,
        origin: Origin | None = None,
    ) -> Self:
        """Layers with larger scores keep more, by the formula above; ``spread`` is τ, in [0, 1).

        A layer whose score is None keeps ``keep`` and takes no part in the rescaling.
        """
        _check_share(keep, "keep")
        if not 0 <= spread < 1:
            raise OptionError(f"spread must be ≥ 0 and < 1, not {spread!r}")
        known = {name: score for name, score in scores.items() if score is not None}
        shares = _stretched(list(known.values()), keep, spread)
        kept = dict(zip(known, _rescaled(shares, [parameters[name] for name in known], keep), strict=True))
        return cls(
            {name: kept.get(name, float(keep)) for name in scores},
            {name: parameters[name] for name in scores},
            source,
            float(keep),
            tuple(name for name in scores if name not in known),
            origin or Origin(),
        )

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON text."""
        return write_record(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The plan that :meth:`save` wrote."""
        with reading(path):
            text = Path(path).read_bytes()
        try:
            return cls.from_json(text.decode())
        except (ValueError, RecursionError) as error:  # not text, not JSON, or not a plan
            raise FileRefused(path, f"is not a plan of layers ({error})") from error


def norm_plan(
    network: object, keep: float = 0.5, *, spread: float = 0.3, layers: str | Sequence[str] | None = None
) -> LayerPlan:
    """Layers with larger weights keep more: the score is the root mean square, sqrt(Σ w²/p) over p parameters.

    A simple baseline, similar to global magnitude pruning over all layers at once but limited by ``spread``. A layer
    that holds NaN or infinity has no score.
    """
    found = opened(network)
    scores: dict[str, float | None] = {}
    sizes: dict[str, int] = {}
    for layer in walk(found, layers=layers):
        root = float(entrywise(layer.matrices, 2)) / math.sqrt(layer.matrices.numel())
        scores[layer.name] = root if math.isfinite(root) else None
        sizes[layer.name] = layer.parameters
    source = f"root mean square of the weights, spread {spread:g}"
    return LayerPlan.from_scores(scores, sizes, keep=keep, spread=spread, source=source, origin=_origin(found))


def _stretched(scores: list[float], keep: float, spread: float) -> list[float]:
    """Scores mapped onto keep·(1 ∓ spread); ``keep`` itself when all are equal."""
    least, largest = min(scores, default=0.0), max(scores, default=0.0)
    if largest == least:
        return [float(keep)] * len(scores)
    return [keep * (1 + spread * (2 * (score - least) / (largest - least) - 1)) for score in scores]


def _rescaled(shares: list[float], sizes: list[int], keep: float) -> list[float]:
    """min(1, c·share) with the c for which their mean, weighted by size, is ``keep``.

    The largest shares reach 1 first, so they are fixed at 1 one after the other until the rest stays below.
    """
    if not any(sizes):
        return shares
    room = keep * sum(sizes)
    order = sorted(range(len(shares)), key=lambda i: -shares[i])
    for first, largest in enumerate(order):
        rest = order[first:]
        weight = math.fsum(shares[i] * sizes[i] for i in rest)
        factor = (room - sum(sizes[i] for i in order[:first])) / weight if weight else math.inf
        if factor * shares[largest] <= 1:
            return [min(1.0, factor * share) for share in shares]
    return [1.0] * len(shares)


def _mean(shares: list[float], sizes: list[int]) -> float:
    if not any(sizes):
        return math.fsum(shares) / len(shares)
    return math.fsum(share * size for share, size in zip(shares, sizes, strict=True)) / sum(sizes)


def _check_share(value: float, what: str) -> None:
    if not 0 < value <= 1:
        raise OptionError(f"{what} must be > 0 and ≤ 1, not {value!r}")


def _origin(network: nn.Module | Weights) -> Origin:
    return Origin(inputs={"network": network_digest(network)})
