"""``train_sweep``: train over many settings and seeds, with one row per run.

train_sweep("fashion-mnist", grid(rate=[0.1, 0.01], width=[50, 100]), network="mlp:50,50", seeds=range(3))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.core.seeds import read_seeds
from weightsmith.core.verbs import Cluster, Doc, Workers, verb

if TYPE_CHECKING:
    from weightsmith.core.sweep import SweepTable

__all__ = ["NOT_VARIED", "train_sweep"]

NOT_VARIED = ("seed", "threads", "keep", "diagnose")
"""Options of ``train`` that a sweep does not pass on: it sets the seed itself, and its rows do not hold the others."""


@verb
def train_sweep(
    data: Any,
    settings: Iterable[Mapping[str, Any]],
    *,
    seeds: Annotated[
        Sequence[int] | str,
        Doc(
            "seeds of weights, split, order and dropout: a list such as 0,1,2, or 0-9 for ten",
            read=read_seeds,
            none=False,
        ),
    ] = (0, 1, 2),
    path: str | Path | None = None,
    journal: str | Path | None = None,
    workers: Workers = 1,  # noqa: ARG001 (all maps in a verb run there)
    cluster: Cluster = None,  # noqa: ARG001
    on_row: Callable[[dict[str, Any]], object] | None = None,
    **fixed: Any,
) -> SweepTable:
    """Train once for every setting and seed; ``fixed`` applies to all of them, unless a setting overrides it.

    A setting may hold any option of ``train``, any parameter of the network (``activation``, ``dropout`` …), and the
    shorthands ``rate`` (of any schedule), ``width`` and ``depth`` (of an MLP's hidden layers). ``data`` are best given
    by name (and ``path``): each worker then reads them itself. The other arguments are those of
    :func:`weightsmith.core.sweep.sweep`.
    """
    from weightsmith.training.sweeping import run_sweep

    chosen = [dict(setting) for setting in settings]
    how = {"seeds": seeds, "journal": journal, "on_row": on_row}
    return run_sweep(data, chosen, path, fixed, **how)
