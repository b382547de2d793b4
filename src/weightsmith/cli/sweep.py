"""``weightsmith sweep train DATA --vary …``: train over many settings and seeds, with a table of means and spreads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._row_shares import takes_shares
from weightsmith.cli._training_options import network_of, validation_of
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import help_without_command, print_json, progress_bar, raise_concerns, say_note, show
from weightsmith.core.errors import OptionError
from weightsmith.core.text import read_value, split_items
from weightsmith.core.verbs import declared
from weightsmith.training import sweep as verb
from weightsmith.training.loop import train

if TYPE_CHECKING:
    from weightsmith.core.sweep import SweepTable

__all__ = ["app", "read_vary", "sweep_train"]

app = typer.Typer(help="One command over many settings and seeds.", invoke_without_command=True)
app.callback()(help_without_command)

_OWN = tuple(declared(verb.train_sweep))
_SUMMARISED = ("validation_accuracy", "best_validation_accuracy", "test_accuracy", "epochs")


@app.command("train")
@takes_shares
@takes_options_of(
    verb.train_sweep,
    train,
    without=verb.NOT_VARIED,
    examples=("weightsmith sweep train digits --vary rate=0.1,0.01 --vary width=50,100 --seeds 0-4 --out runs/sweep",),
)
def sweep_train(
    data: given.DataName,
    vary: Annotated[
        list[str],
        typer.Option(
            help="rate=0.1,0.01, width=50,100, depth=1,2, activation=relu,selu, clip=none,norm:1 …: any option of "
            "train, any parameter of the network; may be repeated; put a value with a comma in double quotes"
        ),
    ],
    options: Options,
    network: given.TrainedNetwork = "mlp:50,50",
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train for every combination of the values and every seed; mean and spread over the seeds, CSV and JSON."""
    from weightsmith.core.sweep import grid
    from weightsmith.data.datasets import load_all

    settings = grid(**read_vary(vary))
    known = load_all(data, path=data_path)
    options["validation"] = validation_of(options["validation"], present=known.validation is not None)
    own = {name: options.pop(name) for name in _OWN}
    fixed = {"network": network_of(network), **{name: _as_text(value) for name, value in options.items()}}
    done, total = 0, len(settings) * len(own["seeds"])
    try:
        with progress_bar("sweep", quiet) as progress:

            def callback(_row: dict[str, Any]) -> None:
                nonlocal done
                done += 1
                if progress is not None:
                    progress(done, total)

            journal = None if out_folder is None else out_folder / "journal.jsonl"
            result = verb.train_sweep(data, settings, **own, path=data_path, journal=journal, on_row=callback, **fixed)
    except KeyboardInterrupt:
        kept = (
            "without --out nothing is kept" if out_folder is None else f"{out_folder} keeps them: run again to resume"
        )
        say_note(f"{done} of {total} runs are done; {kept}")
        raise
    _finish(result, data, out_folder, as_json)


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
            raise OptionError(f"--vary {text}: put a value with a comma in double quotes, {name}='\"{quoted}\"'")
        if name in found:
            raise OptionError(f"--vary names {name} twice; give all its values in one")
        read = (read_value(item) for item in plain)
        # "none" is the name of a normalisation, not its absence
        found[name] = tuple("none" if name == "normalise" and value is None else value for value in read)
    return found


def _finish(result: SweepTable, name: str, folder: Path | None, as_json: bool) -> None:
    from weightsmith.core.records import write_record
    from weightsmith.core.storage import write_atomic
    from weightsmith.reporting.describe import describe

    files = [] if folder is None else [folder / "sweep.csv", folder / "record.json"]
    if folder is not None:
        write_atomic(folder / "sweep.csv", result.to_csv())
        write_record(folder / "record.json", result)
    description = describe(result, name)
    if as_json:
        entries = {name: [each.to_dict() for each in result.summary(name)] for name in _SUMMARISED}
        print_json({"table": result.to_dict(), "summaries": entries, "description": description.to_dict()})
    else:
        show(description, files)
    raise_concerns(description)
