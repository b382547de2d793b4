"""Schedules that are formulas of the step alone: constant, power, exponential, piecewise.

The steps t count from 0. With ``per="epoch"`` t is the number of whole epochs done, and so are the lengths beside it.
"""

from __future__ import annotations

import bisect
import math

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.training._schedule import Per, Schedule, Span, count
from weightsmith.training.watching import FRESH, Watch

__all__ = ["Constant", "Exponential", "Piecewise", "Power"]


class Constant(Schedule, name="constant"):
    """η(t) = η0.

    η0 is ``rate``.

    >>> Constant(0.1).at(7, Span(steps=10, epochs=1))
    0.1
    """

    rate: float = param(gt=0, lt=math.inf, doc="η0")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The rate itself."""
        return self.rate


class Power(Schedule, name="power"):
    """Power scheduling: η(t) = η0 / (1 + t/s)^c (seed 002, eq. 1).

    η0 is ``rate``, the rate of the first step; after ``s`` steps it is η0/2^c, after 2s η0/3^c: from one multiple of s
    to the next it falls by (1 − 1/(k+2))^c (eq. 2), less and less. With c = 1 it is Keras' ``InverseTimeDecay``.

    >>> [round(Power(0.1, s=20).at(t, Span(steps=10, epochs=10)), 4) for t in (0, 20, 40)]
    [0.1, 0.05, 0.0333]
    >>> Power(0.1, s=2, per="epoch").at(45, Span(steps=10, epochs=10))  # four epochs are done
    0.03333333333333333
    """

    rate: float = param(gt=0, lt=math.inf, doc="η0, the rate of the first step")
    s: float = param(gt=0, lt=math.inf, doc="steps (or epochs) until the rate is η0/2^c")
    c: float = param(default=1.0, ge=0, lt=math.inf, doc="the power")
    per: Per = param(default="step", doc="what t and s count")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """η0 / (1 + t/s)^c."""
        return self.rate * math.pow(1 + count(step, span, self.per) / self.s, -self.c)  # −c: fades, never overflows


class Exponential(Schedule, name="exponential"):
    """Exponential scheduling: η(t) = η0 · 0.1^(t/s) (seed 002, eq. 3).

    η0 is ``rate``, the rate of the first step; every ``s`` steps it falls to a tenth, evenly. (In the printed eq. 4
    the exponents should be k+1 and k, not (k+1)/s and k/s; its result, 0.1 per s steps, is right.)

    >>> [round(Exponential(0.1, s=20).at(t, Span(steps=10, epochs=10)), 4) for t in (0, 10, 20, 40)]
    [0.1, 0.0316, 0.01, 0.001]
    """

    rate: float = param(gt=0, lt=math.inf, doc="η0, the rate of the first step")
    s: float = param(gt=0, lt=math.inf, doc="steps (or epochs) in which the rate falls to a tenth")
    per: Per = param(default="step", doc="what t and s count")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """η0 · 0.1^(t/s)."""
        return self.rate * math.pow(0.1, count(step, span, self.per) / self.s)


class Piecewise(Schedule, name="piecewise"):
    """η(t) = r_i for b_{i−1} ≤ t < b_i.

    r are the ``rates``, b the ``bounds`` between them, one fewer, with b_{−1} = 0 and the last rate kept to the end.
    The step t = b_i has the later rate already, as in torch's ``MultiStepLR``; Keras' ``PiecewiseConstantDecay``
    changes one step later.

    >>> schedule = Piecewise((0.1, 0.01), bounds=(20,))
    >>> [schedule.at(t, Span(steps=10, epochs=10)) for t in (0, 19, 20)]
    [0.1, 0.1, 0.01]
    >>> str(schedule)
    'piecewise:0.1,0.01,bounds=[20]'
    """

    rates: tuple[float, ...] = param(gt=0, lt=math.inf, min_length=2, doc="the rates in order")
    bounds: tuple[int, ...] = param(ge=1, min_length=1, doc="steps (or epochs) at which the next rate begins")
    per: Per = param(default="step", doc="what t and the bounds count")

    def check(self) -> None:
        """One bound between two rates each, in rising order."""
        if len(self.bounds) != len(self.rates) - 1:
            between = len(self.rates) - 1
            raise OptionError(f"piecewise: {between + 1} rates need {between} bounds, not {len(self.bounds)}")
        if any(later <= earlier for earlier, later in zip(self.bounds, self.bounds[1:], strict=False)):
            raise OptionError(f"piecewise: bounds must rise, not {list(self.bounds)}")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The rate between the bounds around t."""
        return self.rates[bisect.bisect_right(self.bounds, count(step, span, self.per))]
