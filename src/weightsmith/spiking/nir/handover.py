"""Load NIR files in other simulators so that they compute the same as ours, and compare the spikes.

Importers read the same file differently. These points are corrected after the import:

    SpikingJelly   needs the file's dt; a soft reset is ``v_reset=None``; it fires at the threshold itself, not only
                   above it, which matters wherever sums are exact; membranes that start above zero are set
    Norse          needs the file's dt; may compute branches in an order in which a shortcut comes a step late; has no
                   soft reset for IF, and does not pass one on for LIF
    snnTorch       reads every IF as a leaky neuron (beta 0.9) that returns pairs; its soft reset subtracts once more
                   from a membrane that is still above the threshold

No other part of weightsmith needs these packages; they are imported only on use.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
from collections.abc import Callable
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.records import Record, versions
from weightsmith.core.seeds import pinned_threads
from weightsmith.spiking.nir._graph import Facts
from weightsmith.spiking.nir._tree import read_tree
from weightsmith.spiking.nir._vector import Drive, read_vector

__all__ = ["HandoverCheck", "LayerCheck", "Simulator", "compare", "into_norse", "into_snntorch", "into_spikingjelly"]

Simulator = Literal["spikingjelly", "norse", "snntorch"]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCheck(Record):
    """Spikes of one population over all images and steps; ``difference`` is summed over images."""

    name: str
    ours: int
    theirs: int
    difference: int

    @property
    def relative(self) -> float:
        """The difference divided by the number of our spikes."""
        return self.difference / max(self.ours, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class HandoverCheck(Record):
    """Our spike counts and another simulator's on the test vector of a NIR file.

    ``scores`` is the largest difference between output sums, as a share of the largest sum.
    """

    file: str
    simulator: Simulator
    neuron: str
    reset: Literal["soft", "hard"]
    images: int
    steps: int
    layers: tuple[LayerCheck, ...]
    scores: float
    versions: dict[str, str]

    @property
    def worst(self) -> float:
        """The largest relative difference of any layer."""
        return max(layer.relative for layer in self.layers)


def into_spikingjelly(path: str | Path) -> nn.Module:
    """The network in SpikingJelly; ``output, state = module(x, state)`` is one step, state None restarts it."""
    exchange = _package("spikingjelly.activation_based.nir_exchange", "spikingjelly")
    neurons = _package("spikingjelly.activation_based.neuron", "spikingjelly")
    facts, graph = _opened(Path(path))
    module: nn.Module = exchange.import_from_nir(graph, dt=facts.dt)
    for name, node in module.named_modules():
        if not isinstance(node, neurons.BaseNode):
            continue
        node.surrogate_function = _Above()
        if facts.reset == "soft":
            node.v_reset = None
        start = facts.starts.get(name.removesuffix(".module"))  # it wraps each neuron
        if start:
            node.set_reset_value("v", start * float(node.v_threshold))
            node.v = start * float(node.v_threshold)
    return module.eval()


def into_norse(path: str | Path) -> nn.Module:
    """The network in Norse; ``output, state = module(x, state)`` is one step, state None restarts it."""
    norse = _package("norse.torch", "norse")
    facts, graph = _opened(Path(path))
    _refuse_starts(facts, "Norse")
    module: Any = norse.from_nir(graph, dt=facts.dt)
    module.execution_order = _in_order(module.execution_order, graph.edges)
    if facts.reset == "soft":
        for cell in module.modules():
            if isinstance(cell, norse.LIFBoxCell):
                cell.p = cell.p._replace(reset_method=_subtract)
            elif isinstance(cell, norse.IAFCell):
                cell.activation = _soft_integrate_and_fire
    return _as_module(module)


def into_snntorch(path: str | Path) -> nn.Module:
    """The network in snnTorch; ``output, _ = module(x)`` is one step, ``snntorch.utils.reset(module)`` restarts it."""
    snntorch, importing = _package("snntorch", "snntorch"), _package("snntorch.import_nir", "snntorch")
    facts, graph = _opened(Path(path))
    _refuse_starts(facts, "snnTorch")
    with contextlib.redirect_stdout(io.StringIO()):  # it prints arrays
        module: Any = importing.import_from_nir(graph)
    for name, node in graph.nodes.items():
        if type(node).__name__ not in ("IF", "LIF"):
            continue
        given = getattr(module, name)
        leaky = snntorch.Leaky(
            beta=1.0 if type(node).__name__ == "IF" else given.beta,
            threshold=given.threshold.float(),
            reset_mechanism="subtract" if facts.reset == "soft" else "zero",
            init_hidden=True,
            reset_delay=False,
        )
        leaky.mem_reset = torch.zeros_like  # every spike has been reset when the next step begins
        setattr(module, name, leaky)
    return _as_module(module)


def _refuse_starts(facts: Facts, tool: str) -> None:
    for name, start in facts.starts.items():
        raise UsageError(
            f"{name} starts at {start:g} thresholds, which is set in SpikingJelly only, not in {tool}; convert with "
            "balance percentile:half=false"
        )


_LOADERS: dict[str, tuple[Callable[[str | Path], nn.Module], tuple[str, ...]]] = {
    "spikingjelly": (into_spikingjelly, ("spikingjelly", "nirtorch")),
    "norse": (into_norse, ("norse", "nirtorch")),
    "snntorch": (into_snntorch, ("snntorch", "nirtorch")),
}


def compare(path: str | Path, simulator: Simulator) -> HandoverCheck:
    """Run the test vector of the NIR file ``path`` in another simulator, in float32, and count its spikes."""
    path = Path(path)
    if simulator not in _LOADERS:
        raise UnknownName("simulator", simulator, _LOADERS)
    load, packages = _LOADERS[simulator]
    vector = read_vector(path)
    module = load(path)
    facts = Facts.read(path, read_tree(path).get("metadata"), None)
    with pinned_threads(1):
        spikes, scores = _run(module, vector.drive, list(vector.spikes))
    layers = [
        LayerCheck(
            name=facts.names.get(name, name),
            ours=int(ours.sum()),
            theirs=int(spikes[name].sum()),
            difference=int(np.abs(spikes[name] - ours).sum()),
        )
        for name, ours in vector.spikes.items()
    ]
    off = float(np.abs(scores - vector.scores).max())
    return HandoverCheck(
        file=path.name,
        simulator=simulator,
        neuron=str(facts.neuron),
        reset=facts.reset,
        images=vector.drive.images,
        steps=vector.drive.steps,
        layers=tuple(layers),
        scores=off / max(float(np.abs(vector.scores).max()), 1e-300),
        versions=versions(*packages, "nir"),
    )


@torch.no_grad()
def _run(module: nn.Module, drive: Drive, names: list[str]) -> tuple[dict[str, NDArray[np.int64]], NDArray[Any]]:
    """Spikes of each population per image, and the sums of the outputs."""
    counts = {name: np.zeros(drive.images, np.int64) for name in names}

    def counting(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def count(_module: nn.Module, _inputs: Any, output: Any) -> None:
            spikes: Tensor = output[0] if isinstance(output, tuple) else output
            counts[name] += (spikes != 0).flatten(1).sum(dim=1).numpy()

        return count

    hooks = [module.get_submodule(name).register_forward_hook(counting(name)) for name in names]
    scores: Tensor | float = 0.0
    state = None
    for step in range(drive.steps):
        output, state = module(drive.step(step), state)
        scores = scores + output.flatten(1).double()
    for hook in hooks:
        hook.remove()
    assert isinstance(scores, Tensor)
    return counts, scores.numpy()


def _opened(path: Path) -> tuple[Facts, Any]:
    """The file's metadata and its graph for the importers, read without the HDF5 library in this process."""
    nir = _package("nir", "nir")
    tree = read_tree(path)
    return Facts.read(path, tree.get("metadata"), None), nir.dict2NIRNode(tree)


def _package(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or package).partition(".")[0]
        raise UsageError(
            f"handing over to {package} needs the package {missing}, which is not installed: pip install {missing}"
        ) from error


def _as_module(module: Any) -> nn.Module:
    assert isinstance(module, nn.Module)
    return module.eval()


def _in_order(order: list[Any], edges: list[tuple[str, str]]) -> list[Any]:
    """Nodes of a graph in topological order."""
    before: dict[str, set[str]] = {node.name: set() for node in order}
    for source, target in edges:
        before[target].add(source)
    by_name = {node.name: node for node in order}
    return [by_name[name] for name in TopologicalSorter(before).static_order()]


def _subtract(spikes: Tensor, membrane: Tensor, _reset: Tensor, threshold: Tensor) -> Tensor:
    """Norse's own subtracting reset computes (1 − z)·v + z·(v − θ), which rounds twice."""
    return membrane - spikes * threshold


def _soft_integrate_and_fire(current: Tensor, state: Any, parameters: Any, _dt: float) -> tuple[Tensor, Any]:
    membrane = state.v + current
    spikes = (membrane > parameters.v_th).to(membrane.dtype)
    return spikes, state._replace(v=membrane - spikes * parameters.v_th)


class _Above(nn.Module):
    """A spike above zero, not at it."""

    def forward(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)
