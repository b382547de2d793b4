"""The spectrum of other matrices, computed as a known one was: by the same method, in the same precision."""

from __future__ import annotations

from torch import Tensor

from weightsmith.grading.spectrum import Spectrum, spectrum

__all__ = ["spectrum_like"]


def spectrum_like(matrices: Tensor, known: Spectrum, device: str) -> Spectrum:
    """The spectrum of ``matrices``, not scaled."""
    method, precision = known.method.split()
    return spectrum(
        matrices,
        method="svd" if method == "svd" else "gram",
        precision="float32" if precision == "float32" else "float64",
        device=device,
    )
