"""The two fitness functions of the genetic search and its fifty generations (pruning, eqs. 5 and 6, section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_HIDDEN = 100


def measure(
    *,
    seed: int,
    data: str,
    path: str | Path | None,
    per: Literal["share", "units"],
    penalty: float,
    epochs: int,
    generations: int,
) -> dict[str, Any]:
    """One network of 100 sigmoid units, searched with eq. 5 (``share``) or eq. 6 (``units``).

    ``late`` is the share of the gain in fitness that comes in the last fifth of the generations, ``settled`` the
    generation after which the best fitness no longer changes.
    """
    from weightsmith.reducing.reduce import reduce
    from weightsmith.reducing.search.genetic import Genetic
    from weightsmith.training.loop import train

    known = training_data(data, path)
    run = train(
        f"mlp:{_HIDDEN},activation=sigmoid",
        known,
        optimiser="adam",
        schedule="constant:0.01",
        batch=32,
        epochs=epochs,
        seed=seed,
    )
    method = Genetic(penalty, per=per, generations=generations)
    small = reduce(run.network, known, by=method, refit="none", random=0, seed=seed)
    trace = small.record.trace
    assert trace is not None
    best = np.array([row.best for row in trace.rows])
    last = best[int(0.8 * (len(best) - 1))]
    return {
        "units": small.record.reduced.units,
        "gain": float(best[-1] - best[0]),
        "late": float((best[-1] - last) / (best[-1] - best[0])) if best[-1] > best[0] else 0.0,
        "settled": int(np.flatnonzero(best < best[-1])[-1] + 1) if np.any(best < best[-1]) else 0,
    }


def _judge(table: SweepTable) -> Sequence[Finding]:
    """The algebra of eq. 6 on the same seeds; how size follows λ; how much of the gain comes late."""

    def units(per: str, penalty: float) -> Any:
        return values(table, "units", per=per, penalty=penalty)

    shares = sorted({row["penalty"] for row in table.rows if row["per"] == "share"})
    by_units = sorted({row["penalty"] for row in table.rows if row["per"] == "units"})
    twins = [(penalty, penalty * _HIDDEN) for penalty in by_units if penalty * _HIDDEN in shares]
    equal = [bool((units("units", small) == units("share", large)).all()) for small, large in twins]
    falls = [float(units("units", penalty).mean()) for penalty in by_units]
    late, settled = values(table, "late"), values(table, "settled")
    moving = float(np.mean(settled > 0.9 * settled.max()))
    text = ", ".join(f"λ = {penalty:g}: {count:.0f}" for penalty, count in zip(by_units, falls, strict=True))
    return [
        by_parts(
            "no-effect",
            [bool(max(falls) - min(falls) < 3)],
            f"units left of {_HIDDEN} with eq. 6: {text}; eq. 6 with λ is eq. 5 with λ·Ni, and the same seeds give "
            f"the same "
            f"networks in {sum(equal)} of {len(equal)} pairs",
            ours=f"{min(falls):.0f} to {max(falls):.0f} units",
            n=len(falls) * len(units("units", by_units[0])),
        ),
        by_parts(
            "grows",
            [bool(units("share", shares[0]).mean() > units("share", shares[-1]).mean() + 3)],
            f"units left with eq. 5: λ = {shares[0]:g} {units('share', shares[0]).mean():.0f}, "
            f"λ = {shares[-1]:g} {units('share', shares[-1]).mean():.0f}",
            ours=f"{units('share', shares[0]).mean() - units('share', shares[-1]).mean():.0f} units more removed",
            n=len(table.rows),
        ),
        by_parts(
            "fifty",
            [bool(np.mean(late) < 0.01)],
            f"the last fifth of the generations brings {100 * np.mean(late):.1f} % of the whole gain in fitness; the "
            f"best fitness last "
            f"changes in generation {np.mean(settled):.0f} on average, and in {100 * moving:.0f} % of the runs in the "
            f"last tenth",
            ours=f"{100 * np.mean(late):.1f} % of the gain",
            n=late.size,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Units left against the penalty, for the two equations."""
    return draw_lines(
        table,
        x="penalty",
        y="units",
        line="per",
        names=("penalty λ", "units left of 100"),
        log=True,
        keep=lambda row: row["penalty"] > 0,
    )


EXPERIMENT = Experiment(
    name="fitness",
    document="pruning",
    says="The genetic search maximises the training accuracy minus a penalty on size: λ·Nf/Ni (eq. 5) or λ·Nf (eq. "
    "6). The paper "
    "finds that λ has no effect in eq. 6, and stops after 50 generations because the fitness no longer changes.",
    claims=(
        Claim(
            "no-effect",
            "section 3.3",
            "λ has no effect on the final size with eq. 6.",
            "means within 3 units over all λ",
        ),
        Claim(
            "grows",
            "section 3.3",
            "With eq. 5 a larger λ removes more units.",
            "more than 3 units between the smallest and the largest λ",
        ),
        Claim(
            "fifty",
            "section 2.5",
            "After 50 generations the maximum fitness no longer changes.",
            "the last fifth of the generations brings less than 1 % of the gain",
        ),
    ),
    measure=measure,
    full=Settings(
        (*grid(per=("share",), penalty=(0.0, 10.0, 50.0, 100.0)), *grid(per=("units",), penalty=(0.1, 0.5, 1.0, 10.0))),
        data="digits",
        all={"epochs": 40, "generations": 50},
    ),
    quick=Settings(
        (*grid(per=("share",), penalty=(0.0, 50.0)), *grid(per=("units",), penalty=(0.1, 0.5))),
        seeds=(0, 1),
        data="digits",
        all={"epochs": 3, "generations": 10},
    ),
    judge=_judge,
    shows=("units", "gain", "late", "settled"),
    draw=_draw,
    how="The two curves are one, shifted by the number of units.",
    minutes=3.0,
)
