from __future__ import annotations

import csv
import dataclasses
import io
import json
import shlex
import shutil

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.cli import spike_sweep as module
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.core.verbs import parameters
from weightsmith.reporting.describe import describe
from weightsmith.reporting.parts import Prose
from weightsmith.reporting.sections import _sweeping_findings as findings
from weightsmith.spiking.conversion.balance import Balance
from weightsmith.spiking.sweep import sweeping
from weightsmith.spiking.sweep.racing import Racing
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep

GRID = (
    *("--leaks", "1,0.9", "--resets", "soft", "--factors", "0.2,0.6", "--smoothings", "1", "--steps", "4,12"),
    *("--balance", "max-current:24,12,factor=0.5", "--rows", 24, "--test-rows", 30, "--mean-rows", 8),
    *("--race", "racing:0.1,least=8"),
)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The folder of a training run of a tiny network that is made to spike."""
    folder = tmp_path_factory.mktemp("run") / "digits"
    ready = ws.spike_ready("mlp:12")
    options = {"normalise": ready.normalisation, "optimiser": "adam", "schedule": 0.02, "epochs": 3}
    ws.train(ready.architecture, "digits", **options, out=folder)
    return folder


@pytest.fixture(scope="module")
def swept(network, tmp_path_factory):
    """What the verb gives for ``GRID``, and the folder in which it keeps its state."""
    folder = tmp_path_factory.mktemp("swept")
    record = ws.spike_sweep(
        network,
        "digits",
        leaks=(1.0, 0.9),
        resets=("soft",),
        factors=(0.2, 0.6),
        smoothings=(1.0,),
        steps=(4, 12),
        balance="max-current:24,12,factor=0.5",
        rows=24,
        test_rows=30,
        mean_rows=8,
        race="racing:0.1,least=8",
        out=folder,
    )
    return folder, record


@pytest.fixture
def expected(swept):
    return swept[1]


@pytest.fixture
def begun(swept, tmp_path):
    """A folder with all that was computed. The command goes on in it only if it asks for the same as the verb was."""
    folder = tmp_path / "begun"
    folder.mkdir()
    shutil.copy(swept[0] / "journal.jsonl", folder)
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take longer than all the rest."""
    monkeypatch.setattr(module, "_draw", lambda *_: [])


def made(gains, train=(90, 80), steps=75, seen=200):
    """A sweep at one number of steps in which, of 1,000 test images, only one of the two has so many right.

    ``gains``: (right with adjustment alone, right without alone) for leaks 1, 0.99, … in turn.
    """
    table, chosen = [], []
    for index, (only_adjusted, only_baseline) in enumerate(gains):
        base = Setting(round(1 - index / 100, 2), "soft", 0.4, None)
        adjusted = dataclasses.replace(base, factor=0.3, smoothing=2.0)
        without, with_it, plain = np.zeros((3, 1000), bool)
        without[:500] = with_it[:500] = plain[:700] = True
        with_it[500 : 500 + only_adjusted] = True
        without[1000 - only_baseline :] = True
        table += [
            SettingResult(base, seen, (train[0],), lost=False),
            SettingResult(adjusted, seen, (train[1],), lost=False),
            SettingResult(dataclasses.replace(base, factor=0.7), 48, (10,), lost=True),
        ]
        chosen.append(
            Chosen(
                leak=base.leak,
                reset="soft",
                steps=steps,
                baseline=base,
                adjusted=adjusted,
                baseline_test=wilson(int(without.sum()), 1000),
                adjusted_test=wilson(int(with_it.sum()), 1000),
                gain=mcnemar(with_it, without),
                cost=mcnemar(with_it if train[1] > train[0] else without, plain),
            )
        )
    settings = {
        **{"factors": [0.3, 0.4, 0.7], "smoothings": [0.5, 2.0], "race": "racing", "precision": "float32", "seed": 0},
        **{"encode": "poisson", "balance": "max-current", "delay": False, "mean_images": 64},
    }
    return SpikeSweep(
        settings=settings,
        network="mlp:12",
        split="test",
        train_images=seen,
        test_images=1000,
        plain=wilson(700, 1000),
        steps=(steps,),
        table=tuple(table),
        chosen=tuple(chosen),
        notes=("a note",),
        origin=Origin(seed=0),
    )


def prose(sweep):
    return " ".join(part.text for part in describe(sweep, "net") if isinstance(part, Prose))


def test_one_command_tells_what_the_verb_finds_and_writes_it(run, begun, network, expected):
    answer = run("spike-sweep", network, "--data", "digits", *GRID, "--out", begun)
    assert answer.code == 0
    assert type(wanted := expected).from_json((begun / "record.json").read_text()) == wanted
    for choice in expected.chosen:
        table = answer.out.split(f"The adjustment after {choice.steps} steps")[1]
        line = next(line for line in table.splitlines() if line.startswith(f"leak {choice.leak:g}, {choice.reset}"))
        for accuracy in (choice.baseline_test, choice.adjusted_test):
            assert f"{100 * accuracy.value:.1f} % [{100 * accuracy.low:.1f}, {100 * accuracy.high:.1f}]" in line
        assert f"{choice.adjusted.factor:g}, 1" in line
    assert "of 4 comparisons" in answer.out
    assert "if it did nothing, about 0.2 would seem to help or hurt" in answer.out
    assert sorted(path.name for path in (begun / "figures").iterdir()) == ["leaks-12.svg", "leaks-4.svg"]
    assert "spike-sweep: racing: 24 of 24" in answer.err
    assert "spike-sweep: testing: 30 of 30" in answer.err


@pytest.mark.usefixtures("undrawn")
def test_tables_hold_every_setting_and_every_choice(run, begun, network, expected):
    assert run("spike-sweep", network, *GRID, "--out", begun, "--quiet").err == ""  # the run's folder names its data
    rows = list(csv.DictReader(io.StringIO((begun / "sweep.csv").read_text())))
    assert len(rows) == 2 * 1 * 2 * 2 * 2
    found = {(*(row[name] for name in ("leak", "factor", "smoothing", "steps")),): row for row in rows}
    for result in expected.table:
        setting = result.setting
        for steps, correct in zip(expected.steps, result.correct, strict=True):
            smoothing = "" if setting.smoothing is None else str(setting.smoothing)
            row = found[str(setting.leak), str(setting.factor), smoothing, str(steps)]
            assert (int(row["correct"]), int(row["images"])) == (correct, result.seen)
            assert float(row["train_accuracy"]) == correct / result.seen
            assert row["lost"] == str(result.lost)
    assert sum(row["chosen"] == "True" for row in rows) == 8
    rows = list(csv.DictReader(io.StringIO((begun / "chosen.csv").read_text())))
    assert [float(row["gain"]) for row in rows] == [choice.gain.difference for choice in expected.chosen]
    assert [float(row["cost_low"]) for row in rows] == [choice.cost.interval.low for choice in expected.chosen]
    for row in rows:  # what is compared with the network is what was taken
        value = float(row[f"{row['taken']}_accuracy"]) - expected.plain.value
        assert value == pytest.approx(float(row["cost"]))


@pytest.mark.usefixtures("undrawn")
def test_json_from_a_finished_folder_computes_nothing_again(run, begun, network, expected, monkeypatch):
    def never(*_):
        pytest.fail("what the journal holds was computed again")

    monkeypatch.setattr(Journal, "append", never)
    again = run("spike-sweep", network, *GRID, "--out", begun, "--json", "--quiet")
    assert (again.code, again.err) == (0, "")
    report = json.loads(again.out)
    assert SpikeSweep.from_dict(report["record"]).to_json() == expected.to_json()
    assert report["adjustment"]["total"] == 4
    assert report["racing"]["runs"] - report["racing"]["saved"] == sum(result.seen for result in expected.table)
    assert [name.rpartition("/")[2] for name in report["files"][:3]] == ["record.json", "sweep.csv", "chosen.csv"]


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_sweep_says_that_it_goes_on_and_does(run, tmp_path, network, expected, monkeypatch):
    words = ("spike-sweep", network, *GRID, "--out", tmp_path / "s")
    calls, append = 0, Journal.append

    def interrupted(self, *row):
        nonlocal calls
        calls += 1
        if calls == 4 + 8 + 2:  # means, a block of images for all settings, and into the next
            raise KeyboardInterrupt
        append(self, *row)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", interrupted)
        answer = run(*words)
    assert answer.code == 130
    assert f"stopped at racing, 8 of 24; {tmp_path / 's'} keeps finished work: run again to resume" in answer.err
    assert "resuming" not in answer.err
    assert not (tmp_path / "s" / "record.json").exists()
    other = run(*words, "--seed", 1)
    assert (other.code, "resuming" in other.err) == (2, False)
    again = run(*words)
    text = f"resuming in {tmp_path / 's'}: racing was at 8 of 24 train images\nspike-sweep: balancing: "
    assert (again.code, text in again.err) == (0, True)
    assert f"already complete: read from {tmp_path / 's'}\nspike-sweep: balancing: " in run(*words).err
    assert type(wanted := expected).from_json((tmp_path / "s" / "record.json").read_text()) == wanted
    other = run(*words, "--seed", 1, "--quiet")
    assert (other.code, len(other.lines)) == (2, 1)
    assert "belongs to another call" in other.err


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (("means", 3), "means was at 3 of 4 neurons and factors"),
        (("racing", 16), "racing was at 16 of 24 train images"),
        (("testing", 8), "testing was at 8 of 360 test images"),
        (None, None),
    ],
)
def test_how_far_a_sweep_had_come(tmp_path, monkeypatch, found, line):
    monkeypatch.setattr("weightsmith.spiking.sweep.work.reached", lambda _: found)
    options = {"leaks": (1.0, 0.9), "resets": ("soft",), "factors": (0.2, 0.6), "rows": 24, "test_rows": 1000}
    result = module._begun(tmp_path, ws.data.load("digits"), options)
    assert result == (None if line is None else f"resuming in {tmp_path}: {line}")


def test_without_a_folder_an_interrupt_keeps_nothing(run, network, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeping, "spike_sweep", interrupted)
    answer = run("spike-sweep", network, *GRID)
    assert answer.code == 130
    assert "without --out nothing is kept" in answer.err


@pytest.mark.usefixtures("undrawn")
def test_the_command_it_advises_makes_that_network(run, begun, tmp_path, network, expected):
    report = json.loads(run("spike-sweep", network, *GRID, "--out", begun, "--json", "--quiet").out)
    line = next(line for line in report["try_next"] if line.startswith("weightsmith spike"))
    words = shlex.split(line.rpartition(": ")[0])[1:]
    answer = run(
        *words, "--test-rows", 30, "--watch", 0, "--json", "--quiet", "--out", tmp_path / "snn", "--figures", "none"
    )
    assert answer.code == 0
    settings = json.loads(answer.out)["record"]["settings"]
    best = max(
        (findings.taken(expected, choice) for choice in expected.chosen if choice.steps == 12),
        key=lambda setting: next(row for row in expected.table if row.setting.key == setting.key).correct[1],
    )
    assert settings["neuron"] == ("if" if best.leak == 1 else f"lif:{best.leak}")
    assert Balance.parse(settings["balance"]) == ws.MaxCurrent(24, 12, factor=0.5 * best.factor)
    assert settings["adjust"] == (None if best.smoothing is None else "l4:1.0,images=8")


def test_thresholds_alone(run, network):
    words = ("spike-sweep", network, *GRID, "--smoothings", "none", "--race", "none", "--steps", 4)
    answer = run(*words, "--quiet")
    assert answer.code == 0
    assert "The L4 adjustment was not tried" in answer.out
    assert "The adjustment after" not in answer.out
    assert "none: every setting saw all 24 training rows" in answer.out


def test_a_sweep_in_which_nothing_fires_is_to_be_looked_at(run, network):
    answer = run("spike-sweep", network, *GRID, "--factors", "1e6", "--smoothings", "none", "--quiet")
    assert (answer.code, len(answer.lines)) == (1, 1)
    assert "no setting has a single training row right after 12 steps" in answer.err


def test_where_the_adjustment_helps_is_said_plainly():
    # Bonett and Price: 40 against 10 of 1,000 is +3.0 (1.6 to 4.4), 14 against 10 leaves zero in.
    sweep = made([(40, 10), (14, 10), (3, 30), (10, 10)])
    assert [findings.verdict(choice) for choice in sweep.chosen] == ["helps", "unclear", "hurts", "unclear"]
    rows = describe(sweep, "net")["The adjustment after 75 steps"].rows
    assert [row[-1] for row in rows] == ["helps", "unclear", "hurts", "unclear"]
    assert rows[0][-3].text.startswith("+3.0 [+1.6, +4.4]")
    told = prose(sweep)
    assert "helps in 1 of 4 comparisons, hurts in 1, and is undecided in 2" in told
    assert "about 0.2 would seem to help or hurt" in told
    assert "Judged all at once (Holm’s correction), 2 remain." in told
    assert describe(sweep, "net").to_dict()["notes"] == ["a note"]


def test_where_it_neither_helps_nor_hurts():
    assert "helps in 0 of 2 comparisons, hurts in 0, and is undecided in 2" in prose(made([(10, 10), (12, 9)]))


def test_what_holds_for_all_comparisons_together():
    """p = 0.014 (20 against 7, McNemar) is below 0.05 but not below 0.05/10."""
    counted = findings.comparisons(made([(20, 7)] + 9 * [(10, 10)]))
    assert (counted.total, counted.helps, counted.hurts, counted.together) == (10, 1, 0, 0)
    assert (counted.by_chance, counted.level) == (pytest.approx(0.5), pytest.approx(0.005))
    assert findings.comparisons(made([(20, 7)])).together == 1


def test_what_racing_saved():
    sweep = made([(10, 10), (10, 10)])
    assert findings.saved(sweep) == findings.Saved(settings=6, dropped=2, runs=1200, saved=2 * 152)
    told = dict(describe(sweep, "net").chips)["racing"]
    assert told == "racing: 2 of 6 settings dropped early, 304 of 1,200 runs of an image saved"
    kept = dataclasses.replace(sweep, table=tuple(row for row in sweep.table if not row.lost))
    assert dict(describe(kept, "net").chips)["racing"] == "racing: no setting was dropped"


@pytest.mark.parametrize(("train", "taken"), [((90, 80), None), ((90, 90), None), ((80, 90), 2.0)])
def test_training_rows_decide_what_is_taken(train, taken):
    sweep = made([(40, 10)], train=train)
    assert findings.taken(sweep, sweep.chosen[0]).smoothing == taken


def test_advice_goes_beyond_the_end_that_won():
    sweep = made([(10, 10)])  # factor 0.4 won the one race, 0.3, the smallest, the other
    lines = findings.advice(sweep, ["weightsmith", "spike", "a b"], kept=True)
    assert lines[0] == "--factors smaller than 0.3: the smallest won 1 of 2 races"
    assert lines[1].startswith("weightsmith spike 'a b' --neuron if --encode poisson --balance max-current:factor=0.4 ")
    assert findings.advice(sweep, ["a"], kept=False)[-1].startswith("--out FOLDER")
    assert len(lines) == 2  # the largest smoothing is no end: beyond it nothing changes
    smallest = dataclasses.replace(sweep, settings={**sweep.settings, "smoothings": [2.0, 5.0]})
    two = dataclasses.replace(sweep, settings={**sweep.settings, "factors": [0.3, 0.4]})
    assert len(findings.advice(two, [], kept=True)) == 1  # of two factors one always wins
    assert "--smoothings smaller than 2: the smallest won 1 of 1 races" in findings.advice(smallest, [], kept=True)


def test_no_command_for_a_factor_that_the_option_cannot_say():
    sweep = made([(10, 10)])
    other = dataclasses.replace(sweep, settings={**sweep.settings, "balance": "percentile"})
    assert not any("--balance" in line for line in findings.advice(other, ["weightsmith"], kept=True))


def test_values_are_read_as_floats():
    options = parameters(sweeping.spike_sweep)
    found = options["leaks"].read("1,0.99")
    assert (found, [type(value) for value in found]) == ((1.0, 0.99), [float, float])
    assert options["resets"].read("hard, soft") == ("hard", "soft")
    assert options["smoothings"].read("None") == ()
    assert options["steps"].read("75,25") == (75, 25)
    assert options["race"].read("racing:0.1") == Racing(0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--leaks", "0"), "--leaks must be a number > 0, ≤ 1, not 0"),
        (("--leaks", "1,1.1"), "--leaks must be a number > 0, ≤ 1, not 1.1"),
        (("--leaks", ""), "--leaks needs at least 1 value(s), not 0"),
        (("--leaks", "1,a"), "--leaks must be a number > 0, ≤ 1, not 'a'"),
        (("--leaks", "true"), "--leaks must be a number > 0, ≤ 1, not True"),
        (("--leaks", "a=1"), "--leaks takes plain values"),
        (("--resets", "slow"), "--resets must be one of soft, hard, not 'slow'"),
        (("--factors", "0.5,0"), "--factors must be a number > 0, not 0"),
        (("--leaks", "0.9,0.90000000001"), "has a value twice"),
        (("--factors", "0.5,0.50"), "factors: 0.5, 0.5 has a value twice"),
        (("--smoothings", "-1"), "--smoothings must be a number ≥ 0, not -1"),
        (("--smoothings", "inf"), "finite"),
        (("--steps", "0"), "--steps must be"),
        (("--steps", ""), "--steps needs at least 1 value(s)"),
        (("--steps", "7.5"), "--steps must be a whole number"),
        (("--encode", "poison"), "did you mean 'poisson'"),
        (("--balance", "max-curent"), "did you mean 'max-current'"),
        (("--race", "racing:2"), "level must be < 0.5"),
        (("--precision", "int4"), "--precision"),
        (("--rows", 0), "--rows"),
        (("--figures", "leaks.txt"), ".svg, .png or .pdf"),
    ],
)
def test_wrong_usage_is_one_line_before_any_work(run, monkeypatch, network, words, message):
    monkeypatch.setattr("weightsmith.data.datasets.load_all", lambda *_, **__: pytest.fail("data were read"))
    answer = run("spike-sweep", network, "--data", "digits", *words)
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err


def test_places_and_files_that_will_not_do(run, tmp_path, network):
    (tmp_path / "file").touch()
    for words, code, message in (
        ((network, "--out", network), 2, "the folder of a network"),
        ((network / "network.safetensors", "--out", network), 2, "the folder of a network"),
        ((network, "--out", tmp_path / "file"), 2, "is a file"),
        ((tmp_path / "gone", "--data", "digits"), 3, "gone"),
        ((tmp_path / "gone",), 3, "gone: no such file"),
        ((network, *GRID, "--balance", "max-current:0"), 2, "images must be ≥ 1"),
    ):
        answer = run("spike-sweep", *words, "--quiet")
        assert (answer.code, len(answer.lines)) == (code, 1)
        assert message in answer.err


def test_help(run):
    answer = run("spike-sweep", "--help")
    assert answer.code == 0
    assert "--smoothings" in answer.out
