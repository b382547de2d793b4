"""The words by which a call of :func:`weightsmith.grade` says how spectra are computed."""

from __future__ import annotations

from typing import Literal

__all__ = ["Conv", "Method", "Normalise", "Precision"]

Conv = Literal["pooled", "slices"]
"""The kernel positions of a convolution in one fit, or a fit for each."""

Normalise = Literal["none", "seed"]
"""Eigenvalues of WᵀW, or of WᵀW/N (eq. 2)."""

Precision = Literal["float64", "float32"]
"""The numbers of a spectrum."""

Method = Literal["gram", "svd"]
"""Eigenvalues of the Gram matrix, or singular values."""
