"""The options of ``weightsmith spike``, parsed and checked before any work begins."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weightsmith.cli._figure_files import check_writable
from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import FileRefused, UsageError

if TYPE_CHECKING:
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.conversion.calibrate import Calibrate
    from weightsmith.spiking.encoding import Encode
    from weightsmith.spiking.energy.cost import PriceList
    from weightsmith.spiking.l4.adjust import Adjust
    from weightsmith.spiking.neurons import Devices, Neuron
    from weightsmith.spiking.simulation.exits import Exit

__all__ = [
    "ROWS",
    "Asked",
    "Numbers",
    "check_out",
    "read_options",
    "refuse_nir",
    "refuse_spiking",
    "say_if_compiling",
    "share_of",
]

Numbers = Literal["float32", "float64", "int8"]
ROWS = "thresholds are found on training rows, accuracies on test rows"  # why a conversion needs data


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options of a conversion as objects."""

    neuron: Neuron | None
    encode: Encode
    balance: Balance | None
    calibrate: Calibrate | None
    adjust: Adjust | None
    early: Exit | None
    mismatch: Devices | None
    prices: PriceList

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for the verb."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def read_options(
    *,
    neuron: str | None,
    encode: str,
    balance: str | None,
    calibrate: str | None,
    adjust: str | None,
    early: str | None,
    mismatch: str | None,
    prices: str,
) -> Asked:
    """Parse every text form, so that a typing error costs no work."""
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.conversion.calibrate import Calibrate
    from weightsmith.spiking.encoding import Encode
    from weightsmith.spiking.energy.cost import PriceList
    from weightsmith.spiking.l4.adjust import Adjust
    from weightsmith.spiking.neurons import Devices, Neuron
    from weightsmith.spiking.simulation.exits import Exit

    return Asked(
        neuron=None if neuron is None else Neuron.parse(neuron),
        encode=Encode.parse(encode),
        balance=None if balance is None else Balance.parse(balance),
        calibrate=None if calibrate is None else Calibrate.parse(calibrate),
        adjust=None if adjust is None else Adjust.parse(adjust),
        early=None if early is None else Exit.parse(early),
        mismatch=None if mismatch is None else Devices.parse(mismatch),
        prices=PriceList.parse(prices),
    )


def share_of(text: str | None) -> float | None:
    """``30%`` or ``0.3`` as a share."""
    if text is None:
        return None
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"--energy is a share of the network's energy, such as 30% or 0.3, not {text!r}")
    return value / 100 if text.endswith("%") else value


def refuse_spiking(file: Path) -> None:
    """Refuse a network that is spiking already."""
    from weightsmith.spiking.files import is_spiking

    if is_spiking(file):
        raise UsageError(
            f"{file} is a spiking network already: weightsmith evaluate {file} --data NAME runs it, "
            f"weightsmith export {file} NET.nir hands it over"
        )


def refuse_nir(file: Path) -> None:
    """Refuse NIR files: they are HDF5, which readers of weights would take for a Keras network."""
    if file.suffix.lower() == ".nir" and file.is_file():
        raise FileRefused(
            file,
            "a NIR file, which Python reads: ws.save_spiking(ws.import_nir(FILE), 'net.safetensors') makes one "
            "that evaluate, inspect and export take",
        )


def check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the input or another network."""
    from weightsmith.spiking.files import is_spiking

    check_writable(None, figures, folder)
    if folder is None:
        return
    network = folder / "network.safetensors"
    if file.resolve() in (folder.resolve(), network.resolve()):
        raise UsageError(f"--out {folder} is where the network itself is, which is never changed: give another folder")
    if network.exists() and not is_spiking(network):
        raise UsageError(f"--out {folder} holds another network, which would be written over: give another folder")
    if not network.exists() and any((folder / name).exists() for name in ("record.json", "journal.jsonl")):
        raise UsageError(f"--out {folder} holds the results of something else, as of a sweep: give another folder")


def say_if_compiling(quiet: bool) -> None:
    """Say that the first run compiles, which takes a while."""
    from weightsmith.spiking.simulation import _kernels

    folder = _kernels.convolve.stats.cache_path
    if not quiet and folder is not None and not any(Path(folder).glob("_kernels.convolve-*.nbi")):
        say_note("compiling, once on this machine: some 15 seconds")
