"""``weightsmith log NETWORK``: the ancestry of a network file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.tree import Tree

from weightsmith.cli.terminal import out, print_json

if TYPE_CHECKING:
    from weightsmith.networks.card import Card

__all__ = ["log"]


def log(
    file: Annotated[Path, typer.Argument(metavar="NETWORK", readable=False, help="A network file or result folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how a network came to be: the operations that made it, and the digests of its ancestors."""
    from weightsmith.networks.card import weights_digest
    from weightsmith.networks.files import read_card
    from weightsmith.networks.weights import open_weights
    from weightsmith.spiking.files import is_spiking, load_spiking, spiking_digest

    if is_spiking(file):
        network = load_spiking(file)
        card: Card | None = network.card
        digest = spiking_digest(network)
    else:
        weights = open_weights(file)
        card, digest = read_card(weights), weights_digest(weights)
    steps = [] if card is None else [*card.lineage.ancestors, card.lineage]
    if as_json:
        print_json({"file": str(file), "weights": digest, "lineage": card.lineage.to_dict() if card else None})
        return
    if not steps:
        out().print(f"[bold]{digest[:12]}[/bold]  {escape(file.name)}: a file of another tool, it names no ancestors")
        return
    digests = [*(step.parent for step in steps[1:]), digest]
    tree = top = Tree("", hide_root=True)
    for step, made in zip(steps, digests, strict=True):
        tree = tree.add(f"[bold]{(made or 'unknown')[:12]}[/bold]  {escape(step.operation)}")
    out().print(top)
