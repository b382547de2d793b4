"""What each link between the workshops is worth: the same chain with it and without it, seed by seed.

    python -m benchmarks.links --runs runs/links

Digits with ten seeds and Fashion-MNIST (needs WEIGHTSMITH_DATA) with five. Chains go on where they were stopped. At the
end ``docs/results/links.json`` holds every number and ``links.md`` the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weightsmith.chain.pipeline import pipeline
from weightsmith.chain.results import ChainRun
from weightsmith.core.records import versions
from weightsmith.core.statistics import mean_interval
from weightsmith.core.storage import write_atomic
from weightsmith.reducing.results import ReductionRecord
from weightsmith.spiking.results import SpikeRecord

__all__ = ["Row", "Setting", "main", "rows_of"]

_ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Setting:
    """A data set with a network that suits it."""

    data: str
    network: str
    epochs: int
    tuning: int
    seeds: int
    images: int


SETTINGS = (
    Setting("digits", "mlp:100,60,bias=false", 15, 3, 10, 360),
    Setting("fashion-mnist", "mlp:200,100,bias=false", 5, 1, 5, 2000),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One measure of one link: its values seed by seed, without and with it."""

    data: str
    link: str
    measure: str
    without: tuple[float, ...]
    with_it: tuple[float, ...]

    def line(self) -> str:
        """The means, and the mean difference with its 95 % interval over seeds (Student's t)."""
        differences = [b - a for a, b in zip(self.without, self.with_it, strict=True)]
        between = mean_interval(differences)
        means = (f"{sum(values) / len(values):.4g}" for values in (self.without, self.with_it))
        spread = f"{between.value:+.3g} ({between.low:+.3g} to {between.high:+.3g})"
        return " | ".join(("", self.data, self.link, self.measure, *means, spread, str(len(differences)), "")).strip()


def chains(setting: Setting, folder: Path) -> tuple[ChainRun, ChainRun]:
    """The chain with the links of training (penalty, live α), and the one without them."""
    train: dict[str, Any] = {
        "network": setting.network,
        "schedule": "cosine:0.1",
        "clip": "global-norm:1.0",
        "epochs": setting.epochs,
        "normalise": "0.5/0.5",
        "keep": [2],
    }
    shared = {"data": setting.data, "seeds": list(range(setting.seeds)), "report": False}
    tuned, spiking = f"fine-tune:{setting.tuning}", _spikes(setting)
    plans = [
        {"name": f"{plan}{ending}", "by": "groups", "target": "params:0.3", "plan": plan, "random": 0, **recover}
        for plan in ("uniform", "norm", "alpha")
        for ending, recover in (("", {}), ("-tuned", {"recover": tuned}))
    ]
    searches = [
        {"name": f"by-{name}", "by": "genetic:50,generations=100,rows=1000", "price": price, "random": 0}
        for name, price in (("units", "units"), ("synaptic", "synaptic:encode=poisson,neuron=lif:0.9,steps=50"))
    ]
    rest = setting.epochs - 2
    recoveries = [
        {"name": name, "by": "angles:60", "recover": recover, "random": 0}
        for name, recover in (("fine-tuned", f"fine-tune:{rest},schedule=cosine:0.1"), ("rewound", "rewind:2"))
    ]
    conversions = [
        *({"name": f"spiking-{stage['name']}", "of": stage["name"], **spiking} for stage in searches),
        *_conversions(spiking),
    ]
    with_links = {
        **shared,
        "train": {**train, "penalties": ["l4-balance:1.0"], "watch": ["alpha"]},
        "reduce": [*plans, *searches, *recoveries],
        "spike": conversions,
    }
    without = {**shared, "train": train, "spike": _conversions(spiking)}
    return pipeline(with_links, folder / "with"), pipeline(without, folder / "without")


def _spikes(setting: Setting) -> dict[str, Any]:
    return {"encode": "poisson", "neuron": "lif:0.9", "steps": 50, "images": setting.images, "watch": 0}


def _conversions(spiking: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": "plain", "of": "train", **spiking},
        {"name": "adjusted", "of": "train", "adjust": "l4:1.0", **spiking},
    ]


def rows_of(setting: Setting, with_links: ChainRun, without: ChainRun) -> Iterator[Row]:
    """Every comparison that the two chains hold."""
    seeds = range(setting.seeds)

    def column(run: ChainRun, stage: str, value: Callable[[Any], float]) -> tuple[float, ...]:
        return tuple(value(_record(run, stage, seed)) for seed in seeds)

    def row(link: str, measure: str, value: Callable[[Any], float], *arms: tuple[ChainRun, str]) -> Row:
        (first, second) = (column(run, stage, value) for run, stage in arms)
        return Row(setting.data, link, measure, first, second)

    for ending, words in (("", "as cut"), ("-tuned", "fine-tuned")):
        for plan in ("norm", "alpha"):
            arms = ((with_links, f"uniform{ending}"), (with_links, f"{plan}{ending}"))
            yield row(f"keep by {plan}, not uniform", f"accuracy % at 30 % of parameters, {words}", _reduced, *arms)
    arms = ((with_links, "spiking-by-units"), (with_links, "spiking-by-synaptic"))
    yield row("synaptic price, not units", "accumulates per image (thousands)", _accumulates, *arms)
    yield row("synaptic price, not units", "spiking accuracy %", _spiking, *arms)
    arms = ((with_links, "fine-tuned"), (with_links, "rewound"))
    yield row("rewind, not fine-tune", "accuracy % after angles:60", _reduced, *arms)
    for stage, words in (("plain", "without adjustment"), ("adjusted", "with l4:1.0")):
        arms = ((without, stage), (with_links, stage))
        yield row("L4-balance penalty", f"spiking accuracy %, leak 0.9, {words}", _spiking, *arms)
        yield row("L4-balance penalty", f"gained by converting, points, {words}", _gained, *arms)
    yield Row(
        setting.data,
        "live α and penalty",
        "seconds of training",
        tuple(without.seconds[seed, "train"] for seed in seeds),
        tuple(with_links.seconds[seed, "train"] for seed in seeds),
    )


def _record(run: ChainRun, stage: str, seed: int) -> ReductionRecord | SpikeRecord:
    text = (run.place(stage, seed) / "record.json").read_text(encoding="utf-8")
    return SpikeRecord.from_json(text) if '"populations"' in text else ReductionRecord.from_json(text)


def _reduced(record: ReductionRecord) -> float:
    return 100 * record.measured.reduced.value


def _spiking(record: SpikeRecord) -> float:
    return 100 * record.decisions.spiking.value


def _gained(record: SpikeRecord) -> float:
    return 100 * record.decisions.cost.difference


def _accumulates(record: SpikeRecord) -> float:
    return float(record.cost.accumulates[-1]) / 1000


def page(rows: Sequence[Row], command: str) -> str:
    """The Markdown page."""
    head = "| data | link | measure | without | with | difference (95 %) | seeds |\n|---|---|---|---|---|---|---|"
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions().items()))
    return "\n\n".join(
        [
            "# What the links are worth",
            "Each link of [the chain](../pipeline.md) against the same chain without it: the same data, seeds and "
            "options, one thing changed (*rewind, not fine-tune* differs in two: rewinding keeps the run's clipping, "
            "fine-tuning has none). Means over seeds; the difference is paired by seed, with Student's interval "
            "over seeds. A difference whose interval holds 0 is inside the noise.",
            "\n".join([head, *(row.line() for row in rows)]),
            f"{told}. Made by `{command}`.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.links", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/links"), help="where the chains keep their results")
    parser.add_argument("--only", choices=[setting.data for setting in SETTINGS], help="one data set")
    asked = parser.parse_args(arguments)
    rows: list[Row] = []
    for setting in SETTINGS:
        if asked.only in (None, setting.data):
            rows += rows_of(setting, *chains(setting, asked.runs / setting.data))
            print("\n".join(row.line() for row in rows))
    results = _ROOT / "docs" / "results"
    content = {"versions": versions(), "rows": [dataclasses.asdict(row) for row in rows]}
    write_atomic(results / "links.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_atomic(results / "links.md", page(rows, "python -m benchmarks.links") + "\n")


if __name__ == "__main__":
    main()
