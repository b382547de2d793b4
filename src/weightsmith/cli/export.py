"""``weightsmith export SPIKING NET.nir``: write a spiking network for other tools and hardware, with a test vector."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_targets
from weightsmith.cli._spike_options import refuse_nir
from weightsmith.cli._spike_records import nearby_settings, recorded_data
from weightsmith.cli.terminal import (
    Attention,
    count_text,
    files_line,
    named_line,
    named_lines,
    out,
    print_json,
    say_note,
    table,
)
from weightsmith.core.errors import MissingExtra, UnknownName, UsageError
from weightsmith.reporting.sections._wording import significant

if TYPE_CHECKING:
    from torch import Tensor

    from weightsmith.spiking.nir.exchange import NirExport
    from weightsmith.spiking.nir.handover import HandoverCheck

__all__ = ["export"]

_SIMULATORS = ("spikingjelly", "norse", "snntorch")
_IMAGES = 2
_STEPS = 32
_TOLERANCE = 1e-3  # share of a layer's spikes that may differ: float32 in another order shifts a few


def export(
    file: Annotated[
        Path, typer.Argument(metavar="SPIKING", readable=False, help="A spiking network: its file, or spike's folder.")
    ],
    target: Annotated[Path, typer.Argument(metavar="NET.nir", readable=False, help="The NIR file to write.")],
    rounding: Annotated[
        int | None,
        typer.Option(
            min=1, max=20, help="Binary digits of weights and thresholds (8: multiples of 1/256), for equal counts."
        ),
    ] = None,
    sumpool: Annotated[
        bool, typer.Option("--sumpool", help="Keep pools as SumPool2d: smaller, but not every tool reads it.")
    ] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(help="Load it into spikingjelly, norse or snntorch and compare spikes; may be repeated."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data whose test rows make the test vector; without it those of the record, or random spikes."
        ),
    ] = None,
    data_path: given.DataPath = None,
    test_rows: Annotated[int | None, typer.Option(min=1, help="how many of them, from the first (2)")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Time steps of the test vector; without it those of the record, or 32.")
    ] = None,
    seed: given.Seed = 0,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Write a spiking network in the exchange format NIR, with the spikes that it must give on a test vector.

    Exit code 1 if another simulator counts other spikes (--check).
    """
    from weightsmith.spiking.files import load_spiking
    from weightsmith.spiking.nir.exchange import export_nir

    simulators = _simulators(check or ())
    if importlib.util.find_spec("nir") is None:
        raise MissingExtra("writing NIR files", "nir")
    if data is None and (test_rows is not None or data_path is not None):
        raise UsageError(f"--{'test-rows' if data_path is None else 'data-path'} belongs to --data, which is not given")
    check_targets({"NET.nir": target}, {})
    refuse_nir(file)
    network = load_spiking(file)
    told, data = data, recorded_data(file) if data is None else data
    x = None if data is None else _rows(data, data_path, test_rows or _IMAGES, quiet)
    steps = nearby_settings(file).get("steps") or _STEPS if steps is None else steps
    written = export_nir(network, target, sumpool=sumpool, rounding=rounding, x=x, steps=steps, seed=seed)
    if told is None and not quiet:
        say_note(
            "the test vector is of random spikes: --data makes it of real rows"
            if data is None
            else f"the test vector is of rows of {data}, as in the record of {file}"
        )
    checks = _compared(target, simulators, quiet)
    paths = [target, target.with_name(written.vector)]
    if as_json:
        print_json(_as_dict(written, checks, paths))
    else:
        _show(file, written, checks, paths)
    far = [check for check in checks if check.worst > _TOLERANCE]
    if far:
        raise Attention("; ".join(map(_mismatch_text, far)))


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


def _as_dict(written: NirExport, checks: Sequence[HandoverCheck], paths: Sequence[Path]) -> dict[str, Any]:
    return {
        "export": written.to_dict(),
        "checks": [{**check.to_dict(), "worst": check.worst} for check in checks],
        "files": [str(path) for path in paths],
    }


def _show(file: Path, written: NirExport, checks: Sequence[HandoverCheck], paths: Sequence[Path]) -> None:
    console = out()
    console.print(
        f"[bold]{escape(str(file))}[/bold]  {escape(written.neuron)}, {written.reset} reset, dt {written.dt:g}"
    )
    nodes = table("node", "type", "gives")
    for node in written.nodes:
        nodes.add_row(escape(node.name), node.kind, " × ".join(map(str, node.shape)))
    console.print(nodes)
    if written.folded:
        console.print(named_line("folded", escape("; ".join(written.folded))))
    for line in named_lines("note", [escape(note) for note in written.notes]):
        console.print(line)
    console.print(named_line("test vector", escape(_vector(written))))
    for check in checks:
        console.print(_check_table(check))
    console.print(files_line(paths))


def _vector(written: NirExport) -> str:
    spikes = sum(written.spikes.values())
    text = f"{written.images} images, {written.steps} steps, {count_text(spikes)} spikes"
    before = sum(written.before.values())
    return text if written.spikes == written.before else f"{text} ({count_text(before)} before rounding)"


def _check_table(check: HandoverCheck) -> Table:
    package = f"{check.simulator} {check.versions.get(check.simulator, '')}".strip()
    rows = table("layer", "ours", "theirs", "differ", "share", numbers=("ours", "theirs", "differ", "share"))
    rows.title = f"spikes here and in {package}"
    for layer in check.layers:
        counts = map(count_text, (layer.ours, layer.theirs, layer.difference))
        rows.add_row(escape(layer.name), *counts, significant(layer.relative))
    rows.add_row("output sums", "", "", "", significant(check.scores))
    return rows


def _mismatch_text(check: HandoverCheck) -> str:
    worst = max(check.layers, key=lambda layer: layer.relative)
    return f"{check.simulator} counts other spikes: {100 * worst.relative:.2g} % of those of {worst.name} differ"
