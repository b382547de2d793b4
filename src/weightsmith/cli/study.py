"""``weightsmith study DATA --by angles:45 …``: compare methods of reduction over folds, sizes and repeats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, write_figures
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, progress_bar, say_note, show
from weightsmith.papers.study import study as verb

if TYPE_CHECKING:
    from weightsmith.reducing.study_table import Study

__all__ = ["study"]


@takes_options_of(
    verb.reduction_study,
    examples=(
        "weightsmith study digits --hidden 20,50 --by angles:45 --by genetic:50 --out runs/study",
        "weightsmith study table.csv --folds 5 --repeats 2",
    ),
)
def study(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="a data set by name, a table (.csv, .xlsx), or faces.npz (see faces)")
    ],
    options: Options,
    out_folder: given.Out = None,
    figures: given.Figures = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train networks over folds, reduce each by every method, and test the cost in accuracy.

    Accuracies are means ± standard deviation over folds. A difference is the method's test accuracy minus that of the
    whole network, of random masks of equal size, or of a network of that size trained from scratch, with p of the
    corrected resampled t-test (Nadeau and Bengio), corrected for the number of tests (Holm).
    """
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.figures.studies import figures_of_study

    check_writable(None, figures, out_folder)
    result = _studied(data, options, out_folder, quiet)
    files = [] if out_folder is None else [out_folder / "study.json", out_folder / "study.csv"]
    if figures is not None:
        files += write_figures(figures, {figure.name: figure.draw for figure in figures_of_study(result)})
    if as_json:
        print_json(result.to_dict())
    else:
        show(describe(result, result.data), files)


def _studied(data: str, options: Options, folder: Path | None, quiet: bool) -> Study:
    done = (0, 0)
    try:
        with progress_bar("study", quiet) as progress:

            def callback(finished: int, total: int) -> None:
                nonlocal done
                done = (finished, total)
                if progress is not None:
                    progress(finished, total)

            return verb.reduction_study(data, **options, out=folder, progress=callback)
    except KeyboardInterrupt:
        kept = "without --out nothing is kept" if folder is None else f"{folder} keeps them: run again to resume"
        say_note(f"{done[0]} of {done[1]} groups of networks are done; {kept}" if done[1] else kept)
        raise
