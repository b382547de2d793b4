"""``weightsmith networks``: list the architectures that can be built or recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import help_without_command, out, print_json, table

if TYPE_CHECKING:
    from weightsmith.core.options import Option

__all__ = ["app", "list_networks"]

app = typer.Typer(help="Network architectures and their options.", invoke_without_command=True)
app.callback()(help_without_command)


@app.command("list")
def list_networks(as_json: given.AsJson = False) -> None:
    """List the architectures with their parameters; the text form is NAME:values,key=value."""
    from weightsmith.networks import Architecture, build  # noqa: F401  (what can be built is known then)

    found = {name: (_summary(member), member.table()) for name, member in sorted(Architecture.members.items())}
    if as_json:
        print_json({name: {"about": about, "parameters": rows} for name, (about, rows) in found.items()})
        return
    for name, (about, rows) in found.items():
        out().print(f"\n[bold]{name}[/bold]  {escape(about)}")
        listed = table("  parameter", "type", "default", "range", "meaning")
        for row in rows:
            cells = (f"  {row['name']}", row["type"], row["default"], row["range"], row["doc"])
            listed.add_row(*map(escape, cells))
        out().print(listed)
    example, own = r"[bold]vgg:5,classifier=\[512,512][/bold]", "[bold]package.module:build[/bold]"
    out().print(f"\nfor example  {example}  or your own function  {own}")


def _summary(member: type[Option]) -> str:
    return (member.__doc__ or "").partition("\n")[0].replace("``", "")
