from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, FileRefused, OptionError, UsageError
from weightsmith.data.normalise import HALF, IMAGENET, NONE
from weightsmith.networks import Architecture, card_of, fold_batch_norm, mlp, paper_resnet, resnet, vgg, walk, with_card
from weightsmith.networks.card import Card, weights_digest
from weightsmith.networks.editing.grafting import Brightness, Channels, Grafted, Resize, fit_inputs, graft, reused
from weightsmith.networks.editing.resizing import set_tensors

BASES = {
    "mlp": lambda: mlp(12, 6, 5, 4, batch_norm="before", activation="elu"),
    "vgg": lambda: vgg(5, (3, 8, 8), widths=(4, 5, 6), classifier=(7,)),
    "resnet": lambda: resnet(8, (3, 8, 8), widths=(4, 6, 8), shortcut="conv"),
    "paper-resnet": lambda: paper_resnet((3, 16, 16), widths=(4, 5)),
}


def with_normalisation(network: nn.Module, normalisation) -> nn.Module:
    return with_card(network, dataclasses.replace(card_of(network), normalisation=normalisation))


def random(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", BASES)
def test_a_graft_saves_loads_walks_and_folds_like_any_network(name, tmp_path):
    base = BASES[name]()
    shape = base.architecture.input_shape
    for reuse in (1, 2, None):
        network = graft(base, shape, ("a", "b", "c"), reuse=reuse, hidden=(9,)).eval()
        x = random(4, *shape)
        expected = network(x)
        assert expected.shape == (4, 3)
        again = ws.load(ws.save(network, tmp_path / "graft.safetensors"))
        assert torch.equal(again(x), expected)
        assert card_of(again) == card_of(network)
        assert reused(again) == reused(network)
        assert str(Architecture.parse(str(again.architecture))) == str(again.architecture)
        assert [layer.name for layer in walk(network).layers][-2:] == ["head.dense1", "head.output"]
        assert walk(network).parameters == sum(p.numel() for p in network.parameters())
        assert torch.allclose(fold_batch_norm(network).network(x), expected, atol=1e-5)
        assert weights_digest(copy.deepcopy(network)) == weights_digest(network)


@pytest.mark.slow
def test_a_process_that_never_heard_of_grafts_loads_one(tmp_path):
    """The file's card names the architecture, which must be known to whoever reads it without further imports."""
    path = ws.save(graft(BASES["mlp"](), (12,), 3), tmp_path / "graft.safetensors")
    code = f"import weightsmith as ws; print(ws.load({str(path)!r}).architecture.name)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (answer.stdout.strip(), answer.stderr) == ("grafted", "")


def test_the_reused_weights_are_the_bases_and_the_head_is_drawn():
    base = BASES["resnet"]()
    before = copy.deepcopy(base.state_dict())
    base.bn1.running_mean.fill_(3.0)
    network = graft(base, (3, 8, 8), 5, seed=1)
    for key, value in network.base.state_dict().items():
        assert torch.equal(value, base.state_dict()[key])
    assert "fc.weight" not in network.base.state_dict()
    assert torch.equal(base.fc.weight, before["fc.weight"])
    assert torch.equal(network.head.output.weight, graft(base, (3, 8, 8), 5, seed=1).head.output.weight)
    assert not torch.equal(network.head.output.weight, graft(base, (3, 8, 8), 5, seed=2).head.output.weight)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_all_hidden_blocks_with_the_old_output_layer_are_the_old_network():
    base = BASES["resnet"]().eval()
    network = graft(base, (3, 8, 8), 10).eval()
    with torch.no_grad():
        network.head.output.weight.copy_(base.fc.weight)
        network.head.output.bias.copy_(base.fc.bias)
    x = random(3, 3, 8, 8)
    assert torch.equal(network(x), base(x))


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["akamaster_resnet20", "distiller_resnet20_4D_regularized_5Lremoved_finetuned", "vgg5_fc512"]
)
def test_a_real_network_with_its_own_output_layer_back_gives_its_own_answers(shared_data, name):
    base = ws.load(shared_data / "weights" / f"{name}.safetensors")
    images = ws.data.load("cifar10", splits=("test",)).test.x[:32]
    network = graft(base, (3, 32, 32), base_classes := card_of(base).classes or 10)
    old = [module for module in base.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        network.head.output.weight.copy_(old.weight)
        network.head.output.bias.copy_(old.bias if old.bias is not None else torch.zeros(10))
    assert torch.equal(ws.networks.scores(network, images), ws.networks.scores(base, images))
    assert card_of(network).classes == (() if base_classes == 10 else base_classes)


def test_raw_grey_images_reach_the_base_as_it_knows_images():
    """On raw grey pixels the base must see them resized, in three channels, normalised as in its training."""
    base = with_normalisation(BASES["resnet"](), IMAGENET)
    network = graft(base, (1, 6, 5), 10).eval()
    assert card_of(network).normalisation == NONE
    assert network.architecture.normalise == "imagenet"
    pixels = (random(4, 1, 6, 5) * 255).to(torch.uint8)
    seen = nn.functional.interpolate(pixels.float() / 255, (8, 8), mode="bilinear").expand(-1, 3, -1, -1)
    with torch.no_grad():
        features = base.eval().layer3(
            base.layer2(base.layer1(base.activation(base.bn1(base.conv1(IMAGENET.apply(seen))))))
        )
        expected = network.head(features.mean((2, 3)))
    assert torch.allclose(ws.networks.scores(network, pixels), expected, atol=1e-5)


@pytest.mark.parametrize(("normalisation", "shape"), [(HALF, (1, 6, 5)), (IMAGENET, (3, 6, 5))])
def test_a_normalisation_that_fits_stays_on_the_card(normalisation, shape):
    network = graft(with_normalisation(BASES["resnet"](), normalisation), shape, 3)
    assert card_of(network).normalisation == normalisation
    assert network.architecture.normalise == "none"


def test_feature_maps_are_averaged_or_flattened():
    base = BASES["vgg"]()
    assert graft(base, (3, 8, 8), 2, reuse=2).head.output.in_features == 5
    assert graft(base, (3, 8, 8), 2, reuse=2, pool="flatten").head.output.in_features == 5 * 4 * 4
    # Behind the last convolution the base itself pools and flattens.
    assert graft(base, (3, 8, 8), 2, reuse=3).head.output.in_features == 6 * 2 * 2
    assert graft(base, (3, 8, 8), 2, reuse=4).head.output.in_features == 7


def test_the_head_takes_the_bases_activation_and_dropout():
    network = graft(BASES["mlp"](), (12,), 3, hidden=(8, 7), dropout=0.25)
    assert isinstance(network.head.activation1, nn.ELU)
    assert (network.head.dropout1.rate, network.head.dropout2.rate) == (0.25, 0.25)
    assert isinstance(graft(BASES["mlp"](), (12,), 3, hidden=(8,), activation="tanh").head.activation1, nn.Tanh)


def test_a_graft_can_be_grafted_on():
    first = graft(BASES["vgg"](), (1, 6, 6), 3, reuse=2, hidden=(9,))
    second = graft(first, (1, 6, 6), 2)
    assert [block.layers for block in reused(second)][-1] == ("base.head.dense1",)
    assert str(Architecture.parse(str(second.architecture))) == str(second.architecture)
    assert second.eval()(random(2, 1, 6, 6)).shape == (2, 2)


def test_bases_of_bases_are_read_in_no_time():
    """A hostile card could nest them; read twice on each level, thirteen levels would take thousands of readings."""
    text, levels = "mlp:5,input_shape=[4],classes=2", 13
    start = time.process_time()
    for _ in range(levels):
        text = str(Grafted(text, 1, input_shape=(4,), classes=2))
    assert time.process_time() - start < 5
    assert Architecture.parse(text).base_option.base_option.name == "grafted"


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.dense, self.out = nn.Conv2d(3, 4, 3), nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.out(torch.relu(self.dense(torch.relu(self.convolution(x)).mean((2, 3)))))


class Winding(Own):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


@pytest.mark.parametrize("kind", [Own, Winding])
def test_a_module_of_ones_own(kind):
    base = with_card(kind().eval(), Card(input_shape=(3, 8, 8), normalisation=HALF))
    network = graft(base, (1, 6, 6), ("a", "b", "c"), hidden=(4,)).eval()
    assert [block.layers for block in reused(network)] == [("base.convolution",), ("base.dense",)]
    assert (card_of(network).architecture, card_of(network).normalisation) == (None, HALF)
    x = random(2, 1, 6, 6)
    seen = nn.functional.interpolate(x, (8, 8), mode="bilinear").expand(-1, 3, -1, -1)
    features = torch.relu(base.dense(torch.relu(base.convolution(seen)).mean((2, 3))))
    assert torch.allclose(network(x), network.head(features), atol=1e-6)


def test_a_reduced_module_of_ones_own_stays_known_as_reduced(tmp_path):
    base = with_card(Own(), Card(input_shape=(3, 8, 8), widths={"dense": 2, "out": 9}))
    set_tensors(base.dense, {"weight": base.dense.weight[:2], "bias": base.dense.bias[:2]})
    set_tensors(base.out, {"weight": base.out.weight[:, :2]})
    network = graft(base, (3, 8, 8), 3).eval()
    assert card_of(network).widths == {"base.dense": 2}
    path = ws.save(network, tmp_path / "n.safetensors")
    x = random(2, 3, 8, 8)
    assert torch.equal(ws.load(path, network=lambda: graft(Own(), (3, 8, 8), 3))(x), network(x))


def test_one_block_of_ones_own_module_if_it_can_be_traced():
    network = graft(Own(), (3, 8, 8), 3, reuse=1).eval()
    assert network(random(2, 3, 8, 8)).shape == (2, 3)
    assert [block.layers for block in reused(network)] == [("base.convolution",)]
    with pytest.raises(UsageError, match="Winding: its data flow cannot be traced"):
        graft(Winding(), (3, 8, 8), 3, reuse=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reuse": 9}, "has 4 blocks to reuse, not 9"),
        ({"reuse": 0}, "reuse must be ≥ 1"),
        ({"hiden": (3,)}, "did you mean 'hidden'"),
        ({"input_shape": (7,)}, "cannot be converted to"),
        ({"classes": 0}, "classes must be ≥ 1"),
    ],
)
def test_what_cannot_be_grafted_is_named(wrong, message):
    values = {"input_shape": (3, 8, 8), "classes": 3, **wrong}
    with pytest.raises((OptionError, DataMismatch), match=message):
        graft(BASES["resnet"](), **values)


def test_a_changed_base_is_refused():
    base = BASES["resnet"]()
    base.conv1 = nn.Conv2d(3, 3, 3)
    with pytest.raises(DataMismatch, match="the base was changed since it was built: conv1.weight"):
        graft(base, (3, 8, 8), 3)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("os:getcwd", "unknown network 'os'"),
        ("resnet:20", "must give its input_shape and classes"),
        ("vgg:7,input_shape=[3,8,8],classes=2", "depth must be one of"),
    ],
)
def test_a_base_is_one_of_our_architectures_and_complete(base, message):
    """A network file names its base; it must never be able to name a function that is then imported and called."""
    with pytest.raises((OptionError, UsageError), match=message):
        Grafted(base, 1)


def test_a_file_whose_card_asks_for_too_many_blocks_is_refused(tmp_path):
    network = graft(BASES["mlp"](), (12,), 3)
    spec = dataclasses.replace(network.architecture, reuse=50)
    path = tmp_path / "graft.safetensors"
    from weightsmith.networks.sealed import write_sealed

    write_sealed(path, network.state_dict(), dataclasses.replace(card_of(network), architecture=spec).to_json())
    with pytest.raises(FileRefused, match="has 2 blocks to reuse, not 50"):
        ws.load(path)


def test_only_a_graft_has_reused_blocks():
    with pytest.raises(UsageError, match="Sequential is not a grafted network"):
        reused(BASES["mlp"]())


PIXELS = torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(0))


def run(layers, x):
    return nn.Sequential(layers)(x)


@pytest.mark.parametrize("size", [(9, 7), (18, 21), (4, 3), (20, 5)])
def test_images_are_resized_as_pillow_does(size):
    ours = Resize((9, 7), size)(PIXELS)[0, 0].numpy()
    theirs = Image.fromarray(PIXELS[0, 0].numpy()).resize(size[::-1], Image.Resampling.BILINEAR)
    assert np.allclose(ours, np.asarray(theirs), atol=1e-5)


def test_a_chequerboard_that_shrinks_turns_grey_and_not_into_a_pattern():
    board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(8, 8)[None, None]
    inner = Resize((16, 16), (5, 5))(board)[0, 0, 1:-1, 1:-1]
    assert (inner - 0.5).abs().max() < 0.05
    assert (nn.functional.interpolate(board, (5, 5), mode="bilinear")[0, 0] - 0.5).abs().max() > 0.3


def test_grey_images_go_to_every_channel_and_are_normalised_there():
    layers = fit_inputs((1, 9, 7), (3, 9, 7), IMAGENET)
    grey = PIXELS[:, :1]
    assert torch.allclose(run(layers, grey), IMAGENET.apply(grey.expand(-1, 3, -1, -1)))
    assert torch.equal(Channels(4)(grey), grey.expand(-1, 4, -1, -1))
    assert torch.equal(Channels(3, HALF)(grey), HALF.apply(grey.expand(-1, 3, -1, -1)))
    with pytest.raises(DataMismatch, match="does not fit 2 channels"):
        Channels(2, IMAGENET)


def test_colours_become_brightness():
    red = torch.tensor([1.0, 0, 0]).reshape(1, 3, 1, 1)
    assert Brightness(3)(red).item() == pytest.approx(0.299)
    assert Brightness(3)(torch.full((1, 3, 1, 1), 0.7)).item() == pytest.approx(0.7)
    assert torch.allclose(run(fit_inputs((2, 9, 7), (1, 9, 7)), PIXELS[:, :2]), PIXELS[:, :2].mean(1, keepdim=True))


def test_fitting_and_normalising_can_change_places():
    layers = fit_inputs((3, 9, 7), (1, 5, 12))
    assert torch.allclose(run(layers, HALF.apply(PIXELS)), HALF.apply(run(layers, PIXELS)), atol=1e-6)
    resize = fit_inputs((3, 9, 7), (3, 5, 12))
    assert torch.allclose(run(resize, IMAGENET.apply(PIXELS)), IMAGENET.apply(run(resize, PIXELS)), atol=1e-5)


@pytest.mark.parametrize(
    ("given", "wanted", "layers"),
    [
        ((3, 9, 7), (3, 9, 7), []),
        ((12,), (12,), []),
        ((3, 2, 2), (12,), ["shape"]),
        ((12,), (3, 2, 2), ["shape"]),
        ((1, 9, 7), (3, 4, 7), ["resize", "channels"]),
        ((3, 9, 7), (1, 9, 9), ["resize", "brightness"]),
    ],
)
def test_only_what_is_needed_is_done(given, wanted, layers):
    made = fit_inputs(given, wanted)
    assert list(made) == layers
    assert run(made, torch.zeros(2, *given)).shape == (2, *wanted)


@pytest.mark.parametrize(
    ("given", "wanted", "normalisation", "message"),
    [
        ((12,), (13,), NONE, r"\(12,\) cannot be converted to the \(13,\)"),
        ((2, 4, 4), (3, 4, 4), NONE, "cannot be converted to"),
        ((1, 4, 4), (20,), NONE, "cannot be converted to"),
        ((3, 4, 4), (3, 5, 5), IMAGENET, "belongs on the card"),
    ],
)
def test_what_cannot_be_fitted_is_named(given, wanted, normalisation, message):
    with pytest.raises(DataMismatch, match=message):
        fit_inputs(given, wanted, normalisation)
