"""``weightsmith tailor NETWORK --data NAME --accuracy 90% --energy 20%``: search a network that meets limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.chain.tailor import tailoring as verb
from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, write_figures
from weightsmith.cli._spike_options import refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._tailor_report import as_dict, concern, show_tailored
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import Attention, print_json, say_note
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.data import Data

__all__ = ["tailor"]

_WHAT_FOR = "networks are trained on some rows, chosen by others and judged by yet others"


@takes_options_of(
    verb.tailor,
    examples=(
        "weightsmith tailor runs/net --data digits --accuracy 90% --energy 20% --out runs/tailored",
        "weightsmith tailor runs/net --data digits --params 50% --budget 10m --figures front.svg",
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
    """Search the chain (reduce, fine-tune, make spiking) for the cheapest network that keeps to limits.

    Candidates are chosen on some rows, the choice is judged on others. Exit code 1 if the limits are not kept to.
    """
    from weightsmith.chain.tailor.limits import Wanted, read_seconds
    from weightsmith.data.datasets import load_all

    Wanted.read(options["accuracy"], options["energy"], options["params"])
    read_seconds(options["budget"])
    _check_outputs(file, out_folder, figures)
    refuse_spiking(file)
    known = load_all(data_of(file, data, quiet, what_for=_WHAT_FOR), path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    options["out"] = out_folder
    result = _tailored(module, known, options, quiet)
    written = _write(result, out_folder, figures)
    if as_json:
        print_json(as_dict(result.record, written))
    else:
        show_tailored(result.record, str(file), known.name, written)
    if out_folder is None and not quiet:
        say_note("the network was not kept: give --out FOLDER")
    if missed := concern(result.record):
        raise Attention(missed)


def _check_outputs(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the input network."""
    check_writable(None, figures, folder)
    if folder is not None and file.resolve() in (folder.resolve(), (folder / "network.safetensors").resolve()):
        raise UsageError(f"--out {folder} is where the network itself is, which is never changed: give another folder")


def _tailored(module: nn.Module, known: Data, options: Options, quiet: bool) -> Tailored:
    if options["spiking"] is not False:
        say_if_compiling(quiet)
    try:
        with warnings_as_notes(), stages("tailor", quiet) as progress:
            return verb.tailor(module, known, **options, progress=progress)
    except KeyboardInterrupt:
        kept = options["out"] is not None
        say_note("what is done is kept: the same command goes on" if kept else "nothing is kept without --out")
        raise


def _write(result: Tailored, folder: Path | None, figures: Path | None) -> list[Path]:
    """Write the figure; return all files."""
    from weightsmith.chain.tailor.section import draw_front_of

    written = [] if folder is None else [folder / "network.safetensors", folder / "record.json"]
    if figures is not None:
        written += write_figures(figures, {"front": lambda: draw_front_of(result.record)})
    return written
