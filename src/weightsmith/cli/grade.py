"""``weightsmith grade A [B …]``: grade the training of networks from their weights alone."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weightsmith.cli import _grading_files as files
from weightsmith.cli import grading_report as report
from weightsmith.cli.terminal import Attention, print_json, progress_bar, say_note
from weightsmith.core.errors import FileRefused, OptionError, UsageError
from weightsmith.core.text import read_value, split_items

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.grading.comparison import GradeComparison
    from weightsmith.grading.margins import Margins
    from weightsmith.grading.results import Grades

__all__ = ["check_targets", "grade", "read_accuracies", "say_if_first"]

_KEEP = 0.5


def grade(
    networks: Annotated[
        list[Path],
        typer.Argument(metavar="NETWORK", readable=False, help="Files or folders of weights; several are compared."),
    ],
    layers: Annotated[
        list[str] | None, typer.Option(help="Only layers whose name fits this pattern, as '*conv*'; may be repeated.")
    ] = None,
    evidence: Annotated[
        str, typer.Option(help="What is asked beside α: none, fast (interval, noise, other tails), full (slower).")
    ] = "fast",
    conv: Annotated[
        Literal["pooled", "slices"], typer.Option(help="Kernel positions of a convolution: one fit, or one each.")
    ] = "pooled",
    normalise: Annotated[
        Literal["none", "seed"], typer.Option(help="Eigenvalues of WᵀW as other tools take them, or of WᵀW/N.")
    ] = "none",
    cut: Annotated[
        str, typer.Option(help="Where the tail starts: ks (smallest distance), erg (|det X| = 1), hill:share=0.5.")
    ] = "ks",
    precision: Annotated[Literal["float64", "float32"], typer.Option(help="float32 takes about half the time.")] = (
        "float64"
    ),
    method: Annotated[
        Literal["gram", "svd"], typer.Option(help="Gram matrix, or singular values as a check.")
    ] = "gram",
    fold: Annotated[bool, typer.Option("--fold", help="Fold batch norms into the layers before them first.")] = False,
    base: Annotated[
        Path | None, typer.Option(readable=False, help="Grade the difference to this network (fine-tuned minus base).")
    ] = None,
    conv_groups: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N", help="Groups of a convolution (or of a pattern), which a file does not store; repeatable."
        ),
    ] = None,
    accuracy: Annotated[
        str | None,
        typer.Option(help="Accuracy of each network, as 91.73,92.63 (all in per cent) or .9173,.9263 (all fractions)."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A data set: adds the norms divided by the margin of the network's answers.")
    ] = None,
    data_path: Annotated[
        Path | None, typer.Option(readable=False, help="Where the files of the data set are, if not found.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which part of the data (by default train, or the only one).")] = (
        None
    ),
    network: Annotated[
        str | None,
        typer.Option(help="What the networks are, if a file does not tell; only --fold and --data need it."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Write how much of each layer to keep by α, with uniform and norm plans beside.")
    ] = None,
    keep: Annotated[float | None, typer.Option(help="The share of parameters that the plans keep (0.5).")] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    figure_format: Annotated[
        files.FigureFormat | None, typer.Option("--format", help="What the figures are: svg (default), png or pdf.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with figures that needs no internet.")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder for record.json and layers.csv.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the layers as CSV.")] = False,
    why: Annotated[bool, typer.Option("--why", help="Show what each verdict rests on.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of resamples and twins; it moves the ends of intervals by some 5 %.")
    ] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that grade layers side by side.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads; one is fastest on a busy machine.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda …")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Fit the tail of every layer's spectrum, with intervals, noise edge and a verdict; no data are needed.

    Exit code 1 if a layer holds NaN or infinity, or if there is nothing to grade.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv both print to stdout: give one of them")
    if figure_format is not None and figures is None:
        raise UsageError("--format belongs to --figures FOLDER, which is not given")
    if why and len(networks) > 1:
        raise UsageError("--why explains the layers of one network: grade it alone")
    accuracies = read_accuracies(accuracy, len(networks))
    check_targets({"--html": html, "--plan": plan}, {"--out": out_folder, "--figures": figures})
    _check_plan(plan, keep, networks, fold, base)
    _check_data(data, data_path, split, base)
    # A built network has other layer names than its file.
    built = fold or network is not None
    _check_all(networks, base, None if built else layers, None if built else conv_groups)
    options = {
        "layers": layers[0] if layers and len(layers) == 1 else layers or None,
        "evidence": evidence,
        "conv": conv,
        "normalise": normalise,
        "cut": cut,
        "precision": precision,
        "method": method,
        "fold": fold,
        "base": base,
        "conv_groups": conv_groups or None,
        "seed": seed,
        "workers": workers,
        "threads": threads,
        "device": device,
    }
    known = None if data is None else _load_data(data, data_path, split)
    say_if_first(quiet)
    answer = _Answer()
    for path in networks:
        module = None if known is None and network is None else _loaded(path, network, known)
        subject = path if network is None or module is None else module
        graded = _graded(path, subject, options, quiet)
        if known is not None and module is not None:
            graded = _with_margins(graded, module, known, split, options, quiet, answer)
        answer.several.append(graded)
        if plan is not None:
            answer.plans = files.write_plans(plan, subject, graded, _KEEP if keep is None else keep, layers)
    _finish(answer, accuracies, out_folder, figures, figure_format or "svg", html)
    if as_json:
        _print_json(answer)
    elif as_csv:
        sys.stdout.write(report.rows_as_csv(answer.several))
    else:
        _show(answer, why)
    _raise_if_broken(answer.several)


@dataclasses.dataclass
class _Answer:
    """The data to print, collected network by network."""

    several: list[Grades] = dataclasses.field(default_factory=list)
    margins: list[Margins] = dataclasses.field(default_factory=list)
    comparison: GradeComparison | None = None
    plans: list[report.PlanFile] = dataclasses.field(default_factory=list)
    files: list[Path] = dataclasses.field(default_factory=list)


def read_accuracies(text: str | None, count: int) -> tuple[float, ...] | None:
    """``91.73,92.63`` as fractions, one for each network: either all in per cent (above 1) or all fractions (up to 1).

    >>> read_accuracies(".915,.92", 2), read_accuracies("91.5,92", 2)
    ((0.915, 0.92), (0.915, 0.92))
    """
    if text is None:
        return None
    plain, named = split_items(text, text)
    values: list[Any] = [read_value(item) for item in plain]
    if named or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise OptionError(f"--accuracy takes numbers such as 91.73,92.63, not {text!r}")
    if len(values) != count or count < 2:
        raise UsageError(f"--accuracy names one value for each of several networks: {len(values)} for {count}")
    outside = [value for value in values if not 0 <= value <= 100]
    if outside:
        raise OptionError(f"--accuracy: {outside[0]:g} is neither a fraction nor a percentage")
    if all(value <= 1 for value in values):
        return tuple(map(float, values))
    if any(value <= 1 for value in values):
        raise OptionError(f"--accuracy {text}: give all as fractions (up to 1) or all in per cent (above 1)")
    return tuple(value / 100 for value in values)


def _check_plan(plan: Path | None, keep: float | None, networks: Sequence[Path], fold: bool, base: Path | None) -> None:
    """Check that plans are for one network, unchanged from its file."""
    if keep is not None and not 0 < keep <= 1:
        raise OptionError(f"--keep must be > 0 and ≤ 1, not {keep:g}")
    if plan is None:
        if keep is not None:
            raise UsageError("--keep belongs to --plan FILE, which is not given")
    elif len(networks) > 1:
        raise UsageError(f"--plan is made for one network, not for {len(networks)}")
    elif fold or base is not None:
        raise UsageError(f"--plan is made for the network as it is, not {'folded' if fold else 'for a difference'}")


def _check_data(data: str | None, path: Path | None, split: str | None, base: Path | None) -> None:
    if data is None and (path is not None or split is not None):
        raise UsageError(f"--{'split' if path is None else 'data-path'} belongs to --data NAME, which is not given")
    if data is not None and base is not None:
        raise UsageError("--data measures how a network answers, and a difference of two (--base) has no answers")


def say_if_first(quiet: bool) -> None:
    """Say that the first call compiles, which takes a while."""
    from weightsmith.grading.fits.scan import is_compiled

    if not quiet and not is_compiled():
        say_note("compiling, once on this machine: some 15 seconds")


def check_targets(to_files: Mapping[str, Path | None], to_folders: Mapping[str, Path | None]) -> None:
    """Check before any work that the outputs can be written."""
    for option, path in (*to_files.items(), *to_folders.items()):
        if path is None:
            continue
        if option in to_files and (not path.name or path.is_dir()):
            raise UsageError(f"{option} writes a file, and {path} is a folder")
        if option in to_folders and path.exists() and not path.is_dir():
            raise UsageError(f"{option} writes into a folder, and {path} is a file")
        folder = path if path.is_dir() else path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise FileRefused(path, f"cannot be written: {folder} is not a folder that can be written to")


def _check_all(
    networks: Sequence[Path], base: Path | None, layers: Sequence[str] | None, conv_groups: Sequence[str] | None
) -> None:
    """Check before hours of work that all networks open, have such layers, and fit the base."""
    from weightsmith.grading.differences import difference
    from weightsmith.networks.layers.walk import walk

    for path in networks:
        if base is None:
            walk(path, layers=layers, conv_groups=conv_groups)
        else:
            difference(path, base, layers=layers, conv_groups=conv_groups)


def _load_data(name: str, path: Path | None, split: str | None) -> Data:
    """Load only the required split of a known set, which may be large; all splits of the user's own data."""
    from weightsmith.data import load
    from weightsmith.data.catalogue import CATALOGUE

    everything = ("train",) if name in CATALOGUE else ("train", "validation", "test")
    return load(name, path=path, splits=(split,) if split else everything)


def _loaded(path: Path, network: str | None, known: Data | None) -> nn.Module:
    from weightsmith.networks.files import load

    shape, classes = ((), None) if known is None else (known.input_shape, len(known.classes))
    return load(path, network=network, input_shape=shape, classes=classes)


def _graded(path: Path, subject: Path | nn.Module, options: dict[str, Any], quiet: bool) -> Grades:
    from weightsmith.grading.grade import grade as run

    with progress_bar(f"grade {path.name}", quiet) as progress:
        graded = run(subject, **options, progress=progress)
    if not quiet:
        for note in graded.notes:
            say_note(note)
    return dataclasses.replace(graded, source=str(path))


def _with_margins(
    graded: Grades,
    module: nn.Module,
    known: Data,
    split: str | None,
    options: dict[str, Any],
    quiet: bool,
    answer: _Answer,
) -> Grades:
    from weightsmith.grading.margins import margins, with_margins

    given = {name: options[name] for name in ("fold", "threads", "device")}
    with progress_bar(f"margins {Path(graded.source).name}", quiet) as progress:
        found = margins(module, known, split=split, **given, progress=progress)
    if not quiet:
        for note in (*found.notes, *((found.reason,) if found.reason else ())):
            say_note(note)
    answer.margins.append(found)
    return with_margins(graded, found)


def _finish(
    answer: _Answer,
    accuracies: tuple[float, ...] | None,
    folder: Path | None,
    figures: Path | None,
    figure_format: files.FigureFormat,
    html: Path | None,
) -> None:
    """Compare, and write the requested files."""
    from weightsmith.grading.comparison import compare

    several = answer.several
    if len(several) > 1:
        answer.comparison = compare(several, accuracy=accuracies)
    if folder is not None:
        answer.files += files.write_records(folder, several, answer.comparison)
    if figures is not None:
        answer.files += files.write_figures(figures, several, answer.comparison, figure_format)
    if html is not None:
        answer.files.append(files.write_page(html, several, answer.comparison))


def _print_json(answer: _Answer) -> None:
    tables = [graded.to_table() for graded in answer.several]
    for table, found in zip(tables, answer.margins, strict=False):
        table["margins"] = found.to_dict()
    written = {"files": [str(path) for path in answer.files]}
    if answer.comparison is not None:
        print_json({"networks": tables, "comparison": answer.comparison.to_dict(), **written})
        return
    plans = {rule: {"file": str(path), **plan.to_dict()} for rule, path, plan in answer.plans}
    print_json({**tables[0], **({"plans": plans} if plans else {}), **written})


def _show(answer: _Answer, why: bool) -> None:
    if answer.comparison is None:
        report.show_grades(answer.several[0], why=why)
    else:
        report.show_comparison(answer.several, answer.comparison)
    if answer.plans:
        report.show_plans(answer.plans)
    if answer.files:
        report.show_files(answer.files)


def _raise_if_broken(several: Sequence[Grades]) -> None:
    broken = [layer.name for graded in several for layer in graded.layers if layer.status.value == "non-finite"]
    empty = [graded.source for graded in several if not graded.layers]
    if empty:
        raise Attention(f"nothing to grade in {', '.join(empty)}: no tensor is a layer (see weightsmith inspect)")
    if broken:
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        raise Attention(f"NaN or infinity in {', '.join(broken[:3])}{more}: not graded")
