"""A small share of ``make trust`` (benchmarks/trust): damaged files of every format, a failing disk, kills."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.trust import damage, faults, kills, page
from benchmarks.trust.samples import OWN, samples

_MUTANTS = 24  # three of each kind of damage
_ENDLESS = 10_030  # the HDF5 library runs in circles on this one


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return samples(tmp_path_factory.mktemp("samples"))


def broken(found: damage.Found) -> dict[str, object]:
    names = ("crashes", "slow", "ran_code", "foreign", "long_messages")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


def test_mutants_of_every_format_are_read_or_refused_in_one_line(made):
    assert len(made) == 23
    for name, sample in made.items():
        numbers = [*range(_MUTANTS), *([_ENDLESS] if name == "Keras .h5, whole model" else [])]
        found = damage.tried(name, sample, damage.mutant, numbers)
        assert found.tried == found.read + found.refused + sum(found.other_codes.values()) == len(numbers)
        assert not broken(found), name
        assert not found.other_codes or name == "own recipe"


@pytest.mark.parametrize("name", OWN)
def test_own_files_with_a_flipped_bit_are_refused(made, name):
    found = damage.tried(name, made[name], damage.flipped, range(60))
    assert not broken(found)
    assert found.accepted == 0
    if name != "own record":  # where an e of an exponent may become an E, which is the same record
        assert found.refused == 60
    assert found.refused >= 55


def test_a_reader_that_fails_is_noticed(made):
    """The checks themselves: a crash, a foreign exception, a long message and code that runs are counted as such."""

    def careless(path: Path) -> object:
        length = len(path.read_bytes())
        number = length % 4 if length < 50 else 3
        if number == 0:
            raise KeyError("x")
        if number == 1:
            raise damage.WeightsmithError("x" * 2_000)
        if number == 2:
            os.system("true")
        return number

    path, _ = made["CSV"]
    found = damage.tried("careless", (path, careless), lambda _, number: b"x" * (4 + number), range(4))
    assert sum(found.foreign.values()) == 1
    assert found.ran_code == 1
    assert sum(found.other_codes.values()) == 1
    crashed = damage.tried("crash", (path, crash_on_short), lambda _, number: b"x" * number, range(3))
    assert crashed.crashes == 3


def crash_on_short(path: Path) -> object:
    if len(path.read_bytes()) < 5:
        os.abort()
    return None


def test_the_table_says_what_was_broken(made):
    found = damage.tried("CSV", made["CSV"], damage.mutant, range(8))
    results = {"damage": {"found": [vars(found)], "minutes": 0.1}}
    assert page.holds(results)
    assert not page.holds({**results, "interrupts": {"found": {"promises": [["Ctrl-C", 0, 0]], "notes": []}}})
    assert "| damaged files: no crash | 8 | 0 |" in page.table(results)
    found.crashes = 1
    assert not page.holds({"damage": {"found": [vars(found)], "minutes": 0.1}})


@pytest.mark.slow
def test_kills_and_a_failing_disk(monkeypatch):
    killed = kills.kills(2, ["train", "genetic"])
    assert [row[1:] for row in killed["promises"]] == [[4, 0]] * 3
    monkeypatch.setattr(faults, "_TRIED", ("train",))
    assert [row[1:] for row in faults.faults(1)["promises"]] == [[6, 0]] * 3
