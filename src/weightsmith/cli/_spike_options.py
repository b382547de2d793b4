"""Checks of a conversion's network and folders, before any work begins."""

from __future__ import annotations

from pathlib import Path

from weightsmith.cli._figure_files import check_writable
from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import FileRefused, UsageError

__all__ = ["ROWS", "check_out", "refuse_nir", "refuse_spiking", "say_if_compiling"]

ROWS = "thresholds are set on training rows, accuracy is measured on test rows"  # why a conversion needs data


def refuse_spiking(file: Path) -> None:
    """Refuse a network that is spiking already."""
    from weightsmith.spiking.files import is_spiking

    if is_spiking(file):
        raise UsageError(
            f"{file} is a spiking network already: weightsmith evaluate {file} --data NAME runs it, "
            f"weightsmith export {file} NET.nir exports it"
        )


def refuse_nir(file: Path) -> None:
    """Refuse NIR files: they are HDF5, which readers of weights would take for a Keras network."""
    if file.suffix.lower() == ".nir" and file.is_file():
        raise FileRefused(
            file,
            "is a NIR file: convert it in Python by ws.save_spiking(ws.import_nir(FILE), 'net.safetensors'), "
            "which evaluate, inspect and export read",
        )


def check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the input or another network."""
    from weightsmith.spiking.files import is_spiking
    from weightsmith.spiking.spike import holds_other_results

    check_writable(None, figures, folder)
    if folder is None:
        return
    network = folder / "network.safetensors"
    if file.resolve() in (folder.resolve(), network.resolve()):
        raise UsageError(f"--out {folder} holds the input network, which is never overwritten: give another folder")
    if network.exists() and not is_spiking(network):
        raise UsageError(f"--out {folder} holds another network, which would be overwritten: give another folder")
    if not network.exists() and holds_other_results(folder):
        raise UsageError(f"--out {folder} holds other results, such as those of a sweep: give another folder")


def say_if_compiling(quiet: bool) -> None:
    """Say that the first run compiles, which takes a while."""
    from weightsmith.spiking.simulation import _kernels

    folder = _kernels.convolve.stats.cache_path
    if not quiet and folder is not None and not any(Path(folder).glob("_kernels.convolve-*.nbi")):
        say_note("compiling, once on this machine: about 15 seconds")
