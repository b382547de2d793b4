"""Integrate-and-fire neuron models.

At every step, for a current I, threshold θ and leak β (the factor per step; 1 leaks nothing):

    v ← β·v + I          spike where v > θ          soft reset v ← v − θ,   hard reset v ← 0

With ``delay`` the spike is decided on the membrane of the previous step, as in the code base behind the L4-norm
paper (seed 000; Rathi et al. 2020), and the amount subtracted is not leaked: v ← β·v + I − θ·spike (hard: v ← β·v·(1 −
spike) + I). Every layer then answers one step later.

>>> Neuron.parse("lif:0.95,reset=hard")
LIF(leak=0.95, reset='hard', delay=False)
>>> Neuron.parse("if:signed=true"), Neuron.parse("graded:5").payload_bits
(IF(reset='soft', delay=False, signed=True), 4)
"""

from __future__ import annotations

from typing import Literal

from weightsmith.core.errors import OptionError
from weightsmith.core.options import Option, param

__all__ = ["IF", "LIF", "AnyNeuron", "Devices", "Event", "Graded", "Mismatch", "Neuron", "Precision"]

Precision = Literal["float32", "float64", "int8"]
"""The number formats of a simulation."""

Event = Literal["spike", "signed", "graded"]
"""What a neuron sends: 1; +1 or −1; or a power of two with a sign, which shifts the weights that read it."""


class Neuron(Option, family="neuron"):
    """The family of neurons: ``if`` (integrate and fire), ``lif`` (leaky) and ``graded`` (spikes of several sizes).

    ``largest`` is the size of the largest spike, counted in the smallest: 1 where all spikes have one size.
    ``payload_bits`` are the bits that an event carries besides its address.
    """

    @property
    def largest(self) -> int:
        """Size of the largest spike in units of the smallest."""
        return 1

    @property
    def payload_bits(self) -> int:
        """Bits that an event carries besides its address."""
        return 0

    @property
    def event(self) -> Event:
        """The kind of its events, by which they are priced."""
        return "spike"

    def levels(self, steps: int) -> int:
        """The number of values a neuron can represent in ``steps`` steps, as the levels of a quantised activation."""
        return steps * self.largest + 1


class IF(Neuron, name="if"):
    """Integrate and fire, without leak.

    With ``signed`` a neuron that has fired more than its input warrants takes a spike back (Wang et al., "Signed neuron
    with memory", IJCAI 2022). With n the sum of the spikes so far, 0 at the start:

        v ← v + I        s = +1 where v > θ,   −1 where v < 0 and n > 0,   else 0        v ← v − s·θ,   n ← n + s

    n is never negative, so that the zero of a ReLU is kept: without the memory n a neuron whose input is negative
    would send negative spikes.
    """

    reset: Literal["soft", "hard"] = param(default="soft", doc="soft takes the threshold away, hard sets to zero")
    delay: bool = param(default=False, doc="fire one step later, as the L4 paper's code base does")
    signed: bool = param(default=False, doc="a surplus spike is taken back by a spike −1; soft reset only")

    def check(self) -> None:
        """A spike can be taken back only if the reset subtracts the threshold in the same step."""
        if self.signed and (self.reset == "hard" or self.delay):
            wrong = "reset=hard" if self.reset == "hard" else "delay=true"
            raise OptionError(
                f"if: signed=true needs a soft reset without delay, not {wrong}; leave one of the two out"
            )

    @property
    def leak(self) -> float:
        """The factor per step: 1."""
        return 1.0

    @property
    def payload_bits(self) -> int:
        """One bit for the sign of signed spikes."""
        return int(self.signed)

    @property
    def event(self) -> Event:
        """A spike, which may be taken back."""
        return "signed" if self.signed else "spike"


class LIF(Neuron, name="lif"):
    """Leaky integrate and fire: the membrane is multiplied by ``leak`` at every step."""

    leak: float = param(gt=0, le=1, doc="factor per step; 1 leaks nothing")
    reset: Literal["soft", "hard"] = param(default="soft", doc="soft takes the threshold away, hard sets to zero")
    delay: bool = param(default=False, doc="fire one step later, as the L4 paper's code base does")

    @property
    def signed(self) -> bool:
        """Leaky neurons take no spike back."""
        return False


class Graded(Neuron, name="graded"):
    """Spikes of K sizes, each half of the one before, for hardware whose spikes carry a payload.

    A neuron sums its inputs and sends the difference between the ReLU of that sum and the total it has sent so far,
    rounded to the nearest size. With z the sum (biases and constant inputs come once, at the first step, not at every
    step) and m the sum of the spikes sent, in units of the smallest size θ·2^−(K−1):

        u = max(z, 0)/θ · 2^(K−1) − m
        silent where |u| < ½, else a spike sign(u)·2^j,  j = min(K − 1, max(0, ⌊log₂(|u|/0.75)⌋)),        m ← m + spike

    (1.5·2^j lies halfway between two sizes). The activation is the sum of the spikes sent so far, not their rate.
    Adding a spike to a membrane is a shift and an addition.
    """

    sizes: int = param(ge=1, le=7, doc="number of sizes of a spike; 5 suffice for deep networks, 3 do not")

    @property
    def leak(self) -> float:
        """The factor per step: 1."""
        return 1.0

    @property
    def reset(self) -> Literal["soft", "hard"]:
        """The spike sent is subtracted."""
        return "soft"

    @property
    def delay(self) -> bool:
        """A neuron answers within the step."""
        return False

    @property
    def signed(self) -> bool:
        """A surplus is taken back."""
        return True

    @property
    def largest(self) -> int:
        """2^(K−1)."""
        return 1 << (self.sizes - 1)

    @property
    def event(self) -> Event:
        """A power of two."""
        return "graded"

    @property
    def payload_bits(self) -> int:
        """Bits for the index of the size, and one for the sign."""
        return (self.sizes - 1).bit_length() + 1


AnyNeuron = IF | LIF | Graded


class Devices(Option, family="devices"):
    """The family of device imperfections: ``mismatch``."""


class Mismatch(Devices, name="mismatch"):
    """Device variability: the threshold and leak of every neuron are drawn around their nominal values.

    Thresholds are multiplied by a lognormal factor of median 1; time constants (1 − leak) by another one, so that a
    leak stays between 0 and 1 and a neuron that does not leak still does not.
    """

    threshold: float = param(default=0.0, ge=0, le=1, doc="spread (standard deviation of the logarithm)")
    leak: float = param(default=0.0, ge=0, le=1, doc="spread of 1 − leak (standard deviation of the logarithm)")
