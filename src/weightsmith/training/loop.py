"""``train``: the training loop with the techniques of the slides."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.core.errors import UsageError
from weightsmith.core.identity import check_identity
from weightsmith.core.options import Range
from weightsmith.core.progress import as_callback
from weightsmith.core.records import Origin, write_record
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.storage import write_atomic
from weightsmith.core.verbs import Device, Doc, Seed, Threads, verb
from weightsmith.data.normalise import Normalise
from weightsmith.training.schedules import OwnSchedule, Schedule, read_schedule

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weightsmith.data.augment import Augment
    from weightsmith.networks.card import Card
    from weightsmith.networks.models.architecture import Architecture
    from weightsmith.training.checkpoints import Checkpoints
    from weightsmith.training.clipping import Clip
    from weightsmith.training.distributed import Team
    from weightsmith.training.losses import Loss
    from weightsmith.training.optimisers import Optimiser
    from weightsmith.training.penalties import Penalty
    from weightsmith.training.plan import TrainingPlan
    from weightsmith.training.run import Hook, Progress, TrainRun
    from weightsmith.training.stopping import Stop
    from weightsmith.training.trainer import Trainer

__all__ = ["finish", "train", "write_run"]


@verb(types=("training.settings", "training.losses"))
def train(
    network: nn.Module | Architecture | str | Path,
    data: Any,
    *,
    optimiser: Annotated[
        Optimiser | str | Callable[[list[Any]], Any] | None,
        Doc("sgd, momentum:0.9, adam, adamw, torch:Adagrad …; chosen by the kind of network if no schedule is given"),
    ] = None,
    schedule: Annotated[
        Schedule | OwnSchedule | float | str | Callable[[int], float] | None,
        Doc(
            "a rate, or power:0.1,s=20,per=epoch, exponential, plateau, cosine, one-cycle, warm-up …",
            read=read_schedule,
        ),
    ] = None,
    clip: Annotated[Clip | str | None, Doc("value:1, norm:1 (per parameter) or global-norm:1")] = None,
    stop: Annotated[Stop | str | None, Doc("early:5 ends after 5 epochs without improvement")] = None,
    penalties: Annotated[
        Sequence[Penalty | str] | Penalty | str,
        Doc("l1, l2:1e-4, max-norm, stable-rank, spectral, group-lasso, l4-balance"),
    ] = (),
    loss: Annotated[
        Loss | str | Callable[[Tensor, Tensor], Tensor] | None,
        Doc("cross-entropy, binary-cross-entropy, squared-error, huber …; by default by the kind of target"),
    ] = None,
    class_weights: Annotated[
        Mapping[str, float] | str | None,
        Doc("balanced, or cat=2,dog=1: factors of the loss of a row by its class", rare=True),
    ] = None,
    metrics: Annotated[
        Sequence[Callable[[Tensor, Tensor], Any] | str] | Callable[[Tensor, Tensor], Any] | str,
        Doc("f1, mae, rmse, or functions of answers and targets, measured on validation rows", rare=True),
    ] = (),
    augment: Annotated[Augment | str | None, Doc("crop-flip:4 shifts and mirrors images")] = None,
    batch: Annotated[int, Range(ge=1), Doc("images per step, of all processes together")] = 32,
    epochs: Annotated[int, Range(ge=1), Doc("passes over the training images, at most")] = 10,
    validation: Annotated[
        float | None,
        Range(ge=0, lt=1),
        Doc(
            "share of the training rows for validation; commands and recipes take 0.1 if the data have none, 0 for none"
        ),
    ] = None,
    normalise: Normalise = None,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = 1,
    out: str | Path | None = None,
    keep: Annotated[
        Sequence[int] | int, Range(ge=0), Doc("epochs whose weights are kept, to rewind to", rare=True)
    ] = (),
    hooks: Sequence[Hook] | Hook = (),
    progress: Callable[[Progress], None] | bool | None = None,
    diagnose: Annotated[bool, Doc("diagnose the gradients of every layer", rare=True)] = True,
) -> TrainRun:
    """Train a copy of ``network`` on the training split of ``data``.

    Options are objects or their text form. ``schedule`` may be a number, a constant rate; the default is the usual rate
    of the given optimiser. With a schedule alone the optimiser is ``momentum``. With neither, both are chosen by the
    kind of network, with early stopping if there are validation rows (:mod:`weightsmith.training.starting`); the
    record's notes give the choice and the reason. ``validation`` moves this fraction of the training rows into a
    validation split, if the data have none. Inputs are normalised by the network's card, or else by the data's own
    normalisation, unless ``normalise`` names another. With ``out``, a folder, every epoch is saved on disk, and the
    same call resumes an interrupted run, or extends a finished one by more epochs if the schedule allows it; ``keep``
    names epochs whose weights stay available (0: before training). Task and score follow from the targets: classes,
    labels or values (:mod:`weightsmith.data.targets`); rows may have weights.

    ``hooks`` are called after each epoch and may return numbers for the history. ``diagnose`` measures the
    first step of each epoch, and a few early ones, for vanishing and exploding gradients.

    A run whose loss or weights become NaN or infinite ends with ``Stopped.DIVERGED`` and the best weights so far.

    >>> import weightsmith as ws
    >>> run = train("mlp:16", ws.data.load("digits"), schedule=0.05, epochs=2, seed=1)
    >>> run.stopped, len(run.history.rows), run.network.dense1
    (<Stopped.DONE: 'done'>, 2, Linear(in_features=64, out_features=16, bias=True))
    """
    from weightsmith.training.checkpoints import begun_with
    from weightsmith.training.distributed import team
    from weightsmith.training.losses import Loss
    from weightsmith.training.optimisers import OwnOptimiser
    from weightsmith.training.plan import TrainingWarning, make_plan
    from weightsmith.training.settings import Settings

    given = dict(locals())
    options = Settings.read(**{name: given[name] for name in Settings.OPTIONS})
    epochs_kept: tuple[int, ...] = keep  # type: ignore[assignment]  # as the verb has read them
    wrong = [epoch for epoch in epochs_kept if epoch > options.epochs]
    if wrong:
        raise UsageError(f"keep names the epoch {wrong[0]}, but the run has the epochs 0 (before training) to {epochs}")
    members = team()
    begun = begun_with(Path(out)) if out is not None and members.size == 1 else None
    plan = make_plan(network, data, options, members.size, begun)
    members.check_same(plan.inputs, ("train", "validation"))
    for sentence in plan.warnings if members.first else ():
        warnings.warn(sentence, TrainingWarning, stacklevel=4)  # the caller of the verb
    if out is not None:
        if not isinstance(plan.loss, Loss):
            check_identity("loss", plan.loss)
        for name, own in (("optimiser", options.optimiser), ("schedule", options.schedule)):
            if isinstance(own, OwnOptimiser | OwnSchedule):
                check_identity(name, own.function)
        for metric in options.metrics:
            check_identity("metric", metric.function)
    folder = None if out is None or not members.first else Path(out)
    watched = {"hooks": (hooks,) if callable(hooks) else tuple(hooks), "progress": as_callback(progress)}
    with pinned_threads(threads):
        run = _run(plan, members, folder, threads, keep=epochs_kept, diagnose=diagnose, **watched)
    if folder is not None:
        write_run(folder, run)
    return run


def _run(
    plan: TrainingPlan,
    members: Team,
    folder: Path | None,
    threads: int,
    *,
    keep: tuple[int, ...],
    diagnose: bool,
    **watched: Any,
) -> TrainRun:
    """Train, or resume in ``folder``, with a separate random state; ``watched`` are hooks and progress."""
    import torch

    from weightsmith.training.checkpoints import Checkpoints, extend, may_extend
    from weightsmith.training.drawing import own_random_state
    from weightsmith.training.trainer import Trainer

    written = {**plan.written, "threads": threads, "keep": sorted(set(keep)), "diagnose": diagnose}
    origin = Origin(seed=plan.settings.seed, inputs=plan.inputs)
    call = {"settings": written, "processes": members.size, **origin.to_dict()}
    if folder is not None and members.size == 1 and may_extend(folder, call):
        if not plan.settings.schedule.may_grow:
            raise UsageError(
                f"{folder} holds a finished run of fewer epochs, and the rates of {plan.settings.schedule} depend on "
                "the length of a run: it cannot be extended; continue from its network in another folder"
            )
        extend(folder, call)
    with (
        own_random_state(),
        torch.inference_mode(False),
        torch.enable_grad(),
        closing(members.unless_first_refuses(lambda: Checkpoints(folder, call))) as checkpoints,
    ):
        trainer = Trainer(plan, members, checkpoints, keep=keep, diagnose=diagnose, **watched)
        run = finish(plan, trainer, written, origin)
        kept = {
            epoch: functools.partial(_as_it_was, run.network, checkpoints, epoch, plan.card_after(epoch))
            for epoch in sorted(set(keep))
            if epoch <= len(run.history.rows) and checkpoints.has(epoch)
        }
        return dataclasses.replace(run, kept=kept)


def finish(plan: TrainingPlan, trainer: Trainer, written: dict[str, Any], origin: Origin) -> TrainRun:
    """Train, and return the network, released from the trainer and with its card, and the record."""
    from weightsmith.networks.card import weights_digest, with_card
    from weightsmith.training.run import History, TrainRecord, TrainRun

    ended = trainer.run()
    network, removed = trainer.release(ended)
    network = with_card(network.cpu(), plan.card_after(ended.restored)).eval()
    record = TrainRecord(
        settings=written,
        history=History(trainer.state.rows),
        stopped=ended.stopped,
        reason=ended.reason,
        monitor=plan.monitor,
        best_epoch=trainer.state.best_epoch,
        restored=ended.restored,
        parameters=sum(value.numel() for value in network.parameters()),
        trained=sum(value.numel() for value in network.parameters() if value.requires_grad),
        gradients=trainer.diagnosis(),
        removed=removed,
        warnings=plan.warnings,
        notes=plan.notes,
        network=weights_digest(network),
        origin=origin,
    )
    return TrainRun(record, network)


def _as_it_was(network: nn.Module, checkpoints: Checkpoints, epoch: int, card: Card) -> nn.Module:
    """A copy of the network with the weights of an earlier epoch."""
    from weightsmith.networks.card import with_card
    from weightsmith.networks.editing.copying import copied

    earlier = copied(network)
    earlier.load_state_dict(checkpoints.kept(epoch))
    return with_card(earlier, card)


def write_run(folder: Path, run: TrainRun) -> None:
    """Write the files of a finished run: network, history as a table, and last the record, which marks it complete."""
    from weightsmith.networks.files import save

    save(run.network, folder / "network.safetensors")
    write_atomic(folder / "history.csv", run.history.to_csv())
    write_record(folder / "record.json", run.record)
