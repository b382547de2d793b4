"""First-order Taylor expansion of the loss: its change if a unit were 0 (Molchanov et al. 2017).

    score(u) = mean over rows of | Σ_readers Σ_positions h_u · ∂L/∂h_u |

with h the units as their readers receive them, the derivative through that reader only (not through a residual stream
beside it), and L the cross entropy with the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.options import param
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.criteria.plain import given_counts, smallest
from weightsmith.reducing.decisions import Decision
from weightsmith.reducing.surgery.masking import unit_axis
from weightsmith.training.losses import usual_loss

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext
    from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["Taylor", "taylor_scores"]


class Taylor(Method, name="taylor"):
    """Removes the units whose absence changes the loss least, by its first derivative; needs labels."""

    rows: int = param(default=1000, ge=1, doc="labelled training rows, evenly spaced")

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Remove the units of smallest score of each site, down to its count."""
        given = given_counts(counts, self)
        scores = taylor_scores(context, self.rows)
        return Decision(tuple(smallest(site, scores[site.name], given, "taylor") for site in context.sites))


def taylor_scores(context: PruningContext, rows: int) -> dict[str, NDArray[np.float64]]:
    """The score of every unit of every site."""
    chosen = torch.linspace(0, len(context.x) - 1, min(rows, len(context.x))).long()
    x, y = context.x[chosen], context.y[chosen]
    totals = {site.name: np.zeros(site.units) for site in context.sites}
    seen: list[tuple[Site, Port, int, Tensor]] = []

    def watching(site: Site, port: Port) -> Callable[[nn.Module, Any], tuple[Tensor, ...]]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            own = inputs[0].view_as(inputs[0])
            seen.append((site, port, unit_axis(module, own), own))
            return (own, *inputs[1:])

        return hook

    batches = context.batches(x)
    handles = [
        context.network.get_submodule(port.layer).register_forward_pre_hook(watching(site, port))
        for site in context.sites
        for port in site.readers
    ]
    try:
        for done, inputs in batches:
            seen.clear()
            labels = y[done - len(inputs) : done].to(inputs.device)
            with torch.inference_mode(False), torch.enable_grad():
                leaf = inputs.clone().requires_grad_(inputs.is_floating_point())
                loss = usual_loss(labels).rows(context.network(leaf), labels).sum()
                slopes = torch.autograd.grad(loss, [value for *_, value in seen])
            effects = {site.name: np.zeros((len(inputs), site.units)) for site in context.sites}
            for (site, port, axis, value), slope in zip(seen, slopes, strict=True):
                effect = (value.detach() * slope).movedim(axis, -1)[..., torch.from_numpy(port.indices)]
                each = effect.reshape(len(value), -1, *port.indices.shape).sum(dim=(1, 3))
                effects[site.name] += each.double().cpu().numpy()
            for name, found in effects.items():
                totals[name] += np.abs(found).sum(axis=0)
    finally:
        for handle in handles:
            handle.remove()
    return {name: total / len(x) for name, total in totals.items()}
