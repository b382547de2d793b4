"""Verdicts on readings made by hand: every limit from both sides, which probes count, and the words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.training.diagnosis.gradients import (
    GROWN,
    LARGEST_FIRST_UPDATE,
    LARGEST_UPDATE,
    SHRUNK,
    Health,
    Reading,
    ThroughTime,
)
from weightsmith.training.diagnosis.verdicts import judge


def reading(
    sensitivity=1.0, *, update=0.01, gradient=1.0, uses=1, finite=True, output_finite=True, trained=True, **more
):
    return Reading(sensitivity, update, gradient, uses, finite, output_finite, trained, **more)


def seen(*sensitivities, **others):
    return [reading(value, **others) for value in sensitivities]


def healths(found):
    return {layer.name: layer.health for layer in found.layers}


def two(below, top=None, probes=None):
    """A layer below an output layer of sensitivity 1 throughout."""
    probes = probes or range(len(below))
    return judge(list(probes), {"dense1": below, "output": top or seen(*[1.0] * len(below))})


@pytest.mark.parametrize(
    ("ratio", "health"),
    [
        (SHRUNK * 0.99, Health.VANISHING),
        (SHRUNK * 1.01, Health.HEALTHY),
        (GROWN * 0.99, Health.HEALTHY),
        (GROWN * 1.01, Health.EXPLODING),
    ],
)
def test_sensitivity_is_compared_with_that_of_the_last_layer(ratio, health):
    for scale in (1e-6, 1.0, 50.0):
        found = judge([0], {"dense1": seen(ratio * scale), "output": seen(scale)})
        assert healths(found) == {"dense1": health, "output": Health.HEALTHY}
        assert found.reference == "output"
        assert found.health is health


def test_the_reason_holds_the_numbers_the_layer_compared_with_and_the_limit():
    found = two([reading(2.5e-5, update=3.25e-7)], seen(0.5))
    assert found.layers[0].reason == (
        "at step 0 its sensitivity is 2.5e-05, 5e-05 of the 0.5 at output (less than 0.001), "
        "its update is 3.3e-07 of its weights"
    )
    assert found.layers[1].reason == (
        "at step 0 its sensitivity is 0.5 (the others are compared with it), its update is 0.01 of its weights"
    )


def test_the_later_half_of_the_probes_decides():
    recovered = two(seen(1e-6, 1e-6, 0.5, 0.5))
    assert recovered.health is Health.HEALTHY
    collapsed = two(seen(0.5, 0.5, 1e-6, 1e-6))
    assert collapsed.health is Health.VANISHING
    once = two(seen(0.5, 0.5, 0.5, 1e-6, 0.5))
    assert once.health is Health.HEALTHY


@pytest.mark.parametrize(
    ("updates", "health"),
    [
        ((LARGEST_UPDATE * 0.99,), Health.HEALTHY),
        ((LARGEST_UPDATE * 1.01,), Health.EXPLODING),
        ((LARGEST_FIRST_UPDATE * 0.99, 0.1), Health.HEALTHY),
        ((LARGEST_FIRST_UPDATE * 1.01, 0.1), Health.EXPLODING),
        ((0.1, LARGEST_UPDATE * 1.01, 0.1), Health.EXPLODING),
    ],
)
def test_an_update_that_overwrites_the_weights_explodes(updates, health):
    found = two([reading(update=update) for update in updates])
    assert healths(found)["dense1"] is health


def test_a_first_step_that_kills_the_layer_or_breaks_its_numbers_explodes():
    large = reading(update=LARGEST_FIRST_UPDATE * 0.99)
    dead = two([large, reading(0.0, gradient=0.0)])
    assert dead.layers[0].health is Health.EXPLODING
    assert dead.layers[0].reason.endswith("overwrites them), its gradient is exactly zero at step 1")
    broken = two([large, reading(None, finite=False)])
    assert broken.layers[0].health is Health.EXPLODING
    assert broken.layers[0].reason.endswith("overwrites them), its gradient is NaN or infinite at step 1")


def test_only_the_first_step_of_the_run_is_allowed_more():
    below = [reading(update=2.0), reading(update=0.1)]
    assert two(below, probes=[0, 10]).health is Health.HEALTHY
    assert two(below, probes=[10, 20]).health is Health.EXPLODING


def test_where_numbers_break_after_an_explosion_the_explosion_is_named():
    broken = reading(None, update=None, gradient=None, finite=False)
    grown = two([reading(1e9), broken], [reading(), broken])
    assert healths(grown) == {"dense1": Health.EXPLODING, "output": Health.NOT_FINITE}
    assert grown.health is Health.EXPLODING
    assert "1e+09 times the 1 at output (more than 1000)" in grown.sentence
    calm = two([reading(), broken], [reading(), broken])
    assert calm.health is Health.NOT_FINITE
    assert calm.layers[0].reason == "its gradient is NaN or infinite at step 1"


def test_the_layer_where_an_output_broke_first_is_named():
    gradient = reading(None, finite=False)
    output = reading(None, finite=False, output_finite=False)
    found = judge([3], {"a": [gradient], "b": [output], "c": [output]})
    assert "b: its output is NaN or infinite at step 3" in found.sentence


def test_dead_means_exactly_zero_at_the_last_probe():
    assert healths(two(seen(0.5, 0.0)))["dense1"] is Health.DEAD
    assert healths(two(seen(0.0, 0.5)))["dense1"] is Health.HEALTHY
    assert healths(two(seen(0.0)))["dense1"] is Health.DEAD
    hidden = reading(None, gradient=0.0, uses=0)
    assert healths(two([hidden]))["dense1"] is Health.DEAD


def test_what_was_not_measured_is_not_called_healthy():
    found = two([reading(None, gradient=0.1, uses=0)])
    assert healths(found) == {"dense1": Health.NOT_MEASURED, "output": Health.HEALTHY}
    assert found.health is Health.NOT_MEASURED
    assert not found.health.calls_for_action
    assert found.sentence.startswith("gradients healthy in 1 of 2 layers")
    assert found.sentence.endswith("; not measured in dense1")


@pytest.mark.parametrize(
    ("ratio", "health"),
    [
        (SHRUNK * 0.99, Health.VANISHING),
        (SHRUNK * 1.01, Health.HEALTHY),
        (GROWN * 0.99, Health.HEALTHY),
        (GROWN * 1.01, Health.EXPLODING),
    ],
)
def test_through_time_the_first_step_is_compared_with_the_last(ratio, health):
    found = two([reading(through_time=ThroughTime(ratio, 9, 64))])
    assert healths(found)["dense1"] is health
    assert found.layers[0].through_time == ratio
    assert ("through time" in found.sentence) is (health is not Health.HEALTHY)
    assert ("it reaches 9 of 64 steps" in found.sentence) is (health is Health.VANISHING)


def test_a_unit_is_dead_that_no_later_probe_moves():
    idle = ["1111", "1110", "1110", "1111"]  # the later half has three units in common
    found = two([reading(idle=marks) for marks in idle])
    assert found.layers[0].dead == 0.75
    assert found.layers[0].health is Health.HEALTHY  # not more than three quarters
    assert "no image gave 75% of its units a gradient" in found.layers[0].reason
    assert healths(two([reading(idle="11111")]))["dense1"] is Health.DEAD
    apart = two([reading(idle="11111"), reading(idle="00011"), reading(idle="11100"), reading(idle="00011")])
    assert apart.layers[0].dead == 0.0


def test_flat_activations_are_judged_but_not_those_of_the_outputs():
    flat = reading(saturated=0.51)
    found = two([flat], [flat])
    assert healths(found) == {"dense1": Health.SATURATED, "output": Health.HEALTHY}
    assert "51% of the activations behind it are flat" in found.sentence
    assert two([reading(saturated=0.49)]).health is Health.HEALTHY


@pytest.mark.parametrize("scale", [0.009, 10.1])
def test_badly_scaled_inputs_are_blamed_before_the_layers(scale):
    found = two([reading(1e9, scale=scale)], [reading(scale=99.0)])
    assert found.health is Health.BADLY_SCALED
    assert found.sentence.startswith(f"inputs badly scaled (a root mean square of {scale:.3g} enters dense1")
    assert "exploding in dense1" in found.sentence
    assert two([reading(scale=1.0)], [reading(scale=99.0)]).health is Health.HEALTHY


def test_zero_below_the_smallest_float_is_vanishing():
    found = judge([0], {"a": seen(0.0), "b": seen(1e-43), "c": seen(1.0)})
    assert healths(found) == {"a": Health.VANISHING, "b": Health.VANISHING, "c": Health.HEALTHY}


def test_layers_without_gradient_and_frozen_ones():
    never = reading(None, update=0.0, gradient=None, uses=0)
    frozen = reading(1e-9, update=None, gradient=None, trained=False)
    found = judge([0], {"ice": [frozen], "lost": [never], "output": seen(1.0)})
    assert healths(found) == {"ice": Health.FROZEN, "lost": Health.DEAD, "output": Health.HEALTHY}
    assert "lost" in found.sentence
    assert "1 frozen layer is not judged" in found.sentence
    assert judge([0], {"ice": [frozen]}).sentence == "all 1 layers are frozen: there is nothing to judge"
    assert judge([0], {"ice": [frozen]}).health is Health.FROZEN


def test_a_layer_that_was_frozen_for_a_while_is_judged():
    frozen = reading(0.5, update=None, gradient=None, trained=False)
    assert healths(two([frozen, reading(1e-7)]))["dense1"] is Health.VANISHING


def test_the_sentence_names_runs_of_layers():
    ratios = {"a": 1e-9, "b": 1e-8, "c": 1e-7, "d": 1.0, "e": 1e-5, "f": 1e5, "output": 1.0}
    found = judge([0], {name: seen(ratio) for name, ratio in ratios.items()})
    assert found.health is Health.EXPLODING
    assert found.sentence.startswith("gradients exploding in f (1 of 7 layers; f: ")
    assert "vanishing in a to c, e (4 of 7 layers; a: " in found.sentence
    assert "\n" not in found.sentence


def test_the_sentence_of_a_healthy_network_gives_the_range():
    found = judge([0], {"a": seen(0.5), "b": seen(3.0, update=0.02), "output": seen(1.0)})
    assert found.sentence == (
        "gradients healthy in all 3 layers: sensitivities 0.5 to 3 times that of output, "
        "updates up to 0.02 of the weights"
    )


@given(
    st.lists(
        st.lists(
            st.builds(
                reading,
                sensitivity=st.none() | st.floats(0, 1e30),
                update=st.none() | st.floats(0, 1e30),
                gradient=st.none() | st.floats(0, 1e30),
                uses=st.integers(0, 2),
                finite=st.booleans(),
                output_finite=st.booleans(),
                trained=st.booleans(),
                idle=st.none() | st.sampled_from(["000", "111", "011"]),
                saturated=st.none() | st.floats(0, 1),
                through_time=st.none() | st.builds(ThroughTime, st.floats(0, 1e30), st.just(1), st.just(3)),
            ),
            min_size=3,
            max_size=3,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_readings_give_a_verdict_with_a_reason(rows):
    found = judge([0, 7, 9], {f"layer{number}": row for number, row in enumerate(rows)})
    assert found.from_json(found.to_json()) == found
    assert all(layer.reason for layer in found.layers)
    assert found.health.severity == max(layer.health.severity for layer in found.layers)
    for layer in found.layers:
        assert layer.health in (Health.HEALTHY, Health.FROZEN) or layer.health.value in found.sentence
