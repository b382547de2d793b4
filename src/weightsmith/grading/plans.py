"""Layer-wise keep ratios from α, as a :class:`LayerPlan`."""

from __future__ import annotations

import math

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.grading.results import Grades
from weightsmith.networks.layer_plan import LayerPlan

__all__ = ["alpha_plan"]


def alpha_plan(grades: Grades, keep: float = 0.5, *, spread: float = 0.3) -> LayerPlan:
    """Layers with a small α keep more, by the linear map of :mod:`weightsmith.networks.layer_plan` with score −α.

        rᵢ = keep · (1 − τ + 2τ · (α_max − αᵢ)/(α_max − α_min)),    then one factor, so that Σ pᵢkᵢ / Σ pᵢ = keep

    with τ the ``spread`` and pᵢ the parameters of layer i. The idea is AlphaPruning's (Lu et al., NeurIPS 2024): a
    heavy tail, small α, marks a layer that has learnt much and should lose least. That paper maps the share *removed*,
    from (1 − τ) to (1 + τ) times its target, and averages α over the layers of a transformer block; here the share
    *kept* is mapped, and every layer has its own α. Slices of one layer count with their mean α.

    A layer without a fit keeps ``keep`` and is named in ``unscored``. One α far above the others makes the ratios of
    the others nearly equal. α alone is a doubtful guide: compare with
    :func:`weightsmith.networks.layer_plan.norm_plan` and :meth:`LayerPlan.uniform`.
    """
    if not isinstance(grades, Grades):
        raise UsageError(f"alpha_plan takes grades, not a {type(grades).__name__}: call ws.grade(network) first")
    alphas: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    for layer in grades.layers:
        alphas.setdefault(layer.name, []).extend([] if layer.alpha is None else [layer.alpha])
        sizes[layer.name] = sizes.get(layer.name, 0) + layer.parameters
    scores = {name: -math.fsum(found) / len(found) if found else None for name, found in alphas.items()}
    return LayerPlan.from_scores(
        scores,
        sizes,
        keep=keep,
        spread=spread,
        source=f"alpha ({grades.settings.get('cut', 'ks')}), spread {spread:g}",
        origin=Origin(seed=grades.origin.seed, inputs=grades.origin.inputs),
    )
