"""Where in a checkpoint the weights are: the state dict itself, or under a name training scripts give it.

Everything else that holds tensors is named in one line each (an optimiser has a hundred of them); numbers and texts
beside the weights (epoch, accuracy) are nobody's business here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.pickles import StoredTensor
from weightsmith.networks.weights import LeftOut

__all__ = ["Chosen", "choose"]

_NAMES = ("state_dict", "model_state_dict", "model", "module", "network", "net", "weights", "params")
_DEPTH = 3
_TRAINING = re.compile(r"optimi[sz]er|scheduler|(?:^|[_.])(?:optim|sched|scaler|amp|rng|callbacks)(?:$|[_.])", re.I)


@dataclass
class Chosen:
    """Tensors by name, each with the keys that lead to it, and what was passed by."""

    tensors: dict[str, tuple[tuple[Any, ...], StoredTensor]] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


def choose(root: Any, path: Path) -> Chosen:
    """The weights in a described checkpoint."""
    if type(root) is not dict:
        what = "a single tensor" if isinstance(root, StoredTensor) else f"a {type(root).__name__.strip('_').lower()}"
        raise FileRefused(path, f"holds {what} without a name, not a state dict")
    chosen = Chosen()
    prefix: tuple[Any, ...] = ()
    weights = root
    for _ in range(_DEPTH):
        name = _wrapped(weights)
        if name is None:
            break
        _note_others(chosen, weights, name)
        prefix, weights = (*prefix, name), weights[name]
    for key, value in weights.items():
        _take(chosen, str(key), (*prefix, key), value, path)
    if not chosen.tensors:
        raise FileRefused(path, "holds no tensors")
    return chosen


def _wrapped(candidate: dict[Any, Any]) -> str | None:
    """The key under which the weights lie, None if they lie here."""
    for name in _NAMES:
        inner = candidate.get(name)
        if type(inner) is dict and any(True for _ in _tensors(inner)):
            return name
    if any(isinstance(value, StoredTensor) for value in candidate.values()):
        return None
    holders = [key for key, value in candidate.items() if type(value) is dict and any(True for _ in _tensors(value))]
    holders = [key for key in holders if not _is_training_state(key)]
    return holders[0] if len(holders) == 1 and isinstance(holders[0], str) else None


def _note_others(chosen: Chosen, candidate: dict[Any, Any], name: str) -> None:
    for key, value in candidate.items():
        if key != name:
            _note(chosen, str(key), value, f"outside {name!r}")


def _note(chosen: Chosen, name: str, value: Any, where: str) -> None:
    """One line for all tensors under a name, not counted: they are not weights of the network."""
    found = list(_tensors(value))
    if found:
        what = "training state" if _is_training_state(name) else where
        count = sum(tensor.count for tensor in found)
        chosen.left_out.append(LeftOut(name, (), 0, f"{what}: {len(found)} tensors, {count:,} values, not weights"))


def _take(chosen: Chosen, name: str, place: tuple[Any, ...], value: Any, path: Path) -> None:
    """One value of the state dict; a dictionary inside it gives its tensors under dotted names."""
    if isinstance(value, StoredTensor):
        if name in chosen.tensors:
            raise FileRefused(path, f"two tensors are called {name[:80]!r}")
        chosen.tensors[name] = (place, value)
    elif _is_training_state(name):
        _note(chosen, name, value, "beside the weights")
    elif type(value) is dict and any(isinstance(item, StoredTensor) for item in value.values()):
        for key, item in value.items():
            if isinstance(item, StoredTensor):
                _take(chosen, f"{name}.{key}", (*place, key), item, path)
            else:
                _note(chosen, f"{name}.{key}", item, "nested too deeply")
    elif quantised := list(_tensors(value)):
        count = sum(tensor.count for tensor in quantised)
        reason = f"a {type(value).__name__} of {len(quantised)} tensors, not a tensor"
        chosen.left_out.append(LeftOut(name, (), count, reason))


def _is_training_state(key: Any) -> bool:
    return _TRAINING.search(str(key)) is not None


def _tensors(value: Any) -> Iterator[StoredTensor]:
    """All tensors below ``value``, each container once: a pickle can contain the same list a million times."""
    seen: set[int] = set()
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, StoredTensor):
            yield item
        elif type(item) in (dict, list, tuple) and id(item) not in seen:
            seen.add(id(item))
            todo.extend(item.values() if type(item) is dict else item)
