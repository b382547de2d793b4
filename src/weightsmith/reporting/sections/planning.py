"""Plans of how much of each layer to keep, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.reporting.parts import Column, Shown, Table
from weightsmith.reporting.sections._wording import percent

__all__ = ["plan_table"]


def plan_table(plans: Mapping[str, LayerPlan], files: Mapping[str, Path]) -> Table:
    """The share of each layer that each plan keeps, and the ``files`` the plans were written to."""
    sizes = next(iter(plans.values())).parameters
    columns = (
        Column("layer"),
        Column("parameters", numeric=True),
        *(Column(rule, numeric=True) for rule in plans),
        Column("remark"),
    )
    rows = [
        (
            name,
            size,
            *(Shown(plan.values[name], percent(plan.values[name])) for plan in plans.values()),
            ", ".join(f"no {rule}" for rule, plan in plans.items() if name in plan.unscored) or None,
        )
        for name, size in sizes.items()
    ]
    means = (Shown(plan.mean, percent(plan.mean)) for plan in plans.values())
    rows.append(("all", sum(sizes.values()), *means, None))
    caption = "; ".join(f"{rule}: {files[rule]} ({plan.source})" for rule, plan in plans.items())
    return Table("What the plans keep", columns, tuple(rows), f"{caption}.", file="plans")
