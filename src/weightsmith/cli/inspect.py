"""``weightsmith inspect FILE``: list the contents of a file of weights, reading only its headers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._spike_options import refuse_nir
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, show
from weightsmith.networks import contents as verb

__all__ = ["inspect"]


@takes_options_of(verb.inspect, examples=("weightsmith inspect model.safetensors --layers 'layer1.*'",))
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", readable=False, help="a file or folder of weights: safetensors, pt, npz, ONNX, Keras"
        ),
    ],
    options: Options,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,  # noqa: ARG001  (nothing to silence: there for scripts that pass it to every command)
) -> None:
    """List layers, shapes, parameters and types of a file of weights, and what in it cannot be read."""
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.contents import inspect_spiking
    from weightsmith.spiking.files import is_spiking

    spiking = is_spiking(file)
    if not spiking:
        refuse_nir(file)
    found = inspect_spiking(file, **options) if spiking else verb.inspect(file, **options)
    if as_json:
        print_json(found.to_dict())
    else:
        show(describe(found, str(file)))
