"""The page of grades holds every number of them, lets no name become markup, and stays small."""

from __future__ import annotations

import csv
import html.parser
import io
import re
import urllib.parse
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.grading.comparison import compare
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Omitted, Status, VerdictKind
from weightsmith.reporting.grading_page import grading_page
from weightsmith.reporting.sections.grading import MOST_SPECTRA

VOID = {"meta", "br", "wbr", "path", "use", "rect", "img", "link", "hr", "input"}


class Page(html.parser.HTMLParser):
    """What a browser would find: elements with their attributes, the text, and whether all tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open, self.scripts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)

    def every(self, tag, key=None):
        return [
            attrs if key is None else attrs[key]
            for name, attrs in self.elements
            if name == tag and (key is None or key in attrs)
        ]

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))

    @property
    def whole_words(self):
        """The text with names put together again that may be broken after a dot."""
        return re.sub(r"\s+", " ", "".join(self.words))


def table(link):
    head, _, content = link.partition(",")
    assert head == "data:text/csv;charset=utf-8"
    return list(csv.DictReader(io.StringIO(urllib.parse.unquote(content), newline="")))


@pytest.fixture(scope="module")
def small(make_alpha, make_layer, make_network, make_pareto):
    return make_network(
        make_layer(
            "conv1", make_pareto(3.0, 60), interval=(2.2, 4.4), parameters=500, notes=("kind guessed from the name",)
        ),
        make_layer("conv2", make_pareto(2.5, 40, 1), interval=(1.5, 4.0), tied_with=("twin",)),
        make_layer("dead", parameters=90),
        make_layer("flat", [2.0] * 9, status=Status.FLAT, reason="all equal"),
        left_out=(Omitted("conv1.bias", 8, "bias"), Omitted("conv2.bias", 4, "bias"), Omitted("dead", 90, "zero: all")),
    )


@pytest.fixture(scope="module")
def page(small):
    return grading_page(small)


@pytest.fixture(scope="module")
def parsed(page):
    return Page(page)


def downloads(parsed):
    """The tables behind the links."""
    return [table(link["href"]) for link in parsed.every("a") if "download" in link]


def with_columns(tables, *heads):
    return [rows for rows in tables if rows and set(heads) <= set(rows[0])]


def test_it_begins_as_a_page_and_says_what_matters_first(page, parsed, small):
    assert page.startswith("<!DOCTYPE html>")
    assert "Grades of small" in parsed.text
    assert small.coverage.line in parsed.text
    assert "a note on the whole" in parsed.text


def test_it_needs_no_network_and_no_other_file(page, parsed):
    for _, attributes in parsed.elements:
        for key in ("src", "href", "action", "xlink:href", "srcset", "data"):
            assert attributes.get(key, "#").startswith(("#", "data:text/csv"))
    assert len(parsed.every("script")) == page.count("</script>") == 1


def test_every_measure_stands_with_its_value_and_its_meaning(parsed, small):
    for measure in small.measures:
        assert measure.meaning in parsed.text
        assert measure.name in parsed.whole_words
        if measure.value is not None:
            assert f"{abs(measure.value):.4g}" in parsed.text


def test_every_layer_stands_with_its_numbers_and_its_verdict(parsed, small):
    for layer in small.layers:
        assert layer.verdict.because in parsed.text
        assert layer.verdict.kind.value in parsed.text
    assert f"{small.layers[0].alpha:.2f}" in parsed.text
    assert "[2.2, 4.4]" in parsed.text
    assert "same weight as twin" in parsed.text
    assert "kind guessed from the name" in parsed.text


def test_rows_sort_by_whole_numbers_and_lead_to_their_spectra(page, parsed, small):
    row = re.search(r"<tr>\s*<th scope=\"row\"[^>]*><bdi><a href=\"#([^\"]*)\">conv1.*?</tr>", page, re.DOTALL)
    values = re.findall(r'data-value="([^"]*)"', row[0])
    assert repr(small.layers[0].alpha) in values
    assert repr(small.layers[0].fit.xmin) in values
    assert row[1] in [part["id"] for part in parsed.every("details") if "id" in part]
    dead = re.search(r"<tr>\s*<th scope=\"row\"[^>]*><bdi>dead.*?</tr>", page, re.DOTALL)[0]
    assert "<a " not in dead
    assert dead.count('data-value=""') >= 5
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+|[a-z]+nan[a-z]*", "", parsed.text.lower())


def test_left_out_is_grouped_by_reason(parsed):
    assert "bias 2 12 conv1.bias, conv2.bias" in parsed.text
    assert "zero: all 1 90 dead" in parsed.text


def test_how_it_was_computed_can_be_read(parsed):
    for text in ("pooled", "fast:200,0.95", "0123456789abcdef" * 4, "numpy 4.5.6, weightsmith 1.2.3"):
        assert text in parsed.text
    assert "seed 7" in parsed.text
    assert "layers –" in parsed.text


def test_the_data_of_every_figure_can_be_taken_away(parsed, small):
    tables = downloads(parsed)
    (rows,) = with_columns(tables, *small.layers[0].row())
    assert [row["name"] for row in rows] == ["conv1", "conv2", "dead", "flat"]
    assert float(rows[0]["alpha"]) == small.layers[0].alpha
    assert rows[2]["alpha"] == ""
    assert [row["verdict"] for row in rows] == [layer.verdict.kind.value for layer in small.layers]
    spectra = with_columns(tables, "lambda_from", "eigenvalues")
    assert [sum(int(row["eigenvalues"]) for row in density) for density in spectra] == [60, 40, 9]
    cut = min(with_columns(tables, "xmin", "D")[1], key=lambda row: float(row["D"]))
    assert float(cut["xmin"]) == pytest.approx(small.layers[0].fit.xmin, rel=1e-5)
    assert parsed.text.count("How to read it:") == len(parsed.every("figure")) == 7


def test_figures_are_drawn_in_the_page_and_named(page, parsed):
    labels = [svg["aria-label"] for svg in parsed.every("svg") if svg.get("role") == "img"]
    assert labels[:2] == ["α against depth", "Histogram of α"]
    assert {"Spectrum of conv1", "Choice of λ_min in conv1", "Spectrum of flat"} <= set(labels)
    assert "Spectrum of dead" not in labels
    assert "Choice of λ_min in flat" not in labels
    colours = set(re.findall(r"(?:fill|stroke):\s*(#[0-9a-f]{3,8})", page))
    assert colours == set()  # all of them follow the page's scheme, by day and by night


def test_hostile_names_stay_text(hostile, make_layer, make_network, make_pareto):
    layers = (
        make_layer(hostile, make_pareto(3.0, 30), interval=(2.2, 4.4), notes=(hostile,), tied_with=(hostile,)),
        make_layer(hostile + "2", status=Status.NON_FINITE, reason=hostile, kind=hostile),
    )
    network = make_network(*layers, source=hostile, left_out=(Omitted(hostile, 3, hostile),))
    network = replace(network, settings={hostile: hostile}, notes=(hostile,))
    text = grading_page([network, network])
    parsed = Page(text.encode().decode())
    assert len(parsed.every("script")) == 1
    assert not [key for _, attributes in parsed.elements for key in attributes if key.startswith("on")]
    assert "<script>alert(1)</script>" in parsed.whole_words
    (rows, *_) = with_columns(downloads(parsed), "alpha_low")
    assert rows[0]["name"].startswith("'=")  # a spreadsheet would run it otherwise


def test_spectra_are_shared_between_networks(make_layer, make_network, make_pareto):
    layers = [make_layer(f"l{n}", make_pareto(3.0, 20, n), interval=(2.5, 3.5), parameters=100 - n) for n in range(5)]
    layers[3] = replace(layers[3], verdict=replace(layers[3].verdict, kind=VerdictKind.WEAKLY_TRAINED))
    one = Page(grading_page(make_network(*layers), spectra=2))
    assert "2 of 5 spectra are drawn" in one.text
    names = [svg["aria-label"] for svg in one.every("svg") if svg.get("aria-label", "").startswith("Spectrum")]
    assert names == ["Spectrum of l0", "Spectrum of l3"]
    two = Page(grading_page([make_network(*layers), make_network(*layers)], spectra=2))
    names = [svg["aria-label"] for svg in two.every("svg") if svg.get("aria-label", "").startswith("Spectrum")]
    assert names == ["Spectrum of l3", "Spectrum of l3"]
    none = Page(grading_page(make_network(*layers), spectra=0))
    assert "0 of 5 spectra are drawn" in none.text


def test_several_networks_are_compared(make_layer, make_network, make_pareto):
    first, second, third = (
        make_network(make_layer("a", make_pareto(alpha, 40), interval=(2, 5)), source=f"nets/{name}.pt")
        for name, alpha in (("x", 2.5), ("y", 3.0), ("z", 3.5))
    )
    parsed = Page(grading_page([first, second, third], spectra=1))
    assert "Grades of 3 networks" in parsed.text
    assert "Networks side by side" in parsed.text
    (rows,) = with_columns(downloads(parsed), "measure", "x", "y", "z")
    row = next(row for row in rows if row["measure"] == "alpha")
    assert float(row["y"]) == second.measure("alpha").value
    assert all(f"Grades: {name}" in parsed.text for name in "xyz")
    names = parsed.every("a", "download")
    assert len(set(names)) == len(names)

    comparison = compare([first, second, third], accuracy=[90.0, 91.0, 92.0])
    shown = Page(grading_page([first, second, third], comparison, spectra=0))
    assert comparison.sentence in shown.text
    assert "Accuracies as given: x 90, y 91, z 92." in shown.text

    alone = Page(grading_page(comparison))
    assert comparison.sentence in alone.text
    assert "Grades of 3 networks" in alone.text
    assert "Grades: x" not in alone.text


def test_what_has_nothing_to_show_still_makes_a_page(make_layer, make_network):
    empty = Page(grading_page(make_network(source="empty.pt")))
    assert "0 of 0 layers fitted" in empty.text
    dead = Page(grading_page(make_network(make_layer("dead"))))
    assert "all weights are zero" in dead.text
    assert len(dead.every("figure")) == 1


def test_wrong_calls_are_refused(small):
    with pytest.raises(UsageError, match="no grades were given"):
        grading_page([])
    with pytest.raises(UsageError, match="comparison is of 2 networks, the grades are of 1"):
        grading_page(small, compare([small, small]))


def test_equal_grades_give_equal_bytes(page, small):
    assert grading_page(small) == page


def test_real_grades_make_a_page():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 32), nn.Linear(32, 32))
    nn.init.zeros_(network[4].weight)
    grades = grade(network, seed=3)
    parsed = Page(grading_page(grades))
    assert grades.coverage.line in parsed.text
    assert "all weights are zero" in parsed.text
    assert "better laws" in parsed.text
    assert np.isfinite(grades.layers[0].alpha)
    assert "seed 3" in parsed.text


@pytest.mark.data
@pytest.mark.slow
def test_the_page_of_a_deep_network_stays_small(shared_data):
    grades = grade(shared_data / "weights" / "akamaster_resnet56.safetensors")
    page = grading_page(grades)
    assert 500_000 < len(page.encode()) < 3_000_000
    labels = [svg.get("aria-label", "") for svg in Page(page).every("svg")]
    drawn = min(len(grades.layers), MOST_SPECTRA)
    assert sum(label.startswith("Spectrum of") for label in labels) == drawn
    assert sum(label.startswith("Choice of λ_min") for label in labels) == drawn
