"""The candidates of a conversion, and the changes by calibration: two tables of a spiking network's description."""

from __future__ import annotations

from collections.abc import Iterator

from weightsmith.reporting.parts import Column, Shown, Table
from weightsmith.reporting.sections._wording import counted, percent, points, significant
from weightsmith.spiking.choices import Candidate, Choice
from weightsmith.spiking.results import SpikeRecord

__all__ = ["calibration_table", "choice_table", "chosen_note"]


def choice_table(record: SpikeRecord) -> Iterator[Table]:
    """All candidates on training rows, with the chosen one and the best that NIR can express marked."""
    choice = record.choice
    if choice is None:
        return
    columns = (
        Column("conversion"),
        Column("steps", numeric=True),
        Column("loss", "points, against the network on the same training rows", numeric=True),
        Column("energy", "share of the network's", numeric=True),
        Column("front", "no other is at most as costly and loses less"),
        Column("NIR", "whether it can be exported"),
        Column("taken"),
    )
    rows = tuple(_row(choice, number, candidate) for number, candidate in enumerate(choice.candidates))
    caption = (
        f"Wish: {choice.wish}. Chosen on {counted(choice.rows, 'training row')}; only the one taken saw the test rows."
    )
    yield Table("What was chosen from", columns, rows, caption, file="choice.csv")


def _row(choice: Choice, number: int, candidate: Candidate) -> tuple[str | int | Shown, ...]:
    words = [candidate.neuron, candidate.balance, *([candidate.calibrate] if candidate.calibrate else [])]
    words += [f"settle {candidate.settle}"] if candidate.settle else []
    words += [f"early {candidate.early}"] if candidate.early else []
    best = "best for NIR" if number == choice.exportable else ""
    return (
        " · ".join(words),
        candidate.steps,
        Shown(candidate.loss, points(candidate.loss, 1.0)),
        Shown(candidate.energy, significant(candidate.energy)),
        "yes" if candidate.front else "–",
        "yes" if candidate.obstacle is None else "–",
        "taken" if number == choice.taken else best or "–",
    )


def chosen_note(record: SpikeRecord) -> str | None:
    """The best candidate that NIR can express, where another was taken."""
    choice = record.choice
    if choice is None or choice.exportable == choice.taken:
        return None
    best = choice.best_exportable
    if best is None:
        return f"No candidate can be exported to NIR: {choice.chosen.obstacle}."
    return (
        f"Best that NIR can express (--for nir): {best.neuron}, {counted(best.steps, 'step')}, "
        f"{points(-best.loss, 1.0)} points on training rows, {significant(best.energy)} of the network’s energy."
    )


def calibration_table(record: SpikeRecord) -> Iterator[Table]:
    """The changes in each layer, and the mean error before and after."""
    found = record.calibration
    if found is None:
        return
    columns = (
        Column("layer"),
        Column("weights", "‖ΔW‖ ÷ ‖W‖; – if unchanged", numeric=True),
        Column("biases", "change, root mean square ÷ that of the activations", numeric=True),
        Column("error before", "of a channel's mean ÷ that of the activations, with the old biases", numeric=True),
        Column("after", "with the new ones", numeric=True),
    )
    rows = tuple(
        (
            layer.layer,
            Shown(layer.weights, "–" if layer.weights is None else percent(layer.weights)),
            Shown(layer.bias, percent(layer.bias)),
            Shown(layer.before, percent(layer.before)),
            Shown(layer.after, percent(layer.after)),
        )
        for layer in found.layers
    )
    caption = f"On {counted(found.images, 'training row')} without labels, for {counted(found.steps, 'step')}."
    taught = record.distillation
    if taught is not None:
        caption += (
            f" Distillation on {counted(taught.images, 'row')} then moved all weights: squared error of the scores on "
            f"{taught.held:,} others {percent(taught.before)} → {percent(taught.after)} of their variance"
            f"{'' if taught.kept else ', which was not used'}."
        )
    yield Table("Changes by calibration", columns, rows, caption, file="calibration.csv", detail=True)
