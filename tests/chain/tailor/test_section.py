from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.chain.tailor.section import dots_of, draw_front_of
from weightsmith.chain.tailor.tailoring import tailor


@pytest.fixture(scope="module")
def record():
    digits = ws.data.load("digits")
    run = ws.train("mlp:16", digits, optimiser="adam", schedule=0.01, epochs=3, seed=0)
    return tailor(run, digits, accuracy=0.5, params=0.5, recover=None, rows=200).record


def test_every_candidate_is_a_dot(record):
    dots = dots_of(record)
    assert [dot.kind for dot in dots] == [each.kind for each in record.candidates]
    assert [dot.accuracy for dot in dots] == [each.share for each in record.candidates]
    assert [dot.on_front for dot in dots] == [each in record.front for each in record.candidates]
    assert [index for index, dot in enumerate(dots) if dot.chosen] == [record.chosen]


def test_the_figure_has_the_limits_and_the_choice(record):
    figure = draw_front_of(record)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "limit" in names
    assert any(name.startswith("chosen") for name in names)
    right = figure.axes[1]
    assert record.limits.params in [line.get_xdata()[0] for line in right.lines]
