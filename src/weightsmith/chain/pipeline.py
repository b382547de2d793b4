"""``pipeline``: run a recipe, every stage once per seed, each in its own folder, and a report of all stages.

recipe → for each seed: stage → stage → …  → record.json of the chain → report.html
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.core.progress import ProgressCallback, as_callback
from weightsmith.core.verbs import Cluster, Device, Doc, Threads, Workers, verb

if TYPE_CHECKING:
    from weightsmith.chain.recipe import Recipe
    from weightsmith.chain.results import ChainRun

__all__ = ["check_recipe", "pipeline"]

AllowCode = Annotated[bool, Doc("allow the recipe to import code that is not an installed package (review it first)")]


@verb
def pipeline(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    allow_code: AllowCode = False,
    threads: Threads = 1,
    device: Device = "cpu",
    workers: Workers = 1,  # noqa: ARG001 (all maps in a verb run there)
    cluster: Cluster = None,  # noqa: ARG001
    progress: ProgressCallback | bool | None = None,
) -> ChainRun:
    """Run ``recipe`` (a :class:`Recipe`, its tables, its TOML text or its file) and write all results to ``out``.

    Each stage has a folder with its record and its output: ``out/<stage>``, or with several seeds
    ``out/seed-<seed>/<stage>``. The same call resumes an interrupted one; a folder of another recipe is refused.
    ``allow_code`` lets a recipe import a module that is not an installed package. ``threads``, ``device``,
    ``workers`` and ``cluster`` hold for all stages whose verb has them. ``progress`` is called with the stage, the
    steps done and their total; True shows a bar.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> chain = pipeline({"data": "digits", "train": {"network": "mlp:16", "epochs": 2}, "grade": {}}, folder.name)
    >>> [(stage.name, stage.of) for stage in chain.record.stages]
    [('train', None), ('grade', 'train')]
    """
    from weightsmith.chain._running import read_allowed, run_recipe

    surrounding = {"threads": threads, "device": device}
    return run_recipe(read_allowed(recipe, allow_code), Path(out), as_callback(progress), **surrounding)


@verb
def check_recipe(recipe: Recipe | Mapping[str, Any] | str | Path, *, allow_code: AllowCode = False) -> Recipe:
    """Check a recipe as :func:`pipeline` does before it runs (build the network, read the data), and return it.

    ``allow_code`` lets it import a module that is not an installed package.
    """
    from weightsmith.chain._running import check_runs, read_allowed

    wanted = read_allowed(recipe, allow_code)
    check_runs(wanted)
    return wanted
