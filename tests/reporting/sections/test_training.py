"""A section of training holds the numbers of its record, and says so when there are none."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

import weightsmith as ws
from weightsmith.reporting.parts import Drawing, Table
from weightsmith.reporting.sections.training import training_section
from weightsmith.training.diagnosis.gradients import Health
from weightsmith.training.run import EpochRow, History, Stopped


@pytest.fixture(scope="module")
def data():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def record(data):
    """Three epochs with everything switched on; the hook measures numbers that a test can foretell."""

    def hook(end):
        epoch = end.row.epoch
        found = {
            "alpha": 3.0 - 0.1 * epoch,
            "alpha/dense1": 3.0 - 0.2 * epoch,
            "alpha/output": 3.0,
            "drift": 2.0**epoch,
        }
        return found | {"redundant/dense1": 0.25}

    run = ws.train(
        "mlp:16",
        data,
        optimiser="momentum",
        epochs=3,
        validation=0.2,
        penalties="l2:0.001",
        clip="global-norm:1",
        hooks=hook,
        seed=4,
    )
    return run.record


@pytest.fixture(scope="module")
def section(record, read):
    return read(training_section(record, "first try"))


@pytest.fixture(scope="module")
def bare(data, read):
    """No validation, no gradients, no penalties, no hooks."""
    record = ws.train("mlp:8", data, epochs=1, diagnose=False, seed=0).record
    return record, read(training_section(record, "bare"))


@pytest.fixture(scope="module")
def diverged(data, read):
    record = ws.train("mlp:8", data, schedule=1e30, epochs=2, seed=0).record
    assert record.stopped is Stopped.DIVERGED
    assert record.history.rows == ()
    return record, read(training_section(record, "wild"))


def test_the_lead_says_what_was_trained_on_what_and_why_it_ended(section, record):
    assert section.section.title == "Training: first try"
    lead = section.section.lead
    assert lead.startswith(f"{record.settings['network']} was trained on digits; it ran for 3 epochs, as set.")
    assert lead.endswith("The network has the weights of the last epoch.")


def test_chips_are_of_the_epoch_whose_weights_were_kept(section, record, read):
    last = record.history.rows[-1]
    plain = {name: text for name, text in section.chips.items() if not name.endswith(" by epoch")}
    assert plain == {
        "validation accuracy": f"{100 * last.validation_accuracy:.1f} %",
        "training accuracy": f"{100 * last.train_accuracy:.1f} %",
        "epochs": "3",
        "parameters": f"{64 * 16 + 16 + 16 * 10 + 10:,}",
        "gradients": "healthy",
    }
    settings = {**record.settings, "epochs": 9}
    early = replace(record, stopped=Stopped.EARLY, reason="it got worse", restored=2, settings=settings, trained=170)
    reader = read(training_section(early, "x"))
    second = record.history.rows[1]
    assert reader.chips["validation accuracy"] == f"{100 * second.validation_accuracy:.1f} %"
    assert (reader.chips["epochs"], reader.chips["of these trained"]) == ("3 of 9", "170")
    assert "it stopped early after 3 epochs, because it got worse." in reader.section.lead
    assert reader.section.lead.endswith("The network has the weights of epoch 2, the best by validation loss.")


def test_the_table_of_epochs_is_the_history(section, record):
    rows = section.table("Epochs")
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    for row, shown in zip(rows, record.history.rows, strict=True):
        assert row["training loss"] == shown.train_loss
        assert row["validation loss"] == shown.validation_loss
        assert row["training accuracy"] == shown.train_accuracy
        assert row["penalty"] == shown.penalty
        assert row["clipped"] == shown.clipped
        assert (row["alpha"], row["drift"]) == (3.0 - 0.1 * shown.epoch, 2.0**shown.epoch)
        assert "alpha/dense1" not in row
    assert section.texts("Epochs")[0]["training accuracy"] == f"{100 * record.history.rows[0].train_accuracy:.1f} %"


def test_curves_carry_the_history_without_what_has_figures_of_its_own(section, record):
    part = section.drawing("Loss, accuracy and learning rate")
    names = [name for name in record.history.columns if "/" not in name]
    assert names[0] == "epoch"
    assert "drift" in names
    assert [tuple(row.items()) for row in part.rows] == [
        tuple((name, record.history.column(name)[index]) for name in names) for index in range(3)
    ]
    loss = part.figure().axes[0]
    (line,) = [line for line in loss.get_lines() if line.get_label() == "validation"]
    assert list(line.get_ydata()) == list(record.history.column("validation_loss"))
    assert "the network overfits" in part.how
    assert "are drawn" not in part.how


def test_of_very_many_epochs_some_are_drawn_and_the_table_has_all(record, read):
    extra = {f"alpha/l{index}": 3.0 for index in range(100)}
    rows = tuple(EpochRow(epoch, 1, 0.1, 1 / epoch, 0.5, extra=extra) for epoch in range(1, 1002))
    reader = read(training_section(replace(record, history=History(rows), restored=1001), "x"))
    part = reader.drawing("α by layer")
    assert part.how.endswith(" 200 of 1,001 epochs are drawn.")
    assert [len(part.rows), part.rows[0]["epoch"], part.rows[-1]["epoch"]] == [200, 1, 1001]
    assert len(part.figure().axes[0].get_lines()[0].get_xdata()) == 200
    assert len(reader.drawing("Loss, accuracy and learning rate").rows) == 1001
    assert len(reader.table("Epochs")) == 1001


def test_of_very_many_probes_some_are_drawn(record, read):
    count = 500
    layers = tuple(
        replace(layer, sensitivity=tuple(float(n + 1) for n in range(count)), update=(0.5,) * count)
        for layer in record.gradients.layers
    )
    long = replace(record.gradients, probes=tuple(range(count)), layers=layers)
    part = read(training_section(replace(record, gradients=long), "x")).drawing("Gradients")
    assert part.how.endswith(" 60 of 500 measured steps are drawn.")
    assert len(part.rows) == 60 * len(layers)
    assert all(row["sensitivity"] == row["step"] + 1 for row in part.rows)
    assert part.rows[59]["step"] == 499
    assert part.figure().axes


def test_what_hooks_measured_is_drawn_by_group(section):
    assert section.drawings == [
        "Loss, accuracy and learning rate",
        "Penalty",
        "Clipped steps",
        "α by layer",
        "Measured after each epoch: drift",
        "Redundancy by layer",
        "Gradients",
    ]
    lines = {
        line.get_label(): list(line.get_ydata()) for line in section.drawing("α by layer").figure().axes[0].get_lines()
    }
    assert list(lines) == ["mean of all", "dense1", "output"]
    assert lines["dense1"] == pytest.approx([2.8, 2.6, 2.4])
    assert [row["redundant/dense1"] for row in section.drawing("Redundancy by layer").rows] == [0.25] * 3
    section.draw_all()


def test_a_hook_that_began_late_leaves_gaps(record, read):
    rows = [
        replace(row, extra={"late/a": 1.0, "late/late": 2.0} if row.epoch == 3 else {}) for row in record.history.rows
    ]
    reader = read(training_section(replace(record, history=History(tuple(rows))), "x"))
    assert [row["late/a"] for row in reader.drawing("Measured after each epoch: late").rows] == [None, None, 1.0]
    assert [row["late/late"] for row in reader.drawing("Measured after each epoch: late").rows] == [None, None, 2.0]
    reader.draw_all()


def test_the_diagnosis_stands_with_its_numbers(section, record):
    diagnosis = record.gradients
    (table,) = [part for part in section.of(Table) if part.title == "Gradients by layer"]
    assert table.caption == f"G{diagnosis.sentence[1:]}."
    assert section.notes == [*record.warnings, *record.notes]
    rows = section.drawing("Gradients").rows
    pairs = itertools.product(diagnosis.layers, range(len(diagnosis.probes)))
    for row, (layer, position) in zip(rows, pairs, strict=True):
        assert (row["layer"], row["step"]) == (layer.name, diagnosis.probes[position])
        assert (row["sensitivity"], row["update"]) == (layer.sensitivity[position], layer.update[position])
        assert row["sensitivity_of_reference"] == diagnosis.layers[-1].sensitivity[position]
    assert [row["because"] for row in section.table("Gradients by layer")] == [one.reason for one in diagnosis.layers]


def test_gradients_that_do_not_arrive_are_a_note(record, read):
    ill = replace(record.gradients, health=Health.VANISHING, sentence="gradients vanishing in dense1")
    reader = read(training_section(replace(record, gradients=ill, warnings=("look here",)), "x"))
    assert reader.notes[0] == "look here"
    assert reader.notes[-1] == "Gradients vanishing in dense1."
    assert reader.chips["gradients"] == "vanishing"


def test_names_from_files_are_drawn_as_text(record, hostile, read, letters_of):
    layers = tuple(replace(layer, name=hostile + layer.name) for layer in record.gradients.layers)
    shown = replace(record.gradients, layers=layers, reference=hostile + record.gradients.reference)
    rows = tuple(replace(row, extra={hostile: 1.0, f"{hostile}/{hostile}": 2.0}) for row in record.history.rows)
    section = read(training_section(replace(record, gradients=shown, history=History(rows)), hostile))
    drawn = [text for part in section.of(Drawing) for text in letters_of(part.figure())]
    assert any("=\"'>" in text for text in drawn)
    assert all(char.isprintable() or char == "\n" for text in drawn for char in text)


def test_facts_hold_settings_seed_digests_and_versions(section, record):
    facts = section.facts
    assert facts["schedule"] == record.settings["schedule"]
    assert facts["penalties"] == ", ".join(record.settings["penalties"])
    assert facts["stop"] == "–"
    assert facts["diagnose"] == "yes"
    assert facts["seed"] == "4"
    assert facts["SHA-256 of train"] == record.origin.inputs["train"]
    assert facts["SHA-256 of the trained network"] == record.network
    assert f"torch {record.origin.versions['torch']}" in facts["versions"]


def test_a_bare_run_shows_what_there_is(bare):
    record, shown = bare
    assert record.gradients is None
    assert shown.drawings == ["Loss, accuracy and learning rate"]
    assert "without a validation split" in shown.drawing("Loss, accuracy and learning rate").how
    assert set(shown.chips) == {"training accuracy", "epochs", "parameters"}
    (table,) = shown.of(Table)
    assert [column.head for column in table.columns] == ["epoch", "steps", "rate", "training loss", "training accuracy"]
    assert "it ran for 1 epoch, as set" in shown.section.lead
    shown.draw_all()


def test_a_run_that_diverged_says_so_first(diverged):
    record, shown = diverged
    assert shown.section.look_at == (record.reason,)
    assert f"it diverged after 0 epochs: {record.reason}" in shown.section.lead
    assert shown.section.lead.endswith("The network has the weights from before training.")
    assert "No epoch was finished" in shown.prose
    assert "training accuracy" not in shown.chips
    assert shown.chips["epochs"] == "0 of 2"
    shown.draw_all()


def test_an_empty_history_without_gradients_has_nothing_to_draw(diverged, read):
    record, _ = diverged
    reader = read(training_section(replace(record, gradients=None), "x"))
    assert reader.of(Drawing) == []
    assert reader.of(Table) == []
    assert reader.facts["SHA-256 of the trained network"] == record.network


def test_what_penalties_removed_is_told(record, read):
    reader = read(training_section(replace(record, removed=("3 units of dense1",)), "x"))
    assert "Removed by the penalties: 3 units of dense1." in reader.prose


def test_a_single_epoch_can_be_drawn(record, read):
    row = EpochRow(1, 5, 0.1, 0.0, 1.0, extra={"alpha/a": 2.0})
    read(training_section(replace(record, history=History((row,)), best_epoch=1, restored=1), "x")).draw_all()


def test_curves_are_bars_with_their_ends(record):
    rows = tuple(
        replace(record.history.rows[0], epoch=n, train_loss=loss, validation_accuracy=0.875)
        for n, loss in enumerate((0.5, 0.25, 0.375), 1)
    )
    changed = replace(record, history=History(rows), monitor="train_loss", best_epoch=2)
    chips = dict(training_section(changed, "x").chips)
    assert chips["training loss by epoch"] == "█▁▅  0.5000 → 0.3750"  # 3.5 of 7 steps up is rounded to the even 4
    assert chips["validation accuracy by epoch"] == "▁▁▁  87.5 % → 87.5 %"


def test_a_terminal_is_shown_first_last_and_best_epoch(record):
    row = record.history.rows[0]
    history = History(tuple(replace(row, epoch=n) for n in range(1, 101)))
    table = training_section(replace(record, history=history, best_epoch=37), "x")["Epochs"]
    assert {0, 36, 99} <= set(table.brief)
    assert len(table.brief) <= 13
    assert len(table.rows) == 100


def test_evaluations_stand_with_their_rows(record):
    evaluation = ws.evaluate(ws.networks.mlp(64, 8, 10), "digits")
    chips = dict(training_section(record, "x", results={"test": evaluation}).chips)
    assert chips["accuracy in test"].endswith(f" of {evaluation.images} rows (test)")
