"""``weightsmith train DATA --network …``: train a network with live progress, and keep the run in a folder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.chain.linked_options import LINKS
from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, figures_of, write_figures
from weightsmith.cli._training_options import network_of, validation_of, warnings_as_notes
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.cli.training_preview import check_plan, search_rate
from weightsmith.cli.training_view import training_view
from weightsmith.core.errors import UsageError
from weightsmith.training import loop as verb

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.data import Data
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.networks.target_evaluation import RegressionEvaluation
    from weightsmith.training.run import Hook, TrainRun

__all__ = ["train"]

_FILES = ("*.safetensors", "*.json", "*.jsonl", "history.csv", "curves.svg", "gradients.svg")


@takes_options_of(
    verb.train,
    links=[each for each in LINKS["train"] if each.name != "network"],
    examples=(
        "weightsmith train digits --network mlp:40 --epochs 20 --out runs/net",
        "weightsmith train cifar10 --network vgg:11 --schedule cosine:0.1 --augment crop-flip:4 --stop early:5",
    ),
)
def train(
    data: given.DataName,
    options: Options,
    network: given.TrainedNetwork = "mlp:300,100",
    factory: given.Factory = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    figures: given.FiguresOrNone = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="folder for TensorBoard's log", rich_help_panel=given.MORE)
    ] = None,
    find_rate: Annotated[
        bool, typer.Option("--find-rate", help="do not train: sweep the learning rate and suggest one")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="do not train: print the plan of the run, with warnings")
    ] = False,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train a network: live progress, early stopping, gradient diagnosis, and runs that can be resumed.

    Data-parallel: torchrun --nproc-per-node 2 -m weightsmith train …
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.training.distributed import joined

    drawn = figures_of(figures, out_folder, inside="")
    check_writable(None, drawn, out_folder)
    known = load_all(data, path=data_path)
    options["validation"] = share = validation_of(options["validation"], present=known.validation is not None)
    options["network"] = network_of(network, factory)
    watch, preset = options.pop("watch"), options.pop("preset")
    seed, threads = options["seed"], options["threads"]
    with joined() as team:
        silent = quiet or not team.first
        if preset is not None:
            options |= _of_preset(preset, options, silent)
        all_rows = known
        if share is not None:
            known = known.with_validation(share, seed)
        if check or find_rate:
            if team.first and check:
                check_plan(known, options, as_json=as_json)
            elif team.first:
                search_rate(known, options, folder=out_folder, figures=drawn, as_json=as_json)
            return
        watching = _watching(watch, known, seed, threads)
        if not silent:
            for note in known.notes:
                say_note(note)
        # The run splits the rows itself, so that its record holds the split, and it can be resumed from its folder.
        run = _trained(all_rows, options | {"out": out_folder}, watching, tensorboard, quiet, team.first)
        if team.first:
            _finish(run, known, threads, out_folder, drawn, as_json)


def _watching(names: Sequence[str], known: Data, seed: int, threads: int) -> tuple[Hook, ...]:
    """The hooks of grading and reducing after each epoch; only the command line and the chain know all packages."""
    if not names:
        return ()
    from weightsmith.chain.links import watchers

    return watchers(list(names), known, seed=seed, threads=threads)


def _of_preset(name: str, options: dict[str, Any], silent: bool) -> dict[str, Any]:
    """The options with a preset; explicit options take precedence."""
    from weightsmith.training.presets import preset

    if not isinstance(options["network"], str):
        raise UsageError(f"--preset {name} builds a new network and cannot take the file {options['network']}")
    chosen = preset(name, options["network"])
    if not silent:
        for change in chosen.changes:
            say_note(f"{name}: {change}")
    return {
        "network": chosen.architecture,
        "normalise": options["normalise"] or chosen.normalisation,
        "penalties": (*chosen.penalties, *options["penalties"]),
    }


def _trained(
    known: Data, options: Options, watching: tuple[Hook, ...], tensorboard: Path | None, quiet: bool, first: bool
) -> TrainRun:
    from weightsmith.training.tensorboard import TensorBoard

    folder = options["out"]
    board = nullcontext() if tensorboard is None else TensorBoard(tensorboard)
    try:
        with warnings_as_notes(shown=first), board as log, training_view(quiet or not first) as view:
            hooks = (*watching, *view.hooks, *(() if log is None else (log,)))
            return verb.train(data=known, **options, progress=view.progress, hooks=hooks)
    except KeyboardInterrupt:
        kept = f"finished epochs are kept in {folder}: the same command resumes" if folder else "nothing is kept"
        say_note(f"{kept}{'' if folder else ' without --out'}")
        raise


def _finish(run: TrainRun, known: Data, threads: int, folder: Path | None, figures: Path | None, as_json: bool) -> None:
    """Evaluate, write further files of the run, print."""
    from weightsmith.core.records import write_record
    from weightsmith.networks.evaluating import evaluate
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.sections._wording import short_network

    results: dict[str, Evaluation | RegressionEvaluation] = {
        split: evaluate(run.network, known, split=split, threads=threads)
        for split in ("validation", "test")
        if split in known.splits
    }
    if folder is not None and "test" in results:
        write_record(folder / "evaluation.json", results["test"])
    drawn = [] if figures is None or not run.history.rows else _draw(run, figures)
    found = () if folder is None else (path for name in _FILES for path in folder.glob(name))
    files = sorted({*map(str, drawn), *map(str, found)})
    description = describe(run, str(folder or short_network(run.record.settings["network"])), results=results)
    if as_json:
        evaluations = {split: result.to_dict() for split, result in results.items()}
        print_json(
            {"record": run.record.to_dict(), **evaluations, "description": description.to_dict(), "files": files}
        )
    else:
        show(description, [Path(file) for file in files])
    raise_concerns(description)


def _draw(run: TrainRun, target: Path) -> list[Path]:
    from weightsmith.reporting.figures.training import curves, gradient_figure

    figures: dict[str, Callable[[], Figure]] = {"curves": lambda: curves(run.history, best=run.record.best_epoch)}
    if run.gradients is not None:
        figures["gradients"] = functools.partial(gradient_figure, run.gradients)
    return write_figures(target, figures)
