from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.core.records import Lineage
from weightsmith.data.datasets import load as load_data
from weightsmith.data.normalise import HALF, NONE
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.networks.editing.resizing import set_tensors
from weightsmith.networks.evaluating import evaluate
from weightsmith.networks.files import load, read_card, save
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.networks.models.building import build
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg
from weightsmith.networks.sealed import write_sealed
from weightsmith.networks.weights import open_weights

SMALL = {
    "mlp": lambda: mlp(6, 5, 3, batch_norm="after", statistics="seed", seed=1),
    "vgg": lambda: vgg(5, (1, 8, 8), 3, classifier=(8,), widths=(4, 5, 6), seed=1),
    "resnet": lambda: resnet(8, (1, 8, 8), 3, removed=("layer1.0.conv2",), seed=1),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_saved_network_builds_itself_again(name, tmp_path):
    network = SMALL[name]()
    lineage = Lineage("initialised").then("trained", "abc")
    path = save(network, tmp_path / "n.safetensors", classes=("a", "b", "c"), normalisation=HALF, lineage=lineage)
    copy = load(path)
    assert weights_digest(copy) == weights_digest(network)
    assert architecture_of(copy) == architecture_of(network)
    card = card_of(copy)
    assert (card.classes, card.normalisation, card.lineage) == (("a", "b", "c"), HALF, lineage)
    assert not copy.training
    x = torch.randn(4, *card.input_shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(copy(x), network.eval()(x))
    assert save(copy, tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_it_loads_in_a_new_process(tmp_path):
    path = save(mlp(4, 3, 2, seed=5), tmp_path / "n.safetensors")
    code = f"import weightsmith as ws; print(ws.load({str(path)!r}).dense1.weight.sum().item())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(answer.stdout) == load(path).dense1.weight.sum().item()


def test_every_flipped_byte_of_a_network_file_is_refused(tmp_path):
    path = save(mlp(2, 2, 2), tmp_path / "n.safetensors")
    good = path.read_bytes()
    for position in range(0, len(good), 7):
        bad = bytearray(good)
        bad[position] ^= 0x10
        path.write_bytes(bad)
        with pytest.raises(FileRefused):
            load(path)
        with pytest.raises(FileRefused):
            walk(path)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_a_network_comes_back_in_its_own_type(tmp_path, kind):
    network = mlp(6, 5, 3, batch_norm="after").to(kind)
    path = save(network, tmp_path / "n.safetensors")
    copy = load(path)
    assert copy.dense1.weight.dtype == kind
    assert weights_digest(copy) == weights_digest(network) == weights_digest(open_weights(path))


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"normalisation": 3}, "normalisation"),
        ({"normalisation": "imagnet"}, "did you mean 'imagenet'"),
        ({"classes": (0, 1)}, "classes"),
        ({"lineage": "trained"}, "lineage"),
        ({"klass": ()}, "did you mean 'classes'"),
    ],
)
def test_a_card_that_could_not_be_read_is_not_written(tmp_path, card, message):
    with pytest.raises(UsageError, match=message):
        save(mlp(2, 2), tmp_path / "n.safetensors", **card)
    assert list(tmp_path.iterdir()) == []


def test_the_normalisation_of_a_card_may_be_given_by_name(tmp_path):
    assert card_of(load(save(mlp(2, 2), tmp_path / "n.safetensors", normalisation="0.5/0.5"))).normalisation == HALF


def test_a_network_that_was_changed_since_it_was_built_is_not_saved_under_its_old_architecture(tmp_path):
    network = mlp(4, 3, 2)
    network.output = nn.Linear(3, 9)
    with pytest.raises(DataMismatch, match="was changed since it was built: output.weight has shape"):
        save(network, tmp_path / "n.safetensors")


@pytest.mark.parametrize(
    "card",
    [
        "not json",
        "[" * 100_000,
        '{"architecture": {"name": "mlp", "hidden": [1000000], "input_shape": [1000000], "classes": 10}}',
        '{"architecture": {"name": "mlp", "hidden": [3], "activation": "relo"}}',
        '{"architecture": {"name": "resnet", "depth": 60002, "input_shape": [3, 32, 32], "classes": 10}}',
        '{"architecture": {"name": "mlp", "hidden": [3]}}',
    ],
)
def test_a_hostile_card_costs_nothing(tmp_path, card):
    path = write_sealed(tmp_path / "n.safetensors", {"w": torch.ones(1)}, card)
    with pytest.raises((FileRefused, DataMismatch)):
        load(path)


def test_frozen_statistics_of_files_without_counters_are_not_taken_for_none(tmp_path):
    network = mlp(4, 3, 2, batch_norm="after", statistics="seed")
    network.norm1.running_mean.fill_(5.0)
    state = {name: tensor for name, tensor in network.state_dict().items() if "num_batches" not in name}
    save_file(state, tmp_path / "n.safetensors")
    text = "mlp:3,batch_norm=after,statistics=seed"
    loaded = load(tmp_path / "n.safetensors", network=text, input_shape=(4,), classes=2).train()
    loaded(torch.zeros(8, 4))
    assert loaded.norm1.running_mean[0].item() == pytest.approx(4.5 + 0.1 * torch.relu(loaded.dense1.bias[0]).item())


def test_the_module_the_caller_gives_is_untouched_if_the_file_does_not_fit(tmp_path):
    save_file({"weight": torch.ones(2, 4), "bias": torch.ones(3)}, tmp_path / "n.safetensors")
    given = nn.Linear(4, 2)
    before = weights_digest(given)
    with pytest.raises(DataMismatch):
        load(tmp_path / "n.safetensors", network=given)
    assert weights_digest(given) == before


def test_names_of_the_catalogue_serve_a_named_network_too(tmp_path):
    state = {name.replace("fc.", "linear."): t for name, t in resnet(20, seed=2).state_dict().items()}
    save_file({f"module.{name}": t for name, t in state.items()}, tmp_path / "r.safetensors")
    network = load(tmp_path / "r.safetensors", network="resnet:20", input_shape=(3, 32, 32), classes=10)
    assert torch.equal(network.fc.weight, state["linear.weight"])


def test_tensors_that_could_change_places_are_not_matched_by_order(tmp_path):
    save_file({name: torch.rand(8, 8) for name in ("stem", "body", "head")}, tmp_path / "n.safetensors")
    with pytest.raises(DataMismatch, match="does not fit the network"):
        load(tmp_path / "n.safetensors", network="mlp:8,8,bias=false", input_shape=(8,), classes=8)


def test_a_module_of_the_users_own_needs_its_factory(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text("import torch\ndef build():\n    return torch.nn.Linear(4, 2)\n")
    monkeypatch.chdir(tmp_path)
    network = nn.Linear(4, 2)
    path = save(network, tmp_path / "n.safetensors", factory="own_nets:build", input_shape=(4,))
    with pytest.raises(UsageError, match="allow it with --network own_nets:build"):
        load(path)
    copy = load(path, network="own_nets:build")
    assert torch.equal(copy.weight, network.weight)
    assert card_of(copy).input_shape == (4,)
    with pytest.raises(UsageError, match=r"--network package\.module:function, in Python with load\(…, network="):
        load(save(network, tmp_path / "m.safetensors"))
    filled = load(tmp_path / "m.safetensors", network=nn.Linear(4, 2))
    assert torch.equal(filled.weight, network.weight)


def test_files_of_others_are_recognised_or_named(tmp_path):
    state = {name.replace("fc.", "linear."): t for name, t in resnet(20, seed=2).state_dict().items()}
    save_file({f"module.{name}": t for name, t in state.items()}, tmp_path / "r.safetensors")
    network = load(tmp_path / "r.safetensors")
    assert torch.equal(network.fc.weight, state["linear.weight"])
    assert "recognised as resnet:20" in card_of(network).notes[0]
    assert "read from r.safetensors" in card_of(network).lineage.operation
    save_file({"x": torch.zeros(2, 3, 4)}, tmp_path / "x.safetensors")
    with pytest.raises(UsageError, match=r"x\.safetensors: not a network in the catalogue; name it with --network"):
        load(tmp_path / "x.safetensors")


def test_the_caller_can_overrule_the_guess(tmp_path):
    ours = mlp(4, 3, 2, seed=3)
    save_file(ours.state_dict(), tmp_path / "m.safetensors")
    tanh = load(tmp_path / "m.safetensors", network="mlp:3,activation=tanh", input_shape=(4,), classes=2)
    assert architecture_of(tanh).activation == "tanh"
    assert torch.equal(tanh.dense1.weight, ours.dense1.weight)
    assert card_of(load(tmp_path / "m.safetensors", normalise="0.5/0.5")).normalisation == HALF
    assert card_of(load(tmp_path / "m.safetensors")).normalisation == NONE


def test_other_names_in_the_same_order_fit_and_other_shapes_do_not(tmp_path):
    ours = mlp(4, 3, 2, seed=3)
    values = list(ours.state_dict().values())
    save_file(dict(zip(["0.w", "0.x", "1.w", "1.x"], values, strict=True)), tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors", network="mlp:3", input_shape=(4,), classes=2)
    assert torch.equal(loaded.output.bias, ours.output.bias)
    with pytest.raises(DataMismatch, match="does not fit the network: it lacks dense1.weight and 7 more"):
        load(tmp_path / "m.safetensors", network="mlp:7", input_shape=(4,), classes=2)
    save_file({**ours.state_dict(), "dense1.bias": torch.zeros(9)}, tmp_path / "s.safetensors")
    with pytest.raises(DataMismatch, match=r"dense1.bias has shape \(9,\), the network needs \(3,\)"):
        load(tmp_path / "s.safetensors", network="mlp:3", input_shape=(4,), classes=2)


def test_a_card_of_another_version_is_refused_with_the_reason(tmp_path):
    path = write_sealed(tmp_path / "n.safetensors", {"w": torch.ones(1)}, '{"colour": 3}')
    with pytest.raises(FileRefused, match="written by another version of weightsmith"):
        load(path)


def test_only_safetensors_are_written(tmp_path):
    with pytest.raises(UsageError, match=r"end in \.safetensors"):
        save(mlp(2, 2), tmp_path / "n.pt")
    assert read_card(open_weights(save(mlp(2, 2), tmp_path / "n.safetensors"))) is not None


def test_a_result_folder_is_as_good_as_its_network_file(tmp_path):
    save(mlp(2, 2, seed=4), tmp_path / "run" / "network.safetensors")
    (tmp_path / "run" / "record.json").write_text("{}")
    assert torch.equal(load(tmp_path / "run").output.weight, mlp(2, 2, seed=4).output.weight)


OWN = """
from torch import nn

class Own(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, width, bias=False), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(x))

def build():
    return Own()

def small():
    return Own(3)

def wide():
    return Own(12)

def other():
    return nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 10))

def five():
    own = Own()
    own.head = nn.Linear(8, 5)
    return own
"""


@pytest.fixture
def reduced(tmp_path, monkeypatch):
    """A module of the user's own, three of its eight units kept and a bias added, and the file of it."""
    (tmp_path / "own_units.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    network = build("own_units:build").eval()
    weight, head = network.body[1].weight.detach(), network.head.weight.detach()
    set_tensors(network.body[1], {"weight": weight[:3], "bias": torch.tensor([0.5, 0.0, -0.5])})
    set_tensors(network.body[2], {name: torch.rand(3) for name in ("weight", "bias", "running_mean", "running_var")})
    set_tensors(network.head, {"weight": head[:, :3]})
    card = {"widths": {"body.1": 3}, "input_shape": (64,), "classes": tuple("0123456789")}
    yield network, save(network, tmp_path / "reduced.safetensors", **card)
    sys.modules.pop("own_units", None)


def test_a_reduced_module_of_the_users_own_is_relaid_from_its_function(reduced, tmp_path):
    network, path = reduced
    with pytest.raises(UsageError, match="allow it with --network own_units:build"):
        load(path)
    x = torch.rand(4, 64)
    for function in ("build", "wide"):
        copy = load(path, network=f"own_units:{function}")
        assert torch.equal(copy(x), network(x))
        assert (card_of(copy).widths, card_of(copy).factory) == ({"body.1": 3}, f"own_units:{function}")
    again = save(load(path, network="own_units:build"), tmp_path / "again.safetensors")
    assert card_of(load(again, network="own_units:build")) == card_of(load(path, network="own_units:build"))
    assert torch.equal(load(again, network="own_units:build")(x), network(x))


def test_a_function_that_builds_the_reduced_widths_needs_nothing_relaid(reduced):
    network, path = reduced
    given = build("own_units:small")
    given.body[1] = nn.Linear(64, 3)
    before = [id(parameter) for parameter in given.parameters()]
    x = torch.rand(4, 64)
    assert torch.equal(load(path, network=given)(x), network(x))
    assert [id(parameter) for parameter in given.parameters()] == before


@pytest.mark.slow
def test_a_reduced_module_is_evaluated_in_a_new_process(reduced):
    network, path = reduced
    order = [sys.executable, "-m", "weightsmith", "evaluate", path, "--network", "own_units:build", "--data", "digits"]
    answer = subprocess.run([*order, "--json", "--quiet"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["correct"] == evaluate(network, load_data("digits")).correct


def test_without_widths_on_the_card_other_shapes_are_refused_as_ever(reduced, tmp_path):
    path = save(reduced[0], tmp_path / "plain.safetensors", widths={})
    with pytest.raises(DataMismatch, match="does not fit the network"):
        load(path, network="own_units:build")


@pytest.mark.parametrize(
    ("widths", "function", "message"),
    [
        ({"body.1": 10**12}, "build", "body.1 has 3 units, the card says 1000000000000"),
        ({"body.1": -3}, "build", "body.1 has 3 units, the card says -3"),
        ({"body.1": 3, "tail": 4}, "build", "its card gives tail 4 units, the network has no such layer"),
        ({"body.2": 3}, "build", "its card gives body.2 3 units"),
        ({"head": 10}, "build", "body.1 has 3 units, the network 8, and the card does not say it was reduced"),
        ({"body.1": 3}, "five", "head has 10 units, the network 5, and the card does not say"),
        ({"body.1": 3}, "other", "does not fit the network"),
    ],
)
def test_widths_that_are_not_so_are_refused_before_anything_is_changed(reduced, tmp_path, widths, function, message):
    network, _ = reduced
    card = json.dumps({**card_of(network).to_dict(), "widths": widths})
    path = write_sealed(tmp_path / "n.safetensors", network.state_dict(), card)
    given = build(f"own_units:{function}")
    before = weights_digest(given)
    with pytest.raises(DataMismatch, match=message):
        load(path, network=given)
    assert weights_digest(given) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head.bias": None}, "lacks head.bias"),
        ({"head.bias": torch.ones(9)}, r"head: bias of shape \(9,\) does not fit its other tensors; \(10,\) would"),
        ({"head.scale": torch.ones(1)}, "head.scale: the network has no such tensor"),
        ({"body.2.running_var": torch.ones(4)}, "body.2: running_var of shape"),
        ({"body.1.weight": torch.ones(3)}, "body.1: weight must have 2 axes"),
        ({"body.1.weight": torch.ones(0, 64), "body.1.bias": torch.ones(0)}, "leaves no units"),
    ],
)
def test_tensors_that_do_not_fit_a_reduced_network_are_refused_before_anything_is_changed(
    reduced, tmp_path, change, message
):
    network, _ = reduced
    state = {name: value for name, value in {**network.state_dict(), **change}.items() if value is not None}
    card = json.dumps({**card_of(network).to_dict(), "widths": {"body.1": 3}})
    path = write_sealed(tmp_path / "n.safetensors", state, card)
    given = build("own_units:build")
    before = weights_digest(given)
    with pytest.raises(DataMismatch, match=message):
        load(path, network=given)
    assert weights_digest(given) == before


@pytest.mark.parametrize(
    "widths", ['{"body.1": "3"}', '{"body.1": 3.5}', "[3]", '{"body.1": null}', '{"body.1": true}']
)
def test_widths_that_are_no_numbers_are_no_card(reduced, tmp_path, widths):
    path = write_sealed(tmp_path / "n.safetensors", reduced[0].state_dict(), f'{{"widths": {widths}}}')
    with pytest.raises(FileRefused, match="widths"):
        load(path, network="own_units:build")


@pytest.mark.parametrize("widths", [{"body.1": 4}, {"tail": 3}, {"body.2": 3}])
def test_widths_that_are_not_so_are_not_saved(reduced, tmp_path, widths):
    with pytest.raises(UsageError, match="which the network does not have"):
        save(reduced[0], tmp_path / "n.safetensors", widths=widths)
    assert not (tmp_path / "n.safetensors").exists()


def test_a_network_of_ours_named_instead_is_not_relaid(reduced):
    with pytest.raises(DataMismatch, match="does not fit the network"):
        load(reduced[1], network="mlp:8", input_shape=(64,), classes=10)


def test_channels_are_those_that_the_file_reads(tmp_path):
    state = build("resnet:8", input_shape=(3, 16, 16), classes=4).state_dict()
    torch.save(state, tmp_path / "net.pt")
    loaded = load(tmp_path / "net.pt", network="resnet:8", input_shape=(1, 16, 16))
    assert loaded.conv1.in_channels == 3


def test_a_saved_module_of_ones_own_is_walked_like_the_module(tmp_path):
    """What names and shapes do not tell (groups, a single input channel, an embedding's kind) is in the file."""
    parts = {
        "stem": nn.Conv2d(1, 16, 3),
        "down": nn.Conv2d(16, 32, 3),
        "grouped": nn.Conv2d(32, 32, 3, groups=2),
        "depthwise": nn.Conv2d(32, 32, 3, groups=32),
        "halves": nn.Conv2d(16, 8, 3),
        "up": nn.ConvTranspose2d(8, 8, 3),
        "table": nn.Embedding(7, 5),
        "attention": nn.MultiheadAttention(6, 2),
        "recurrent": nn.GRU(4, 4),
        "head": nn.Linear(8, 3),
    }
    network = nn.ModuleDict(parts)
    inside = {layer.name: (layer.kind, layer.matrices.shape, layer.notes) for layer in walk(network)}
    from_file = {
        layer.name: (layer.kind, layer.matrices.shape, layer.notes)
        for layer in walk(save(network, tmp_path / "own.safetensors"))
    }
    assert from_file == inside
