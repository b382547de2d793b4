from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.training.schedules import Cosine, Exponential, Plateau, Schedule, Shifted, Span, WarmUp
from weightsmith.training.watching import Watch


def test_the_rise_is_torchs_linear_one():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.LinearLR(optimiser, start_factor=1 / 8, total_iters=7)
    theirs = []
    for _ in range(20):
        theirs.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    ours = [WarmUp(7, "constant:0.1").at(step, Span(20, 1)) for step in range(20)]
    assert ours == pytest.approx(theirs)


def test_keras_warm_up_is_ours_one_step_later(reference):
    vectors = reference("keras_layers")["schedules"]
    ours = WarmUp(9, then="cosine:0.1")
    run = Span(steps=109, epochs=1)  # Keras decays over 100 steps after its 10
    expected = dict(zip(vectors["steps"], vectors["rates"]["cosine_100_after_warmup_10"], strict=True))
    assert expected.pop(0) == 0.0  # the step that Keras wastes
    for step, rate in expected.items():
        assert ours.at(step - 1, run) == pytest.approx(rate, rel=1e-6)


def test_the_schedule_inside_counts_from_the_end_of_the_rise():
    schedule, run = WarmUp(50, then="exponential:0.1,20"), Span(10, 20)
    for step in range(50, 200):
        assert schedule.at(step, run) == Exponential(0.1, 20).at(step - 50, run)


def test_what_the_schedule_inside_calls_the_run_is_what_is_left_of_it():
    schedule, run = WarmUp(50, then="cosine:0.1"), Span(10, 20)
    assert [schedule.at(50 + t, run) for t in range(150)] == [Cosine(0.1).at(t, Span(150, 1)) for t in range(150)]
    assert schedule.rest(run).total == 150
    assert schedule.rest(run).length("epoch") == 15
    assert WarmUp(45, then="cosine:0.1").rest(run).length("epoch") == 16  # the epoch that was begun counts


def test_a_rise_counted_in_epochs_rises_with_every_step():
    run = Span(10, 20)
    assert [WarmUp(3, "constant:0.1", per="epoch").at(t, run) for t in range(200)] == [
        WarmUp(30, "constant:0.1").at(t, run) for t in range(200)
    ]


def test_a_plateau_inside_watches_and_cuts():
    schedule, run = WarmUp(5, then="plateau:0.1,patience=1,monitor=train_accuracy"), Span(10, 20)
    plateau = Plateau(0.1, patience=1, monitor="train_accuracy")
    assert schedule.monitor == "train_accuracy"
    watch = Watch()
    for epoch, accuracy in enumerate([0.5, 0.4, 0.6], start=1):
        assert schedule.observe(watch, epoch, accuracy) == plateau.observe(watch, epoch, accuracy)
        watch = schedule.observe(watch, epoch, accuracy)
    assert watch.fired == 1
    assert schedule.at(30, run, watch) == pytest.approx(0.01)
    assert WarmUp(5, then="constant:0.1").monitor is None


def test_what_follows_is_read_at_once_and_kept_in_its_shortest_form():
    assert WarmUp(5, then=" cosine:rate=0.1,least=0.0 ") == WarmUp(5, then="cosine:0.1")
    with pytest.raises(UnknownName, match="did you mean 'cosine'"):
        WarmUp(5, then="cosin:0.1")
    with pytest.raises(OptionError, match="cosine: rate must be > 0"):
        WarmUp(5, then="cosine:-1")


def test_nested_text_survives_the_round_trip():
    inner = WarmUp(3, then='piecewise:0.1,0.05,bounds=[4],per="epoch"')
    outer = WarmUp(7, then=str(inner))
    assert Schedule.parse(str(outer)) == outer
    assert outer.following == inner
    run = Span(10, 20)
    assert outer.at(7, run) == pytest.approx(0.1 / 4)
    assert outer.at(10, run) == pytest.approx(0.1)


def test_a_rise_longer_than_the_run_stays_on_its_line():
    assert WarmUp(99, "cosine:0.1").at(49, Span(50, 1)) == pytest.approx(0.05)


WHOLE = [
    "constant:0.1",
    "cosine:0.1",
    "cosine:0.1,per=epoch",
    "one-cycle:0.1",
    "power:0.1,7",
    "exponential:0.1,3,per=epoch",
    "piecewise:0.1,0.01,bounds=[4],per=epoch",
    "warm-up:13,cosine:0.1",
]


@given(st.sampled_from(WHOLE), st.integers(1, 9), st.integers(1, 9), st.data())
def test_it_is_that_part_of_the_whole(text, steps, epochs, data):
    start = data.draw(st.integers(0, epochs - 1))
    length = data.draw(st.integers(1, epochs - start))
    whole, part = Schedule.parse(text), Shifted(start, epochs, then=text)
    ours = [part.at(step, Span(steps, length)) for step in range(steps * length)]
    theirs = [whole.at(step, Span(steps, epochs)) for step in range(steps * epochs)]
    assert ours == theirs[start * steps : (start + length) * steps]


def test_equal_schedules_are_equal_however_they_were_written():
    assert Shifted(1, 3, then="cosine: 1e-1") == Shifted(1, 3, then="cosine:0.1,least=0.0")
    assert Schedule.parse(str(Shifted(1, 3, then="power:0.1,20"))) == Shifted(1, 3, then="power:0.1,20")


def test_a_plateau_inside_watches_on():
    schedule, whole = Shifted(4, 9, then="plateau:0.1,patience=2"), Plateau(0.1, patience=2)
    assert schedule.monitor == "validation_loss"
    watch, expected = Watch(), Watch()
    for epoch, value in enumerate([1.0, 0.5, 0.6, 0.6, 0.6], start=1):
        watch, expected = schedule.observe(watch, epoch, value), whole.observe(expected, epoch + 4, value)
    assert watch == expected
    assert (watch.best_epoch, watch.fired) == (6, 1)
    assert schedule.at(0, Span(10, 5), watch) == pytest.approx(0.01)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(OptionError, match="3 is not below 3"):
        Shifted(3, 3, then="cosine:0.1")
    with pytest.raises(UnknownName, match="did you mean 'cosine'"):
        Shifted(1, 3, then="cosinus:0.1")
