"""What the two searches, for the fittest mask and for the front, share: going on where one stopped, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.identity import identity_of
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.evolution import State
from weightsmith.reducing.keeping import Keeper
from weightsmith.reducing.method import Method
from weightsmith.reducing.operators import Repair, hold

if TYPE_CHECKING:
    from weightsmith.reducing.scene import Scene

__all__ = ["Search", "choices_of", "kept_of", "resumed"]

# What may differ between a search and the one that goes on from it: how far it goes, and what is taken in the end.
_NOT_PART_OF_THE_CALL = {"generations", "loss"}


class Search(Protocol):
    """A search that is ready but for how it starts, what it may propose and who is told."""

    def __call__(self, *, repair: Repair | None, start: State | None, each: Callable[[State], None] | None) -> State:
        """The state it ends in."""
        ...


def resumed(search: Search, method: Method, generations: int, scene: Scene, counts: Mapping[str, int] | None) -> State:
    """The end of ``search``, which goes on from what it has left in the scene's folder and keeps its state there.

    With ``counts`` exactly so many units of each site named in it stay in every mask.
    """
    repair = None
    if counts:
        held = [(place, counts[site.name]) for site, place in _places(scene) if site.name in counts]
        repair = hold([place for place, _ in held], [count for _, count in held])
    keeper = Keeper(scene.folder, _call(method, scene, counts))

    def each(state: State) -> None:
        keeper.write(state)
        if scene.progress is not None:
            scene.progress(state.generation, generations)

    return search(repair=repair, start=keeper.read(generations), each=each)


def choices_of(scene: Scene, mask: NDArray[np.bool_]) -> tuple[Choice, ...]:
    """The plain removal, site by site, of every unit that ``mask`` leaves off."""
    return tuple(
        Choice(site, len(part), tuple(Removal(unit, reason="search") for unit in np.flatnonzero(~part).tolist()))
        for site, part in scene.split(mask).items()
    )


def kept_of(scene: Scene, mask: NDArray[np.bool_]) -> dict[str, tuple[int, ...]]:
    """The units that ``mask`` leaves on, by site."""
    return {site: tuple(np.flatnonzero(part).tolist()) for site, part in scene.split(mask).items()}


def _places(scene: Scene) -> Any:
    return zip(scene.sites, scene.site_slices, strict=True)


def _call(method: Method, scene: Scene, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """All that the search depends on: a state may be gone on from only if it is the same."""
    return {
        **{key: value for key, value in method.to_dict().items() if key not in _NOT_PART_OF_THE_CALL},
        "seed": scene.seed,
        "sites": {site.name: site.units for site in scene.sites},
        "counts": None if counts is None else dict(counts),
        "fitness": None if scene.fitness is None else identity_of(scene.fitness),
        "price": None if scene.price is None else identity_of(scene.price),
        **{f"{name} digest": digest for name, digest in scene.identity.items()},
    }
