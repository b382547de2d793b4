"""The page of all verdicts on the four documents: a row for each claim, from the results in a folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from weightsmith.core.statistics import holm
from weightsmith.core.storage import write_atomic
from weightsmith.core.sweep import SweepTable
from weightsmith.papers.claims import Claim, Finding, Verdict
from weightsmith.papers.experiments import leaks
from weightsmith.papers.reproduction import DOCUMENTS, EXPERIMENTS, Experiment, Reproduction, experiment
from weightsmith.reporting.markdown import markdown
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Column, Notes, Part, Section, Shown, Table

__all__ = ["NOT_RUN", "index_section", "not_run", "write_index"]

_ABOUT = {
    "L4 norm": "A trained network becomes a spiking one by replacing activations by firing rates. The paper says "
    "that the "
    "variance of the membranes must be considered too, and corrects the first layer by the L4 norms of its weights.",
    "training": "Lecture slides on training deep networks: schedules, vanishing gradients, batch norm, clipping, early "
    "stopping, dropout and transfer learning, each with a recommendation.",
    "pruning": "A trained network of one hidden layer is reduced by merging units with similar activations, or by a "
    "genetic "
    "search. The paper compares the two on facial expressions.",
    "heavy tails": "The spectra of trained layers follow power laws. The paper says that their exponents tell how "
    "well a "
    "network generalises, without any data.",
    "links": "The documents treat training, grading, reducing and spiking apart. Where one of them could help another, "
    "the same chain is run with and without the link.",
}


NOT_RUN: dict[str, tuple[Claim, ...]] = {
    "L4 norm": (
        Claim(
            "harder-data",
            "section 5.3",
            "The improvement is larger on harder data.",
            "gains of vgg-leaks (CIFAR-100) minus those of resnet-leaks (CIFAR-10) above 0, paired by leak and reset; "
            "needs both results",
        ),
    ),
    "pruning": (
        Claim(
            "table-1",
            "table 1",
            "Test accuracies of 3 rates and 7 sizes on the sheet of facial expressions.",
            "needs the licensed sheet: weightsmith study SHEET",
        ),
        Claim(
            "overtraining",
            "section 3.1",
            "After about 300 epochs training and test accuracy part.",
            "needs the licensed sheet, 2,000 epochs",
        ),
        Claim(
            "subjects",
            "section 2.2",
            "The accuracy is that on new people.",
            "needs the licensed sheet and who is on each picture",
        ),
        Claim("cnn", "section 3.5", "A convolutional network does better than features.", "needs the licensed images"),
    ),
    "heavy tails": (
        Claim(
            "language",
            "figure 3",
            "α-hat goes with the quality of language models.",
            "needs weights of several language models with reported losses; of the packages looked at on PyPI "
            "only textgenrnn brings one, a character model, and reports no loss",
        ),
    ),
}
"""Claims without an experiment of their own; the page lists them as not run, or compares results of two experiments."""


class _Row(NamedTuple):
    document: str
    claim: Claim
    finding: Finding
    page: str


def write_index(folder: str | Path) -> Path:
    """Write index.md and reproduction.html from the results in ``folder`` and below it; returns the first."""
    place = Path(folder)
    write_atomic(place / "reproduction.html", render("Which published claims hold?", [index_section(place)]))
    return write_atomic(place / "index.md", markdown(index_section(place, links=True)))


def index_section(folder: Path, *, links: bool = False) -> Section:
    """The section on all results: counts of the verdicts, then a table for each document, with links to their pages."""
    rows = list(_rows(folder))
    counts = {verdict: sum(row.finding.verdict is verdict for row in rows) for verdict in Verdict}
    tested = [row.finding.p for row in rows]
    corrected = [p for p in holm(tested) if p is not None]
    alone = sum(p < 0.05 for p in tested if p is not None)
    together = sum(p < 0.05 for p in corrected)
    lead = ", ".join(f"{verdict.value}: {count}" for verdict, count in counts.items() if count)
    parts: list[Part] = []
    for document, title in DOCUMENTS.items():
        own = [row for row in rows if row.document == document]
        if own:
            parts.append(_table(document, title, own, links))
    parts.append(
        Notes(
            (
                f"{len(corrected)} verdicts follow from a test; of these {alone} have p < 0.05 by themselves and "
                f"{together} "
                "after Holm's correction for all of them",
                "a verdict follows from the rule in its row; where an interval holds both sides of the limit it is "
                "'cannot say'",
                "not run: nobody has run this with weightsmith; the rule says what it needs",
            )
        )
    )
    return Section(
        "Which published claims hold?",
        f"{len(rows)} claims: of four documents, and of links between their methods. {lead}.",
        tuple(parts),
        about="Each claim is a sentence that can be tested, each number has an interval or the number of values "
        "behind it, "
        "and each row has a command that runs it again.",
    )


def _rows(folder: Path) -> Iterator[_Row]:
    tables: dict[str, SweepTable] = {}
    for name in EXPERIMENTS:
        chosen = experiment(name)
        files = sorted(folder.rglob(f"{chosen.name}.json"))
        made = [Reproduction.from_json(file.read_text(encoding="utf-8")) for file in files]
        full = [(file, one) for file, one in zip(files, made, strict=True) if not one.quick]
        for claim in chosen.claims:
            if full:
                file, one = full[-1]
                tables[chosen.name] = one.table
                page = file.with_suffix(".md").relative_to(folder).as_posix()
                findings = {found.claim: found for found in one.findings}
                yield _Row(chosen.document, claim, findings.get(claim.name) or _newer(claim, chosen.name), page)
            else:
                yield _Row(chosen.document, claim, _waiting(claim, chosen), "")
    for document, claims in NOT_RUN.items():
        for claim in claims:
            if claim.name == "harder-data" and {"resnet-leaks", "vgg-leaks"} <= tables.keys():
                finding = leaks.harder(claim.name, tables["resnet-leaks"], tables["vgg-leaks"])
                yield _Row(document, claim, finding, "vgg-leaks.md")
            else:
                yield _Row(document, claim, not_run(claim), "")


def _waiting(claim: Claim, chosen: Experiment) -> Finding:
    """A claim without results: not run, or undecided if weights must be fetched first."""
    if not chosen.fetches:
        needs = f"weightsmith reproduce {chosen.name}, about {chosen.minutes:g} CPU minutes; rule: {claim.rule}"
        return dataclasses.replace(not_run(claim), found=needs)
    found = f"nobody has run it yet: weightsmith reproduce {chosen.name} --zoo ({chosen.fetches})"
    return dataclasses.replace(not_run(claim), verdict=Verdict.UNCLEAR, found=found)


def _newer(claim: Claim, name: str) -> Finding:
    """A claim that was added to the experiment after its results were written."""
    return dataclasses.replace(not_run(claim), found=f"newer than these results: weightsmith reproduce {name}")


def _table(document: str, title: str, rows: list[_Row], links: bool) -> Table:
    heads = ("claim", "verdict", "ours (95 %)", "n", "what we found", *(("page",) if links else ()))
    columns = tuple(Column(head, numeric=head == "n") for head in heads)
    cells = tuple(
        (
            f"{row.claim.text} ({row.claim.where})",
            row.finding.verdict.value,
            row.finding.ours or "–",
            row.finding.n or "–",
            row.finding.found,
            *((Shown("page", f"[page]({row.page})") if row.page else "–",) if links else ()),
        )
        for row in rows
    )
    return Table(title, columns, cells, _ABOUT[document], file=f"claims_{document.replace(' ', '_')}.csv")


def not_run(claim: Claim) -> Finding:
    """The finding of a claim that was not tested."""
    return Finding(claim.name, Verdict.NOT_RUN, "", 0, claim.rule)
