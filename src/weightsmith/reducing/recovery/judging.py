"""Recovery never does worse than the cut: both are judged on rows that the training has not seen.

The rows are the validation split, unless it judges the result; then those that the run of the original network held
back; otherwise a stratified share of the training rows; never test rows. The network with more correct rows is kept; on
a tie, the one with the smaller loss. Recovery is reported as *lost* only if chance does not explain the difference.

Training rows that the original network knows by heart (it is right on 99 % of them) favour the cut, which remembers
them, while training on other rows makes it forget them. A ResNet-56 lost 0.5 points on such rows and gained 1.2 on test
rows (docs/results/channels.md). There are no others to judge by. So a distillation, whose outputs came nearer to the
original ones, is then kept unless it lost, and ``keep="trained"`` leaves any decision to the user.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch import Tensor, nn

from weightsmith.core.errors import FileRefused
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval, score_difference, score_interval
from weightsmith.data.targets import Kind, scoring_of
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import labels_for, scores, targets_for
from weightsmith.reducing.recovery.recover import Distill, FineTune, Iterate, Judged, Recalibrate, Rewind
from weightsmith.reducing.recovery.rewinding import record_of
from weightsmith.training.losses import usual_loss
from weightsmith.training.run import Stopped, TrainRecord, TrainRun

__all__ = ["HeldBack", "Recovery", "compared", "held_back", "held_back_by"]

_SHARE, _LEAST_ROWS, _MOST = 0.1, 100, 0.25  # share of the training rows; larger if they are few, at most a quarter
_BY_HEART = 0.99  # share of rows on which a network is right that was trained on them
_ROWS = 5000  # training rows on which the loss is measured to explain why recovery lost


@dataclasses.dataclass(frozen=True)
class HeldBack:
    """Training data whose validation split are the rows held back, and ``source``, the origin of these.

    ``seen`` says that the original network may have been trained on these rows.
    """

    data: Data
    source: str
    seen: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Recovery(Record):
    """The network as cut and as recovered, on the same held-back ``rows``, and which of them was ``kept``.

    ``epoch`` is the epoch of the training that is compared with the cut: the best one, or the last one of rewinding.
    If recovery lost, ``reason`` says why, and ``advice`` is the option to try instead.

    ``known`` says that the original network knows the rows by heart, which can explain a loss there unless other
    training rows are fitted worse too; ``asked`` says that the recovered network is kept in any case.
    """

    stage: str
    held_back: str
    rows: int
    cut: Interval
    recovered: Interval
    improved: bool
    epoch: int | None = None
    reason: str | None = None
    advice: str | None = None
    known: bool = False
    asked: bool = False

    @property
    def kept(self) -> str:
        """``recovered`` or ``cut``."""
        return "recovered" if self.improved or self.asked else "cut"

    @property
    def lost(self) -> bool:
        """Whether recovery made the network worse beyond chance (McNemar), or diverged without a gain."""
        return self.reason is not None

    def __str__(self) -> str:
        what = f"after epoch {self.epoch}" if self.epoch else "after recovery"
        counts = f"{self.cut.value:.2%} as cut, {self.recovered.value:.2%} {what}, on {self.rows:,} held-back rows"
        if self.kept == "recovered":
            return f"{self.stage}: {counts}{'' if self.improved else '; kept as asked (keep=trained)'}"
        why = "; the original network knows these rows by heart, so they favour the cut, and keep=trained may do better"
        hint = why if self.known else ""
        if not self.lost:
            return f"{self.stage} did not help, so the network stays as it was cut ({counts}){hint}"
        advice = f"{self.reason}; try {self.advice}{hint}"
        return f"{self.stage} lost, so the network stays as it was cut ({counts}): {advice}"


def held_back(
    data: Data, judged: str, network: nn.Module, outputs: int, *, seed: int, run: TrainRun | Path | None = None
) -> HeldBack:
    """The validation split, if it does not judge the result, or else rows of the ``run``, or a share of the training.

    ``judged`` is the split that judges the result. Labels become numbers of the network's ``outputs``.
    """
    if data.validation is None and (known_run := _record(run)) is not None:
        own = held_back_by(known_run, data, judged)
        data = data if own is None else own.data
    train, validation = data.split("train"), data.validation if judged != "validation" else None
    if data.kind is not Kind.CLASSES or outputs == 1:  # training converts these targets itself
        kept = dataclasses.replace(data, test=None, validation=validation)
        return _divided(kept, seed) if validation is None else HeldBack(kept, "the validation split")
    names, labels = labels_for(card_of(network), data, train.y, outputs)
    known = Data(data.name, Split(train.x, labels), classes=names, normalisation=data.normalisation, notes=data.notes)
    if validation is not None:
        labels = labels_for(card_of(network), data, validation.y, outputs)[1]
        return HeldBack(dataclasses.replace(known, validation=Split(validation.x, labels)), "the validation split")
    return _divided(known, seed)


def _divided(known: Data, seed: int) -> HeldBack:
    share = min(_MOST, max(_SHARE, _LEAST_ROWS / len(known.split("train"))))
    divided = known.with_validation(share, seed)
    return HeldBack(dataclasses.replace(divided, notes=known.notes), f"{share:.0%} of the training rows", seen=True)


def _record(run: TrainRun | Path | None) -> TrainRecord | None:
    """The record of the run, unless the folder is that of another result."""
    if run is None:
        return None
    try:
        return record_of(run)
    except FileRefused:
        return None


def held_back_by(run: TrainRecord, data: Data, judged: str) -> HeldBack | None:
    """The validation rows of ``run``; None if it had none, or if these judge the result."""
    digest = run.origin.inputs.get("validation")
    if digest is None or judged == "validation":
        return None
    share = run.settings["validation"] or _SHARE  # the default share that training holds back
    known = data if data.validation is not None else data.with_validation(share, run.settings["seed"])
    return HeldBack(known, "the validation split") if known.split("validation").digest() == digest else None


def compared(
    stage: str,
    option: FineTune | Iterate | Rewind | Recalibrate | Distill,
    cut: nn.Module,
    recovered: nn.Module,
    held: HeldBack,
    *,
    original: nn.Module | None = None,
    training: TrainRecord | None = None,
    batch: int = 256,
    threads: int = 1,
    device: str = "cpu",
) -> Recovery:
    """Compare both networks on the held-back rows, and find the reason if recovery lost.

    ``original`` is asked whether it knows these rows by heart, if it may have been trained on them.
    """

    def right_and_loss(network: nn.Module, part: Split) -> tuple[Tensor, float]:
        answers = scores(network, part.x, batch=batch, threads=threads, device=device)
        targets = targets_for(card_of(network), held.data, part.y, answers.shape[1])[1]
        return scoring_of(targets).rows(answers, targets), float(usual_loss(targets)(answers.double(), targets))

    rows = held.data.split("validation")
    before, after = right_and_loss(cut, rows), right_and_loss(recovered, rows)
    change = score_difference(after[0].numpy(), before[0].numpy())
    improved = change.difference > 0 or (change.difference == 0 and after[1] < before[1])
    known = False
    if held.seen and original is not None and isinstance(option, Judged) and before[0].dtype == torch.bool:
        known = float(right_and_loss(original, rows)[0].double().mean()) >= _BY_HEART
    if known and isinstance(option, Distill) and not change.decided:
        improved = improved or after[1] != before[1]  # it is the same if the cut was given back unchanged
    reason = advice = fitted = None
    diverged = training is not None and training.stopped is Stopped.DIVERGED
    if not improved and (change.decided or diverged):
        part = held.data.split("train")
        some = part.take(torch.linspace(0, len(part) - 1, min(_ROWS, len(part))).long())
        fitted = right_and_loss(cut, some)[1], right_and_loss(recovered, some)[1]
        reason, advice = _why(option, training, fitted)
    return Recovery(
        stage=stage,
        held_back=held.source,
        rows=len(rows),
        cut=score_interval(before[0].numpy()),
        recovered=score_interval(after[0].numpy()),
        improved=improved,
        epoch=None if training is None else training.restored,
        reason=reason,
        advice=advice,
        known=known and (fitted is None or fitted[1] < fitted[0]),
        asked=isinstance(option, Judged) and option.keep == "trained" and not diverged,
    )


def _why(
    option: FineTune | Iterate | Rewind | Recalibrate | Distill,
    training: TrainRecord | None,
    losses: tuple[float, float],
) -> tuple[str, str]:
    """Why recovery lost, judged by the loss on training rows before and after it, and the option to try."""
    if isinstance(option, Distill):
        return "its rows are too few to learn from the original network", f"distill:{4 * option.rows}"
    if training is None or isinstance(option, Rewind | Recalibrate):
        what = "the recomputed statistics" if isinstance(option, Recalibrate) else "the weights trained from there"
        return f"{what} suit this network less than those it was cut with", "distill"
    rates = [row.rate for row in training.history.rows]
    rate = max(rates, default=option.rate or 0.01)
    if training.stopped is Stopped.DIVERGED:
        return f"the rate {rate:g} is too large ({training.reason})", "distill"
    loss = f"the loss on training rows went from {losses[0]:.3g} to {losses[1]:.3g}"
    if not losses[1] < losses[0]:
        return f"the rate {rate:g} is too large ({loss})", "distill"
    return f"it overfitted the training rows ({loss})", "distill"
