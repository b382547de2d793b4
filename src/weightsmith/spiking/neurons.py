"""Integrate-and-fire neuron models.

At every step, for a current I, threshold θ and leak β (the factor per step; 1 leaks nothing):

    v ← β·v + I          spike where v > θ          soft reset v ← v − θ,   hard reset v ← 0

With ``delay`` the spike is decided on the membrane that the step before left, as in the code base behind the L4-norm
paper (seed 000; Rathi et al. 2020), and what is taken away is not leaked: v ← β·v + I − θ·spike (hard: v ← β·v·(1 −
spike) + I). Every layer then answers one step later.

>>> Neuron.parse("lif:0.95,reset=hard")
LIF(leak=0.95, reset='hard', delay=False)
>>> IF().leak
1.0
"""

from __future__ import annotations

from typing import Literal

from weightsmith.core.options import Option, param

__all__ = ["IF", "LIF", "Devices", "Event", "Mismatch", "Neuron", "Precision"]

Precision = Literal["float32", "float64", "int8"]
"""The numbers that neurons are computed with."""

Event = Literal["spike", "signed", "graded"]
"""What a neuron sends: 1; +1 or −1; or a power of two with a sign, which shifts the weights that read it."""


class Neuron(Option, family="neuron"):
    """The family of neurons: ``if`` (integrate and fire) and ``lif`` (leaky)."""

    @property
    def event(self) -> Event:
        """The kind of its events, by which they are priced."""
        return "spike"

    def levels(self, steps: int) -> int:
        """How many values a neuron can tell in ``steps`` steps: so many levels a quantised activation needs."""
        return steps + 1


class IF(Neuron, name="if"):
    """Integrate and fire: nothing leaks."""

    reset: Literal["soft", "hard"] = param(default="soft", doc="soft takes the threshold away, hard sets to zero")
    delay: bool = param(default=False, doc="fire one step later, as the L4 paper's code base does")

    @property
    def leak(self) -> float:
        """The factor per step: 1."""
        return 1.0


class LIF(Neuron, name="lif"):
    """Leaky integrate and fire: the membrane is multiplied by ``leak`` at every step."""

    leak: float = param(gt=0, le=1, doc="factor per step; 1 leaks nothing")
    reset: Literal["soft", "hard"] = param(default="soft", doc="soft takes the threshold away, hard sets to zero")
    delay: bool = param(default=False, doc="fire one step later, as the L4 paper's code base does")


class Devices(Option, family="devices"):
    """The family of what real devices do: ``mismatch``."""


class Mismatch(Devices, name="mismatch"):
    """Devices differ: every neuron's threshold and leak are drawn around what they should be.

    Thresholds are multiplied by a lognormal factor of median 1; time constants (1 − leak) by another one, so that a
    leak stays between 0 and 1 and a neuron that does not leak still does not.
    """

    threshold: float = param(default=0.0, ge=0, le=1, doc="spread (standard deviation of the logarithm)")
    leak: float = param(default=0.0, ge=0, le=1, doc="spread of 1 − leak (standard deviation of the logarithm)")
