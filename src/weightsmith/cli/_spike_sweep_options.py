"""What ``weightsmith spike-sweep`` was asked for, read and checked before any work begins."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

from weightsmith.cli._figure_files import check_places
from weightsmith.cli._training_options import none_or, whole_numbers
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.text import read_value, split_items

__all__ = ["check_out", "numbers", "read_grid", "read_rules"]


def read_grid(*, leaks: str, resets: str, factors: str, smoothings: str, steps: str) -> dict[str, Any]:
    """The values that are swept, as the verb takes them; what no neuron or adjustment can have is refused."""
    from weightsmith.spiking.l4.adjust import L4
    from weightsmith.spiking.neurons import LIF

    grid: dict[str, Any] = {
        "leaks": numbers(leaks, "--leaks"),
        "resets": tuple(_items(resets, "--resets", "soft,hard")),
        "factors": numbers(factors, "--factors"),
        "smoothings": () if none_or(smoothings) is None else numbers(smoothings, "--smoothings"),
        "steps": whole_numbers(steps, "--steps"),
    }
    for leak, reset in itertools.product(grid["leaks"], grid["resets"]):
        LIF.from_values({"leak": leak, "reset": reset})
    for smoothing in grid["smoothings"]:
        L4(smoothing)
    if min(grid["factors"]) <= 0:
        raise OptionError(f"--factors multiply thresholds and must be > 0, not {min(grid['factors']):g}")
    if not grid["steps"] or min(grid["steps"]) < 1:
        raise OptionError(f"--steps takes whole numbers from 1 on, such as 25,50,75, not {steps!r}")
    return grid


def read_rules(*, encode: str, balance: str, race: str) -> dict[str, Any]:
    """Encoding, thresholds and racing as objects."""
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.encoding import Encode
    from weightsmith.spiking.sweep.racing import Race

    return {
        "encode": Encode.parse(encode),
        "balance": Balance.parse(balance),
        "race": None if none_or(race) is None else Race.parse(race),
    }


def numbers(text: str, option: str) -> tuple[float, ...]:
    """``1,0.99`` as numbers that differ; always as floats, so that a sweep begun with ``1`` goes on with ``1.0``.

    >>> numbers("1,0.99", "--leaks")
    (1.0, 0.99)
    """
    values = [read_value(item) for item in _items(text, option, "0.5,1,2")]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise OptionError(f"{option} takes numbers such as 0.5,1,2, not {text!r}")
    found = tuple(float(value) for value in values)
    if not all(map(math.isfinite, found)):
        raise OptionError(f"{option} takes finite numbers, not {text!r}")
    shown = [f"{value:g}" for value in found]  # how settings are told apart
    twice = next((one for place, one in enumerate(shown) if one in shown[:place]), None)
    if twice is not None:
        raise OptionError(f"{option} names {twice} twice in {text!r}")
    return found


def check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Before any work: what is asked for can be written, and not over the record of a network."""
    check_places(None, figures, folder)
    if folder is None:
        return
    if file.resolve() == folder.resolve() or (folder / "network.safetensors").exists():
        raise UsageError(f"--out {folder} is the folder of a network, whose record would be lost: give another folder")


def _items(text: str, option: str, example: str) -> list[str]:
    plain, named = split_items(text, text)
    if named or not plain:
        raise OptionError(f"{option} takes values such as {example}, not {text!r}")
    return plain
