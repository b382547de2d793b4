"""A section of grades holds every number of them, says what it leaves out, and copes with networks without a fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weightsmith as ws
from weightsmith.grading.answer import answer
from weightsmith.grading.results import Omitted, Status, VerdictKind
from weightsmith.reporting.parts import Choice, Shown, Table
from weightsmith.reporting.sections.grading import MOST_SPECTRA, grading_section


@pytest.fixture(scope="module")
def grades():
    """A network trained for three epochs, with one layer set to zero."""
    network = ws.train("mlp:48,24", ws.data.load("digits"), epochs=3, seed=0).network
    network.dense2.weight.data.zero_()
    return ws.grade(network, evidence="full:50", seed=3)


@pytest.fixture(scope="module")
def section(grades, read):
    return read(grading_section(grades, "after training"))


def test_the_lead_says_how_much_was_graded(section, grades):
    assert section.section.title == "Grades: after training"
    lines = section.section.lead.split("\n\n")
    assert [line.removesuffix(".") for line in lines[:3]] == list(answer(grades).lines)
    assert lines[3].startswith(f"{grades.coverage.line}. ")


def test_chips_count_the_verdicts_and_draw_alpha_by_layer(section, grades):
    counts = [text.split()[0] for name, text in section.chips.items() if name != "α by layer"]
    assert sum(map(int, counts)) == len(grades.layers) == 3
    first, last = grades.layers[0].alpha, grades.layers[2].alpha
    bars = "▁·█" if first < last else "█·▁"
    assert section.chips["α by layer"] == f"{bars}  {min(first, last):.2f} – {max(first, last):.2f}"
    for kind, count in grades.verdicts().items():
        (text,) = [text for name, text in section.chips.items() if name.endswith(f" {kind.value}")]
        leaning = sum(layer.words.startswith("leans") for layer in grades.layers) * (kind is VerdictKind.CANNOT_SAY)
        assert text == f"{count} layer{'s' * (count != 1)}" + f", {leaning} of them lean to one class" * (leaning > 0)


def test_the_table_of_layers_is_the_record(section, grades):
    for row, layer in zip(section.table("Layers"), grades.layers, strict=True):
        assert row["layer"] == layer.name
        assert row["verdict"] == layer.verdict.kind.value
        assert (row["α"], row["size"], row["eigenvalues"]) == (layer.alpha, layer.parameters, layer.evals)
        if layer.fit is not None:
            assert (row["λ_min"], row["D"], row["tail"]) == (layer.fit.xmin, layer.fit.D, layer.fit.tail)
            assert row["interval"] == pytest.approx(layer.interval.high - layer.interval.low)
            assert (row["p of fit"], row["spikes"]) == (layer.goodness.p, layer.bulk.spikes)
    shown = section.texts("Layers")[0]
    interval, narrow = grades.layers[0].interval, grades.layers[0].narrow
    assert shown["interval"] == ("~" if narrow else "") + f"[{interval.low:.2f}, {interval.high:.2f}]"
    assert shown["α"] == f"{grades.layers[0].alpha:.2f}"
    assert section.texts("Layers")[1]["verdict"].endswith(" zero")
    assert shown["size"] == "64 × 48"
    assert len(shown["spectrum"]) == 12


def test_what_verdicts_rest_on_is_a_detail_unless_asked_for(grades, section):
    for row, layer in zip(section.table("Why"), grades.layers, strict=True):
        assert row["because"].startswith(layer.verdict.because)
        assert row["because"].endswith(layer.narrow or layer.verdict.because)
    assert section.table("Why")[1]["because"] == "zero: all weights are zero"
    assert section.section["Why"].detail
    assert not grading_section(grades, "x", why=True)["Why"].detail
    assert "--why" not in str(grading_section(grades, "x", why=True)["What the verdicts mean"])


def test_layers_without_numbers_and_networks_without_layers_must_be_looked_at(make_layer, make_network):
    broken = [make_layer(f"l{n}", status=Status.NON_FINITE, reason="NaN") for n in range(5)]
    assert grading_section(make_network(*broken), "net.pt").look_at == (
        "NaN or infinity in l0, l1, l2 and 2 more: not graded",
    )
    (nothing,) = grading_section(make_network(), "net.pt").look_at
    assert nothing.startswith("nothing to grade in net.pt")


def test_no_column_is_empty(section):
    (table,) = [part for part in section.of(Table) if part.title == "Layers"]
    for head, column in zip(section.table("Layers")[0], zip(*table.rows, strict=True), strict=True):
        assert any(cell is not None for cell in column), head


def test_columns_of_numbers_are_known_as_such(section):
    for table in section.of(Table):
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True):
            values = {type(cell.value if isinstance(cell, Shown) else cell) for cell in cells} - {type(None)}
            if values:
                assert column.numeric == (values <= {int, float}), (table.title, column.head)


def test_measures_stand_with_value_and_meaning(section, grades):
    rows = section.table("Measures of the whole network")
    expected = [(row["measure"], row["value"], row["layers"], row["what is in it"]) for row in rows]
    fits_first = sorted(grades.measures, key=lambda one: one.baseline)
    assert expected == [(one.name, one.value, one.layers, one.meaning) for one in fits_first]
    assert [row["needs a fit"] == "no" for row in rows] == [one.baseline for one in fits_first]
    assert {row["needs a fit"] for row in rows} == {"yes", "no"}


def test_drawings_carry_all_numbers_of_all_layers(section, grades):
    assert section.drawings[:2] == ["α against depth", "Histogram of α"]
    assert list(section.drawing("α against depth").rows) == [layer.row() for layer in grades.layers]
    assert [row["alpha"] for row in section.drawing("Histogram of α").rows] == [one.alpha for one in grades.layers]
    section.draw_all()


def test_spectra_can_be_chosen_by_layer(section, grades):
    (choice,) = section.of(Choice)
    fitted = [layer for layer in grades.layers if layer.eigenvalues.size]
    assert [label for label, _ in choice.options] == [one.name for one in fitted] == ["dense1", "output"]
    assert {row["layer"] for row in section.table("Layers")} >= {label for label, _ in choice.options}
    first = fitted[0]
    assert sum(row["eigenvalues"] for row in section.drawing("Spectrum of dense1").rows) <= first.eigenvalues.size
    best = min(section.drawing("Choice of λ_min in dense1").rows, key=lambda row: row["D"])
    assert best["xmin"] == pytest.approx(first.fit.xmin, rel=1e-5)
    assert best["alpha"] == pytest.approx(first.alpha, rel=1e-5)
    assert first.verdict.because in section.prose
    assert "Spectrum of dense2" not in section.drawings


def test_the_spectra_that_ask_for_a_look_come_first(make_layer, make_network, make_pareto, read):
    layers = [make_layer(f"l{n}", make_pareto(3.0, 20, n), interval=(2.5, 3.5), parameters=100 - n) for n in range(5)]
    layers[3] = replace(layers[3], verdict=replace(layers[3].verdict, kind=VerdictKind.WEAKLY_TRAINED))
    reader = read(grading_section(make_network(*layers), "x", spectra=2))
    (choice,) = reader.of(Choice)
    assert [label for label, _ in choice.options] == ["l0", "l3"]
    assert choice.first == 1
    assert "2 of 5 spectra are drawn" in reader.prose
    for none in (0, -1):
        reader = read(grading_section(make_network(*layers), "x", spectra=none))
        assert reader.of(Choice) == []
        assert "0 of 5 spectra are drawn" in reader.prose


def test_a_deep_network_keeps_to_its_budget(make_layer, make_network, make_pareto, read):
    layers = [make_layer(f"l{n}", make_pareto(3.0, 9, n), interval=(2.5, 3.5)) for n in range(MOST_SPECTRA + 5)]
    (choice,) = read(grading_section(make_network(*layers), "x")).of(Choice)
    assert len(choice.options) == MOST_SPECTRA


def test_left_out_is_grouped_by_reason(make_layer, make_network, make_pareto, read):
    biases = tuple(Omitted(f"b{n}", 2, "bias") for n in range(5))
    network = make_network(make_layer("a", make_pareto(3.0, 20)), left_out=(*biases, Omitted("dead", 90, "zero: all")))
    reader = read(grading_section(network, "x"))
    rows = [tuple(row.values()) for row in reader.table("Left out")]
    assert rows == [("zero: all", 1, 90, "dead"), ("bias", 5, 10, "b0, b1, b2, b3, b4")]
    assert reader.texts("Left out")[1]["which"] == "b0, b1, b2 and 2 more"


def test_nothing_left_out_is_said(make_layer, make_network, make_pareto, read):
    reader = read(grading_section(make_network(make_layer("a", make_pareto(3.0, 20))), "x"))
    assert "Nothing is left out" in reader.prose
    assert reader.notes == ["a note on the whole"]


def test_a_network_without_any_fit(make_layer, make_network, read):
    flat = make_layer("flat", [2.0] * 9, status=Status.FLAT, reason="all equal")
    reader = read(grading_section(make_network(make_layer("dead"), flat), "x"))
    assert "0 of 2 layers fitted" in reader.section.lead
    assert reader.drawings == ["α against depth", "Spectrum of flat"]
    assert "α" not in reader.table("Layers")[0]
    assert [row["because"] for row in reader.table("Why")] == ["zero: all weights are zero", "flat: all equal"]
    reader.draw_all()


def test_a_network_without_layers(make_network, read):
    reader = read(grading_section(make_network(), "x"))
    assert reader.section.lead.startswith("0 of 0 layers fitted")
    assert reader.drawings == []
    assert reader.chips == {}
    assert [table.title for table in reader.of(Table)] == ["Measures of the whole network"]


def test_remarks_and_tied_weights_stand_beside_their_layer(make_layer, make_network, make_pareto, read):
    layer = make_layer("a", make_pareto(3.0, 20), notes=("kind guessed from the name",), tied_with=("b",))
    (row,) = read(grading_section(make_network(layer), "x")).table("Layers")
    assert row["remarks"] == "same weight as b; kind guessed from the name"


def test_facts(section, grades):
    facts = section.facts
    assert facts["source"] == grades.source
    assert facts["seed"] == "3"
    assert facts["conv"] == str(grades.settings["conv"])
    assert facts["SHA-256 of network"] == grades.origin.inputs["network"]
    assert f"numpy {grades.origin.versions['numpy']}" in facts["versions"]
