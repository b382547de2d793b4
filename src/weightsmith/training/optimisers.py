"""Optimisers by name. The learning rate itself belongs to the schedule.

Symbols: θ the parameters, g their gradient, η the rate of this step, t the step counted from 1. All operations are
elementwise, on one flat parameter. Descent with and without momentum is implemented here; the adaptive ones are
torch's own, fused into a single pass where torch supports that. Docstrings name what Keras does differently under the
same name. torch's other optimisers are available by name (``torch:Adagrad,lr=0.01``) or from a function.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import abstractmethod
from collections.abc import Callable, MutableMapping
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.core.identity import identity_of
from weightsmith.core.options import Option, param
from weightsmith.core.text import quote, read_value, split_items

__all__ = [
    "Adam",
    "AdamW",
    "Momentum",
    "NAdam",
    "Nesterov",
    "Optimiser",
    "OwnOptimiser",
    "RmsProp",
    "Sgd",
    "Torch",
    "Updater",
    "read_optimiser",
]


class Updater(Protocol):
    """The interface of torch's optimisers: the rate of a step is ``param_groups[0]["lr"]``."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """One group with the rate in it."""

    @property
    def state(self) -> MutableMapping[Any, Any]:
        """The optimiser state, by parameter."""

    def step(self) -> Any:
        """Move the parameter by its gradient."""


class Optimiser(Option):
    """The family of optimisers; ``usual_rate`` is the rate in use when none is given."""

    usual_rate: ClassVar[float] = 0.01

    @property
    def gain(self) -> float:
        """The total movement of θ by one gradient, in units of η·g: 1 / (1 − μ) with momentum μ, else 1.

        A proximal step has to be as long as the gradient's, so it uses the rate times this factor. Optimisers that
        divide by the size of the gradient have no such factor; there it is 1, and strengths are relative to that size.
        """
        return 1.0

    @abstractmethod
    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """An updater for one flat parameter that starts at ``rate``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The member that ``text`` describes; after ``torch:`` any argument of that optimiser may be given."""
        if text.strip().partition(":")[0] != "torch":
            return super().parse(text)
        plain, named = split_items(text.strip().partition(":")[2], text)
        if len(plain) != 1:
            raise OptionError(f"{text!r}: name one optimiser of torch, as torch:Adagrad,lr=0.01")
        values = {key: read_value(item) for key, item in named}
        rate = values.pop("lr", None)
        return cls.member("torch").from_values(
            {"kind": plain[0], "lr": rate, "arguments": [f"{key}={quote(value)}" for key, value in values.items()]}
        )


class Sgd(Optimiser, name="sgd"):
    """θ ← θ − η·g: plain gradient descent (seed 002, eq. 9).

    >>> weights = nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> optimiser = Sgd().build(weights, rate=0.1)
    >>> weights.grad = torch.tensor([1.0, -1.0])
    >>> optimiser.step()
    >>> weights.data
    tensor([0.9000, 2.1000])
    """

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """One addition; for a small network the bookkeeping of torch's optimiser would double the time."""
        return _Descent(parameter, rate)


class _Descent:
    """Gradient descent in place, with momentum μ or without; b is stored under torch's name for it."""

    def __init__(self, parameter: nn.Parameter, rate: float, momentum: float = 0.0, *, ahead: bool = False) -> None:
        self._parameter, self._momentum, self._ahead = parameter, momentum, ahead
        self.param_groups: list[dict[str, Any]] = [{"params": [parameter], "lr": rate}]
        self.state: dict[Any, dict[str, Tensor]] = {}

    def step(self) -> None:
        values, gradient, rate = self._parameter.data, self._parameter.grad, self.param_groups[0]["lr"]
        if gradient is None:
            return
        if not self._momentum:
            values.add_(gradient, alpha=-rate)
            return
        state = self.state.setdefault(self._parameter, {})
        if "momentum_buffer" in state:
            torch.add(gradient, state["momentum_buffer"], alpha=self._momentum, out=state["momentum_buffer"])
        else:
            state["momentum_buffer"] = gradient.clone()
        if self._ahead:
            values.add_(gradient, alpha=-rate).add_(state["momentum_buffer"], alpha=-rate * self._momentum)
        else:
            values.add_(state["momentum_buffer"], alpha=-rate)


class Momentum(Optimiser, name="momentum"):
    """b ← μ·b + g;  θ ← θ − η·b, with b = 0 before the first step (Polyak 1964, as torch writes it).

    Keras has v ← μ·v − η·g and θ ← θ + v: the same path while η is constant. When η changes, the new rate applies to
    all of b here, while Keras' v keeps the old rate.

    >>> Momentum(0.9).gain
    10.000000000000002
    """

    momentum: float = param(default=0.9, ge=0, lt=1, doc="μ, the share of the last direction that is kept")

    @property
    def gain(self) -> float:
        """1 / (1 − μ)."""
        return 1 / (1 - self.momentum)

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """Two additions."""
        return _Descent(parameter, rate, self.momentum)


class Nesterov(Optimiser, name="nesterov"):
    """b ← μ·b + g;  θ ← θ − η·(g + μ·b) (Nesterov 1983, in the form of Sutskever et al. 2013).

    Keras: v ← μ·v − η·g, θ ← θ + μ·v − η·g; the same while η is constant, see :class:`Momentum`.
    """

    momentum: float = param(default=0.9, gt=0, lt=1, doc="μ, the share of the last direction that is kept")

    @property
    def gain(self) -> float:
        """1 / (1 − μ)."""
        return 1 / (1 - self.momentum)

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """Three additions."""
        return _Descent(parameter, rate, self.momentum, ahead=True)


class RmsProp(Optimiser, name="rmsprop"):
    """v ← ρ·v + (1 − ρ)·g²;  θ ← θ − η·g / (√v + ε) (Tieleman & Hinton 2012).

    Keras takes the root of v + ε and ε = 10⁻⁷, torch ρ = 0.99. As v starts at 0 without correction, the first steps
    are up to 1/√(1 − ρ) times η long.
    """

    usual_rate = 0.001
    decay: float = param(default=0.9, ge=0, lt=1, doc="ρ, the memory of the squared gradient")
    epsilon: float = param(default=1e-8, gt=0, doc="ε, against division by zero; added to the root")

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """torch's RMSprop, which has no fused form."""
        return torch.optim.RMSprop([parameter], lr=rate, alpha=self.decay, eps=self.epsilon, foreach=False)


class Adam(Optimiser, name="adam"):
    """m ← β₁·m + (1 − β₁)·g;  v ← β₂·v + (1 − β₂)·g²;  θ ← θ − η·m̂ / (√v̂ + ε) (Kingma & Ba 2015, algorithm 1).

    m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ) correct for the start at zero. Keras adds its ε = 10⁻⁷ to the uncorrected √v
    (the paper's "ε-hat"), which for small gradients makes its first steps shorter.
    """

    usual_rate = 0.001
    beta1: float = param(default=0.9, ge=0, lt=1, doc="memory of the gradient")
    beta2: float = param(default=0.999, ge=0, lt=1, doc="memory of the squared gradient")
    epsilon: float = param(default=1e-8, gt=0, doc="ε, against division by zero; added to the root")

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """Fused Adam."""
        betas = (self.beta1, self.beta2)
        return torch.optim.Adam([parameter], lr=rate, betas=betas, eps=self.epsilon, fused=True)


class AdamW(Optimiser, name="adamw"):
    """θ ← θ − η·λ·θ, then the step of :class:`Adam` (Loshchilov & Hutter 2019).

    Unlike an L2 penalty the decay is not divided by √v̂. It acts on all parameters, biases and norms included, as in
    torch (λ = 0.01) and Keras (λ = 0.004, and ε as in its Adam).
    """

    usual_rate = 0.001
    decay: float = param(default=0.01, ge=0, doc="λ, the share of each weight lost per step is η·λ")
    beta1: float = param(default=0.9, ge=0, lt=1, doc="memory of the gradient")
    beta2: float = param(default=0.999, ge=0, lt=1, doc="memory of the squared gradient")
    epsilon: float = param(default=1e-8, gt=0, doc="ε, against division by zero; added to the root")

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """Fused AdamW."""
        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(
            [parameter], lr=rate, betas=betas, eps=self.epsilon, weight_decay=self.decay, fused=True
        )


class NAdam(Optimiser, name="nadam"):
    """:class:`Adam` with Nesterov's look ahead: m̂ = μ_{t+1}·m / (1 − M_{t+1}) + (1 − μ_t)·g / (1 − M_t) (Dozat 2016).

    μ_t = β₁·(1 − ½·0.96^(t·ψ)) grows from ½·β₁ to β₁, and M_t = μ_1·…·μ_t. ψ = 0.004 is Dozat's and torch's; Keras 3
    has ψ = 1, so that its μ is fully grown after about a hundred steps instead of 25,000.
    """

    usual_rate = 0.002
    beta1: float = param(default=0.9, ge=0, lt=1, doc="memory of the gradient")
    beta2: float = param(default=0.999, ge=0, lt=1, doc="memory of the squared gradient")
    epsilon: float = param(default=1e-8, gt=0, doc="ε, against division by zero; added to the root")
    growth: float = param(default=0.004, ge=0, doc="ψ, how fast μ grows (torch's momentum_decay; Keras 3: 1)")

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """torch's NAdam, which has no fused form."""
        betas = (self.beta1, self.beta2)
        return torch.optim.NAdam(
            [parameter], lr=rate, betas=betas, eps=self.epsilon, momentum_decay=self.growth, foreach=False
        )


_NEEDS_MORE = {"LBFGS": "evaluates the loss several times in a step", "SparseAdam": "takes only sparse gradients"}


class Torch(Optimiser, name="torch"):
    """Another optimiser of torch.optim, by its name there; it sees all weights as one vector.

    >>> str(Optimiser.parse("torch:Adagrad,lr=0.05,eps=1e-8"))
    'torch:Adagrad,lr=0.05,eps=1e-08'
    >>> Optimiser.parse("torch:Adagrad").usual_rate
    0.01
    """

    kind: str = param(doc="the name of a class in torch.optim: Adagrad, RAdam, ASGD …")
    lr: float | None = param(default=None, gt=0, doc="the rate, if no schedule is given; none: torch's default")
    arguments: tuple[str, ...] = param(default=(), doc="further arguments, as eps=1e-8")

    def check(self) -> None:
        """Check that the class exists and takes these arguments; numbers are stored as Python writes them."""
        kinds = {name for name, each in vars(torch.optim).items() if inspect.isclass(each) and name != "Optimizer"}
        if self.kind not in kinds:
            raise OptionError(str(UnknownName("optimiser of torch", self.kind, sorted(kinds))))
        if self.kind in _NEEDS_MORE:
            raise OptionError(f"torch:{self.kind} {_NEEDS_MORE[self.kind]}, which this training does not support")
        values = {key: quote(value) for key, value in self._values.items()}
        object.__setattr__(self, "arguments", tuple(f"{key}={value}" for key, value in values.items()))
        _made(f"torch:{self.kind}", self._function, nn.Parameter(torch.zeros(1)))

    @property
    def _values(self) -> dict[str, Any]:
        return {key: read_value(item) for text in self.arguments for key, _, item in [text.partition("=")]}

    def _function(self, parameters: list[nn.Parameter]) -> Any:
        rate = {} if self.lr is None else {"lr": self.lr}
        return getattr(torch.optim, self.kind)(parameters, **rate, **self._values)

    @property
    def usual_rate(self) -> float:  # type: ignore[override]  # here it depends on the class of torch
        """The rate given, or torch's own default."""
        return _rate_of(self._function)

    def __str__(self) -> str:
        rate = () if self.lr is None else (f"lr={quote(self.lr)}",)
        return "torch:" + ",".join((self.kind, *rate, *self.arguments))

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """torch's own class."""
        return _at(rate, _made(str(self), self._function, parameter))


@dataclasses.dataclass(frozen=True)
class OwnOptimiser:
    """An optimiser from a function of a list of parameters: ``lambda p: torch.optim.Adagrad(p, lr=0.01)``.

    It is called with one flat parameter. A run with ``out`` can resume only if the function can be identified.
    """

    function: Callable[[list[nn.Parameter]], Any]
    gain: ClassVar[float] = 1.0

    @property
    def usual_rate(self) -> float:
        """The rate that the function gives its optimiser."""
        return _rate_of(self.function)

    def build(self, parameter: nn.Parameter, rate: float) -> Updater:
        """The optimiser that the function gives."""
        return _at(rate, _made("the function", self.function, parameter))

    def __str__(self) -> str:
        return identity_of(self.function)


def read_optimiser(given: Any) -> Optimiser | OwnOptimiser:
    """The optimiser for an object, text or a function."""
    if isinstance(given, OwnOptimiser):
        return given
    if isinstance(given, torch.optim.Optimizer):
        kind = type(given).__name__
        raise UsageError(
            f"optimiser: a {kind} is bound to other weights; give a function: lambda p: torch.optim.{kind}(p)"
        )
    if callable(given) and not isinstance(given, Optimiser):
        made = OwnOptimiser(given)
        _ = made.usual_rate  # refuses a function that gives no optimiser
        return made
    return Optimiser.of(given)


def _made(name: str, function: Callable[[list[nn.Parameter]], Any], parameter: nn.Parameter) -> Updater:
    """The optimiser that ``function`` gives for one flat parameter; one that cannot take it is refused."""
    try:
        made = function([parameter])
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        hint = "; torch calls the learning rate lr" if "'rate'" in first else ""
        raise UsageError(f"optimiser: {name} cannot be made for a vector of weights ({first}){hint}") from error
    groups = getattr(made, "param_groups", None)
    if not isinstance(made, torch.optim.Optimizer) or not groups or "lr" not in groups[0]:
        raise UsageError(f"optimiser: {name} gives a {type(made).__name__}, not an optimiser of torch with a rate")
    if type(made).__name__ in _NEEDS_MORE:
        raise UsageError(f"optimiser: {type(made).__name__} {_NEEDS_MORE[type(made).__name__]}; take another")
    return made


def _at(rate: float, made: Updater) -> Updater:
    made.param_groups[0]["lr"] = rate
    return made


def _rate_of(function: Callable[[list[nn.Parameter]], Any]) -> float:
    made = _made("the function", function, nn.Parameter(torch.zeros(1)))
    return float(made.param_groups[0]["lr"])
