"""Preparing: every step does what it does alone, in the one order that is right."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

import weightsmith as ws
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import batches_for
from weightsmith.networks.evaluation import scores as scores_of
from weightsmith.spiking.conversion.balance import Mse, Percentile
from weightsmith.spiking.conversion.calibrate import CalibrateBias, CalibrateDistill, CalibrateWeights
from weightsmith.spiking.conversion.preparing import (
    ConversionSettings,
    calibration_rows,
    checked_precision,
    encoding_of,
    prepare,
    range_notes,
    with_mismatch,
)
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.conversion.subject import Subject, read_subject
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.l4.adjust import L4
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, Graded, Mismatch
from weightsmith.spiking.simulation.sources import source_of


@functools.cache
def subject() -> Subject:
    """A dense network for inputs at 0.5/0.5, which Poisson spikes can carry."""
    digits = ws.data.load("digits")
    run = ws.train("mlp:24", digits, optimiser="adam", schedule=0.01, epochs=2, normalise="0.5/0.5", seed=1)
    return read_subject(run, digits, images=30, seed=0)


def recipe(**changes: Any) -> ConversionSettings:
    return dataclasses.replace(
        ConversionSettings(IF(), Constant(), Percentile(), None, None, "float32", 8, 0), **changes
    )


def thresholds(prepared: Any) -> torch.Tensor:
    return prepared.network.populations[0].threshold


def test_thresholds_are_those_of_the_balance() -> None:
    plain = prepare(subject(), recipe())
    assert plain.adjustment is None
    assert plain.notes == plain.balance.notes
    assert set(plain.balance.thresholds) == {node.name for node in plain.network.populations}
    scaled = prepare(subject(), recipe(balance=Percentile(factor=2.0)))
    assert torch.allclose(thresholds(scaled), 2 * thresholds(plain))


def test_the_adjustment_changes_the_first_weights_alone() -> None:
    plain, changed = (prepare(subject(), recipe(encode=Poisson(), adjust=rule)) for rule in (None, L4(0.5, images=16)))
    same = [
        torch.equal(one.weight, other.weight)
        for one, other in zip(plain.network.synapses, changed.network.synapses, strict=True)
    ]
    assert same == [False, True]
    assert changed.adjustment is not None


def test_rounding_comes_after_balance_and_adjustment() -> None:
    options = {"encode": Poisson(), "adjust": L4(1.0, images=16)}
    whole, rounded = (prepare(subject(), recipe(**options, precision=name)) for name in ("float32", "int8"))
    expected = quantised(whole.network)
    for one, other in zip(rounded.network.synapses, expected.synapses, strict=True):
        assert torch.equal(one.weight, other.weight)
    assert torch.equal(thresholds(rounded), expected.populations[0].threshold)


@pytest.mark.parametrize("neuron", [IF(), IF(signed=True), Graded(5)], ids=str)
def test_in_8_bits_constant_inputs_are_whole_numbers(neuron: Any) -> None:
    given = recipe(neuron=neuron, precision="int8")
    whole, exact = prepare(subject(), given), prepare(subject(), recipe(neuron=neuron))
    encode = whole.network.encode
    assert isinstance(encode, Constant)
    assert encode.step == pytest.approx(1 / 127, rel=1e-3)  # inputs at 0.5/0.5 reach from −1 to 1
    assert all(node.weight.dtype == torch.int8 for node in whole.network.synapses)
    assert any("inputs are rounded to 8 bits: multiples of 0.007874" in note for note in whole.notes)
    x = subject().judged.x
    run, plain = whole.network.run(x, 8, precision="int8"), exact.network.run(x, 8)
    assert np.corrcoef(run.scores.ravel(), plain.scores.ravel())[0, 1] > 0.999
    own = prepare(subject(), dataclasses.replace(given, encode=Constant(step=0.25)))
    assert own.network.encode == Constant(step=0.25)


def test_steps_that_lose_the_inputs_are_noted_or_refused() -> None:
    (note,) = prepare(subject(), recipe(encode=Constant(step=1 / 1270))).notes[-1:]
    share = float(note.partition("; ")[2].partition("%")[0])
    _, x = next(batches_for(card_of(subject().network), subject().train.x, 2000))
    assert share == pytest.approx(100 * float((x.abs() > 127.5 / 1270).float().mean()), abs=2)
    assert "clipped" not in prepare(subject(), recipe(encode=Constant(step=1 / 127))).notes[-1]
    with pytest.raises(
        UsageError, match=r"encode=constant:step=5 rounds every input to 0: .* is 1; use a step of 0.0079"
    ):
        prepare(subject(), recipe(encode=Constant(step=5.0)))
    with pytest.raises(OptionError, match="step must be a finite number, not inf"):
        Constant(step=float("inf"))


def test_whole_inputs_with_calibration_reach_the_same_values() -> None:
    """Thresholds, calibration and the scores it aims at are all in the unit of the whole inputs."""
    for how in (CalibrateBias(), CalibrateWeights(), CalibrateDistill(images=64)):
        settings = recipe(neuron=Graded(6), encode=Constant(step=1 / 127), steps=4, calibrate=how)
        found = prepare(subject(), settings)
        x = subject().judged.x
        scores, plain = found.network.run(x, 4).scores, scores_of(subject().network, x).numpy()
        assert np.abs(scores - plain).max() < 0.05 * np.abs(plain).max()


def test_devices_differ_by_the_seed() -> None:
    spread = Mismatch(0.2, 0.1)
    plain = prepare(subject(), recipe(neuron=LIF(0.9), seed=4))
    varied = prepare(subject(), recipe(neuron=LIF(0.9), seed=4, mismatch=spread))
    expected = with_mismatch(plain.network, spread, 4).populations[0]
    assert expected.leak is not None
    assert torch.equal(thresholds(varied), expected.threshold)
    assert torch.equal(varied.network.populations[0].leak, expected.leak)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"adjust": L4(1.0, images=8)}, "a constant current has no variance to adjust for"),
        ({"mismatch": Mismatch(0.1, leak=0.1)}, "the spread of leaks has no effect: the neurons do not leak"),
        (
            {"precision": "int8", "encode": Poisson(), "balance": Percentile(factor=1e-6)},
            "of 24 channels are less than one unit",
        ),
    ],
)
def test_what_the_user_should_know_is_noted(changes: dict[str, Any], note: str) -> None:
    prepared = prepare(subject(), recipe(**changes))
    (text,) = prepared.notes[len(prepared.balance.notes) :]
    assert note in text


def test_the_network_is_the_child_of_the_one_that_came_in() -> None:
    lineage = prepare(subject(), recipe(neuron=LIF(0.9))).network.card.lineage
    assert (lineage.operation, lineage.parent) == ("spike lif:0.9, constant", subject().inputs["network"])


def test_progress_is_that_of_the_balance() -> None:
    calls: list[tuple[int, int]] = []
    prepare(subject(), recipe(), lambda done, total: calls.append((done, total)))
    assert calls
    assert calls[-1][0] == calls[-1][1]


def test_calibration_rows() -> None:
    rows = calibration_rows(100, 30, 5)
    assert torch.equal(rows, rows.unique())
    assert (len(rows), int(rows.min()) >= 0, int(rows.max()) < 100) == (30, True, True)
    assert torch.equal(rows, calibration_rows(100, 30, 5))
    assert not torch.equal(rows, calibration_rows(100, 30, 6))
    assert torch.equal(calibration_rows(20, 30, 5), torch.arange(20))


def test_precisions() -> None:
    assert [checked_precision(name) for name in ("float32", "float64", "int8")] == ["float32", "float64", "int8"]
    with pytest.raises(UsageError, match="precision must be float32, float64 or int8, not 'bf16'"):
        checked_precision("bf16")


def test_a_learning_rate_is_no_encoding() -> None:
    assert encoding_of("poisson:0.5") == Poisson(0.5)
    assert encoding_of(ws.ConstantInput()) == Constant()
    with pytest.raises(
        UsageError, match=r"is a learning-rate schedule; the encoding is ws.ConstantInput\(\), or 'constant'"
    ):
        encoding_of(ws.Constant(0.1))


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def network(neuron=None, leak=None):
    """conv 1→8 over 20×20, fires, dense 50, fires, dense 3."""
    nodes = (
        Synapses("one", INPUT, normal(8, 1, 3, 3), padding=(1, 1)),
        Neurons("fire1", "one", torch.arange(1.0, 9.0), leak=leak, amplitude=torch.ones(8)),
        Flatten("flat", "fire1"),
        Synapses("two", "flat", normal(50, 3200, seed=1) / 30),
        Neurons("fire2", "two", torch.full((50,), 2.0)),
        Synapses("out", "fire2", normal(3, 50, seed=2)),
    )
    return SpikingNetwork(nodes, (1, 20, 20), neuron or LIF(0.9), Poisson())


def logarithms(found, name="fire1"):
    ratio = found.node(name).threshold.double() / network().node(name).threshold.double().reshape(-1, 1, 1)
    return ratio.log().numpy()


def test_thresholds_are_lognormal_around_those_asked_for():
    logs = logarithms(with_mismatch(network(), Mismatch(threshold=0.2), 0))
    assert logs.shape == (8, 20, 20)
    count = logs.size
    assert abs(logs.mean()) < 4 * 0.2 / np.sqrt(count)
    assert abs(logs.std() - 0.2) < 4 * 0.2 / np.sqrt(2 * count)
    assert stats.kstest(logs.ravel() / 0.2, "norm").pvalue > 0.001
    assert np.abs(np.corrcoef(logs.reshape(8, -1)) - np.eye(8)).max() < 0.25  # channels are drawn on their own


def test_one_minus_leak_is_lognormal():
    found = with_mismatch(network(), Mismatch(leak=0.3), 0)
    leak = found.node("fire1").leak
    assert leak.shape == (8, 20, 20)
    assert found.node("fire2").leak.shape == (50,)
    logs = ((1 - leak.double()) / 0.1).log().numpy()
    assert abs(logs.mean()) < 4 * 0.3 / np.sqrt(logs.size)
    assert abs(logs.std() - 0.3) < 4 * 0.3 / np.sqrt(2 * logs.size)
    assert torch.equal(found.node("fire1").threshold, network().node("fire1").threshold)


def test_leaks_of_channels_are_spread_around_their_own():
    own = torch.tensor([0.5, 1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8])
    leak = with_mismatch(network(IF(), own), Mismatch(leak=0.1), 0).node("fire1").leak
    assert (leak[1] == 1).all()
    medians = leak.double().flatten(1).median(dim=1).values
    torch.testing.assert_close(medians, own.double(), atol=0.01, rtol=0)


def test_thresholds_and_leaks_are_drawn_apart():
    node = with_mismatch(network(), Mismatch(0.2, 0.2), 0).node("fire1")
    one = (node.threshold / torch.arange(1.0, 9.0)[:, None, None]).log().numpy().ravel()
    other = ((1 - node.leak) / 0.1).log().numpy().ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.08


def test_no_mismatch_is_the_same_network():
    plain = network()
    assert with_mismatch(plain, Mismatch(), 0) is plain


@pytest.mark.parametrize("neuron", [IF(), LIF(1.0, reset="hard")])
def test_what_does_not_leak_still_does_not(neuron):
    plain = network(neuron)
    found = with_mismatch(plain, Mismatch(leak=0.5), 0)
    x = torch.rand(3, 1, 20, 20)
    assert found.node("fire1").leak is None or bool((found.node("fire1").leak == 1).all())
    assert found.run(x, 10).spikes() == plain.run(x, 10).spikes()


def test_leaks_stay_within_their_range():
    found = with_mismatch(network(LIF(0.05)), Mismatch(leak=1.0), 0)
    leak = found.node("fire1").leak
    assert bool(((leak > 0) & (leak <= 1)).all())
    assert (leak < 1e-6).float().mean() == pytest.approx(0.48, abs=0.05)  # where 0.95·exp(z) > 1
    found.run(torch.rand(2, 1, 20, 20), 3)


def test_the_seed_decides_and_each_population_has_its_own_draws():
    mismatch = Mismatch(0.2, 0.1)
    first, again, other = (with_mismatch(network(), mismatch, seed) for seed in (1, 1, 2))
    for name in ("fire1", "fire2"):
        assert torch.equal(first.node(name).threshold, again.node(name).threshold)
        assert torch.equal(first.node(name).leak, again.node(name).leak)
        assert not torch.equal(first.node(name).threshold, other.node(name).threshold)
    alone = dataclasses.replace(network(), nodes=(*network().nodes[:3], Synapses("out", "flat", normal(2, 3200))))
    assert torch.equal(with_mismatch(alone, mismatch, 1).node("fire1").threshold, first.node("fire1").threshold)
    assert not np.allclose(logarithms(first).ravel()[:50], (first.node("fire2").threshold / 2).log().numpy())


def test_a_wider_spread_stretches_the_same_draws():
    narrow, wide = (logarithms(with_mismatch(network(), Mismatch(threshold=s), 5)) for s in (0.1, 0.4))
    np.testing.assert_allclose(wide, 4 * narrow, atol=1e-6)
    both = with_mismatch(network(), Mismatch(0.1, 0.2), 5).node("fire1")
    assert torch.equal(both.leak, with_mismatch(network(), Mismatch(leak=0.2), 5).node("fire1").leak)


def test_the_rest_of_the_network_stays():
    plain = network()
    before = plain.node("fire1").threshold.clone()
    found = with_mismatch(plain, Mismatch(0.2, 0.2), 0)
    assert [node is plain.node(node.name) for node in found.nodes] == [True, False, True, True, False, True]
    assert found.node("fire1").amplitude is plain.node("fire1").amplitude
    assert torch.equal(plain.node("fire1").threshold, before)
    assert found.node("fire1").threshold.dtype == found.node("fire1").leak.dtype == torch.float32


@pytest.mark.parametrize("reset", ["soft", "hard"])
def test_the_engine_runs_each_neuron_with_its_own_numbers(reset):
    plain, x = network(LIF(0.9, reset=reset)), torch.rand(2, 1, 20, 20, generator=torch.Generator().manual_seed(3))
    found = with_mismatch(plain, Mismatch(0.3, 0.3), 0)
    seen = {}

    class Watch:
        membranes, inputs = True, False

        def see(self, population, images, step, spikes, membranes):
            if population == "fire1":
                for offset in range(spikes.shape[1]):
                    seen[step + offset] = (spikes[:, offset].copy(), membranes[:, offset].copy())

    found.run(x, 6, precision="float64", observers=[Watch()])
    node = found.node("fire1")
    threshold, leak = (values.double().flatten(1).T.numpy() for values in (node.threshold, node.leak))
    source, weight = source_of(found, x, 0, 0), found.node("one").weight.double()
    left = np.zeros((2, 400, 8))
    for step in range(6):
        spikes, tested = seen[step]
        arriving = source.step(torch.arange(2), step).double()
        current = functional.conv2d(arriving, weight, padding=1).flatten(2).transpose(1, 2).numpy()
        np.testing.assert_allclose(tested, leak * left + current, atol=1e-9)
        assert np.array_equal(spikes, tested > threshold)
        left = tested - threshold * spikes if reset == "soft" else tested * (1 - spikes)
    assert found.run(x, 6).spikes() != plain.run(x, 6).spikes()


def test_spreads_have_a_range():
    with pytest.raises(OptionError, match="threshold must be ≥ 0"):
        Mismatch(threshold=-0.1)
    with pytest.raises(OptionError, match="seed must be"):
        with_mismatch(network(), Mismatch(0.1), -1)


def test_calibration_is_part_of_what_is_prepared() -> None:
    asked = recipe(neuron=IF(signed=True), balance=Mse(), calibrate=CalibrateBias(images=16))
    found = prepare(subject(), asked)
    assert found.calibration is not None
    assert (found.calibration.images, found.calibration.steps) == (16, asked.steps)
    assert "bias:images=16" in found.network.card.lineage.operation
    assert prepare(subject(), recipe()).calibration is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"neuron": IF(signed=True), "adjust": L4(1.0)}, "l4:1.0 needs spikes of one sign"),
        ({"calibrate": CalibrateBias(), "adjust": L4(1.0)}, "calibrate=bias would undo that; leave one of them out"),
    ],
)
def test_options_that_work_against_each_other(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        recipe(**changes)


def test_inputs_far_beyond_those_of_calibration_are_told():
    known = torch.rand(50, 2, 4, 4)
    assert range_notes(known, known * 1.2) == ()
    bright = known.clone()
    bright[:10, 1] += 1.5  # a fifth of the rows, in one channel
    (note,) = range_notes(known, bright)
    assert note.startswith("20% of the rows have inputs far beyond those that thresholds were found on")
    assert range_notes(known[:, 0, 0], known[:, 0, 0] - 3)[0].startswith("100% of the rows")
    few = known.repeat(4, 1, 1, 1)
    few[0] = 9.0
    assert range_notes(known, few) == ()  # one in 200


def test_distillation_sees_fewer_images_in_more_steps_unless_told_how_many():
    assert [CalibrateDistill().rows(steps) for steps in (1, 4, 8, 16, 64)] == [3000, 3000, 1500, 750, 600]
    assert CalibrateDistill(images=5000).rows(64) == 5000


@pytest.mark.parametrize(("rows", "first"), [(700, 512), (100, 100)])
def test_the_calibration_before_a_distillation_sees_its_own_number_of_rows(rows, first):
    made = prepare(subject(), recipe(neuron=IF(signed=True), balance=Mse(), calibrate=CalibrateDistill(images=rows)))
    assert made.calibration is not None
    assert made.distillation is not None
    assert made.calibration.images == first
    assert made.distillation.images + made.distillation.held == rows


def test_few_training_rows_are_told():
    train = subject().train
    few = dataclasses.replace(subject(), train=dataclasses.replace(train, x=train.x[:3], y=train.y[:3]))
    assert "thresholds were found on few training rows (3); give some hundreds" in prepare(few, recipe()).notes
    assert not any("few training rows" in note for note in prepare(subject(), recipe()).notes)


@pytest.mark.parametrize(
    ("images", "advice"), [(40, "more rows (distill:images=…), or a lower rate"), (9000, "a lower")]
)
def test_a_distillation_that_did_not_help_advises_more_rows_only_if_there_are_more(images, advice):
    how = CalibrateDistill(images=images, rate=0.9)
    made = prepare(subject(), recipe(neuron=IF(signed=True), balance=Mse(), calibrate=how))
    assert made.distillation is not None
    assert not made.distillation.kept
    assert f"its weights were not used; {advice}" in made.notes[-1]
