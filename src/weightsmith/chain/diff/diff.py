"""``diff``: compare two networks, from their sizes to what they answer on the same rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, as_callback
from weightsmith.core.verbs import Doc, Seed, Split, TestRows, verb
from weightsmith.data.normalise import Normalisation, Normalise
from weightsmith.grading.evidence import Evidence

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.diff.differences import NetworkDiff
    from weightsmith.networks.models.architecture import Architecture
    from weightsmith.spiking.energy.cost import Prices

__all__ = ["diff"]


@verb(types=("spiking.energy.cost",))
def diff(
    a: Any,
    b: Any,
    data: Any = None,
    *,
    split: Split = None,
    test_rows: TestRows = None,
    steps: Annotated[
        int | None, Range(ge=1), Doc("time steps of spiking networks; by default those of their record, or 64")
    ] = None,
    network: str | Architecture | nn.Module | Callable[[], nn.Module] | None = None,
    normalise: Normalise = None,
    evidence: Annotated[Evidence | str, Doc("evidence computed for α: none, fast (its interval), full")] = "fast",
    prices: Annotated[
        Prices | str, Doc("picojoules per operation, as picojoule:accumulate=0.1,multiply=3.2", rare=True)
    ] = "picojoule",
    latency: Annotated[bool, Doc("measure the time per image of both, alternately")] = True,
    batches: Annotated[Sequence[int] | int, Range(ge=1, min_length=1), Doc("batch sizes for the timing", rare=True)] = (
        1,
        64,
    ),
    repeats: Annotated[int, Range(ge=2), Doc("samples of each time", rare=True)] = 20,
    seed: Seed = 0,
    progress: ProgressCallback | bool | None = None,
) -> NetworkDiff:
    """Compare network ``b`` with network ``a``: modules, spiking networks, runs of verbs, files or result folders.

    Layers are matched by name. ``data`` add what needs rows: both networks answer the same ``test_rows`` of ``split``
    (the test split; None: all of it), spiking ones after ``steps`` (those of their record, or 64); ``latency`` measures
    the time per image in ``batches`` by ``repeats`` samples on one thread. ``evidence`` is that of ``grade``.
    ``network`` says how to build files without a card (``package.module:function``, as in ``load``),
    ``normalise`` how inputs of network files are normalised; both hold for A and B. Comparisons that are impossible
    are left out and named in the notes; the networks are not changed.

    >>> import weightsmith as ws
    >>> network = ws.networks.mlp(64, 16, 10, seed=0)
    >>> found = diff(network, network, evidence="none")
    >>> str(found), found["dense1"].distance.relative, set(found["dense1"].changes.values())
    ('the same weights', 0.0, {0.0})
    """
    from weightsmith.chain.diff._sides import Asked, open_sides
    from weightsmith.chain.diff.differences import How, compared
    from weightsmith.data.judging import draw_rows

    timing = (batches, repeats) if latency else None
    rows = None if data is None else draw_rows(data, split, test_rows, seed)
    asked = Asked(network, Normalisation.of(normalise))
    if rows is not None:
        asked = dataclasses.replace(asked, input_shape=rows.data.input_shape, classes=len(rows.data.classes))
    how = How(steps, seed, prices, timing, as_callback(progress))  # type: ignore[arg-type]  # read by the verb
    return compared(open_sides(a, b, asked), rows, how, evidence)
