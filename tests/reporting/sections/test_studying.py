"""The section of a study holds its means, its tests and the paper's figures it has rows for."""

from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith.core.statistics import Comparison, ComparisonStatus, holm
from weightsmith.reducing.study_table import WHOLE, Study, method_pairs
from weightsmith.reporting.page import render
from weightsmith.reporting.sections.studying import study_section

METHODS = ("angles:20", "angles:45", "angles:70")


@pytest.fixture(scope="module")
def study() -> Study:
    return ws.reduction_study("digits", hidden=[6, 12], methods=METHODS, epochs=3, folds=2, repeats=1, random=2)


def test_the_lead_says_what_was_compared(study, read):
    section = study_section(study, "sizes")
    assert section.title == "Study: sizes"
    assert section.lead.startswith(
        "3 methods reduced networks of 6, 12 hidden units, trained on digits over 2 folds × 1 repeat."
    )
    whole = [found for found in study.summaries if found.method == WHOLE]
    text = f"{whole[1].test_accuracy:.1f} ± {whole[1].test_deviation:.1f} %"
    assert read(section).chips["whole, 12 units"] == text
    assert read(section).chips["networks"] == str(len(study.rows)) == "16"


def judged(study, differences):
    """The study with these differences and p against the whole networks, method by method."""
    shown = iter(differences)

    def compared(summary):
        if summary.method == WHOLE:
            return summary
        difference, p = next(shown)
        status = ComparisonStatus.NO_VARIANCE if p is None else ComparisonStatus.TESTED
        return dataclasses.replace(summary, against_whole=Comparison(difference, p, 2, "t", status))

    return dataclasses.replace(study, summaries=tuple(map(compared, study.summaries)))


def test_the_lead_counts_losses_beyond_chance_and_names_the_boldest_without(study):
    expected = [(-1.0, 0.2), (-3.0, 0.001), (-9.0, None), (0.0, None), (2.0, 0.01), (-4.0, 0.04)]
    changed = judged(study, expected)
    reduced = [found for found in changed.summaries if found.method != WHOLE]
    free = [found for index, found in enumerate(reduced) if index in (0, 3, 4, 5)]  # Holm: 0.04 is the third of four
    best = min(free, key=lambda found: found.units / found.hidden)
    lead = study_section(changed, "x").lead
    assert "In 2 of 6 cases the loss of accuracy is more than chance" in lead
    assert f"{best.method} removed most and left {best.units:.1f} of {best.hidden} units." in lead


def test_the_table_has_a_row_for_each_method_and_size(study, read):
    reader = read(study_section(study, "x"))
    rows = reader.table("Methods")
    for row, found in zip(rows, study.summaries, strict=True):
        assert (row["method"], row["hidden"], row["units"]) == (found.method, found.hidden, found.units)
        assert row["test accuracy"] == found.test_accuracy
        assert row["− whole"] == (None if found.against_whole is None else found.against_whole.difference)
        assert row["− random"] == (None if found.against_random is None else found.against_random.difference)
        assert row["− scratch"] == (None if found.against_scratch is None else found.against_scratch.difference)
    slopes = reader.table("Final size by initial size")
    assert [(row["method"], row["slope"]) for row in slopes] == [(one.method, one.slope) for one in study.slopes]


def test_differences_are_told_with_their_p(study, read):
    expected = [(-1.26, 0.2), (0.0, None), (-9.0, 1e-9), (1, 1), (1, 1), (1, 1)]
    texts = [row["− whole"] for row in read(study_section(judged(study, expected), "x")).texts("Methods")]
    assert texts[:4] == ["–", "−1.3 (p = 0.8)", "0.0 (in every fold)", "−9.0 (p < 0.0001)"]


def test_figures_are_those_that_the_study_has_rows_for(study, read):
    reader = read(study_section(study, "x"))
    assert reader.drawings == [
        "Accuracy against the initial size",
        "Final against initial size",
        "Accuracy and size against the angle",
    ]
    rows = reader.drawing("Final against initial size").rows
    assert [row["units"] for row in rows] == pytest.approx([found.units for found in study.summaries], rel=1e-5)
    reader.draw_all()


def test_what_was_not_compared_has_no_column_and_one_size_no_slope(study, read):
    kept = [found for found in study.summaries if found.hidden == 6 and found.method in (WHOLE, "angles:45.0")]
    summaries = tuple(
        dataclasses.replace(found, against_whole=None, against_random=None, against_scratch=None) for found in kept
    )
    rows = tuple(row for row in study.rows if row.hidden == 6 and row.method in (WHOLE, "angles:45.0"))
    reader = read(study_section(dataclasses.replace(study, summaries=summaries, rows=rows, slopes=()), "x"))
    assert len(reader.drawings) == 2  # of one size too
    assert set(reader.table("Methods")[0]) == {"method", "hidden", "units", "test accuracy", "training accuracy"}
    assert reader.section.lead.endswith("1 repeat.")


def test_notes_and_facts_are_those_of_the_study(study, read):
    reader = read(study_section(study, "x"))
    assert reader.notes == list(study.notes)
    assert reader.facts["data"] == "digits"
    assert reader.facts["rows"] == "1,797"
    assert reader.facts["folds"] == "2"
    assert reader.facts["SHA-256 of data"] == study.origin.inputs["data"]


def test_names_cannot_act(study, hostile):
    rows = tuple(dataclasses.replace(row, method=hostile) if row.method == "angles:20.0" else row for row in study.rows)
    summaries = tuple(
        dataclasses.replace(found, method=hostile) if found.method == "angles:20.0" else found
        for found in study.summaries
    )
    changed = dataclasses.replace(
        study, rows=rows, summaries=summaries, data=hostile, classes=(hostile,) * 10, notes=(hostile,)
    )
    page = render(hostile, [study_section(changed, hostile)])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_methods_are_compared_with_each_other_on_the_same_folds(study):
    rows = study_section(study, "x")["Methods against each other"].to_rows()
    assert len(rows) == 2 * 3  # two sizes, three pairs
    for row in rows:
        accuracies = [
            [one.test_accuracy for one in study.rows if (one.method, one.hidden) == (row[name], row["hidden"])]
            for name in ("method", "other")
        ]
        ours, theirs = (sum(each) / len(each) for each in accuracies)
        assert row["difference"] == pytest.approx(ours - theirs)
    alone = [pair.comparison.p for pair in method_pairs(study.rows, 2)]
    assert [row["p"] for row in rows] == holm(alone)
