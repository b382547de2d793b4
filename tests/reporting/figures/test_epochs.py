"""α, stable rank and λ_max by epoch: what counts as checkpoints of one run, and what the lines show."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from weightsmith.core.errors import UsageError
from weightsmith.grading.grade import grade
from weightsmith.networks import mlp
from weightsmith.reporting.figures.epochs import PANELS, checkpoint_epochs, epochs_figure, epochs_rows


def checkpoint(source: str, factor: float = 1.0, hidden: int = 16, seed: int = 0):
    network = mlp(24, hidden, 10, seed=seed)
    with torch.no_grad():
        network.output.weight.mul_(factor)
    return dataclasses.replace(grade(network, evidence="none"), source=source)


def test_names_that_differ_in_their_last_number_are_checkpoints():
    of = [checkpoint(f"runs/7/epoch-{epoch:04d}.safetensors") for epoch in (10, 2)]
    assert checkpoint_epochs(of) == (10, 2)
    assert checkpoint_epochs([checkpoint("step_100.pt"), checkpoint("step_2000.pt")]) == (100, 2000)
    assert checkpoint_epochs(of[:1]) is None
    assert checkpoint_epochs([of[0], checkpoint("other-3.safetensors")]) is None
    assert checkpoint_epochs([of[0], checkpoint("runs/7/epoch-0003.safetensors", hidden=18)]) == (10, 3)
    assert checkpoint_epochs([checkpoint("resnet20.pt"), checkpoint("best.pt")]) is None
    with pytest.raises(UsageError, match="not checkpoints of one run"):
        epochs_figure([of[0], checkpoint("other.pt")])


def test_lines_are_the_numbers_by_epoch_and_a_layer_without_a_fit_leaves_a_gap():
    networks = [checkpoint("epoch-3.pt", 0.0), checkpoint("epoch-1.pt"), checkpoint("epoch-2.pt", 2.0)]
    rows = epochs_rows(networks)
    assert [(row["epoch"], row["layer"]) for row in rows[::2]] == [(1, "dense1"), (2, "dense1"), (3, "dense1")]
    figure = epochs_figure(networks)
    assert len(figure.axes) == len(PANELS)
    for axes, name in zip(figure.axes, PANELS, strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        assert list(lines) == ["dense1", "output", "median of 2 layers"]
        assert lines["output"].get_xdata() == pytest.approx([1, 2, 3])
        drawn = lines["output"].get_ydata()
        assert drawn[:2] == pytest.approx([rows[1][name], rows[3][name]])
        assert math.isnan(drawn[2])
        assert rows[5][name] is None
    growth = figure.axes[2].lines[1].get_ydata()
    assert growth[1] == pytest.approx(4 * growth[0], rel=1e-5)
