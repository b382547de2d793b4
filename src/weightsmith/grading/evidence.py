"""The option family for the amount of evidence for each α: ``none``, ``fast`` or ``full``."""

from __future__ import annotations

from weightsmith.core.options import Option, param

__all__ = ["Evidence", "FastEvidence", "FullEvidence", "NoEvidence"]


class Evidence(Option):
    """A family: how much evidence is computed for each α."""


class NoEvidence(Evidence, name="none"):
    """Only the fit and the metrics of the spectrum, as other tools give them; no verdict."""


class FastEvidence(Evidence, name="fast"):
    """An interval for α, the edge of the noise, and likelihood ratios to other tails: milliseconds per layer."""

    resamples: int = param(
        default=100, ge=50, doc="refits for the interval of α; up to 64 × if the verdict depends on them"
    )
    confidence: float = param(default=0.95, gt=0, lt=1, doc="of the interval")


class FullEvidence(Evidence, name="full"):
    """Also the goodness of fit, a randomised twin of the layer, and α at a fixed aspect ratio."""

    resamples: int = param(
        default=400, ge=50, doc="refits for the interval of α; up to 64 × if the verdict depends on them"
    )
    confidence: float = param(default=0.95, gt=0, lt=1, doc="of the interval")
    draws: int = param(default=400, ge=50, doc="samples of the law behind the goodness of fit")
    aspect: float = param(default=1.0, ge=1, doc="rows over columns of the blocks α is fitted on once more")
