"""``weightsmith train DATA --network …``: train a network with live progress, and keep the run in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _training_options as given
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.cli.training_preview import check_plan, search_rate
from weightsmith.cli.training_view import training_view
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from weightsmith.data import Data
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.training.run import Hook, TrainRun

__all__ = ["train"]

_FILES = ("*.safetensors", "*.json", "*.jsonl", "history.csv", "curves.svg", "gradients.svg")


def train(
    data: given.DataName,
    network: given.Network = "mlp:300,100",
    optimiser: given.OptimiserName = "momentum",
    schedule: given.ScheduleName = None,
    clip: given.Clipping = None,
    stop: given.Stopping = None,
    penalty: given.Penalties = None,
    loss: given.LossName = "cross-entropy",
    augment: given.Augmentation = None,
    batch: given.Batch = 32,
    epochs: given.Epochs = 10,
    validation: given.Validation = None,
    normalise: given.Normalise = None,
    preset: Annotated[
        str | None, typer.Option(help="Settings that belong together: spike-ready prepares for conversion.")
    ] = None,
    seed: given.Seed = 0,
    device: given.Device = "cpu",
    threads: given.Threads = 1,
    keep: Annotated[
        str | None, typer.Option(help="Epochs whose weights are kept, as 0,5 (0: before training).")
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option(help="After each epoch: alpha (of every layer), angles (share of redundant units), or both."),
    ] = None,
    data_path: given.DataPath = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the run; the same command again goes on in it.")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw curves.svg and gradients.svg into the folder.")] = True,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard's log.")] = None,
    find_rate: Annotated[
        bool, typer.Option("--find-rate", help="Do not train: sweep the rate and show which ones learn.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Do not train: show what would be done, and what looks wrong with it.")
    ] = False,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train a network: live progress, early stopping, gradient diagnosis, and a run that goes on where it was stopped.

    Data-parallel: torchrun --nproc-per-node 2 -m weightsmith train …
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.training.distributed import joined

    known = load_all(data, path=data_path)
    share = given.validation_of(validation, present=known.validation is not None)
    options: dict[str, Any] = {
        "network": given.network_of(network),
        "optimiser": optimiser,
        "schedule": given.none_or(schedule),
        "clip": given.none_or(clip),
        "stop": given.none_or(stop),
        "penalties": tuple(penalty or ()),
        "loss": loss,
        "augment": given.none_or(augment),
        "batch": batch,
        "epochs": epochs,
        "normalise": normalise,
        "seed": seed,
        "device": device,
    }
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
                search_rate(known, options, threads=threads, folder=out_folder, figures=figures, as_json=as_json)
            return
        kept = given.whole_numbers(keep, "--keep")
        watching = _watching(watch or (), known, seed, threads)
        if not silent:
            for note in known.notes:
                say_note(note)
        # The run splits the rows itself, so that its record holds the split, and it can be resumed from its folder.
        options["validation"] = share
        run = _trained(all_rows, options, threads, out_folder, kept, watching, tensorboard, silent)
        if team.first:
            _finish(run, known, threads, out_folder, figures, as_json)


def _watching(names: Sequence[str], known: Data, seed: int, threads: int) -> tuple[Hook, ...]:
    """The hooks of grading and reducing after each epoch; only the command line and the chain know all packages."""
    asked = [name.strip() for text in names for name in text.split(",") if name.strip()]
    if not asked:
        return ()
    from weightsmith.chain.links import watchers

    return watchers(asked, known, seed=seed, threads=threads)


def _of_preset(name: str, options: dict[str, Any], silent: bool) -> dict[str, Any]:
    """The options with a preset; explicit options take precedence."""
    from weightsmith.training.presets import preset

    if isinstance(options["network"], Path):
        raise UsageError(f"--preset {name} builds a network anew and cannot take the file {options['network']}")
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
    known: Data,
    options: dict[str, Any],
    threads: int,
    folder: Path | None,
    keep: tuple[int, ...],
    watching: tuple[Hook, ...],
    tensorboard: Path | None,
    silent: bool,
) -> TrainRun:
    from weightsmith.training.loop import train as run
    from weightsmith.training.tensorboard import TensorBoard

    board = nullcontext() if tensorboard is None else TensorBoard(tensorboard)
    try:
        with given.warnings_as_notes(silent), board as log, training_view(silent) as view:
            return run(
                data=known,
                **options,
                threads=threads,
                out=folder,
                keep=keep,
                progress=view.progress,
                hooks=(*watching, *view.hooks, *(() if log is None else (log,))),
            )
    except KeyboardInterrupt:
        kept = f"the epochs done are kept in {folder}: the same command goes on" if folder else "nothing is kept"
        say_note(f"{kept}{'' if folder else ' without --out'}")
        raise


def _finish(run: TrainRun, known: Data, threads: int, folder: Path | None, figures: bool, as_json: bool) -> None:
    """Evaluate, write further files of the run, print."""
    from weightsmith.core.storage import write_atomic
    from weightsmith.networks.evaluation import evaluate
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.sections._wording import short_network

    results: dict[str, Evaluation] = {
        split: evaluate(run.network, known, split=split, threads=threads)
        for split in ("validation", "test")
        if split in known.splits
    }
    if folder is not None:
        if "test" in results:
            write_atomic(folder / "evaluation.json", results["test"].to_json(indent=1) + "\n")
        if figures and run.history.rows:
            _draw(run, folder)
    files = [] if folder is None else sorted({str(path) for name in _FILES for path in folder.glob(name)})
    description = describe(run, str(folder or short_network(run.record.settings["network"])), results=results)
    if as_json:
        evaluations = {split: result.to_dict() for split, result in results.items()}
        print_json(
            {"record": run.record.to_dict(), **evaluations, "description": description.to_dict(), "files": files}
        )
    else:
        show(description, [Path(file) for file in files])
    raise_concerns(description)


def _draw(run: TrainRun, folder: Path) -> None:
    from weightsmith.reporting.figures.training import curves, gradient_figure, save_figure

    save_figure(curves(run.history, best=run.record.best_epoch), folder / "curves.svg")
    if run.gradients is not None:
        save_figure(gradient_figure(run.gradients), folder / "gradients.svg")
