"""Schedules that are formulas: of the step alone (constant, power, exponential, piecewise) or of the run's length too.

The steps t count from 0. With ``per="epoch"`` t is the number of whole epochs done, and so are the lengths beside it.
"""

from __future__ import annotations

import bisect
import math

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.training.schedules._base import Per, Schedule, Span, count
from weightsmith.training.watching import FRESH, Watch

__all__ = ["Constant", "Cosine", "Exponential", "OneCycle", "Piecewise", "Power"]


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
        """Check that there is a bound between each two rates, in rising order."""
        if len(self.bounds) != len(self.rates) - 1:
            between = len(self.rates) - 1
            raise OptionError(f"piecewise: {between + 1} rates need {between} bounds, not {len(self.bounds)}")
        if any(later <= earlier for earlier, later in zip(self.bounds, self.bounds[1:], strict=False)):
            raise OptionError(f"piecewise: bounds must rise, not {list(self.bounds)}")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The rate between the bounds around t."""
        return self.rates[bisect.bisect_right(self.bounds, count(step, span, self.per))]


# Schedules shaped to the length of the run: down along a cosine, or up and down once.


class Cosine(Schedule, name="cosine"):
    """Half a cosine: η(t) = η_min + ½ (η0 − η_min)(1 + cos(π t/T)) (Loshchilov & Hutter 2017, eq. 5, no restarts).

    η0 is ``rate``, η_min ``least``, T the run or, if given, ``over``. So the rate reaches η_min when T steps are
    *done*; the last step has a larger rate. Up to there it is torch's ``CosineAnnealingLR(T_max=T)`` and Keras'
    ``CosineDecay``; after T it stays at η_min as in Keras, while torch's rises again.

    >>> [round(Cosine(0.1).at(t, Span(steps=10, epochs=10)), 4) for t in (0, 25, 50, 75)]
    [0.1, 0.0854, 0.05, 0.0146]
    """

    rate: float = param(gt=0, lt=math.inf, doc="η0, the rate of the first step")
    least: float = param(default=0.0, ge=0, doc="η_min, where it ends")
    over: int | None = param(default=None, ge=1, doc="T in steps (or epochs); none: the whole run")
    per: Per = param(default="step", doc="what t and T count")

    def check(self) -> None:
        """Check that the end lies below the start."""
        if self.least >= self.rate:
            raise OptionError(f"cosine: least must be < rate, but {self.least:g} is not below {self.rate:g}")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """η_min + (η0 − η_min) cos²(π t/2T), the same without the cancellation in 1 + cos near the end."""
        length = self.over or span.length(self.per)
        done = count(step, span, self.per) / length
        if done >= 1:
            return self.least
        return self.least + (self.rate - self.least) * math.cos(math.pi / 2 * done) ** 2


class OneCycle(Schedule, name="one-cycle"):
    """One cycle: up from ``start``·η to the peak η along half a cosine, then down to ``end``·η along another.

    For the steps t of a cycle of T, with t1 = ``warm``·T − 1 (Smith & Topin 2018, as in torch's ``OneCycleLR``):
    η(t) = η · mix(start, 1, t/t1) up to t1, then η · mix(1, end, (t − t1)/(T − 1 − t1)), where
    mix(a, b, x) = b + ½ (a − b)(1 + cos(π x)). η is ``rate``, T the run or, if given, ``over`` steps. The last step of
    the cycle has the rate end·η, and it stays there.

    The defaults are torch's (``div_factor=25``, ``final_div_factor=1e4``, ``pct_start=0.3``); only the rate is
    cycled, not the momentum (torch: ``cycle_momentum=False``). A rise of less than a step is skipped, so a very short
    run starts at the peak.

    >>> [round(OneCycle(0.1).at(t, Span(steps=10, epochs=10)), 7) for t in (0, 29, 60, 99)]
    [0.004, 0.1, 0.058928, 4e-07]
    """

    rate: float = param(gt=0, lt=math.inf, doc="η, the rate at the peak")
    start: float = param(default=0.04, gt=0, le=1, doc="rate of the first step, as a share of the peak")
    warm: float = param(default=0.3, ge=0, lt=1, doc="share of the cycle in which the rate rises")
    end: float = param(default=4e-6, gt=0, le=1, doc="rate of the last step, as a share of the peak")
    over: int | None = param(default=None, ge=2, doc="T in steps; none: the whole run")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The rate on its way up or down."""
        last = (self.over or span.total) - 1
        top = max(0.0, self.warm * (last + 1) - 1)
        step = min(step, last)
        if step < top:
            return self.rate * _mix(self.start, 1.0, step / top)
        return self.rate * (_mix(1.0, self.end, (step - top) / (last - top)) if last > top else 1.0)


def _mix(first: float, second: float, share: float) -> float:
    """From ``first`` at share 0 to ``second`` at share 1 along half a cosine."""
    return second + (first - second) * math.cos(math.pi / 2 * share) ** 2
