"""The learning-rate finder: a short sweep from a tiny rate to a huge one (Smith 2017)."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin, Record
from weightsmith.core.seeds import pinned_threads
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.models.architecture import Architecture
from weightsmith.training.clipping import Clip
from weightsmith.training.distributed import Team
from weightsmith.training.drawing import endless, own_random_state
from weightsmith.training.engines.stepping import NotFinite, Stepper
from weightsmith.training.losses import Loss
from weightsmith.training.optimisers import Optimiser
from weightsmith.training.plan import TrainingPlan, make_plan
from weightsmith.training.run import Stopped
from weightsmith.training.settings import Settings

__all__ = ["RateCurve", "find_rate"]

_KEPT = 0.8  # decay of the running mean that detects divergence
_FEWEST = 10  # fewest steps of a curve
_CERTAIN, _VISIBLE = 4.0, 0.05  # least size of a fall: in standard errors, and as a share of the first level


@dataclasses.dataclass(frozen=True, eq=False)
class RateCurve(Record):
    """The loss against the rate: ``losses[i]`` is that of the batch on which the step of ``rates[i]`` is then taken.

    ``smoothed`` is a line fitted around each point (Gaussian weights over neighbouring steps, so it does not lag).
    ``suggestion`` is the rate at which it falls most steeply per decade of the rate (Smith 2017), ``tenth`` a tenth of
    the rate at its minimum: two customary readings, which agree within a factor of a few on a good curve. Both are None
    if the loss does not fall clearly. A sweep ends early (``stopped``) when the loss diverges; ``reason`` says where.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    suggestion: float | None
    tenth: float | None
    stopped: Stopped
    reason: str
    settings: dict[str, Any]
    origin: Origin

    def __repr__(self) -> str:
        return f"<RateCurve: {self}>"

    def __str__(self) -> str:
        """One line: the rates tried and the one to take."""
        found = "no rate learns clearly" if self.suggestion is None else f"try {self.suggestion:.3g}"
        ends = f" from {self.rates[0]:.3g} to {self.rates[-1]:.3g}" if self.rates else ""
        return f"{len(self.rates)} rates{ends}: {found}, {self.reason}"


def find_rate(
    network: nn.Module | Architecture | str | Path,
    data: Any,
    *,
    optimiser: Optimiser | str = "momentum",
    loss: Loss | str | Callable[[Tensor, Tensor], Tensor] | None = None,
    clip: Clip | str | None = None,
    batch: int = 32,
    least: float = 1e-6,
    most: float = 10.0,
    steps: int = 100,
    normalise: str | Normalisation | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 1,
) -> RateCurve:
    """Train a copy of ``network`` while the rate grows from ``least`` to ``most``, and read the curve of the loss.

    The rate of step i of n is least·(most/least)^(i/(n−1)): the same factor from each step to the next. Batches come
    in the order that :func:`~weightsmith.training.loop.train` would take them; the network itself is not changed. The
    steepest fall lies inside the range that the range test of Smith (2017, "Cyclical learning rates for training neural
    networks") takes, from where the curve begins to improve to where it stops. The sweep ends early when a running mean
    of the loss lies above its lowest value by three times that value (or three quarters of the first loss, if that is
    more), or when the loss is NaN or infinite.

    >>> import weightsmith as ws
    >>> curve = find_rate("mlp:32", ws.data.load("digits"))
    >>> curve.stopped, 0.01 < curve.suggestion < 1
    (<Stopped.DIVERGED: 'diverged'>, True)
    """
    if not 0 < least < most < math.inf or steps < _FEWEST:
        raise UsageError(
            f"a sweep from {least:g} to {most:g} in {steps} steps: the rates must be positive and grow, the steps at "
            f"least {_FEWEST}"
        )
    settings = Settings.read(
        optimiser=optimiser,
        schedule=least,
        loss=loss,
        clip=clip,
        normalise=normalise,
        batch=batch,
        epochs=1,
        seed=seed,
        device=device,
    )
    plan = make_plan(network, data, settings)
    rates = np.geomspace(least, most, steps).tolist()
    with pinned_threads(threads), own_random_state():
        losses, stopped, reason = _swept(plan, rates)
    smoothed, steepest, lowest = _read(losses, max(2.0, steps / 25))
    kept = ("network", "data", "optimiser", "loss", "clip", "batch", "normalise", "seed", "device")
    return RateCurve(
        rates=tuple(rates[: len(losses)]),
        losses=tuple(losses),
        smoothed=smoothed,
        suggestion=None if steepest is None else rates[steepest],
        tenth=None if lowest is None else rates[lowest] / 10,
        stopped=stopped,
        reason=reason if steepest is not None else f"{reason}; the loss never falls clearly, so no rate is suggested",
        settings={name: plan.written[name] for name in kept} | {"least": least, "most": most, "steps": steps},
        origin=Origin(seed=seed, inputs=plan.inputs),
    )


def _swept(plan: TrainingPlan, rates: list[float]) -> tuple[list[float], Stopped, str]:
    """The losses up to the end of the sweep, and why it ended."""
    stepper, watch, losses = Stepper(plan, Team()), _DivergenceDetector(), list[float]()
    with contextlib.closing(endless(plan)) as batches:
        for rate, (x, y) in zip(rates, batches, strict=False):
            try:
                losses.append(stepper(x, y, len(x), rate).loss)
            except NotFinite:
                return losses, Stopped.DIVERGED, f"the loss is NaN or infinite at the rate {rate:.3g}"
            if watch.left(losses[-1]):
                reason = f"the loss diverged: around {watch.mean:.3g} at the rate {rate:.3g}, after {watch.lowest:.3g}"
                return losses, Stopped.DIVERGED, reason
    return losses, Stopped.DONE, f"all {len(rates)} steps done, up to the rate {rates[-1]:.3g}"


class _DivergenceDetector:
    """Detects divergence: a running mean of the loss far above its lowest value."""

    def __init__(self) -> None:
        self._sum = self._weight = 0.0
        self._first: float | None = None
        self.mean, self.lowest = math.nan, math.inf

    def left(self, loss: float) -> bool:
        self._first = loss if self._first is None else self._first
        self._sum, self._weight = _KEPT * self._sum + loss, _KEPT * self._weight + 1
        self.mean = self._sum / self._weight
        self.lowest = min(self.lowest, self.mean)
        return self.mean > self.lowest + 3 * max(abs(self.lowest), abs(self._first) / 4)


def _read(losses: list[float], width: float) -> tuple[tuple[float, ...], int | None, int | None]:
    """The smoothed curve, and where it falls most steeply and is lowest, if it falls by more than its noise."""
    if len(losses) < _FEWEST:
        return tuple(losses), None, None
    values = np.asarray(losses)
    # The jump at the end of a diverged sweep would dominate the fit.
    values = np.minimum(values, values[0] + abs(values[0]))
    levels, slopes = _lines(len(values), width)
    smooth = levels @ values
    lowest = int(smooth.argmin())
    noise = float(np.std((values - smooth)[: lowest + 1]))
    error = noise * float(np.linalg.norm(levels[0] - levels[lowest]))  # of the difference of the two levels
    fall = float(smooth[0] - smooth[lowest])
    if fall <= max(_CERTAIN * error, _VISIBLE * abs(float(smooth[0]))):
        return tuple(smooth.tolist()), None, None
    steepest = int((slopes @ values)[: lowest + 1].argmin())
    return tuple(smooth.tolist()), steepest, lowest


def _lines(count: int, width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two matrices: value and slope, at each of ``count`` points, of the line fitted with Gaussian weights around it.

    For weights w and distances d from the point, with S_k = Σ w d^k: value = Σ w (S₂ − S₁ d) y / (S₀ S₂ − S₁²), slope =
    Σ w (S₀ d − S₁) y / (S₀ S₂ − S₁²) (local linear regression).
    """
    distance = np.arange(count)[None, :] - np.arange(count)[:, None]
    weight = np.exp(-0.5 * (distance / width) ** 2)
    s0, s1, s2 = ((weight * distance**power).sum(axis=1, keepdims=True) for power in range(3))
    determinant = s0 * s2 - s1**2
    return weight * (s2 - s1 * distance) / determinant, weight * (s0 * distance - s1) / determinant
