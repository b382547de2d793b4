"""The options of a command, derived from the signature of the verb that it calls.

    @takes_options_of(reduce, …)
    def reduce(file: given.NetworkFile, options: Options, out: given.Out = None) -> None:

gives the command every option of the signature that can be written as text, with its default, range and help line;
``options`` holds the given values, parsed and checked as in a recipe before the command runs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from weightsmith.core.options import Range
from weightsmith.core.verbs import Doc, Parameter, declared, parameters

__all__ = ["MORE", "Options", "examples_of", "flag_of", "options_of", "surrounding", "takes_options_of"]

MORE = "More options"
"""The second group of a command's help: rarely needed options."""

Options = dict[str, Any]
"""The checked options of a command, by the verb's parameter names."""


def options_of(
    *functions: Callable[..., Any], links: Iterable[Parameter] = (), without: Collection[str] = ()
) -> dict[str, Parameter]:
    """The options that a command takes from its verbs and from ``links``, without importing their types.

    If two verbs have an option of the same name, the first verb's counts.
    """
    own: dict[str, Parameter] = {}
    for function in functions:
        plain = {name: each for name, each in declared(function).items() if each.plain and name not in without}
        own = own | {name: each for name, each in plain.items() if name not in own}
    return own | {link.name: link for link in links}


def flag_of(name: str) -> str:
    """``--test-rows`` for ``test_rows``."""
    return "--" + name.replace("_", "-")


def surrounding(name: str, annotation: Any) -> Any:
    """A general option, such as ``core.verbs.Seed``, for a command that derives no options from a verb."""
    doc = next(each for each in get_args(annotation) if isinstance(each, Doc))
    bounds = next((each for each in get_args(annotation) if isinstance(each, Range)), Range())
    return typer.Option(flag_of(name), min=bounds.ge, help=doc.text, rich_help_panel=MORE)


def takes_options_of(
    *functions: Callable[..., Any],
    links: Iterable[Parameter] = (),
    without: Collection[str] = (),
    compared: Collection[str] = (),
    examples: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of ``functions``, in place of its parameter ``options``.

    ``links`` are additional options, ``without`` names omitted ones; options in ``compared`` may be repeated although
    the verb takes one value. ``examples`` are printed at the end of the help.
    """
    offered = options_of(*functions, links=links, without=without)
    linked = {link.name for link in links}
    home = {name: each for each in reversed(functions) for name in declared(each)}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shown: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            if own.name == "options":
                shown += [_as_typer_has_it(each, each.name in compared) for each in offered.values()]
            else:
                shown.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        @functools.wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in offered}
            read: Options = {}
            for name in sorted(
                offered, key=lambda name: not offered[name].imported
            ):  # import torch only if the rest is valid
                light = offered[name]
                full = light if light.imported or name in linked else parameters(home[name])[name]
                read[name] = _read(full, given[name], name in compared)
            command(**values, options={name: read[name] for name in offered})

        run.__dict__.update(
            __signature__=inspect.Signature(shown),
            __annotations__={each.name: each.annotation for each in shown},
            __examples__=tuple(examples),
            __verbs__=functions,
            __without__=frozenset(without),
        )
        return run

    return decorate


def examples_of(command: Callable[..., None]) -> str | None:
    """The examples of a command as the end of its help, or None."""
    examples = getattr(command, "__examples__", ())
    return "\n\n".join(("Examples:", *(f"$ {line}" for line in examples))) if examples else None


def _read(option: Parameter, given: Any, compared: bool) -> Any:
    """The value that is used; errors name the option as it is typed."""
    typed = dataclasses.replace(option, name=option.doc.flag or flag_of(option.name))
    if given is None or given == []:
        return typed.check(option.default)
    if compared:
        return tuple(typed.read(each) for each in given)
    return typed.read(given)


def _as_typer_has_it(option: Parameter, compared: bool) -> inspect.Parameter:
    """One option as a typer declaration; all except switches and choices are text."""
    kind: Any = str
    metavar: str | None = _metavar(option)
    names, help_text = [option.doc.flag or flag_of(option.name)], option.doc.text
    words = [each for each in option.kinds if get_origin(each) is Literal]
    if option.kinds == (bool,):
        kind, metavar = bool, None
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    elif compared or _is_repeated(option):
        kind, help_text = list[str], f"{help_text}; may be repeated"
    elif words and not option.several and len(option.kinds) == 1:
        kind, metavar = words[0], None
    if str(option.range):
        help_text = f"{help_text} ({option.range})"
    default = _default_text(option)
    declaration = typer.Option(
        *names,
        help=help_text,
        metavar=metavar,
        rich_help_panel=MORE if option.doc.surrounds or option.doc.rare else None,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.required else default,
        annotation=Annotated[kind | None if default is None and not option.required else kind, declaration],
    )


def _is_repeated(option: Parameter) -> bool:
    """Whether several values are given by repeating the option, because text may contain commas."""
    return option.several and (bool(option.members) or not option.imported or str in option.kinds)


def _metavar(option: Parameter) -> str:
    names: Mapping[Any, str] = {float: "number", int: "int"}
    words = [names[each] for each in names if each in option.kinds] or ["text"]
    word = "text" if str in option.kinds or not option.imported else words[0]
    return f"<{word},…>" if option.several and not _is_repeated(option) else f"<{word}>"


def _default_text(option: Parameter) -> Any:
    """The default as typed on the command line; None if there is none."""
    if option.required or option.default is None or option.default == ():
        return None
    if isinstance(option.default, bool):
        return option.default
    values = option.default if isinstance(option.default, tuple) else (option.default,)
    if _is_repeated(option):
        return [str(option.written(value)) for value in values]
    return ",".join(f"{value:g}" if isinstance(value, float) else str(option.written(value)) for value in values)
