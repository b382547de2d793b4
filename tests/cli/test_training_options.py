from __future__ import annotations

import warnings

import pytest

from weightsmith.cli import _training_options as given
from weightsmith.core.errors import OptionError
from weightsmith.training.plan import TrainingWarning


def test_whole_numbers():
    assert given.whole_numbers("0, 5,10", "--keep") == (0, 5, 10)
    assert given.whole_numbers(None, "--keep") == ()
    for wrong in ("1.5", "a", "-1", "true", "x=1", "1,,2"):
        with pytest.raises(OptionError):
            given.whole_numbers(wrong, "--keep")


def test_seeds_are_a_list_or_a_range():
    assert given.seeds_of("0, 2") == (0, 2)
    assert given.seeds_of("3-5") == (3, 4, 5)
    assert given.seeds_of("0") == (0,)
    for wrong, said in (
        ("2", "0-1, or 2-2 for one"),
        ("5-3", "0-9 for ten"),
        ("a", "whole numbers"),
        ("", "0-9 for ten"),
    ):
        with pytest.raises(OptionError, match=said):
            given.seeds_of(wrong)


def test_the_share_for_validation():
    assert [given.validation_of(asked, present=False) for asked in (None, 0, 0.3)] == [0.1, None, 0.3]
    assert given.validation_of(None, present=True) is None
    assert given.validation_of(0.3, present=True) == 0.3  # refused later, by name


def test_only_what_training_warns_of_becomes_a_note(capsys):
    before = warnings.showwarning
    with warnings.catch_warnings(record=True) as others, given.warnings_as_notes():
        warnings.warn("too fast", TrainingWarning, stacklevel=1)
        warnings.warn("mine", UserWarning, stacklevel=1)
    assert [str(other.message) for other in others] == ["mine"]
    assert capsys.readouterr().err == "warning: too fast\n"
    with given.warnings_as_notes(shown=False):
        warnings.warn("unheard", TrainingWarning, stacklevel=1)
    assert capsys.readouterr().err == ""
    assert warnings.showwarning is before
