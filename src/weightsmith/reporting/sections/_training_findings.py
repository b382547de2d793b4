"""Advice on what to try after a training run."""

from __future__ import annotations

import math
import re

from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.target_evaluation import RegressionEvaluation
from weightsmith.training.run import Stopped, TrainRecord

__all__ = ["advice", "unlearnt"]

_WORSE = 1.1  # times the loss of guessing
_GAP = 0.05  # gap of training over validation accuracy from which it is called overfitting


def unlearnt(record: TrainRecord) -> tuple[str, ...]:
    """A concern if cross-entropy stayed well above ln(classes), that of guessing: the rate is too high."""
    rows, classes = record.history.rows, re.search(r"classes=(\d+)", str(record.settings.get("network", "")))
    losses = [row.train_loss for row in rows]
    if len(rows) < 2 or classes is None or record.settings.get("loss") != "cross-entropy":
        return ()
    guessing = math.log(int(classes[1]))
    if not all(math.isfinite(loss) for loss in losses) or min(losses) <= _WORSE * guessing:
        return ()
    return (
        f"nothing was learnt: the training loss never fell below {min(losses):.3g}, guessing gives {guessing:.3g}; "
        f"try a tenth of the rate ({record.settings.get('schedule')}), or --find-rate",
    )


def advice(record: TrainRecord, validation: Evaluation | RegressionEvaluation | None = None) -> list[str]:
    """At most three things to try, each with the number that supports it; a gap must be more than chance."""
    if not record.history.rows and record.stopped is not Stopped.DIVERGED:
        return []
    rows, settings = record.history.rows, record.settings
    network = str(settings.get("network", ""))
    if record.stopped is Stopped.DIVERGED:
        return ["a tenth of the rate, --clip global-norm:1, or --find-rate to see which rates learn"]
    if unlearnt(record):
        return ["a tenth of the rate, or --find-rate to see which rates learn"]
    if record.gradients is not None and record.gradients.health.calls_for_action:
        return ["fix the gradients first: the table above shows which layers do not learn, and what helps"]
    lines, last, done = [], rows[-1], len(rows)
    if record.stopped is Stopped.DONE and record.best_epoch == done:
        watched = record.monitor.replace("_", " ")
        lines.append(f"--epochs {2 * done} (in another folder): the {watched} was best in the last epoch")
    trained = last.train_accuracy if last.train_accuracy is not None else last.extra.get("train_r2")
    validated = last.validation_accuracy if last.validation_accuracy is not None else last.extra.get("validation_r2")
    certain = validation is not None and trained is not None and trained > validation.score.high
    if certain and trained is not None and validated is not None and trained - validated > _GAP:
        gap = f"{100 * trained:.1f} % in training, {100 * validated:.1f} % in validation"
        drops = "dropout" in network or not network.startswith("mlp")
        lines.append(f"--penalties l2:1e-4{'' if drops else ', or dropout=0.2 in the network'}: {gap}")
    if settings.get("stop") is None and last.validation_loss is not None and record.best_epoch < done:
        lines.append(
            f"--stop early:5: epoch {record.best_epoch} was better than the last one, but its weights were not kept"
        )
    if not lines:
        lines.append("weightsmith sweep train … --vary rate=0.1,0.03,0.01 --seeds 0,1,2: to find the best rate")
    return lines[:3]
