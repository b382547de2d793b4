"""``weightsmith study DATA --by angles:45 …``: compare methods of reduction over folds, sizes and repeats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, write_figures
from weightsmith.cli._training_options import whole_numbers
from weightsmith.cli.terminal import out, print_json, progress_bar, say_note, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.core.statistics import Comparison
    from weightsmith.reducing.study_table import Study, StudySummary

__all__ = ["compared", "study", "study_figures"]

_HEADS = ("hidden", "units", "test %", "train %", "− whole", "− random", "− scratch")


def study(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A data set by name, a table (.csv, .xlsx), or faces.npz (see faces)."),
    ],
    hidden: Annotated[str, typer.Option(help="Hidden units of the networks that are trained.")] = "20,50,100",
    by: Annotated[
        list[str] | None,
        typer.Option(help="angles:45, groups:15, genetic:50, pareto …; repeatable. Without it, the paper's four."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", "--lr", help="Learning rate of Adam.")] = 0.01,
    epochs: Annotated[int, typer.Option(min=1, help="passes over the training rows")] = 300,
    batch: Annotated[int, typer.Option(min=1, help="rows per step of training")] = 32,
    folds: Annotated[int, typer.Option(min=2, help="Parts that each are the test rows once.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Divisions into folds, each another one.")] = 5,
    scaling: Annotated[
        str, typer.Option(help="zscore, minmax, rowl2 or none; fitted on the training rows of each fold.")
    ] = "zscore",
    activation: Annotated[str, typer.Option(help="Of the hidden units.")] = "sigmoid",
    seed: given.Seed = 0,
    random: Annotated[int, typer.Option(min=0, help="Random masks of equal size beside each result.")] = 10,
    scratch: Annotated[bool, typer.Option(help="Train a network of the reduced size beside each result.")] = True,
    workers: given.Workers = 1,
    out_folder: given.Out = None,
    figures: given.Figures = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train networks over folds, reduce each by every method, and test what it cost.

    Accuracies are means ± standard deviation over folds. A difference is the method's test accuracy minus that of the
    whole network, of random masks of equal size, or of a network of that size trained from scratch, with p of the
    corrected resampled t-test (Nadeau and Bengio).
    """
    from weightsmith.papers.study.study import METHODS, reduction_study

    check_writable(None, figures, out_folder)
    done = (0, 0)
    try:
        with progress_bar("study", quiet) as progress:

            def callback(finished: int, total: int) -> None:
                nonlocal done
                done = (finished, total)
                if progress is not None:
                    progress(finished, total)

            result = reduction_study(
                data,
                hidden=whole_numbers(hidden, "--hidden"),
                methods=by or METHODS,
                rate=rate,
                epochs=epochs,
                batch=batch,
                folds=folds,
                repeats=repeats,
                scaling=scaling,
                activation=activation,
                seed=seed,
                random=random,
                scratch=scratch,
                workers=workers,
                out=out_folder,
                progress=callback,
            )
    except KeyboardInterrupt:
        kept = "without --out nothing is kept" if out_folder is None else f"{out_folder} keeps them: repeat to go on"
        say_note(f"{done[0]} of {done[1]} groups of networks are done; {kept}" if done[1] else kept)
        raise
    files = [] if out_folder is None else [out_folder / "study.json", out_folder / "study.csv"]
    if figures is not None:
        files += write_figures(figures, study_figures(result))
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result, files, quiet)


def _show(result: Study, files: list[Path], quiet: bool) -> None:
    console, settings = out(), result.settings
    if not quiet:
        for note in result.notes:
            say_note(note)
    console.print(
        f"[bold]{escape(result.data)}[/bold]  {result.rows_of_data:,} rows, {result.features} features, "
        f"{len(result.classes)} classes; scaling [bold]{settings['scaling']}[/bold], fitted on training rows"
    )
    console.print(
        f"{settings['activation']} units, Adam at {settings['rate']:g}, batches of {settings['batch']}, "
        f"{settings['epochs']} epochs, {settings['folds']} folds × {settings['repeats']}, seed {settings['seed']}"
    )
    rows = table("method", *_HEADS, numbers=_HEADS)
    for found in result.summaries:
        rows.add_row(escape(found.method), *_cells(found))
    console.print(rows)
    if result.slopes:
        sizes = table("method", "final by initial size", numbers=("final by initial size",))
        for each in result.slopes:
            sizes.add_row(escape(each.method), f"{each.slope:z.2f} ± {each.deviation:.2f}")
        console.print(sizes)
        console.print("slope of log(units) by log(hidden): 0 always the same size, 1 always the same share")
    tests = sum(found.against_whole is not None for found in result.summaries)
    console.print(
        "means ± standard deviation over folds; differences in points, p of the corrected resampled t-test, "
        f"each for itself ({tests} methods and sizes; at 0.05, {0.05 * tests:.2g} of them fall below by chance alone)"
    )
    if files:
        console.print(f"files  {escape(', '.join(map(str, files)))}")


def _cells(found: StudySummary) -> list[str]:
    return [
        str(found.hidden),
        f"{found.units:.1f} ± {found.units_deviation:.1f}",
        f"{found.test_accuracy:.1f} ± {found.test_deviation:.1f}",
        f"{found.train_accuracy:.1f}",
        compared(found.against_whole),
        compared(found.against_random),
        compared(found.against_scratch),
    ]


def compared(comparison: Comparison | None) -> str:
    """``-1.3 (p 0.21)``; a difference that is the same in every fold has no p."""
    if comparison is None:
        return ""
    if comparison.p is None:
        return f"{comparison.difference:+.1f} (always)"
    return f"{comparison.difference:+z.1f} (p {comparison.p:.2g})"


def study_figures(result: Study) -> dict[str, Callable[[], Figure]]:
    """The paper's figures that the study has rows for, by name: methods and sizes, and sweeps of angle and penalty."""
    from weightsmith.reporting.figures.studies import figures_of_study

    return {figure.name: figure.draw for figure in figures_of_study(result)}
