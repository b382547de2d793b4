"""The options of :func:`weightsmith.grade` that set how spectra are computed."""

from __future__ import annotations

from typing import Literal

__all__ = ["Conv", "Method", "Normalise", "Precision"]

Conv = Literal["pooled", "slices"]
"""All kernel positions of a convolution in one fit, or one fit per position."""

Normalise = Literal["none", "seed"]
"""Eigenvalues of WᵀW, or of WᵀW/N (eq. 2)."""

Precision = Literal["float64", "float32"]
"""The floating-point type of a spectrum."""

Method = Literal["gram", "svd"]
"""Eigenvalues of the Gram matrix, or singular values."""
