"""Write a network as an ONNX file, in float32 or in 8 bits, and check its outputs in onnxruntime.

The file takes the same inputs as the module (normalised as its card says; the card is in the file's metadata) and gives
its scores, for any number of rows. In 8 bits every weight w of an output channel becomes round(w / s) with
s = max |w| / 127, and activations become 0 to 255 over their range on calibration rows (onnxruntime's static quantiser,
QDQ format). Nothing is trained.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weightsmith.core.errors import MissingExtra, UsageError
from weightsmith.core.records import Record
from weightsmith.core.storage import write_atomic
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.running import outputs_of
from weightsmith.networks.runtime.onnx_network import OnnxNetwork

__all__ = ["OnnxFile", "check_extra", "export_onnx", "quantise_onnx"]

_INPUT, _OUTPUT = "inputs", "scores"
_NEAR = 1e-3  # share of the spread of scores by which another runtime's float32 may differ
_CALIBRATION_BATCH = 50


@dataclasses.dataclass(frozen=True, eq=False)
class OnnxFile(Record):
    """A written file: its bits, size, and how far its scores are from the module's on the checked rows.

    ``difference`` is the largest difference of scores, ``spread`` the largest distance of the module's scores from
    their mean, and ``agreement`` the share of rows with the same best class.
    """

    file: str
    bits: int
    bytes: int
    rows: int
    difference: float
    spread: float
    agreement: float


def check_extra() -> None:
    """Refuse if the packages of the extra ``onnx`` are missing."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"writing and running ONNX files ({package})", "onnx")


@torch.no_grad()
def export_onnx(network: nn.Module, path: str | Path, inputs: Tensor) -> OnnxFile:
    """Write ``network`` to ``path``, checked on ``inputs`` (at least two rows in the form that the network takes)."""
    check_extra()
    if len(inputs) < 2:
        raise UsageError(f"the check of an export needs at least two rows of inputs, not {len(inputs)}")
    import onnx

    module = copied(network).cpu().float().eval()
    example = inputs.float().contiguous()
    with _quiet():
        try:
            program = torch.onnx.export(
                module,
                (example[:2].clone(),),
                input_names=[_INPUT],
                output_names=[_OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("rows")},),
                dynamo=True,
                verbose=False,
            )
        except (torch.onnx.OnnxExporterError, RuntimeError) as error:
            raise UsageError(f"{type(network).__name__} cannot be written as ONNX: {_first_line(error)}") from error
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(model, {"weightsmith.card": card_of(network).to_json()})
    write_atomic(Path(path), model.SerializeToString())
    found = _compared(network, Path(path), example, bits=32)
    if not found.difference <= _NEAR * max(found.spread, torch.finfo(torch.float32).tiny):
        raise UsageError(
            f"{path}: onnxruntime gives scores that differ by {found.difference:.2g} from those of the module "
            f"(they vary by {found.spread:.2g}); the file is wrong"
        )
    return found


@torch.no_grad()
def quantise_onnx(network: nn.Module, source: str | Path, path: str | Path, calibration: Tensor) -> OnnxFile:
    """Write ``source``, the file of ``network``, in 8 bits; ranges come from the normalised rows ``calibration``."""
    check_extra()
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Rows(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._blocks = iter(torch.split(calibration.float().contiguous(), _CALIBRATION_BATCH))

        def get_next(self) -> dict[str, Any] | None:
            block = next(self._blocks, None)
            return None if block is None else {_INPUT: block.numpy()}

    with tempfile.TemporaryDirectory(prefix="weightsmith-") as folder, _quiet():
        prepared, written = Path(folder) / "prepared.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(str(source), str(prepared))
        quantize_static(
            str(prepared),
            str(written),
            Rows(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        write_atomic(Path(path), written.read_bytes())
    return _compared(network, Path(path), calibration.float(), bits=8)


def _compared(network: nn.Module, path: Path, inputs: Tensor, *, bits: int) -> OnnxFile:
    expected = outputs_of(copied(network).cpu().float().eval(), inputs.clone())
    given = OnnxNetwork(path).scores(inputs)
    return OnnxFile(
        file=path.name,
        bits=bits,
        bytes=path.stat().st_size,
        rows=len(inputs),
        difference=float((given - expected).abs().max()),
        spread=float((expected - expected.mean(dim=0)).abs().max()),
        agreement=float((given.argmax(dim=1) == expected.argmax(dim=1)).double().mean()),
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporters' own messages; the result is checked instead."""
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "root", "onnxscript", "onnx_ir")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
