"""What ``weightsmith spike`` was asked for, read and checked before any work begins."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weightsmith.cli._figure_files import check_places
from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from weightsmith.spiking.adjust import Adjust
    from weightsmith.spiking.balance import Balance
    from weightsmith.spiking.encoding import Encode
    from weightsmith.spiking.energy import PriceList
    from weightsmith.spiking.exits import Exit
    from weightsmith.spiking.neurons import Devices, Neuron

__all__ = ["Asked", "Numbers", "check_out", "data_of", "read_options", "refuse_spiking", "say_if_compiling"]

Numbers = Literal["float32", "float64", "int8"]

_MOST_RECORD = 100_000_000  # bytes; that of a training run has thousands


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options of a conversion as objects."""

    neuron: Neuron
    encode: Encode
    balance: Balance
    adjust: Adjust | None
    early: Exit | None
    mismatch: Devices | None
    prices: PriceList

    def keywords(self) -> dict[str, Any]:
        """As the verb takes them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def read_options(
    *,
    neuron: str,
    encode: str,
    balance: str,
    adjust: str | None,
    early: str | None,
    mismatch: str | None,
    prices: str,
) -> Asked:
    """Every text form as the object it describes: a typing error must not cost the work before it."""
    from weightsmith.spiking.adjust import Adjust
    from weightsmith.spiking.balance import Balance
    from weightsmith.spiking.encoding import Encode
    from weightsmith.spiking.energy import PriceList
    from weightsmith.spiking.exits import Exit
    from weightsmith.spiking.neurons import Devices, Neuron

    return Asked(
        neuron=Neuron.parse(neuron),
        encode=Encode.parse(encode),
        balance=Balance.parse(balance),
        adjust=None if adjust is None else Adjust.parse(adjust),
        early=None if early is None else Exit.parse(early),
        mismatch=None if mismatch is None else Devices.parse(mismatch),
        prices=PriceList.parse(prices),
    )


def refuse_spiking(file: Path) -> None:
    """What spikes already cannot be converted again."""
    from weightsmith.spiking.files import is_spiking

    if is_spiking(file):
        raise UsageError(
            f"{file} is a spiking network already: weightsmith evaluate {file} --data NAME runs it, "
            f"weightsmith export {file} NET.nir hands it over"
        )


def check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Before any work: what is asked for can be written, and not over the network that comes in or another one."""
    from weightsmith.spiking.files import is_spiking

    check_places(None, figures, folder)
    if folder is None:
        return
    network = folder / "network.safetensors"
    if file.resolve() in (folder.resolve(), network.resolve()):
        raise UsageError(f"--out {folder} is where the network itself is, which is never changed: give another folder")
    if network.exists() and not is_spiking(network):
        raise UsageError(f"--out {folder} holds another network, which would be written over: give another folder")


def data_of(file: Path, named: str | None, quiet: bool) -> str:
    """The data set asked for, or the known one that the training run in the folder of ``file`` names."""
    if named is not None:
        return named
    from weightsmith.data.catalogue import CATALOGUE
    from weightsmith.networks.readers.ranges import read_json

    record = (file.parent if file.name == "network.safetensors" else file) / "record.json"
    content = None
    if record.is_file() and record.stat().st_size <= _MOST_RECORD:
        content = read_json(record, record.read_bytes(), "the record")
    settings = content.get("settings") if isinstance(content, dict) else None
    found = settings.get("data") if isinstance(settings, dict) else None
    if not isinstance(found, str) or found not in CATALOGUE:
        raise UsageError(
            "--data is missing: thresholds are found on training rows, accuracies on test rows "
            "(a data set by name, folder:PATH or table:PATH; only the folder of a training run tells it by itself)"
        )
    if not quiet:
        say_note(f"data: {found}, on which the network was trained")
    return found


def say_if_compiling(quiet: bool) -> None:
    """Say that the first run compiles, which takes a while."""
    from weightsmith.spiking import _kernels

    folder = _kernels.convolve.stats.cache_path
    if not quiet and folder is not None and not any(Path(folder).glob("_kernels.convolve-*.nbi")):
        say_note("compiling, once on this machine: some 15 seconds")
