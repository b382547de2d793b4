from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.training.schedules import Exponential, OneCycle, Power, Schedule, Span
from weightsmith.training.schedules.check import check_schedule
from weightsmith.training.watching import Watch

COURSE = Span(steps=2625, epochs=10)


def check(text: str, span: Span = COURSE) -> tuple[str, ...]:
    return check_schedule(Schedule.parse(text), span)


def test_the_courses_mistake_is_flagged_and_its_intention_is_not():
    (sentence,) = check("exponential:0.01,3281")
    assert "below 1 % of 0.01 at step 6563 (epoch 3 of 10)" in sentence
    assert "s=26250" in sentence
    assert check("exponential:0.01,26250") == ()
    assert check("exponential:0.01,52500") == ()


@pytest.mark.parametrize(
    "text",
    [
        "constant:0.01",
        "power:0.01,10000",
        "cosine:0.1",
        "cosine:0.1,over=26250",
        "cosine:0.1,over=10,per=epoch",
        "one-cycle:0.1",
        "plateau:0.01,patience=5",
        "plateau:0.01,patience=7,rule=torch",
        "piecewise:0.1,0.01,bounds=[13000]",
        "piecewise:0.1,0.01,0.001,bounds=[5,9],per=epoch",
        "warm-up:500,cosine:0.1",
        "warm-up:2,one-cycle:0.1,per=epoch",
        "power:0.01,1,c=0",
    ],
)
def test_schedules_that_fit_are_passed_over(text):
    assert check(text) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exponential:0.01,20", "at step 41 (epoch 1 of 10).*say per=epoch if epochs were meant"),
        ("exponential:0.01,1,per=epoch", "at step 7875 (epoch 4 of 10).*s=10 would leave a tenth"),
        ("power:0.01,3", "at step 298 .*s=26250 would end at 0.5 of it, or say per=epoch"),
        ("piecewise:0.1,0.0005,bounds=[3000]", "at step 3000 (epoch 2 of 10).*later steps"),
        ('warm-up:500,"exponential:0.1,3281"', "1 % of 0.1 at step 7063 .*s=25750 would leave a tenth"),
        ("exponential:0.1,52500,per=epoch", "only falls from 0.1 to 0.0999605.*say per=step if steps were meant"),
        ("power:0.1,1e9", "s=1e+09 is so long for the run of 26250 steps"),
        ("piecewise:3,2,1,bounds=[5,8]", "last bound is step 8 of 26250, within the first epoch; say per=epoch"),
        ("piecewise:3,2,1,bounds=[9,10],per=epoch", "ends with 10 epochs, before the bound 10, so the rate 1 is never"),
        ("piecewise:3,2,1,bounds=[30000,40000]", "before the bound 30000, so the rate 2, 1 is never used"),
        ("piecewise:3,2,bounds=[9000],per=epoch", "say per=step if steps were meant"),
        ("cosine:0.1,over=13125", "ends after 13125 of 26250 steps and leaves the rate at 0 for the rest of the run"),
        ("cosine:0.1,over=5", "ends after 5 of .*say per=epoch"),
        ("cosine:0.1,0.02,over=20,per=epoch", "takes 20 epochs and the run has 10, so the rate only comes to"),
        ("one-cycle:0.1,over=10000,end=0.01", "ends after 10000 of 26250 steps and leaves the rate at 0.001"),
        ("one-cycle:0.1,over=52500", "takes 52500 steps and the run has 26250"),
        ("plateau:0.1,patience=9", "first cut can come after epoch 10, and the run has 10"),
        ("plateau:0.1,patience=8,rule=torch", "first cut can come after epoch 10, and the run has 10"),
        ("warm-up:52499,cosine:0.1", "takes 52499 steps and the run has 26250, so the rate only rises to 0.05 of 0.1"),
        ("warm-up:500,cosine:0.1,per=epoch", "say per=step if steps were meant"),
        ('warm-up:500,"cosine:0.1,over=26250"', "takes 26250 steps and the run after the warm-up has 25750"),
    ],
)
def test_each_mistake_is_said_once_with_its_numbers_on_one_line(text, message):
    (sentence,) = check(text)
    pattern = ".*".join(map(re.escape, message.split(".*")))
    assert re.search(pattern, sentence), sentence
    assert "\n" not in sentence
    inner = Schedule.parse(text)
    assert sentence.startswith((f"{inner}: ", f"{getattr(inner, 'following', inner)}: "))


def test_a_cycle_without_room_to_rise():
    (sentence,) = check_schedule(OneCycle(0.1), Span(3, 1))
    assert "0.3 of 3 steps is no more than one step" in sentence
    assert check_schedule(OneCycle(0.1, warm=0), Span(3, 1)) == ()


def test_a_plateau_that_can_just_cut_is_passed_over_and_does_cut():
    schedule = Schedule.parse("plateau:0.1,patience=8")
    assert check_schedule(schedule, COURSE) == ()
    watch = Watch()
    for epoch in range(1, 10):
        watch = schedule.observe(watch, epoch, 1.0)
    assert watch.fired == 1  # in time for the tenth epoch


@settings(deadline=None, max_examples=50)
@given(
    st.builds(Exponential, st.just(0.1), st.floats(1, 3000)) | st.builds(Power, st.just(0.1), st.floats(0.1, 300)),
    st.integers(1, 3000),
    st.integers(1, 10),
)
def test_the_step_named_is_the_first_faded_one(schedule, steps, epochs):
    span = Span(steps, epochs)
    third = [step for step in range(span.total) if step < span.total / 3]
    faded = next((step for step in third if schedule.at(step, span) < 0.01 * 0.1), None)
    message = [text for text in check_schedule(schedule, span) if "falls below" in text]
    if faded is None:
        assert message == []
    else:
        assert f" at step {faded} (epoch {faded // steps + 1} of {epochs})" in message[0]


@pytest.mark.parametrize("text", ["exponential:0.1,5,per=epoch", "power:0.1,5,per=epoch"])
def test_a_single_epoch_is_no_reason_to_call_a_schedule_by_epochs_idle(text):
    assert check(text, Span(100, 1)) == ()
