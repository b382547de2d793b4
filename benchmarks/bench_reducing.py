"""What a reduction brings: time per image of the whole network and of the smaller real one, and the surgery itself.

The smaller network is compared with the whole one whose units are masked, so both compute the same function.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch_pruning
from torch import Tensor, nn

from benchmarks.measure import Case, Unavailable
from weightsmith.core.seeds import torch_stream
from weightsmith.networks.files import load
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.vgg import vgg
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.plain import Magnitude
from weightsmith.reducing.surgery.masking import masked
from weightsmith.reducing.surgery.removal import cut_out
from weightsmith.reducing.surgery.sites import find_sites
from weightsmith.reducing.surgery.sizes import Params, SizeModel, counts_for_target

__all__ = ["cases"]

_KEEP = 0.5
_PACKAGES = ("torch-pruning",)


def cases() -> list[Case]:
    """An MLP, VGG-5 with and without batch norm, and both kinds of ResNet-20, at half of their parameters."""
    data = os.environ.get("WEIGHTSMITH_DATA")
    if not data:
        raise Unavailable("WEIGHTSMITH_DATA is not set: a folder with weights/*.safetensors")
    weights = Path(data) / "weights"
    networks: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
        "MLP 784-1000-1000-10": (mlp(784, 1000, 1000, 10), (784,)),
        "VGG-5 with batch norm": (vgg(5, classifier=(512, 512), batch_norm=True), (3, 32, 32)),
        "VGG-5": (load(weights / "vgg5_fc512.safetensors"), (3, 32, 32)),
        "ResNet-20, zero-padded shortcuts": (load(weights / "akamaster_resnet20.safetensors"), (3, 32, 32)),
        "ResNet-20, convolution shortcuts": (load(weights / "distiller_resnet20_dense.safetensors"), (3, 32, 32)),
    }
    odd = networks["ResNet-20, convolution shortcuts"]
    even = [
        _time_per_image(f"ResNet-20, multiples of 8, batch {batch}", *odd, batch=batch, multiple=8) for batch in (1, 64)
    ]
    found = [
        _time_per_image(f"{name}, batch {batch}", *given, batch=batch)
        for name, given in networks.items()
        for batch in (1, 64)
    ]
    return [*found, *even, _surgery(networks["ResNet-20, convolution shortcuts"][0])]


def _time_per_image(name: str, network: nn.Module, shape: tuple[int, ...], *, batch: int, multiple: int = 1) -> Case:
    network = network.eval()
    checked = torch.randn((64, *shape), generator=torch_stream(0, "bench", "reducing", name))
    x = checked[:batch]
    sites = find_sites(network, checked[:2]).sites
    sizes = SizeModel(network, sites, x)
    counts = counts_for_target(sizes, {site.name: _KEEP for site in sites}, Params(_KEEP, multiple))
    context = PruningContext(network, sites, x, torch.zeros(batch, dtype=torch.int64))
    choices = Magnitude().choose(context, counts).choices
    cut = cut_out(network, sites, choices, checked)
    if cut.refused:
        raise Unavailable(f"{name}: {cut.refused}")
    last = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    with torch.no_grad(), masked(network, sites, choices):
        expected = network(x)
    size = sum(value.numel() for value in network.parameters())
    smaller = sum(value.numel() for value in cut.network.parameters())
    return Case(
        name,
        f"{batch} inputs through the whole network and through the one cut to {smaller / size:.1%} of its {size:,} "
        f"parameters by the L1 norm ({sizes.size(counts, 'macs') / sizes.size({}, 'macs'):.1%} of the "
        f"multiply–accumulates); the cut one equals the masked one to {cut.difference:.1e}",
        {
            "reduced network": partial(_run, cut.network, last, expected),
            "whole network": partial(_run, network, last, expected),
        },
        lambda ours, _theirs: bool(torch.allclose(ours, expected, atol=1e-5 * max(1.0, float(expected.abs().max())))),
    )


@torch.no_grad()
def _run(network: nn.Module, x: Tensor, _expected: Tensor) -> Any:
    return network(x)


def _surgery(network: nn.Module) -> Case:
    """The same channels taken out by both: the shapes must be equal."""
    x = torch.randn(2, 3, 32, 32)
    sites = find_sites(network, x).sites
    context = PruningContext(network, sites, x, torch.zeros(2, dtype=torch.int64))
    choices = Magnitude().choose(context, {site.name: site.units // 2 for site in sites}).choices
    gone = {choice.site: [removal.unit for removal in choice.removals] for choice in choices}

    def ours() -> list[tuple[int, ...]]:
        found = find_sites(network, x).sites
        return [tuple(value.shape) for value in cut_out(network, found, choices, x).network.parameters()]

    def theirs() -> list[tuple[int, ...]]:
        import copy

        twin = copy.deepcopy(network)
        graph = torch_pruning.DependencyGraph().build_dependency(twin, example_inputs=x, verbose=False)
        for name, units in gone.items():
            graph.get_pruning_group(twin.get_submodule(name), torch_pruning.prune_conv_out_channels, units).prune()
        return [tuple(value.shape) for value in twin.parameters()]

    return Case(
        "Surgery on ResNet-20",
        "find what hangs together and take out half of the channels of every site; ours also runs the masked and the "
        "cut network and compares them",
        {"weightsmith find_sites + cut_out": ours, "torch-pruning groups": theirs},
        lambda a, b: a == b,
        packages=_PACKAGES,
        repeats=3,
    )
