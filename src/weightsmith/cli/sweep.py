"""``weightsmith sweep train DATA --vary …``: train over many settings and seeds, with a table of means and spreads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._row_shares import takes_shares
from weightsmith.cli._training_options import network_of, seeds_of, validation_of
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import Attention, help_without_command, out, print_json, progress_bar, say_note, table
from weightsmith.core.errors import OptionError
from weightsmith.core.text import read_value, split_items
from weightsmith.training import loop as verb

if TYPE_CHECKING:
    from weightsmith.core.sweep import SweepSummary, SweepTable

__all__ = ["app", "read_vary", "sweep_train"]

app = typer.Typer(help="One command over many settings and seeds.", invoke_without_command=True)
app.callback()(help_without_command)

_SUMMARISED = ("validation_accuracy", "best_validation_accuracy", "test_accuracy", "epochs")


_OPTIONS = (
    *("optimiser", "schedule", "clip", "stop", "penalties", "loss", "augment", "batch", "epochs", "validation"),
    *("normalise", "device"),
)


@app.command("train")
@takes_shares
@takes_options_of(verb.train, only=_OPTIONS)
def sweep_train(
    data: given.DataName,
    vary: Annotated[
        list[str],
        typer.Option(
            help="rate=0.1,0.01, width=50,100, depth=1,2, activation=relu,selu, clip=none,norm:1 …: any option of "
            "train, any parameter of the network; may be repeated; a value with a comma stands in double quotes"
        ),
    ],
    options: Options,
    network: given.TrainedNetwork = "mlp:50,50",
    seeds: given.Seeds = "0,1,2",
    workers: given.Workers = 1,
    cluster: Annotated[
        str | None, typer.Option(help="address of a Dask scheduler to run on instead", rich_help_panel=given.MORE)
    ] = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train for every combination of the values and every seed; mean and spread over the seeds, CSV and JSON."""
    from weightsmith.core.sweep import grid
    from weightsmith.data.datasets import load_all
    from weightsmith.training.sweeping import train_sweep

    settings, numbers = grid(**read_vary(vary)), seeds_of(seeds)
    known = load_all(data, path=data_path)
    options["validation"] = validation_of(options["validation"], present=known.validation is not None)
    fixed = {"network": network_of(network), **{name: _as_text(value) for name, value in options.items()}}
    done, total = 0, len(settings) * len(numbers)
    try:
        with progress_bar("sweep", quiet) as progress:

            def callback(_row: dict[str, Any]) -> None:
                nonlocal done
                done += 1
                if progress is not None:
                    progress(done, total)

            result = train_sweep(
                data,
                settings,
                seeds=numbers,
                path=data_path,
                journal=None if out_folder is None else out_folder / "journal.jsonl",
                workers=workers,
                cluster=cluster,
                on_row=callback,
                **fixed,
            )
    except KeyboardInterrupt:
        kept = "without --out nothing is kept" if out_folder is None else f"{out_folder} keeps them: repeat to go on"
        say_note(f"{done} of {total} runs are done; {kept}")
        raise
    _finish(result, out_folder, as_json)


def _as_text(value: Any) -> Any:
    """Options in their text form, as the journal and other processes take them."""
    if isinstance(value, tuple):
        return tuple(map(_as_text, value))
    return value if isinstance(value, int | float | None) else str(value)


def read_vary(several: list[str]) -> dict[str, tuple[Any, ...]]:
    """``["rate=0.1,0.01", "clip=none,norm:1"]`` as names and values; ``none`` is None.

    >>> read_vary(["rate=0.1,0.01", "clip=none,norm:1", 'schedule="power:0.1,20",cosine:0.1'])
    {'rate': (0.1, 0.01), 'clip': (None, 'norm:1'), 'schedule': ('power:0.1,20', 'cosine:0.1')}
    """
    found: dict[str, tuple[Any, ...]] = {}
    for text in several:
        name, equals, values = (part.strip() for part in text.partition("="))
        plain, named = split_items(values, text)
        if not equals or not name or not plain:
            raise OptionError(f"--vary {text}: write a name and its values, such as rate=0.1,0.01")
        if named:
            quoted = f"{plain[-1]},{named[0][0]}={named[0][1]}"
            raise OptionError(f"--vary {text}: a value with a comma stands in double quotes, {name}='\"{quoted}\"'")
        if name in found:
            raise OptionError(f"--vary names {name} twice; write all its values in one")
        read = (read_value(item) for item in plain)
        # "none" is the name of a normalisation, not its absence
        found[name] = tuple("none" if name == "normalise" and value is None else value for value in read)
    return found


def _finish(result: SweepTable, folder: Path | None, as_json: bool) -> None:
    from weightsmith.core.storage import write_atomic

    summaries = {name: result.summary(name) for name in _SUMMARISED}
    if folder is not None:
        write_atomic(folder / "sweep.csv", result.to_csv())
        write_atomic(folder / "record.json", result.to_json(indent=1) + "\n")
    if as_json:
        entries = {name: [each.to_dict() for each in several] for name, several in summaries.items()}
        print_json({"table": result.to_dict(), "summaries": entries})
    else:
        _show(result, summaries)
        if folder is not None:
            out().print(f"files  {escape(', '.join(str(folder / name) for name in ('sweep.csv', 'record.json')))}")
    if all(row["stopped"] == "diverged" for row in result.rows):
        raise Attention("every run diverged: vary lower rates, or look with weightsmith train … --find-rate")


def _show(result: SweepTable, summaries: dict[str, tuple[SweepSummary, ...]]) -> None:
    heads = ("validation", "best epoch", "test", "epochs")
    rows = table(*result.names, *heads, "", numbers=heads)
    accuracies = [each.mean for each in summaries["validation_accuracy"]]
    best = max((mean for mean in accuracies if mean is not None), default=None)
    unhealthy = _unhealthy(result)
    for index, first in enumerate(summaries["validation_accuracy"]):
        cells = [_spread(summaries[name][index]) for name in _SUMMARISED[:3]]
        remarks = ["← best"] if best is not None and first.mean == best else []
        remarks += unhealthy[index]
        setting = [escape("none" if value is None else str(value)) for value in first.setting.values()]
        rows.add_row(*setting, *cells, f"{summaries['epochs'][index].mean:.3g}", ", ".join(remarks))
    out().print(rows)
    seeds = len({row["seed"] for row in result.rows})
    over = f"{seeds} seeds: mean ± standard deviation" if seeds > 1 else "1 seed"
    out().print(f"{over}; validation after the last epoch and in the best one, test with the weights at the end")


def _spread(summary: SweepSummary) -> str:
    if summary.mean is None:
        return "–"
    spread = "" if summary.deviation is None else f" ± {100 * summary.deviation:.2f}"
    return f"{100 * summary.mean:.2f}{spread} %"


def _unhealthy(result: SweepTable) -> list[list[str]]:
    """Problems per setting with the number of runs: diverged, or unhealthy gradients."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in result.rows:
        groups.setdefault(tuple(repr(row[name]) for name in result.names), []).append(row)
    found = []
    for rows in groups.values():
        words = [row["stopped"] if row["stopped"] == "diverged" else row["gradients"] for row in rows]
        wrong = dict.fromkeys(word for word in words if word not in (None, "healthy", "frozen"))
        found.append([f"{words.count(word)} of {len(rows)} {word}" for word in wrong])
    return found
