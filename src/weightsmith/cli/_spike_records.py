"""Defaults from the record of a network: its data set, its number of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import unsealed

__all__ = ["data_of", "nearby_settings", "recorded_data", "steps_of"]

_MOST_RECORD = 100_000_000  # bytes; the record of a training run has thousands
_USUAL_STEPS = 64


def nearby_settings(file: Path) -> dict[str, Any]:
    """The settings in the record of the result folder, which is ``file`` or its parent; else empty."""
    from weightsmith.networks.readers.ranges import read_json

    record = (file.parent if file.name == "network.safetensors" else file) / "record.json"
    content = None
    if record.is_file() and record.stat().st_size <= _MOST_RECORD:
        content = read_json(record, record.read_bytes(), "the record")
        try:
            content = unsealed(content)
        except UsageError as error:
            raise FileRefused(record, str(error)) from error
    settings = content.get("settings") if isinstance(content, dict) else None
    return settings if isinstance(settings, dict) else {}


def data_of(file: Path, named: str | None, quiet: bool, *, what_for: str) -> str:
    """The given data, or those named in the record of ``file``; ``what_for`` explains the need for data."""
    if named is not None:
        return _checked(named)
    from weightsmith.data.catalogue import CATALOGUE
    from weightsmith.data.datasets import source_of
    from weightsmith.networks.weights import open_weights

    found = nearby_settings(file).get("data")
    source = source_of(found) if isinstance(found, str) else None
    if not isinstance(found, str) or (found not in CATALOGUE and source is None):
        open_weights(file)  # report a wrong path first, not missing data
        raise UsageError(
            f"--data is missing: {what_for} (a data set by name, folder:PATH, table:PATH or parquet:PATH; "
            "a result folder names its data, unless it was made from arrays in Python)"
        )
    if source is not None and not Path(source.path).expanduser().exists():
        raise UsageError(
            f"the record of {file} names the data {found}, which is not in {Path.cwd()}: give the path with --data"
        )
    if not quiet:
        say_note(f"data: {found}, as in the record of {file}")
    return found


def recorded_data(file: Path) -> str | None:
    """The data named in the record of ``file``, if they are a known set or their path exists; else None."""
    from weightsmith.data.catalogue import CATALOGUE
    from weightsmith.data.datasets import source_of

    found = nearby_settings(file).get("data")
    source = source_of(found) if isinstance(found, str) else None
    here = source is not None and Path(source.path).expanduser().exists()
    return found if isinstance(found, str) and (found in CATALOGUE or here) else None


def _checked(named: str) -> str:
    """Check a data set's name, with a separate message for a path."""
    path = Path(named)
    if ":" not in named and (path.name != named or path.suffix) and not path.exists():
        raise FileRefused(named, "no such file or folder (--data; weightsmith data list shows data sets with names)")
    return named


def steps_of(file: Path, asked: int | None, quiet: bool) -> int:
    """The given steps, or those of the network's record, or 64."""
    if asked is not None:
        return asked
    settings = nearby_settings(file)
    found = settings.get("steps")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        return _USUAL_STEPS
    if not quiet:
        left_out = [f"--{name} {settings[name]}" for name in ("early", "settle") if settings.get(name)]
        without = f", here without {' and '.join(left_out)}" if left_out else ""
        say_note(f"steps: {found}, as in the record of {file}{without}")
    return found
