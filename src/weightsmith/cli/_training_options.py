"""Options shared by all commands that train: one spelling and one help text each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import OptionError
from weightsmith.core.text import read_value, split_items

__all__ = [
    "AsJson",
    "Augmentation",
    "Batch",
    "Clipping",
    "DataName",
    "DataPath",
    "Device",
    "Epochs",
    "HowNormalised",
    "LossName",
    "Network",
    "Normalise",
    "OptimiserName",
    "Penalties",
    "Quiet",
    "ScheduleName",
    "Seed",
    "Stopping",
    "Threads",
    "Validation",
    "WhatNetwork",
    "Workers",
    "network_of",
    "none_or",
    "validation_of",
    "warnings_as_notes",
    "whole_numbers",
]

DataName = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A data set by name (weightsmith data list), folder:PATH or table:PATH."),
]
DataPath = Annotated[
    Path | None, typer.Option(readable=False, help="Where the files of the data set are, if not found.")
]
Network = Annotated[
    str,
    typer.Option(help="What to train: mlp:300,100, vgg:11 … (weightsmith networks list), a file, or module:function."),
]
OptimiserName = Annotated[str, typer.Option("--optimiser", help="sgd, momentum:0.9, nesterov, rmsprop, adam, adamw …")]
ScheduleName = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        "--rate",
        "--lr",
        help="A rate, or power:0.1,s=20,per=epoch, exponential, plateau, cosine, one-cycle, warm-up …",
    ),
]
Clipping = Annotated[str | None, typer.Option("--clip", help="value:1, norm:1 (per parameter) or global-norm:1.")]
Stopping = Annotated[str | None, typer.Option("--stop", help="early:5 ends after 5 epochs without improvement.")]
Penalties = Annotated[
    list[str] | None,
    typer.Option(
        "--penalty", help="l1, l2:1e-4, max-norm, stable-rank, spectral, group-lasso, l4-balance; repeatable."
    ),
]
LossName = Annotated[str, typer.Option("--loss", help="cross-entropy or squared-error.")]
Augmentation = Annotated[str | None, typer.Option("--augment", help="crop-flip:4 shifts and mirrors images.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Images per step (of all processes together).")]
Epochs = Annotated[int, typer.Option("--epochs", min=1, help="Passes over the training images, at most.")]
Validation = Annotated[
    float | None,
    typer.Option(
        "--validation",
        min=0,
        max=0.99,
        help="Share of the training images kept for validation; without it 0.1 if the data have none, 0 for none.",
    ),
]
Normalise = Annotated[
    str | None,
    typer.Option("--normalise", help="none, 0.5/0.5, imagenet …; without it the network's own, or the data's."),
]
WhatNetwork = Annotated[
    str | None,
    typer.Option("--network", help="What the network is, if its file does not tell: vgg:16, package.module:function."),
]
HowNormalised = Annotated[
    str | None,
    typer.Option("--normalise", help="How inputs are normalised: none, 0.5/0.5, imagenet, cifar10 …"),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of weights, split, order and dropout.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda …")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads; one is fastest for small networks.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes that train side by side.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]


def none_or(text: str | None) -> str | None:
    """The text form of an option; ``none`` gives None."""
    return None if text is None or text.strip().lower() == "none" else text


def network_of(text: str) -> str | Path:
    """A file or result folder as a path, so that the network's own normalisation is used."""
    return Path(text) if Path(text).exists() else text


def validation_of(asked: float | None, present: bool) -> float | None:
    """The validation share: 0.1 by default if the data have no validation split."""
    if asked is None:
        return None if present else 0.1
    return asked or None


def whole_numbers(text: str | None, option: str) -> tuple[int, ...]:
    """``0,5`` as numbers."""
    if text is None:
        return ()
    plain, named = split_items(text, text)
    values: list[Any] = [read_value(item) for item in plain]
    if named or not all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values):
        raise OptionError(f"{option} takes whole numbers such as 0,1,2, not {text!r}")
    return tuple(values)


@contextmanager
def warnings_as_notes(quiet: bool) -> Iterator[None]:
    """Show warnings of training as notes, at once and in one line; other warnings pass unchanged."""
    from weightsmith.training.plan import TrainingWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", TrainingWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, TrainingWarning):
                usual(message, category, filename, lineno, file, line)
            elif not quiet:
                say_note(f"warning: {message}")

        warnings.showwarning = show
        yield
