"""Every hint leads somewhere: options and commands that a message names exist, and `try next` can be typed."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from weightsmith.cli.app import app

SOURCE = Path(__file__).parents[2] / "src" / "weightsmith"
COMMANDS = typer.main.get_command(app).commands
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
COMMAND = re.compile(r"\bweightsmith ([a-z][a-z-]+)(?= [A-Za-z.…/{-]|$|:)")
# What every program has, and the words that follow the project's name in plain sentences.
OTHERS = {"--help", "--debug", "--version", "--no-"}
WORDS = {"is", "needs", "has", "and", "reads", "writes", "cannot", "does", "have", "name", "as"}


def leaves(command, path=()):
    """All commands, those inside groups too, by their words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        yield from leaves(each, (*path, name))


ALL = dict(leaves(typer.main.get_command(app)))
KNOWN = {name for command in ALL.values() for each in command.params for name in (*each.opts, *each.secondary_opts)}


def texts(tree: ast.AST):
    """Every text in a file, placeholders of f-strings as {}; docstrings apart."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docs | inside):
            yield node.lineno, node.value


def messages():
    for file in sorted(SOURCE.rglob("*.py")):
        for line, text in texts(ast.parse(file.read_text())):
            yield f"{file.relative_to(SOURCE)}:{line}", text


def test_every_option_that_a_message_names_exists():
    named = [(where, option) for where, text in messages() if "var" not in text for option in OPTION.findall(text)]
    assert len(named) > 200
    assert [(where, option) for where, option in named if option not in KNOWN | OTHERS] == []


def test_every_command_that_a_message_names_exists():
    named = [(where, word) for where, text in messages() for word in COMMAND.findall(text)]
    assert len(named) > 30
    assert [(where, word) for where, word in named if word not in COMMANDS and word not in WORDS] == []


def followed(words: tuple[str, ...], hint: str) -> list[list[str]]:
    """The calls that a hint asks for: the same call with each option that it names, or the command in it."""
    hint = hint.replace("export … ", f"export {words[words.index('--out') + 1] if '--out' in words else ''} ")
    if (command := re.match(r"weightsmith ([^:…]+):", hint)) is not None:
        return [shlex.split(command[1])]
    takes = {name: each for each in ALL[words[:1]].params for name in each.opts}
    calls = []
    for option in re.finditer(r"(?<!without )(--[a-z-]+)(?: ([\w.:,=%/+-]*[\w%]))?", hint):
        if (each := takes.get(option[1])) is None or "FOLDER" in option[0]:
            continue
        left = list(words)
        if option[1] in left:
            del left[left.index(option[1]) : left.index(option[1]) + 2]
        calls.append([*left, option[1], *([] if each.is_flag else [option[2]])])
    return calls


def run_in_new_folder(run, call: list[str], number: int):
    if "--out" in call:
        call = [*call]
        call[call.index("--out") + 1] += f"-{number}"
    return run(*call)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "train digits --network mlp:12 --epochs 2 --out made",
        "train digits --network mlp:12 --epochs 3 --schedule 1000 --out made",
        "reduce base --data digits --by magnitude --target params:0.3 --out made",
        "spike base --data digits --neuron if --steps 2 --test-rows 50 --figures none --out made",
    ],
    ids=lambda words: " ".join(words.split()[:1] + words.split()[3:7]),
)
def test_what_is_to_be_tried_next_can_be_typed(words, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("train", "digits", "--network", "mlp:16", "--epochs", "3", "--out", "base", "--quiet").code == 0
    call = (*words.split(), "--quiet")
    first = run(*call, "--json")
    assert first.code in (0, 1), first.err
    answer = json.loads(first.out)
    hints = answer.get("description", answer).get("try_next") or answer.get("try_next")
    assert hints, "no hint to follow"
    calls = [each for hint in hints for each in followed(call, hint)]
    assert calls, hints
    for number, each in enumerate(calls):
        tried = run_in_new_folder(run, each, number)
        assert tried.code in (0, 1), f"{shlex.join(each)}: {tried.err}"
