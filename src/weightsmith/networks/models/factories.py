"""User-defined networks by name: ``mynet:PartNet``, ``mynet.py:PartNet``, ``mynet:PartNet,width=32``.

Before the colon is a module (on Python's path or in the current folder) or a Python file; after it a class or function
that returns a network, and options by name. Naming a network runs its code, so only the user can name one: the factory
on a file's card is never imported, and a recipe, which may come from others, needs permission for anything that is not
an installed package (:func:`check_leave`).

>>> Factory.parse("nets/mynet.py:PartNet,width=32")
Factory(source='nets/mynet.py', name='PartNet', options={'width': 32})
>>> str(Factory.parse("mynet:PartNet").with_options(width=8, kind="wide"))
'mynet:PartNet,width=8,kind=wide'
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import torch
from torch import nn

from weightsmith.core.errors import FileRefused, UnknownName, UsageError
from weightsmith.core.seeds import subseed
from weightsmith.core.text import quote, read_value, split_items
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.running import FAILURES

__all__ = ["Factory", "check_class_named", "check_leave", "is_factory"]


def is_factory(text: str) -> bool:
    """Whether ``text`` names a class or function (``package.module:function``) and not one of our architectures."""
    source, colon, rest = text.rpartition(":") if ".py:" not in text else text.partition(":")
    name = rest.partition(",")[0].strip()
    known = source.endswith(".py") or re.fullmatch(r"[A-Za-z_][\w.]*", source)
    return bool(colon and known and re.fullmatch(r"[A-Za-z_]\w*", name)) and source not in Architecture.members


@dataclasses.dataclass(frozen=True)
class Factory:
    """A user-defined class or function, and the options it is called with."""

    source: str
    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form."""
        source, _, rest = text.partition(".py:") if ".py:" in text else text.partition(":")
        (name, *plain), named = split_items(rest, text)
        if plain:
            raise UsageError(f"{text}: options of a network of your own are given by name ({name},width=32)")
        return cls(f"{source}.py" if ".py:" in text else source, name, {key: read_value(value) for key, value in named})

    def __str__(self) -> str:
        return f"{self.source}:{self.name}" + "".join(f",{key}={quote(value)}" for key, value in self.options.items())

    def with_options(self, **options: Any) -> Self:
        """The same factory with added or changed options."""
        return dataclasses.replace(self, options={**self.options, **options})

    def build(self, seed: int = 0) -> nn.Module:
        """The network, its weights drawn by the seed; its card names the factory."""
        function = self.function
        try:
            inspect.signature(function).bind(**self.options)
        except TypeError as error:
            raise UsageError(
                f"{self}: cannot be called like that ({error}); its parameters are "
                f"{inspect.signature(function)}, given as {self.source}:{self.name},name=value"
            ) from error
        for name, parameter in inspect.signature(function).parameters.items():
            given, usual = self.options.get(name), parameter.default
            if isinstance(given, str) and isinstance(usual, int | float):
                raise UsageError(f"{self}: {name} takes a number, such as its default {usual}, not {given!r}")
        # The user's layers draw their weights from torch's global generator, which is seeded for this call.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(subseed(seed, "initialise"))
            try:
                network = function(**self.options)
            except FAILURES as error:
                raise UsageError(f"{self}: fails ({type(error).__name__}: {error})") from error
        if not isinstance(network, nn.Module):
            raise UsageError(f"{self}: gives a {type(network).__name__}, not a torch.nn.Module")
        return with_card(network, dataclasses.replace(card_of(network), factory=str(self)))

    @property
    def function(self) -> Callable[..., Any]:
        """The class or function itself; its module is imported."""
        module = self._imported()
        found: Callable[..., Any] | None = getattr(module, self.name, None)
        if not callable(found):
            known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise UsageError(
                f"{self}: {self.source} has no {self.name!r}{_near(self.name, known)} "
                f"(it has {', '.join(known) or 'nothing to call'})"
            )
        return found

    @property
    def is_installed(self) -> bool:
        """Whether it belongs to an installed package or to Python itself; nothing is imported to check."""
        top = self.source.partition(".")[0]
        installed = top in sys.stdlib_module_names or top in importlib.metadata.packages_distributions()
        return installed and not self.source.endswith(".py")

    def _imported(self) -> ModuleType:
        folder = Path(self.source).parent if self.source.endswith(".py") else Path()
        # An installed package is never searched in the current folder, where another file may have its name.
        with _importable(None if self.is_installed else folder):
            try:
                return (
                    _of_file(Path(self.source)) if self.source.endswith(".py") else importlib.import_module(self.source)
                )
            except FileRefused as error:
                raise UsageError(f"{self}: {error}") from error
            except ModuleNotFoundError as error:
                unknown = UnknownName("network", self.source, Architecture.members)
                raise UsageError(f"{self}: no module {error.name!r} to import; {unknown}") from error
            except (ImportError, SyntaxError, NameError, *FAILURES) as error:
                raise UsageError(f"{self}: importing {self.source} fails ({type(error).__name__}: {error})") from error


def check_class_named(text: str) -> None:
    """Refuse a Python file given without a class name; the file is parsed, not imported."""
    path = Path(text)
    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        raise UsageError(f"{text}: name the class or function, as {text}:NAME") from None
    names = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
    raise UsageError(f"{text}: name its class: {' or '.join(f'{text}:{name}' for name in names or ['NAME'])}")


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_leave(text: str | None, allow_code: bool, where: str) -> None:
    """Refuse a recipe that names code outside installed packages, unless the user allows it."""
    if text is None or allow_code or not is_factory(text):
        return
    factory = Factory.parse(text)
    if not factory.is_installed:
        raise UsageError(
            f"{where}: would import {factory.source}, which is not an installed package, and run its code; review it "
            "and allow it with --allow-code (allow_code=True)"
        )


def _of_file(path: Path) -> ModuleType:
    """The module in a Python file, imported once."""
    if not path.is_file():
        there = [each.name for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise FileRefused(path, f"no such file{_near(path.name, there)} (looked for in {Path.cwd()})")
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    # If the name is taken, a digest of the path is appended.
    name = path.stem if known is None else f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """Put ``folder`` on Python's path, so that ``mynets:build`` finds mynets.py and a file finds its neighbours."""
    if folder is None:
        yield
        return
    here = str(folder.resolve())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
