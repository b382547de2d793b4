"""Rewinding: reset the kept units to the weights of an earlier epoch and continue the original training.

Source: Renda, Frankle and Carbin, "Comparing rewinding and fine-tuning in neural network pruning", ICLR 2020.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, FileRefused, OptionError, UnknownName, UsageError
from weightsmith.core.options import check_int
from weightsmith.core.records import Origin
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.storage import reading
from weightsmith.data.tensors import Data
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.files import load
from weightsmith.reducing.recovery.recover import Rewind
from weightsmith.training.checkpoints import Checkpoints, TrainingState
from weightsmith.training.distributed import team
from weightsmith.training.drawing import own_random_state
from weightsmith.training.freezing import freeze
from weightsmith.training.loop import finish, write_run
from weightsmith.training.losses import Loss
from weightsmith.training.plan import TrainingPlan, data_of, make_plan
from weightsmith.training.run import Progress, TrainRecord, TrainRun
from weightsmith.training.schedules import OwnSchedule, Schedule, Shifted
from weightsmith.training.settings import Settings
from weightsmith.training.trainer import Trainer
from weightsmith.training.watching import Watch

__all__ = ["Original", "original_of", "record_of", "rewound"]

# The settings that are needed to continue a run, with their types in its record.
_TOLD = {
    **dict.fromkeys(("optimiser", "schedule", "loss", "augment", "normalise", "data"), str),
    **dict.fromkeys(("batch", "epochs", "seed"), int),
    **dict.fromkeys(("penalties", "frozen"), list),
    **dict.fromkeys(("clip", "stop"), str | None),
    "validation": float | None,
}


@dataclasses.dataclass(frozen=True)
class Original:
    """The original run, and its network after the epoch to rewind to, if weights are rewound."""

    record: TrainRecord
    network: nn.Module | None


def record_of(run: TrainRun | str | Path) -> TrainRecord:
    """The record of a training run, or of the folder of one."""
    if isinstance(run, TrainRun):
        return run.record
    path = Path(run) / "record.json"
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        record = TrainRecord.from_json(text)
    except (ValueError, RecursionError) as error:
        raise FileRefused(path, f"is not the record of a training run ({error})") from error
    for name, kind in _TOLD.items():
        if not isinstance(value := record.settings.get(name), kind):
            raise FileRefused(path, f"says {name}={value!r}, which no training run of weightsmith writes")
    return record


def original_of(run: TrainRun | str | Path, option: Rewind, like: nn.Module | None = None) -> Original:
    """The record of ``run`` (a run, or its folder) and its network after the epoch of ``option``.

    A folder of a module of the user's own needs ``like``, a network of the same layout, which is copied.
    """
    if isinstance(run, TrainRun):
        return Original(run.record, run.checkpoint(option.epoch) if option.weights else None)
    record = record_of(run)
    if not option.weights:
        return Original(record, None)
    kept = Path(run) / f"epoch-{option.epoch:04d}.safetensors"
    if not kept.exists():
        names = [file.stem.removeprefix("epoch-") for file in kept.parent.glob("epoch-*.safetensors")]
        known = [str(int(name)) for name in names if name.isdecimal()]
        none = "none; train again with keep=5, --keep 5 on the command line"
        raise UnknownName("kept epoch", str(option.epoch), known or [none])
    return Original(record, load(kept, network=None if like is None else copied(like)))


def rewound(
    original: Original,
    cut: Callable[[nn.Module], nn.Module],
    option: Rewind,
    data: Any,
    *,
    reduced: nn.Module | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    out: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> TrainRun:
    """Cut a copy of the original network, and train it from ``option.epoch`` on with the settings of the original run.

    ``cut`` removes the units from a network of the original's layout; if only the rates are rewound, ``reduced``, the
    network after the reduction, is trained instead.

    Steps are counted on from that epoch, and random numbers come from the run's seed and the epoch number. So without a
    cut, plain gradient descent reproduces the bytes of the original; an optimiser with state starts without it. The
    history begins with the rows of the original run up to that epoch. The best epoch, and the patience of a stop or of
    a plateau schedule, start anew; rate reductions made by a plateau remain. ``loss`` is needed if the run had one of
    the user's own, which a record cannot hold.
    """
    known = data_of(data)
    settings = _settings(original.record, option, known, loss, device)
    network = _start(original, cut, option, reduced)
    members, threads = team(), check_int("threads", threads)
    plan = make_plan(network, known, settings, members.size)
    _check_data(plan, original.record)
    members.check_same(plan.inputs, ("train", "validation"))
    written = {**plan.written, "threads": threads, "keep": [], "diagnose": True, "start": option.epoch}
    origin = Origin(seed=settings.seed, inputs={**plan.inputs, "original": original.record.digest()})
    call = {"settings": written, "processes": members.size, **origin.to_dict()}
    folder = None if out is None or not members.first else Path(out)
    with (
        pinned_threads(threads),
        own_random_state(),
        torch.inference_mode(False),
        torch.enable_grad(),
        closing(members.unless_first_refuses(lambda: Checkpoints(folder, call))) as checkpoints,
    ):
        trainer = Trainer(plan, members, checkpoints, progress=progress)
        trainer.state = _state_at(original.record, settings.schedule, option.epoch)
        run = finish(plan, trainer, written, origin)
    if folder is not None:
        write_run(folder, run)
    return run


def _start(
    original: Original, cut: Callable[[nn.Module], nn.Module], option: Rewind, reduced: nn.Module | None
) -> nn.Module:
    """A copy of the network to start with; layers frozen in the run are frozen."""
    if option.weights and original.network is not None:
        network = cut(copied(original.network))
    elif not option.weights and reduced is not None:
        network = copied(reduced)
    else:
        wanted = "the network of that epoch" if option.weights else "the network as the reduction left it"
        raise UsageError(f"{option}: needs {wanted}")
    if original.record.settings["frozen"]:
        freeze(network, original.record.settings["frozen"])
    return network


def _settings(
    record: TrainRecord,
    option: Rewind,
    data: Data,
    loss: Callable[[Tensor, Tensor], Tensor] | None,
    device: str,
) -> Settings:
    """The settings of the original run, read from its record; it ends earlier if the option sets fewer epochs."""
    settings = record.settings
    epochs, done = settings["epochs"], len(record.history)
    if option.epoch >= epochs or option.epoch > done:
        raise OptionError(f"{option}: the run has {min(done, epochs)} epochs, so nothing follows epoch {option.epoch}")
    end = epochs if option.epochs is None else option.epoch + option.epochs
    if end > epochs:
        left = epochs - option.epoch
        raise OptionError(f"{option}: only {left} of the run's {epochs} epochs follow epoch {option.epoch}; take fewer")
    if loss is None and settings["loss"].partition(":")[0] not in Loss.members:
        raise UsageError(
            f"the run was trained with the loss {settings['loss']}, a function of your own: pass it as loss=…"
        )
    schedule = Schedule.parse(settings["schedule"])
    return Settings.read(
        optimiser=settings["optimiser"],
        schedule=schedule if end == epochs else Shifted(0, epochs, then=str(schedule)),
        loss=settings["loss"] if loss is None else loss,
        clip=settings["clip"],
        stop=settings["stop"],
        penalties=settings["penalties"],
        augment=settings["augment"],
        normalise=settings["normalise"],
        batch=settings["batch"],
        epochs=end,
        validation=settings["validation"] if data.validation is None else None,  # it may be split off already
        seed=settings["seed"],
        device=device,
    )


def _check_data(plan: TrainingPlan, record: TrainRecord) -> None:
    """Check that the data are those of the original run."""
    for split in ("train", "validation"):
        if plan.inputs.get(split) != record.origin.inputs.get(split):
            raise DataMismatch(
                f"the {split} split is not the one that the original run was trained on, so it cannot be continued; "
                f"give the data of that run ({record.settings['data']}), or fine-tune instead"
            )


def _state_at(record: TrainRecord, schedule: Schedule | OwnSchedule, epoch: int) -> TrainingState:
    """The state of the run after ``epoch``, as far as it applies to a network that was cut."""
    rows, watch = record.history.rows[:epoch], Watch()
    for row in rows:
        if schedule.monitor is not None and (value := row.value(schedule.monitor)) is not None:
            watch = schedule.observe(watch, row.epoch, value)
    return TrainingState(rows=rows, schedule=Watch(fired=watch.fired), best_epoch=epoch)
