"""Spectral smoothing and sharpening: keep, or remove, the largest eigen-directions of each layer.

With W = U Σ Vᵀ and S the set of directions that a rule selects,

    smooth:   W ← W V_S V_Sᵀ          sharpen:   W ← W (1 − V_S V_Sᵀ)

so that the singular values outside (inside) S become zero and the others stay as they are. V comes from the Gram matrix
of the smaller side in double precision. A convolution is treated per kernel position, a recurrent layer per gate.
The rule ``traps`` acts on W with permuted entries, and undoes the permutation afterwards.
WeightWatcher's ``SVDSmoothing`` and ``SVDSharpness`` change the network in place, keep the same number of directions in
every kernel position, and skip layers of unknown type. Here a new network is returned, the rule applies to each
position separately, and every unchanged layer is named with the reason.

>>> import torch
>>> made = smooth({"fc.weight": torch.diag(torch.tensor([3.0, 2.0, 1.0]))}, "count:2")
>>> made.network["fc.weight"].diagonal(), round(made.report.layers[0].mass, 4)  # (9 + 4) / 14
(tensor([3., 2., 0.]), 0.9286)
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import WeightsmithError
from weightsmith.core.options import Option, param
from weightsmith.core.records import Origin, Record
from weightsmith.core.seeds import stream
from weightsmith.grading.fits.cuts import TailCut
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.layer import LEAST
from weightsmith.grading.spectra.spectrum import Spectrum
from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.editing.rewriting import Rewritten, rewritten
from weightsmith.networks.files import load
from weightsmith.networks.layers.walk import LayerWeights, opened
from weightsmith.networks.weights import Weights

__all__ = [
    "BeyondNoise",
    "ChangedLayer",
    "Directions",
    "DirectionsReport",
    "InTail",
    "Smoothed",
    "TopCount",
    "TopShare",
    "Traps",
    "sharpen",
    "smooth",
]


Operation = Literal["smooth", "sharpen"]


@dataclass(frozen=True, eq=False)
class ChangedLayer(Record):
    """The change of a layer: how many of its ``directions`` are ``kept``, and their share ``mass`` of ‖W‖_F².

    ``directions`` counts those of all its ``matrices`` together; for the rule ``traps``, of the permuted matrices. An
    unchanged layer has a ``reason``.
    """

    name: str
    shape: tuple[int, ...]
    matrices: int
    directions: int
    kept: int | None = None
    mass: float | None = None
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class DirectionsReport(Record):
    """The operation, its rule and the layers; ``untouched`` names tensors that are not layers and were copied."""

    operation: Operation
    directions: Directions
    layers: tuple[ChangedLayer, ...]
    untouched: tuple[str, ...] = ()
    origin: Origin = dataclasses.field(default_factory=Origin)

    @property
    def line(self) -> str:
        """``smooth tail:erg: 20 of 22 layers changed, 512 of 1,024 directions kept in them``."""
        kept = {layer.name: layer.kept for layer in self.layers if layer.kept is not None}
        changed = [layer for layer in self.layers if kept.get(layer.name, layer.directions) < layer.directions]
        return (
            f"{self.operation} {self.directions}: {len(changed)} of {len(self.layers)} layers changed, "
            f"{sum(kept[layer.name] for layer in changed):,} of {sum(layer.directions for layer in changed):,} "
            "directions kept in them"
        )


@dataclass(frozen=True)
class Smoothed:
    """The new network (a module with its card, or tensors by name) and the report."""

    network: nn.Module | dict[str, Tensor]
    report: DirectionsReport

    def __repr__(self) -> str:
        return f"<Smoothed: {self}>"

    def __str__(self) -> str:
        return self.report.line


def smooth(
    network: object, keep: Directions | str = "tail:erg", *, layers: str | None = None, seed: int = 0
) -> Smoothed:
    """A copy of ``network`` that keeps only the directions that ``keep`` selects, in the layers a glob matches."""
    return _changed(network, "smooth", Directions.of(keep), layers, seed)


def sharpen(
    network: object, remove: Directions | str = "traps", *, layers: str | None = None, seed: int = 0
) -> Smoothed:
    """A copy of ``network`` without the directions that ``remove`` selects, in the layers a glob matches."""
    return _changed(network, "sharpen", Directions.of(remove), layers, seed)


def _changed(network: object, operation: Operation, rule: Directions, layers: str | None, seed: int) -> Smoothed:
    source = _module_or_weights(network)
    digest = weights_digest(source)
    entries: list[ChangedLayer] = []

    def change(layer: LayerWeights) -> Tensor | None:
        # The same stream for both operations, so that a smoothed and a sharpened layer add up to the original.
        rng = stream(seed, "directions", layer.name)
        matrices, entry = _project(layer, rule, rng, keeps=operation == "smooth")
        entries.append(entry)
        return matrices

    made = rewritten(source, change, layers=layers)
    if isinstance(source, nn.Module) and isinstance(made.network, nn.Module):
        card = card_of(source)
        with_card(made.network, dataclasses.replace(card, lineage=card.lineage.then(f"{operation} {rule}", digest)))
    entries += [ChangedLayer(name, (), 0, 0, reason=reason) for name, reason in made.kept.items()]
    origin = Origin(seed=seed, inputs={"network": digest})
    return Smoothed(made.network, DirectionsReport(operation, rule, tuple(entries), _untouched(made), origin))


def _module_or_weights(network: object) -> nn.Module | Weights:
    """A file with a known architecture as a module, which can be evaluated; any other file as its weights."""
    if isinstance(network, str | Path):
        with suppress(WeightsmithError):  # its weights may still be readable
            return load(network)
    return opened(network)


def _untouched(made: Rewritten) -> tuple[str, ...]:
    return tuple(f"{item.name}: {item.reason}" for item in made.left_out if item.parameters)


def _project(
    layer: LayerWeights, rule: Directions, rng: np.random.Generator, *, keeps: bool
) -> tuple[Tensor | None, ChangedLayer]:
    """The new matrices of a layer (None if unchanged) and its entry in the report."""
    count, rows, columns = layer.matrices.shape
    entry = ChangedLayer(layer.name, layer.shape, count, count * min(rows, columns))
    largest = float(layer.matrices.abs().max())
    if not math.isfinite(largest) or largest == 0:
        reason = "all weights are zero" if largest == 0 else "it holds NaN or infinity"
        return None, dataclasses.replace(entry, reason=reason)
    # Scaled to a largest weight of one, so that no square overflows.
    scaled = layer.matrices.to(torch.float64) / largest
    order = rule.order(scaled, rng)
    if order is not None:
        permutation = torch.from_numpy(order)
        scaled = scaled.flatten(1).gather(1, permutation).reshape(scaled.shape)
    values, vectors = torch.linalg.eigh(scaled.mT @ scaled if rows >= columns else scaled @ scaled.mT)
    found = _spectrum(values, max(rows, columns))
    counts = rule.count(found, scaled, rng)
    if isinstance(counts, str):
        return None, dataclasses.replace(entry, reason=counts)
    chosen = np.arange(found.columns)[None, :] >= found.columns - counts[:, None]
    mask = chosen if keeps else ~chosen
    if mask.all():
        return None, dataclasses.replace(entry, kept=entry.directions, mass=1.0)
    if not mask.any():
        return None, dataclasses.replace(entry, reason="no direction would be left")
    kept = vectors * torch.from_numpy(mask).to(vectors)[:, None, :]
    projector = kept @ vectors.mT
    made = (scaled @ projector if rows >= columns else projector @ scaled) * largest
    if order is not None:
        made = torch.empty_like(made).flatten(1).scatter_(1, permutation, made.flatten(1)).reshape(made.shape)
    mass = math.fsum(found.parts[mask]) / math.fsum(found.parts.ravel())
    return made, dataclasses.replace(entry, kept=int(mask.sum()), mass=mass)


def _spectrum(values: Tensor, rows: int) -> Spectrum:
    """The eigenvalues as in grading: those within rounding noise count as zero."""
    parts = values.numpy(force=True).copy()
    parts[parts <= np.maximum(parts[:, -1:], 0.0) * rows * np.finfo(np.float64).eps] = 0.0
    positive = np.sort(parts[parts > 0])
    return Spectrum(positive, parts, rows, parts.shape[1], positive.size, "gram float64")


# Rules that select the largest eigen-directions of each matrix.
#
#     share:0.8              a share of the directions of each matrix
#     count:10               a number of directions of each matrix
#     noise:level=0.01       those beyond the noise threshold of the matrix
#     tail:ks                those in the power-law tail, λ ≥ λ_min, by any rule for λ_min (``tail:erg`` is |det X| = 1)
#     traps                  those beyond the noise threshold after a random permutation of the entries
#
# The tail is that of all matrices of a layer together, so that the kernel positions of a convolution share one λ_min.


Counts = NDArray[np.int64]
Permutations = NDArray[np.int64]


class Directions(Option):
    """The family of rules."""

    def order(self, matrices: Tensor, rng: np.random.Generator) -> Permutations | None:  # noqa: ARG002
        """A permutation of the entries of each matrix, one row of indices per matrix.

        None: no permutation. Otherwise spectrum and directions are those of the permuted matrices, and the permutation
        of the result is undone.
        """
        return None

    @abstractmethod
    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:
        """The number of the largest directions of each matrix, or why it is undefined."""


class TopShare(Directions, name="share"):
    """A share of the directions of each matrix, rounded, at least one (WeightWatcher's ``svd``, there 0.8)."""

    share: float = param(default=0.8, gt=0, le=1, doc="of the smaller side of the matrix")

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """The same number for every matrix."""
        return np.full(spectrum.matrices, max(1, math.floor(self.share * spectrum.columns + 0.5)))


class TopCount(Directions, name="count"):
    """A number of directions of each matrix, or all of them if there are fewer."""

    number: int = param(ge=1)

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """The same number for every matrix."""
        return np.full(spectrum.matrices, min(self.number, spectrum.columns))


class BeyondNoise(Directions, name="noise"):
    """Eigenvalues above the threshold that pure noise exceeds with probability ``level`` (WeightWatcher's ``rmt``)."""

    level: float = param(default=0.01, ge=1e-9, le=0.5, doc="of the Tracy–Widom law")

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """Those above the threshold of their matrix."""
        return _beyond_noise(spectrum, matrices, self.level, none="no eigenvalue lies beyond the noise")


class InTail(Directions, name="tail"):
    """Eigenvalues λ ≥ λ_min of a fitted power law, with the rule ``cut`` (WeightWatcher's ``lambda_min``, ``detX``)."""

    cut: str = param(default="ks", doc="ks | erg | hill:share=0.5")

    def check(self) -> None:
        """``cut`` must name a known rule."""
        TailCut.parse(self.cut)

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """Those in the tail."""
        fit = fit_power_law(spectrum.eigenvalues, TailCut.parse(self.cut)) if spectrum.rank >= LEAST else None
        if fit is None:
            return f"{spectrum.rank} positive eigenvalues: no tail can be fitted"
        counts: Counts = (spectrum.parts >= fit.xmin).sum(axis=1)
        return counts


class Traps(Directions, name="traps"):
    """Correlation traps: directions beyond the noise of a matrix with permuted entries.

    The permutation destroys what was learnt. Eigenvalues still beyond the noise come from single entries that are too
    large at any position, or from a mean that is not zero. Sharpening removes these directions *from the permuted
    matrix* and undoes the permutation, as WeightWatcher does: the large entry goes, and what was learnt stays. All
    other entries change a little, so that zeros do not stay zero.
    """

    level: float = param(default=0.01, ge=1e-9, le=0.5, doc="of the Tracy–Widom law")

    def order(self, matrices: Tensor, rng: np.random.Generator) -> Permutations | None:
        """A random permutation, drawn as in :func:`~weightsmith.grading.random_matrix.twin.randomised_twin`."""
        from weightsmith.grading.random_matrix.twin import shuffle_matrices

        permutation = np.tile(np.arange(matrices[0].numel()), (len(matrices), 1))
        shuffle_matrices(permutation, rng)
        return permutation

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """Those above the threshold of their permuted matrix."""
        return _beyond_noise(spectrum, matrices, self.level, none="it has no correlation traps")


def _beyond_noise(spectrum: Spectrum, matrices: Tensor, level: float, *, none: str) -> Counts | str:
    from weightsmith.grading.random_matrix.noise import live_rows, noise_thresholds

    enough = spectrum.rank >= LEAST
    thresholds = noise_thresholds(spectrum, level, rows=live_rows(matrices)) if enough else None
    if thresholds is None:
        return f"{spectrum.rank} positive eigenvalues: no bulk of noise can be fitted"
    counts: Counts = (spectrum.parts > thresholds[:, None]).sum(axis=1)
    return counts if counts.any() else none
