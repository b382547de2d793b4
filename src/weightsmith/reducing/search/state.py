"""What the two searches, for the fittest mask and for the front, share: going on where one stopped, and the answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.identity import identity_of
from weightsmith.core.records import digest_of
from weightsmith.core.storage import write_atomic
from weightsmith.networks.readers.npz import NpzWeights
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice, Removal, TraceRow
from weightsmith.reducing.search.evolution import State
from weightsmith.reducing.search.operators import Repair, hold

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Search", "SearchState", "choices_of", "kept_of", "resumed"]


# What may differ between a search and the one that goes on from it: how far it goes, and what is taken in the end.
_NOT_PART_OF_THE_CALL = {"generations", "loss"}


class Search(Protocol):
    """A search that is ready but for how it starts, what it may propose and who is told."""

    def __call__(self, *, repair: Repair | None, start: State | None, each: Callable[[State], None] | None) -> State:
        """The state it ends in."""
        ...


def resumed(
    search: Search, method: Method, generations: int, context: PruningContext, counts: Mapping[str, int] | None
) -> State:
    """The end of ``search``, which goes on from what it has left in the scene's folder and keeps its state there.

    With ``counts`` exactly so many units of each site named in it stay in every mask.
    """
    repair = None
    if counts:
        held = [(place, counts[site.name]) for site, place in _places(context) if site.name in counts]
        repair = hold([place for place, _ in held], [count for _, count in held])
    kept_state = SearchState(context.folder, _call(method, context, counts))

    def each(state: State) -> None:
        kept_state.write(state)
        if context.progress is not None:
            context.progress(state.generation, generations)

    return search(repair=repair, start=kept_state.read(generations), each=each)


def choices_of(context: PruningContext, mask: NDArray[np.bool_]) -> tuple[Choice, ...]:
    """The plain removal, site by site, of every unit that ``mask`` leaves off."""
    return tuple(
        Choice(site, len(part), tuple(Removal(unit, reason="search") for unit in np.flatnonzero(~part).tolist()))
        for site, part in context.split(mask).items()
    )


def kept_of(context: PruningContext, mask: NDArray[np.bool_]) -> dict[str, tuple[int, ...]]:
    """The units that ``mask`` leaves on, by site."""
    return {site: tuple(np.flatnonzero(part).tolist()) for site, part in context.split(mask).items()}


def _places(context: PruningContext) -> Any:
    return zip(context.sites, context.site_slices, strict=True)


def _call(method: Method, context: PruningContext, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """All that the search depends on: a state may be gone on from only if it is the same."""
    return {
        **{key: value for key, value in method.to_dict().items() if key not in _NOT_PART_OF_THE_CALL},
        "seed": context.seed,
        "sites": {site.name: site.units for site in context.sites},
        "counts": None if counts is None else dict(counts),
        "fitness": None if context.fitness is None else identity_of(context.fitness),
        "price": None if context.price is None else identity_of(context.price),
        **{f"{name} digest": digest for name, digest in context.identity.items()},
    }


# Where a search stands, on disk: ``state.npz``, written anew after each generation.
#
# The file holds the arrays of the state, the trace, the call it belongs to and a digest of it all. A search finds only
# its own: one of another network, other data, another seed or other settings is refused, and so is a damaged one. The
# number of generations is not part of the call, so that a search that is asked for more goes on from where it stands.


_FILE = "state.npz"
_FORMAT = 1
_ARRAYS = ("population", "scores", "hall", "hall_scores")


class SearchState:
    """The state of one search in ``folder``; with None as the folder nothing is kept and nothing found."""

    def __init__(self, folder: Path | None, call: Mapping[str, Any]) -> None:
        self._path = None if folder is None else folder / _FILE
        # As it comes back from the file, so that the two can be compared.
        self._call: dict[str, Any] = json.loads(json.dumps(call, allow_nan=False))

    def write(self, state: State) -> None:
        """Keep ``state`` in place of the one before."""
        if self._path is None:
            return
        arrays: dict[str, Any] = {name: np.ascontiguousarray(getattr(state, name)) for name in _ARRAYS}
        arrays["known_scores"] = np.fromiter(state.known.values(), np.float64, len(state.known))
        # Flat, because the reader takes a matrix of bytes for quantised weights.
        arrays["known"] = np.frombuffer(b"".join(state.known), np.uint8)
        facts = {
            "format": _FORMAT,
            "call": self._call,
            "generation": state.generation,
            "rows": [row.to_dict() for row in state.rows],
        }
        text = json.dumps({**facts, "digest": _digest(arrays, facts)}, allow_nan=False)
        file = io.BytesIO()
        np.savez(file, facts=np.frombuffer(text.encode(), np.uint8), **arrays)
        write_atomic(self._path, file.getvalue())

    def read(self, generations: int) -> State | None:
        """The state that this search has left, None if it has left none; ``generations`` is what is asked for now."""
        if self._path is None or not self._path.exists():
            return None
        weights = NpzWeights(self._path)  # checks sizes, and that nothing is pickled
        arrays = {name: weights.tensor_as_stored(name).numpy() for name in weights.entries}
        facts = _facts(self._path, arrays)
        self._check_call(self._path, facts["call"])
        if isinstance(facts["generation"], int) and facts["generation"] > generations:
            raise UsageError(
                f"{self._path}: the search stands at generation {facts['generation']}, beyond the {generations} asked "
                "for; ask for as many, or give another folder"
            )
        try:
            return _state(facts, arrays)
        except (KeyError, ValueError, TypeError, IndexError, UsageError) as error:
            raise FileRefused(self._path, f"is not the state of a search ({error})") from error

    def _check_call(self, path: Path, found: Mapping[str, Any]) -> None:
        for key in sorted({*found, *self._call}):
            if found.get(key) != self._call.get(key):
                raise UsageError(
                    f"{path} belongs to another search: {key} was {found.get(key)!r} and is {self._call.get(key)!r}; "
                    "give another folder, or delete the file to start over"
                )


def _state(facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> State:
    """The state that facts and arrays describe; a digest proves that they are whole, not that they make sense."""
    population, scores, hall, hall_scores = (arrays[name] for name in _ARRAYS)
    generation, rows = facts["generation"], tuple(map(TraceRow.from_dict, facts["rows"]))
    if not isinstance(generation, int) or generation != len(rows) - 1:
        raise ValueError(f"generation {generation!r} with {len(rows)} rows of a trace")
    for masks, values in ((population, scores), (hall, hall_scores)):
        if masks.dtype != bool or masks.ndim != 2 or len(masks) != len(values) or not len(masks):
            raise ValueError(f"masks of shape {masks.shape} with scores of shape {values.shape}")
    if hall.shape[1] != population.shape[1] or scores.dtype != np.float64 or hall_scores.dtype != np.float64:
        raise ValueError(f"masks of {hall.shape[1]} and of {population.shape[1]} units")
    keys = arrays["known"].reshape(len(arrays["known_scores"]), -1)
    if keys.shape[1] != -(-population.shape[1] // 8):
        raise ValueError(f"keys of {keys.shape[1]} bytes for {population.shape[1]} units")
    known = dict(zip(map(bytes, keys), arrays["known_scores"].tolist(), strict=True))
    return State(generation, population, scores, hall, hall_scores, rows=rows, known=known, met=len(known))


def _facts(path: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The JSON part of a file whose digest is right; it is taken out of ``arrays``."""
    try:
        facts: dict[str, Any] = json.loads(arrays.pop("facts").tobytes())
        digest, version = facts.pop("digest"), facts["format"]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise FileRefused(path, "is not the state of a search") from error
    if version != _FORMAT:
        raise FileRefused(path, f"was written by another version of weightsmith (format {version!r})")
    if digest != _digest(arrays, facts):
        raise FileRefused(path, "is damaged: its content does not match its digest")
    return facts


def _digest(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> str:
    parts = [f"{name} {digest_of(arrays[name])}" for name in sorted(arrays)]
    return digest_of("\n".join([*parts, json.dumps(facts, sort_keys=True, allow_nan=False)]))
