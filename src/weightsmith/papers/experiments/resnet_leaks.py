"""The L4 adjustment on the paper's residual network (L4 norm, figure 7), scaled to a sixteenth of its widths."""

from __future__ import annotations

from collections.abc import Sequence

from weightsmith.core.sweep import SweepTable
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments import leaks
from weightsmith.papers.reproduction import Experiment, Settings

__all__ = ["EXPERIMENT"]

_CHANCE, _FASTEST = 0.1, (0.95, 0.9)


def _judge(table: SweepTable) -> Sequence[Finding]:
    """The shared claims, and whether the fastest two leaks leave nothing under hard reset."""
    left = [
        max(row["baseline"], row["adjusted"])
        for row in table.rows
        if row["reset"] == "hard" and row["leak"] in _FASTEST
    ]
    fails = by_parts(
        "fail",
        [bool(accuracy < 2 * _CHANCE) for accuracy in left],
        "better one of baseline and adjusted network, hard reset: "
        + " and ".join(f"{100 * accuracy:.1f} %" for accuracy in left),
        ours=f"{100 * min(left):.1f} to {100 * max(left):.1f} %",
        n=table.rows[0]["judged_images"],
    )
    return [*leaks.judge(table), fails]


EXPERIMENT = Experiment(
    name="resnet-leaks",
    document="L4 norm",
    says="Figure 7 converts a residual network of three stem convolutions and eight blocks, without bias and batch "
    "norm, into leaky spiking neurons of 250 steps. Here it is built alike with a sixteenth of the channels.",
    claims=(
        *leaks.claims("figure 7, ResNet-20"),
        Claim(
            "fail",
            "figure 7, ResNet-20",
            "Under hard reset the fastest two leaks fail, with and without adjustment.",
            "accuracy below twice chance",
        ),
    ),
    measure=leaks.measure,
    prepare=leaks.train_network,
    full=Settings(
        leaks.SCENARIOS,
        seeds=(0,),
        data="cifar10",
        prepare={
            "network": "paper-resnet:widths=[4,8,16,32],dropout=0",
            "rows": 25_000,
            "epochs": 10,
        },
        all={
            "steps": 250,
            "images": 64,
            "judged": 2_000,
            "balance": "max-current:images=128,blocks=one",
        },
    ),
    quick=Settings(
        leaks.SCENARIOS,
        seeds=(0,),
        data="digits",
        prepare={
            "network": "paper-resnet:widths=[4,4],dropout=0",
            "rows": None,
            "epochs": 3,
        },
        all={
            "steps": 8,
            "images": 8,
            "judged": 16,
            "balance": "max-current:images=16,steps=16,blocks=one",
        },
    ),
    judge=_judge,
    shows=leaks.SHOWS,
    draw=leaks.draw,
    how="Test accuracy of the adjusted minus that of the unadjusted network, each at its best threshold.",
    minutes=25.0,
)
