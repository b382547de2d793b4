"""The data flow of a module by torch.fx; if torch.fx alone fails, it is traced with the sizes of an example.

torch.fx runs a module on proxies without sizes, so that ``for size in x.size()[1:]``, ``len(x)`` or
``assert x.shape[1] == 3`` fail. With an example every proxy carries a value: all sizes but the first, the number of
rows, are then plain numbers. A decision that depends on values or on the number of rows still cannot be traced. Further
parameters of ``forward`` always keep their defaults.

>>> class Counted(nn.Linear):
...     def forward(self, x):
...         return super().forward(x.view(len(x), -1)) if x.shape[1] == 2 else x
>>> print(trace(Counted(4, 3), torch.zeros(2, 2, 2)).code.strip().splitlines()[-1].strip())
return linear
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute

from weightsmith.core.errors import UsageError
from weightsmith.networks.card import card_of
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.models.resnet import ZeroPad
from weightsmith.networks.precision import input_type, like_of
from weightsmith.networks.running import FAILURES
from weightsmith.networks.wrappers import check_open, unwrapped

__all__ = ["trace"]

_LEAVES = (Dropout, ZeroPad, nn.modules.batchnorm._BatchNorm)
_ROWS = 3  # of an example: a number that hardly any network has as a fixed batch size


def trace(network: nn.Module, example: Tensor | None = None) -> fx.GraphModule:
    """The data flow of a copy of ``network`` in ``eval`` mode; an untraceable network is refused with the reason.

    ``example`` is a batch of inputs; by default one is made from the input shape of the card.
    """
    check_open(network)
    try:
        copied = copy.deepcopy(unwrapped(network)).eval()
    except TypeError as error:  # Python's own: it holds a lock, an open file …
        raise UsageError(f"{type(network).__name__} cannot be copied ({error}); pass one that can") from error
    try:
        return fx.GraphModule(copied, _Tracer().trace(copied))
    except (fx.proxy.TraceError, *FAILURES) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
        known = example if example is not None else _example(network)
        if known is not None:
            with contextlib.suppress(fx.proxy.TraceError, *FAILURES):
                return _with_sizes(copied, known)
        raise UsageError(
            f"{type(network).__name__}: its data flow cannot be traced ({reason}); write its forward without decisions "
            "that depend on the values or the number of its rows"
        ) from error


def _example(network: nn.Module) -> Tensor | None:
    shape, like = card_of(network).input_shape, like_of(network)
    return torch.zeros(_ROWS, *shape, dtype=input_type(network), device=like.device) if shape else None


@torch.no_grad()
def _with_sizes(network: nn.Module, example: Tensor) -> fx.GraphModule:
    with _len_of_stand_ins(network):
        return fx.GraphModule(network, _SizedTracer(example.clone()).trace(network))


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, _LEAVES) or super().is_leaf_module(m, module_qualified_name)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        """The input alone if all other parameters have defaults; torch.fx would also pass a proxy for ``mask=None``."""
        _, *taken = inspect.signature(root_fn).parameters.values()
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = [each.name for each in taken if each.kind in plain and each.default is inspect.Parameter.empty]
        if not taken or needed != [taken[0].name]:
            return super().create_args_for_root(root_fn, is_module, concrete_args)
        return root_fn, [self.root, self.create_proxy("placeholder", needed[0], (), {})]


class _Sized(fx.Proxy):
    """A proxy that carries the value computed from the example."""

    value: Any = None

    @property
    def shape(self) -> Any:
        """The sizes: the number of rows is a proxy, the others are numbers."""
        return self.size()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.value.ndim)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """One size, or all of them."""
        if dim is not None:
            return self._rows() if dim in (0, -self.ndim) else self.value.size(dim)
        return (self._rows(), *self.value.shape[1:])

    def _rows(self) -> Any:
        return self.tracer.create_proxy("call_method", "size", (self, 0), {})

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.value, tuple | list):
            item: Any = self
            return iter([item[index] for index in range(len(self.value))])
        return super().__iter__()  # raises, unless torch.fx knows how many are wanted


class _SizedTracer(_Tracer):
    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self._example, self._evaluating = example, False

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Sized(node, self)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **named: Any) -> Any:
        proxy: Any = super().create_proxy(kind, target, args, kwargs, *rest, **named)
        self._evaluating = True
        try:
            proxy.value = self._value(kind, target, _values(args), _values(kwargs))
        finally:
            self._evaluating = False
        return proxy

    def _value(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        match kind:
            case "placeholder":
                return self._example
            case "get_attr":
                parent, _, name = target.rpartition(".")
                return getattr(self.root.get_submodule(parent), name)
            case "call_module":
                return self.root.get_submodule(target).forward(*args, **kwargs)
            case "call_method":
                return getattr(args[0], target)(*args[1:], **kwargs)
            case _:
                return target(*args, **kwargs)

    # While a value is computed, real modules and parameters are used instead of proxies.

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return forward(*args, **kwargs) if self._evaluating else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self._evaluating else super().getattr(attr, attr_val, parameter_proxy_cache)


def _values(arguments: Any) -> Any:
    """Arguments with every proxy replaced by its value."""

    def value(item: Any) -> Any:
        if isinstance(item, Attribute):
            return getattr(value(item.root), item.attr)
        return item.value if isinstance(item, _Sized) else item

    return fx.node.map_aggregate(arguments, value)


@contextlib.contextmanager
def _len_of_stand_ins(network: nn.Module) -> Iterator[None]:
    """Make ``len(x)`` in the forward of a module return the number of rows as a proxy, which Python does not allow."""

    def rows(given: Any) -> Any:
        return given._rows() if isinstance(given, _Sized) and isinstance(given.value, Tensor) else builtins.len(given)

    spaces = {
        id(space): space
        for module in network.modules()
        if (space := getattr(inspect.unwrap(type(module).forward), "__globals__", None)) is not None
        and "len" not in space
        and not type(module).__module__.startswith("torch.")
    }
    try:
        for space in spaces.values():
            space["len"] = rows
        yield
    finally:
        for space in spaces.values():
            del space["len"]
