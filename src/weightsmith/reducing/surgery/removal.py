"""Remove units from the tensors of a network, and verify the result against the masked network.

For the layers that read a site, a removed unit j is replaced by Σ f_k h_{i_k} + c, so with weights W of a reader

    W[:, i_k] ← W[:, i_k] + f_k W[:, j]        b ← b + c Σ W[:, j]        then column j is removed

and row j is removed from the layers that write it. For a reader without bias, the mean of the following batch norm is
lowered by the constant; where a convolution pads with zeros, the constant is assumed to extend into the
padding, because a bias is the same at every position.

Every cut is verified: the *masked* network, the original with the replacement applied to the activations, must give
the same outputs on a batch. Both are run in float64, where only a wrong cut makes a difference. A site whose cut fails
is left whole, with the reason.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.resizing import outputs_first, set_count, set_tensors
from weightsmith.networks.precision import like_of
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.masking import masked
from weightsmith.reducing.surgery.merging import fold_units
from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["CutNetwork", "cut_out", "plain_cut"]


@dataclasses.dataclass(frozen=True)
class CutNetwork:
    """The smaller network, the choices carried out, the reasons for refusals, and the largest difference seen."""

    network: nn.Module
    done: tuple[Choice, ...]
    refused: dict[str, str]
    difference: float


def cut_out(network: nn.Module, sites: Sequence[Site], choices: Sequence[Choice], batch: Tensor) -> CutNetwork:
    """A copy of ``network`` without the units that ``choices`` remove, verified on ``batch``.

    All sites are cut at once; only if the result is wrong are they cut one by one, to find which.
    """
    known = {site.name: site for site in sites}
    wanted = [choice for choice in choices if choice.removals]
    checked = _attempt(network, known, wanted, batch)
    if isinstance(checked, _Checked):
        return CutNetwork(checked.network, tuple(wanted), {}, checked.difference)
    done: list[Choice] = []
    refused: dict[str, str] = {}
    best = _Checked(copy.deepcopy(network), 0.0)
    for choice in wanted:
        tried = _attempt(network, known, [*done, choice], batch)
        if isinstance(tried, _Checked):
            done.append(choice)
            best = tried
        else:
            refused[choice.site] = tried
    return CutNetwork(best.network, tuple(done), refused, best.difference)


def plain_cut(network: nn.Module, sites: Sequence[Site], kept: Mapping[str, Sequence[int]]) -> nn.Module:
    """A copy of ``network`` (or of one of the same layout, a checkpoint) with only the ``kept`` units of each site."""
    known = {site.name: site for site in sites}
    choices = []
    for name, units in kept.items():
        gone = sorted(set(range(known[name].units)) - set(units))
        choices.append(Choice(name, known[name].units, tuple(map(Removal, gone))))
    return _carried_out(network, known, choices)


@dataclasses.dataclass(frozen=True)
class _Checked:
    network: nn.Module
    difference: float


@torch.no_grad()
def _attempt(network: nn.Module, known: dict[str, Site], choices: list[Choice], batch: Tensor) -> _Checked | str:
    """The cut network if it agrees with the masked one; otherwise the reason why not."""
    dtype = _check_dtype(network, batch)
    reference = copy.deepcopy(network).to(dtype).eval()
    x = batch.to(dtype) if batch.is_floating_point() else batch  # tokens stay integers
    for choice in choices:
        _change_inputs(reference, known[choice.site], choice)
    with masked(reference, list(known.values()), choices):
        expected = reference(x.clone())  # it may begin with an in-place operation
    try:
        smaller = _carried_out(copy.deepcopy(network).to(dtype), known, choices).eval()
        given = smaller(x.clone())
    except _RUNS_INTO as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        fixed = "; view or reshape with a fixed number of features cannot follow a cut, x.flatten(1) can"
        hint = fixed * reason.startswith(("shape ", "mat1 and mat2 "))
        return f"the network does not run without these units ({reason}){hint}"
    if given.shape != expected.shape:
        return f"the output has shape {tuple(given.shape)} without these units, not {tuple(expected.shape)}"
    if not bool(torch.isfinite(given).all()):
        return "the output is not finite without these units"
    difference = float((given - expected).abs().max())
    if not _spread(network(batch.clone())):
        return "the network gives the same outputs for all rows of the check, so the cut cannot be verified"
    tolerance = _tolerance(_spread(expected), float(expected.abs().max()), dtype)
    if not difference <= tolerance:  # NaN counts as a difference
        return f"the output differs by {difference:.2g} from that of the masked network (allowed: {tolerance:.2g})"
    return _Checked(_with_original_dtypes(smaller, network), difference)


def _spread(outputs: Tensor) -> float:
    """The largest distance of the outputs from their mean over the rows."""
    return float((outputs - outputs.mean(dim=0)).abs().max())


def _tolerance(spread: float, largest: float, dtype: torch.dtype) -> float:
    """The tolerance between two correct results: √ε of the spread of outputs over rows, and rounding of their size.

    The spread counts and not the size, because an offset common to all rows would mask any error.
    """
    epsilon = torch.finfo(dtype).eps
    return math.sqrt(epsilon) * spread + 32 * epsilon * largest


# Errors that a network of the user's own may raise when its widths change.
_RUNS_INTO = (RuntimeError, ValueError, TypeError, LookupError, AssertionError, AttributeError, UsageError)


def _check_dtype(network: nn.Module, batch: Tensor) -> torch.dtype:
    """float64, unless the network runs only in its own dtype because of tensors inside it."""
    try:
        copy.deepcopy(network).double().eval()(batch.double() if batch.is_floating_point() else batch.clone())
    except RuntimeError:
        return batch.dtype if batch.is_floating_point() else like_of(network).dtype
    return torch.float64


def _with_original_dtypes(smaller: nn.Module, network: nn.Module) -> nn.Module:
    """Convert every tensor to its original dtype."""
    tensors = (*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False))
    types = {name: value.dtype for name, value in tensors}
    for module_name, module in smaller.named_modules():
        for name, value in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            before = types.get(f"{module_name}.{name}" if module_name else name, value.dtype)
            if value.dtype != before:
                value.data = value.data.to(before)
    return smaller


@torch.no_grad()
def _carried_out(network: nn.Module, known: dict[str, Site], choices: Sequence[Choice]) -> nn.Module:
    """A copy of ``network`` with every choice merged and cut, unverified."""
    smaller = copy.deepcopy(network)
    rows: dict[str, set[int]] = {}
    columns: dict[str, set[int]] = {}
    for choice in choices:  # before any column is merged: folded rows keep the length that they have now
        site = known[choice.site]
        if choice.units != site.units:
            raise UsageError(f"{site.name}: the choice is for {choice.units} units, the network has {site.units}")
        _change_inputs(smaller, site, choice)
    for choice in choices:
        site = known[choice.site]
        for port in site.readers:
            _merge(smaller, site, port, choice)
        gone = [removal.unit for removal in choice.removals]
        for ports, removed in (((*site.writers, *site.carriers), rows), (site.readers, columns)):
            for port in ports:
                removed.setdefault(port.layer, set()).update(port.of(gone).tolist())
        for name, each in site.counts:
            set_count(smaller, name, each * (site.units - len(gone)))
    for layer in dict.fromkeys((*rows, *columns)):
        _shrink(smaller.get_submodule(layer), rows.get(layer, set()), columns.get(layer, set()))
    return smaller


@torch.no_grad()
def _merge(network: nn.Module, site: Site, port: Port, choice: Choice) -> None:
    """Merge the removed units into the reader's weights, before any column is removed."""
    weight = outputs_first(network.get_submodule(port.layer))
    indices = torch.from_numpy(port.indices)
    for removal in choice.removals:
        gone = weight[:, indices[removal.unit]]
        if removal.into:
            factors = weight.new_tensor(removal.factors).reshape(1, -1, *[1] * (gone.dim() - 1))
            weight[:, indices[list(removal.into)]] += factors * gone[:, None]
        if removal.constant:
            _shift(network, site, port.layer, removal.constant * gone.flatten(1).sum(dim=1))


def _shift(network: nn.Module, site: Site, reader: str, amount: Tensor) -> None:
    """Add ``amount`` to the outputs of a reader, by its bias or by the mean of the batch norm after it."""
    if reader not in site.shifts:
        raise UsageError(f"{reader} has no bias that could take the constant of a unit")
    taker = network.get_submodule(site.shifts[reader])
    if site.shifts[reader] == reader:
        taker.get_parameter("bias").add_(amount)
    else:
        taker.get_buffer("running_mean").sub_(amount)


@torch.no_grad()
def _change_inputs(network: nn.Module, site: Site, choice: Choice) -> None:
    """Change the input weights of kept units as the removals require."""
    fold_units(network, site, choice)
    for removal in choice.removals:
        if removal.inputs in {"keep", "fold"}:
            continue
        share = 1.0 if removal.inputs == "sum" else 0.5
        for port in site.writers:
            indices = torch.from_numpy(port.indices)
            for tensor in network.get_submodule(port.layer).parameters(recurse=False):
                for unit in removal.into:
                    tensor[indices[unit]] = share * (tensor[indices[unit]] + tensor[indices[removal.unit]])


def _shrink(module: nn.Module, rows: set[int], columns: set[int]) -> None:
    """Remove rows (outputs) and columns (inputs) from all tensors of a layer."""
    tensors: dict[str, Tensor] = {}
    turned = getattr(module, "transposed", False)
    for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
        if tensor.dim() == 0:
            continue
        is_weight = name == "weight" and tensor.dim() > 1
        smaller = _without(tensor.detach(), int(turned and is_weight), rows)
        if is_weight:
            smaller = _without(smaller, int(not turned), columns)
        if smaller.shape != tensor.shape:
            tensors[name] = smaller.clone()
    set_tensors(module, tensors)


def _without(tensor: Tensor, axis: int, gone: set[int]) -> Tensor:
    if not gone:
        return tensor
    kept = torch.tensor([i for i in range(tensor.shape[axis]) if i not in gone], device=tensor.device)
    return tensor.index_select(axis, kept)
