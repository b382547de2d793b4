"""Run one stage of a chain: options for the verb, the verb, and the files in the stage's folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from weightsmith.chain.links import keep_by_alpha, watchers
from weightsmith.chain.prices import price_of
from weightsmith.chain.reading._stored_angles import write_angles
from weightsmith.chain.recipe import Recipe
from weightsmith.chain.stages import Stage
from weightsmith.core.progress import ProgressCallback
from weightsmith.core.records import Record, write_record
from weightsmith.core.verbs import parameters
from weightsmith.data.tensors import Data
from weightsmith.grading.grade import grade
from weightsmith.networks.evaluating import evaluate
from weightsmith.networks.files import load
from weightsmith.networks.models.building import build
from weightsmith.reducing.inspecting import angles
from weightsmith.reducing.recovery.recover import Recover, Rewind
from weightsmith.reducing.reduce import reduce
from weightsmith.reducing.surgery.sizes import Target
from weightsmith.spiking.spike import spike
from weightsmith.spiking.sweep.sweeping import spike_sweep
from weightsmith.training.loop import train
from weightsmith.training.presets import preset
from weightsmith.training.run import Progress, Stopped, TrainRun

__all__ = ["Made", "ProgressCallback", "StageContext", "evaluate_given", "run_stage", "starting_network", "with_preset"]


_HELD_OUT = 0.1  # share of training rows for validation, if neither data nor recipe set it


@dataclasses.dataclass(frozen=True)
class Made:
    """The result of a stage: its record, the digest of its network if it has one, and notes."""

    record: Record
    network: str | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class StageContext:
    """The context of the stages of one seed: the recipe, its data, and the folder of each stage."""

    recipe: Recipe
    data: Data
    seed: int
    folder: Path
    threads: int = 1
    progress: ProgressCallback | None = None
    device: str = "cpu"

    def surrounding(self, verb: Callable[..., Any]) -> dict[str, Any]:
        """Seed, threads and device, as far as ``verb`` takes them."""
        values = {"seed": self.seed, "threads": self.threads, "device": self.device}
        return {name: value for name, value in values.items() if name in parameters(verb)}

    def stage_folder(self, name: str) -> Path:
        """The folder of a stage."""
        return self.folder / name

    def stage(self, name: str | None) -> Stage:
        """The stage called ``name``."""
        return next(stage for stage in self.recipe.stages if stage.name == name)

    def network(self, name: str | None) -> nn.Module:
        """The network of the stage ``name``, or without a name the one that the recipe starts with."""
        if name is not None:
            return load(self.stage_folder(name), network=self.recipe.code).eval()
        return load(
            str(self.recipe.network),
            network=self.recipe.factory,
            normalise=self.recipe.normalise,
            input_shape=self.data.input_shape,
            classes=len(self.data.classes),
        ).eval()

    def progress_of(self, stage: Stage) -> ProgressCallback | None:
        """The progress callback of a stage, with its name."""
        progress = self.progress
        if progress is None:
            return None
        return lambda what, done, total: progress(f"{stage.name}: {what}" if what else stage.name, done, total)


def run_stage(stage: Stage, context: StageContext) -> Made:
    """Run the verb of ``stage``, which writes its record and other files to the stage's folder."""
    work: dict[str, Callable[[Stage, StageContext], Made]] = {
        "train": _train,
        "grade": _grade,
        "angles": _angles,
        "reduce": _reduce,
        "spike": _spike,
        "sweep": _sweep,
    }
    return work[stage.kind](stage, context)


def starting_network(context: StageContext) -> nn.Module:
    """The network that the chain starts with: the one in the recipe's file, or the one to be trained, untrained."""
    if context.recipe.network is not None:
        return context.network(None)
    stage = next(stage for stage in context.recipe.stages if stage.kind == "train")
    asked = with_preset(stage)["network"]
    return build(asked, input_shape=context.data.input_shape, classes=len(context.data.classes), seed=context.seed)


def evaluate_given(context: StageContext, folder: Path) -> Made:
    """Evaluate the network that the recipe starts with, for comparison."""
    record = evaluate(context.network(None), context.data, threads=context.threads, device=context.device)
    _write(folder, record)
    return Made(record, record.origin.inputs["network"], record.notes)


def _train(stage: Stage, context: StageContext) -> Made:
    run = _trained(stage, context)
    if "test" in context.data.splits:
        judged = evaluate(run.network, context.data, split="test", threads=context.threads, device=context.device)
        write_record(context.stage_folder(stage.name) / "evaluation.json", judged)
    failed = (f"diverged: {run.record.reason}",) if run.stopped is Stopped.DIVERGED else ()
    return Made(run.record, run.record.network, (*failed, *run.record.warnings))


def _trained(stage: Stage, context: StageContext) -> TrainRun:
    """The run of a training stage; a finished one is read from its folder."""
    options = with_preset(stage)
    if context.data.validation is None:
        options["validation"] = options.get("validation", _HELD_OUT) or None
    hooks = watchers(options.pop("watch", ()), context.data, seed=context.seed, threads=context.threads)
    callback = context.progress_of(stage)
    return train(
        data=context.data,
        **options,
        hooks=hooks,
        **context.surrounding(train),
        out=context.stage_folder(stage.name),
        progress=None if callback is None else lambda step: callback("", *_steps(step)),
    )


def with_preset(stage: Stage) -> dict[str, Any]:
    """The options of a training stage, including those of its preset."""
    options = dict(stage.options)
    if (named := options.pop("preset", None)) is not None:
        chosen = preset(named, options["network"])
        options["network"] = chosen.architecture
        options.setdefault("normalise", chosen.normalisation)
        options["penalties"] = [*chosen.penalties, *options.get("penalties", ())]
    return options


def _steps(now: Progress) -> tuple[int, int]:
    return (now.epoch - 1) * now.steps + now.step, now.epochs * now.steps


def _grade(stage: Stage, context: StageContext) -> Made:
    callback = context.progress_of(stage)
    grades = grade(
        context.network(stage.of),
        **stage.options,
        **context.surrounding(grade),
        progress=None if callback is None else lambda done, total: callback("", done, total),
    )
    record = dataclasses.replace(grades, source=stage.of or Path(str(context.recipe.network)).name)
    _write(context.stage_folder(stage.name), record)
    return Made(record, notes=record.notes)


def _angles(stage: Stage, context: StageContext) -> Made:
    found = angles(context.network(stage.of), context.data, **stage.options, **context.surrounding(angles))
    write_angles(context.stage_folder(stage.name), found)
    return Made(found.record)


def _reduce(stage: Stage, context: StageContext) -> Made:
    options, notes = dict(stage.options), tuple[str, ...]()
    recovery = options.get("recover")
    rewinds = recovery is not None and isinstance(Recover.parse(recovery), Rewind)
    network = _trained(context.stage(stage.of), context) if rewinds else context.network(stage.of)
    if options.get("plan") == "alpha":
        module = network.network if isinstance(network, TrainRun) else network
        options["plan"] = keep_by_alpha(module, Target.parse(options["target"]).keep, threads=context.threads)
        if options["plan"].unscored:
            notes = (f"layers without α keep the target's share: {', '.join(options['plan'].unscored)}",)
    priced = options.pop("price", None)
    if priced is not None:
        options["price"] = price_of(priced, network, context.data, layers=options.get("layers"), seed=context.seed)
    result = reduce(
        network,
        context.data,
        **options,
        latency=False,
        **context.surrounding(reduce),
        out=context.stage_folder(stage.name),
        progress=context.progress_of(stage),
    )
    return Made(result.record, result.record.result, (*notes, *result.record.notes))


def _spike(stage: Stage, context: StageContext) -> Made:
    run = spike(
        context.network(stage.of),
        context.data,
        **stage.options,
        **context.surrounding(spike),
        out=context.stage_folder(stage.name),
        progress=context.progress_of(stage),
    )
    return Made(run.record, run.record.result, run.record.notes)


def _sweep(stage: Stage, context: StageContext) -> Made:
    found = spike_sweep(
        context.network(stage.of),
        context.data,
        **stage.options,
        **context.surrounding(spike_sweep),
        out=context.stage_folder(stage.name),
        progress=context.progress_of(stage),
    )
    return Made(found, notes=found.notes)


def _write(folder: Path, record: Record) -> None:
    write_record(folder / "record.json", record)
