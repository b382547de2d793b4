"""How a reduced network gets its accuracy back: fine-tuned, rewound, or reduced a part at a time.

``fine-tune`` trains what was left. ``rewind`` gives the kept units the weights they had after an earlier epoch of the
run that made the network, and goes on from there as that run did (Renda, Frankle and Carbin, "Comparing rewinding and
fine-tuning in neural network pruning", ICLR 2020). ``iterate`` reaches the size in rounds, fine-tuned after each.

>>> str(Recover.parse("fine-tune:5,schedule=cosine:1e-2,penalties=[l2:1e-4]"))
'fine-tune:epochs=5,schedule=cosine:0.01,penalties=[l2:0.0001]'
>>> [round(share, 3) for share in round_targets(0.5, rounds=3)]
[0.794, 0.63, 0.5]

Optimisers always start anew: what they remember belongs to parameters that are no longer there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, FileRefused, OptionError, UnknownName, UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.records import Origin
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.storage import reading
from weightsmith.data.augment import Augment
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of
from weightsmith.networks.copying import copied
from weightsmith.networks.files import load
from weightsmith.training.checkpoints import Checkpoints, Standing
from weightsmith.training.distributed import team
from weightsmith.training.drawing import own_random_state
from weightsmith.training.freezing import freeze
from weightsmith.training.loop import finish, train, write_run
from weightsmith.training.losses import Loss
from weightsmith.training.optimisers import Optimiser
from weightsmith.training.penalties import Penalty
from weightsmith.training.plan import Plan, data_of, make_plan
from weightsmith.training.run import Progress, TrainRecord, TrainRun
from weightsmith.training.schedules import Schedule, Shifted, as_schedule
from weightsmith.training.settings import Settings, whole
from weightsmith.training.trainer import Trainer
from weightsmith.training.watching import Watch

__all__ = [
    "FineTune",
    "Iterate",
    "Original",
    "Recover",
    "Rewind",
    "fine_tuned",
    "original_of",
    "rewound",
    "round_targets",
]

# What going on with a run needs to know of it, as its record has it.
_TOLD = {
    **dict.fromkeys(("optimiser", "schedule", "loss", "augment", "normalise", "data"), str),
    **dict.fromkeys(("batch", "epochs", "seed"), int),
    **dict.fromkeys(("penalties", "frozen"), list),
    **dict.fromkeys(("clip", "stop"), str | None),
    "validation": float | None,
}


class Recover(Option, family="recover"):
    """The family of ways back to accuracy: ``fine-tune``, ``rewind``, ``iterate``."""


@dataclasses.dataclass(frozen=True)
class _Tuning:
    """How a reduced network is trained; given by name."""

    name: ClassVar[str]
    rate: float | None = param(
        default=None, gt=0, lt=math.inf, kw_only=True, doc="a constant rate; none: the optimiser's usual one"
    )
    optimiser: str = param(default="momentum", kw_only=True, doc="text form of an optimiser")
    schedule: str | None = param(default=None, kw_only=True, doc="text form of a schedule, in place of rate")
    batch: int = param(default=64, ge=1, kw_only=True, doc="rows per step")
    penalties: tuple[str, ...] = param(default=(), kw_only=True, doc="text forms of penalties, such as l2:1e-4")
    augment: str | None = param(default=None, kw_only=True, doc="text form of an augmentation, such as crop-flip")

    def check(self) -> None:
        """Every text form can be read (it is kept in its shortest form); a rate comes from one place only."""
        if self.rate is not None and self.schedule is not None:
            raise OptionError(
                f"{self.name}: rate={self.rate:g} and schedule={self.schedule} both name the rate; leave one out"
            )
        chosen = Optimiser.parse(self.optimiser)
        object.__setattr__(self, "optimiser", str(chosen))
        object.__setattr__(self, "penalties", tuple(str(Penalty.parse(text)) for text in self.penalties))
        if self.schedule is not None:
            object.__setattr__(self, "schedule", str(as_schedule(self.schedule, chosen.usual_rate)))
        if self.augment is not None:
            object.__setattr__(self, "augment", str(Augment.parse(self.augment)))

    def settings(self) -> dict[str, Any]:
        """What :func:`weightsmith.train` is told, epochs apart."""
        return {
            "optimiser": self.optimiser,
            "schedule": self.rate if self.schedule is None else self.schedule,
            "batch": self.batch,
            "penalties": self.penalties,
            "augment": self.augment,
        }


class FineTune(_Tuning, Recover, name="fine-tune"):
    """Train the reduced network for some epochs."""

    epochs: int = param(default=10, ge=1, doc="epochs after the reduction")


class Iterate(_Tuning, Recover, name="iterate"):
    """Take out a part, fine-tune, and again, until the target is met (Han et al. 2015): see :func:`round_targets`."""

    rounds: int = param(default=3, ge=1, doc="how many times")
    epochs: int = param(default=5, ge=1, doc="epochs after each round")


class Rewind(Recover, name="rewind"):
    """Go back to an epoch of the run that made the network, and train on from there as that run did.

    The optimiser, the schedule from that epoch on, the order of the rows, augmentation and dropout are those of the
    run. With ``weights`` the kept units get back the weights they had (weight rewinding); without, they keep what the
    reduction left them with, and only the rates are those of that epoch and later (learning-rate rewinding).
    """

    epoch: int = param(ge=0, doc="the epoch of the original run to go back to (0: before training)")
    epochs: int | None = param(default=None, ge=1, doc="epochs from there on; none: the rest of the original run")
    weights: bool = param(default=True, doc="false: only the rates go back")


@dataclasses.dataclass(frozen=True)
class Original:
    """The run that made a network, and the network as it was after the epoch to go back to, if weights go back."""

    record: TrainRecord
    network: nn.Module | None


def fine_tuned(
    network: nn.Module,
    data: Any,
    option: FineTune | Iterate,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> TrainRun:
    """Train a copy of ``network`` as ``option`` says (of ``iterate``: one round) on inputs normalised as its card says.

    A module of the user's own without a card gets the inputs as they are, as :func:`weightsmith.evaluate` feeds it.
    """
    return train(
        network,
        data,
        **option.settings(),
        epochs=option.epochs,
        normalise=card_of(network).normalisation,
        seed=seed,
        out=out,
        progress=progress,
        threads=threads,
        device=device,
    )


def round_targets(share_kept: float, rounds: int) -> tuple[float, ...]:
    """The share to keep after each round, share^(k/rounds): every round takes out the same part of what is left.

    >>> round_targets(0.25, 2)
    (0.5, 0.25)
    """
    if not 0 < share_kept <= 1:
        raise UsageError(f"the share to keep must be > 0 and ≤ 1, not {share_kept!r}")
    rounds = whole("rounds", rounds)
    return (*(share_kept ** (number / rounds) for number in range(1, rounds)), share_kept)


def original_of(run: TrainRun | str | Path, option: Rewind, like: nn.Module | None = None) -> Original:
    """The record of ``run`` (a run, or its folder) and its network after the epoch that ``option`` names.

    A folder of a module of the user's own needs ``like``, a network of the same layout, which is copied and filled.
    """
    if isinstance(run, TrainRun):
        return Original(run.record, run.checkpoint(option.epoch) if option.weights else None)
    path = Path(run) / "record.json"
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        record = TrainRecord.from_json(text)
    except (ValueError, RecursionError) as error:
        raise FileRefused(path, f"is not the record of a training run ({error})") from error
    for name, kind in _TOLD.items():
        if not isinstance(told := record.settings.get(name), kind):
            raise FileRefused(path, f"says {name}={told!r}, which no training run of weightsmith writes")
    if not option.weights:
        return Original(record, None)
    kept = path.with_name(f"epoch-{option.epoch:04d}.safetensors")
    if not kept.exists():
        names = [file.stem.removeprefix("epoch-") for file in path.parent.glob("epoch-*.safetensors")]
        known = [str(int(name)) for name in names if name.isdecimal()]
        raise UnknownName("kept epoch", str(option.epoch), known or ["none; name them with keep=(0, 5, …)"])
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
    """Cut a copy of the original network, and train it from ``option.epoch`` on as the original run went on.

    ``cut`` takes the units out of a network of the original's layout; where only the rates go back, ``reduced`` is
    trained instead, the network as the reduction left it.

    Steps count on from that epoch, and everything that is drawn at random comes from the run's seed and the number of
    the epoch. So with nothing cut, plain gradient descent ends with the bytes of the original; an optimiser with a
    memory starts without it. The history begins with the rows of the original run up to that epoch. What had been
    measured on the whole network begins anew: the best epoch, a stop's waiting, and a plateau's, whose cuts of the rate
    remain. ``loss`` is needed if the run had one of the user's own, which a record cannot hold.
    """
    known = data_of(data)
    settings = _settings(original.record, option, known, loss, device)
    network = _start(original, cut, option, reduced)
    members, threads = team(), whole("threads", threads)
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
        trainer.standing = _standing(original.record, settings.schedule, option.epoch)
        run = finish(plan, trainer, written, origin)
    if folder is not None:
        write_run(folder, run)
    return run


def _start(
    original: Original, cut: Callable[[nn.Module], nn.Module], option: Rewind, reduced: nn.Module | None
) -> nn.Module:
    """The network that training starts with, our own copy; what the run had frozen is frozen."""
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
    """How the original run was trained, read from its record; it ends earlier if the option says so."""
    told = record.settings
    epochs, done = told["epochs"], len(record.history)
    if option.epoch >= epochs or option.epoch > done:
        raise OptionError(
            f"{option}: the run has {min(done, epochs)} epochs, so that nothing follows epoch {option.epoch}"
        )
    end = epochs if option.epochs is None else option.epoch + option.epochs
    if end > epochs:
        left = epochs - option.epoch
        raise OptionError(f"{option}: only {left} of the run's {epochs} epochs follow epoch {option.epoch}; take fewer")
    if loss is None and told["loss"].partition(":")[0] not in Loss.members:
        raise UsageError(f"the run was trained with the loss {told['loss']}, code of your own: hand it over as loss=…")
    schedule = Schedule.parse(told["schedule"])
    return Settings.read(
        optimiser=told["optimiser"],
        schedule=schedule if end == epochs else Shifted(0, epochs, then=str(schedule)),
        loss=told["loss"] if loss is None else loss,
        clip=told["clip"],
        stop=told["stop"],
        penalties=told["penalties"],
        augment=told["augment"],
        normalise=told["normalise"],
        batch=told["batch"],
        epochs=end,
        validation=told["validation"] if data.validation is None else None,  # it may be split off already
        seed=told["seed"],
        device=device,
    )


def _check_data(plan: Plan, record: TrainRecord) -> None:
    """A run goes on with the rows it had: on others it would be another run."""
    for split in ("train", "validation"):
        if plan.inputs.get(split) != record.origin.inputs.get(split):
            raise DataMismatch(
                f"the {split} split is not the one that the original run was trained on, so that it cannot go on; "
                f"give the data of that run ({record.settings['data']}), or fine-tune instead"
            )


def _standing(record: TrainRecord, schedule: Schedule, epoch: int) -> Standing:
    """Where the run stood after ``epoch``, as far as it still holds for a network that was cut."""
    rows, watch = record.history.rows[:epoch], Watch()
    for row in rows:
        if schedule.monitor is not None and (value := row.value(schedule.monitor)) is not None:
            watch = schedule.observe(watch, row.epoch, value)
    return Standing(rows=rows, schedule=Watch(fired=watch.fired), best_epoch=epoch)
