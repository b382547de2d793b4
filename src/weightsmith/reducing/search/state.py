"""What the genetic and the Pareto search share: resuming, the result, and the state on disk."""

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
from weightsmith.reducing.search.evolution import Repair, State, hold

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Search", "SearchState", "choices_of", "kept_of", "resumed"]


# Options that may differ between a search and one that resumes it.
_NOT_PART_OF_THE_CALL = {"generations", "loss"}


class Search(Protocol):
    """A search without its start state, repair function and callback."""

    def __call__(self, *, repair: Repair | None, start: State | None, each: Callable[[State], None] | None) -> State:
        """The final state."""
        ...


def resumed(
    search: Search, method: Method, generations: int, context: PruningContext, counts: Mapping[str, int] | None
) -> State:
    """Run ``search``, resuming from the state in the context's folder and saving it there.

    With ``counts`` every mask keeps exactly that many units of each site named in it.
    """
    repair = None
    if counts:
        fixed = [(bits, counts[site.name]) for site, bits in _site_slices(context) if site.name in counts]
        repair = hold([bits for bits, _ in fixed], [count for _, count in fixed])
    kept_state = SearchState(context.folder, _call(method, context, counts))

    def each(state: State) -> None:
        kept_state.write(state)
        if context.progress is not None:
            context.progress(state.generation, generations)

    return search(repair=repair, start=kept_state.read(generations), each=each)


def choices_of(context: PruningContext, mask: NDArray[np.bool_]) -> tuple[Choice, ...]:
    """Remove, site by site, every unit that ``mask`` turns off."""
    return tuple(
        Choice(site, len(part), tuple(Removal(unit, reason="search") for unit in np.flatnonzero(~part).tolist()))
        for site, part in context.split(mask).items()
    )


def kept_of(context: PruningContext, mask: NDArray[np.bool_]) -> dict[str, tuple[int, ...]]:
    """The units that ``mask`` keeps, by site."""
    return {site: tuple(np.flatnonzero(part).tolist()) for site, part in context.split(mask).items()}


def _site_slices(context: PruningContext) -> Any:
    return zip(context.sites, context.site_slices, strict=True)


def _call(method: Method, context: PruningContext, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Everything that the search depends on: only a state with the same call is resumed."""
    return {
        **{key: value for key, value in method.to_dict().items() if key not in _NOT_PART_OF_THE_CALL},
        "seed": context.seed,
        "sites": {site.name: site.units for site in context.sites},
        "counts": None if counts is None else dict(counts),
        "fitness": None if context.fitness is None else identity_of(context.fitness),
        "price": None if context.price is None else identity_of(context.price),
        **{f"{name} digest": digest for name, digest in context.identity.items()},
    }


# The state of a search on disk: ``state.npz``, rewritten after each generation.
#
# The file holds the arrays of the state, the trace, the call it belongs to and a digest of all this. A file of another
# network, other data, another seed or other settings is refused, and so is a damaged one. The number of generations is
# not part of the call, so that a search can be continued for more.


_FILE = "state.npz"
_FORMAT = 1
_ARRAYS = ("population", "scores", "hall", "hall_scores")


class SearchState:
    """The state of one search in ``folder``; without a folder nothing is saved or loaded."""

    def __init__(self, folder: Path | None, call: Mapping[str, Any]) -> None:
        self._path = None if folder is None else folder / _FILE
        # Through JSON, as it is read from the file, so that the two can be compared.
        self._call: dict[str, Any] = json.loads(json.dumps(call, allow_nan=False))

    def write(self, state: State) -> None:
        """Save ``state``, replacing the previous one."""
        if self._path is None:
            return
        arrays: dict[str, Any] = {name: np.ascontiguousarray(getattr(state, name)) for name in _ARRAYS}
        arrays["known_scores"] = np.fromiter(state.known.values(), np.float64, len(state.known))
        # Flat, because the reader interprets a matrix of bytes as quantised weights.
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
        """The saved state of this search, None if there is none; ``generations`` is the number requested now."""
        if self._path is None or not self._path.exists():
            return None
        weights = NpzWeights(self._path)  # checks sizes, and that nothing is pickled
        arrays = {name: weights.tensor_as_stored(name).numpy() for name in weights.entries}
        facts = _facts(self._path, arrays)
        self._check_call(self._path, facts["call"])
        if isinstance(facts["generation"], int) and facts["generation"] > generations:
            raise UsageError(
                f"{self._path}: the search is at generation {facts['generation']}, beyond the {generations} requested; "
                "request at least as many, or give another folder"
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
    """The state from facts and arrays, with its own checks: the digest proves integrity, not validity."""
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
    """The JSON part of a file with a valid digest, removed from ``arrays``."""
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
