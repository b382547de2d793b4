"""``weightsmith export``: a spiking network as NIR or a torch module, any other as ONNX, written and checked."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._export_onnx import export_to_onnx
from weightsmith.cli._figure_files import check_targets, hold
from weightsmith.cli._spike_options import refuse_nir
from weightsmith.cli._spike_records import nearby_settings, recorded_data
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import files_line, out, print_json, raise_concerns, say_note, show
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
        "weightsmith export runs/small --to onnx --int8 --data cifar10",
        "weightsmith export runs/small --to huggingface hub/small",
    ),
)
def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="NETWORK",
            readable=False,
            help="a spiking network (its file, or spike's folder), or with --to onnx or huggingface any other",
        ),
    ],
    options: Options,
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="NET.nir",
            readable=False,
            help="the NIR file to write; NET.py: a plain torch module and its weights; optional for onnx",
        ),
    ] = None,
    to: Annotated[
        str, typer.Option(help="nir (spiking networks, also NET.py); onnx or huggingface (all others)")
    ] = "nir",
    int8: Annotated[
        bool, typer.Option("--int8", help="onnx: also write an 8-bit file, with ranges from training rows of --data")
    ] = False,
    network: given.WhatNetwork = None,
    check: Annotated[
        list[str] | None,
        typer.Option(help="load it into spikingjelly, norse or snntorch and compare spikes; may be repeated"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="data whose test rows make the test vector; default: the data of the record, else random spikes"
        ),
    ] = None,
    data_path: given.DataPath = None,
    test_rows: Annotated[
        int | None, typer.Option(min=1, help="number of test rows in the test vector, from the first (2)")
    ] = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Write a network for other tools: NIR or a torch module if it is spiking, else ONNX or a Hugging Face folder.

    A NIR file comes with a test vector and the spikes that it must give on it.

    A target that ends in .py is a module in plain torch, for any neuron, compared with our engine spike for spike.
    Exit code 1 if another simulator (--check) or the module gives different spikes. Any other network is
    written as ONNX (--to onnx), with --int8 also in 8 bits; both are checked against the module and timed in
    onnxruntime. --to huggingface writes a folder with model.safetensors, config.json and a model card with figures.
    """
    if to == "huggingface":
        hold(target)
        _export_huggingface(file, target, network, as_json)
        return
    if to == "onnx":
        export_to_onnx(file, target, network=network, int8=int8, data=data, data_path=data_path, as_json=as_json)
        return
    target = _spiking_target(target, to, int8)
    hold(file=target)
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.files import load_spiking

    told, data = data, recorded_data(file) if data is None else data
    options["steps"] = options["steps"] or nearby_settings(file).get("steps") or verb.STEPS
    if target.suffix == ".py":
        _refuse_for_torch(rounding=options["rounding"], sumpool=options["sumpool"] or None, check=check)
        run = _TorchRun(data, data_path, test_rows, options["steps"], options["seed"])
        _export_torch(file, target, run, as_json=as_json, quiet=quiet)
        return
    simulators = _simulators(check or ())
    if importlib.util.find_spec("nir") is None:
        raise MissingExtra("writing NIR files", "nir")
    check_targets({"NET.nir": target}, {})
    refuse_nir(file)
    x = _rows(data, data_path, test_rows, quiet)
    written = verb.export_nir(load_spiking(file), target, x=x, **options)
    if told is None and not quiet:
        say_note(
            "the test vector holds random spikes: give --data for real rows"
            if data is None
            else f"the test vector holds rows of {data}, as in the record of {file}"
        )
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


def _export_huggingface(file: Path, target: Path | None, network: str | None, as_json: bool) -> None:
    from weightsmith.chain.huggingface import export_huggingface

    if target is None:
        raise UsageError("give the folder to write: weightsmith export NETWORK FOLDER --to huggingface")
    folder = export_huggingface(file, target, network=network)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if as_json:
        print_json({"files": [str(path) for path in paths]})
    else:
        out().print(files_line(paths))


def _spiking_target(target: Path | None, to: str, int8: bool) -> Path:
    if to != "nir":
        raise UnknownName("format", to, ("nir", "onnx", "huggingface"))
    if int8:
        raise UsageError("--int8 belongs to --to onnx")
    if target is None:
        raise UsageError("give the file to write: weightsmith export SPIKING NET.nir, or NET.py for plain torch")
    return target


def _simulators(asked: Sequence[str]) -> list[str]:
    """The simulators without repeats, checked to be known and installed before the file is written."""
    for name in asked:
        if name not in _SIMULATORS:
            raise UnknownName("simulator", name, _SIMULATORS)
        for package in (name, "nirtorch"):
            if importlib.util.find_spec(package) is None:
                raise UsageError(
                    f"--check {name} needs the package {package}, which is not installed: pip install {package}"
                )
    return list(dict.fromkeys(asked))


class _TorchRun(NamedTuple):
    """The inputs on which a module is compared."""

    data: str | None
    path: Path | None
    rows: int | None
    steps: int
    seed: int


def _refuse_for_torch(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name} is for NIR files only; a torch module is always compared and never rounded")


def _export_torch(file: Path, target: Path, run: _TorchRun, *, as_json: bool, quiet: bool) -> None:
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.files import load_spiking
    from weightsmith.spiking.portable.export import export_torch

    check_targets({"NET.py": target, "its weights": target.with_suffix(".safetensors")}, {})
    refuse_nir(file)
    x = _rows(run.data, run.path, run.rows, quiet)
    written = export_torch(load_spiking(file), target, x=x, steps=run.steps, seed=run.seed)
    paths = [target, target.with_name(written.weights)]
    description = describe(written, str(file))
    if as_json:
        files = [str(path) for path in paths]
        print_json({"export": written.to_dict(), "files": files, "description": description.to_dict()})
    else:
        show(description, paths)
    raise_concerns(description)


def _rows(name: str | None, path: Path | None, images: int | None, quiet: bool) -> Tensor | None:
    """The first test rows (or of another split), unnormalised; None without data."""
    from weightsmith.data.datasets import load_all

    if name is None and (images is not None or path is not None):
        raise UsageError(f"--{'test-rows' if path is None else 'data-path'} belongs to --data, which is not given")
    if name is None:
        return None
    known = load_all(name, path=path)
    if not quiet:
        for note in known.notes:
            say_note(note)
    split = next(part for part in ("test", "validation", "train") if part in known.splits)
    return known.split(split).x[: images or _IMAGES]


def _compared(target: Path, simulators: Sequence[str], quiet: bool) -> list[HandoverCheck]:
    from weightsmith.spiking.nir.handover import compare

    checks = []
    for name in simulators:
        if not quiet:
            say_note(f"loading into {name}")
        checks.append(compare(target, name))  # type: ignore[arg-type]  # one of its names
    return checks
