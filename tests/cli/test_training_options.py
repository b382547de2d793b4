from __future__ import annotations

import warnings

from weightsmith.cli import _training_options as given
from weightsmith.training.plan import TrainingWarning


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
