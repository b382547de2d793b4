from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import statistics

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import weightsmith as ws
from weightsmith.chain.diff.diff import diff
from weightsmith.chain.diff.differences import NetworkDiff
from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.core.records import Lineage
from weightsmith.core.statistics import mcnemar
from weightsmith.networks.card import card_of, with_card


@pytest.fixture(scope="module")
def data():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def run(data):
    return ws.train("mlp:24,16", data, schedule=0.05, epochs=2, seed=0)


@pytest.fixture(scope="module")
def other(data):
    return ws.train("mlp:24,16", data, schedule=0.1, epochs=1, seed=1)


def quick(a, b, data=None, **options):
    return diff(a, b, data, evidence="none", latency=False, **options)


def scaled(network, layer, factor):
    made = copy.deepcopy(network)
    with torch.no_grad():
        made.get_submodule(layer).weight.mul_(factor)
    return made


def test_a_network_does_not_differ_from_itself(run, data):
    found = diff(run.network, copy.deepcopy(run.network), data, evidence="fast", latency=False)
    assert found.identical
    assert [layer.name for layer in found.layers] == ["dense1", "dense2", "output"]
    for layer in found.layers:
        assert set(layer.changes.values()) == {0.0}
        assert (layer.distance.relative, layer.changed) == (0.0, False)
        assert layer.a == layer.b
        assert layer.a.alpha_low <= layer.a.alpha <= layer.a.alpha_high
    paired = found.accuracy
    assert (paired.only_a, paired.only_b, paired.difference.value, paired.p) == (0, 0, 0.0, 1.0)
    assert (paired.agreement.value, paired.both + paired.neither) == (1.0, paired.images == 360 and 360)
    assert found.a == found.b
    assert found.relative == 0.0
    assert (found.settings, found.only_a, found.only_b, found.notes) == ((), (), (), ())
    assert str(found) == "the same weights"
    assert all(
        (site.units_a, site.median_a, site.least_a) == (site.units_b, site.median_b, site.least_b)
        for site in found.units
    )


def test_one_scaled_layer_shows_exactly_that(run):
    found = diff(run.network, scaled(run.network, "dense2", 4.0), evidence="fast")
    for name in ("dense1", "output"):
        assert set(found[name].changes.values()) == {0.0}
        assert found[name].distance.relative == 0.0
    layer = found["dense2"]
    assert layer.changed
    # Four times the weights are sixteen times the eigenvalues, and nothing that has no scale sees it.
    assert layer.changes["log_spectral_norm"] == pytest.approx(math.log10(16), abs=1e-12)
    assert layer.changes["log_norm"] == pytest.approx(math.log10(16), abs=1e-12)
    assert layer.changes["stable_rank"] == pytest.approx(0, abs=1e-9)
    assert layer.changes["alpha"] == pytest.approx(0, abs=1e-9)
    assert (layer.changes["median_angle"], layer.changes["least_angle"]) == (0.0, 0.0)
    assert (layer.distance.relative, layer.distance.cosine) == pytest.approx((3.0, 1.0))
    weights = [each.weight for each in run.network.modules() if isinstance(each, nn.Linear)]
    whole = math.sqrt(sum(float(weight.detach().double().square().sum()) for weight in weights))
    assert found.relative == pytest.approx(3 * float(torch.linalg.vector_norm(weights[1].detach().double())) / whole)
    assert not found.identical
    assert "1 of 3 common layers differ" in str(found)


def slow_angles(vectors):
    """Median and least angle between lines, pair by pair."""
    angles = []
    for x, y in itertools.combinations(vectors.tolist(), 2):
        lengths = math.hypot(*x), math.hypot(*y)
        if min(lengths) > 0:
            cosine = abs(sum(p * q for p, q in zip(x, y, strict=True))) / (lengths[0] * lengths[1])
            angles.append(math.degrees(math.acos(min(1.0, cosine))))
    return statistics.median(angles), min(angles)


def test_angles_of_weights_are_those_of_a_slow_loop():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Conv2d(6, 8, 3, groups=2), nn.Flatten(), nn.Linear(32, 7))
    with torch.no_grad():
        network[3].weight[2] = 0  # a unit without direction is in no pair
        network[0].weight[1] = -3 * network[0].weight[0]  # opposite units lie on one line
    found = quick(network, network)
    for name, weight in (("0", network[0].weight), ("3", network[3].weight)):
        facts = found[name].a
        assert (facts.median_angle, facts.least_angle) == pytest.approx(
            slow_angles(weight.detach().double().flatten(1)), abs=1e-5
        )
    assert found["0"].a.least_angle == pytest.approx(0, abs=1e-5)
    assert found["1"].a.median_angle is None  # units of different groups read different inputs


def test_paired_counts_are_those_of_a_slow_loop(run, other, data):
    found = quick(run.network, other.network, data, test_rows=200, seed=3)
    paired = found.accuracy
    part = data.test
    from weightsmith.core.seeds import stream

    rows = sorted(stream(3, "judging rows").choice(len(part), 200, replace=False).tolist())
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    same = 0
    for row in rows:
        said = []
        for network in (run.network, other.network):
            inputs = card_of(network).normalisation.apply(part.x[row : row + 1])
            with torch.no_grad():
                said.append(int(network.eval()(inputs).argmax()))
        counts[said[0] == int(part.y[row]), said[1] == int(part.y[row])] += 1
        same += said[0] == said[1]
    assert (paired.both, paired.only_a, paired.only_b, paired.neither) == tuple(counts.values())
    assert paired.images == 200
    assert paired.agreement.value == same / 200
    assert paired.a.value == (paired.both + paired.only_a) / 200
    assert paired.difference.value == pytest.approx((paired.only_b - paired.only_a) / 200)
    test = mcnemar(
        [1] * paired.only_b + [0] * (200 - paired.only_b),
        [0] * paired.only_b + [1] * paired.only_a + [0] * (200 - paired.only_a - paired.only_b),
    )
    assert (paired.p, paired.difference.low, paired.difference.high) == (test.p, test.interval.low, test.interval.high)
    assert 0 < paired.only_a + paired.only_b < 200


def test_outputs_in_another_order_are_matched_by_the_names_of_classes(run, data):
    order = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    shuffled = copy.deepcopy(run.network)
    with torch.no_grad():
        shuffled.output.weight.copy_(run.network.output.weight[order])
        shuffled.output.bias.copy_(run.network.output.bias[order])
    card = card_of(run.network)
    with_card(shuffled, dataclasses.replace(card, classes=tuple(card.classes[position] for position in order.tolist())))
    paired = quick(run.network, shuffled, data).accuracy
    assert (paired.only_a, paired.only_b, paired.agreement.value) == (0, 0, 1.0)


def test_sizes_and_energy_in_closed_form(tmp_path):
    small, large = ws.networks.mlp(64, 8, 10), ws.networks.mlp(64, 32, 10)
    path = ws.save(large, tmp_path / "large.safetensors")
    found = quick(small, path, prices="picojoule:multiply=2")
    assert (found.a.parameters, found.b.parameters) == (64 * 8 + 8 + 8 * 10 + 10, 64 * 32 + 32 + 32 * 10 + 10)
    assert (found.a.macs, found.b.macs) == (64 * 8 + 80, 64 * 32 + 320)
    assert found.b.picojoules == 2 * (64 * 32 + 320)
    assert found.b.energy_basis == "MACs × price"
    assert found.b.file_bytes == path.stat().st_size
    assert (found.a.kind, found.b.name, found.b.architecture) == (
        "network",
        str(path),
        "mlp:32,input_shape=[64],classes=10",
    )


def test_layers_of_another_shape_have_no_distance_and_lone_ones_are_listed():
    found = quick(ws.networks.mlp(64, 16, 10), ws.networks.mlp(64, 16, 12, 10, seed=1))
    assert [layer.name for layer in found.layers] == ["dense1", "output"]
    assert found["dense1"].distance.relative > 0
    assert found["output"].distance.relative is None
    assert found["output"].distance.reason == "the shapes differ: 10×16 and 10×12"
    assert found["output"].changed
    assert found.only_a == ()
    assert [(layer.name, layer.shape, layer.parameters) for layer in found.only_b] == [("dense2", (12, 16), 192)]
    with pytest.raises(UnknownName, match="dense2"):
        found["dense2"]


def test_networks_without_a_common_layer_say_so():
    found = quick(ws.networks.mlp(8, 4, 2), nn.Sequential(nn.Linear(8, 2)))
    assert found.layers == ()
    assert any(
        note.startswith(
            "layers: mlp:4,input_shape=[8],classes=2 and Sequential have no layer name in common (dense1, 0)"
        )
        for note in found.notes
    )
    assert found.relative is None


def test_zero_and_broken_layers_have_a_reason_and_no_number(run):
    found = quick(scaled(run.network, "dense1", 0.0), scaled(run.network, "dense2", math.nan))
    assert found["dense1"].distance.relative is None
    assert found["dense1"].distance.reason == "zero in the first network"
    assert found["dense1"].a.status == "zero"
    assert found["dense2"].b.status == "non-finite"
    assert found["dense2"].b.median_angle is None
    assert NetworkDiff.from_json(found.to_json()) == found


def test_weights_that_nobody_can_build_are_compared_as_far_as_they_go(data, tmp_path):
    weights = {"blocks.0.attention.weight": torch.rand(12, 9), "blocks.0.mixing.weight": torch.rand(9, 12)}
    save_file(weights, tmp_path / "w.safetensors")
    found = quick(tmp_path / "w.safetensors", tmp_path / "w.safetensors", data)
    assert found.a.kind == "weights"
    assert (found.a.macs, found.a.picojoules, found.accuracy, found.units) == (None, None, None, ())
    assert found["blocks.0.mixing"].distance.relative == 0.0
    # What is missing for one reason is told in one sentence.
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"MACs, accuracy, activations and energy of {tmp_path / 'w.safetensors'}: not a")
    other = {**weights, "blocks.0.mixing.weight": torch.rand(9, 12)}
    save_file(other, tmp_path / "v.safetensors")
    (note,) = diff(tmp_path / "w.safetensors", tmp_path / "v.safetensors", data, evidence="none").notes
    names = f"{tmp_path / 'w.safetensors'} and {tmp_path / 'v.safetensors'}"
    assert note.startswith(f"MACs, accuracy, activations, time and energy of {names}: not a network in the catalogue")


def test_data_that_do_not_fit_one_network_are_a_note(run):
    rows = torch.rand(20, 3, 5, 5), torch.arange(20) % 10
    found = quick(run.network, run.network, rows)
    assert (found.accuracy, found.lone_accuracy) == (None, None)
    (note,) = found.notes
    assert note.startswith("accuracy and activations of mlp:24,16,")
    assert "(3, 5, 5)" in note
    assert len(found.layers) == 3


@pytest.mark.parametrize("turned", [False, True])
def test_the_accuracy_of_the_one_that_can_answer_is_told(run, data, turned):
    other = nn.Sequential(nn.Flatten(), nn.Linear(30, 10))
    pair = (other, run.network) if turned else (run.network, other)
    found = diff(*pair, data, evidence="none", test_rows=50, repeats=2)
    lone = found.lone_accuracy
    assert (found.accuracy, lone.of, lone.data, lone.split, lone.images) == (None, "AB"[turned], "digits", "test", 50)
    assert lone.accuracy == quick(run.network, run.network, data, test_rows=50).accuracy.a
    assert f"accuracy of {lone.of} alone {lone.accuracy.value:.2%}" in str(found)
    assert sum("accuracy, activations and time of Sequential: " in note for note in found.notes) == 1
    assert [site.units_b if turned else site.units_a for site in found.units] == [24, 16]
    assert NetworkDiff.from_json(found.to_json()) == found


def own_network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


@pytest.fixture
def own_files(tmp_path):
    """Two networks of the user's own code, which their files do not hold."""
    made = []
    for name, seed in (("a", 0), ("b", 1)):
        torch.manual_seed(seed)
        network = own_network()
        made.append((network, ws.save(network, tmp_path / f"{name}.safetensors", factory="mine:build")))
    return made


def test_networks_of_ones_own_are_built_for_both_sides(own_files, data):
    (first, a), (second, b) = own_files
    wanted = quick(first, second, data)
    (note,) = quick(a, b, data).notes
    assert note.count("allow it with --network mine:build") == 1
    kept = own_network()
    before = {name: value.clone() for name, value in kept.state_dict().items()}
    for network in (own_network, kept):
        found = quick(a, b, data, network=network)
        assert (found.accuracy, found.units, found.notes) == (wanted.accuracy, wanted.units, ())
        assert (found.a.macs, found.b.macs) == (64 * 12 + 12 * 10,) * 2
    assert all(torch.equal(value, before[name]) for name, value in kept.state_dict().items())
    built = quick(a, b, data, network="mlp:12")  # by shapes; what the data tell of it completes it
    assert built.accuracy == wanted.accuracy


def test_a_file_that_says_how_it_is_built_is_built_so(own_files, run, data, tmp_path):
    path = ws.save(run.network, tmp_path / "ours.safetensors")
    found = quick(own_files[0][1], path, data, network=own_network)
    assert found.accuracy.b == quick(run.network, run.network, data).accuracy.a
    assert (found.a.parameters, found.b.architecture) == (910, "mlp:24,16,input_shape=[1,8,8],classes=10")


def test_normalisation_that_is_told_holds_for_both(own_files, data):
    (first, a), (second, b) = own_files
    for network in (first, second):
        with_card(network, dataclasses.replace(card_of(network), normalisation=ws.data.Normalisation.parse("0.9/0.1")))
    found = quick(a, b, data, network=own_network, normalise="0.9/0.1")
    assert found.accuracy == quick(first, second, data).accuracy
    assert found.accuracy != quick(a, b, data, network=own_network).accuracy


def test_what_is_told_of_networks_must_be_of_use(own_files, run, tmp_path):
    a, b = (path for _, path in own_files)
    path = ws.save(run.network, tmp_path / "ours.safetensors")
    with pytest.raises(UsageError, match="neither of these two needs it"):
        quick(path, run, network=own_network)
    with pytest.raises(UsageError, match="normalise is for network files"):
        quick(run, run, normalise="none")
    with pytest.raises(UsageError, match="no module 'nowhere'"):
        quick(a, b, network="nowhere:build")
    with pytest.raises(DataMismatch, match="does not fit the network"):
        quick(a, b, network=lambda: nn.Linear(3, 2))
    # One that fits is enough.
    save_file({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, tmp_path / "small.safetensors")
    mixed = quick(a, tmp_path / "small.safetensors", network=lambda: nn.Linear(3, 2))
    assert (mixed.a.kind, mixed.b.kind) == ("weights", "network")
    assert any("does not fit the network" in note for note in mixed.notes)


def test_an_answer_that_is_not_finite_is_none(run, data):
    broken = scaled(run.network, "output", math.nan)
    paired = quick(broken, broken, data, test_rows=30).accuracy
    assert (paired.agreement.value, paired.neither) == (0.0, 30)


def test_a_spiking_network_is_run_as_its_record_says(run, data, tmp_path):
    spiked = ws.spike(run.network, data, steps=12, test_rows=40, out=tmp_path / "snn")
    found = quick(run, tmp_path / "snn", data, test_rows=40)
    decisions = spiked.record.decisions
    assert (found.accuracy.a, found.accuracy.b) == (decisions.network, decisions.spiking)
    assert (found.accuracy.difference.value, found.accuracy.p) == (decisions.cost.difference, decisions.cost.p)
    assert found.b.picojoules == spiked.record.cost.energy
    assert found.a.picojoules == spiked.record.cost.network_energy
    assert (found.b.kind, found.b.energy_basis, found.b.macs) == ("spiking network", "counted over 12 steps", None)
    assert found.b.parameters == found.a.parameters
    assert found.relation.startswith(f"B was made from A: spike {spiked.record.settings['neuron']}")
    assert [note for note in found.notes if "balancing has scaled its weights" in note] == [
        f"layers of {tmp_path / 'snn'}: balancing has scaled its weights, so norms and distances say little"
    ]
    assert [layer.name for layer in found.layers] == ["dense1", "dense2", "output"]
    assert found["dense1"].distance.cosine == pytest.approx(1, abs=1e-6)
    assert quick(spiked, tmp_path / "snn", data, test_rows=40).accuracy.agreement.value == 1.0
    assert quick(run, spiked, data, test_rows=40, steps=3).b.energy_basis == "counted over 3 steps"
    timed = diff(run, spiked.network, data, test_rows=5, evidence="none", repeats=2)
    assert timed.latency == ()
    assert any(note.startswith("time of SpikingNetwork: it spikes, and is simulated") for note in timed.notes)
    assert not any("balancing" in note for note in quick(spiked, tmp_path / "snn").notes)
    assert any("it is counted in a run on data" in note for note in quick(run, spiked).notes)


@pytest.mark.slow
def test_a_tailored_network_is_run_for_the_steps_it_was_judged_by(run, data, tmp_path):
    found = ws.tailor(run, data, energy="90%", spiking=True, rows=200, test_rows=60, out=tmp_path / "small")
    best = found.record.best
    assert best.steps is not None
    for given in (tmp_path / "small", found):
        compared = quick(run, given, data, test_rows=20)
        assert compared.b.energy_basis.endswith(f" over {best.steps} steps")


def test_settings_that_differ_are_told(run, other, data, tmp_path):
    found = quick(run, other)
    assert {setting.name: (setting.a, setting.b) for setting in found.settings} == {
        "schedule": ("constant:0.05", "constant:0.1"),
        "epochs": ("2", "1"),
        "seed": ("0", "1"),
    }
    assert quick(run.network, other).settings == ()
    reduced = ws.reduce(run.network, data, by="magnitude", target="params:0.5", out=tmp_path / "small", latency=False)
    mixed = quick(run, tmp_path / "small")
    assert mixed.settings == ()
    assert "settings: the results are of different kinds (training and reduction)" in mixed.notes
    assert mixed.relation == "B was made from A: reduced by magnitude"
    assert quick(tmp_path / "small", run).relation == "A was made from B: reduced by magnitude"
    assert mixed.b.parameters == reduced.record.reduced.parameters
    assert mixed.b.macs == reduced.record.reduced.macs


def test_the_record_beside_a_file_is_used_if_the_file_is_the_network_of_a_result(run, other, tmp_path):
    result = tmp_path / "result"
    ws.save(run.network, result / "network.safetensors")
    ws.save(run.network, result / "copy.safetensors")
    (result / "record.json").write_text(run.record.to_json())
    told = [setting.name for setting in quick(result, other).settings]
    assert told == ["schedule", "epochs", "seed"]
    assert [setting.name for setting in quick(result / "network.safetensors", other).settings] == told
    assert quick(result / "copy.safetensors", other).settings == ()
    (result / "record.json").write_text(other.record.to_json())  # of other weights
    assert quick(result / "network.safetensors", other).settings == ()


def test_a_damaged_record_is_a_note(run, tmp_path):
    ws.save(run.network, tmp_path / "network.safetensors")
    (tmp_path / "record.json").write_text("{")
    found = quick(tmp_path, run.network)
    assert any(note.startswith(f"settings of {tmp_path}: ") and "record.json" in note for note in found.notes)


def test_cousins_are_told_by_their_common_ancestor():
    start = Lineage("initialised").then("trained", "a" * 64)
    networks = [ws.networks.mlp(8, 4, 2, seed=seed) for seed in (0, 1)]
    for network in networks:
        with_card(network, dataclasses.replace(card_of(network), lineage=start.then("changed", "b" * 64)))
    assert quick(*networks).relation == "both were made from bbbbbbbbbbbb"
    assert quick(networks[0], ws.networks.mlp(8, 4, 2, seed=5)).relation is None


def test_angles_of_activations_are_those_of_a_slow_loop(run, data):
    (site, _) = quick(run.network, run.network, data, test_rows=60).units
    from weightsmith.core.seeds import stream

    rows = sorted(stream(0, "judging rows").choice(360, 60, replace=False).tolist())
    heard = []
    handle = run.network.dense2.register_forward_pre_hook(lambda _, given: heard.append(given[0]))
    with torch.no_grad():
        run.network.eval()(card_of(run.network).normalisation.apply(data.test.x[rows]))
    handle.remove()
    activations = heard[0].double()
    centred = (activations - activations.mean(0)).T  # ReLU is measured from its mean
    assert site.name == "dense1"
    assert site.units_a == 24
    assert (site.median_a, site.least_a) == pytest.approx(slow_angles(centred), abs=1e-3)


def test_the_same_bytes_for_the_same_seed_and_nothing_is_changed(run, other, data):
    network = copy.deepcopy(run.network).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first = quick(network, other, data, test_rows=50, seed=4)
    assert first.to_json() == quick(network, other, data, test_rows=50, seed=4).to_json()
    assert first != quick(network, other, data, test_rows=50, seed=5)
    assert NetworkDiff.from_json(first.to_json()) == first
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert set(first.origin.inputs) == {"a", "b", "data"}


def test_a_larger_network_takes_longer_and_shapes_need_not_agree(data):
    dense = ws.networks.mlp(64, 4, 10)
    images = nn.Sequential(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten(), nn.Linear(64 * 16, 10))
    found = diff(dense, images, data, test_rows=8, evidence="none", repeats=3, batches=(16,))
    (time,) = found.latency
    assert time.batch == 16
    assert time.ratio > 3
    assert time.low <= time.ratio <= time.high
    assert time.b > time.a > 0
    assert time.clock == "processor time of the computing thread"
    assert found.b.macs == 36 * 9 * 64 + 16 * 9 * 64 * 64 + 64 * 16 * 10


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"repeats": 1}, "repeats"),
        ({"steps": 0}, "steps"),
        ({"test_rows": 0}, "test_rows"),
        ({"prices": "euro"}, "euro"),
    ],
)
def test_wrong_options_are_refused_before_any_work(run, data, options, error):
    with pytest.raises((OptionError, UsageError, UnknownName), match=error):
        diff(run, run, data, **options)


def test_networks_of_the_same_name_are_told_apart():
    found = quick(*(ws.networks.mlp(8, 4, 2, seed=seed) for seed in (0, 1)))
    assert (found.a.name, found.b.name) == tuple(f"mlp:4,input_shape=[8],classes=2 ({which})" for which in "AB")


def test_what_is_no_network_is_refused():
    with pytest.raises(UsageError, match="the second network is a int"):
        diff(ws.networks.mlp(4, 3, 2), 5)
    with pytest.raises(ws.FileRefused):
        diff("nowhere.safetensors", "nowhere.safetensors")
