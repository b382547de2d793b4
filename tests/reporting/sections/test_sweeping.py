"""The section of a sweep holds every setting, what was chosen, and whether the adjustment helps."""

from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith.core.statistics import holm, mcnemar
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice
from weightsmith.reporting.sections import sweeping as tables
from weightsmith.reporting.sections.sweeping import sweep_section
from weightsmith.spiking.sweep.results import SpikeSweep


@pytest.fixture(scope="module")
def network():
    run = ws.train("mlp:20,bias=false", "digits", optimiser="adam", schedule=0.01, epochs=3)
    return run.network


@pytest.fixture(scope="module")
def sweep(network) -> SpikeSweep:
    grid = {"leaks": (0.9, 1.0), "resets": ("soft", "hard"), "factors": (0.5, 1.0), "smoothings": (1.0,)}
    return ws.spike_sweep(network, "digits", **grid, steps=(6, 12), rows=60, test_rows=100)


@pytest.fixture(scope="module")
def bare(network) -> SpikeSweep:
    """A single number of steps, nothing adjusted."""
    grid = {"leaks": (0.9, 1.0), "resets": ("soft",), "factors": (0.5, 1.0), "smoothings": ()}
    return ws.spike_sweep(network, "digits", **grid, steps=8, rows=40, test_rows=50)


def right(sweep, setting, steps):
    (found,) = [result for result in sweep.table if result.setting.key == setting.key]
    return found.correct[sweep.steps.index(steps)]


def best_of(sweep):
    """The winner after most steps that was right most often on training images, with its test accuracy."""
    last = [choice for choice in sweep.chosen if choice.steps == 12]
    pairs = []
    for choice in last:
        pairs.append((right(sweep, choice.baseline, 12), 0, choice.baseline, choice.baseline_test, choice))
        pairs.append((right(sweep, choice.adjusted, 12), -1, choice.adjusted, choice.adjusted_test, choice))
    return max(pairs, key=lambda pair: pair[:2])[2:]


def test_the_lead_and_chips_tell_the_best_setting(sweep, read):
    setting, test, choice = best_of(sweep)
    section = sweep_section(sweep, "leaks")
    assert section.title == "Spiking sweep: leaks"
    assert section.lead.startswith(
        "16 settings of mlp:20,bias=false as a spiking network were tried on 60 training images, and the best of each "
        "neuron tested once on 100 images (test). The most accurate one after 12 steps (leak "
        f"{setting.leak:g}, {setting.reset} reset, thresholds × {setting.factor:g}"
    )
    assert f"reaches {100 * test.value:.1f} %, the network {100 * sweep.plain.value:.1f} %" in section.lead
    chips = read(section).chips
    ends = f"{100 * test.value:.1f} % [{100 * test.low:.1f}, {100 * test.high:.1f}]"
    assert chips["best, after 12 steps"] == f"{ends} of 100 rows (test)"
    assert chips["threshold factor"] == f"{setting.factor:g}"
    assert not any(result.lost for result in sweep.table)
    assert chips["racing"] == "racing: no setting was dropped"
    assert choice.steps == 12


def test_each_number_of_steps_has_figures_and_winners(sweep, read):
    reader = read(sweep_section(sweep, "x"))
    (choice,) = reader.of(Choice)
    assert [label for label, _ in choice.options] == ["after 6 steps", "after 12 steps"]
    assert choice.first == 1
    assert reader.drawings == [
        f"Accuracy against {what} after {steps} steps" for steps in (6, 12) for what in ("leak", "leak and threshold")
    ]
    reader.draw_all()


def test_a_single_number_of_steps_is_no_choice_and_what_was_not_adjusted_is_not_compared(bare, read):
    reader = read(sweep_section(bare, "x"))
    assert reader.of(Choice) == []
    assert reader.drawings == [
        "Accuracy against leak after 8 steps",
        "Accuracy against leak and threshold after 8 steps",
    ]
    titles = [getattr(part, "title", "") for part in reader.parts]
    assert not any(title.startswith("The adjustment") for title in titles)
    assert reader.prose == "The L4 adjustment was not tried: no smoothings were swept."
    assert [row["smoothing"] for row in reader.texts("Chosen after 8 steps")] == ["none", "none"]
    reader.draw_all()


def test_the_winners_are_those_of_the_record(sweep, read):
    reader = read(sweep_section(sweep, "x"))
    choices = [choice for choice in sweep.chosen if choice.steps == 12]
    costs = holm([choice.cost.p for choice in choices])
    for row, choice, p in zip(reader.table("Chosen after 12 steps"), choices, costs, strict=True):
        adjusted = right(sweep, choice.adjusted, 12) > right(sweep, choice.baseline, 12)
        setting, test = (choice.adjusted, choice.adjusted_test) if adjusted else (choice.baseline, choice.baseline_test)
        assert row["neuron"] == f"leak {choice.leak:g}, {choice.reset}"
        assert (row["factor"], row["smoothing"]) == (setting.factor, setting.smoothing)
        assert row["accuracy"] == test.value
        assert (row["cost"], row["p"]) == (choice.cost.difference, p)
    gains = holm([choice.gain.p for choice in choices])
    for row, choice, p in zip(reader.table("The adjustment after 12 steps"), choices, gains, strict=True):
        assert (row["baseline"], row["adjusted"]) == (choice.baseline_test.value, choice.adjusted_test.value)
        assert (row["gain"], row["p"]) == (choice.gain.difference, p)


def gaining(sweep, only_adjusted, only_baseline):
    """The sweep with this comparison of adjusted and baseline everywhere."""
    spare = 100 - only_adjusted - only_baseline
    adjusted = [1] * only_adjusted + [0] * only_baseline + [1] * spare
    baseline = [0] * only_adjusted + [1] * only_baseline + [1] * spare
    gain = mcnemar(adjusted, baseline)
    return dataclasses.replace(sweep, chosen=tuple(dataclasses.replace(choice, gain=gain) for choice in sweep.chosen))


@pytest.mark.parametrize(
    ("counts", "word", "message"),
    [
        ((30, 2), "helps", "helps in 8 of 8 comparisons, hurts in 0, and is undecided in 0"),
        ((2, 30), "hurts", "helps in 0 of 8 comparisons, hurts in 8, and is undecided in 0"),
        ((5, 4), "unclear", "helps in 0 of 8 comparisons, hurts in 0, and is undecided in 8"),
    ],
)
def test_the_adjustment_helps_only_where_the_interval_leaves_out_zero(sweep, read, counts, word, message):
    reader = read(sweep_section(gaining(sweep, *counts), "x"))
    assert {row["adjustment"] for row in reader.table("The adjustment after 6 steps")} == {word}
    assert message in reader.prose
    assert "about 0.4 would seem to help or hurt" in reader.prose
    remain = "none" if word == "unclear" else 8
    assert f"(Holm’s correction), {remain} remain." in reader.prose


def test_every_setting_has_a_row(sweep, read):
    chosen = {
        setting.key for choice in sweep.chosen for setting in (choice.baseline, choice.adjusted) if setting is not None
    }
    rows = read(sweep_section(sweep, "x")).table("All settings")
    for number, (row, result) in enumerate(zip(rows, sweep.table, strict=True), 1):
        setting = result.setting
        assert (row["setting"], row["leak"], row["reset"]) == (number, setting.leak, setting.reset)
        assert (row["factor"], row["smoothing"]) == (setting.factor, setting.smoothing)
        assert row["after 12 steps"] == result.correct[1] / result.seen
        assert row["images"] == result.seen
        assert (row["outcome"] == "chosen") == (setting.key in chosen)


def test_of_very_many_settings_the_best_are_listed(monkeypatch, sweep, read):
    monkeypatch.setattr(tables, "MOST_ROWS", 5)
    reader = read(sweep_section(sweep, "x"))
    rows = reader.table("All settings")
    shares = sorted((result.correct[-1] / result.seen for result in sweep.table), reverse=True)
    assert sorted((row["after 12 steps"] for row in rows), reverse=True) == shares[:5]
    assert [row["setting"] for row in rows] == sorted(row["setting"] for row in rows)
    (caption,) = [part.caption for part in reader.parts if getattr(part, "title", "") == "All settings"]
    assert caption == "The 5 best of 16 settings."


def test_the_rows_of_the_figures_are_the_points(sweep, read):
    reader = read(sweep_section(sweep, "x"))
    rows = reader.drawing("Accuracy against leak after 6 steps").rows
    choices = [choice for choice in sweep.chosen if choice.steps == 6]
    plain = [row["accuracy"] for row in rows if row["adjusted"] == "no"]
    assert plain == pytest.approx([choice.baseline_test.value for choice in choices], rel=1e-5)
    gains = [row["difference"] for row in rows if row["adjusted"] == "yes"]
    assert gains == pytest.approx([choice.gain.difference for choice in choices], rel=1e-5)
    rows = reader.drawing("Accuracy against leak and threshold after 6 steps").rows
    found = [row["accuracy"] for row in rows]
    assert found == pytest.approx([result.correct[0] / result.seen for result in sweep.table], rel=1e-5)


def test_what_must_be_looked_at_is_noted(bare, read):
    silent = tuple(dataclasses.replace(result, correct=(0,)) for result in bare.table)
    changed = dataclasses.replace(bare, table=silent, split="train", notes=("a note",))
    reader = read(sweep_section(changed, "x"))
    (concern,) = reader.section.look_at
    assert concern.startswith("no setting has a single training row right after 8 steps")
    first, second = reader.notes
    assert first == "a note"
    assert "tested on the training images" in second


def test_the_facts_hold_settings_and_digests(sweep, read):
    facts = read(sweep_section(sweep, "x")).facts
    assert facts["leaks"] == "0.9, 1.0"
    assert facts["steps"] == "6, 12"
    assert facts["SHA-256 of network"] == sweep.origin.inputs["network"]


def test_names_cannot_act(bare, hostile):
    def renamed(setting):
        return dataclasses.replace(setting, reset=hostile)

    table = tuple(dataclasses.replace(result, setting=renamed(result.setting)) for result in bare.table)
    chosen = tuple(
        dataclasses.replace(choice, reset=hostile, baseline=renamed(choice.baseline)) for choice in bare.chosen
    )
    changed = dataclasses.replace(bare, table=table, chosen=chosen, network=hostile, split=hostile, notes=(hostile,))
    page = render(hostile, [sweep_section(changed, hostile)])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
