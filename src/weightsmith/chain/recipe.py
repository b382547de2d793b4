"""A chain as a recipe in TOML: which networks are trained, graded, reduced and converted, with options and seeds.

    data = "digits"
    seeds = [0, 1, 2]

    [train]                      # or, before all tables: network = "model.safetensors"
    network = "mlp:64,32"
    schedule = "cosine:0.1"

    [[reduce]]
    name = "small"
    by = "angles:45"

    [[spike]]
    of = "small"
    adjust = "l4:1.0"

Everything is checked before anything runs, and an error names the line and the key.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

from weightsmith.chain.stages import KINDS, REQUIRED, Stage, checked, uses_search
from weightsmith.core.errors import FileRefused, UnknownName, UsageError
from weightsmith.core.options import check_int
from weightsmith.core.storage import reading
from weightsmith.data.datasets import check_name
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.models.factories import check_leave, is_factory
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.recovery.recover import Recover, Rewind
from weightsmith.training.loop import train

__all__ = ["EXAMPLES", "Recipe", "example", "key_lines", "read_recipe"]


_TOP = ("data", "data_path", "network", "factory", "normalise", "seeds", "report", "title")
_GIVES_A_NETWORK = ("train", "reduce")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_TAKEN = {"record.json", "report.html", "journal.jsonl", "recipe.toml", "given"}
_EPOCHS = inspect.signature(train).parameters["epochs"].default
_LARGEST = 1 << 20  # bytes; far above any recipe


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A checked chain: every option was parsed, and every stage has the network of an earlier one."""

    data: str
    seeds: tuple[int, ...]
    stages: tuple[Stage, ...]
    data_path: str | None = None
    network: str | None = None
    factory: str | None = None
    normalise: str | None = None
    report: bool = True
    title: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The recipe as JSON values, for the record of a chain."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.factory is None:  # as in older records
            del plain["factory"]
        return plain | {"seeds": list(self.seeds), "stages": [dataclasses.asdict(stage) for stage in self.stages]}

    def check_code(self, allow_code: bool) -> None:
        """Refuse to import code that is not an installed package, unless the user allows it."""
        check_leave(self.code, allow_code, "factory" if self.factory else "train.network")

    @property
    def code(self) -> str | None:
        """The user's class or function that builds the network, if there is one."""
        asked = self.factory or next((each.options["network"] for each in self.stages if each.kind == "train"), "")
        return asked if is_factory(asked) else None

    @classmethod
    def from_tables(cls, values: Mapping[str, Any]) -> Self:
        """A recipe from the tables that its TOML form would have."""
        return cls(**_Reader(values, "recipe", {}).read())

    @classmethod
    def parse(cls, text: str, name: str = "recipe") -> Self:
        """A recipe from its TOML text; ``name`` is its name in errors.

        >>> Recipe.parse('data = "digits"\\n[train]\\nnetwork = "mlp:8"\\nepochs = "ten"\\n', "r.toml")
        Traceback (most recent call last):
        weightsmith.core.errors.UsageError: r.toml, line 4, train.epochs: epochs must be a whole number ≥ 1, not 'ten'
        """
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{name} is not TOML: {error}") from error
        except RecursionError as error:
            raise UsageError(f"{name}: brackets are nested too deeply") from error
        return cls(**_Reader(values, name, key_lines(text)).read())


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a file."""
    path = Path(path)
    with reading(path):
        size = path.stat().st_size
        content = path.read_bytes() if size <= _LARGEST else b""
    if size > _LARGEST:
        raise FileRefused(path, f"has {size:,} bytes, too many for a recipe")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileRefused(path, f"is not text in UTF-8 (byte {error.start})") from error
    try:
        return Recipe.parse(text, str(path))
    except UsageError as error:
        if isinstance(error.__cause__, tomllib.TOMLDecodeError | RecursionError):  # the file itself is not TOML
            raise FileRefused(path, str(error).removeprefix(str(path)).lstrip(": ")) from error
        raise


class _Reader:
    """Reads the tables of one recipe; every error names the key."""

    def __init__(self, values: Mapping[str, Any], name: str, lines: Mapping[_KeyPath, int]) -> None:
        self._values, self._name, self._lines = values, name, lines

    def read(self) -> dict[str, Any]:
        for key in self._values:
            if key not in _TOP and key not in KINDS:
                self._refuse((key,), str(UnknownName("key", key, [*_TOP, *KINDS])))
        top = {key: self._text(key) for key in ("data", "data_path", "network", "factory", "normalise", "title")}
        if top["data"] is None:
            raise UsageError(f'{self._name}: data is missing, as data = "digits"')
        self._attempt(("data",), lambda: check_name(str(top["data"])))
        if top["normalise"] is not None:
            if top["network"] is None:
                self._refuse(("normalise",), 'belongs to network = "a file"; for training write it in [train]')
            self._attempt(("normalise",), lambda: Normalisation.parse(str(top["normalise"])))
        if top["network"] is not None and not Path(top["network"]).exists():
            self._refuse(("network",), f"{top['network']}: no such file (looked for in {Path.cwd()})")
        if top["factory"] is not None:
            if top["network"] is None:
                self._refuse(("factory",), 'belongs to network = "a file"; in [train] it is network = "mynet:PartNet"')
            if not is_factory(top["factory"]):
                self._refuse(("factory",), f"{top['factory']} is not a class or function such as mynet:PartNet")
        report = self._values.get("report", True)
        if not isinstance(report, bool):
            self._refuse(("report",), f"must be true or false, not {report!r}")
        stages = tuple(self._in_order(list(self._stages(top["network"] is not None))))
        return {**top, "seeds": self._seeds(), "stages": stages, "report": report}

    def _seeds(self) -> tuple[int, ...]:
        given = self._values.get("seeds", [0])
        several = given if isinstance(given, list | tuple) else [given]
        seeds: tuple[int, ...] = self._attempt(
            ("seeds",), lambda: tuple(check_int("a seed", s, least=0) for s in several)
        )
        if not seeds or len(set(seeds)) < len(seeds):
            self._refuse(("seeds",), "give at least one seed, and none twice")
        return seeds

    def _text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self._refuse((key,), f"must be text in quotes, not {value!r}")
        return value

    def _stages(self, has_network: bool) -> Iterator[tuple[_KeyPath, Stage]]:
        if has_network == ("train" in self._values):
            both = 'has both network = "…" and [train]' if has_network else 'needs [train], or network = "a file"'
            raise UsageError(f"{self._name} {both}: one of them says where the network comes from")
        for kind in KINDS:
            tables = self._values.get(kind, [])
            many = isinstance(tables, list | tuple)
            if kind == "train" and many and tables:
                self._refuse((kind,), "only one network is trained: write [train], not [[train]]")
            for number, table in enumerate(tables if many else [tables]):
                key_path: _KeyPath = (kind, number) if many else (kind,)
                if not isinstance(table, Mapping):
                    self._refuse(key_path, f"must be a table such as [[{kind}]], not {table!r}")
                plain = kind if number == 0 else f"{kind}-{number + 1}"
                yield key_path, self._stage(kind, plain, key_path, table)
        if not any(self._values.get(kind) is not None for kind in KINDS):
            raise UsageError(f"{self._name} has no stage: give [train], [[grade]], [[reduce]] or [[spike]]")

    def _stage(self, kind: str, plain: str, key_path: _KeyPath, table: Mapping[str, Any]) -> Stage:
        options = {}
        for key, value in table.items():
            if key not in ("name", "of"):
                options[key] = self._attempt((*key_path, key), lambda key=key, value=value: checked(kind, key, value))
        for key in REQUIRED.get(kind, ()):
            if key not in options:
                self._refuse(key_path, f"{key} is missing")
        name, of = table.get("name", plain), table.get("of")
        for key, text in (("name", name), ("of", of)):
            if text is not None and not (isinstance(text, str) and _NAME.fullmatch(text)):
                self._refuse((*key_path, key), f"must be a short word of letters, digits, dots, - and _, not {text!r}")
            if text in _TAKEN:
                self._refuse((*key_path, key), f"{text} is a name that every chain uses itself: choose another")
        if kind == "train" and of is not None:
            self._refuse((*key_path, "of"), "training builds its own network: leave of out")
        return Stage(kind, name, of, options)

    def _in_order(self, found: list[tuple[_KeyPath, Stage]]) -> Iterator[Stage]:
        """The stages, each after the one whose network it takes, with defaults filled in."""
        names: dict[str, Stage] = {}
        for key_path, stage in found:
            if stage.name.lower() in {name.lower() for name in names}:
                self._refuse((*key_path, "name"), f"two stages are called {stage.name!r}: rename one")
            names[stage.name] = stage
        sources = [stage.name for _, stage in found if stage.kind in _GIVES_A_NETWORK]
        trained = next((stage.name for _, stage in found if stage.kind == "train"), None)
        waiting: list[tuple[_KeyPath, Stage]] = []
        for key_path, stage in found:
            of = stage.of
            if of is None and stage.kind in ("spike", "sweep") and sources:
                of = sources[-1]
            elif of is None and stage.kind != "train":
                of = trained
            elif of is not None and of not in sources:
                self._refuse((*key_path, "of"), str(UnknownName("stage that gives a network", of, sources)))
            waiting.append((key_path, dataclasses.replace(stage, of=of)))
        done: set[str | None] = {None}
        while waiting:
            ready = next((item for item in waiting if item[1].of in done), None)
            if ready is None:
                key_path, stage = waiting[0]
                self._refuse((*key_path, "of"), f"{stage.name} waits for {stage.of}, which waits for it in turn")
            waiting.remove(ready)
            self._check_together(ready[0], ready[1], names)
            done.add(ready[1].name)
            yield ready[1]

    def _check_together(self, key_path: _KeyPath, stage: Stage, names: Mapping[str, Stage]) -> None:
        """Checks that involve several options."""
        options = stage.options
        if stage.kind == "train":
            last = options.get("epochs", _EPOCHS)
            late = [epoch for epoch in options.get("keep", ()) if epoch > last]
            if late:
                self._refuse((*key_path, "keep"), f"epoch {late[0]} is after the last epoch, {last}")
        if stage.kind != "reduce":
            return
        method = Method.parse(options["by"])
        named = options.get("plan") in ("uniform", "norm", "alpha")
        if options.get("target") is None and (named or (method.needs_target and "plan" not in options)):
            self._refuse((*key_path, "plan" if named else "by"), 'needs a target, such as target = "params:0.5"')
        if "plan" in options and not named and not Path(options["plan"]).is_file():
            self._refuse(
                (*key_path, "plan"), f"{options['plan']} is neither uniform, norm, alpha nor the file of a plan"
            )
        if options.get("price", "units") != "units" and not uses_search(stage):
            self._refuse(
                (*key_path, "price"), f"{method} does not search, so a price has no effect: use genetic or pareto"
            )
        recovery = None if options.get("recover") is None else Recover.parse(options["recover"])
        if isinstance(recovery, Rewind):
            source = None if stage.of is None else names[stage.of]
            if source is None or source.kind != "train":
                self._refuse((*key_path, "recover"), f"{recovery} rewinds the run of [train]: set of to that stage")
            if recovery.epoch >= source.options.get("epochs", _EPOCHS):
                self._refuse((*key_path, "recover"), f"{recovery} must rewind to an epoch before the last one")
            if recovery.weights and recovery.epoch not in source.options.get("keep", ()):
                self._refuse((*key_path, "recover"), f"{recovery} needs keep = [{recovery.epoch}] in [train]")

    def _attempt(self, key_path: _KeyPath, work: Any) -> Any:
        try:
            return work()
        except (UsageError, FileRefused) as error:
            self._refuse(key_path, str(error))

    def _refuse(self, key_path: _KeyPath, why: str) -> NoReturn:
        known = next((key_path[:end] for end in range(len(key_path), 0, -1) if key_path[:end] in self._lines), None)
        line = "" if known is None else f", line {self._lines[known]}"
        where = ".".join(str(part + 1) if isinstance(part, int) else part for part in key_path)
        raise UsageError(f"{self._name}{line}, {where}: {why}")


# The line of each key in a TOML text, which the parser of the standard library does not give.
#
# The text is valid TOML at this point, so only headers, keys and the ends of values have to be found.


_KeyPath = tuple[str | int, ...]
"""The path of a value: ``("train", "epochs")``, ``("reduce", 1, "by")``."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_BARE_KEY = re.compile(rf"\s*({_PART})\s*")
_HEADER = re.compile(r"\[(\[?)")
# Tokens that end, open or close something inside a value: strings of four kinds, comments, brackets, newlines.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n', re.DOTALL
)


def key_lines(text: str) -> dict[_KeyPath, int]:
    """The line, counted from 1, of every table and of every key outside inline tables.

    >>> key_lines('data = "digits"\\n[train]\\nepochs = 3\\n[[reduce]]\\nby = "groups"\\n')
    {('data',): 1, ('train',): 2, ('train', 'epochs'): 3, ('reduce',): 4, ('reduce', 0): 4, ('reduce', 0, 'by'): 5}
    """
    text = text.replace("\r\n", "\n")
    lines: dict[_KeyPath, int] = {}
    counts: dict[_KeyPath, int] = {}
    table: _KeyPath = ()
    position, line, counted = 0, 1, 0
    while position < len(text):
        rest = re.compile(r"(?:\s|#[^\n]*)*").match(text, position)
        position = position if rest is None else rest.end()
        if position >= len(text):
            break
        line, counted = line + text.count("\n", counted, position), position
        header = _HEADER.match(text, position)
        start = position if header is None else header.end()
        names, position = _names(text, start)
        if header is None:
            lines.setdefault((*table, *names), line)
            position = _after_value(text, position)
            continue
        table = _inside(names[:-1], counts)
        lines.setdefault((*table, names[-1]), line)
        table = (*table, names[-1])
        if header[1]:
            counts[table] = counts.get(table, -1) + 1
            table = (*table, counts[table])
            lines[table] = line
        elif table in counts:
            table = (*table, counts[table])
        position = _after_value(text, position)
    return lines


def _names(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """The parts of a dotted key, and where they end."""
    names: list[str] = []
    while found := _BARE_KEY.match(text, position):
        part = found[1]
        names.append(next(iter(tomllib.loads(f"{part} = 0"))))
        position = found.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    return tuple(names), position


def _inside(names: tuple[str, ...], counts: dict[_KeyPath, int]) -> _KeyPath:
    """The table that dotted names lead to, through the last entry of every array of tables."""
    key_path: _KeyPath = ()
    for name in names:
        key_path = (*key_path, name)
        if key_path in counts:
            key_path = (*key_path, counts[key_path])
    return key_path


def _after_value(text: str, position: int) -> int:
    """The end of the line on which the value after ``position`` is complete."""
    depth = 0
    for token in _TOKEN.finditer(text, position):
        found = token[0]
        if found == "\n" and depth <= 0:
            return token.end()
        depth += (found in "[{") - (found in "]}") if len(found) == 1 and found != "\n" else 0
    return len(text)


# Recipes that come with weightsmith: three demonstrations, and a commented template.


EXAMPLES = {
    "new": "every stage once, with comments",
    "digits": "what weightsmith demo does",
    "fashion-mnist": "what weightsmith demo --data fashion-mnist does",
    "cifar10": "what weightsmith demo --data cifar10 does",
}
"""The recipes by name, with a description."""


def example(name: str) -> str:
    """The TOML text of a recipe.

    >>> example("digits").splitlines()[0]
    '# The chain of `weightsmith demo`, less than a minute: train, grade, cut, convert to few steps, report.'
    """
    if name not in EXAMPLES:
        raise UnknownName("recipe", name, EXAMPLES)
    return (importlib.resources.files("weightsmith.chain") / "recipes" / f"{name}.toml").read_text("utf-8")
