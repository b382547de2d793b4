"""``weightsmith grade A [B …]``: grade the training of networks from their weights alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _grading_files as files
from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_targets, check_writable, hold, is_stdout, write_csv
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, progress_bar, raise_concerns, say_note, show
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.text import read_value, split_items
from weightsmith.grading import grade as verb

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.grading.comparison import GradeComparison
    from weightsmith.grading.margins import Margins
    from weightsmith.grading.results import Grades
    from weightsmith.reporting.parts import Section

__all__ = ["grade", "read_accuracies", "say_if_first"]

_KEEP = 0.5


@takes_options_of(
    verb.grade,
    examples=(
        "weightsmith grade runs/net --why",
        "weightsmith grade a.safetensors b.safetensors --accuracy 91.73,92.63 --out runs/grades",
    ),
)
def grade(
    networks: Annotated[
        list[Path],
        typer.Argument(metavar="NETWORK", readable=False, help="files or folders of weights; several are compared"),
    ],
    options: Options,
    accuracy: Annotated[
        str | None,
        typer.Option(help="accuracy of each network, as 91.73,92.63 (all in per cent) or .9173,.9263 (all fractions)"),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="a data set: adds the norms divided by the margin of the network's answers")
    ] = None,
    data_path: given.DataPath = None,
    split: Annotated[
        str | None,
        typer.Option(help="the split of the data (default: train, or the only one)", rich_help_panel=given.MORE),
    ] = None,
    network: given.WhatNetwork = None,
    plan: Annotated[
        Path | None, typer.Option(help="write keep ratios per layer by α, with uniform and norm plans for comparison")
    ] = None,
    keep: Annotated[
        float | None, typer.Option(help="the share of parameters that the plans keep (0.5)", rich_help_panel=given.MORE)
    ] = None,
    figures: given.Figures = None,
    html: Annotated[Path | None, typer.Option(help="write a self-contained page with figures")] = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    csv: given.Csv = None,
    why: Annotated[bool, typer.Option("--why", help="show the evidence for each verdict")] = False,
    quiet: given.Quiet = False,
) -> None:
    """Grade each layer from its weights alone: a verdict, how sure it is, and what to look at; no data are needed.

    Exit code 1 if a layer holds NaN or infinity, or if there is nothing to grade.
    """
    if why and len(networks) > 1:
        raise UsageError("--why explains the layers of one network: grade it alone")
    accuracies = read_accuracies(accuracy, len(networks))
    check_targets({"--html": html, "--plan": plan}, {})
    check_writable(csv, figures, out_folder, as_json=as_json)
    hold(out_folder if len(networks) > 1 else None)  # for one network the verb locks it
    fold, base, layers = options["fold"], options["base"], options["layers"]
    _check_plan(plan, keep, networks, fold, base)
    _check_data(data, data_path, split, base)
    # A built network has other layer names than its file.
    built = fold or network is not None
    _check_all(networks, base, None if built else layers, None if built else options["conv_groups"])
    known = None if data is None else _load_data(data, data_path, split)
    say_if_first(quiet)
    answer = _Answer()
    for path in networks:
        module = None if known is None and network is None else _loaded(path, network, known)
        subject = path if network is None or module is None else module
        graded = _graded(path, subject, options, quiet, out_folder if len(networks) == 1 else None)
        if known is not None and module is not None:
            graded = _with_margins(graded, module, known, split, options, quiet, answer)
        answer.several.append(graded)
        if plan is not None:
            answer.plans = files.write_plans(plan, subject, graded, _KEEP if keep is None else keep, layers)
    _finish(answer, accuracies, out_folder, csv, figures, html)
    description = _described(answer, why)
    if as_json:
        _print_json(answer, description)
    elif not is_stdout(csv):
        show(description, answer.files)
    raise_concerns(description)


@dataclasses.dataclass
class _Answer:
    """The data to print, collected network by network."""

    several: list[Grades] = dataclasses.field(default_factory=list)
    margins: list[Margins] = dataclasses.field(default_factory=list)
    comparison: GradeComparison | None = None
    plans: list[files.PlanFile] = dataclasses.field(default_factory=list)
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
        raise UsageError(f"--accuracy needs one value for each of several networks: {len(values)} for {count}")
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
        raise UsageError("--data measures a network's outputs, and a difference of two networks (--base) has none")


def say_if_first(quiet: bool) -> None:
    """Say that the first call compiles, which takes a while."""
    from weightsmith.grading.fits.scan import is_compiled

    if not quiet and not is_compiled():
        say_note("compiling, once on this machine: about 15 seconds")


def _check_all(
    networks: Sequence[Path], base: Path | None, layers: Sequence[str] | None, conv_groups: Sequence[str] | None
) -> None:
    """Check before hours of work that all networks open, have the selected layers, and match the base."""
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


def _graded(
    path: Path, subject: Path | nn.Module, options: dict[str, Any], quiet: bool, out: Path | None = None
) -> Grades:
    with progress_bar(f"grade {path.name}", quiet) as progress:
        graded = verb.grade(subject, **options, out=out, progress=progress)
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

    taken = {name: options[name] for name in ("fold", "threads", "device")}
    with progress_bar(f"margins {Path(graded.source).name}", quiet) as progress:
        found = margins(module, known, split=split, **taken, progress=progress)
    # Without margins, the reason is a part of the result, which is shown in any case.
    for note in (*(() if quiet else found.notes), *((found.reason,) if found.reason else ())):
        say_note(note)
    answer.margins.append(found)
    return with_margins(graded, found)


def _finish(
    answer: _Answer,
    accuracies: tuple[float, ...] | None,
    folder: Path | None,
    csv: Path | None,
    figures: Path | None,
    html: Path | None,
) -> None:
    """Compare, and write the requested files."""
    from weightsmith.grading.comparison import compare

    several = answer.several
    if len(several) > 1:
        answer.comparison = compare(several, accuracy=accuracies)
    if folder is not None:
        answer.files += files.write_records(folder, several, answer.comparison)
    if csv is not None:
        answer.files += write_csv(csv, files.rows_as_csv(several))
    if figures is not None:
        answer.files += files.draw(figures, several, answer.comparison)
    if html is not None:
        answer.files.append(files.write_page(html, several, answer.comparison))


def _described(answer: _Answer, why: bool) -> Section:
    """The description of one network, with its plans, or of several side by side."""
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.sections.comparing import comparison_section
    from weightsmith.reporting.sections.grading import concerns
    from weightsmith.reporting.sections.planning import plan_table

    if answer.comparison is not None:
        found = tuple(line for grades in answer.several for line in concerns(grades, grades.source))
        return dataclasses.replace(comparison_section(answer.comparison, networks=answer.several), look_at=found)
    description = describe(answer.several[0], why=why)
    if not answer.plans:
        return description
    plans = plan_table({each.rule: each.plan for each in answer.plans}, {each.rule: each.path for each in answer.plans})
    return dataclasses.replace(description, parts=(*description.parts, plans))


def _print_json(answer: _Answer, description: Section) -> None:
    tables = [graded.to_table() for graded in answer.several]
    for table, found in zip(tables, answer.margins, strict=False):
        table["margins"] = found.to_dict()
    written = {"description": description.to_dict(), "files": [str(path) for path in answer.files]}
    if answer.comparison is not None:
        print_json({"networks": tables, "comparison": answer.comparison.to_dict(), **written})
        return
    plans = {rule: {"file": str(path), **plan.to_dict()} for rule, path, plan in answer.plans}
    print_json({**tables[0], **({"plans": plans} if plans else {}), **written})
