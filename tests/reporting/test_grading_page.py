"""The page holds every number of the grades, needs nothing but itself, and lets no name become markup."""

from __future__ import annotations

import base64
import csv
import hashlib
import html.parser
import io
import re
import urllib.parse
from collections import Counter
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


def test_it_begins_as_a_page_and_says_what_matters_first(page, parsed, small):
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "Grades of small" in parsed.text
    assert small.coverage.line in parsed.text
    assert "a note on the whole" in parsed.text


def test_it_needs_no_network_and_no_other_file(page, parsed):
    for _, attributes in parsed.elements:
        for key in ("src", "href", "action", "xlink:href", "srcset", "data"):
            assert attributes.get(key, "#").startswith(("#", "data:text/csv"))
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page)
    assert "@import" not in page
    assert not {"link", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in parsed.elements}


def test_only_its_own_script_may_run(page, parsed):
    (policy,) = [
        meta["content"] for meta in parsed.every("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    (script,) = parsed.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert len(parsed.every("script")) == page.count("</script>") == 1


def test_names_inside_the_page_are_unique_and_all_references_lead_somewhere(page, parsed):
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    inside = {
        link[1:] for _, attributes in parsed.elements for link in (attributes.get("href", ""),) if link[:1] == "#"
    }
    inside |= set(re.findall(r"url\(#([\w-]+)\)", page))
    inside |= set(parsed.every("div", "data-first"))
    assert inside
    assert inside <= set(ids)


def test_every_measure_stands_with_its_value_and_its_meaning(parsed, small):
    for measure in small.measures:
        assert measure.meaning in parsed.text
        assert measure.name in parsed.whole_words
        if measure.value is not None:
            assert f"{measure.value:.4g}" in parsed.text
    assert parsed.text.index("without any fit") > parsed.text.index("mean of α over layers")


def test_every_layer_stands_with_its_numbers_and_its_verdict(parsed, small):
    for layer in small.layers:
        assert layer.verdict.because in parsed.text
        assert layer.verdict.kind.value in parsed.text
    assert f"{small.layers[0].alpha:.4g}" in parsed.text
    assert "[2.2, 4.4]" in parsed.text
    assert "same weight as twin" in parsed.text
    assert "kind guessed from the name" in parsed.text


def test_rows_sort_by_whole_numbers_and_what_has_none_is_empty(page, small):
    row = re.search(r"<tr><th scope=\"row\"><a href=\"#n1-1\">conv1.*?</tr>", page)[0]
    values = re.findall(r'data-value="([^"]*)"', row)
    assert repr(small.layers[0].alpha) in values
    assert repr(small.layers[0].fit.xmin) in values
    dead = re.search(r"<tr><th scope=\"row\">dead.*?</tr>", page)[0]
    assert dead.count('data-value=""') >= 5
    assert "nan" not in page.lower().replace("name", "")


def test_left_out_is_grouped_by_reason(parsed):
    assert "bias 2 12 conv1. bias, conv2. bias" in parsed.text
    assert "zero: all 1 90 dead" in parsed.text


def test_how_it_was_computed_can_be_read(parsed):
    for text in ("pooled", "fast:200,0.95", "0123456789abcdef" * 4, "numpy 4.5.6, weightsmith 1.2.3"):
        assert text in parsed.text
    assert "seed 7" in parsed.text
    assert "layers –" in parsed.text


def test_the_data_of_every_figure_can_be_taken_away(parsed, small):
    links = {link["download"]: table(link["href"]) for link in parsed.every("a") if "download" in link}
    rows = links["n1-layers.csv"]
    assert [row["name"] for row in rows] == ["conv1", "conv2", "dead", "flat"]
    assert float(rows[0]["alpha"]) == small.layers[0].alpha
    assert rows[2]["alpha"] == ""
    assert set(rows[0]) == set(small.layers[0].row())
    density = links["n1-1s.csv"]
    assert sum(int(row["eigenvalues"]) for row in density) == 60
    cut = min(links["n1-1c.csv"], key=lambda row: float(row["D"]))
    assert float(cut["xmin"]) == pytest.approx(small.layers[0].fit.xmin, rel=1e-5)
    assert float(cut["alpha"]) == pytest.approx(small.layers[0].alpha, rel=1e-5)
    assert [row["verdict"] for row in links["n1a.csv"]] == [layer.verdict.kind.value for layer in small.layers]
    figures = parsed.every("figure")
    assert len(figures) == len(links) - 1
    assert parsed.text.count("How to read it:") == len(figures)


def test_figures_are_drawn_in_the_page_and_named(page, parsed):
    drawings = [svg for svg in parsed.every("svg") if svg.get("role") == "img"]
    labels = [svg["aria-label"] for svg in drawings]
    assert labels[:2] == ["α against depth", "histogram of α"]
    assert {"spectrum of conv1", "choice of λ_min in conv1", "spectrum of flat"} <= set(labels)
    assert "spectrum of dead" not in labels
    assert "choice of λ_min in flat" not in labels
    colours = set(re.findall(r"(?:fill|stroke):\s*(#[0-9a-f]{3,8})", page))
    assert colours == set()  # all of them follow the page's scheme, by day and by night
    for name in set(re.findall(r"var\(--(\w+)\)", page)):
        assert f"--{name}:" in page


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
    allowed = {"svg", "path", "g", "use", "text", "tspan", "defs", "clippath", "rect"}
    allowed |= {"html", "head", "meta", "title", "style", "body", "header", "main", "section", "script"}
    allowed |= {
        "h1",
        "h2",
        "h3",
        "p",
        "ul",
        "li",
        "span",
        "div",
        "figure",
        "figcaption",
        "a",
        "sup",
        "br",
        "wbr",
        "code",
    }
    allowed |= {"table", "thead", "tbody", "tr", "th", "td", "details", "summary", "dl", "dt", "dd", "strong"}
    assert {tag for tag, _ in parsed.elements} <= allowed
    assert "<script>alert(1)</script>" in parsed.whole_words
    links = [table(link["href"]) for link in parsed.every("a") if link.get("download", "").endswith("-layers.csv")]
    assert links[0][0]["name"].startswith("'=")  # a spreadsheet would run it otherwise


def test_spectra_are_drawn_for_those_that_ask_for_a_look(make_layer, make_network, make_pareto, monkeypatch):
    layers = [make_layer(f"l{n}", make_pareto(3.0, 20, n), interval=(2.5, 3.5), parameters=100 - n) for n in range(5)]
    layers[3] = replace(layers[3], verdict=replace(layers[3].verdict, kind=VerdictKind.WEAKLY_TRAINED))
    parsed = Page(grading_page(make_network(*layers), spectra=2))
    assert [part["id"] for part in parsed.every("details") if "id" in part] == ["n1-1", "n1-4"]
    assert parsed.every("div", "data-first") == ["n1-4"]
    assert "2 of 5 spectra are drawn" in parsed.text
    assert parsed.every("a", "href").count("#n1-4") == 1
    monkeypatch.setattr("weightsmith.reporting.grading_page._MOST_LETTERS", 40_000)
    assert "1 of 5 spectra are drawn" in Page(grading_page(make_network(*layers))).text
    none = Page(grading_page(make_network(*layers), spectra=0))
    assert not none.every("div", "data-first")


def test_several_networks_are_compared(make_layer, make_network, make_pareto):
    first, second, third = (
        make_network(make_layer("a", make_pareto(alpha, 40), interval=(2, 5)), source=f"nets/{name}.pt")
        for name, alpha in (("x", 2.5), ("y", 3.0), ("z", 3.5))
    )
    parsed = Page(grading_page([first, second, third], spectra=1))
    assert "Grades of 3 networks" in parsed.text
    assert "Networks side by side" in parsed.text
    (link,) = [link["href"] for link in parsed.every("a") if link.get("download") == "comparison.csv"]
    row = next(row for row in table(link) if row["measure"] == "alpha")
    assert float(row["nets/y.pt"]) == second.measure("alpha").value
    assert [part["id"] for part in parsed.every("section") if "id" in part] == ["n1", "n2", "n3"]

    comparison = compare([first, second, third], accuracy=[90.0, 91.0, 92.0])
    told = Page(grading_page([first, second, third], comparison, spectra=0))
    assert comparison.sentence in told.text
    assert "Accuracies: x 90, y 91, z 92." in told.text

    alone = Page(grading_page(comparison))
    assert comparison.sentence in alone.text
    assert not [part for part in alone.every("section") if "id" in part]


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
    assert len([part for part in Page(page).every("details") if "id" in part]) == len(grades.layers)
