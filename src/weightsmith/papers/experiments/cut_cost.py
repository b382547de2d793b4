"""Whether α, angles or norms of a layer predict the cost of cutting it (the links between the workshops)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.seeds import stream
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.networks import network_of
from weightsmith.papers.experiments.trained import training_data
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.grading.results import Grades
    from weightsmith.reducing.inspecting import UnitAngles

__all__ = ["EXPERIMENT", "measure"]

_SIGNS = {"alpha": -1, "angle": 1, "norm": 1}
_RESAMPLES = 1000


def measure(
    *, seed: int, data: str, path: str | Path | None, network: str, layer: int, rows: int, judged: int
) -> dict[str, Any]:
    """Cut a third of the units of one hidden layer by the norms of their weights, without and with a refit.

    ``alpha`` and ``norm`` (log10 of the mean squared weight of a unit) are those of the layer's weights; ``angle`` is
    the mean angle of each unit to the unit nearest to it, on training images. Costs are losses of test accuracy.
    """
    from weightsmith.reducing.reduce import reduce
    from weightsmith.reducing.surgery.sites import find_sites
    from weightsmith.reducing.surgery.sizes import SizeModel

    source, whole = training_data(data, path), network_of(network, path, seed)
    assert source.train is not None
    example = source.train.x[:1].float()
    inner = [site for site in find_sites(whole, example).sites if len(site.layers) == 1]  # not the residual stream
    site = inner[layer]
    sizes = SizeModel(whole, [site], example)
    kept = sizes.size({site.name: site.units - site.units // 3}) / sizes.size({}) + 1e-9
    costs = {}
    for refit, name in (("none", "cost"), ("least-squares", "refitted_cost")):
        found = reduce(
            whole,
            source,
            by="magnitude",
            target=f"params:{kept}",
            plan="uniform",
            layers=site.name,
            refit=refit,
            rows=rows,
            test_rows=judged,
            random=0,
            latency=False,
            seed=seed,
        ).record.measured
        costs[name] = found.whole.value - found.reduced.value
    (grade,) = (each for each in _grades(network, path, seed).layers if each.name == site.name)
    degrees = _angles(network, data, path, seed, rows).degrees(site.name)
    weight = whole.get_parameter(f"{site.name}.weight").detach()
    return {
        "name": site.name,
        "units": site.units,
        **costs,
        "alpha": None if grade.fit is None else grade.fit.alpha,
        "angle": float(np.mean(np.min(degrees + 360 * np.eye(len(degrees)), axis=1))),
        "norm": math.log10(float(weight.double().square().flatten(1).sum(1).mean())),
    }


@functools.lru_cache(maxsize=8)
def _grades(network: str, path: str | Path | None, seed: int) -> Grades:
    from weightsmith.grading.grade import grade

    return grade(network_of(network, path, seed), evidence="none")


@functools.lru_cache(maxsize=2)
def _angles(network: str, data: str, path: str | Path | None, seed: int, rows: int) -> UnitAngles:
    from weightsmith.reducing.inspecting import angles

    return angles(network_of(network, path, seed), training_data(data, path), rows=min(rows, 200), top=0)


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Rank correlations within networks, with intervals by resampling layers."""
    findings = []
    for measured, sign in _SIGNS.items():
        tested = {cost: _within(table, measured, cost) for cost in ("cost", "refitted_cost")}
        parts = [None if low <= 0 <= high else sign * tau > 0 for tau, low, high, _ in tested.values()]
        tau, low, high, n = tested["cost"]
        after = tested["refitted_cost"]
        findings.append(
            by_parts(
                measured,
                parts,
                f"Kendall's τ with the cost within networks: {tau:+.2f} as cut, {after[0]:+.2f} "
                f"({after[1]:+.2f} to {after[2]:+.2f}) where the readers are refitted",
                ours=f"τ = {tau:+.2f} ({low:+.2f} to {high:+.2f})",
                n=n,
            )
        )
    return findings


def _within(table: SweepTable, measured: str, cost: str) -> tuple[float, float, float, int]:
    """τ of a measure with the cost, the mean over networks weighted by layers, with a percentile interval of 95 %."""
    groups = []
    for network in dict.fromkeys((row["network"], row["seed"]) for row in table.rows):
        rows = [row for row in table.rows if (row["network"], row["seed"]) == network and row[measured] is not None]
        groups.append(np.array([[row[measured], row[cost]] for row in rows], dtype=np.float64).reshape(-1, 2))
    random = stream(0, f"layers {measured} {cost}")
    drawn = [
        _mean_tau([group[random.integers(len(group), size=len(group))] for group in groups if len(group)])
        for _ in range(_RESAMPLES)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return _mean_tau(groups), float(low), float(high), sum(map(len, groups))


def _mean_tau(groups: Sequence[NDArray[np.float64]]) -> float:
    """Kendall's τ-b within each group, weighted by its layers; a group in which all values are equal counts as 0."""
    return float(np.average([_tau(*group.T) for group in groups], weights=[max(len(group), 1) for group in groups]))


def _tau(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Σ sign(xᵢ − xⱼ) sign(yᵢ − yⱼ) over √(Σ sign² Σ sign²); resampling needs no p-value."""
    first, second = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    scale = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / scale) if scale else 0.0


def _draw(table: SweepTable) -> Figure:
    """The cost of the cut in each layer, by network."""
    return draw_lines(
        table,
        x="layer",
        y="cost",
        line="network",
        names=("hidden layer, from the input", "points lost, as cut"),
        scale=100,
    )


_RULE = "Kendall's τ with the points lost, within networks; percentile interval over resampled layers, "

EXPERIMENT = Experiment(
    name="cut-cost",
    document="links",
    says="Keep ratios by α, and the choice of units by angles, suppose that these measures tell how much a layer is "
    "needed. Here a third of the inner channels of one layer after another is cut, and the loss is measured.",
    claims=(
        Claim("alpha", "grade advises reduce", "A layer of smaller α loses more by a cut.", _RULE + "below 0"),
        Claim(
            "angle",
            "redundancy by angles",
            "A layer whose units are further apart loses more by a cut.",
            _RULE + "above 0",
        ),
        Claim("norm", "norms as a baseline", "A layer of larger weights loses more by a cut.", _RULE + "above 0"),
    ),
    measure=measure,
    full=Settings(
        grid(network=("akamaster_resnet20", "distiller_resnet20_dense"), layer=range(9)),
        seeds=(0,),
        data="cifar10",
        all={"rows": 500, "judged": 2_000},
    ),
    quick=Settings(
        grid(network=("mlp:40,30,20",), layer=range(3)), seeds=(0,), data="digits", all={"rows": 200, "judged": 200}
    ),
    judge=_judge,
    shows=("units", "cost", "refitted_cost", "alpha", "angle", "norm"),
    draw=_draw,
    how="Points of test accuracy lost when a third of the inner channels of one layer is cut, nothing refitted.",
    minutes=4.0,
)
