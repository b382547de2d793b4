"""``weightsmith diff A B``: compare two networks or results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weightsmith.chain.diff import diff as verb
from weightsmith.cli import _shared_options as given
from weightsmith.cli._stages import stages
from weightsmith.cli._verb_options import Options, flag_of, takes_options_of
from weightsmith.cli.evaluate import load_judging
from weightsmith.cli.grade import say_if_first
from weightsmith.cli.terminal import print_json, raise_concerns, show
from weightsmith.core.errors import UsageError

__all__ = ["diff"]


@takes_options_of(
    verb.diff,
    examples=(
        "weightsmith diff runs/net runs/small --data digits",
        "weightsmith diff a.safetensors b.safetensors --evidence none",
    ),
)
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", readable=False, help="a network file or the folder of a result")],
    b: Annotated[Path, typer.Argument(metavar="B", readable=False, help="the network to compare with A")],
    options: Options,
    data: Annotated[
        str | None, typer.Option(help="a data set: adds paired accuracy, angles of activations, latency and energy")
    ] = None,
    data_path: given.DataPath = None,
    network: given.WhatNetwork = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Compare two networks: sizes, α, norms, angles and distance of each layer, and with data their predictions.

    --network and --normalise apply to both, if their files do not state them. Exit code 1 if a layer holds NaN or
    infinity.
    """
    of_data = {"data_path": data_path, **{name: options[name] for name in ("split", "test_rows", "steps")}}
    for name, value in of_data.items():
        if data is None and value is not None:
            raise UsageError(f"{flag_of(name)} belongs to --data NAME, which is not given")
    from weightsmith.reporting.describe import describe

    known = None if data is None else load_judging(data, data_path, options["split"])
    say_if_first(quiet)
    with stages("diff", quiet) as progress:
        found = verb.diff(a, b, known, network=network, **options, progress=progress)
    description = describe(found)
    if as_json:
        print_json(found.to_dict())
    else:
        show(description)
    raise_concerns(description)
