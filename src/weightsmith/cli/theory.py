"""``weightsmith theory``: why a spiking network differs from the network it was converted from, in five figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from weightsmith.cli._figure_files import check_targets, hold
from weightsmith.cli._shared_options import AsJson, Quiet, Seed
from weightsmith.cli.terminal import out, print_json, progress_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["theory"]


def theory(
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the figures.")] = Path("theory"),
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw how the variance of the membrane potential affects the spikes: Figures 1 to 5 of the L4-norm paper."""
    from weightsmith.reporting.figures.style import save_figure

    check_targets({}, {"--out": out_folder})
    hold(out_folder)
    entries = []
    with progress_bar("theory", quiet) as progress:
        for number, part in enumerate(_PARTS, 1):
            drawn, sentence = part(seed)
            path = save_figure(drawn, out_folder / f"figure{number}.svg")
            entries.append({"file": str(path), "shows": sentence})
            if progress is not None:
                progress(number, len(_PARTS))
    if as_json:
        print_json({"figures": entries})
        return
    for each in entries:
        out().print(f"[bold]{escape(each['file'])}[/bold]  {escape(each['shows'])}")


def _same_mean(seed: int) -> tuple[Figure, str]:
    from weightsmith.papers.theory.example import draw_same_mean, same_mean

    found = same_mean(seed=seed)
    means, variances = (
        " and ".join(f"{value:.3g}" for value in values) for values in (found.steady_means, found.steady_variances)
    )
    return draw_same_mean(found), (
        f"two neurons whose potentials have equal means ({means}) and unequal variances ({variances})"
    )


def _above_threshold(seed: int) -> tuple[Figure, str]:
    from weightsmith.papers.theory.example import above_threshold, draw_above_threshold

    found = above_threshold(seed=seed)
    simulated, lognormal = (
        " and ".join(f"{100 * share:.1f} %" for share in shares)
        for shares in (found.above_simulated, found.above_lognormal)
    )
    return draw_above_threshold(found), (
        f"the same two neurons are above a threshold of {found.threshold:g} for {simulated} of the time; the lognormal "
        f"approximation gives {lognormal}"
    )


def _dominance(seed: int) -> tuple[Figure, str]:
    from weightsmith.papers.theory.dominance import dominance, draw_dominance

    hard, soft = dominance(seed=seed), dominance(reset="soft", seed=seed)
    borders = [(length, angle) for length, angle in zip(hard.lengths, hard.border, strict=True) if angle is not None]
    shares = ", ".join(
        f"up to {angle:.1f}° for inputs of length {length:g}" for length, angle in (borders[0], borders[-1])
    )
    return draw_dominance(hard, soft), (
        f"of two neurons whose directions have their midpoint at {hard.midpoint:.1f}°, the one with the larger "
        f"variance fires more {shares}"
    )


def _drift(_seed: int) -> tuple[Figure, str]:
    from weightsmith.papers.theory.drift import draw_hadamard_drift, hadamard_drift

    found = hadamard_drift()
    most = max(map(abs, found.drift_of_angle.tolist()))
    return draw_hadamard_drift(found), (
        f"the variance follows the squares of the weights, which point up to {most:.1f}° away from the weights"
    )


def _threshold(seed: int) -> tuple[Figure, str]:
    from weightsmith.papers.theory.threshold import draw_threshold_sweep, threshold_sweep

    found = threshold_sweep(seed=seed)
    by_norm, by_input = (max(map(abs, (found.needed - by).tolist())) for by in (found.by_l4, found.by_moments))
    return draw_threshold_sweep(found), (
        f"the threshold that makes two neurons fire alike: the L4 norm misses it by up to {by_norm:.2f}, the standard "
        f"deviation for the input at hand by {by_input:.2f}"
    )


_PARTS = (_same_mean, _above_threshold, _dominance, _drift, _threshold)
