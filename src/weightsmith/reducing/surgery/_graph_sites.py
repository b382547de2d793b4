"""Sites of any network, from the dependency graph of torch-pruning (extra ``prune``).

The graph shows which layers must lose units together. Two things are checked here: every layer that writes the units
must write all of them and nothing else (zero-padded shortcuts couple layers of different widths), and every layer must
be of a supported type. The cut itself is made, and verified, by weightsmith.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from weightsmith.core.errors import MissingExtra, UsageError
from weightsmith.networks.editing.attention import close_heads
from weightsmith.networks.editing.resizing import outputs_first

__all__ = ["RawSite", "RawSites", "graph_sites", "role"]


_BATCH_NORM = nn.modules.batchnorm._BatchNorm
_CONV = nn.modules.conv._ConvNd
_MOST_INDICES = 1 << 19  # of one site; a dense layer behind a flattening reads some ten thousand
_ROW_NORM = (nn.GroupNorm, nn.LayerNorm)  # statistics of each input, over several channels
# Activations by their autograd names, which torch-pruning uses for its nodes.
_ACTIVATION = re.compile(
    r"\((Relu|Sigmoid|Tanh|LeakyRelu|Elu|Gelu|Silu|Softplus|Hardtanh|Hardsigmoid|Prelu)\w*Backward\w*\)"
)


def graph_sites(network: nn.Module, example: Tensor) -> RawSites:
    """The sites in torch-pruning's graph, traced on a copy with a batch of two."""
    try:
        import torch_pruning
    except ImportError as error:
        raise MissingExtra("cutting other networks than dense ones (torch-pruning)", "prune") from error
    twin = close_heads(copy.deepcopy(network)).eval()
    twin.requires_grad_(True)  # frozen parameters would be missing from the graph
    graph = _built(torch_pruning, twin, example)
    names = {module: name for name, module in twin.named_modules()}
    loose = [name for name, _ in twin.named_parameters() if _is_loose(twin, name)]
    sites: list[RawSite] = []
    obstacles = {name: _why_loose(twin, name) for name in loose}
    done: set[str] = set()
    for module, name in names.items():
        if name in done or not isinstance(module, (nn.Linear, _CONV)) or _is_depthwise(module):
            continue
        if module not in graph.module2node:
            obstacles[name] = "is not used by the network, or not as a layer"
            continue
        found = _site(torch_pruning, graph, names, module)
        if isinstance(found, str):
            obstacles[name] = found
        else:
            sites.append(found)
            done |= {layer for layer, _ in (*found.writers, *found.carriers)}
    return RawSites(sites, {name: reason for name, reason in obstacles.items() if name not in done})


def _built(torch_pruning: Any, twin: nn.Module, example: Tensor) -> Any:
    """The dependency graph, without its warnings."""
    with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
        warnings.simplefilter("ignore")
        try:
            return torch_pruning.DependencyGraph().build_dependency(twin, example_inputs=example.clone(), verbose=False)
        except (
            RuntimeError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            AssertionError,
            ArithmeticError,
        ) as error:
            recurrent = [
                f"{name} ({type(m).__name__})" for name, m in twin.named_modules() if isinstance(m, nn.RNNBase)
            ]
            raise UsageError(
                f"{type(twin).__name__}: its layers cannot be traced for cutting ({_first_line(error)}); "
                + (
                    f"{recurrent[0]} is recurrent, which torch-pruning does not follow"
                    if recurrent
                    else "cut a part of it"
                )
            ) from error


def _site(torch_pruning: Any, graph: Any, names: dict[nn.Module, str], module: nn.Module) -> RawSite | str:
    """The site whose units ``module`` writes, or the reason why there is none.

    A grouped convolution that reads the units carries them on, group by group: the layers that its outputs reach belong
    to the site too, and a unit has so many channels that no group of a convolution or norm is split.
    """
    if is_parametrized(module):
        return "its weight is recomputed in each pass (a parametrisation)"
    if getattr(module, "groups", 1) > 1:
        return "is a grouped convolution"
    found = _Roles()
    ahead, units = [module], len(outputs_first(module))
    for writer in ahead:
        refusal = _collect(torch_pruning, graph, names, writer, found)
        if refusal is not None:
            return refusal
        ahead += [carrier for carrier in found.grouped if carrier not in ahead]
    if not found.places["reads"]:
        return "gives the output of the network"
    if any(not np.all(np.diff(indices) == 1) for indices in found.runs):
        return "its units are grouped in another order than they are written"
    units = math.gcd(units, *found.counts)
    roles = [{name: of.reshape(units, -1) for name, of in part.items()} for part in found.places.values()]
    order = list(names.values())
    # With several activations in between, none determines the range that the readers see.
    activation = found.activations.pop() if len(found.activations) == 1 else None
    return RawSite(units, activation, *(_sorted(part, order) for part in roles))


class _Roles:
    """The parts of a site: indices by role and layer, the grouped convolutions on the way, and numbers of groups.

    Group norms of several groups lose whole groups, so the statistics of the others do not change; a norm of one group
    (or a layer norm) then has the statistics of the kept channels, see ``masking.py``.
    """

    def __init__(self) -> None:
        self.places: dict[str, dict[str, NDArray[np.int64]]] = {"writes": {}, "carries": {}, "reads": {}}
        self.activations: set[str] = set()
        self.grouped: list[nn.Module] = []
        self.counts: list[int] = []
        self.runs: list[NDArray[np.int64]] = []
        """Indices that must be consecutive, since groups consist of neighbours."""

    def group(self, count: int, indices: NDArray[np.int64]) -> None:
        """Note that the channels with these indices form ``count`` groups."""
        self.counts.append(count)
        self.runs.append(indices)


def _collect(
    torch_pruning: Any, graph: Any, names: dict[nn.Module, str], module: nn.Module, found: _Roles
) -> str | None:
    """Add the layers that the outputs of ``module`` reach to ``found``, or return why they cannot be cut."""
    units = len(outputs_first(module))
    kind_of = "linear" if isinstance(module, nn.Linear) else "conv"
    try:
        rule = getattr(torch_pruning, f"prune_{kind_of}_out_channels")
        with _bounded(torch_pruning.dependency.index_mapping._FlattenIndexMapping):
            group = graph.get_pruning_group(module, rule, list(range(units)))
    except (RuntimeError, ValueError, IndexError, KeyError, AssertionError, AttributeError) as error:
        return f"torch-pruning finds no group for it ({_first_line(error)})"
    joined = any("Concat" in str(dependency.target.name) for dependency, _ in group)
    for dependency, columns in group:
        target = dependency.target.module
        shown = _ACTIVATION.search(str(dependency.target.name))
        if shown:
            found.activations.add({"leakyrelu": "leaky-relu"}.get(shown[1].lower(), shown[1].lower()))
        if target not in names:
            continue  # an operation without parameters
        name, indices = names[target], np.asarray(columns, dtype=np.int64)
        outputs = dependency.handler.__name__.endswith("out_channels")
        if indices.size % units:
            return f"its {units} units do not divide the {indices.size} places of {name}"
        if joined and indices.size > units:
            return f"its units are joined to others or to themselves before {name} reads them at several places each"
        if _is_grouped(target) and not outputs and _is_all(indices, target.in_channels):
            found.grouped.append(target)
            found.group(target.groups, indices)
            continue  # its outputs are followed next
        kind = "carries" if target in found.grouped else role(target, outputs)
        if kind is None:
            return f"its units pass through {name}, a {type(target).__name__}, which cannot be cut"
        width = _width(target, kind)
        part = joined and isinstance(target, _BATCH_NORM) and len(np.unique(indices)) == units
        if kind != "reads" and not part and (indices.size != width or not _is_all(indices, width)):
            return f"its {units} units are only some of the {width} of {name} (padded or joined channels)"
        if indices.size and int(indices.max()) >= width:
            return f"its {units} units are more than the {width} that {name} reads (padded or joined channels)"
        if isinstance(target, nn.GroupNorm) and target.num_groups > 1:
            found.group(target.num_groups, indices)
        found.places[kind][name] = indices
    return None


@contextlib.contextmanager
def _bounded(mapping: Any) -> Iterator[None]:
    """Bound torch-pruning's lists of indices, which grow without limit where windows are cut out and joined (Swin)."""
    plain, made = mapping.__call__, 0

    def bounded(self: Any, indices: Any) -> Any:
        nonlocal made
        found = plain(self, indices)
        made += len(found)
        if made > _MOST_INDICES:
            raise ValueError("its units are reshaped into windows again and again")
        return found

    mapping.__call__ = bounded
    try:
        yield
    finally:
        mapping.__call__ = plain


def _is_grouped(module: nn.Module) -> bool:
    """Whether a convolution computes in several groups, of more than one channel each."""
    several = isinstance(module, _CONV) and module.groups > 1 and not (_is_depthwise(module) or module.transposed)
    return several and not is_parametrized(module)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def role(module: nn.Module, outputs: bool) -> str | None:
    """What a layer does with units at its outputs or inputs: writes, carries or reads them; None if unknown."""
    if is_parametrized(module) or not _is_plain(module):
        return None
    if isinstance(module, _BATCH_NORM) or (isinstance(module, nn.PReLU) and module.num_parameters > 1):
        return "carries"
    if isinstance(module, _ROW_NORM) and [value.dim() for value in module.parameters()][:1] == [1]:
        return "carries"
    if isinstance(module, _CONV) and _is_depthwise(module):
        return "carries"
    if isinstance(module, (nn.Linear, _CONV)) and getattr(module, "groups", 1) == 1:
        return "writes" if outputs else "reads"
    return None


def _is_plain(module: nn.Module) -> bool:
    """Whether a norm or a PReLU has the forward of its type; other layers are probed (``probing.py``)."""
    kind = next((kind for kind in (_BATCH_NORM, *_ROW_NORM, nn.PReLU) if isinstance(module, kind)), None)
    return kind is None or type(module).forward is kind.forward


def _width(module: nn.Module, kind: str) -> int:
    if isinstance(module, _BATCH_NORM):
        return module.num_features
    return int(outputs_first(module).shape[1 if kind == "reads" else 0])


def _is_all(indices: NDArray[np.int64], width: int) -> bool:
    return bool(np.array_equal(np.sort(indices), np.arange(width)))


def _is_depthwise(module: nn.Module) -> bool:
    groups = getattr(module, "groups", 1)
    return isinstance(module, _CONV) and groups > 1 and groups == module.in_channels == module.out_channels


def _is_loose(network: nn.Module, name: str) -> bool:
    """Whether a parameter belongs to a module that is not a supported layer."""
    owner = network.get_submodule(name.rpartition(".")[0])
    return not isinstance(owner, (nn.Linear, _CONV, _BATCH_NORM, *_ROW_NORM, nn.PReLU))


def _why_loose(network: nn.Module, name: str) -> str:
    if isinstance(network.get_submodule(name.rpartition(".")[0]), nn.MultiheadAttention):
        return (
            "its heads cannot be cut: keys and values have other widths, or extra keys are added to those of the tokens"
        )
    return "is a parameter outside the layers that can be cut"


def _sorted(part: dict[str, NDArray[np.int64]], order: list[str]) -> list[tuple[str, NDArray[np.int64]]]:
    return sorted(part.items(), key=lambda item: order.index(item[0]))


# The raw result of both site finders: layers by name with the indices of each unit, before checks.


_Place = tuple[str, NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class RawSite:
    """One site: (layer, indices of shape (units, indices per unit)) for each writer, carrier and reader."""

    units: int
    activation: str | None
    writers: list[_Place]
    carriers: list[_Place]
    readers: list[_Place]


@dataclasses.dataclass(frozen=True)
class RawSites:
    """The sites, and the reasons why other layers have none."""

    sites: list[RawSite]
    obstacles: dict[str, str]
