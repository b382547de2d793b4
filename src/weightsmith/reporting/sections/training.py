"""The section of a training run: settings, curves, why it ended, and the gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.target_evaluation import RegressionEvaluation
from weightsmith.reporting._sparks import first_to_last, spark
from weightsmith.reporting.figures.gradients import gradient_figure
from weightsmith.reporting.figures.spiking._panels import spread
from weightsmith.reporting.figures.training import curves, watched_figure
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._training_findings import advice, unlearnt
from weightsmith.reporting.sections._wording import accuracy, counted, facts_of, percent, setting_text
from weightsmith.training.diagnosis.gradients import GradientDiagnosis
from weightsmith.training.run import EpochRow, History, Stopped, TrainRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["training_section"]


_COLUMNS = {
    "epoch": Column("epoch", numeric=True),
    "steps": Column("steps", "updates of the weights in the epoch", numeric=True, spare=1),
    "rate": Column("rate", "learning rate of the last step", numeric=True),
    "train_loss": Column("training loss", "mean per image, while the weights moved", numeric=True),
    "train_accuracy": Column("training accuracy", "on the batches, while the weights moved", numeric=True),
    "validation_loss": Column("validation loss", "mean per image after the epoch", numeric=True),
    "validation_accuracy": Column("validation accuracy", "after the epoch", numeric=True),
    "train_r2": Column("training R²", "on the batches, while the weights moved", numeric=True),
    "validation_r2": Column("validation R²", "after the epoch", numeric=True),
    "penalty": Column("penalty", "what the penalties add to the loss", numeric=True),
    "clipped": Column("clipped", "share of steps whose gradient was clipped", numeric=True),
}
_MOST_VALUES, _FEWEST_EPOCHS = 20_000, 50  # values of one figure; if there are more, epochs are thinned evenly
_FEW_EPOCHS, _BARS = 12, 40  # epochs in a terminal's table; bars of a curve, at most
_SHARES = ("train_accuracy", "validation_accuracy", "train_r2", "validation_r2", "clipped")
_MEASURED = {
    "alpha": (
        "α by layer",
        "α",
        "each line is the exponent α of a layer’s spectrum, and layers between "
        f"{HEAVIEST:g} and {LIGHTEST:g} (shaded) count as well trained; α has no interval here, so a drift "
        "over many epochs matters, a single jump does not",
    ),
    "redundant": (
        "Redundancy by layer",
        "share of redundant units",
        "each line is the share of a layer’s units that do what another unit does; where it stays above zero, "
        "the layer is wide enough, and can be made smaller",
    ),
}
"""Measures of the pipeline's hooks, by the word before the slash: title, axis and how to read it."""


def training_section(
    record: TrainRecord, name: str, *, results: Mapping[str, Evaluation | RegressionEvaluation] | None = None
) -> Section:
    """The description of a run named ``name``; ``results`` are evaluations by the name of their split."""
    rows, evaluated = record.history.rows, results or {}
    parts: list[Part] = [*_notes(record)]
    if rows:
        parts += [_curves(record, name), *_steps(record, name), *_measured(record, name)]
    else:
        parts.append(Prose("No epoch was finished: there is nothing to draw."))
    if record.gradients is not None:
        parts += _gradient_parts(record.gradients, name)
    if rows:
        parts.append(_epochs(record, name))
    if record.removed:
        parts.append(Prose("Removed by the penalties: " + "; ".join(record.removed) + "."))
    after = [("SHA-256 of the trained network", record.network)]
    parts.append(facts_of(record.settings, record.origin, after=after))
    return Section(
        f"Training: {name}",
        _lead(record),
        tuple(parts),
        (*_accuracies(evaluated), *_chips(record, evaluated), *_sparks(record)),
        _about(record),
        (record.reason,) if record.stopped is Stopped.DIVERGED else unlearnt(record),
        tuple(advice(record, evaluated.get("validation"))),
    )


def _about(record: TrainRecord) -> str:
    """The settings in which runs differ most often."""
    settings = record.settings
    keys = ("optimiser", "schedule", "clip", "stop", "penalties")
    words = [setting_text(settings[key]) for key in keys if settings.get(key)]
    words += [f"batch {settings.get('batch')}", f"seed {record.origin.seed}"]
    return " · ".join([*words, f"inputs normalised by {settings.get('normalise')}"])


def _accuracies(results: Mapping[str, Evaluation | RegressionEvaluation]) -> list[tuple[str, str]]:
    return [
        (
            f"{'R²' if isinstance(result, RegressionEvaluation) else 'accuracy'} in {split}",
            accuracy(result.score, result.images, split),
        )
        for split, result in results.items()
    ]


def _sparks(record: TrainRecord) -> Iterator[tuple[str, str]]:
    """Loss, the watched measure and validation accuracy over the epochs: bars, then first → last."""
    for name in dict.fromkeys(("train_loss", record.monitor, "validation_accuracy", "validation_r2")):
        values = record.history.column(name) if name in record.history.columns else ()
        if sum(value is not None for value in values) > 1:
            ends = first_to_last(values, "{:.1%}" if name in _SHARES else "{:.4f}").replace("%", " %")
            head = _COLUMNS[name].head if name in _COLUMNS else name
            yield f"{head} by epoch", f"{spark(values, _BARS, ascii_only=False)}  {ends}"


def _lead(record: TrainRecord) -> str:
    settings, done = record.settings, counted(len(record.history), "epoch")
    what = f"{settings.get('network', 'The network')} was trained on {settings.get('data', 'data')}"
    ended = {
        Stopped.DONE: f"it ran for {done}, as set",
        Stopped.EARLY: f"it stopped early after {done}, because {record.reason}",
        Stopped.DIVERGED: f"it diverged after {done}: {record.reason}",
    }[record.stopped]
    return f"{what}; {ended}. {_weights(record)}"


def _weights(record: TrainRecord) -> str:
    """The epoch of the final weights."""
    if record.restored == 0:
        return "The network has the weights from before training."
    if record.restored == len(record.history):
        return "The network has the weights of the last epoch."
    by = record.monitor.replace("_", " ").replace("train ", "training ")
    return f"The network has the weights of epoch {record.restored}, the best by {by}."


def _chips(
    record: TrainRecord, evaluated: Mapping[str, Evaluation | RegressionEvaluation]
) -> tuple[tuple[str, str], ...]:
    """Accuracies of the epoch whose weights were kept, unless evaluated since, and sizes."""
    kept = next((row for row in record.history.rows if row.epoch == record.restored), None)
    chips = []
    if kept is not None and kept.validation_accuracy is not None and "validation" not in evaluated:
        chips.append(("validation accuracy", percent(kept.validation_accuracy)))
    if kept is not None and kept.train_accuracy is not None:
        chips.append(("training accuracy", percent(kept.train_accuracy)))
    if kept is not None and "train_r2" in kept.extra:
        chips.append(("training R²", percent(kept.extra["train_r2"])))
    asked = record.settings.get("epochs")
    of = f" of {asked:,}" if isinstance(asked, int) and asked != len(record.history) else ""
    chips += [("epochs", f"{len(record.history):,}{of}"), ("parameters", f"{record.parameters:,}")]
    if record.trained != record.parameters:
        chips.append(("of these trained", f"{record.trained:,}"))
    if record.gradients is not None:
        chips.append(("gradients", record.gradients.health.value))
    return tuple(chips)


def _notes(record: TrainRecord) -> Iterator[Notes]:
    """Warnings, divergence, and gradients that do not arrive."""
    lines = [*record.warnings, *record.notes]
    if record.gradients is not None and _needs_attention(record.gradients):
        lines.append(_gradient_sentence(record.gradients))
    if lines:
        yield Notes(tuple(lines))


def _drawn(history: History, columns: Sequence[str]) -> tuple[History, list[dict[str, Cell]], str]:
    """The drawn epochs, these columns of them as rows, and a sentence if epochs were left out."""
    most = max(_MOST_VALUES // max(len(columns), 1), _FEWEST_EPOCHS)
    some = History(tuple(history.rows[index] for index in spread(len(history), most)))
    values = {column: some.column(column) for column in columns}
    rows: list[dict[str, Cell]] = [
        {"epoch": row.epoch, **{column: cells[index] for column, cells in values.items()}}
        for index, row in enumerate(some.rows)
    ]
    remark = f" {len(some):,} of {len(history):,} epochs are drawn." if len(some) < len(history) else ""
    return some, rows, remark


def _plain_columns(history: History) -> list[str]:
    """All columns but those per layer, which have their own figures, because there may be hundreds."""
    return [column for column in history.columns if column in _COLUMNS or "/" not in column]


def _curves(record: TrainRecord, name: str) -> Drawing:
    best = record.best_epoch or None
    how = (
        "How to read it: both losses should fall together; where the training loss keeps falling while the "
        "validation loss rises, the network overfits. The dashed line is the best epoch."
        if any(row.validation_loss is not None for row in record.history.rows)
        else "How to read it: the loss should fall and level off; without a validation split the curves cannot show "
        "overfitting."
    )
    some, rows, remark = _drawn(record.history, _plain_columns(record.history))
    return Drawing(
        f"Loss, {'R²' if 'train_r2' in record.history.columns else 'accuracy'} and learning rate",
        how + remark,
        lambda: curves(some, best=best),
        rows,
        file=f"{name}-history",
    )


def _steps(record: TrainRecord, name: str) -> Iterator[Drawing]:
    """Penalties and clipping, if there were any."""
    known = record.history.columns
    if "penalty" in known:
        yield _watched(
            record,
            (
                "Penalty",
                "penalty",
                "what the penalties add to the loss; it may rise while the weights grow, and levels off where "
                "its cost outweighs the gain from larger weights",
            ),
            {"penalty": "penalty"},
            f"{name}-penalty",
        )
    if "clipped" in known:
        how = (
            "the share of steps whose gradient was clipped; a line that stays near 1 means that the limit sets the step"
        )
        yield _watched(record, ("Clipped steps", "share of steps", how), {"clipped": "clipped"}, f"{name}-clipped")


def _measured(record: TrainRecord, name: str) -> Iterator[Drawing]:
    """Measures of hooks: one figure for all columns that begin with the same word, one for each of the others."""
    own = set(_COLUMNS)
    groups: dict[str, dict[str, str]] = {}
    for column in record.history.columns:
        if column not in own:
            group, slash, line = column.partition("/")
            groups.setdefault(group, {})[column] = line if slash else "mean of all" if group == "alpha" else group
    for group, lines in groups.items():
        how = "each line was measured by a hook after every epoch"
        words = _MEASURED.get(group, (f"Measured after each epoch: {group}", group, how))
        yield _watched(record, words, lines, f"{name}-{group}", band=(HEAVIEST, LIGHTEST) if group == "alpha" else None)


def _watched(
    record: TrainRecord,
    words: tuple[str, str, str],
    lines: dict[str, str],
    file: str,
    *,
    band: tuple[float, float] | None = None,
) -> Drawing:
    title, quantity, how = words
    some, rows, remark = _drawn(record.history, list(lines))

    def figure() -> Figure:
        return watched_figure(some, lines, quantity, band=band)

    return Drawing(title, f"How to read it: {how}.{remark}", figure, rows, file=file)


def _epochs(record: TrainRecord, name: str) -> Table:
    shown = _plain_columns(record.history)
    columns = tuple(_COLUMNS.get(column, Column(column, "measured by a hook", numeric=True)) for column in shown)
    rows = tuple(tuple(_cell(row, column) for column in shown) for row in record.history.rows)
    few = sorted({*spread(len(rows), _FEW_EPOCHS), record.best_epoch - 1} - {-1})
    caption = (
        f"The best by {record.monitor.replace('_', ' ')} was epoch {record.best_epoch}." if record.best_epoch else ""
    )
    return Table("Epochs", columns, rows, caption, file=f"{name}-epochs", brief=tuple(few))


def _cell(row: EpochRow, name: str) -> Cell | Shown:
    value = row.extra.get(name) if name in row.extra or name not in _COLUMNS else row.value(name)
    return Shown(value, percent(value)) if name in _SHARES else value


# The gradient diagnosis: whether gradients reach every layer.


_MOST_READINGS, _MOST_PROBES = 2_000, 60  # of the figure: a line is a step, and hundreds would not be distinguishable


def _needs_attention(diagnosis: GradientDiagnosis) -> bool:
    """Whether the diagnosis leads to a note."""
    return diagnosis.health.calls_for_action


def _gradient_sentence(diagnosis: GradientDiagnosis) -> str:
    """A summary sentence over all layers."""
    return f"{diagnosis.sentence[0].upper()}{diagnosis.sentence[1:]}."


def _gradient_parts(diagnosis: GradientDiagnosis, name: str) -> list[Part]:
    """The figure of the run ``name``, and a table of the verdict on each layer."""
    columns = (
        Column("layer", "in the order of the forward pass"),
        Column("gradients", "the verdict on them"),
        Column("because", "the numbers behind it"),
    )
    rows = tuple((layer.name, layer.health.value, layer.reason) for layer in diagnosis.layers)
    caption = _gradient_sentence(diagnosis)
    return [
        _drawing(diagnosis, name),
        Table("Gradients by layer", columns, rows, caption, file=f"{name}-gradients-by-layer"),
    ]


def _drawing(diagnosis: GradientDiagnosis, name: str) -> Drawing:
    some = _at(diagnosis, spread(len(diagnosis.probes), _steps_drawn(diagnosis)))
    reference = next((layer for layer in some.layers if layer.name == some.reference), None)
    rows: list[dict[str, Cell]] = [
        {
            "layer": layer.name,
            "step": step,
            "sensitivity": layer.sensitivity[index],
            "sensitivity_of_reference": None if reference is None else reference.sensitivity[index],
            "update": layer.update[index],
            "health": layer.health.value,
        }
        for layer in some.layers
        for index, step in enumerate(some.probes)
    ]
    how = (
        "How to read it: each line is a step, the later the darker; marks in the shaded bands are layers with "
        "vanishing or exploding gradients, or whose weights change by more than their own norm in one step."
    )
    if len(some.probes) < len(diagnosis.probes):
        how += f" {len(some.probes):,} of {len(diagnosis.probes):,} measured steps are drawn."
    return Drawing("Gradients", how, lambda: gradient_figure(some), rows, file=f"{name}-gradients")


def _steps_drawn(diagnosis: GradientDiagnosis) -> int:
    return min(_MOST_PROBES, max(_MOST_READINGS // len(diagnosis.layers), 2))


def _at(diagnosis: GradientDiagnosis, indices: Sequence[int]) -> GradientDiagnosis:
    """The diagnosis with the readings of some probes only; the verdicts are based on all of them."""
    layers = tuple(
        replace(
            layer,
            sensitivity=tuple(layer.sensitivity[index] for index in indices),
            update=tuple(layer.update[index] for index in indices),
        )
        for layer in diagnosis.layers
    )
    return replace(diagnosis, probes=tuple(diagnosis.probes[index] for index in indices), layers=layers)
