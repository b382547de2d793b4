"""Everything about a verb's options follows from its signature."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.options import Option, Range, param
from weightsmith.core.verbs import Batch, Doc, Parameter, Seed, parameters, table, verb, written
from weightsmith.networks.contents import inspect as inspect_file
from weightsmith.spiking.evaluating import evaluate_spiking
from weightsmith.training.sweep import train_sweep

if TYPE_CHECKING:
    from nowhere import Missing


class Colour(Option):
    """A family for the tests."""


class Red(Colour, name="red"):
    """A member."""

    depth: int = param(default=1, ge=0)


class Blue(Colour, name="blue"):
    """Another."""


class Nothing(Colour, name="none"):
    """A member with the name of absence."""


@verb
def paint(
    wall: Any,
    *,
    colour: Annotated[Colour | str, Doc("the colour")] = "red",
    second: Annotated[Red | Blue | str | None, Doc("another one")] = None,
    coats: Annotated[int, Range(ge=1), Doc("how often")] = 2,
    share: Annotated[float | None, Range(ge=0, le=1), Doc("how much of it")] = None,
    sides: Annotated[Sequence[int] | int, Range(ge=0, min_length=1), Doc("which sides")] = (0, 1),
    marks: Annotated[Sequence[Colour | str] | Colour | str, Doc("marks on it")] = (),
    finish: Annotated[Literal["matt", "gloss"], Doc("how it looks")] = "matt",
    dry: Annotated[bool, Doc("wait for it", recorded=False)] = True,
    note: Annotated[str | None, Doc("words")] = None,
    judge: Annotated[Callable[[Any], float] | None, Doc("a function of your own")] = None,
    into: Annotated[Missing[int] | str | None, Doc("imported for type checkers only")] = None,
    seed: Seed = 0,
    batch: Batch = 8,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Paint."""
    return {**locals(), "settings": written(paint, locals())}


def test_a_call_is_given_objects_and_numbers():
    made = paint("north", colour="red:2", coats=np.int64(3), sides=4, marks=[Blue(), "red"], share=1)
    assert (made["wall"], made["colour"], made["coats"], made["sides"]) == ("north", Red(2), 3, (4,))
    assert made["marks"] == (Blue(), Red())
    assert made["share"] == 1.0
    assert isinstance(made["share"], float)


def test_defaults_are_read_too():
    assert paint("north")["colour"] == Red()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"coats": 0}, "coats must be a whole number ≥ 1, not 0"),
        ({"coats": 1.5}, "coats must be a whole number ≥ 1, not 1.5"),
        ({"coats": True}, "coats must be a whole number ≥ 1, not True"),
        ({"coats": None}, "coats must be a whole number ≥ 1, not None"),
        ({"share": 1.5}, "share must be a number ≥ 0, ≤ 1, not 1.5"),
        ({"share": "much"}, "share must be a number ≥ 0, ≤ 1, not 'much'"),
        ({"sides": []}, r"sides needs at least 1 value\(s\), not 0"),
        ({"sides": [-1]}, "sides must be"),
        ({"finish": "dull"}, "finish must be one of matt, gloss, not 'dull'"),
        ({"dry": 1}, "dry must be true or false, not 1"),
        ({"colour": "grene"}, "unknown colour 'grene'"),
        ({"colour": 3}, "colour must be one of red, blue, none"),
        ({"second": "none:"}, "second must be one of red, blue, not none"),
        ({"marks": ["red", "bleu"]}, "did you mean 'blue'"),
        ({"seed": -1}, "seed must be a whole number ≥ 0, not -1"),
    ],
)
def test_what_is_wrong_is_named_with_its_range(given, message):
    with pytest.raises((OptionError, UnknownName), match=message):
        paint("north", **given)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("coats", "3", 3),
        ("share", "none", None),
        ("share", "0.5", 0.5),
        ("share", 1, 1.0),
        ("sides", "1,2", (1, 2)),
        ("sides", [1, 2], (1, 2)),
        ("sides", 3, (3,)),
        ("marks", "red:3", (Red(3),)),
        ("marks", ["red:3", "blue"], (Red(3), Blue())),
        ("colour", "none", Nothing()),  # a member of that name is meant, not its absence
        ("second", "none", None),
        ("dry", "false", False),
        ("finish", "gloss", "gloss"),
        ("note", "3", "3"),
        ("note", "a,b=c", "a,b=c"),
    ],
)
def test_text_is_read_as_the_type_says(name, text, value):
    found = parameters(paint)[name].read(text)
    assert (found, type(found)) == (value, type(value))


def test_settings_are_json_in_the_order_of_the_signature():
    made = paint("north", colour=Red(2), marks="blue", judge=len)["settings"]
    assert made["colour"] == "red:depth=2"
    assert made["marks"] == ["blue"]
    assert made["judge"].startswith("builtins.len ")
    assert made["sides"] == [0, 1]
    assert list(made) == [name for name in parameters(paint) if name != "dry"]


def test_names_for_type_checkers_only_do_not_matter():
    assert parameters(paint)["into"].check("x") == "x"
    assert parameters(paint)["into"].optional


def test_only_what_text_can_say_is_plain():
    assert {name for name, each in parameters(paint).items() if not each.plain} == {"judge"}


def test_the_wrapper_keeps_name_documentation_and_signature():
    assert (paint.__name__, paint.__doc__) == ("paint", "Paint.")
    assert list(inspect.signature(paint).parameters)[:3] == ["wall", "colour", "second"]
    with pytest.raises(TypeError, match="missing"):
        paint()


def test_a_table_has_a_row_for_every_option():
    rows = {row["name"]: row for row in table(paint)}
    assert rows["coats"] == {
        "name": "coats", "type": "a whole number", "default": "2", "range": "≥ 1", "doc": "how often",
    }  # fmt: skip
    assert rows["marks"]["type"] == "several of colour"
    assert rows["share"]["range"] == "≥ 0, ≤ 1"
    assert set(rows) == set(parameters(paint))


def test_a_reader_of_its_own_decides():
    double = Parameter("double", str, doc=Doc("", read=lambda value: 2 * value))
    assert double.read("a") == "aa"
    assert double.plain


VERBS = (
    *(ws.train, ws.grade, ws.angles, ws.reduce, ws.spike, ws.spike_sweep, ws.evaluate, ws.diff, ws.transfer),
    *(ws.pipeline, ws.reduction_study, ws.export_nir, ws.tailor, inspect_file, train_sweep, evaluate_spiking),
)


@pytest.mark.parametrize("function", VERBS, ids=lambda function: function.__name__)
def test_every_verb_documents_every_option_and_its_defaults_pass(function):
    for name, each in parameters(function).items():
        assert each.doc.text, name
        assert not each.doc.text.endswith("."), name
        if not each.required:
            each.check(each.default)
    left_out = {"network", "data", "out", "progress", "hooks", "options"}  # what it works on, and of other verbs
    left_out |= {"a", "b", "base", "recipe", "path", "x", "file", "settings", "journal", "on_row", "fixed"}
    assert set(inspect.signature(function).parameters) - set(parameters(function)) <= left_out


def test_reading_a_signature_needs_no_torch():
    program = "import sys, weightsmith.core.verbs; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_names_are_those_of_where_the_verb_was_written():
    """A notebook has its names in no module."""
    cell = {"kind": Literal["a", "b"], "Annotated": Annotated, "Doc": Doc, "verb": verb}
    exec(
        "from __future__ import annotations\n@verb\ndef sort(x, *, by: Annotated[kind, Doc('how')] = 'a'): return by",
        cell,
    )
    assert cell["sort"](1, by="b") == "b"
    with pytest.raises(OptionError, match="by must be one of a, b, not 'c'"):
        cell["sort"](1, by="c")
    assert parameters(cell["sort"])["by"].plain


def test_any_kind_of_path_is_a_path_but_nothing_else():
    @verb
    def keep(x, *, out: Annotated[Path | None, Doc("where")] = None, label: Annotated[str, Doc("what")] = ""):
        return out, label

    assert keep(1, out=PurePosixPath("runs"))[0] == PurePosixPath("runs")
    with pytest.raises(OptionError, match="label must be"):
        keep(1, label=PurePosixPath("runs"))
