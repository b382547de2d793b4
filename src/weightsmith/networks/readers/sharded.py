"""Sharded weights: several files of a folder, with or without an index.

The index is ``*.index.json`` with a ``weight_map`` from tensor names to file names. Every file must be in the folder,
every tensor in its file, and nothing may be there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.detect import WEIGHT_SUFFIXES, open_file
from weightsmith.networks.readers.ranges import inside, read_json, shown
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["ShardedWeights", "open_folder", "open_index"]

# Other files that trainers write with the same suffixes.
_OWN = "network.safetensors"
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "random_states", "scaler")


class ShardedWeights(Weights):
    """Several files read as one; one of them is open at a time."""

    format = "sharded"

    def __init__(self, path: Path, shards: Iterable[Weights], locations: Mapping[str, Path] | None = None) -> None:
        self._shards: dict[str, Weights] = {}
        stored: list[Entry] = []
        left_out: list[LeftOut] = []
        metadata: dict[str, str] = {}
        aliases: dict[str, str] = {}
        for shard in shards:
            metadata.update(shard.metadata)
            aliases.update(shard.aliases)
            left_out += [item for item in shard.left_out if item.name not in shard.stored]
            for name, entry in shard.stored.items():
                if locations is not None and locations.get(name) != shard.path:
                    reason = f"in {shard.path.name}, but the index does not name it there"
                    left_out.append(LeftOut(name, entry.shape, entry.parameters, reason))
                    continue
                if name in self._shards:
                    files = f"{self._shards[name].path.name} and {shard.path.name}"
                    raise FileRefused(path, f"tensor {shown(name)} is in both {files}")
                self._shards[name] = shard
                stored.append(entry)
        for name, file in (locations or {}).items():
            if name not in self._shards:
                raise FileRefused(path, f"tensor {shown(name)} is not in {file.name}, where the index says it is")
        super().__init__(path, stored, metadata=metadata, left_out=left_out, aliases=aliases)

    def _read(self, name: str) -> Tensor:
        shard = self._shards[name]
        shard.check_unchanged()
        return shard._read(name)


def open_index(index: Path) -> Weights:
    """The weights an index file describes."""
    content = read_json(index)
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise FileRefused(index, "has no weight_map of tensor names to file names")
    locations = {name: inside(index.parent, file, index) for name, file in weight_map.items()}
    files = list(dict.fromkeys(locations.values()))
    for file in files:
        with reading(file):
            exists = file.exists()
        if not exists:
            raise FileRefused(index, f"names {shown(file.name)}, which is not in the folder")
    return ShardedWeights(index.parent, [open_file(file) for file in files], locations)


def open_folder(folder: Path) -> Weights:
    """The weights in a folder: ``network.safetensors`` of our result folders, else by index, else all safetensors
    files, else the only weight file."""
    with reading(folder):
        files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    if (snapshots := folder / "snapshots") in files:
        return open_folder(_snapshot(folder, snapshots))
    if (own := folder / _OWN) in files:
        return open_file(own)
    indices = [file for file in files if file.name.endswith(".index.json")]
    if indices:
        return open_index(_preferred(folder, indices))
    named = [file for file in files if file.suffix.lower() in WEIGHT_SUFFIXES]
    with reading(folder):
        candidates = [file for file in named if file.is_file() and not file.name.startswith(_NOT_WEIGHTS)]
    tensors = [file for file in candidates if file.suffix.lower() == ".safetensors"]
    if len(tensors) > 1:
        return ShardedWeights(folder, [open_file(file) for file in tensors])
    chosen = tensors or [file for file in candidates if file.suffix.lower() != ".npz"] or candidates
    if not chosen:
        inner = [path.name for path in sorted(folder.iterdir()) if (path / "network.safetensors").is_file()]
        hint = f"; its folders {', '.join(inner[:5])} do" if inner else ""
        raise FileRefused(folder, f"holds no weight file ({' '.join(WEIGHT_SUFFIXES)}){hint}")
    if len(chosen) > 1:
        names = ", ".join(shown(file.name) for file in chosen[:4])
        raise FileRefused(folder, f"holds several weight files ({names}): name one of them")
    return open_file(chosen[0])


def _snapshot(folder: Path, snapshots: Path) -> Path:
    """The snapshot in a folder of the Hugging Face cache (``models--OWNER--NAME``): ``main`` or the only one."""
    main = folder / "refs" / "main"
    with reading(folder):
        names = sorted(path.name for path in snapshots.iterdir() if path.is_dir())
        chosen = main.read_text(errors="replace").strip()[:64] if main.is_file() else ""
    if chosen not in names and len(names) != 1:
        listed = ", ".join(map(shown, names[:4])) or "none"
        raise FileRefused(folder, f"holds several snapshots or none ({listed}): name one of them")
    return snapshots / (chosen if chosen in names else names[0])


def _preferred(folder: Path, indices: list[Path]) -> Path:
    """safetensors before pickled files, the plain name before variants; an ambiguous choice is refused."""
    safe = [index for index in indices if ".safetensors" in index.name] or indices
    plain = [index for index in safe if index.name in ("model.safetensors.index.json", "pytorch_model.bin.index.json")]
    if len(safe) > 1 and not plain:
        names = ", ".join(shown(index.name) for index in safe[:4])
        raise FileRefused(folder, f"holds several indices ({names}): name one of them")
    return (plain or safe)[0]
