"""``weightsmith export SPIKING NET.nir``: write a spiking network for other tools and hardware, with a test vector."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_targets
from weightsmith.cli._spike_options import refuse_nir
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.core.errors import MissingExtra, UnknownName, UsageError
from weightsmith.spiking.nir import export as verb

if TYPE_CHECKING:
    from torch import Tensor

    from weightsmith.spiking.nir.handover import HandoverCheck

__all__ = ["export"]

_SIMULATORS = ("spikingjelly", "norse", "snntorch")
_IMAGES = 2


@takes_options_of(
    verb.export_nir,
    examples=(
        "weightsmith export runs/spiking net.nir --data digits",
        "weightsmith export runs/spiking net.nir --rounding 8 --check norse",
    ),
)
def export(
    file: Annotated[
        Path, typer.Argument(metavar="SPIKING", readable=False, help="a spiking network: its file, or spike's folder")
    ],
    target: Annotated[Path, typer.Argument(metavar="NET.nir", readable=False, help="the NIR file to write")],
    options: Options,
    check: Annotated[
        list[str] | None,
        typer.Option(help="load it into spikingjelly, norse or snntorch and compare spikes; may be repeated"),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="data whose test rows make the test vector (without: random spikes)")
    ] = None,
    data_path: given.DataPath = None,
    test_rows: Annotated[int | None, typer.Option(min=1, help="how many of them, from the first (2)")] = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Write a spiking network in the exchange format NIR, with the spikes that it must give on a test vector.

    Exit code 1 if another simulator counts other spikes (--check).
    """
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.files import load_spiking

    simulators = _simulators(check or ())
    if importlib.util.find_spec("nir") is None:
        raise MissingExtra("writing NIR files", "nir")
    if data is None and (test_rows is not None or data_path is not None):
        raise UsageError(f"--{'test-rows' if data_path is None else 'data-path'} belongs to --data, which is not given")
    check_targets({"NET.nir": target}, {})
    refuse_nir(file)
    network = load_spiking(file)
    x = None if data is None else _rows(data, data_path, test_rows or _IMAGES, quiet)
    written = verb.export_nir(network, target, x=x, **options)
    checks = _compared(target, simulators, quiet)
    description = describe(written, str(file), checks=checks)
    paths = [target, target.with_name(written.vector)]
    if as_json:
        found = [{**check.to_dict(), "worst": check.worst} for check in checks]
        print_json(
            {
                "export": written.to_dict(),
                "checks": found,
                "files": [str(path) for path in paths],
                "description": description.to_dict(),
            }
        )
    else:
        show(description, paths)
    raise_concerns(description)


def _simulators(asked: Sequence[str]) -> list[str]:
    """Each once, checked to be known and installed before the file is written."""
    for name in asked:
        if name not in _SIMULATORS:
            raise UnknownName("simulator", name, _SIMULATORS)
        for package in (name, "nirtorch"):
            if importlib.util.find_spec(package) is None:
                raise UsageError(
                    f"--check {name} needs the package {package}, which is not installed: pip install {package}"
                )
    return list(dict.fromkeys(asked))


def _rows(name: str, path: Path | None, images: int, quiet: bool) -> Tensor:
    """The first test rows (or of another split), unnormalised."""
    from weightsmith.data.datasets import load_all

    known = load_all(name, path=path)
    if not quiet:
        for note in known.notes:
            say_note(note)
    split = next(part for part in ("test", "validation", "train") if part in known.splits)
    return known.split(split).x[:images]


def _compared(target: Path, simulators: Sequence[str], quiet: bool) -> list[HandoverCheck]:
    from weightsmith.spiking.nir.handover import compare

    checks = []
    for name in simulators:
        if not quiet:
            say_note(f"loading into {name}")
        checks.append(compare(target, name))  # type: ignore[arg-type]  # one of its names
    return checks
