"""``weightsmith log NETWORK…``: the lineage of networks, as one family tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import count_text, out, print_json, say_note
from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.reporting._sparks import can_show

if TYPE_CHECKING:
    from weightsmith.core.records import Lineage
    from weightsmith.networks.family import Family, Member

__all__ = ["log"]

_OWN, _SUFFIX, _CHECKPOINT = "network.safetensors", ".safetensors", "checkpoint.safetensors"
_LEVELS = 4  # folder depth: runs/chain/seed-0/stage
_MOST_FOLDERS, _MOST_FILES = 10_000, 10_000


def log(
    networks: Annotated[
        list[Path],
        typer.Argument(metavar="NETWORK", readable=False, help="Network files, result folders, folders of them."),
    ],
    as_json: given.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Show how networks were made: the operations, and the digests of their ancestors.

    Several networks, or all in a folder (four levels deep), make one family tree with accuracies and parameters.
    """
    by_path: dict[Path, Path] = {}
    for path in networks:
        for file in _networks_in(path, quiet):
            by_path.setdefault(file.resolve(), file)
    files = list(by_path.values())
    if len(networks) == 1 and files == [networks[0]]:
        _log_one(_read(files[0], quiet), as_json)
        return
    known = [_read(file, quiet) for file in files]
    tree = _family(known)
    if as_json:
        print_json({"networks": [dataclasses.asdict(each) for each in known], "family": tree.to_dict()["kin"]})
    else:
        # If several files have the same weights, one with a record is used: the later entry wins.
        by_record = sorted(known, key=lambda each: each.accuracy is not None)
        facts = {each.weights: _facts(each) for each in by_record}
        _draw(tree, [facts.get(kin.network, "") for kin in tree.kin])


@dataclasses.dataclass(frozen=True)
class _Known:
    """A network file: its digest, lineage, size, and accuracy, if a record has one."""

    file: str
    weights: str
    lineage: dict[str, Any] | None
    parameters: int
    accuracy: float | None
    split: str | None


def _log_one(known: _Known, as_json: bool) -> None:
    """One network: its ancestors, oldest first, with every step."""
    from weightsmith.core.records import Lineage
    from weightsmith.networks.family import Family, Kin

    if as_json:
        print_json(dataclasses.asdict(known))
        return
    if known.lineage is None:
        text = f"{escape(Path(known.file).name)}: a file of another tool, which names no ancestors"
        out().print(f"[bold]{known.weights[:12]}[/bold]  {text}  {_facts(known)}", soft_wrap=True)
        return
    lineage = Lineage.from_dict(known.lineage)
    steps = [*lineage.ancestors, lineage]
    made = [*((step.parent or "unknown") for step in steps[1:]), known.weights]
    # Steps that changed nothing have the same digest, and a line of their own here: a list, not a tree.
    kin = [
        Kin(own, made[index - 1] if index else None, index, (step.operation,))
        for index, (own, step) in enumerate(zip(made, steps, strict=True))
    ]
    kin[-1] = dataclasses.replace(kin[-1], names=(known.file,))
    _draw(Family(tuple(kin)), [*("" for _ in kin[:-1]), _facts(known)])


def _draw(tree: Family, facts: Sequence[str]) -> None:
    """Print the tree, one unwrapped line for each network with its facts."""
    from weightsmith.networks.family import short_digest

    console = out()
    for branch, kin, fact in zip(tree.branches(plain=not can_show("├└│⋯")), tree.kin, facts, strict=True):
        digest = short_digest(kin.network)
        rest = kin.label.removeprefix(digest)
        line = f"{branch}[bold]{escape(digest)}[/bold]{escape(rest)}{'  ' if fact else ''}{fact}"
        console.print(line, soft_wrap=True)


def _facts(known: _Known) -> str:
    share = "" if known.accuracy is None else f"{100 * known.accuracy:.2f} % ({known.split}), "
    return f"[dim]{escape(share)}{count_text(known.parameters)} parameters[/dim]"


def _family(known: Sequence[_Known]) -> Family:
    from weightsmith.core.records import Lineage
    from weightsmith.networks.family import ancestry, family

    members: list[Member] = []
    for each in known:
        lineage = None if each.lineage is None else Lineage.from_dict(each.lineage)
        members += ancestry(each.weights, lineage, each.file)
    return family(members)


def _read(file: Path, quiet: bool) -> _Known:
    from weightsmith.chain.reading._nearby_records import nearby_accuracy, nearby_record

    digest, lineage, parameters = _opened(file)
    stored = None
    try:
        record = nearby_record(file, digest)
        stored = None if record is None else nearby_accuracy(file, digest, record)
    except FileRefused as error:  # the lineage is in the network, which is intact
        if not quiet:
            say_note(str(error))
    return _Known(
        file=str(file),
        weights=digest,
        lineage=None if lineage is None else lineage.to_dict(),
        parameters=parameters,
        accuracy=None if stored is None else stored.accuracy,
        split=None if stored is None else stored.split,
    )


def _opened(file: Path) -> tuple[str, Lineage | None, int]:
    """Digest, lineage (None in a file of another tool) and number of parameters."""
    from weightsmith.networks.card import weights_digest
    from weightsmith.networks.files import read_card
    from weightsmith.networks.layers.walk import walk
    from weightsmith.networks.weights import open_weights
    from weightsmith.spiking.files import is_spiking, load_spiking, spiking_digest

    if is_spiking(file):
        network = load_spiking(file)
        sizes = [node.weight.numel() + (0 if node.bias is None else node.bias.numel()) for node in network.synapses]
        return spiking_digest(network), network.card.lineage, sum(sizes)
    weights = open_weights(file)
    card = read_card(weights)
    return weights_digest(weights), None if card is None else card.lineage, walk(weights).parameters


def _networks_in(path: Path, quiet: bool) -> list[Path]:
    """``path`` itself if it is a network (a file, a result folder, a folder of shards), otherwise those in it."""
    from weightsmith.networks.weights import open_weights

    if not path.is_dir() or (path / _OWN).exists():
        return [path]
    ours: list[Path] = []
    others: list[Path] = []
    for file in _candidates(path, quiet):
        try:
            (ours if _is_ours(file) else others).append(file)
        except FileRefused as error:
            if not quiet:
                say_note(f"left out: {error}")
        if len(ours) + len(others) > _MOST_FILES:
            raise FileRefused(path, f"contains more than {_MOST_FILES:,} networks: give its subfolders instead")
    if ours:
        return ours
    try:
        open_weights(path)
    except FileRefused:
        if not others:
            raise
        return others
    return [path]


def _candidates(top: Path, quiet: bool) -> Iterator[Path]:
    """Result folders, and files elsewhere, sorted by name; a note on folders that were not searched."""
    from weightsmith.chain.reading._folders import Folders

    walk = Folders(top, levels=_LEVELS, most=_MOST_FOLDERS, end=lambda folder: (folder / _OWN).is_file())
    for folder in walk:
        if (folder / _OWN).is_file():
            yield folder
        else:
            yield from _files_in(folder)
    if quiet:
        return
    for error in walk.refused:
        say_note(f"left out: {error}")
    if walk.too_many:
        say_note(f"left out: {top} contains more than {_MOST_FOLDERS:,} folders; give its subfolders instead")
    if walk.deeper:
        count = len(walk.deeper)
        others = f" and in {count - 1:,} more" if count > 1 else ""
        say_note(f"left out: folders more than {_LEVELS} levels deep, in {walk.deeper[0]}{others}")


def _files_in(folder: Path) -> list[Path]:
    try:
        with reading(folder):
            inside = sorted(folder.iterdir())
    except FileRefused:
        return []  # the walk reports it
    return [file for file in inside if file.suffix == _SUFFIX and file.name != _CHECKPOINT and file.is_file()]


def _is_ours(file: Path) -> bool:
    from weightsmith.networks.files import read_card
    from weightsmith.networks.weights import open_weights
    from weightsmith.spiking.files import is_spiking

    return is_spiking(file) or read_card(open_weights(file)) is not None
