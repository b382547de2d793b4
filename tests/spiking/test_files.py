"""Spiking networks on disk: exact round trip, and refusals that name file and reason."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spiking.networks import inputs
from tests.spiking.networks import network as example
from torch import nn

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import Lineage
from weightsmith.data.normalise import HALF
from weightsmith.networks import load, mlp, save
from weightsmith.networks.card import Card
from weightsmith.networks.sealed import write_sealed
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.files import checked_spiking, is_spiking, load_spiking, save_spiking, spiking_digest
from weightsmith.spiking.graph import Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, Graded

random = torch.Generator().manual_seed(0)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=random)


def every_kind() -> SpikingNetwork:
    """One node of every kind, every field set, float32 and float64."""
    nodes = (
        Synapses("stem", "input", drawn(4, 2, 3, 3), drawn(4), (1, 1), (1, 1), (1, 1), 1),
        Neurons("relu0", "stem", drawn(4).abs() + 0.5, 0.5, None, drawn(4).abs(), "stem"),
        Synapses("grouped", "relu0", drawn(4, 2, 3, 3).double(), None, (1, 1), (2, 2), (2, 2), 2),
        Scale("scaled", "relu0", drawn(4)),
        Add("added", ("grouped", "scaled")),
        Neurons("relu1", "added", drawn(4, 8, 8).abs() + 0.5, leak=torch.full((4, 8, 8), 0.875)),
        Gate("gate", "relu1", (3, 3), (2, 2), (1, 1)),
        Pool("pool", "gate", (2, 2), (2, 2), (1, 1), average=False),
        Flatten("flat", "pool"),
        Synapses("dense", "flat", drawn(5, 36)),
    )
    card = Card(normalisation=HALF, lineage=Lineage("trained").then("spike", "ab" * 32), classes=tuple("abcde"))
    return SpikingNetwork(nodes, (2, 8, 8), LIF(0.9, reset="hard", delay=True), Constant(), card)


def small(**changes: object) -> SpikingNetwork:
    nodes = (
        Synapses("a", "input", drawn(3, 4)),
        Neurons("r", "a", torch.tensor([0.5, 1.0, 1.5])),
        Synapses("b", "r", drawn(2, 3)),
    )
    network = SpikingNetwork(nodes, (4,), IF(), Poisson(0.5))
    return dataclasses.replace(network, **changes)


def test_every_field_comes_back_to_the_bit(tmp_path):
    network = every_kind()
    back = load_spiking(save_spiking(network, tmp_path / "n.safetensors"))
    assert [type(node) for node in back.nodes] == [type(node) for node in network.nodes]
    for mine, read in zip(network.nodes, back.nodes, strict=True):
        for field in dataclasses.fields(mine):
            one, two = getattr(mine, field.name), getattr(read, field.name)
            if isinstance(one, torch.Tensor):
                assert one.dtype == two.dtype
                assert torch.equal(one, two)
            else:
                assert type(one) is type(two)
                assert one == two
    assert (back.input_shape, back.neuron, back.encode) == (network.input_shape, network.neuron, network.encode)
    assert back.card == network.card
    assert back.card.lineage.parent == "ab" * 32


def test_it_runs_the_same(tmp_path):
    network = every_kind()
    back = load_spiking(save_spiking(network, tmp_path / "n.safetensors"))
    x = torch.rand(3, 2, 8, 8, generator=random)
    one, two = network.run(x, 12), back.run(x, 12)
    assert one.spikes() == two.spikes()
    assert sum(one.spikes().values()) > 0
    np.testing.assert_array_equal(one.scores, two.scores)


def test_the_same_network_gives_the_same_bytes_and_digest(tmp_path):
    network = small()
    paths = [save_spiking(network, tmp_path / f"{name}.safetensors") for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert spiking_digest(load_spiking(paths[0])) == spiking_digest(network)
    noted = dataclasses.replace(network, card=Card(notes=("another",)))
    assert spiking_digest(noted) == spiking_digest(network)
    for other in (
        network.with_factor(2),
        network.with_neuron(LIF(0.5)),
        dataclasses.replace(network, encode=Poisson()),
        dataclasses.replace(network, card=Card(normalisation=HALF)),
    ):
        assert spiking_digest(other) != spiking_digest(network)


@pytest.mark.parametrize("neuron", [IF(signed=True), Graded(5)], ids=str)
def test_signed_and_graded_neurons_come_back(tmp_path, neuron):
    network = small(neuron=neuron, encode=Constant())
    back = load_spiking(save_spiking(network, tmp_path / "n.safetensors"))
    assert back.neuron == neuron
    assert spiking_digest(back) == spiking_digest(network) != spiking_digest(small(encode=Constant()))


def test_plain_neurons_are_written_as_before_there_were_signed_ones(tmp_path):
    path = save_spiking(small(), tmp_path / "n.safetensors")
    assert b"signed" not in path.read_bytes()
    assert load_spiking(path).neuron == IF()


def test_a_result_folder_is_opened(tmp_path):
    save_spiking(small(), tmp_path / "network.safetensors")
    assert is_spiking(tmp_path)
    assert load_spiking(tmp_path).neuron == IF()


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ("net.safetensors", "ws.load_spiking reads it from a file), not str"),
        (Path("runs"), "ws.load_spiking reads it from a file), not PosixPath"),
        (nn.Linear(2, 2), "ws.spike makes one), not Linear"),
        (None, "ws.spike makes one), not NoneType"),
    ],
)
def test_what_is_no_spiking_network_is_named(tmp_path, given, way):
    expected = re.escape(f"save_spiking writes a SpikingNetwork (the .network of a SpikeRun; {way}")
    with pytest.raises(UsageError, match=expected):
        save_spiking(given, tmp_path / "s.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_spiking_network_is_handed_on():
    network = small()
    assert checked_spiking(network, "save_spiking") is network


def test_nir_files_are_distinguished(tmp_path):
    (tmp_path / "net.nir").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(FileRefused, match=r"net\.nir: a NIR file: ws\.import_nir reads it"):
        load_spiking(tmp_path / "net.nir")
    with pytest.raises(FileRefused, match=r"gone\.nir: no such file"):
        load_spiking(tmp_path / "gone.nir")


def test_telling_spiking_from_plain(tmp_path):
    spiking = save_spiking(small(), tmp_path / "s.safetensors")
    plain = save(mlp(4, 3, 2), tmp_path / "p.safetensors")
    assert is_spiking(spiking)
    assert not is_spiking(plain)
    with pytest.raises(FileRefused, match="p.safetensors: is not a spiking network"):
        load_spiking(plain)
    with pytest.raises(FileRefused, match="s.safetensors"):
        load(spiking)


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, struct.pack("<Q", 2) + b"[]", b"PK\x03\x04" * 9])
def test_what_cannot_be_read_is_not_spiking(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert not is_spiking(path)
    assert not is_spiking(tmp_path / "nothing.safetensors")
    assert not is_spiking("a\0b")


def test_only_the_head_is_read_to_tell(tmp_path):
    path = save_spiking(small(), tmp_path / "s.safetensors")
    path.write_bytes(path.read_bytes()[:-4])
    assert is_spiking(path)
    with pytest.raises(FileRefused, match="s.safetensors"):
        load_spiking(path)


def test_a_flipped_bit_is_noticed(tmp_path):
    path = save_spiking(small(), tmp_path / "s.safetensors")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileRefused, match="is damaged"):
        load_spiking(path)


def forged(path: Path, change=lambda content: None, tensors=lambda found: None) -> Path:
    """A sealed file with another description or other tensors than the small network's, as a hostile author makes."""
    from weightsmith.spiking.files import _content, _tensors

    network = small()
    content, found = json.loads(json.dumps(_content(network))), _tensors(network)
    change(content)
    tensors(found)
    return write_sealed(path, found, json.dumps(content))


def at(*keys, value):
    """A change that sets ``value`` under these keys of the description."""

    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


HOSTILE = {
    "version": (at("spiking", value=2), "version '?2'?; this weightsmith reads version 1"),
    "version text": (at("spiking", value="1"), "version '1'"),
    "unknown part": (at("extra", value=1), "unknown part 'extra'"),
    "missing part": (lambda content: content.pop("encode"), "lacks 'encode'"),
    "nodes no list": (at("nodes", value={"a": 1}), "not a list"),
    "no nodes": (at("nodes", value=[]), "holds 'a.weight', which belongs to no node"),
    "node no object": (at("nodes", 0, value=7), "a node of an unknown kind"),
    "unknown kind": (at("nodes", 0, "kind", value="Eval"), "a node of an unknown kind"),
    "kind a list": (at("nodes", 0, "kind", value=["Synapses"]), "a node of an unknown kind"),
    "unknown field": (at("nodes", 0, "spell", value=1), "'a' \\(Synapses\\) has an unknown field 'spell'"),
    "a tensor in JSON": (at("nodes", 0, "weight", value=[[1.0]]), "unknown field 'weight'"),
    "missing field": (lambda content: content["nodes"][0].pop("source"), "'a' \\(Synapses\\) lacks source"),
    "name a number": (at("nodes", 0, "name", value=3), "name cannot be 3"),
    "control characters": (at("nodes", 1, "name", value="r\x1b[2J"), "lacks threshold|control characters"),
    "reads the future": (at("nodes", 0, "source", value="b"), "reads 'b', which does not come before it"),
    "stride zero": (
        at("nodes", 0, "stride", value=[0, 1]),
        "'a' has an impossible kernel, stride, dilation, groups or padding",
    ),
    "stride too long": (at("nodes", 0, "stride", value=[1, 1, 1]), "stride cannot be"),
    "stride text": (at("nodes", 0, "stride", value="11"), "stride cannot be '11'"),
    "stride true": (at("nodes", 0, "stride", value=[True, True]), "stride cannot be True"),
    "padding huge": (at("nodes", 0, "padding", value=[10**9, 0]), "an impossible kernel"),
    "padding negative": (at("nodes", 0, "padding", value=[-1, 0]), "an impossible kernel"),
    "groups zero": (at("nodes", 0, "groups", value=0), "an impossible kernel"),
    "start NaN": (at("nodes", 1, "start", value=float("nan")), "start cannot be nan"),
    "start infinite": (at("nodes", 1, "start", value=float("inf")), "start cannot be inf"),
    "start beyond float": (at("nodes", 1, "start", value=10**400), "start cannot be"),
    "input huge": (at("input_shape", value=[10**300]), "larger than any image"),
    "input empty": (at("input_shape", value=[]), "input_shape cannot be"),
    "input flat": (at("input_shape", value=[2, 2]), "one or three dimensions"),
    "input of another size": (at("input_shape", value=[5]), r"a \(Synapses\) cannot read values of shape \(5,\)"),
    "neuron unknown": (at("neuron", "name", value="izhikevich"), "unknown neuron 'izhikevich'"),
    "neuron leak": (at("neuron", value={"name": "lif", "leak": 1.1}), "leak must be ≤ 1"),
    "neuron a list": (at("neuron", value=[]), "cannot be read"),
    "encode unknown": (at("encode", "name", value="latency"), "unknown encode"),
    "card with a stranger": (at("card", "owner", value="me"), "no field 'owner'"),
    "card a number": (at("card", value=4), "cannot be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_forged_description_is_refused(tmp_path, name):
    change, reason = HOSTILE[name]
    path = forged(tmp_path / "f.safetensors", change)
    with pytest.raises(FileRefused, match=reason) as refused:
        load_spiking(path)
    assert refused.value.path == str(path)
    assert "\n" not in str(refused.value)


TENSORS = {
    "missing": (lambda found: found.pop("r.threshold"), r"'r' \(Neurons\) lacks threshold"),
    "one too many": (
        lambda found: found.update({"c.weight": torch.ones(2)}),
        "holds 'c.weight', which belongs to no node",
    ),
    "other shape": (lambda found: found.update({"a.weight": torch.ones(3, 5)}), "cannot read values of shape"),
    "three dimensions": (lambda found: found.update({"a.weight": torch.ones(3, 2, 2)}), "cannot read values"),
    "empty": (lambda found: found.update({"b.weight": torch.ones(0, 3)}), r"'b' has an empty output of shape \(0,\)"),
    "NaN": (lambda found: found.update({"a.weight": torch.full((3, 4), torch.nan)}), "a holds NaN or infinity"),
    "threshold zero": (lambda found: found.update({"r.threshold": torch.zeros(3)}), "a threshold is not positive"),
    "leak": (lambda found: found.update({"r.leak": torch.full((3,), 1.5)}), "'r' has a leak that is not between"),
    "whole numbers": (lambda found: found.update({"r.leak": torch.ones(3, dtype=torch.int64)}), "not of type float32"),
    "quantised": (lambda found: found.update({"r.threshold": torch.ones(3, dtype=torch.int8)}), "not of type float32"),
    "short": (lambda found: found.update({"a.weight": torch.ones(3, 4, dtype=torch.int16)}), "not of type float32"),
    "half": (lambda found: found.update({"a.weight": torch.ones(3, 4).half()}), "'a.weight' is not of type float32"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_forged_tensors_are_refused(tmp_path, name):
    change, reason = TENSORS[name]
    with pytest.raises(FileRefused, match=reason):
        load_spiking(forged(tmp_path / "f.safetensors", tensors=change))


@pytest.mark.parametrize(
    "text", ['{"spiking": 1', '{"spiking": 1, "spiking": 1}', "[" * 100_000, '{"spiking": ' + "9" * 5000 + "}"]
)
def test_hostile_json_is_refused(tmp_path, text):
    path = write_sealed(tmp_path / "f.safetensors", {"a": torch.ones(1)}, text)
    with pytest.raises(FileRefused, match="f.safetensors: its description"):
        load_spiking(path)
    assert not is_spiking(path)


def test_more_membranes_than_memory_are_refused(tmp_path):
    """Small tensors, windows within bounds, and yet billions of neurons for one image."""
    margin, size = 40_000, 80_001
    nodes = (
        Synapses("wide", "input", torch.ones(1, 1, 1, 1), padding=(margin, margin)),
        Neurons("n", "wide", torch.ones(1)),
        Pool("pool", "n", (size, size), (size, size)),
        Flatten("flat", "pool"),
        Synapses("head", "flat", torch.ones(2, 1)),
    )
    with pytest.raises(FileRefused, match="values for one image, more than can be computed"):
        save_spiking(SpikingNetwork(nodes, (1, 1, 1), IF(), Poisson()), tmp_path / "n.safetensors")


@settings(max_examples=60, deadline=None)
@given(
    key=st.sampled_from(["spiking", "input_shape", "neuron", "encode", "card", "nodes"]),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_no_description_leads_to_another_error(tmp_path_factory, key, value):
    path = forged(tmp_path_factory.mktemp("forged") / "f.safetensors", at(key, value=value))
    with contextlib.suppress(FileRefused):
        load_spiking(path)


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    with pytest.raises(UsageError, match=r"n.pt: files of spiking networks end in .safetensors"):
        save_spiking(small(), tmp_path / "n.pt")
    half = small().nodes[0]
    assert isinstance(half, Synapses)
    whole = small().replaced([dataclasses.replace(half, weight=half.weight.half())])
    with pytest.raises(UsageError, match=r"a: weight is torch.float16; convert it to float32 or float64"):
        save_spiking(whole, tmp_path / "n.safetensors")
    strange = small(nodes=tuple(_renamed(node) for node in small().nodes))
    with pytest.raises(FileRefused, match="control characters"):
        save_spiking(strange, tmp_path / "n.safetensors")
    assert list(tmp_path.iterdir()) == []


def _renamed(node):
    names = {"a": "a\n"}
    changed = dataclasses.replace(node, name=names.get(node.name, node.name))
    return dataclasses.replace(changed, source=names.get(node.source, node.source))


def test_a_ceiling_is_kept_and_files_without_one_are_as_before(tmp_path):
    nodes = (
        Synapses("a", "input", torch.ones(2, 3)),
        Neurons("clip", "a", torch.ones(2), ceiling=6.0),
        Synapses("b", "clip", torch.ones(2, 2)),
    )
    network = SpikingNetwork(nodes, (3,), IF(), Constant())
    again = load_spiking(save_spiking(network, tmp_path / "clip.safetensors"))
    assert [node.ceiling for node in again.populations] == [6.0]
    free = network.replaced([dataclasses.replace(network.populations[0], ceiling=float("inf"))])
    assert b"ceiling" not in save_spiking(free, tmp_path / "free.safetensors").read_bytes()
    assert spiking_digest(free) != spiking_digest(network)


def test_weights_of_8_bits_stay_8_bits_and_run_alike(tmp_path):
    whole = quantised(example("conv"))
    assert whole.synapses[-1].weight.dtype == torch.int8
    file = save_spiking(whole, tmp_path / "whole.safetensors")
    again = load_spiking(file)
    assert [node.weight.dtype for node in again.synapses] == [node.weight.dtype for node in whole.synapses]
    assert file.stat().st_size < save_spiking(example("conv"), tmp_path / "floats.safetensors").stat().st_size
    x = inputs(whole)
    one, two = (each.run(x, 10, precision="int8") for each in (whole, again))
    assert np.array_equal(one.scores, two.scores)
    assert one.spikes() == two.spikes()


def test_8_bits_that_an_earlier_version_wrote_as_floats_are_the_same_network(tmp_path):
    whole = quantised(example("conv"))
    floats = whole.replaced([dataclasses.replace(node, weight=node.weight.float()) for node in whole.synapses])
    again = load_spiking(save_spiking(floats, tmp_path / "floats.safetensors"))
    assert again.synapses[-1].weight.dtype == torch.float32
    assert spiking_digest(again) == spiking_digest(whole)
    x = inputs(whole)
    assert np.array_equal(again.run(x, 10, precision="int8").scores, whole.run(x, 10, precision="int8").scores)
