"""Options that only the command line has, declared once for all commands: files, folders and output format.

Options in a verb's signature are not here: :mod:`weightsmith.cli._verb_options` derives them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weightsmith.cli._verb_options import MORE, surrounding
from weightsmith.core import verbs
from weightsmith.core.errors import OptionError

__all__ = [
    "MORE",
    "AsJson",
    "Cluster",
    "Csv",
    "DataName",
    "DataOption",
    "DataOrRecord",
    "DataPath",
    "Factory",
    "Figures",
    "FiguresOrNone",
    "HowNormalised",
    "LeastAccuracy",
    "NetworkFile",
    "Out",
    "Quiet",
    "Seed",
    "TrainedNetwork",
    "WhatNetwork",
    "Workers",
]

_DATA = "a data set by name (weightsmith data list), folder:PATH, table:PATH or parquet:PATH"
_FIGURES = "draw into this folder, or as FILE.svg, .png or .pdf"


def _or_none(figures: Path | None) -> Path | None:
    return None if figures is not None and str(figures).lower() == "none" else figures


def _in_percent(accuracy: float | None) -> float | None:
    """Check that the bound is in per cent: any network would pass 0.9."""
    if accuracy is not None and 0 < accuracy <= 1:
        raise OptionError(f"--least-accuracy is in per cent, such as 90: any network would pass {accuracy:g}")
    return accuracy


NetworkFile = Annotated[
    Path, typer.Argument(metavar="NETWORK", readable=False, help="a network file or the folder of a result")
]
DataName = Annotated[str, typer.Argument(metavar="DATA", help=_DATA)]
DataOption = Annotated[str, typer.Option("--data", help=_DATA)]
DataOrRecord = Annotated[str | None, typer.Option("--data", help=f"{_DATA}; default: the data of the network's run")]
DataPath = Annotated[
    Path | None,
    typer.Option(
        "--data-path",
        readable=False,
        help="where the files of the data set are, if not found automatically",
        rich_help_panel=MORE,
    ),
]
Factory = Annotated[
    str | None,
    typer.Option(
        "--factory",
        help="your own class that loads the file of --network: mynet:PartNet, mynet.py:PartNet,width=32",
        rich_help_panel=MORE,
    ),
]
WhatNetwork = Annotated[
    str | None,
    typer.Option(
        "--network",
        help="the architecture, if the file does not state it: vgg:16, mynet:PartNet or nets/mynet.py:PartNet,width=32",
        rich_help_panel=MORE,
    ),
]
HowNormalised = Annotated[
    str | None,
    typer.Option(
        "--normalise", help="how inputs are normalised: none, 0.5/0.5, imagenet, cifar10 …", rich_help_panel=MORE
    ),
]
TrainedNetwork = Annotated[
    str,
    typer.Option(
        "--network",
        help="what to train: mlp:300,100, vgg:11 … (weightsmith networks list), a file, or mynet:PartNet,width=32",
    ),
]
LeastAccuracy = Annotated[
    float | None,
    typer.Option(
        "--least-accuracy",
        min=0,
        max=100,
        callback=_in_percent,
        help="end with code 1 if the accuracy (%) is below this",
        rich_help_panel=MORE,
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="folder for the results; the same command resumes there")]
Csv = Annotated[
    Path | None, typer.Option("--csv", help="write the numbers as CSV; - prints them", rich_help_panel=MORE)
]
Figures = Annotated[Path | None, typer.Option("--figures", callback=_or_none, help=f"{_FIGURES}; none: draw nothing")]
FiguresOrNone = Annotated[
    Path | None,
    typer.Option("--figures", help=f"{_FIGURES}; default with --out: its figures folder; none: draw nothing"),
]
Seed = Annotated[int, surrounding("seed", verbs.Seed)]
Workers = Annotated[int, surrounding("workers", verbs.Workers)]
Cluster = Annotated[str | None, surrounding("cluster", verbs.Cluster)]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="hide progress and notes on the way; those of the result, and warnings, stay"),
]
