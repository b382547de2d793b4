"""Shared parts of the experiments on figures 6 to 8 of the L4-norm paper: a network like the paper's, but narrower,
trained once, and converted for every leak and reset, with and without the adjustment."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.statistics import rank_correlation
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.spiking.sweep.results import Setting, SpikeSweep

__all__ = [
    "SCENARIOS",
    "SHOWS",
    "TREND",
    "above",
    "claims",
    "draw",
    "gain_words",
    "harder",
    "judge",
    "measure",
    "train_network",
    "trend",
]

_LEAKS = (1.0, 0.99, 0.97, 0.95, 0.9)
_SLOW, _FAST = (1.0, 0.99), (0.95, 0.9)
_NONE = 0.01  # a gain whose interval ends below a point counts as none
SCENARIOS = grid(leak=_LEAKS, reset=("soft", "hard"))
"""Five leaks and two resets, as in the paper's figures."""

TREND = Claim(
    "trend",
    "section 5.1",
    "The improvement increases as the leak gets faster.",
    "Kendall's τ of leak and gain (mean of both resets), p < 0.05",
)
"""What the paper says of all its networks."""

_CLAIMS = (
    Claim(
        "slow-soft",
        "figure and text",
        "Little to no benefit with soft reset and no or slow leak.",
        "no gain of 1 point: interval below that at leaks 1 and 0.99, soft reset",
    ),
    Claim(
        "fast",
        "figure and text",
        "The adjustment helps at the faster leaks.",
        "gain above 0 beyond the interval at leaks 0.95 and 0.9, soft reset",
    ),
    Claim(
        "hard",
        "figure and text",
        "It helps with hard reset, even without leak.",
        "gain above 0 beyond the interval at leaks 1 and 0.99, hard reset",
    ),
    TREND,
)

SHOWS = ("baseline", "adjusted", "gain", "low", "high", "factor", "adjusted_factor", "smoothing")
"""The columns of their pages."""


def claims(where: str) -> tuple[Claim, ...]:
    """What the paper says of each of its two larger networks, ``where`` being the figure and the network."""
    return tuple(dataclasses.replace(claim, where=where) for claim in _CLAIMS)


def train_network(
    work: Path, *, data: str, path: str | Path | None, network: str, rows: int | None, epochs: int
) -> None:
    """Train the network into ``work``: Adam, one cycle up to a rate of 0.002, inputs at 0.5/0.5."""
    from weightsmith.training.loop import train

    train(
        network,
        training_data(data, path, rows),
        optimiser="adam",
        schedule="one-cycle:0.002",
        clip=None,
        stop=None,
        batch=64,
        epochs=epochs,
        normalise="0.5/0.5",
        augment=None,
        diagnose=False,
        seed=0,
        out=work,
    )


def measure(
    *,
    seed: int,
    data: str,
    path: str | Path | None,
    work: Path,
    leak: float,
    reset: str,
    steps: int,
    images: int,
    judged: int,
    balance: str,
    factors: Sequence[float] = (0.15, 0.3, 0.5, 0.8),
    smoothings: Sequence[float] = (0.5, 2.0, 8.0),
    race: str = "racing:least=24",
    widen: int = 3,
) -> dict[str, Any]:
    """One leak and reset: threshold factors and smoothings chosen on training images, tested once on the same spikes.

    A race on the training images drops settings that are clearly worse, and a grid whose winner lies on its edge grows
    beyond it, up to ``widen`` times. ``edge`` says whether the factor of a winner still lies on the edge.
    """
    from weightsmith.spiking.sweep.sweeping import spike_sweep

    found = spike_sweep(
        work,
        training_data(data, path),
        leaks=(leak,),
        resets=(reset,),  # type: ignore[arg-type]
        factors=factors,
        smoothings=smoothings,
        widen=widen,
        race=race,
        steps=steps,
        balance=balance,
        rows=images,
        test_rows=judged,
        seed=seed,
    )
    (chosen,) = found.chosen
    gain, adjusted, better = chosen.gain, chosen.adjusted, chosen.adjusted_test
    assert gain is not None
    assert adjusted is not None
    assert better is not None
    return {
        "network_accuracy": found.plain.value,
        "baseline": chosen.baseline_test.value,
        "adjusted": better.value,
        "gain": gain.difference,
        "low": None if gain.interval is None else gain.interval.low,
        "high": None if gain.interval is None else gain.interval.high,
        "p": gain.p,
        "factor": chosen.baseline.factor,
        "adjusted_factor": adjusted.factor,
        "smoothing": adjusted.smoothing,
        "edge": _on_edge(found, chosen.baseline) or _on_edge(found, adjusted),
        "judged_images": found.test_images,
    }


def _on_edge(found: SpikeSweep, winner: Setting) -> bool:
    """Whether the threshold factor of a winner is the smallest or the largest of those it was chosen from."""
    adjusted = winner.smoothing is not None
    tried = [result.setting.factor for result in found.table if (result.setting.smoothing is not None) == adjusted]
    return winner.factor in (min(tried), max(tried))


def judge(table: SweepTable) -> Sequence[Finding]:
    """The claims of both figures; images are those of one network, so the intervals are theirs."""
    rows = {(row["leak"], row["reset"]): row for row in table.rows}
    images = table.rows[0]["judged_images"]

    def gains(leaks: Sequence[float], reset: str) -> list[dict[str, Any]]:
        return [rows[leak, reset] for leak in leaks if (leak, reset) in rows]

    def finding(name: str, found: list[dict[str, Any]], parts: list[bool | None], about: str) -> Finding:
        text = ", ".join(f"{100 * row['gain']:+.1f} at {row['leak']:g}" for row in found)
        return by_parts(name, parts, f"{about}: {_worded(found)}", ours=f"{text} (points)", n=images)

    slow, fast, hard = gains(_SLOW, "soft"), gains(_FAST, "soft"), gains(_SLOW, "hard")
    return [
        finding("slow-soft", slow, [_none(row) for row in slow], "soft reset"),
        finding("fast", fast, [above(row) for row in fast], "soft reset"),
        finding("hard", hard, [above(row) for row in hard], "hard reset"),
        trend(table),
    ]


def trend(table: SweepTable) -> Finding:
    """Kendall's τ between the leak and the gain, the mean of both resets."""
    gains = {(row["leak"], row["reset"]): row["gain"] for row in table.rows}
    speeds = sorted({leak for leak, _ in gains})
    both = [(gains[leak, "soft"] + gains[leak, "hard"]) / 2 for leak in speeds]
    found = rank_correlation([1 - leak for leak in speeds], both) if len(set(both)) > 1 else None
    return by_parts(
        "trend",
        [None if found is None or found.p > 0.05 else found.value > 0],
        "all gains are equal"
        if found is None
        else f"Kendall's τ between leak and gain (mean of both resets) {found.value:+.2f}, p = {found.p:.2g}",
        ours="" if found is None else f"τ = {found.value:+.2f}",
        n=len(speeds),
        p=None if found is None else found.p,
    )


def harder(name: str, easier: SweepTable, harder: SweepTable) -> Finding:
    """The gains on harder data minus those on easier data, paired by leak and reset."""
    gains = [{(row["leak"], row["reset"]): row["gain"] for row in table.rows} for table in (harder, easier)]
    both = [scenario for scenario in gains[0] if scenario in gains[1]]
    first, second = ([found[scenario] for scenario in both] for found in gains)
    means = [100 * sum(values) / len(values) for values in (first, second)]
    found = (
        f"mean gain {means[0]:+.1f} points on the harder data against {means[1]:+.1f} on the easier, paired by leak "
        "and reset; the networks differ too, and scenarios share their images"
    )
    return by_interval(name, paired(first, second), found)


def _none(row: dict[str, Any]) -> bool | None:
    """True if the interval excludes a gain of a point, False if it excludes no gain, else None."""
    if row["low"] is None:
        return bool(row["gain"] <= 0)
    return True if row["high"] < _NONE else False if row["low"] > 0 else None


def above(row: dict[str, Any]) -> bool | None:
    """True if the whole interval of the gain is above 0, False if it is below, else None."""
    if row["low"] is None:
        return None
    return True if row["low"] > 0 else False if row["high"] < 0 else None


def gain_words(row: dict[str, Any]) -> str:
    """The gain of one scenario in points, with its interval."""
    text = f"{100 * row['gain']:+.2f} points"
    return text if row["low"] is None else f"{text} ({100 * row['low']:+.2f} to {100 * row['high']:+.2f})"


def _worded(found: Sequence[dict[str, Any]]) -> str:
    return ", ".join(
        f"leak {row['leak']:g} {100 * row['baseline']:.1f} % to {100 * row['adjusted']:.1f} %"
        + ("" if row["low"] is None else f" ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})")
        for row in found
    )


def draw(table: SweepTable) -> Figure:
    """Gain against leak, soft and hard reset, with 95 % intervals."""
    names, interval = ("leak (1: none)", "gain, points (95 %)"), ("low", "high")
    return draw_lines(table, x="leak", y="gain", line="reset", names=names, scale=100, interval=interval)
