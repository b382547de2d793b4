"""α-hat against the error of a series of ResNets (heavy tails, figure 2), beside plain norms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.statistics import Correlation, rank_correlation
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.networks import AKAMASTER, graded
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_MEASURES = (
    "alpha",
    "alpha_hat_raw",
    "lambda_hat_raw",
    "alpha_hat",
    "log_product_norm",
    "log_product_spectral_norm",
    "log_norm",
)


def measure(*, seed: int, network: str, path: str | Path | None = None) -> dict[str, Any]:
    """The measures of one network, and its error: reported, or 1 over its size for the quick run's stand-ins."""
    grades = graded(network, path, seed, "slices", "seed")
    found = {each.name: each.value for each in grades.measures}
    error = 1 - AKAMASTER[network] if network in AKAMASTER else 1 / sum(layer.parameters for layer in grades.layers)
    return {"error": error, **{name: found.get(name) for name in _MEASURES}}


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Rank correlations with the error; n = 4 can never reach p < 0.05."""
    errors = [row["error"] for row in table.rows]
    ranks = {name: rank_correlation([row[name] for row in table.rows], errors) for name in _MEASURES}
    ours, norm = ranks["alpha_hat_raw"], ranks["lambda_hat_raw"]
    text = ", ".join(f"{name.replace('_', ' ')} {found.value:+.2f}" for name, found in ranks.items())
    return [
        by_parts(
            "predicts",
            [_part(ours)],
            f"Kendall's τ with the error: {text}; with four networks even τ = 1 has p = 0.083",
            ours=f"τ = {ours.value:+.2f}",
            n=ours.n,
            p=ours.p,
        ),
        by_parts(
            "beyond-norms",
            [None],
            f"the sum of log λ_max without α has τ = {norm.value:+.2f}; a series of {ours.n} networks cannot tell the "
            f"two apart",
            ours=f"τ = {ours.value:+.2f} against {norm.value:+.2f}",
            n=ours.n,
        ),
        by_parts(
            "alpha",
            [_part(ranks["alpha"])],
            f"mean α over kernel positions has τ = {ranks['alpha'].value:+.2f} with the error",
            ours=f"τ = {ranks['alpha'].value:+.2f}",
            n=ours.n,
            p=ranks["alpha"].p,
        ),
    ]


def _part(found: Correlation) -> bool | None:
    return None if found.p > 0.05 else found.value > 0


def _draw(table: SweepTable) -> Figure:
    """α-hat against the error."""
    return draw_lines(
        table, x="error", y="alpha_hat_raw", line="network", names=("test error", "α-hat: Σ α·log₁₀ λ_max, no 1/N")
    )


EXPERIMENT = Experiment(
    name="alpha-hat",
    document="heavy tails",
    says="α-hat, the sum over layers of α·log λ_max, is said to predict the trend of the test accuracy across the "
    "networks of "
    "an architecture, without any data, and to tell more than norms do.",
    claims=(
        Claim(
            "predicts",
            "figure 2",
            "Smaller α-hat goes with a smaller test error across an architecture.",
            "Kendall's τ > 0 with p < 0.05",
        ),
        Claim(
            "beyond-norms",
            "comparison with other metrics",
            "α-hat is more than a variation of the norms.",
            "τ larger than that of the same sum without α; a handful of networks cannot decide it (see series)",
        ),
        Claim("alpha", "abstract", "Smaller α goes with better generalisation.", "Kendall's τ > 0 with p < 0.05"),
    ),
    measure=measure,
    full=Settings(grid(network=tuple(AKAMASTER)), seeds=(0,), data="weights"),
    quick=Settings(grid(network=("mlp:32", "mlp:64", "mlp:64,64", "mlp:128,128")), seeds=(0,)),
    judge=_judge,
    shows=("error", *_MEASURES),
    draw=_draw,
    how="ResNet-20, 32, 44 and 56 on CIFAR-10; errors as reported and measured.",
    minutes=0.5,
)
