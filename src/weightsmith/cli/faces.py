"""``weightsmith faces IMAGES --out table.csv``: extract a table of features with a class per row from photographs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import Attention, count_text, out, print_json, progress_bar, say_note, table
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from weightsmith.data.faces.describe import FaceFeatures

__all__ = ["faces"]

_TABLE, _ARCHIVE = ".csv", ".npz"


def faces(
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", readable=False, help="A folder of images, one subfolder per class.")
    ],
    out_files: Annotated[
        list[Path],
        typer.Option(
            "--out", help="table.csv: principal components; faces.npz: the full descriptors, for folds. Repeatable."
        ),
    ],
    test: Annotated[
        float,
        typer.Option(min=0, max=0.99, help="Share of rows held out for the test, unless folders are train and test."),
    ] = 0.2,
    seed: given.Seed = 0,
    components: Annotated[str, typer.Option(help="Principal components of LPQ and of PHOG.")] = "5,5",
    size: Annotated[int, typer.Option(min=1, help="Pixels along each side of the cropped face.")] = 128,
    lpq: Annotated[str, typer.Option(help="Blocks, window and decorrelation of LPQ, as lpq:window=5.")] = "lpq",
    phog: Annotated[str, typer.Option(help="Levels, bins, sign and edges of PHOG, as phog:edges=false.")] = "phog",
    crops: Annotated[Path | None, typer.Option(help="Folder for the cropped faces, for inspection.")] = None,
    workers: given.Workers = 1,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Find the largest face in each image (Viola–Jones) and describe it by LPQ and PHOG.

    Components are fitted on the training rows alone. Images without a face are listed and left out: exit code 1.
    """
    from weightsmith.data.faces.describe import describe_faces

    counts = _counts(components)
    _check_files(out_files)
    with progress_bar("faces", quiet) as progress:
        features = describe_faces(
            images, size=size, lpq=lpq, phog=phog, crops=crops, workers=workers, progress=progress
        )
    if not quiet:
        for note in features.notes:
            say_note(note)
    splits = features.divided(test, seed)
    _write(features, splits, counts, out_files)
    summary = _summary(features, splits, counts, out_files)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
    if features.left_out:
        total = len(features) + len(features.left_out)
        raise Attention(f"{len(features.left_out)} of {total} images were left out, for the reasons listed")


def _counts(text: str) -> tuple[int, int]:
    numbers = [part.strip() for part in text.split(",")]
    if len(numbers) != 2 or not all(number.isdigit() for number in numbers) or not any(map(int, numbers)):
        raise UsageError(f"--components takes two numbers, for LPQ and for PHOG, such as 5,5, not {text!r}")
    return int(numbers[0]), int(numbers[1])


def _check_files(files: list[Path]) -> None:
    """Check before the work that every file can be written."""
    for file in files:
        if file.suffix.lower() not in (_TABLE, _ARCHIVE):
            raise UsageError(
                f"--out {file}: give a {_TABLE} file for the table or a {_ARCHIVE} file for the descriptors"
            )
        if file.is_dir():
            raise UsageError(f"--out {file}: is a folder, not a file")


def _write(features: FaceFeatures, splits: tuple[str, ...], counts: tuple[int, int], files: list[Path]) -> None:
    """Write the descriptors first: they are expensive, and a table can still fail for lack of training rows."""
    from weightsmith.core.storage import write_atomic
    from weightsmith.data.faces.describe import face_table

    for file in sorted(files, key=lambda file: file.suffix.lower() == _TABLE):
        if file.suffix.lower() == _ARCHIVE:
            features.save(file)
        else:
            write_atomic(file, face_table(features, splits, *counts))


def _summary(
    features: FaceFeatures, splits: tuple[str, ...], counts: tuple[int, int], files: list[Path]
) -> dict[str, Any]:
    """The result as JSON values."""
    as_table = any(file.suffix.lower() == _TABLE for file in files)
    summary: dict[str, Any] = {
        "faces": len(features),
        "recipe": features.recipe,
        "classes": {name: int((features.labels == number).sum()) for number, name in enumerate(features.classes)},
        "left_out": [{"path": path, "reason": reason} for path, reason in features.left_out],
        "files": [str(file) for file in files],
    }
    if as_table:
        fits = features.fitted([split == "train" for split in splits], *counts)
        summary["splits"] = {split: splits.count(split) for split in dict.fromkeys(sorted(splits, reverse=True))}
        summary["variance"] = dict(zip(("lpq", "phog"), (fit.shares.tolist() for fit in fits), strict=True))
    return summary


def _show(summary: dict[str, Any]) -> None:
    console = out()
    console.print(f"[bold]{count_text(summary['faces'])} faces[/bold]  {escape(summary['recipe'])}")
    console.print(f"classes     {escape(', '.join(f'{name} {count}' for name, count in summary['classes'].items()))}")
    if "variance" in summary:
        console.print(f"rows        {', '.join(f'{name} {count}' for name, count in summary['splits'].items())}")
        parts = [
            f"{len(s)} of {name.upper()} explain {100 * sum(s):.1f} %" for name, s in summary["variance"].items() if s
        ]
        console.print(f"components  {', '.join(parts)} of the variance of the training rows")
    console.print(f"files       {escape(', '.join(summary['files']))}")
    if summary["left_out"]:
        rows = table("left out", "reason")
        for one in summary["left_out"]:
            rows.add_row(escape(one["path"]), escape(one["reason"]))
        console.print(rows)
