"""A section of networks side by side holds the table of the comparison."""

from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.grading.comparison import compare
from weightsmith.grading.grade import grade
from weightsmith.reporting.sections.comparing import comparison_section


@pytest.fixture(scope="module")
def networks(make_layer, make_network, make_pareto):
    return [
        make_network(make_layer("a", make_pareto(alpha, 40), interval=(2, 5)), source=f"nets/{name}.pt")
        for name, alpha in (("x", 2.5), ("y", 3.0), ("z", 3.5))
    ]


def test_a_row_per_measure_and_a_column_per_network(networks, read):
    comparison = compare(networks)
    reader = read(comparison_section(comparison, networks=networks))
    rows = reader.table("Measures of all networks")
    assert [row["measure"] for row in rows] == [measure.name for measure in comparison.measures]
    alpha = next(row for row in rows if row["measure"] == "alpha")
    assert [alpha[label] for label in "xyz"] == [network.measure("alpha").value for network in networks]
    assert "τ" not in alpha
    assert reader.drawings == ["α against depth", "Histogram of α"]
    assert [row["network"] for row in reader.drawing("α against depth").rows] == [one.source for one in networks]
    coverage = reader.table("Coverage")
    assert [row["graded"] for row in coverage] == list(comparison.coverage)
    assert [row["network"] for row in coverage] == [one.source for one in networks]
    assert all(row["α by layer"].startswith("▁  ") for row in coverage)
    reader.draw_all()


def test_with_accuracies_correlations_stand_beside_them(read):
    networks = [grade(ws.networks.mlp(24, 12 + 4 * seed, 10, seed=seed), evidence="none") for seed in range(3)]
    comparison = compare(networks, accuracy=[90.0, 91.0, 92.0])
    reader = read(comparison_section(comparison, networks=networks))
    assert reader.section.lead.startswith(f"{comparison.ranking.lines[0]}. ")  # the answer comes first
    assert reader.section.lead.endswith(comparison.sentence)
    assert reader.notes == [*comparison.notes, comparison.partials[0].words, *comparison.ranking.lines[1:]]
    (p,) = [column.meaning for column in reader.section["Measures of all networks"].columns if column.head == "p of τ"]
    assert p == "two-sided; exact, all 6 orders"
    for row, measure in zip(reader.table("Measures of all networks"), comparison.measures, strict=True):
        tau, rho = measure.kendall, measure.spearman
        assert (row["τ"], row["p of τ"]) == ((None, None) if tau is None else (tau.value, tau.p))
        assert row["ρ"] == (None if rho is None else rho.value)
        assert row["needs a fit"] == ("no" if measure.baseline else "yes")
    assert reader.drawings[0] == "Measures against accuracy"
    assert [row["accuracy"] for row in reader.drawing("Measures against accuracy").rows] == [90.0, 91.0, 92.0]
    reader.draw_all()


def test_a_comparison_alone_needs_no_grades(networks, read):
    reader = read(comparison_section(compare(networks)))
    assert reader.drawings == []
    assert len(reader.table("Coverage")) == 3


def test_networks_without_layers_are_compared_too(make_network, read):
    empty = [make_network(source="a.pt"), make_network(source="b.pt")]
    assert read(comparison_section(compare(empty), networks=empty)).drawings == []
