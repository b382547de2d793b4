"""α-hat against the error of production networks (heavy tails, figures 2 and 3): public weights, fetched when asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weightsmith.papers.claims import Claim
from weightsmith.papers.experiments import series
from weightsmith.papers.experiments.networks import graded
from weightsmith.papers.reproduction import Experiment, Settings

__all__ = ["EXPERIMENT", "ZOO", "measure"]

_HOST = "https://download.pytorch.org/models"
_LOCAL = "http://127.0.0.1:"  # a server on this machine needs no https

ZOO = {
    "vgg": {
        "vgg11-8a719046": 69.020,
        "vgg13-19584684": 69.928,
        "vgg16-397923af": 71.592,
        "vgg19-dcbb9e9d": 72.376,
    },
    "vgg with batch norm": {
        "vgg11_bn-6002323d": 70.370,
        "vgg13_bn-abd245e5": 71.586,
        "vgg16_bn-6c64b313": 73.360,
        "vgg19_bn-c79401a0": 74.218,
    },
    "resnet": {
        "resnet18-f37072fd": 69.758,
        "resnet34-b627a593": 73.314,
        "resnet50-0676ba61": 76.130,
        "resnet101-63fe2227": 77.374,
        "resnet152-394f9c45": 78.312,
    },
    "densenet": {
        "densenet121-a639ec97": 74.434,
        "densenet169-b2777c0a": 75.600,
        "densenet201-c1103571": 76.896,
        "densenet161-8d451a50": 77.138,
    },
}
"""Files of torchvision's ImageNet weights (the name ends with the first digits of their SHA-256) and their top-1."""


def measure(
    *,
    seed: int,
    path: str | Path | None = None,
    family: str,  # noqa: ARG001 (a label of the row)
    network: str,
    accuracy: float,
    host: str = "",
) -> dict[str, Any]:
    """The measures of one network, whose weights are fetched from ``host``; without one a small one is trained."""
    name = f"{network}.pth"
    found = _grades(name, host) if host else graded(network, path, seed)
    measured = {each.name: each.value for each in found.measures}
    return {"error": 1 - accuracy / 100, **{each: measured.get(each) for each in series.MEASURES}}


def _grades(name: str, host: str) -> Any:
    from weightsmith.data.download import fetch
    from weightsmith.data.folders import cache_folder
    from weightsmith.grading.grade import grade

    pin = name.removesuffix(".pth").rpartition("-")[2]
    local = host.startswith(_LOCAL)
    file = fetch(f"{host}/{name}", cache_folder() / "weights" / name, sha256=pin, insecure=local)
    return grade(file, conv="slices", evidence="none")


def _settings(table: dict[str, dict[str, float]]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"family": family, "network": network, "accuracy": accuracy}
        for family, networks in table.items()
        for network, accuracy in networks.items()
    )


_STAND_INS = {
    "narrow": {"mlp:32": 90.0, "mlp:32,32": 91.0, "mlp:32,32,32": 92.0},
    "wide": {"mlp:64": 91.0, "mlp:64,64": 92.0, "mlp:64,64,64": 93.0},
}


EXPERIMENT = Experiment(
    name="heavy-tails",
    document="heavy tails",
    says="The paper correlates α-hat with the reported accuracies of production networks, within each architecture. "
    "Here are four families of torchvision's ImageNet weights, with their reported accuracies.",
    claims=tuple(
        Claim(claim.name, where, text, claim.rule)
        for claim, where, text in zip(
            series.EXPERIMENT.claims,
            ("abstract", "figures 2 and 3", "comparison with other metrics"),
            (
                "Smaller α goes with a smaller error of production networks.",
                "Smaller α-hat goes with a smaller error of production networks.",
                "α-hat is more than a variation of the norms, in production networks.",
            ),
            strict=True,
        )
    ),
    measure=measure,
    full=Settings(_settings(ZOO), seeds=(0,), all={"host": _HOST}),
    quick=Settings(_settings(_STAND_INS), seeds=(0,)),
    judge=series.judge,
    shows=("error", *series.MEASURES),
    draw=series.draw,
    how="Each point is a network; errors as reported.",
    notes=("a quick run has networks trained here, with invented accuracies: it shows that the command works",),
    fetches="about 5 GB of public weights from download.pytorch.org",
    minutes=60.0,
)
