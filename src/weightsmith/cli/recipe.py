"""``weightsmith recipe``: write a commented recipe, or check one without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weightsmith.chain import pipeline as verb
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import help_without_command, out, table
from weightsmith.core.errors import UsageError

__all__ = ["app", "check", "new"]

app = typer.Typer(
    help="Recipes of weightsmith pipeline: write one, check one.",
    callback=help_without_command,
    invoke_without_command=True,
)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("recipe.toml"),
    like: Annotated[
        str, typer.Option(help="The template: new (commented), digits, fashion-mnist or cifar10 (of weightsmith demo).")
    ] = "new",
) -> None:
    """Write a recipe with comments, to be edited and given to weightsmith pipeline."""
    from weightsmith.chain.recipe import example
    from weightsmith.core.storage import write_atomic

    text = example(like)
    if file.exists():
        raise UsageError(f"{file} exists already and is not overwritten: give another name")
    write_atomic(file, text)
    out().print(f"{escape(str(file))} is written. Next: weightsmith pipeline {escape(str(file))} --out runs/chain")


@app.command("check")
@takes_options_of(verb.check_recipe)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", readable=False, help="A recipe.")], options: Options
) -> None:
    """Read a recipe and its data, build its network, try each stage on two rows; list what would run, in order."""
    recipe = verb.check_recipe(file, **options)
    made = table("stage", "what", "of", "options")
    for stage in recipe.stages:
        given = ", ".join(f"{key}={value}" for key, value in stage.options.items())
        made.add_row(*(escape(text) for text in (stage.name, stage.kind, stage.of or recipe.network or "–", given)))
    out().print(made)
    seeds = ", ".join(map(str, recipe.seeds))
    out().print(f"{len(recipe.stages)} stages on {escape(recipe.data)}, seed{'s' * (len(recipe.seeds) > 1)} {seeds}")
