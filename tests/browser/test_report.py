"""The report in a real browser: from disk, by mouse, keyboard and touch, on a screen, a phone and paper."""

from __future__ import annotations

import csv
import io
import urllib.parse

import pytest

import weightsmith as ws
from weightsmith.chain.pipeline import pipeline

pytestmark = pytest.mark.slow

RECIPE = """
title = "A chain on digits"
data = "digits"
[train]
network = "mlp:24,16,bias=false"
schedule = "cosine:0.1"
epochs = 5
watch = ["alpha", "angles"]
[[grade]]
[[angles]]
angle = 40.0
[[reduce]]
name = "by-angles"
by = "angles:50"
recover = "fine-tune:2"
[[reduce]]
name = "by-genetic"
by = "genetic:40,generations=15,population=16,rows=300"
[[spike]]
name = "plain"
of = "by-angles"
encode = "poisson"
neuron = "lif:0.9"
steps = 20
[[spike]]
name = "adjusted"
of = "by-angles"
encode = "poisson"
neuron = "lif:0.9"
adjust = "l4:1.0"
steps = 20
"""
PHONE = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
DARK = {"color_scheme": "dark"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return pipeline(RECIPE, tmp_path_factory.mktemp("chain")).page


@pytest.mark.parametrize("options", [{}, PHONE, DARK], ids=["desktop", "phone", "dark"])
def test_it_opens_from_disk_and_the_page_does_not_scroll_sideways(visit, report, options):
    page = visit(report, **options).page
    assert page.title() == "A chain on digits"
    assert page.locator("h1").count() == 1
    width, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= seen
    assert report.stat().st_size < 3_000_000


def test_every_part_that_was_promised_is_there(visit, report):
    page = visit(report).page
    text = page.locator("main").text_content().lower()  # what is folded up included
    for words in (
        "seed",
        "sha-256",
        "loss",
        "learning rate",
        "gradient",
        "spectrum",
        "generation",
        "spikes of one image",
        "energy",
    ):
        assert words in text, words
    figures = page.locator("figure")
    assert figures.count() >= 15
    for caption in figures.locator("figcaption").all_text_contents():
        assert "How to read it" in caption


def test_the_data_of_every_figure_are_embedded_as_csv(visit, report):
    page = visit(report).page
    links = page.locator("figure a.download").evaluate_all("links => links.map(link => [link.download, link.href])")
    assert len(links) == page.locator("figure").count()
    assert len({name for name, _ in links}) == len(links)  # saved side by side, none takes the place of another
    for name, address in links:
        assert name.endswith(".csv")
        kind, _, content = address.partition(",")
        assert kind == "data:text/csv;charset=utf-8"
        rows = list(csv.reader(io.StringIO(urllib.parse.unquote(content))))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1


def numbers(table, column):
    return [
        float(value) if value else None
        for value in table.locator(f"tbody tr > :nth-child({column + 1})").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value ?? '')"
        )
    ]


def test_tables_sort_by_mouse_and_by_keyboard(visit, report):
    page = visit(report).page
    table = page.locator("table[data-sortable]").filter(has_text="dense1").filter(has_text="verdict").first
    heads = table.locator("thead th")
    column = next(place for place, head in enumerate(heads.all()) if head.text_content().strip().startswith("α"))
    before = numbers(table, column)
    button = heads.nth(column).locator("button")
    button.click()
    assert heads.nth(column).get_attribute("aria-sort") == "ascending"
    assert numbers(table, column) == sorted(before)
    button.focus()
    page.keyboard.press("Enter")
    assert heads.nth(column).get_attribute("aria-sort") == "descending"
    assert numbers(table, column) == sorted(before, reverse=True)
    page.keyboard.press("Space")
    assert numbers(table, column) == before


def test_one_layer_is_shown_at_a_time_and_chosen_by_its_name(visit, report):
    page = visit(report).page
    choice = page.locator("[data-choose]").filter(has=page.locator("option", has_text="dense2")).first
    select = choice.locator("select")
    parts = choice.locator(":scope > details")
    assert parts.count() == select.locator("option").count() > 1
    for option in range(parts.count()):
        select.select_option(index=option)
        assert [part.is_visible() for part in parts.all()] == [place == option for place in range(parts.count())]


def curves(page):
    """The drawing of the training curves, in sight."""
    drawing = page.locator("figure", has_text="Loss, accuracy").first.locator(".drawing[data-points]")
    drawing.scroll_into_view_if_needed()
    return drawing


def place_of(drawing, epoch):
    """Where on the screen the training loss of an epoch is drawn."""
    return drawing.evaluate(
        """(drawing, place) => {
            const line = JSON.parse(drawing.dataset.points).panels[0].series[0];
            const svg = drawing.querySelector("svg");
            const at = new DOMPoint(line.x[place], line.y[place]).matrixTransform(svg.getScreenCTM());
            return [at.x, at.y];
        }""",
        epoch - 1,
    )


def test_hovering_tells_the_value_under_the_pointer(visit, report):
    page = visit(report).page
    drawing = curves(page)
    for epoch in (1, 3, 5):
        page.mouse.move(*place_of(drawing, epoch))
        words = page.locator(".tip").inner_text()
        assert "training" in words
        assert "epoch" in words
        assert str(epoch) in words
    page.mouse.move(2, 2)
    assert not page.locator(".tip").is_visible()


def test_points_are_reached_by_arrow_keys_and_announced(visit, report):
    page = visit(report).page
    drawing = curves(page)
    drawing.focus()
    told = []
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        told.append(page.locator("#status").text_content())
    assert all(told)
    assert len(set(told)) == 3


def test_a_finger_is_as_good_as_a_mouse(visit, report):
    page = visit(report, **PHONE).page
    page.touchscreen.tap(*place_of(curves(page), 3))
    assert "epoch" in page.locator(".tip").inner_text()


def test_the_theme_can_be_switched(visit, report):
    page = visit(report).page
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.locator("button", has_text="ark").or_(page.locator("button[aria-pressed]")).first.click()
    assert page.evaluate(colour) != before


def test_without_script_everything_can_be_read(visit, report):
    page = visit(report, java_script_enabled=False).page
    assert page.locator("figure svg").count() == page.locator("figure").count()
    folded = page.locator("[data-choose] > details")
    assert folded.count() > 1
    assert all(part.is_visible() for part in folded.locator(":scope > summary").all())


def test_it_prints(visit, report):
    page = visit(report).page
    page.emulate_media(media="print")
    width, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= seen
    assert not page.locator("nav").first.is_visible()
    assert len(page.pdf()) > 50_000


@pytest.mark.parametrize("options", [{}, PHONE, DARK], ids=["desktop", "phone", "dark"])
def test_no_one_is_shut_out(visit, report, axe, options):
    """axe-core finds nothing serious: contrast, names of controls, order of headings, landmarks, tables."""
    page = visit(report, **options).page
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        (each["id"], each["help"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 10


def test_the_page_of_grades_is_such_a_page_too(visit, axe, tmp_path):
    from weightsmith.reporting.grading_page import grading_page

    path = tmp_path / "grades.html"
    path.write_text(grading_page(ws.grade(ws.networks.mlp(64, 32, 24, 10, seed=0))), encoding="utf-8")
    page = visit(path).page
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    assert [each["id"] for each in found["violations"] if each["impact"] in ("serious", "critical")] == []
