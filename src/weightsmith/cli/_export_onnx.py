"""``weightsmith export NETWORK --to onnx [--int8]``: write, check and measure in onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from weightsmith.cli._figure_files import check_targets, hold
from weightsmith.cli._spike_records import recorded_data
from weightsmith.cli.terminal import files_line, out, print_json, table
from weightsmith.core.errors import UsageError
from weightsmith.reporting.sections._wording import significant

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weightsmith.networks.runtime.onnx_files import OnnxFile
    from weightsmith.networks.runtime.onnx_network import OnnxTiming

__all__ = ["export_to_onnx"]

_CHECKED = 16  # rows on which the float32 file is compared with the module
_CALIBRATION = 500  # training rows that set the 8-bit ranges


def export_to_onnx(
    file: Path,
    target: Path | None,
    *,
    network: str | None,
    int8: bool,
    data: str | None,
    data_path: Path | None,
    as_json: bool,
) -> None:
    """Write ``file`` as ONNX to ``target`` (default: beside ``file``); with ``int8`` also an 8-bit file beside that."""
    from weightsmith.networks.files import load
    from weightsmith.networks.runtime.onnx_files import check_extra, export_onnx, quantise_onnx
    from weightsmith.networks.runtime.onnx_network import onnx_latency

    data = recorded_data(file) if data is None else data
    if int8 and data is None:
        raise UsageError("--int8 needs data to calibrate the value ranges: give --data")
    check_extra()
    path = target or (file / "network.onnx" if file.is_dir() else file.with_suffix(".onnx"))
    small = path.with_name(f"{path.stem}-int8.onnx")
    check_targets({"NET.onnx": path}, {})
    hold(file=path)
    loaded = load(file, network=network).eval()
    rows = _rows(loaded, data, data_path)
    written = [export_onnx(loaded, path, rows[:_CHECKED])]
    if int8:
        written.append(quantise_onnx(loaded, path, small, rows))
    paths = [path, small][: len(written)]
    timings = onnx_latency(paths, rows[:64])
    if as_json:
        print_json(
            {
                "files": [str(each) for each in paths],
                "export": [each.to_dict() for each in written],
                "timings": [each.to_dict() for each in timings],
            }
        )
    else:
        _show(file, written, timings, paths)


def _rows(network: nn.Module, data: str | None, path: Path | None) -> Tensor:
    """Training rows as inputs of the network; without data, noise of the input shape in its card."""
    import torch

    from weightsmith.data.datasets import load_all
    from weightsmith.networks.card import card_of
    from weightsmith.networks.evaluation import inputs_of

    if data is not None:
        x = load_all(data, path=path).split("train").x
        return inputs_of(network, x[torch.linspace(0, len(x) - 1, min(_CALIBRATION, len(x))).long()])
    shape = card_of(network).input_shape
    if shape is None:
        raise UsageError("the file does not state the shape of its inputs; give --data")
    return torch.randn(_CHECKED, *shape, generator=torch.Generator().manual_seed(0))


def _show(file: Path, written: Sequence[OnnxFile], timings: Sequence[OnnxTiming], paths: Sequence[Path]) -> None:
    console = out()
    console.print(f"[bold]{escape(str(file))}[/bold]  as ONNX, checked against the module and timed in onnxruntime")
    numbers = ("bits", "kB", "largest difference", "same class", "ms/input at 1", "ms/input at 64")
    rows = table("file", *numbers, numbers=numbers)
    for each in written:
        own = [f"{timing.median:.3g}" for timing in timings if timing.file == each.file]
        rows.add_row(
            escape(each.file),
            str(each.bits),
            f"{each.bytes / 1000:.0f}",
            f"{significant(each.difference)} of {significant(each.spread)}",
            f"{100 * each.agreement:.1f} % of {each.rows}",
            *own,
        )
    console.print(rows)
    console.print(files_line(paths))
