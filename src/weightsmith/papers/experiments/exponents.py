"""Power-law exponents of all layers and kernel positions at hand (heavy tails, figure 1 and eq. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.statistics import wilson
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.networks import AKAMASTER, DISTILLER, graded
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_FEWEST = 16  # least eigenvalues of a fit that counts


def measure(*, seed: int, network: str, conv: str, path: str | Path | None = None) -> dict[str, Any]:
    """The number of spectra with an exponent between 2 and 5 or 6, their quartiles, and a comparison with eq. 6.

    ``slices`` are the kernel positions of convolutions one by one, as the paper has them, ``pooled`` all of a layer.
    """
    grades = graded(network, path, seed, conv, "seed")
    fitted = [layer for layer in grades.layers if layer.fit is not None and layer.evals >= _FEWEST]
    alphas = np.array([layer.alpha for layer in fitted if layer.alpha is not None])
    logs = np.array(
        [
            layer.metrics.log_stable_rank if layer.metrics and layer.metrics.log_stable_rank is not None else np.nan
            for layer in fitted
        ]
    )
    known = np.isfinite(logs)
    return {
        "spectra": len(alphas),
        "within_2_5": int(np.sum((alphas >= 2) & (alphas <= 5))),
        "within_2_6": int(np.sum((alphas >= 2) & (alphas <= 6))),
        "below_2": int(np.sum(alphas < 2)),
        "median": float(np.median(alphas)),
        "mean": float(np.mean(alphas)),
        "ratio_median": float(np.median(np.abs(logs[known]) / alphas[known])) if known.any() else None,
        "correlation": float(np.corrcoef(logs[known], alphas[known])[0, 1])
        if known.sum() > 2 and np.ptp(logs[known]) > 0
        else None,
    }


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Shares of all spectra together, with Wilson's interval."""
    slices = [row for row in table.rows if row["conv"] == "slices"]
    spectra, inside, wider, below = (
        sum(row[name] for row in slices) for name in ("spectra", "within_2_5", "within_2_6", "below_2")
    )
    share = wilson(inside, spectra)
    medians = [row["median"] for row in slices]
    ratios = [row["ratio_median"] for row in slices if row["ratio_median"] is not None]
    correlations = [row["correlation"] for row in slices if row["correlation"] is not None]
    return [
        by_parts(
            "range",
            [share.low > 0.5, share.low > 0.9],
            f"of {spectra:,} kernel positions with at least {_FEWEST} eigenvalues {100 * share.value:.1f} % have an "
            f"exponent in "
            f"[2, 5], {100 * wider / spectra:.1f} % in [2, 6], {100 * below / spectra:.1f} % lie below 2",
            ours=f"{100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})",
            n=spectra,
        ),
        by_parts(
            "stable-rank",
            [bool(abs(np.median(ratios) - 1) < 0.2), bool(np.mean(correlations) > 0.5)]
            if ratios and correlations
            else [None],
            "eq. 6's log ratio is "
            f"{np.median(ratios):.2f} of α in the median, and over layers its correlation with α is "
            f"{np.mean(correlations):+.2f}"
            if ratios and correlations
            else "too few spectra",
            ours=f"{np.median(ratios):.2f} times α" if ratios else "none",
            n=spectra,
        ),
        by_parts(
            "two",
            [None],
            f"the medians of these networks are {min(medians):.2f} to {max(medians):.2f}; networks of CIFAR-10 are "
            f"not the "
            "best of their class in the paper's sense, and the weights of those are not at hand",
            ours=f"medians {min(medians):.2f} to {max(medians):.2f}",
            n=len(medians),
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Median exponent of every network, by kernel position and pooled."""
    return draw_lines(table, x="network", y="median", line="conv", names=("network", "median α"))


_FILES = (*AKAMASTER, *DISTILLER, "distiller_resnet20_ch_regularized_dense", "vgg5_fc512")

EXPERIMENT = Experiment(
    name="exponents",
    document="heavy tails",
    says="The eigenvalues of WᵀW of trained layers follow a power law in their tail, and the exponents of nearly all "
    "layers of "
    "production networks are said to lie between 2 and 5. α is said to approach 2 in the best networks, and to be "
    "close to a "
    "logarithmic stable rank.",
    claims=(
        Claim(
            "range",
            "figure 1",
            "Nearly all exponents lie in [2, 5].",
            "share of all kernel positions: above half in part, above 90 % holds, by the lower end of the interval",
        ),
        Claim(
            "stable-rank",
            "eq. 6",
            "log ‖W‖²_F / log λ_max ≈ α.",
            "median ratio within 20 % of 1, and a correlation above 0.5 over layers",
        ),
        Claim("two", "abstract", "α approaches 2 in the best networks.", "needs the weights of such networks"),
    ),
    measure=measure,
    full=Settings(grid(network=_FILES, conv=("slices", "pooled")), seeds=(0,), data="weights"),
    quick=Settings(grid(network=("mlp:128,128", "mlp:64,64,64"), conv=("slices", "pooled")), seeds=(0,)),
    judge=_judge,
    shows=("spectra", "within_2_5", "within_2_6", "below_2", "median", "mean", "ratio_median", "correlation"),
    draw=_draw,
    how="The paper takes kernel positions one by one; other tools pool them.",
    minutes=1.0,
)
