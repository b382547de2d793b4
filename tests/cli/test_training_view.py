from __future__ import annotations

import dataclasses
import io
import sys

import pytest
from torch import nn

from weightsmith.cli.training_view import epoch_line, training_view
from weightsmith.training.run import EpochEnd, EpochRow, Progress


def row(epoch=3, **columns):
    return EpochRow(epoch=epoch, steps=10, rate=0.05, train_loss=0.25, train_accuracy=0.9, **columns)


def step(epoch, number, left=12.0):
    return Progress(epoch, 5, number, 10, 0.25, 0.9, 0.05, left)


def test_the_line_of_an_epoch():
    validated = row(validation_loss=0.5, validation_accuracy=0.8)
    line = "epoch 3 of 5: loss 0.2500, accuracy 90.00 %, validation 0.5000, 80.00 %, rate 0.05, 1 min 05 s left"
    assert epoch_line(validated, 5, 65) == line
    assert epoch_line(row(), 5, None) == "epoch 3 of 5: loss 0.2500, accuracy 90.00 %, rate 0.05"
    regression = dataclasses.replace(row(), train_accuracy=None, extra={"train_r2": -8.4891})
    assert epoch_line(regression, 5, None) == "epoch 3 of 5: loss 0.2500, R² −848.91 %, rate 0.05"


def test_plain_lines_one_per_epoch(capsys):
    with training_view(quiet=False) as view:
        for epoch in (1, 2):
            for number in (5, 10):
                view.progress(step(epoch, number))
            assert [hook(EpochEnd(nn.Identity(), row(epoch))) for hook in view.hooks] == [None]
    assert [line[:14] for line in capsys.readouterr().err.splitlines()] == ["epoch 1 of 5: ", "epoch 2 of 5: "]


def test_it_says_where_an_earlier_run_is_gone_on_with(capsys):
    with training_view(quiet=False) as view:
        view.progress(step(3, 1))
        view.progress(step(3, 2))
    assert capsys.readouterr().err == "resuming after epoch 2\n"


def test_quiet_is_silent(capsys):
    with training_view(quiet=True) as view:
        assert (view.progress, view.hooks) == (None, ())
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("validated", [True, False])
def test_a_bar_on_a_terminal(monkeypatch, validated):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with training_view(quiet=False) as view:
        view.progress(step(2, 5))
        measured = {"validation_loss": 0.5, "validation_accuracy": 0.8} if validated else {}
        for hook in view.hooks:
            hook(EpochEnd(nn.Identity(), row(2, **measured)))
        view.progress(step(2, 10))
    for text in ("epoch 2/5", "loss 0.2500 · 90.0 % · rate 0.05 · 12 s left"):
        assert text in shown.getvalue()
    assert ("validation 80.0 %" in shown.getvalue()) is validated
