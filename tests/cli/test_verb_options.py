"""Every option of a verb is an option of its command, as the signature declares it."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from weightsmith.chain.linked_options import LINKS
from weightsmith.chain.stages import VERBS
from weightsmith.cli import _shared_options as given
from weightsmith.cli import app as module
from weightsmith.cli._verb_options import MORE, Options, examples_of, flag_of, options_of, takes_options_of
from weightsmith.core.errors import OptionError
from weightsmith.core.options import Range
from weightsmith.core.verbs import Doc, Parameter, Seed, declared, parameters, table, verb, written
from weightsmith.grading.layer import GradingOptions
from weightsmith.reducing.rounds import Task
from weightsmith.spiking.conversion.preparing import ConversionSettings
from weightsmith.training.settings import Settings


def callbacks(app: typer.Typer, before: str = "") -> dict[str, Any]:
    """All commands by what is typed, those of groups too."""
    found = {f"{before}{each.name}": each.callback for each in app.registered_commands}
    for group in app.registered_groups:
        found |= callbacks(group.typer_instance, f"{before}{group.name} ")
    return found


CALLBACKS = callbacks(module.app)
COMMANDS = {name: each.__verbs__ for name, each in CALLBACKS.items() if hasattr(each, "__verbs__")}
"""The commands that call verbs, with these."""
WITHOUT_VERB = {
    *("demo", "doctor", "faces", "log", "report", "theory", "recipe new", "reproduce", "networks list"),
    *(name for name in CALLBACKS if name.startswith("data ")),
}
ELSEWHERE = {"data", "file", "base", "recipe", "a", "b", "network", "path", "out", "settings", "x"}
"""Parameters of verbs that are no options: what it works on, and where it is written."""


def offered(command: str) -> dict[str, Parameter]:
    """Every plain option of the command's verbs; of the same name that of the first counts."""
    found: dict[str, Parameter] = {}
    for function in COMMANDS[command]:
        own = {name: each for name, each in parameters(function).items() if each.plain}
        found = own | found
    return {name: each for name, each in found.items() if name not in CALLBACKS[command].__without__}


DERIVED = [(command, name) for command in COMMANDS for name in offered(command)]


def click_command(name: str) -> Any:
    found = typer.main.get_command(module.app)
    for word in name.split():
        found = found.commands[word]  # type: ignore[attr-defined]
    return found


def click_option(command: str, name: str) -> Any:
    return next(each for each in click_command(command).params if each.name == name)


def test_every_command_is_derived_or_has_no_verb():
    assert set(CALLBACKS) - set(COMMANDS) == WITHOUT_VERB
    derived = {function.__name__ for functions in COMMANDS.values() for function in functions}
    verbs = {*(each.__name__ for each in VERBS.values()), "evaluate", "diff", "transfer", "tailor", "pipeline"}
    assert verbs | {"reduction_study", "export_nir", "train_sweep", "inspect"} <= derived


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_of_a_verb_is_written_again(command):
    """Every option of a command is derived, or of a name that none of its verbs has."""
    derived = set(offered(command)) | {each.name for each in LINKS.get(command, ())}
    own = {each.name for each in click_command(command).params} - derived
    signatures = {name for function in COMMANDS[command] for name in inspect.signature(function).parameters}
    assert own & signatures <= ELSEWHERE


@pytest.mark.parametrize(("command", "name"), DERIVED)
def test_every_plain_option_of_a_verb_is_one_of_its_command(command, name):
    links = {each.name: each for each in LINKS.get(command, ())}
    option = links.get(name, offered(command)[name])
    found = click_option(command, name)
    assert found.opts[0] == (option.doc.flag or flag_of(name))
    assert option.doc.text in found.help
    assert str(option.range) in found.help
    assert found.required == option.required
    panel = MORE if option.doc.surrounds or option.doc.rare else None
    assert getattr(found, "rich_help_panel", None) == panel
    if not option.required:
        usual = option.check(option.default)
        assert usual in (None, ()) if found.default is None else option.read(found.default) == usual


@pytest.mark.parametrize("command", COMMANDS)
def test_functions_and_objects_of_python_are_no_options(command):
    mute = [name for each in COMMANDS[command] for name, option in parameters(each).items() if not option.plain]
    linked = {each.name for each in LINKS.get(command, ())}
    names = {each.name for each in click_command(command).params}
    assert not (names - linked) & set(mute)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_knows_what_a_call_knows(command):
    """Types that are imported only when a verb is called change nothing of what help says."""
    for function in COMMANDS[command]:
        compare(declared(function), parameters(function))


def compare(light: Mapping[str, Parameter], full: Mapping[str, Parameter]) -> None:
    for name in full:
        assert (light[name].plain, light[name].several, light[name].optional) == (
            full[name].plain,
            full[name].several,
            full[name].optional,
        ), name
        assert full[name].imported or not full[name].members
        assert dataclasses.replace(light[name], hint=full[name].hint) == full[name]


def test_no_help_waits_for_torch():
    names = [*typer.main.get_command(module.app).commands]  # type: ignore[attr-defined]
    program = (
        "import sys\nfrom weightsmith.cli import main\n"
        f"for words in {[[], *([name] for name in names), ['sweep', 'train']]!r}:\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit as ended: assert not ended.code, words\n"
        "    assert 'torch' not in sys.modules, words\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("kind", "function", "otherwise"),
    [
        (Task, "reduce", {"method": "by", "recovery": "recover", "shares": "plan", "budget": "plan", "folder": "out"}),
        (ConversionSettings, "spike", {}),
        (ConversionSettings, "sweep", {"neuron": "leaks", "adjust": "smoothings", "mismatch": None, "calibrate": None}),
        (Settings, "train", {"left_open": None}),
        (GradingOptions, "grade", {}),
    ],
)
def test_what_the_work_is_given_is_what_the_signature_declares(kind, function, otherwise):
    """Every field is an option of that name, or of the other one that is named here; a sweep leaves two out, and
    training notes whether its first two were given at all."""
    names = {*inspect.signature(VERBS[function]).parameters, None}
    fields = [field.name for field in dataclasses.fields(kind)]
    assert [name for name in fields if otherwise.get(name, name) not in names] == []
    assert set(otherwise) <= set(fields)


# A verb of two options; adding a third is what the diff below shows.


def toy(more: bool) -> tuple[Any, Any]:
    if not more:

        @verb
        def polish(thing: Any, *, rows: Annotated[int, Range(ge=1), Doc("rows to polish")] = 5, seed: Seed = 0) -> Any:
            return written(polish, locals())
    else:

        @verb
        def polish(
            thing: Any,
            *,
            rows: Annotated[int, Range(ge=1), Doc("rows to polish")] = 5,
            shine: Annotated[float, Range(ge=0, le=1), Doc("how bright it gets")] = 0.5,
            seed: Seed = 0,
        ) -> Any:
            return written(polish, locals())

    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    @takes_options_of(polish, examples=("weightsmith polish brass --rows 3",))
    def command(thing: Annotated[Path, typer.Argument()], options: Options, quiet: given.Quiet = False) -> None:
        told.append(polish(str(thing), **options))

    told: list[Any] = []
    return polish, lambda *words: (told.clear(), app(list(words), standalone_mode=False), *told)[-1]


def test_an_option_of_two_lines_reaches_python_command_record_recipe_and_docs():
    (before, _), (after, call) = toy(more=False), toy(more=True)
    assert set(table(after)[1].values()) == {"shine", "a number", "0.5", "≥ 0, ≤ 1", "how bright it gets"}
    assert len(table(after)) == len(table(before)) + 1
    assert after("x", shine=1)["shine"] == 1.0
    assert call("x", "--shine", "0.25") == {"rows": 5, "shine": 0.25, "seed": 0}
    assert call("x") == after("x")
    assert parameters(after)["shine"].read("0.75") == 0.75  # as a recipe is read
    for wrong in ("2", "bright"):
        with pytest.raises(OptionError, match=rf"^--shine must be a number ≥ 0, ≤ 1, not '?{wrong}'?$"):
            call("x", "--shine", wrong)


def test_commands_take_some_options_and_some_more():
    polish, _ = toy(more=True)
    gloss = Parameter("gloss", str | None, None, doc=Doc("what it is called"))
    assert list(options_of(polish, without=("shine", "seed"), links=[gloss])) == ["rows", "gloss"]
    assert list(options_of(polish)) == ["rows", "shine", "seed"]


def test_values_are_read_before_the_command_runs(run):
    answer = run("reduce", "nowhere", "--data", "digits", "--by", "angles:45", "--random", "-1")
    assert (answer.code, answer.lines) == (2, ["weightsmith: --random must be a whole number ≥ 0, not -1"])
    answer = run("reduce", "nowhere", "--data", "digits", "--by", "angels:45")
    assert answer.code == 2
    assert "did you mean 'angles'" in answer.err


def test_help_ends_with_examples_in_two_groups(run):
    shown = run("spike", "--help").out
    assert shown.index("Options") < shown.index(MORE) < shown.index("Examples:")
    assert "$ weightsmith spike" in shown
    for name in ("--steps", "--neuron", "--test-rows"):
        assert shown.index(name) < shown.index(MORE)
    for name in ("--seed", "--device", "--settle"):
        assert shown.index(f"{name} ") > shown.index(MORE)


def test_examples_name_options_that_there_are():
    for name, command in typer.main.get_command(module.app).commands.items():  # type: ignore[attr-defined]
        known = {flag for option in command.params for flag in option.opts}
        words = (command.epilog or "").split()
        assert {word for word in words if word.startswith("--")} <= known, name
    assert examples_of(lambda: None) is None
