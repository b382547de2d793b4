"""How far a cut network is from the original one.

A cut is checked against the masked network. In both, a constant that replaces a unit acts at every position, also in
the zero padding of a reader, where the unit itself had no value. So the outputs are also compared with those of the
original network, and with those of a masked one whose padding stays zero: the latter difference is due to the border.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from weightsmith.core.records import Record
from weightsmith.reducing.decisions import Choice
from weightsmith.reducing.surgery.masking import masked
from weightsmith.reducing.surgery.sites import Site

__all__ = ["Fidelity", "fidelity_of"]

_ROUNDING = 1e-4  # share of the spread of the outputs below which a difference is rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Fidelity(Record):
    """The largest distance of outputs from those of the original network, on the rows that check a cut.

    ``spread`` is the distance of the original outputs from their mean over the rows. ``border`` is the part of ``cut``
    that comes from constants in zero padding; ``refitted`` is the distance after the refit, if there was one.
    """

    spread: float
    cut: float
    border: float
    refitted: float | None

    @property
    def notes(self) -> tuple[str, ...]:
        """A note on the effect of constants at borders, if it is more than rounding."""
        if self.border <= _ROUNDING * self.spread:
            return ()
        rest = "" if self.refitted is None else f"; after the refit they are {self.refitted:.2g} from the original"
        return (
            "constants that replace units reach into the zero padding of the layers that read them: outputs change by "
            f"up to {self.border:.2g} (they vary by {self.spread:.2g}){rest}",
        )


@torch.no_grad()
def fidelity_of(
    original: nn.Module,
    unfitted: nn.Module | None,
    network: nn.Module,
    *,
    masks: tuple[Sequence[Site], Sequence[Choice]],
    x: Tensor,
) -> Fidelity:
    """Compare ``network``, refitted from ``unfitted`` (None: not refitted), with the original it was cut from."""
    with masked(original, *masks, borders=True):
        exact = original(x.clone())  # a module may change its input in place
    expected, given = original(x.clone()), network(x.clone())
    cut = given if unfitted is None else unfitted(x.clone())
    return Fidelity(
        spread=float((expected - expected.mean(dim=0)).abs().max()),
        cut=float((cut - expected).abs().max()),
        border=float((cut - exact).abs().max()),
        refitted=None if unfitted is None else float((given - expected).abs().max()),
    )
