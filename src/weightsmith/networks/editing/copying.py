"""Deep copies of networks; networks that a copy would change are refused."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.parameter import is_lazy

from weightsmith.core.errors import UsageError
from weightsmith.networks.wrappers import unwrapped

__all__ = ["copied"]


def copied(network: nn.Module) -> nn.Module:
    """An independent copy of ``network``, without ``torch.compile`` or a parallel wrapper around it.

    Refused, with the name: lazy layers without a size yet, gradient hooks on parameters (a copy does not keep them),
    and weights that older tools of torch (pruning masks, weight norm) recompute in each pass, which cannot be copied.
    """
    for name, value in network.named_parameters():
        if is_lazy(value):
            raise UsageError(f"{name}: has no size yet (a lazy layer); run the network once on an example first")
        if value._backward_hooks or getattr(value, "_post_accumulate_grad_hooks", None):
            raise UsageError(
                f"{name}: has a gradient hook, which a copy of the network does not keep; use a parametrisation "
                "(torch.nn.utils.parametrize) instead"
            )
    try:
        return copy.deepcopy(unwrapped(network))
    except TypeError as error:  # Python's own: it holds a lock, an open file …
        raise UsageError(f"{type(network).__name__} cannot be copied ({error}); pass one that can") from error
    except RuntimeError as error:
        computed = next((name for name, module in network.named_modules() if _is_computed(module)), None)
        if computed is None:
            raise
        raise UsageError(
            f"{computed or 'the network'}: its weight is recomputed in each pass and cannot be copied; make it "
            "permanent (prune.remove, remove_weight_norm), or use torch.nn.utils.parametrizations"
        ) from error


def _is_computed(module: nn.Module) -> bool:
    """Whether the module has a tensor attribute that is not a parameter but depends on one."""
    return any(getattr(value, "grad_fn", None) is not None for value in vars(module).values())
