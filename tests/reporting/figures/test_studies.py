"""A study is drawn in the figures it has rows for, and in no others."""

from __future__ import annotations

import pytest

from weightsmith.core.records import Origin
from weightsmith.reducing.study_table import Study, StudyRow, slopes, summaries
from weightsmith.reporting.figures.studies import figures_of_study


def study(*methods, hidden=(10, 20)):
    """Two folds of each method at each size; a method is (text, angle, penalty)."""
    rows = tuple(
        StudyRow(text, size, 0, fold, size if text == "whole" else size // 2, 90.0, 80.0 + fold, angle, penalty)
        for size in hidden
        for text, angle, penalty in (("whole", None, None), *methods)
        for fold in (0, 1)
    )
    settings = {"hidden": list(hidden), "methods": [text for text, *_ in methods], "folds": 2, "repeats": 1}
    return Study("digits", 100, 64, ("a", "b"), settings, rows, summaries(rows, 2), slopes(rows), (), Origin(0, {}, {}))


def angles(*values, more=""):
    return [(f"angles:{value}{more}", float(value), None) for value in values]


def genetic(*values):
    return [(f"genetic:{value}", None, float(value)) for value in values]


def names(found):
    return [figure.name for figure in found]


def test_several_sizes_have_accuracy_and_final_size():
    found = figures_of_study(study(*angles(15), *genetic(50)))
    assert names(found) == ["accuracy", "size"]
    (axes,) = found[0].draw().axes
    assert axes.get_xlabel() == "hidden units before"
    # Methods that angle and penalty tell apart are called by their bare name.
    assert axes.get_legend_handles_labels()[1] == ["angles 15°", "genetic λ = 50", "unreduced"]


def test_one_size_is_drawn_as_points_where_there_is_no_sweep():
    found = figures_of_study(study(*angles(15), hidden=(10,)))
    assert names(found) == ["accuracy", "size"]
    for figure in found:
        (axes,) = figure.draw().axes
        assert axes.get_legend_handles_labels()[1]


def test_networks_that_were_only_trained_have_no_final_size():
    assert names(figures_of_study(study())) == ["accuracy"]


@pytest.mark.parametrize(("methods", "parameter"), [(angles(10, 20, 30), "angle"), (genetic(0, 10, 50), "penalty")])
def test_three_values_of_a_parameter_are_a_sweep_and_two_are_none(methods, parameter):
    (figure,) = figures_of_study(study(*methods, hidden=(10,)))
    assert (figure.kind, figure.name) == (parameter, parameter)
    assert figure.methods == tuple(text for text, *_ in methods)
    drawn = figure.draw()
    assert parameter in drawn.axes[-1].get_xlabel()
    assert names(figures_of_study(study(*methods[:2], hidden=(10,)))) == ["accuracy", "size"]


def test_methods_that_differ_in_more_are_sweeps_of_their_own():
    methods = [*angles(10, 20, 30), *angles(10, 20, 30, more=",merge=outputs")]
    found = figures_of_study(study(*methods, hidden=(10,)))
    assert names(found) == ["angle", "angle-2"]
    assert found[1].methods == tuple(text for text, *_ in methods[3:])
    for figure in found:
        figure.draw()


def test_methods_that_are_not_known_here_are_drawn_but_never_a_sweep():
    found = figures_of_study(study(*[(f"mine:{value}", float(value), None) for value in (1, 2, 3)]))
    assert names(found) == ["accuracy", "size"]
    found[0].draw()
