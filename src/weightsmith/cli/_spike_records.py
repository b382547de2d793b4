"""What the record beside a network tells of itself, so that nobody has to say it again: the data, the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import FileRefused, UsageError

__all__ = ["data_of", "settings_beside", "steps_of"]

_MOST_RECORD = 100_000_000  # bytes; that of a training run has thousands
_USUAL_STEPS = 64


def settings_beside(file: Path) -> dict[str, Any]:
    """The settings in the record of the result folder that ``file`` is, or whose network it is; else none."""
    from weightsmith.networks.readers.ranges import read_json

    record = (file.parent if file.name == "network.safetensors" else file) / "record.json"
    content = None
    if record.is_file() and record.stat().st_size <= _MOST_RECORD:
        content = read_json(record, record.read_bytes(), "the record")
    settings = content.get("settings") if isinstance(content, dict) else None
    return settings if isinstance(settings, dict) else {}


def data_of(file: Path, named: str | None, quiet: bool, *, what_for: str) -> str:
    """The data set asked for, or the known one that the record beside ``file`` names; ``what_for`` it is needed."""
    if named is not None:
        return _checked(named)
    from weightsmith.data.catalogue import CATALOGUE
    from weightsmith.networks.weights import open_weights

    found = settings_beside(file).get("data")
    if not isinstance(found, str) or found not in CATALOGUE:
        open_weights(file)  # a path that is wrong is what must be told, not data that nobody misses yet
        raise UsageError(
            f"--data is missing: {what_for} (a data set by name, folder:PATH or table:PATH; "
            "only the folder of a run on a known data set tells it by itself)"
        )
    if not quiet:
        say_note(f"data: {found}, as in the record of {file}")
    return found


def _checked(named: str) -> str:
    """A path must not be told as a data set that nobody knows."""
    path = Path(named)
    if ":" not in named and (path.name != named or path.suffix) and not path.exists():
        raise FileRefused(named, "no such file or folder (--data; weightsmith data list shows data sets with names)")
    return named


def steps_of(file: Path, asked: int | None, quiet: bool) -> int:
    """The steps asked for, or those after which the network was judged when it was made, or 64."""
    if asked is not None:
        return asked
    settings = settings_beside(file)
    found = settings.get("steps")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        return _USUAL_STEPS
    if not quiet:
        left_out = [f"--{name} {settings[name]}" for name in ("early", "settle") if settings.get(name)]
        without = f", here without {' and '.join(left_out)}" if left_out else ""
        say_note(f"steps: {found}, as in the record of {file}{without}")
    return found
