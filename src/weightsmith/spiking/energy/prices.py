"""Prices of operations in picojoules, all from one table, :data:`PICOJOULES`.

Additions, multiplications and memory are those of M. Horowitz, "Computing's energy problem (and what we can do about
it)", ISSCC 2014, fig. 1.1.9: 45 nm, 0.9 V. Shifts are those of H. You et al., "ShiftAddNet: a hardware-inspired deep
network", NeurIPS 2020, table 1: 45 nm as well. From them, for each number format:

                 float32                        int8
    accumulate   add                            32-bit add: weights have 8 bits, membranes 32
    multiply     multiply + add                 8-bit multiply + 8-bit add, the usual price of an int8 MAC
    leak         multiply + add                 32-bit multiply + add: membranes have 32 bits
    shift        8-bit add, to the exponent     16-bit shift: a weight of 8 bits moved by at most 8 places
    doubling     8-bit add, to the exponent     32-bit shift, of a sum
    draw         32-bit xorshift (Marsaglia 2003: 3 shifts, 3 exclusive ors, each priced as an add) and a comparison

An event of a graded neuron is a shift of the weight and an accumulate. Where the events of a step arrive by size, the
largest first, sums can be shifted instead, as in Horner's rule: s ← 2s + Σ w over the events of a size, then z ← z + s.
Then an event is an accumulate, and each neuron takes K − 1 shifts of 32 bits and an accumulate more per step
(``shifts="sums"``). A multiplier builds a partial product for each bit of an
operand, so a MAC of an 8-bit weight with an activation of b bits is priced at b/8 of the 8-bit multiply plus the
8-bit add (:func:`mac_price`). The table has no 64-bit arithmetic: float64 runs are priced as float32.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from weightsmith.core.options import Option, param

__all__ = ["FLOAT_MAC", "PICOJOULES", "PriceList", "Prices", "mac_price"]

PICOJOULES = {
    "float32 add": 0.9,
    "float32 multiply": 3.7,
    "int8 add": 0.03,
    "int8 multiply": 0.2,
    "int32 add": 0.1,
    "int32 multiply": 3.1,
    "int16 shift": 0.057,
    "int32 shift": 0.13,
}
"""Picojoules of single operations in 45 nm; shifts from You et al. 2020, the rest from Horowitz 2014."""

Numbers = Literal["float32", "int8"]
Shifts = Literal["weights", "sums"]


class _Row(NamedTuple):
    accumulate: float
    multiply: float
    leak: float
    shift: float
    draw: float
    doubling: float


def _rows() -> dict[Numbers, _Row]:
    one = PICOJOULES
    draw = 3 * (one["int32 shift"] + one["int32 add"]) + one["int32 add"]
    float_mac = one["float32 multiply"] + one["float32 add"]
    return {
        "float32": _rounded(one["float32 add"], float_mac, float_mac, one["int8 add"], draw, one["int8 add"]),
        "int8": _rounded(
            one["int32 add"],
            mac_price(8),
            one["int32 multiply"] + one["int32 add"],
            one["int16 shift"],
            draw,
            one["int32 shift"],
        ),
    }


def _rounded(*prices: float) -> _Row:
    """Prices without the rounding errors of binary sums."""
    return _Row(*(round(price, 6) for price in prices))


def mac_price(bits: int) -> float:
    """Picojoules for a multiply–accumulate of an 8-bit weight and an activation of ``bits`` bits.

    >>> mac_price(8), mac_price(4)
    (0.23, 0.13)
    """
    return round(PICOJOULES["int8 multiply"] * bits / 8 + PICOJOULES["int8 add"], 6)


_ROWS = _rows()
FLOAT_MAC = _ROWS["float32"].multiply
"""Picojoules for a multiply–accumulate in float32."""


class PriceList(Option, family="prices"):
    """The family of prices of operations: ``picojoule``."""


class Prices(PriceList, name="picojoule"):
    """Picojoules for each operation; missing ones are taken from the table for the number format of the run.

    >>> str(Prices(0.1, 3.2)), PriceList.parse("picojoule:numbers=int8").mac
    ('picojoule:accumulate=0.1,multiply=3.2', 0.23)
    >>> Prices(neurons=False).of_run("int8")
    Prices(accumulate=0.1, multiply=0.23, neurons=False, numbers='int8', leak=3.2, shift=0.057, draw=0.79,
           doubling=0.13, shifts='weights')
    """

    accumulate: float | None = param(default=None, ge=0, doc="picojoules for an addition")
    multiply: float | None = param(default=None, gt=0, doc="picojoules for a multiplication with its addition")
    neurons: bool = param(
        default=True, doc="count neurons too: an addition each per step, or a multiplication if they leak"
    )
    numbers: Numbers | None = param(
        default=None, doc="number format whose prices are the defaults; none: that of the run"
    )
    leak: float | None = param(
        default=None,
        ge=0,
        doc="picojoules for the update of a leaky neuron; none: the price of a multiplication, if given",
    )
    shift: float | None = param(default=None, ge=0, doc="picojoules for the shift of a weight by a graded event")
    draw: float | None = param(default=None, ge=0, doc="picojoules for a random draw of poisson input")
    doubling: float | None = param(default=None, ge=0, doc="picojoules for the shift of a sum by one place")
    shifts: Shifts = param(
        default="weights", doc="what graded events shift: the weight of each, or sums, once for each size of a step"
    )

    def of_run(self, precision: str) -> Prices:
        """All prices filled in, for a run with this ``precision``."""
        known = self.numbers
        if self.accumulate is None or self.multiply is None:
            known = known or ("int8" if precision == "int8" else "float32")
        chosen = dataclasses.replace(self, numbers=known)
        filled = {name: chosen._price(name) for name in _Row._fields}
        return Prices(neurons=self.neurons, numbers=known, shifts=self.shifts, **filled)

    @property
    def ac(self) -> float:
        """Picojoules for an accumulate (AC)."""
        return self._price("accumulate")

    @property
    def mac(self) -> float:
        """Picojoules for a multiply–accumulate (MAC)."""
        return self._price("multiply")

    @property
    def leak_update(self) -> float:
        """Picojoules for the update of a leaky neuron."""
        return self._price("leak")

    @property
    def graded_ac(self) -> float:
        """Picojoules for a graded event at one unit: an accumulate and, unless sums are shifted, a shift."""
        return self.ac if self.shifts == "sums" else self._price("shift") + self.ac

    def graded_sum(self, sizes: int) -> float:
        """Picojoules per step for a unit that adds up graded events of so many sizes, besides the events."""
        return (sizes - 1) * self._price("doubling") + self.ac if self.shifts == "sums" else 0.0

    @property
    def random_draw(self) -> float:
        """Picojoules for a random draw of Poisson input."""
        return self._price("draw")

    def _price(self, name: str) -> float:
        given: float | None = getattr(self, name)
        if given is None and name == "leak":
            given = self.multiply  # a given price of multiplications applies to leaks too
        return float(getattr(_ROWS[self.numbers or "float32"], name)) if given is None else given
