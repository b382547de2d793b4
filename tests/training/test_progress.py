from __future__ import annotations

import pytest

from weightsmith.training import progress
from weightsmith.training.progress import Clock, Total
from weightsmith.training.schedules import Span
from weightsmith.training.stepping import Step


def test_means_are_weighted_by_rows():
    total = Total()
    total.add(Step(loss=1.0, correct=3, rows=4))
    total.add(Step(loss=4.0, correct=0, rows=2))
    assert total.loss == pytest.approx((1.0 * 4 + 4.0 * 2) / 6)
    assert total.accuracy == 3 / 6


def ticks(monkeypatch, seconds, steps=4, epochs=2, skipped=0):
    """What a clock tells when each step takes ``seconds``."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    told = []
    clock, span, total = Clock(told.append, steps * epochs), Span(steps, epochs), Total()
    clock.skip(skipped)
    total.add(Step(0.5, 1, 2))
    for step in range(skipped, steps * epochs):
        now[0] += seconds
        clock.tick(step // steps + 1, step % steps, span, total, rate=0.1)
    return told


def test_slow_steps_are_told_one_by_one_with_the_time_left(monkeypatch):
    told = ticks(monkeypatch, seconds=2.0)
    assert [(p.epoch, p.step) for p in told] == [(e, s) for e in (1, 2) for s in (1, 2, 3, 4)]
    assert [p.left for p in told] == pytest.approx([14, 12, 10, 8, 6, 4, 2, 0])
    assert (told[0].epochs, told[0].steps, told[0].loss, told[0].accuracy, told[0].rate) == (2, 4, 0.5, 0.5, 0.1)


def test_of_fast_steps_only_some_are_told_and_always_the_last_of_an_epoch(monkeypatch):
    told = ticks(monkeypatch, seconds=0.001, steps=1000)
    assert len(told) < 30
    assert [p.step for p in told].count(1000) == 2


def test_steps_of_an_earlier_run_do_not_count_as_fast_ones(monkeypatch):
    assert ticks(monkeypatch, seconds=2.0, skipped=6)[0].left == pytest.approx(2.0)


def test_nobody_listens():
    Clock(None, 4).tick(1, 0, Span(2, 2), Total(), 0.1)
