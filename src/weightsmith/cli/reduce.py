"""``weightsmith reduce NETWORK --data NAME --by angles:45``: a smaller dense network, and its cost in accuracy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.chain.linked_options import LINKS
from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, is_stdout, write_csv, write_figures
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.grade import say_if_first
from weightsmith.cli.terminal import print_json, progress_bar, raise_concerns, say_note, show
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.storage import write_atomic
from weightsmith.reducing import reduce as verb
from weightsmith.reporting.parts import Drawing, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.networks.layer_plan import LayerPlan
    from weightsmith.reducing.criteria.method import Method
    from weightsmith.reducing.results import Reduction

__all__ = ["ACTIVATIONS", "loaded", "reduce"]

ACTIVATIONS = "units are compared by their activations on rows"

_FIGURES = {"search.csv": "trace", "front.csv": "front"}  # drawings of each method, and the names of their files
_PLANS = ("error", "uniform", "norm", "alpha")


@takes_options_of(
    verb.reduce,
    links=LINKS["reduce"],
    compared=("by",),
    examples=(
        "weightsmith reduce runs/net --data digits --by angles:45 --out runs/small",
        "weightsmith reduce runs/net --data digits --by magnitude --by random --target params:0.5",
    ),
)
def reduce(
    file: given.NetworkFile,
    options: Options,
    data: given.DataOrRecord = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    least_accuracy: given.LeastAccuracy = None,
    out_folder: given.Out = None,
    csv: given.Csv = None,
    figures: given.Figures = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Remove redundant units from a network, and measure the cost against random masks.

    Exit code 1 if a layer was refused, the target was not met, or the accuracy is below --least-accuracy.
    """
    from weightsmith.data.datasets import load_all

    methods: tuple[Method, ...] = options.pop("by")
    _check_call(methods, options)
    check_writable(csv, figures, out_folder, as_json=as_json)
    _check_out(file, out_folder)
    rewinds = _rewinds(options, file, network, normalise)
    known = load_all(data_of(file, data, quiet, what_for=ACTIVATIONS), path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    if options["plan"] == "alpha":
        options["plan"] = _alpha_plan(module, options, quiet)
    options["price"] = _price(options, methods, module, known)
    folders = _folders(out_folder, methods)
    results = _reduced(file if rewinds else module, known, methods, options, folders, quiet)
    described, description = _described(results, str(file), least_accuracy, out_folder is not None)
    written = _write(results, folders, out_folder, csv)
    if figures is not None:
        written += _draw(figures, described, description)
    if as_json:
        print_json(_as_dict(results, described, description, written))
    elif not is_stdout(csv):
        show(description, written)
    raise_concerns(description)


def _check_call(methods: Sequence[Method], options: Options) -> None:
    """Refuse before any work what the verb would refuse after loading network and data."""
    target, plan = options["target"], options["plan"]
    if plan is not None and plan not in _PLANS and not Path(plan).exists() and not Path(plan).suffix:
        raise UnknownName("plan", plan, [*_PLANS, "FILE"])
    if target is None and plan in _PLANS:
        raise UsageError(f"--plan {plan} needs a target, such as --target params:0.5")
    twice = {str(method) for number, method in enumerate(methods) if method in methods[:number]}
    if twice:
        raise UsageError(f"--by {min(twice)} is given twice: nothing would be compared")
    for method in methods:
        if method.needs_target and target is None and plan is None:
            raise UsageError(
                f"{method} does not determine how much to remove; give a target, such as --target params:0.5, or a plan"
            )


def _check_out(file: Path, folder: Path | None) -> None:
    """The input network is not overwritten."""
    if folder is not None and file.resolve() in (folder.resolve(), (folder / "network.safetensors").resolve()):
        raise UsageError(f"--out {folder} holds the input network, which is never overwritten: give another folder")


def _rewinds(options: Options, file: Path, network: str | None, normalise: str | None) -> bool:
    """Whether recovery needs the training run of the network; if so, check that it is given unchanged."""
    from weightsmith.reducing.recovery.recover import Rewind

    recover = options["recover"]
    if not isinstance(recover, Rewind):
        return False
    if not file.is_dir() and file.exists():
        raise UsageError(f"--recover {recover} needs the folder of the training run as NETWORK, not the file {file}")
    if network is not None or normalise is not None:
        which = "--normalise" if network is None else "--network"
        raise UsageError(f"--recover {recover} continues the original run: leave out {which}")
    return True


def loaded(file: Path, known: Data, network: str | None, normalise: str | None, quiet: bool) -> nn.Module:
    """The network in ``file``, with notes from its card and the data."""
    from weightsmith.networks.card import card_of
    from weightsmith.networks.files import load

    loaded = load(file, network=network, normalise=normalise, input_shape=known.input_shape, classes=len(known.classes))
    if not quiet:
        for note in (*card_of(loaded).notes, *known.notes):
            say_note(note)
    return loaded


def _alpha_plan(module: nn.Module, options: Options, quiet: bool) -> LayerPlan:
    """The plan advised by grading; only the command line and the chain know both packages."""
    from weightsmith.grading.grade import grade
    from weightsmith.grading.plans import alpha_plan

    say_if_first(quiet)
    with progress_bar("grade", quiet) as progress:
        grades = grade(module, evidence="none", threads=options["threads"], progress=progress)
    made = alpha_plan(grades, keep=options["target"].keep)
    if made.unscored and not quiet:
        say_note(f"layers without α keep the target's share: {', '.join(made.unscored)}")
    return made


def _price(options: Options, methods: Sequence[Method], module: nn.Module, known: Data) -> Any:
    """The price of units by their spikes; None if units are counted."""
    from weightsmith.chain.prices import Units, price_of
    from weightsmith.reducing.methods import Genetic, Pareto

    price = options["price"]
    if isinstance(price, Units):
        return None
    plain = [str(method) for method in methods if not isinstance(method, Genetic | Pareto)]
    if plain:
        raise UsageError(f"--price {price} is for genetic and pareto: {plain[0]} does not search")
    return price_of(price, module, known, layers=options["layers"], seed=options["seed"])


def _folders(folder: Path | None, methods: Sequence[Method]) -> list[Path | None]:
    """A folder for each method; a single one gets ``folder`` itself."""
    if folder is None or len(methods) == 1:
        return [folder for _ in methods]
    names = [re.sub(r"[^\w.-]+", "-", str(method)).strip("-")[:80] for method in methods]
    return [folder / f"{number}-{name}" for number, name in enumerate(names, 1)]


def _reduced(
    subject: nn.Module | Path,
    known: Data,
    methods: Sequence[Method],
    options: Options,
    folders: Sequence[Path | None],
    quiet: bool,
) -> list[Reduction]:
    results = []
    try:
        for number, (method, own) in enumerate(zip(methods, folders, strict=True), 1):
            what = "reduce" if len(methods) == 1 else f"reduce {number} of {len(methods)}"
            with warnings_as_notes(), stages(what, quiet) as progress:
                results.append(verb.reduce(subject, known, by=method, **options, out=own, progress=progress))
    except KeyboardInterrupt:
        kept = "finished work is kept: the same command resumes" if folders[0] else "nothing is kept without --out"
        say_note(kept)
        raise
    return results


def _described(
    results: Sequence[Reduction], name: str, least_accuracy: float | None, kept: bool
) -> tuple[list[Section], Section]:
    """The description of each reduction, and one of all of them."""
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.sections.reductions import methods_section

    asked: dict[str, Any] = {"least_accuracy": least_accuracy, "kept": kept}
    described = [describe(result, name, **asked) for result in results]
    return described, described[0] if len(results) == 1 else methods_section(results, name, **asked)


def _write(
    results: Sequence[Reduction], folders: Sequence[Path | None], folder: Path | None, csv: Path | None
) -> list[Path]:
    """Write the tables next to the reductions' own folders; return all files."""
    written = [own / name for own in folders if own is not None for name in ("network.safetensors", "record.json")]
    if folder is not None:
        written += _write_tables(folder, results)
    if csv is not None:
        written += write_csv(csv, _summary_text(results))
    return written


def _as_dict(
    results: Sequence[Reduction], described: Sequence[Section], description: Section, written: Sequence[Path]
) -> dict[str, Any]:
    """The full result as JSON values; durations, which differ from run to run, are separate from the records."""
    return {
        "reductions": [
            {
                "record": result.record.to_dict(),
                "latency": None if result.latency is None else dataclasses.asdict(result.latency),
                "look_at": list(section.look_at),
                "try_next": list(section.try_next),
            }
            for result, section in zip(results, described, strict=True)
        ],
        "description": description.to_dict(),
        "files": [str(path) for path in written],
    }


def _write_tables(folder: Path, results: Sequence[Reduction]) -> list[Path]:
    """``summary.csv`` with a row per method, ``sites.csv`` with a row per method and site."""
    from weightsmith.reporting.figures.reducing import gone_by_reason

    rows = [
        {
            "by": result.record.settings["by"],
            "site": site.name,
            "layers": " ".join(site.layers),
            "kind": site.kind,
            "before": site.before,
            "after": site.after,
            "reasons": ", ".join(f"{count} {reason}" for reason, count in gone_by_reason(site).items()),
            "refused": site.refused,
            "notes": "; ".join(site.notes),
        }
        for result in results
        for site in result.sites
    ]
    summary = write_atomic(folder / "summary.csv", _summary_text(results))
    return [summary, write_atomic(folder / "sites.csv", csv_rows(rows))]


def _summary_text(results: Sequence[Reduction]) -> str:
    """The numbers of every method as CSV."""
    return csv_rows([_summary_row(result) for result in results])


def _summary_row(result: Reduction) -> dict[str, Any]:
    """Sizes before and after, accuracies as shares with their intervals, and baselines."""
    record = result.record
    row: dict[str, Any] = {name: record.settings[name] for name in ("by", "target", "plan", "recover", "seed")}
    for measure in ("units", "parameters", "macs", "file_bytes"):
        row[f"{measure}_before"] = getattr(record.whole, measure)
        row[f"{measure}_after"] = getattr(record.reduced, measure)
    measured = record.measured
    row |= {"split": measured.split, "images": measured.images}
    for name, interval in (("whole", measured.whole), ("cut", measured.cut), ("reduced", measured.reduced)):
        row |= {f"accuracy_{name}": interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    row |= {"difference": measured.cost.difference, "p": measured.cost.p}
    random, scratch = record.random, record.scratch
    row["random_mean"] = None if random is None else random.mean / 100
    row["random_deviation"] = None if random is None or random.deviation is None else random.deviation / 100
    row["scratch_mean"] = None if scratch is None or scratch.mean is None else scratch.mean.value
    for batch in (1, 64):
        row[f"time_ratio_{batch}"] = None if result.latency is None else result.latency.at(batch).median
    row["refused"] = " ".join(site.name for site in record.sites if site.refused)
    return row


def _draw(target: Path, described: Sequence[Section], description: Section) -> list[Path]:
    """Accuracy against size of all methods, and for each search its history and its front."""
    sizes = next(part for part in description if isinstance(part, Drawing))
    figures: dict[str, Callable[[], Figure]] = {"sizes": sizes.figure}
    for number, section in enumerate(described, 1):
        ending = "" if len(described) == 1 else f"-{number}"
        for part in section:
            if isinstance(part, Drawing) and part.file in _FIGURES:
                figures[f"{_FIGURES[part.file]}{ending}"] = part.figure
    return write_figures(target, figures)
