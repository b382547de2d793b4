from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from rich.console import Console
from torch import nn

from weightsmith.cli._layer_table import layer_legend, layer_table
from weightsmith.core.statistics import Interval
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Verdict, VerdictKind
from weightsmith.reporting._sparks import spectrum_spark


@pytest.fixture(scope="module")
def grades():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(16, 16, 2), nn.Linear(16, 16), nn.Linear(16, 12), nn.Linear(12, 3))
    made[1].weight.data.zero_()
    return grade(made, evidence="none")


@pytest.fixture(scope="module")
def judged():
    """Numbers of known width, under a name as files have them: all columns take 96."""
    generator = torch.Generator().manual_seed(0)
    weights = {f"module.layer3.{n}.conv2.weight": torch.randn(64, 32, 3, 3, generator=generator) for n in range(3)}
    return [
        dataclasses.replace(
            layer,
            fit=dataclasses.replace(layer.fit, alpha=4.0, xmin=12.5, D=0.1, tail=33),
            interval=Interval(4.0, 2.25, 19.75, 0.95, "test"),
            metrics=dataclasses.replace(layer.metrics, lambda_max=99.9),
            bulk=dataclasses.replace(layer.bulk, spikes=7),
            verdict=Verdict(VerdictKind.CANNOT_SAY, "because"),
            shares=None,
            notes=(),
        )
        for layer in grade(weights, evidence="fast:resamples=50").layers
    ]


def lines_of(layers, width=200):
    console = Console(width=width, file=io.StringIO())
    console.print(layer_table(layers, width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def spark_of(layer):
    return spectrum_spark(layer.eigenvalues, 12)


def test_a_row_has_the_numbers_of_its_layer(grades):
    layer = grades["0"]
    known = dataclasses.replace(layer, interval=Interval(layer.alpha, 2.25, 11.5, 0.95, "test"))
    alpha = f"{layer.alpha:.2f} [2.25, 11.50]"
    numbers = f"{layer.fit.xmin:.3g} {layer.fit.D:.3f} {layer.fit.tail} {layer.metrics.lambda_max:.3g}"
    head, line = lines_of([known])
    assert head.split() == ["layer", "N×M", "evals", "α", "λ_min", "D", "tail", "λ_max", "spectrum", "verdict"]
    *cells, spectrum, last, word = line.split()
    assert [*cells, last, word] == ["0", "16×16", "×4", "64", *alpha.split(), *numbers.split(), "not", "judged"]
    assert spectrum == spark_of(layer)


def test_a_layer_without_a_fit_shows_its_status_and_no_number(grades):
    rows = lines_of(grades.layers)[1:]
    assert rows[1].split() == ["1", "16×16", "16", "zero"]
    small = grades["3"]
    assert rows[3].split() == ["3", "12×3", "3", f"{small.metrics.lambda_max:.3g}", spark_of(small), "too", "small"]


def test_names_are_shown_as_they_are(grades):
    layer = dataclasses.replace(grades["0"], name="[bold]odd[/bold]", slice=3)
    assert "[bold]odd[/bold][3]" in lines_of([layer])[1]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (200, "layer N×M evals α λ_min D tail λ_max spikes spectrum verdict"),
        (100, "layer N×M evals α λ_min D tail λ_max spikes verdict"),
        (95, "layer N×M evals α λ_min tail λ_max spikes verdict"),
        (80, "layer N×M evals α λ_min spikes verdict"),
        (70, "layer N×M α spikes verdict"),
        (60, "layer N×M α verdict"),
    ],
)
def test_a_narrow_terminal_has_fewer_columns_and_one_line_per_layer(judged, width, heads):
    head, *rows = lines_of(judged, width)
    assert len(rows) == len(judged)
    assert max(map(len, [head, *rows])) <= width
    for layer, row in zip(judged, rows, strict=True):
        assert row.startswith(layer.name)
        assert " 4.00 [2.25, 19.75] " in row
        assert row.endswith(" cannot say")
    assert head.split() == heads.split()


def test_columns_go_in_the_order_of_their_worth(judged):
    gone: list[str] = []
    for width in range(140, 40, -1):
        shown = lines_of(judged, width)[0].split()
        gone += [
            head
            for head in ("spectrum", "D", "λ_max", "tail", "λ_min", "evals", "spikes", "N×M")
            if head not in [*shown, *gone]
        ]
    assert gone == ["spectrum", "D", "λ_max", "tail", "λ_min", "evals", "spikes", "N×M"]


def test_only_names_that_do_not_fit_at_all_are_cut_and_from_the_left(judged):
    long = dataclasses.replace(judged[0], name="x" * 60 + ".self_attention.query")
    head, row, other = lines_of([long, judged[1]], 80)
    assert head.split() == ["layer", "α", "verdict"]
    assert row.startswith("…xx")
    assert ".self_attention.query " in row
    assert " 4.00 [2.25, 19.75] " in row
    assert len(row) <= 80
    assert other.startswith(judged[1].name)


def test_the_legend_names_the_columns_that_are_there_and_those_that_are_not(judged, grades):
    assert layer_legend(judged, 200) == (
        "N×M size of its matrices · evals eigenvalues of all · α [95 % interval] · λ_min where the tail "
        "begins · D its distance to the law · tail eigenvalues in it · λ_max largest eigenvalue · "
        "spikes eigenvalues beyond noise · spectrum log counts by log λ"
    )
    narrow = layer_legend(judged, 80)
    assert narrow.endswith(" · a wider terminal has D, tail, λ_max, spectrum")
    assert "its distance" not in narrow
    assert "α exponent of the tail" in layer_legend(grades.layers, 200)
