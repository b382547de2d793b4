from __future__ import annotations

import pytest

from weightsmith.chain.recipe import EXAMPLES, example

AT_HAND = ("new", "digits")  # the others name data that must be fetched


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in AT_HAND else pytest.mark.data) for name in EXAMPLES]
)
def test_a_recipe_is_written_and_can_be_checked(run, tmp_path, name):
    file = tmp_path / "mine.toml"
    answer = run("recipe", "new", file, "--like", name)
    assert answer.code == 0
    assert file.read_text() == example(name)
    assert "weightsmith pipeline" in answer.out
    printed = run("recipe", "check", file)
    assert printed.code == 0
    assert all(word in printed.out for word in ("train", "grade", "reduce", "spike", "stages on"))


def test_a_file_that_exists_is_left_alone(run, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("mine")
    answer = run("recipe", "new", file)
    assert (answer.code, file.read_text()) == (2, "mine")
    assert "exists already" in answer.err


def test_what_is_wrong_is_named_by_line_and_key(run, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('data = "digits"\n[train]\nnetwork = "mlp:8"\nepochs = "many"\n')
    answer = run("recipe", "check", file)
    assert answer.code == 2
    assert "line 4, train.epochs" in answer.err
    assert len(answer.lines) == 1


def test_unknown_names_and_files(run, tmp_path):
    assert "did you mean 'digits'" in run("recipe", "new", tmp_path / "a.toml", "--like", "digit").err
    assert run("recipe", "check", tmp_path / "none.toml").code == 3
    assert "new" in run("recipe").out
