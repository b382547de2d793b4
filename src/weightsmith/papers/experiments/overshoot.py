"""Why the L4 adjustment should help without leak: less overshoot, steadier rates (L4 norm, sections 5.1 and 5.2)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.seeds import stream
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.networks import network_of
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "Simulated", "measure", "simulated"]

_FACTOR, _SMOOTHING = 0.5, 2.0  # of the largest current; of eqs. 8 and 9
_INPUTS = 27  # 3 × 3 pixels of three colours


@dataclasses.dataclass(frozen=True)
class Simulated:
    """The mean overshoot over the threshold, the deviation of the rates over draws, and their mean membrane."""

    overshoot: float
    noise: float
    rate: float
    membranes: NDArray[np.float64]


def measure(
    *, seed: int, path: str | Path | None = None, reset: str, weights: str, patches: int, draws: int, steps: int
) -> dict[str, Any]:
    """Units of a first layer without leak on patches of images as Poisson spikes, with and without the adjustment.

    ``overshoot`` is how far membranes are above the threshold when they fire, in thresholds; ``noise`` is the standard
    deviation of a unit's rate over draws of the spikes, over the mean rate.
    """
    from weightsmith.spiking.l4.adjust import l4_scales

    random = stream(seed, "overshoot")
    rows = _filters(weights, path, random)
    inputs = _patches(weights, path, patches, random)
    threshold = _FACTOR * float(np.max(inputs @ rows.T))
    run = functools.partial(simulated, inputs=inputs, threshold=threshold, reset=reset, draws=draws, steps=steps)
    plain = run(rows, random=stream(seed, "spikes"))
    norms = (rows**4).sum(1) ** 0.25
    scales = l4_scales(norms, plain.membranes, np.full(len(rows), threshold), _SMOOTHING).applied
    scaled = rows * scales[:, None]
    scaled *= np.abs(rows).mean() / np.abs(scaled).mean()
    adjusted = run(scaled, random=stream(seed, "spikes"))
    return {
        "overshoot": plain.overshoot,
        "adjusted_overshoot": adjusted.overshoot,
        "noise": plain.noise,
        "adjusted_noise": adjusted.noise,
        "rate": plain.rate,
        "adjusted_rate": adjusted.rate,
    }


def simulated(
    weights: NDArray[np.float64],
    inputs: NDArray[np.float64],
    *,
    threshold: float,
    reset: str,
    draws: int,
    steps: int,
    random: np.random.Generator,
) -> Simulated:
    """V ← V + w·s with s = ±1 at the rate |input|; a unit above the threshold fires and is reset, softly or to 0."""
    shape = (draws, len(inputs), len(weights))
    membrane, spikes, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    over = count = 0.0
    for _ in range(steps):
        drawn = np.sign(inputs) * (random.random((draws, *inputs.shape)) < np.abs(inputs))
        membrane += drawn @ weights.T
        total += membrane
        fired = membrane >= threshold
        over += float((membrane[fired] - threshold).sum())
        count += int(fired.sum())
        spikes += fired
        membrane = np.where(fired, membrane - threshold if reset == "soft" else 0.0, membrane)
    rates = spikes / steps
    noise = float(np.sqrt(rates.var(axis=0, ddof=1).mean()) / rates.mean()) if count else 0.0
    means = total.mean(axis=(0, 1)) / steps
    return Simulated(over / threshold / max(count, 1.0), noise, float(rates.mean()), means)


def _filters(weights: str, path: str | Path | None, random: np.random.Generator) -> NDArray[np.float64]:
    """The first convolution of a network at hand; ``drawn`` are weights with heavy tails."""
    if weights == "drawn":
        return random.standard_t(3, size=(16, _INPUTS))
    first = network_of(weights, path).get_parameter("features.0.weight")
    return np.asarray(first.detach().double().flatten(1).numpy())


def _patches(weights: str, path: str | Path | None, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Patches of training images of CIFAR-10 between −1 and 1, colour by colour; or drawn ones."""
    if weights == "drawn":
        return random.uniform(-1, 1, size=(count, _INPUTS))
    train = training_data("cifar10", path).split("train")
    found = []
    for image in random.integers(len(train), size=count):
        row, column = random.integers(0, 29, size=2)
        found.append(train.x[int(image), :, row : row + 3, column : column + 3].double().numpy().ravel())
    return np.array(found) / 127.5 - 1


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Adjusted against not, on the same spikes, over draws of patches."""

    def compared(column: str, reset: str) -> Any:
        return paired(values(table, f"adjusted_{column}", reset=reset), values(table, column, reset=reset))

    overshoot, noise = compared("overshoot", "hard"), compared("noise", "soft")
    before = values(table, "overshoot", reset="hard").mean(), values(table, "noise", reset="soft").mean()
    return [
        by_interval(
            "overshoot",
            overshoot,
            f"overshoot at a spike in % of the threshold, adjusted against not ({100 * before[0]:.1f} %), hard reset",
            claimed=-1,
            unit="%",
        ),
        by_interval(
            "noise",
            noise,
            f"deviation of the rates over draws in % of the mean rate, adjusted against not ({100 * before[1]:.1f} %), "
            "soft reset",
            claimed=-1,
            unit="%",
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Overshoot with and without the adjustment."""
    rows = [
        {"reset": row["reset"], "network": name, "overshoot": row[column]}
        for row in table.rows
        for name, column in (("as converted", "overshoot"), ("adjusted", "adjusted_overshoot"))
    ]
    return draw_lines(
        dataclasses.replace(table, rows=tuple(rows)),
        x="reset",
        y="overshoot",
        line="network",
        names=("reset", "overshoot, % of the threshold"),
        scale=100,
        joined=False,
    )


EXPERIMENT = Experiment(
    name="overshoot",
    document="L4 norm",
    says="Without leak the adjustment cannot bring rates nearer to their means. The paper explains its gains by less "
    "overshoot under hard reset, and by steadier rates for the second layer. Both can be measured.",
    claims=(
        Claim(
            "overshoot",
            "section 5.2",
            "Under hard reset the adjustment reduces the overshoot over the threshold.",
            "mean overshoot at a spike smaller than without, beyond the interval over draws of patches",
        ),
        Claim(
            "noise",
            "section 5.1",
            "Without leak it steadies the spike rates that the second layer gets.",
            "deviation of the rates over the mean rate smaller than without, beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(
        grid(reset=("soft", "hard")),
        seeds=range(10),
        data="weights",
        all={"weights": "vgg5_fc512", "patches": 100, "draws": 20, "steps": 75},
    ),
    quick=Settings(
        grid(reset=("soft", "hard")),
        seeds=range(3),
        data="weights",
        all={"weights": "drawn", "patches": 10, "draws": 5, "steps": 20},
    ),
    judge=_judge,
    shows=("overshoot", "adjusted_overshoot", "noise", "adjusted_noise", "rate", "adjusted_rate"),
    draw=_draw,
    how="The first layer of a VGG-5 on patches of CIFAR-10, 75 steps; mean over draws with standard deviation.",
    notes=(
        f"thresholds are {_FACTOR:g} of the largest mean current, the smoothing is {_SMOOTHING:g}; the layer is "
        "rescaled to its mean weight, as the paper does",
    ),
    minutes=0.5,
)
