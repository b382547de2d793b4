"""The family of methods: known by name, read from text, refused with the way out."""

from __future__ import annotations

import pytest

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.reducing import methods
from weightsmith.reducing.methods import Angles, Genetic, Method


def test_every_member_is_exported_here() -> None:
    exported = {getattr(methods, name) for name in methods.__all__} - {Method}
    assert exported == set(Method.members.values())


@pytest.mark.parametrize(
    "text",
    ["error", "error:0.01", "angles:45.0", "groups", "genetic", "genetic:10.0", "pareto", "magnitude:norm=2", "random"],
)
def test_text_forms_are_read_and_written(text: str) -> None:
    assert Method.parse(str(Method.parse(text))) == Method.parse(text)


def test_only_the_plain_rules_need_to_be_told_how_much() -> None:
    assert {name for name, member in Method.members.items() if member.needs_target} == {
        "compensated",
        "error",
        "folding",
        "magnitude",
        "random",
        "scale",
        "taylor",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("angles:200", "angle must be ≤ 90"),
        ("angles:0", "angle must be > 0"),
        ("genetic:50,population=0", "population must be"),
        ("genetic:50,generations=0", "generations must be"),
        ("genetic:-1", "penalty must be ≥ 0"),
        ("groups:100", "angle must be ≤ 90"),
        ("magnitude:3", "norm must be one of 1, 2"),
    ],
)
def test_bad_values_are_named(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Method.parse(text)


def test_unknown_methods_are_named() -> None:
    with pytest.raises(UnknownName, match="did you mean 'angles'"):
        Method.parse("angle:45")


def test_objects_and_text_are_the_same() -> None:
    assert Method.of("angles:45") == Angles(45)
    assert Method.of("genetic:50") == Genetic(50) == Genetic(penalty=50)
