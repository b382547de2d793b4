"""The randomised twin of a layer: the same weights in random order.

Training changes the arrangement of the weights of a layer, not only their sizes. A random permutation of the entries of
each matrix destroys the arrangement and keeps the sizes. The twin therefore has the spectrum that the layer would have
without structure, for the same distribution of weights. Entries stay in their matrix: a kernel position with larger
weights than another is no structure, as in :mod:`weightsmith.grading.random_matrix.noise`.

- **The distance** between both spectra is (1/n)·Σ|sᵢ − tᵢ| / √(Σsᵢ²/n), over the n singular values s of the layer and
  t of the twin, each in ascending order: the Wasserstein-1 distance, in units of the root-mean-square singular value.
  The sum of squares is the same on both sides, so the distance is between 0 and √2. It has no bins, no bandwidth, no
  logarithms of small numbers, and no unit. (WeightWatcher's ``rand_distance`` treats the eigenvalues as probabilities,
  and differs from call to call because it has no seed: .0119, then .0187, on one layer.)
- **Traps** (Martin's correlation traps) are eigenvalues of the *twin* beyond the threshold of the twin's own noise:
  entries so large that each makes an eigenvalue at any position, or a mean that is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.records import Record
from weightsmith.grading.random_matrix.noise import fit_bulk, live_rows
from weightsmith.grading.spectra.spectrum import Spectrum, spectrum

__all__ = ["Twin", "randomised_twin", "shuffle_matrices", "spectral_distance", "spectrum_like"]


@dataclass(frozen=True, eq=False)
class Twin(Record):
    """A layer's randomised twin.

    ``distance`` of its spectrum from the layer's; ``lambda_max``, its largest eigenvalue; ``traps``, how many of its
    eigenvalues are beyond the noise ``threshold`` (``spikes`` and ``threshold`` of the twin's
    :class:`~weightsmith.grading.random_matrix.noise.Bulk`); ``eigenvalues``, the positive ones, ascending.
    """

    distance: float
    lambda_max: float
    traps: int
    threshold: float
    eigenvalues: NDArray[np.float64]


def randomised_twin(
    matrices: Tensor, known: Spectrum, rng: np.random.Generator, *, level: float = 0.01, device: str = "cpu"
) -> Twin | None:
    """Permute the entries of a layer whose spectrum is ``known``, and compare; None if noise cannot be fitted.

    The twin's spectrum has the method, precision and scale of the known one. It costs a decomposition and a copy of the
    layer.

    >>> from weightsmith.grading.spectra.spectrum import spectrum
    >>> identity = torch.eye(100)[None]
    >>> twin = randomised_twin(identity, spectrum(identity), np.random.default_rng(0))
    >>> 0 < twin.distance < 2**0.5
    True
    """
    values = matrices.detach().to("cpu", torch.float64 if matrices.dtype == torch.float64 else torch.float32)
    entries = values.flatten(1).numpy().copy()
    shuffle_matrices(entries, rng)
    shuffled = torch.from_numpy(entries).reshape(values.shape)
    found = spectrum_like(shuffled, known, device)
    if not found.rank:
        return None
    # Both have the same sum of squared weights, so the ratio of the sums of eigenvalues is the scale of the known one.
    found = found.scaled(float(known.parts.sum() / found.parts.sum()))
    bulk = fit_bulk(found, level, rows=live_rows(shuffled))
    if bulk is None:
        return None
    distance = spectral_distance(known, found)
    return Twin(distance, float(found.eigenvalues[-1]), bulk.spikes, bulk.threshold, found.eigenvalues)


def shuffle_matrices(entries: NDArray[Any], rng: np.random.Generator) -> None:
    """Shuffle the entries of each matrix of a layer, one row per matrix, in place.

    The order depends on the generator and the sizes only: indices are shuffled like weights.
    """
    for matrix in entries:
        rng.shuffle(matrix)


def spectral_distance(one: Spectrum, other: Spectrum) -> float:
    """The Wasserstein-1 distance between the singular values of two layers, over the root mean square of the first.

    Both layers must have the same number of eigenvalues, zeros included.
    """
    first, second = np.sort(one.parts, axis=None), np.sort(other.parts, axis=None)
    scale = first.mean()
    return float(np.abs(np.sqrt(first / scale) - np.sqrt(second / scale)).mean())


def spectrum_like(matrices: Tensor, known: Spectrum, device: str) -> Spectrum:
    """The spectrum of ``matrices`` with the method and precision of a known one, not scaled."""
    method, precision = known.method.split()
    return spectrum(
        matrices,
        method="svd" if method == "svd" else "gram",
        precision="float32" if precision == "float32" else "float64",
        device=device,
    )
