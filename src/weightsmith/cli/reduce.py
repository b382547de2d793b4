"""``weightsmith reduce NETWORK --data NAME --by angles:45``: a smaller dense network, and its cost in accuracy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _reduction_files as files
from weightsmith.cli import _training_options as given
from weightsmith.cli._figure_files import check_writable
from weightsmith.cli._reduction_options import Asked, check_bar, read_options
from weightsmith.cli._stages import stages
from weightsmith.cli.grade import say_if_first
from weightsmith.cli.terminal import print_json, progress_bar, raise_concerns, say_note, show
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.prices import SynapticPrice
    from weightsmith.data import Data
    from weightsmith.networks.layer_plan import LayerPlan
    from weightsmith.reducing.results import Reduction
    from weightsmith.reporting.parts import Section

__all__ = ["loaded", "reduce"]


def reduce(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="NETWORK", readable=False, help="A network file or result folder; rewinding needs its run."
        ),
    ],
    data: Annotated[str, typer.Option(help="A data set by name (weightsmith data list), folder:PATH or table:PATH.")],
    by: Annotated[
        list[str],
        typer.Option(help="angles:45, groups:15, genetic:50, pareto, magnitude or random; several are compared."),
    ],
    target: Annotated[
        str | None, typer.Option(help="How much may stay: params:0.5 or macs:0.5; without it the method decides.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="How a target is shared out: uniform (default), norm, alpha, or a plan's FILE.")
    ] = None,
    price: Annotated[
        str,
        typer.Option(help="What genetic and pareto pay for: units, or synaptic:encode=poisson (operations in spikes)."),
    ] = "units",
    layers: Annotated[
        list[str] | None, typer.Option(help="Only layers whose name fits this pattern, as 'dense*'; may be repeated.")
    ] = None,
    refit: Annotated[
        str,
        typer.Option(help="How layers that read removed units are solved anew, without labels: least-squares or none."),
    ] = "least-squares",
    recover: Annotated[
        str | None,
        typer.Option(help="Afterwards: recalibrate, fine-tune:5, rewind:3 (the run's epoch) or iterate:3 (rounds)."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Training rows that the method (all) and the refit (1,000) see.")
    ] = None,
    test_rows: Annotated[int | None, typer.Option(min=1, help="Test rows that judge the result (all).")] = None,
    random: Annotated[int, typer.Option(min=0, help="Random masks of the same size beside it; 0 for none.")] = 10,
    scratch: Annotated[
        str | None, typer.Option(help="Train the small network from scratch beside it, as fine-tune:20 (three seeds).")
    ] = None,
    latency: Annotated[bool, typer.Option(help="Measure the time per image before and after.")] = True,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    least_accuracy: Annotated[
        float | None, typer.Option(min=0, max=100, help="End with code 1 if the accuracy (%) is below this.")
    ] = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the network and its record; the same command goes on in it."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write sizes, accuracies and times as CSV, a row per method.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw into this folder, or as FILE.svg, .png or .pdf: sizes, search, front.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of searches, random masks and training.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Rows at a time when the network is run.")] = 256,
    threads: given.Threads = 1,
    device: given.Device = "cpu",
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Remove redundant units from a network, and measure the cost against random masks.

    Exit code 1 if a layer was refused, the target was not met, or the accuracy is below --least-accuracy.
    """
    from weightsmith.data.datasets import load_all

    asked = read_options(by, target, plan, refit, recover, scratch)
    check_bar(least_accuracy)
    _check_outputs(file, out_folder, csv, figures)
    _check_rewinding(asked, file, network, normalise)
    known = load_all(data, path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    options: dict[str, Any] = {
        "target": asked.target,
        "plan": _alpha_plan(module, asked, threads, quiet) if asked.plan == "alpha" else asked.plan,
        "price": _price(price, module, known, asked, layers or None, seed),
        "layers": layers or None,
        "refit": asked.refit,
        "recover": asked.recovery,
        "rows": rows,
        "test_rows": test_rows,
        "random": random,
        "scratch": asked.scratch,
        "latency": latency,
        "seed": seed,
        "batch": batch,
        "threads": threads,
        "device": device,
    }
    folders = _folders(out_folder, asked)
    results = _reduced(file if asked.rewinds else module, known, asked, options, folders, quiet)
    described, description = _described(results, str(file), least_accuracy, out_folder is not None)
    written = _write(results, folders, out_folder, csv)
    if figures is not None:
        written += files.draw(figures, described, description)
    if as_json:
        print_json(files.as_dict(results, described, description, written))
    else:
        show(description, written)
    raise_concerns(description)


def _check_outputs(file: Path, folder: Path | None, csv: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the input network."""
    check_writable(csv, figures, folder)
    if folder is not None and file.resolve() in (folder.resolve(), (folder / "network.safetensors").resolve()):
        raise UsageError(f"--out {folder} is where the network itself is, which is never changed: give another folder")


def _check_rewinding(asked: Asked, file: Path, network: str | None, normalise: str | None) -> None:
    if not asked.rewinds:
        return
    if not file.is_dir() and file.exists():
        raise UsageError(
            f"--recover {asked.recovery} needs the folder of the training run as NETWORK, not the file {file}"
        )
    if network is not None or normalise is not None:
        which = "--normalise" if network is None else "--network"
        raise UsageError(f"--recover {asked.recovery} goes on with the run as it was: leave {which} out")


def loaded(file: Path, known: Data, network: str | None, normalise: str | None, quiet: bool) -> nn.Module:
    """The network in ``file``, with notes from its card and the data."""
    from weightsmith.networks.card import card_of
    from weightsmith.networks.files import load

    loaded = load(file, network=network, normalise=normalise, input_shape=known.input_shape, classes=len(known.classes))
    if not quiet:
        for note in (*card_of(loaded).notes, *known.notes):
            say_note(note)
    return loaded


def _alpha_plan(module: nn.Module, asked: Asked, threads: int, quiet: bool) -> LayerPlan:
    """The plan advised by grading; only the command line and the chain know both packages."""
    from weightsmith.grading.grade import grade
    from weightsmith.grading.plans import alpha_plan

    assert asked.target is not None  # a plan without one was refused
    say_if_first(quiet)
    with progress_bar("grade", quiet) as progress:
        grades = grade(module, evidence="none", threads=threads, progress=progress)
    made = alpha_plan(grades, keep=asked.target.keep)
    if made.unscored and not quiet:
        say_note(f"no α, so that they keep the target's share: {', '.join(made.unscored)}")
    return made


def _price(
    text: str, module: nn.Module, known: Data, asked: Asked, layers: list[str] | None, seed: int
) -> SynapticPrice | None:
    """The price of units by their spikes; None if units are counted."""
    from weightsmith.chain.prices import Price, Units, price_of
    from weightsmith.reducing.methods import Genetic, Pareto

    price = Price.parse(text)
    if isinstance(price, Units):
        return None
    plain = [str(method) for method in asked.methods if not isinstance(method, Genetic | Pareto)]
    if plain:
        raise UsageError(f"--price {price} is for genetic and pareto, {plain[0]} does not search")
    return price_of(price, module, known, layers=layers, seed=seed)


def _folders(folder: Path | None, asked: Asked) -> list[Path | None]:
    """A folder for each method; a single one gets ``folder`` itself."""
    if folder is None or len(asked.methods) == 1:
        return [folder for _ in asked.methods]
    names = [re.sub(r"[^\w.-]+", "-", str(method)).strip("-")[:80] for method in asked.methods]
    return [folder / f"{number}-{name}" for number, name in enumerate(names, 1)]


def _reduced(
    subject: nn.Module | Path,
    known: Data,
    asked: Asked,
    options: dict[str, Any],
    folders: Sequence[Path | None],
    quiet: bool,
) -> list[Reduction]:
    from weightsmith.reducing.reduce import reduce as run

    results = []
    try:
        for number, (method, own) in enumerate(zip(asked.methods, folders, strict=True), 1):
            what = "reduce" if len(asked.methods) == 1 else f"reduce {number} of {len(asked.methods)}"
            with given.warnings_as_notes(quiet), stages(what, quiet) as progress:
                results.append(run(subject, known, by=method, **options, out=own, progress=progress))
    except KeyboardInterrupt:
        kept = "what is done is kept: the same command goes on" if folders[0] else "nothing is kept without --out"
        say_note(kept)
        raise
    return results


def _described(
    results: Sequence[Reduction], name: str, least_accuracy: float | None, kept: bool
) -> tuple[list[Section], Section]:
    """The description of each reduction, and that of all of them."""
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
        written += files.write_tables(folder, results)
    if csv is not None:
        written.append(files.write_summary(csv, results))
    return written
