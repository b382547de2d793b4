"""How a target is shared out among the sites: by measured error, evenly, by norm, or by a plan of the user."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.layer_plan import LayerPlan, norm_plan
from weightsmith.reducing.budget import BudgetRecord, measured_budget
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.rounds import Task
from weightsmith.reducing.subject import Subject
from weightsmith.reducing.surgery.sites import Site
from weightsmith.reducing.surgery.sizes import SizeModel, Target, shares_by_plan

__all__ = ["Planned", "planned_task"]


@dataclasses.dataclass(frozen=True)
class Planned:
    """The task with its shares or its budget, where these come from, and notes."""

    task: Task
    source: str | None
    notes: tuple[str, ...] = ()
    record: BudgetRecord | None = None


def planned_task(subject: Subject, plan: LayerPlan | str | Path | None, sites: tuple[Site, ...], task: Task) -> Planned:
    """How the target is shared out; by default by its cost if the cut is refitted, else evenly."""
    if plan is None and task.target is not None and len(sites) > 1 and isinstance(task.refit, LeastSquares):
        plan = "error"
    if plan != "error":
        shares, source, notes = _shares(subject, plan, sites, task.target)
        return Planned(dataclasses.replace(task, shares=shares), source, notes)
    if task.target is None:
        raise UsageError("the plan 'error' needs a target (params:0.5)")
    context = PruningContext(
        network=subject.network if task.device == "cpu" else copied(subject.network).to(task.device),
        sites=sites,
        x=subject.train.x,
        y=subject.train.y,
        seed=task.seed,
        batch=task.batch,
        device=task.device,
        progress=task.step_callback("plan"),
        calibration=subject.calibration,
    )
    budget, record = measured_budget(context, SizeModel(subject.network, sites, subject.example[:2]), task.target)
    return Planned(dataclasses.replace(task, budget=budget), "error", (), record)


def _shares(
    subject: Subject, plan: LayerPlan | str | Path | None, sites: tuple[Site, ...], target: Target | None
) -> tuple[dict[str, float] | None, str | None, tuple[str, ...]]:
    """The share each site keeps, its source, and notes; None if neither a plan nor a target is given."""
    if plan is None and target is None:
        return None, None, ()
    keep = 1.0 if target is None else target.keep
    if plan is None or plan == "uniform":
        if target is None:
            raise UsageError("the plan 'uniform' needs a target (params:0.5)")
        return dict.fromkeys((site.name for site in sites), keep), "uniform", ()
    if plan == "norm":
        if target is None:
            raise UsageError("the plan 'norm' needs a target (params:0.5)")
        plan = norm_plan(subject.network, keep)
    if plan == "alpha":
        raise UsageError("the plan by α is made from grades: plan=ws.alpha_plan(ws.grade(network), keep=…)")
    chosen = plan if isinstance(plan, LayerPlan) else LayerPlan.load(plan)
    known = chosen.origin.inputs.get("network", subject.inputs["network"])
    foreign = (
        () if known == subject.inputs["network"] else (f"the plan ({chosen.source}) was made for another network",)
    )
    return shares_by_plan(sites, chosen), chosen.source, foreign
