"""Two networks side by side: stops in an order that can be refitted, and values that are those of a whole pass."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.reducing.refitting import flow
from weightsmith.reducing.refitting.flow import Resumed, SideBySide


def _seen_by_hook(module: nn.Module, layer: str, x: Tensor) -> tuple[Tensor, Tensor]:
    seen = []
    handle = module.get_submodule(layer).register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    with torch.no_grad():
        module(x)
    handle.remove()
    return seen[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("kind", ["mlp with batch norm", "vgg with batch norm", "resnet pad", "resnet conv"])
def test_values_are_those_of_whole_passes(kind: str, files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if files:
        monkeypatch.setattr(flow, "_IN_MEMORY", 0)
    one, other = network(kind, 0), network(kind, 1)
    blocks = [inputs(kind, 4, seed) for seed in (0, 1, 2)]
    both = SideBySide(one, other, blocks)
    layers = [name for name, module in one.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    stops, refused = both.stops(layers)
    assert not refused
    assert {stop.layer for stop in stops} == set(layers)
    for stop, values in both.walk(stops):
        for block, value in zip(blocks, values, strict=True):
            given, output = _seen_by_hook(one, stop.layer, block)
            torch.testing.assert_close(value.original, given)
            torch.testing.assert_close(value.output, output)
            torch.testing.assert_close(value.given, _seen_by_hook(other, stop.layer, block)[0])
        with torch.no_grad():  # what is refitted here must be seen by all that follows
            other.get_submodule(stop.layer).weight.mul_(1.5)


def test_one_layer_of_a_sum_makes_it_right_after_the_other_is_final() -> None:
    module = network("resnet conv")
    both = SideBySide(module, copy.deepcopy(module), [inputs("resnet conv", 2)])
    stops, _ = both.stops(["layer2.0.conv2", "layer2.0.downsample.0", "layer1.0.conv2"])
    order = {stop.layer: index for index, stop in enumerate(stops)}
    by_name = {stop.layer: stop for stop in stops}
    assert order["layer1.0.conv2"] < order["layer2.0.downsample.0"] < order["layer2.0.conv2"]
    assert by_name["layer2.0.conv2"].other is not None
    assert by_name["layer2.0.conv2"].norm == "layer2.0.bn2"
    assert by_name["layer2.0.downsample.0"].other is None
    assert both.output_layer() == "fc"


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(self.a(x)))  # type: ignore[no-any-return]


def test_a_layer_called_twice_has_no_stop() -> None:
    module = _Twice()
    stops, refused = SideBySide(module, copy.deepcopy(module), [torch.zeros(2, 4)]).stops(["a", "b"])
    assert [stop.layer for stop in stops] == ["b"]
    assert refused == {"a": "is called more than once"}


class _InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.relu = nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.a(x)
        return self.b(self.relu(hidden)) + hidden  # type: ignore[no-any-return]


def test_steps_that_depend_on_their_order_are_refused() -> None:
    module = _InPlace()
    with pytest.raises(UsageError, match="relu changes in place a value that other steps also read"):
        SideBySide(module, copy.deepcopy(module), [torch.zeros(2, 4)])


@pytest.mark.parametrize("kind", ["mlp with batch norm", "vgg with batch norm", "resnet pad", "resnet conv"])
def test_a_resumed_network_gives_what_a_whole_pass_gives(kind: str) -> None:
    module = network(kind)
    layers = [name for name, layer in module.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    blocks = [inputs(kind, rows, seed) for seed, rows in enumerate((4, 3))]
    run = Resumed(module, blocks)
    starts = [run.position([layer]) for layer in layers]
    for start, layer in sorted(zip(starts, layers, strict=True)):
        weights = [each.get_submodule(layer).get_parameter("weight") for each in (module, run.network)]
        before = weights[0].detach().clone()
        with torch.no_grad():
            for factor in (1.5, -0.5, 1.0):
                for weight in weights:
                    weight.copy_(before * factor)
                torch.testing.assert_close(run.outputs(start), module(torch.cat(blocks)))
    assert min(starts) < max(starts) > 0


def test_what_cannot_be_traced_is_run_from_its_beginning() -> None:
    class Own(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x if x.sum() > 0 else -x)

    module, block = Own(3, 2), torch.ones(4, 3)
    run = Resumed(module, [block])
    start = run.position([""])
    with torch.no_grad():
        assert not torch.equal(run.outputs(start), torch.zeros(4, 2))
        for weight in run.network.parameters():
            weight.zero_()
        torch.testing.assert_close(run.outputs(start), torch.zeros(4, 2))
