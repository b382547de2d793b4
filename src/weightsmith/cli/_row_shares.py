"""``--test``, ``--validation``, ``--split-by`` and ``--task`` of every command that takes data: options of the source.

``--data rows.csv --test 0.2 --split-by subject`` is ``--data table:rows.csv,test=0.2,split_by=subject``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from weightsmith.cli._verb_options import MORE, flag_of
from weightsmith.core.errors import UsageError

__all__ = ["takes_shares", "with_shares"]


def _share(split: str) -> Any:
    text = f"share of the training rows of a folder or table for the {split} split, such as 0.2; always the same rows"
    return Annotated[float | None, typer.Option(f"--{split}", help=text, rich_help_panel=MORE)]


_SHARES = {
    "test": _share("test"),
    "validation": _share("validation"),
    "split_by": Annotated[
        str | None,
        typer.Option(
            "--split-by",
            metavar="COLUMN",
            help="a table column such as subject: rows with the same value stay together in splits and folds",
            rich_help_panel=MORE,
        ),
    ],
    "task": Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="task of a table: classification, binary, multi-label, regression; default: inferred from the cells",
            rich_help_panel=MORE,
        ),
    ],
}


def takes_shares(command: Callable[..., None], *, of_data: str = "data") -> Callable[..., None]:
    """Add these options to a command that takes data, unless it has them; their values are added to its data."""
    signature = inspect.signature(command, eval_str=True)
    if of_data not in signature.parameters:
        return command
    added = {name: kind for name, kind in _SHARES.items() if name not in signature.parameters}
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    shown = [
        *own,
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in added.items()
        ),
    ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        asked = {name: given for name in added if (given := values.pop(name)) is not None}
        if asked:
            values[of_data] = with_shares(values[of_data], asked)
        command(**values)

    run.__dict__.update(
        __signature__=inspect.Signature(shown), __annotations__={each.name: each.annotation for each in shown}
    )
    return run


def with_shares(data: str | None, asked: dict[str, Any]) -> str:
    """The text form of the data with these options."""
    from weightsmith.data.datasets import source_of

    flags = ", ".join(map(flag_of, asked))
    if data is None:
        raise UsageError(f"{flags} belongs to --data, which is not given")
    source = source_of(data)
    if source is None:
        raise UsageError(f"{data} comes with its own splits; {flags} is for your own data (folder, table, parquet)")
    written = {key: value for key, value in source.to_dict().items() if key != "name"}
    twice = [
        name
        for name in asked
        if name in written and written[name] not in (0.0, "", "auto") and written[name] != asked[name]
    ]
    if twice:
        raise UsageError(f"{flag_of(twice[0])} {asked[twice[0]]} and {source}: give it once")
    unknown = [name for name in asked if name not in written]
    if unknown:
        raise UsageError(f"{flag_of(unknown[0])} is for tables; {source} is a {source.name}")
    return str(type(source).from_values(written | asked))
