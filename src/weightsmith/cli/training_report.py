"""Print a finished training run: epochs, why it ended, accuracies, and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from weightsmith.cli.terminal import count_text, out, percent, table
from weightsmith.reporting._sparks import first_to_last, spark

if TYPE_CHECKING:
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.training.run import History, TrainRecord

__all__ = ["advice", "epoch_table", "show_run"]

_MOST_ROWS = 12
_BARS, _HEAD_WIDTH = 40, 21  # width of a curve, at most; width of its name
_GAP = 0.05  # gap of training over validation accuracy from which it is called overfitting
_HEADS = {
    "epoch": "epoch",
    "rate": "rate",
    "train_loss": "loss",
    "train_accuracy": "accuracy",
    "validation_loss": "validation loss",
    "validation_accuracy": "validation accuracy",
    "penalty": "penalty",
    "clipped": "clipped",
}
_SHARES = ("train_accuracy", "validation_accuracy", "clipped")


def show_run(record: TrainRecord, results: Mapping[str, Evaluation], files: Sequence[str] = ()) -> None:
    """Print a run; ``results`` are evaluations by the name of their split, ``files`` the written files."""
    console, settings = out(), record.settings
    about = [settings["optimiser"], settings["schedule"], f"batch {settings['batch']}", f"seed {settings['seed']}"]
    about += [str(settings[name]) for name in ("clip", "stop") if settings[name]] + settings["penalties"]
    console.print(
        f"[bold]{escape(settings['network'])}[/bold] on {escape(settings['data'])}  {escape(' · '.join(about))}"
    )
    trained = count_text(record.trained)
    of_all = "" if record.trained == record.parameters else f" of {count_text(record.parameters)}"
    console.print(f"{trained}{of_all} parameters trained, inputs normalised by {settings['normalise']}")
    if record.history.rows:
        console.print(epoch_table(record.history, record.best_epoch))
    for line in _findings(record, results, files):
        console.print(line)
    for number, line in enumerate(advice(record, results.get("validation"))):
        console.print(f"{'try next' if number == 0 else '':<12}{escape(line)}")


def epoch_table(history: History, best: int) -> Table:
    """The epochs, of a long run a selection: first, last, best and evenly spaced ones; the best is marked."""
    names = [name for name in history.columns if name in _HEADS or any(name in row.extra for row in history.rows)]
    heads = [_HEADS.get(name, name) for name in names]
    rows = table(*heads, "", numbers=tuple(heads))
    count = len(history.rows)
    shown = {round(index * (count - 1) / (_MOST_ROWS - 1)) for index in range(_MOST_ROWS)} | {best - 1}
    for index, row in enumerate(history.rows):
        if index in shown:
            cells = [
                _cell(name, row.value(name)) if name not in row.extra else f"{row.extra[name]:.4g}" for name in names
            ]
            rows.add_row(*cells, "← best" if row.epoch == best else "")
    return rows


def advice(record: TrainRecord, validation: Evaluation | None = None) -> list[str]:
    """At most three things to try, each with the number that supports it; a gap must be more than chance."""
    rows, settings = record.history.rows, record.settings
    if record.stopped.value == "diverged":
        return ["a tenth of the rate, --clip global-norm:1, or --find-rate to see which rates learn"]
    if record.gradients is not None and record.gradients.health.value not in ("healthy", "frozen"):
        return ["what is said of the gradients above, before anything else"]
    lines, last, done = [], rows[-1], len(rows)
    if record.stopped.value == "done" and record.best_epoch == done:
        lines.append(
            f"--epochs {2 * done} (in another folder): the {_plain(record.monitor)} was best in the last epoch"
        )
    certain = validation is not None and last.train_accuracy > validation.accuracy.high
    if certain and last.validation_accuracy is not None and last.train_accuracy - last.validation_accuracy > _GAP:
        gap = f"{100 * last.train_accuracy:.1f} % in training, {100 * last.validation_accuracy:.1f} % in validation"
        drops = "dropout" in settings["network"] or not settings["network"].startswith("mlp")
        lines.append(f"--penalty l2:1e-4{'' if drops else ', or dropout=0.2 in the network'}: {gap}")
    if settings["stop"] is None and last.validation_loss is not None and record.best_epoch < done:
        lines.append(
            f"--stop early:5: epoch {record.best_epoch} was better than the last one, and its weights are gone"
        )
    if not lines:
        lines.append("weightsmith sweep train … --vary rate=0.1,0.03,0.01 --seeds 0,1,2: is it the best rate?")
    return lines[:3]


def _findings(record: TrainRecord, results: Mapping[str, Evaluation], files: Sequence[str]) -> list[str]:
    lines = _curves(record)
    kept = "those before training" if record.restored == 0 else f"those of epoch {record.restored}"
    lines.append(f"{'ended':<12}{escape(record.reason)}; the weights are {kept}")
    if record.gradients is not None:
        lines.append(f"{'gradients':<12}{escape(record.gradients.sentence.removeprefix('gradients '))}")
    lines += [f"{'removed':<12}{escape(sentence)}" for sentence in record.removed]
    for split, result in results.items():
        interval = f"[bold]{percent(result.accuracy)}[/bold]  {count_text(result.images)} images, 95 % Wilson interval"
        lines.append(f"{split:<12}{interval}")
    if files:
        lines.append(f"{'files':<12}{escape(', '.join(files))}")
    return lines


def _curves(record: TrainRecord) -> list[str]:
    """Loss, watched measures and validation accuracy over the epochs: a sparkline, then first → last."""
    lines = []
    for name in dict.fromkeys(("train_loss", record.monitor, "validation_accuracy")):
        values = record.history.column(name)
        if sum(value is not None for value in values) > 1:
            ends = first_to_last(values, "{:.2%}" if name in _SHARES else "{:.4f}").replace("%", " %")
            lines.append(f"{escape(_HEADS.get(name, name)):<{_HEAD_WIDTH}}{spark(values, _BARS)}  {ends}")
    return lines


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name == "epoch":
        return str(value)
    if name in _SHARES:
        return f"{100 * value:.2f} %"
    return f"{value:.4g}" if name == "rate" else f"{value:.4f}"


def _plain(column: str) -> str:
    return column.replace("_", " ")
