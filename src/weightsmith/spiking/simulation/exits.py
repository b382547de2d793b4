"""Early exit: the margin rule."""

from __future__ import annotations

from weightsmith.core.options import Option, param

__all__ = ["Exit", "Margin"]


class Exit(Option, family="exit"):
    """The family of rules for an early end: ``margin``."""


class Margin(Exit, name="margin"):
    """An image ends once the best class leads the second by ``errors`` standard errors.

    With o(t) the outputs of step t and s their sums, the lead s₁ − s₂ is compared with the spread of the steps seen:

        s₁ − s₂ ≥ errors · sqrt(q₁ + q₂),        q_c = Σ_t o_c(t)² − s_c²/t

    which has no unit: it is the t statistic of the lead, with the outputs of two classes taken as independent.
    """

    errors: float = param(gt=0, doc="standard errors by which the best class must lead")
    least: int = param(default=8, ge=2, doc="least steps per image; one step has no spread")
