"""Options for the refit of the layers that read removed units.

>>> str(Refit.parse("least-squares:ridge=1e-3")), str(Refit.parse("none"))
('least-squares:ridge=0.001', 'none')
"""

from __future__ import annotations

from weightsmith.core.options import Option, param

__all__ = ["LeastSquares", "NoRefit", "Refit"]


class Refit(Option, family="refit"):
    """How the layers that read removed units are refitted: ``least-squares`` or ``none``."""


class LeastSquares(Refit, name="least-squares"):
    """Fit the reading layers by least squares, one after another, to the outputs they had in the original network.

    Needs neither labels nor training: inputs come from the cut network, targets from the original one.
    """

    ridge: float = param(default=1e-4, gt=0, lt=1, doc="penalty on the change, as a share of the mean square of inputs")


class NoRefit(Refit, name="none"):
    """Leave the reading layers as the cut made them."""
