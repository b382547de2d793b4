"""The value of each link between the workshops: the same chain with and without it, seed by seed."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, combined, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.chain.results import ChainRun

__all__ = ["EXPERIMENT", "measure"]


@dataclasses.dataclass(frozen=True)
class _Link:
    """Two stages that differ in one thing, and the number read off both; ``penalty``: they differ in training."""

    stages: tuple[str, str]
    value: Callable[[Any], float]
    penalty: bool = False


def _reduced(record: Any) -> float:
    return 100 * float(record.measured.reduced.value)


def _spiking(record: Any) -> float:
    return 100 * float(record.decisions.spiking.value)


def _accumulates(record: Any) -> float:
    return float(record.cost.accumulates[-1]) / 1000


_LINKS = {
    "keep by norm, as cut": _Link(("uniform", "norm"), _reduced),
    "keep by alpha, as cut": _Link(("uniform", "alpha"), _reduced),
    "keep by norm, fine-tuned": _Link(("uniform-tuned", "norm-tuned"), _reduced),
    "keep by alpha, fine-tuned": _Link(("uniform-tuned", "alpha-tuned"), _reduced),
    "synaptic price: accumulates": _Link(("spiking-units", "spiking-synaptic"), _accumulates),
    "synaptic price: accuracy": _Link(("spiking-units", "spiking-synaptic"), _spiking),
    "rewind": _Link(("fine-tuned", "rewound"), _reduced),
    "L4 penalty": _Link(("plain", "plain"), _spiking, penalty=True),
    "L4 penalty, adjusted": _Link(("adjusted", "adjusted"), _spiking, penalty=True),
}
_SIZES = {"digits": ("mlp:100,60,bias=false", 15, 3, 360), "fashion-mnist": ("mlp:200,100,bias=false", 5, 1, 2000)}
_UNITS = {"synaptic price: accumulates": "thousand accumulates"}


def measure(
    *, seed: int, path: str | Path | None = None, data: str, link: str, first: int, short: bool
) -> dict[str, Any]:
    """One link on one data set: the number without it and with it; seeds count from ``first``."""
    from weightsmith.chain.pipeline import pipeline

    chosen, number, found = _LINKS[link], first + seed, []
    where = {} if path is None else {"data_path": str(path)}
    with tempfile.TemporaryDirectory(prefix="weightsmith-links-") as folder:
        for name, stage in zip(("without", "with"), chosen.stages, strict=True):
            penalised = name == "with" or not chosen.penalty
            recipe = {"data": data, **where, "seeds": [number], **_recipe(data, stage, penalised, short)}
            run = pipeline(recipe, Path(folder) / name)
            found.append(chosen.value(_record(run, stage, number)))
    return {"without": found[0], "with_it": found[1]}


def _recipe(data: str, stage: str, penalised: bool, short: bool) -> dict[str, Any]:
    """The recipe that ends with ``stage``; training has its links (penalty, live α) unless they are the question."""
    network, epochs, tuning, images = _SIZES[data]
    epochs = 3 if short else epochs
    train: dict[str, Any] = {
        "network": network,
        "schedule": "cosine:0.1",
        "clip": "global-norm:1.0",
        "epochs": epochs,
        "normalise": "0.5/0.5",
        "keep": [2],
        **({"penalties": ["l4-balance:1.0"], "watch": ["alpha"]} if penalised else {}),
    }
    steps = 5 if short else 50
    spikes = {"name": stage, "encode": "poisson", "neuron": "lif:0.9", "steps": steps, "test_rows": images, "watch": 0}
    recipe: dict[str, Any] = {"report": False, "train": train}
    if stage in ("plain", "adjusted"):
        return {**recipe, "spike": [{"of": "train", **({"adjust": "l4:1.0"} if stage == "adjusted" else {}), **spikes}]}
    recipe["reduce"] = [_reduction(stage, epochs, tuning, short)]
    return {**recipe, "spike": [{"of": "cut", **spikes}]} if stage.startswith("spiking") else recipe


def _reduction(stage: str, epochs: int, tuning: int, short: bool) -> dict[str, Any]:
    plan, _, tuned = stage.partition("-")
    if plan == "spiking":
        price = {"units": "units", "synaptic": "synaptic:encode=poisson,neuron=lif:0.9,steps=50"}[tuned]
        generations = 5 if short else 100
        return {"name": "cut", "by": f"genetic:50,generations={generations},rows=1000", "price": price, "random": 0}
    if stage in ("fine-tuned", "rewound"):
        recover = f"fine-tune:{epochs - 2},schedule=cosine:0.1" if stage == "fine-tuned" else "rewind:2"
        return {"name": stage, "by": "angles:60", "recover": recover, "random": 0}
    recover_by = {"recover": f"fine-tune:{tuning}"} if tuned else {}
    return {"name": stage, "by": "groups", "target": "params:0.3", "plan": plan, "random": 0, **recover_by}


def _record(run: ChainRun, stage: str, seed: int) -> Any:
    from weightsmith.reducing.results import ReductionRecord
    from weightsmith.spiking.results import SpikeRecord

    text = (run.place(stage, seed) / "record.json").read_text(encoding="utf-8")
    return SpikeRecord.from_json(text) if '"populations"' in text else ReductionRecord.from_json(text)


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each link on every data set it was run on, paired by seed."""

    def finding(claim: str, links: Sequence[str], least: float = 0.0, claimed: int = 1) -> Finding:
        tests, words = [], []
        for link in links:
            for data in dict.fromkeys(row["data"] for row in table.rows):
                chosen = {"data": data, "link": link}
                if len(values(table, "without", **chosen)):
                    found = paired(values(table, "with_it", **chosen), values(table, "without", **chosen))
                    unit = _UNITS.get(link, "points")
                    words.append(f"{link}, {data} {worded(found, unit, 1.0)}")
                    tests.append(by_interval(claim, found, "", claimed=claimed, least=least, unit=unit, scale=1.0))
        return combined(claim, tests, "; ".join(words), ours=tests[0].ours if tests else "")

    return [
        finding("alpha", ("keep by alpha, as cut", "keep by alpha, fine-tuned")),
        finding("norm", ("keep by norm, as cut", "keep by norm, fine-tuned")),
        finding("cheaper", ("synaptic price: accumulates",), claimed=-1),
        finding("lossless", ("synaptic price: accuracy",), least=-1.0),
        finding("rewind", ("rewind",)),
        finding("penalty", ("L4 penalty, adjusted",)),
        finding("penalty-alone", ("L4 penalty",)),
    ]


def _draw(table: SweepTable) -> Figure:
    """What each link adds to the accuracy."""
    rows = [{**row, "gain": row["with_it"] - row["without"]} for row in table.rows if row["link"] not in _UNITS]
    return draw_lines(
        dataclasses.replace(table, rows=tuple(rows)),
        x="link",
        y="gain",
        line="data",
        panel="data",
        names=("", "points gained by the link"),
        joined=False,
    )


_FEW = ("keep by alpha, as cut", "rewind", "L4 penalty")


_RULE = "above the chain without it beyond the interval over seeds, on both data sets"

EXPERIMENT = Experiment(
    name="links",
    document="links",
    says="Grades may tell reduction where to cut, training may prepare for spikes or keep weights to rewind to, and a "
    "spiking network may price what a unit costs. Each link is run against the same chain without it.",
    claims=(
        Claim("alpha", "grade advises reduce", "Keep ratios by α beat uniform ones.", _RULE),
        Claim("norm", "the baseline of that", "Keep ratios by norms beat uniform ones.", _RULE),
        Claim(
            "cheaper",
            "spike prices reduce",
            "Pricing units by their synaptic operations makes the spiking network cheaper.",
            "fewer accumulates per image, beyond the interval, on both data sets",
        ),
        Claim(
            "lossless",
            "spike prices reduce",
            "That price costs less than a point of accuracy.",
            "the whole interval above −1 point, on both data sets",
        ),
        Claim("rewind", "train serves reduce", "Rewinding after a cut beats fine-tuning.", _RULE),
        Claim(
            "penalty",
            "train prepares spike",
            "A penalty that equalises L4 norms makes the adjusted spiking network more accurate.",
            _RULE,
        ),
        Claim(
            "penalty-alone",
            "train prepares spike",
            "It makes the spiking network more accurate without adjustment, too.",
            _RULE,
        ),
    ),
    measure=measure,
    full=Settings(
        (
            *grid(data=("digits",), link=tuple(_LINKS), first=(0, 5)),
            *grid(data=("fashion-mnist",), link=tuple(_LINKS), first=(0,)),
        ),
        seeds=(0, 1, 2, 3, 4),
        data="weights",
        all={"short": False},
    ),
    quick=Settings(grid(data=("digits",), link=_FEW, first=(0,)), seeds=(0, 1), data="weights", all={"short": True}),
    judge=_judge,
    shows=("without", "with_it"),
    draw=_draw,
    how="Means over seeds with standard deviation.",
    notes=(
        "rewind differs from fine-tuning in two things: it keeps the clipping of the run, fine-tuning has none",
        "the rows were measured by an earlier script that ran the same chains whole, and taken over",
    ),
    minutes=25.0,
)
