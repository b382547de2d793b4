"""Names from files cannot break a figure, and logarithmic axes have readable ticks in any range."""

from __future__ import annotations

import itertools
import warnings

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from weightsmith.core.statistics import Interval
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.reporting.figures.labels import columns, law_text, network_labels, readable_ticks, shown
from weightsmith.reporting.figures.style import house_style, new_figure


@given(st.text(max_size=60), st.integers(8, 50))
@settings(max_examples=100, deadline=None)
def test_any_name_becomes_one_line_that_is_not_too_long(name, longest):
    found = shown(name, longest)
    assert found.isprintable()
    assert len(found.lstrip(" ").replace(r"\$", "$")) <= longest
    assert not found.startswith("_")


def test_a_short_plain_name_stays_as_it_is():
    assert shown("module.layer1.0.conv1") == "module.layer1.0.conv1"


def test_names_are_drawn_as_letters_and_without_warnings(hostile):
    with warnings.catch_warnings(), house_style():
        warnings.simplefilter("error")
        figure, (axes,) = new_figure(4, 2)
        axes.plot([1], [1], label=shown("_$" + hostile))
        axes.set_title(shown(hostile))
        legend = axes.legend()
        figure.draw_without_rendering()
    assert len(legend.get_texts()) == 1


def test_networks_are_told_apart():
    assert network_labels(["a/net.safetensors"]) == ["net"]
    assert network_labels(["a/net.pt", "a/net.onnx"]) == ["net.pt", "net.onnx"]
    assert network_labels([".pt", "/"]) == [".pt", "/"]
    for sources in (["x", "x"], ["a/x", "b/x"], ["C:\\nets\\x.h5", "y"]):
        assert len(set(network_labels(sources))) == 2


@given(st.lists(st.integers(3, 40), min_size=1, max_size=12), st.sampled_from([5.5, 7.0, 11.0]))
@settings(max_examples=15, deadline=None)
def test_legends_fit_into_the_figure(lengths, width):
    labels = ["n" * length for length in lengths]
    with house_style():
        figure, (axes,) = new_figure(width, 3)
        for label in labels:
            axes.plot([1, 2], label=label)
        count = columns(labels, width)
        legend = figure.legend(loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=1.8)
        figure.draw_without_rendering()
    box = legend.get_window_extent()
    if count > 1:
        assert box.width <= figure.bbox.width * 1.1  # n is wider than a letter is on average
    assert 1 <= count <= len(labels)


@given(st.floats(-280, 299), st.floats(1e-9, 12))  # below, matplotlib takes a linear axis for empty
@example(-10.0, 1.1875)
@example(-280.0, 0.59)
@settings(max_examples=15, deadline=None)
def test_every_range_has_ticks_that_differ(start, decades):
    low, high = 10.0**start, 10.0 ** min(start + decades, 305)
    with house_style():
        figure, (axes,) = new_figure(4, 3)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        readable_ticks(axes.xaxis)
        figure.draw_without_rendering()
    seen = [
        (label.get_text(), label.get_window_extent())
        for label, position in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)
        if low <= position <= high and label.get_text()
    ]
    assert seen
    assert len({text for text, _ in seen}) == len(seen)
    for (_, left), (_, right) in itertools.pairwise(seen):
        assert left.x1 <= right.x0
    assert not axes.get_xticks(minor=True).size


@pytest.mark.parametrize(
    ("limits", "texts"),
    [((1.4, 41), ["2", "5", "10", "20"]), ((1.9, 9), ["2", "3", "4", "6", "8"]), ((1e-6, 1.1), ["10⁻⁶", "10⁰"])],
)
def test_ordinary_numbers_are_plain_and_others_powers(limits, texts):
    with house_style():
        figure, (axes,) = new_figure(4, 3)
        axes.set_yscale("log")
        axes.set_ylim(*limits)
        readable_ticks(axes.yaxis)
        figure.draw_without_rendering()
    assert set(texts) <= {label.get_text() for label in axes.get_yticklabels()}


def test_the_law_is_told_in_numbers_or_the_reason_for_none(make_layer):
    plain = make_layer("a", [1.0, 2.0, 4.0, 8.0])
    assert law_text(plain) == "α = 1.96 · λ_min = 1 · D = 0.237 · tail 4 of 4"
    full = make_layer("a", [1.0, 2.0, 4.0, 8.0], interval=(1.5, 3.25), goodness=Goodness(0.25, 400, rejected=False))
    assert isinstance(full.interval, Interval)
    assert law_text(full) == "α = 1.96 [1.5, 3.25] · λ_min = 1 · D = 0.237 · tail 4 of 4 · p = 0.25"
    assert law_text(make_layer("b")) == "no fit: zero (all weights are zero)"
