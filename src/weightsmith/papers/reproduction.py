"""Run an experiment that tests claims of a document, and write its results.

    reproduce("gradients", quick=True)                     a few seconds, on the embedded digits
    reproduce("gradients", out="runs/gradients")           as on its page; the same call resumes

An experiment is one file under :mod:`weightsmith.papers.experiments`: what the document says, its claims, a function
that measures one setting with one seed, the settings, and the rule by which verdicts follow from the rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import DataMissing, UnknownName, UsageError
from weightsmith.core.records import Record, versions, write_record
from weightsmith.core.storage import write_atomic
from weightsmith.core.sweep import SweepTable, sweep
from weightsmith.papers.claims import Claim, Finding
from weightsmith.reporting.markdown import markdown
from weightsmith.reporting.parts import Column, Drawing, Notes, Part, Section, Shown, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DOCUMENTS", "EXPERIMENTS", "Experiment", "Reproduction", "Settings", "experiment", "reproduce", "section"]

DOCUMENTS = {
    "L4 norm": "Allred and Roy, L4-norm weight adjustments for converted spiking neural networks (preprint)",
    "training": "Huang, Training deep neural networks (lecture slides, 2024)",
    "pruning": "Tanovic, Comparison of distinctiveness pruning and genetic algorithms for the reduction of a fully "
    "trained neural network",
    "heavy tails": "Martin and Mahoney, Universality and capacity metrics in deep neural networks",
    "links": "weightsmith, what the methods of the documents are worth to each other",
}
"""The documents whose claims are tested, by the names used here."""

EXPERIMENTS = (
    "membrane",
    "variance",
    "adjustment",
    "adjusted_few_steps",
    "overshoot",
    "vgg5_leaks",
    "resnet_leaks",
    "vgg_leaks",
    "course",
    "gradients",
    "activations",
    "batch_norm",
    "clipping",
    "schedules",
    "dropout",
    "dropout_rates",
    "stopping",
    "cifar10",
    "reuse",
    "remedies",
    "transfer",
    "pruning",
    "fitness",
    "scalings",
    "future_work",
    "exponents",
    "alpha_hat",
    "group_lasso",
    "penalties",
    "series",
    "heavy_tails",
    "links",
    "cut_cost",
    "chain_energy",
)
"""The modules of :mod:`weightsmith.papers.experiments`, in the order of the page."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The runs of an experiment: settings, seeds, data, options common to ``all`` settings, options of ``prepare``."""

    each: Sequence[Mapping[str, Any]]
    seeds: Sequence[int] = (0, 1, 2)
    data: str = ""
    all: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    prepare: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The statement of a document, its claims, and how they are measured and judged.

    ``measure(seed=…, data=…, **setting)`` returns one row of numbers; ``judge(table)`` the findings, one per claim.
    ``shows`` are the columns of the page's table, means over seeds. ``minutes`` is the measured CPU time of a full run.
    ``prepare(work, data=…, …)`` does work that all settings share, such as training a network, once, in the folder
    ``work``, which ``measure`` then receives too. ``fetches`` names the files that a full run downloads, which must be
    allowed explicitly.
    """

    name: str
    document: str
    says: str
    claims: tuple[Claim, ...]
    measure: Callable[..., Mapping[str, Any]]
    full: Settings
    quick: Settings
    judge: Callable[[SweepTable], Sequence[Finding]]
    shows: tuple[str, ...]
    draw: Callable[[SweepTable], Figure] | None = None
    prepare: Callable[..., object] | None = None
    how: str = ""
    notes: tuple[str, ...] = ()
    fetches: str = ""
    minutes: float = 0.0

    def settings(self, quick: bool) -> Settings:
        """The settings of a quick or a full run."""
        return self.quick if quick else self.full


@dataclasses.dataclass(frozen=True, eq=False)
class Reproduction(Record):
    """The result of an experiment. It contains no times, so that an interrupted run ends with the same bytes."""

    experiment: str
    document: str
    quick: bool
    data: str
    command: str
    findings: tuple[Finding, ...]
    table: SweepTable
    versions: dict[str, str]


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    module = name.replace("-", "_")
    if module not in EXPERIMENTS:
        raise UnknownName("experiment", name, [each.replace("_", "-") for each in EXPERIMENTS])
    found = importlib.import_module(f"weightsmith.papers.experiments.{module}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found


def reproduce(
    name: str,
    *,
    quick: bool = False,
    zoo: bool = False,
    seeds: Sequence[int] | None = None,
    workers: int = 1,
    cluster: str | None = None,
    path: str | Path | None = None,
    out: str | Path | None = None,
    on_row: Callable[[dict[str, Any]], object] | None = None,
) -> Reproduction:
    """Run the experiment ``name`` and judge its claims.

    ``quick`` takes seconds, on the embedded digits, and its verdicts are only a demonstration. ``zoo`` allows it to
    download public weights. With ``out``, a folder, rows are saved as they finish, the same call resumes where it
    stopped, and NAME.md, NAME.csv, NAME.json and the figure NAME.svg are written at the end. ``path`` is the folder of
    the data files; ``workers`` and ``cluster`` are those of :func:`weightsmith.core.sweep.sweep`.
    """
    chosen = experiment(name)
    plan = chosen.settings(quick)
    if chosen.fetches and not (quick or zoo):
        raise UsageError(f"{chosen.name} fetches {chosen.fetches}; allow it with --zoo, or try it with --quick")
    taken = tuple(plan.seeds if seeds is None else seeds)
    if not taken:
        raise UsageError(f"{chosen.name} needs at least one seed")
    fixed = {name: str(value) for name, value in (*plan.all.items(), *plan.prepare.items())}
    inputs = {"data": _digest(plan.data, path), **fixed}
    with _prepared(chosen, plan, path, out) as known:
        table = sweep(
            functools.partial(chosen.measure, **known, **plan.all),
            plan.each,
            seeds=taken,
            journal=None if out is None else Path(out) / f"{chosen.name}.journal.jsonl",
            workers=workers,
            cluster=cluster,
            inputs=inputs,
            on_row=on_row,
        )
    made = Reproduction(
        experiment=chosen.name,
        document=chosen.document,
        quick=quick,
        data=plan.data,
        command=f"weightsmith reproduce {chosen.name}{' --quick' if quick else ''}",
        findings=tuple(chosen.judge(table)),
        table=table,
        versions=versions("numpy", "torch"),
    )
    _check_findings(chosen, made)
    if out is not None:
        _write(chosen, made, Path(out))
    return made


@contextlib.contextmanager
def _prepared(
    chosen: Experiment, plan: Settings, path: str | Path | None, out: str | Path | None
) -> Iterator[dict[str, Any]]:
    """The arguments of every measurement for its data and for the folder of the shared work, which is in ``out``."""
    known = _source(plan.data, path)
    if chosen.prepare is None:
        yield known
        return
    with contextlib.ExitStack() as stack:
        if out is None:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weightsmith-reproduce-")))
        else:
            work = Path(out) / f"{chosen.name}.work"
        chosen.prepare(work, **known, **plan.prepare)
        yield {**known, "work": work}


def _source(data: str, path: str | Path | None) -> dict[str, Any]:
    """The arguments of a measurement for its data: none, a folder of networks, or a data set."""
    if not data:
        return {}
    return {"path": path} if data == "weights" else {"data": data, "path": path}


def _digest(data: str, path: str | Path | None) -> str:
    """The digest of the data, so that a journal made with other data is refused."""
    from weightsmith.data.datasets import load_all

    if not data or data == "weights":
        return data
    try:
        return load_all(data, path=path).digest()
    except DataMissing as missing:
        hint = "or try the experiment on the embedded digits with --quick"
        raise DataMissing(data, f"{missing.reason}; {hint}") from missing


def _check_findings(chosen: Experiment, made: Reproduction) -> None:
    claimed, found = [claim.name for claim in chosen.claims], [finding.claim for finding in made.findings]
    if claimed != found:
        raise UsageError(f"{chosen.name} has findings on {', '.join(found)}, but its claims are {', '.join(claimed)}")


def section(made: Reproduction) -> Section:
    """The section on a result: verdicts first, then every setting with its means over seeds."""
    chosen = experiment(made.experiment)
    claims = {claim.name: claim for claim in chosen.claims}
    rows = tuple(
        (
            claims[finding.claim].text,
            claims[finding.claim].where,
            finding.ours,
            finding.n,
            Shown(finding.verdict.value, finding.verdict.value),
            finding.found,
            claims[finding.claim].rule,
        )
        for finding in made.findings
    )
    heads = ("claim", "where", "ours (95 %)", "n", "verdict", "what we found", "rule")
    columns = tuple(Column(head, numeric=head == "n", spare=(head in ("where", "rule")) * 1) for head in heads)
    parts: list[Part] = [Table("Verdicts", columns, rows, file=f"{made.experiment}_verdicts.csv")]
    if chosen.draw is not None:
        drawing = functools.partial(chosen.draw, made.table)
        parts.append(Drawing("What was measured", chosen.how, drawing, made.table.rows, f"{made.experiment}.csv"))
    parts += [_measured(chosen, made.table), Notes((*chosen.notes, *_notes(made)))]
    counts = {verdict: sum(finding.verdict is verdict for finding in made.findings) for verdict in _verdicts(made)}
    lead = "; ".join(f"{verdict.value}: {count}" for verdict, count in counts.items())
    about = f"{DOCUMENTS[made.document]}. {chosen.says}"
    return Section(
        f"Reproduced: {made.experiment}",
        f"{'Verdict on 1 claim' if len(rows) == 1 else f'Verdicts on {len(rows)} claims'}. {lead}.",
        tuple(parts),
        about=about,
    )


def _verdicts(made: Reproduction) -> list[Any]:
    return list(dict.fromkeys(finding.verdict for finding in made.findings))


def _notes(made: Reproduction) -> tuple[str, ...]:
    seeds = sorted({row["seed"] for row in made.table.rows})
    on = f"data {made.data}; " if made.data else ""
    used = ", ".join(f"{name} {version}" for name, version in sorted(made.versions.items()))
    notes = [f"{on}seeds {', '.join(map(str, seeds))}; {len(made.table.rows)} runs; {used}; made by {made.command}"]
    if made.quick:
        notes.insert(0, "a quick run on few rows or the embedded digits: it shows that the experiment works, no more")
    return tuple(notes)


def _measured(chosen: Experiment, table: SweepTable) -> Table:
    columns = [*(Column(name) for name in table.names), *(Column(name, numeric=True) for name in chosen.shows)]
    by_setting = [table.summary(name) for name in chosen.shows]
    rows = []
    for summaries in zip(*by_setting, strict=True):
        cells: list[Any] = [_plain(value) for value in summaries[0].setting.values()]
        for summary in summaries:
            spread = "" if summary.deviation is None else f" ± {summary.deviation:.2g}"
            text = "–" if summary.mean is None else f"{summary.mean:.4g}{spread}"
            failed = summary.missing and summaries[0].missing  # the first column lacks a value only if the run failed
            cells.append(Shown(summary.mean, text + (f" ({failed} failed)" if failed else "")))
        rows.append(tuple(cells))
    caption = "Means over seeds ± standard deviation."
    return Table(
        "Measured", tuple(columns), tuple(rows), caption, file=f"{chosen.name}_measured.csv", detail=len(rows) > 40
    )


def _plain(value: Any) -> Any:
    return (
        value
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else "–"
        if value is None
        else str(value)
    )


def _write(chosen: Experiment, made: Reproduction, folder: Path) -> None:
    from weightsmith.reporting.figures.style import save_figure

    figures = {}
    if chosen.draw is not None:
        save_figure(chosen.draw(made.table), folder / f"{chosen.name}.svg")
        figures["What was measured"] = f"{chosen.name}.svg"
    write_atomic(folder / f"{chosen.name}.md", markdown(section(made), figures))
    write_atomic(folder / f"{chosen.name}.csv", made.table.to_csv())
    write_record(folder / f"{chosen.name}.json", made)
