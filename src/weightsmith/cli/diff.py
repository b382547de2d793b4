"""``weightsmith diff A B``: compare two networks or results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._stages import stages
from weightsmith.cli.grade import say_if_first
from weightsmith.cli.terminal import Attention, print_json
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from weightsmith.data import Data

__all__ = ["diff"]


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", readable=False, help="A network file or result folder.")],
    b: Annotated[Path, typer.Argument(metavar="B", readable=False, help="What is compared with it.")],
    data: Annotated[
        str | None, typer.Option(help="A data set: adds paired accuracy, angles of activations, latency and energy.")
    ] = None,
    data_path: given.DataPath = None,
    split: given.Split = None,
    test_rows: given.TestRows = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Spiking networks: time steps (those of their record, or 64).")
    ] = None,
    seed: given.Seed = 0,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    evidence: Annotated[str, typer.Option(help="What is asked beside α: none, fast (its interval), full.")] = "fast",
    prices: Annotated[
        str, typer.Option(help="Picojoules per operation, as picojoule:accumulate=0.1,multiply=3.2.")
    ] = "picojoule",
    latency: Annotated[bool, typer.Option(help="Measure the time per image of both, by turns.")] = True,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Compare two networks: sizes, α, norms, angles and distance of each layer, and with data what they answer.

    --network and --normalise hold for both, where their files do not say it. Exit code 1 if a layer holds NaN or
    infinity.
    """
    for option, value in (("data-path", data_path), ("split", split), ("test-rows", test_rows), ("steps", steps)):
        if data is None and value is not None:
            raise UsageError(f"--{option} belongs to --data NAME, which is not given")
    from weightsmith.chain.diff.differences import diff as compare
    from weightsmith.cli._diff_report import show_diff

    known = None if data is None else _load_data(data, data_path, split)
    say_if_first(quiet)
    with stages("diff", quiet) as progress:
        found = compare(
            a,
            b,
            known,
            split=split,
            test_rows=test_rows,
            steps=steps,
            seed=seed,
            network=network,
            normalise=normalise,
            evidence=evidence,
            prices=prices,
            latency=latency,
            progress=progress,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        show_diff(found, notes=not quiet)
    broken = [
        f"{layer.name} of {which}"
        for layer in found.layers
        for which, facts in (("A", layer.a), ("B", layer.b))
        if facts.status == "non-finite"
    ]
    if broken:
        raise Attention(f"NaN or infinity in {', '.join(broken[:3])}")


def _load_data(name: str, path: Path | None, split: str | None) -> Data:
    """Load only the required split of a known set, which may be large; all splits of the user's own data."""
    from weightsmith.data import load
    from weightsmith.data.catalogue import CATALOGUE

    everything = ("test",) if name in CATALOGUE else ("train", "validation", "test")
    return load(name, path=path, splits=(split,) if split else everything)
