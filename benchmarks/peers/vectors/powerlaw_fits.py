"""Power-law fits and likelihood ratios of the powerlaw package on fixed samples: what evidence for a tail is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import powerlaw

from benchmarks.peers.inputs import codes, weights

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("numpy", "powerlaw", "scipy")


def vectors() -> dict[str, Any]:
    """Samples of 60 without ties (Pareto, exponential, squares of sums), with xmin searched and with xmin given."""
    first, second = codes(2, 60, salt=51).astype(np.float64) + 127
    uniform = (255 * first + second + 0.5) / 255**2
    samples = {
        "exponential": 1 - np.log(uniform),
        "squares": weights(60, 8, salt=52).sum(axis=1) ** 2 + np.arange(1, 61) / 1024,
        "pareto_alpha_2.5": uniform ** (-1 / 1.5),
    }
    return {name: _fits(np.sort(sample)) for name, sample in samples.items()}


def _fits(sample: np.ndarray[Any, Any]) -> dict[str, Any]:
    searched = powerlaw.Fit(sample, verbose=False)
    start = float(sample[20])
    given = powerlaw.Fit(sample, xmin=start, verbose=False)
    ratios = {}
    for other in ("exponential", "lognormal"):
        ratio, p = given.distribution_compare("power_law", other, normalized_ratio=True)
        ratios[other] = {"normalised_ratio": float(ratio), "p": float(p)}
    return {
        "sample": sample.tolist(),
        "xmin_given": {
            "D": float(given.power_law.D),
            "alpha": float(given.power_law.alpha),
            "power_law_against": ratios,
            "xmin": start,
        },
        "xmin_searched": {
            "D": float(searched.power_law.D),
            "alpha": float(searched.power_law.alpha),
            "sigma": float(searched.power_law.sigma),
            "xmin": float(searched.power_law.xmin),
        },
    }
