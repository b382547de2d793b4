"""``weightsmith tailor NETWORK --data NAME --params 75% --accuracy -2``: the best network within limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.chain.tailor import tailoring as verb
from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, write_figures
from weightsmith.cli._spike_options import refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.data import Data
    from weightsmith.reporting.parts import Section

__all__ = ["tailor"]

_WHAT_FOR = "training rows are used without their labels, other rows for the final evaluation"


@takes_options_of(
    verb.tailor,
    examples=(
        "weightsmith tailor runs/net --data digits --params 50% --accuracy -2 --out runs/tailored",
        "weightsmith tailor runs/net --data digits --energy 20% --figures kept.svg",
        "weightsmith tailor runs/net --data digits --energy 20% --accuracy 90 --spiking",
    ),
)
def tailor(
    file: given.NetworkFile,
    options: Options,
    data: given.DataOrRecord = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    figures: given.Figures = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Find a network within the limits: reduced, rounded to int8, spiking, or a combination, whichever loses least.

    Uses 1,000 training rows without their labels and evaluates the result once on the test rows.
    Ctrl-C ends the search with the best so far; with --out the same command resumes. Exit code 1 if the limits are not
    met.
    """
    from weightsmith.chain.tailor.limits import COSTS, Wanted, read_seconds
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe

    Wanted.read(options["accuracy"], **{name: options[name] for name in COSTS})
    read_seconds(options["budget"])
    _check_outputs(file, out_folder, figures)
    refuse_spiking(file)
    known = load_all(data_of(file, data, quiet, what_for=_WHAT_FOR), path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    result = _tailored(module, known, options | {"out": out_folder}, quiet)
    description = describe(result, str(file), kept=out_folder is not None)
    written = _write(result, out_folder, figures)
    if as_json:
        print_json(_as_dict(result, description, written))
    else:
        show(description, written)
    raise_concerns(description)


def _check_outputs(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the input network."""
    check_writable(None, figures, folder)
    if folder is not None and file.resolve() in (folder.resolve(), (folder / "network.safetensors").resolve()):
        raise UsageError(f"--out {folder} holds the input network, which is never overwritten: give another folder")


def _tailored(module: nn.Module, known: Data, options: Options, quiet: bool) -> Tailored:
    if options["spiking"] or options["energy"] is not None:
        say_if_compiling(quiet)
    try:
        with warnings_as_notes(), stages("tailor", quiet) as progress:
            return verb.tailor(module, known, **options, progress=progress)
    except KeyboardInterrupt:
        kept = options["out"] is not None
        say_note("finished work is kept: the same command resumes" if kept else "nothing is kept without --out")
        raise


def _as_dict(result: Tailored, description: Section, written: list[Path]) -> dict[str, Any]:
    """The full result as JSON values."""
    return {
        "record": result.record.to_dict(),
        "met": result.met,
        "description": description.to_dict(),
        "look_at": list(description.look_at),
        "files": [str(path) for path in written],
    }


def _write(result: Tailored, folder: Path | None, figures: Path | None) -> list[Path]:
    """Write the figures; return all files."""
    from weightsmith.chain.tailor.drawing import draw_front_of, draw_kept_of

    names = ("network.safetensors", "network-int8.onnx", "record.json")
    written = [] if folder is None else [folder / name for name in names if (folder / name).exists()]
    if figures is not None:
        drawings = {"kept": lambda: draw_kept_of(result.record), "front": lambda: draw_front_of(result.record)}
        written += write_figures(figures, drawings)
    return written
