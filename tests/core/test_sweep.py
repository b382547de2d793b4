from __future__ import annotations

import csv
import functools
import io
import json
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from weightsmith.core.errors import OptionError, UnknownName, UsageError, WeightsmithError, WorkerLost
from weightsmith.core.journal import read_journal
from weightsmith.core.options import Option, param
from weightsmith.core.records import Record
from weightsmith.core.sweep import SweepTable, grid, sweep


class Rate(Option):
    """A family for these tests."""


class Falling(Rate, name="falling"):
    start: float = param(gt=0)
    steps: int = param(default=10, ge=1)


@dataclass(frozen=True, eq=False)
class Score(Record):
    accuracy: float
    note: str | None = None


def noisy(seed, rate, width=1):
    """A result that depends on every argument, through a stream of its own."""
    from weightsmith.core.seeds import stream

    draw = stream(seed, "noisy", str(rate), width).normal()
    return {"accuracy": float(draw) / 3, "size": width * 10, "good": bool(draw > 0), "note": None}


def by_value():
    """``noisy`` made anew, so that it travels by value and no worker has to import this file."""

    def noisy(seed, rate, width=1):
        from weightsmith.core.seeds import stream

        draw = stream(seed, "noisy", str(rate), width).normal()
        return {"accuracy": float(draw) / 3, "size": width * 10, "good": bool(draw > 0), "note": None}

    return noisy


SETTINGS = grid(rate=[0.1, 0.01], width=[1, 2, 3])


# Grid


def test_the_last_name_runs_fastest():
    assert grid(a=[1, 2], b=["xy"], c=range(2)) == (
        {"a": 1, "b": "xy", "c": 0},
        {"a": 1, "b": "xy", "c": 1},
        {"a": 2, "b": "xy", "c": 0},
        {"a": 2, "b": "xy", "c": 1},
    )
    assert grid() == ({},)


def test_a_grid_of_one_value_or_none_is_refused_by_name():
    with pytest.raises(UsageError, match=r"rate must be a list of values, not 0.1; for one value write \[0.1\]"):
        grid(rate=0.1)
    with pytest.raises(UsageError, match="kind must be a list of values, not 'relu'"):
        grid(kind="relu")
    with pytest.raises(UsageError, match="rate has no values"):
        grid(rate=[])


# Table


def test_rows_are_settings_times_seeds_in_order():
    table = sweep(noisy, SETTINGS, seeds=[3, 1])
    assert table.columns == ("rate", "width", "seed", "accuracy", "size", "good", "note")
    assert table.names == ("rate", "width")
    assert table.column("seed") == (3, 1) * 6
    assert table.column("width") == (1, 1, 2, 2, 3, 3) * 2
    for row in table.rows:
        expected = noisy(row["seed"], row["rate"], row["width"])
        assert {name: row[name] for name in expected} == expected
    assert table.function.endswith("test_sweep.noisy")
    assert set(table.origin.versions) >= {"weightsmith", "torch", "numpy"}


def test_the_table_survives_json_and_csv():
    table = sweep(noisy, SETTINGS, seeds=range(2))
    assert SweepTable.from_json(table.to_json()) == table
    head, *rows = csv.reader(io.StringIO(table.to_csv()))
    assert tuple(head) == table.columns
    assert [float(row[3]) for row in rows] == list(table.column("accuracy"))  # repr keeps every bit
    assert [row[5] for row in rows] == [str(good).lower() for good in table.column("good")]
    assert {row[6] for row in rows} == {""}


def test_options_and_lists_are_handed_over_as_they_are_and_written_as_text():
    seen = []

    def train(seed, rate, widths):
        seen.append((rate, widths))
        return Score(accuracy=np.float32(0.5).item())

    table = sweep(train, grid(rate=[Falling(0.1), Falling(1, steps=3)], widths=[(300, 100)]))
    assert seen == [(Falling(0.1), (300, 100)), (Falling(1, steps=3), (300, 100))]
    assert table.column("rate") == ("falling:0.1", "falling:1.0,steps=3")
    assert table.column("widths") == ("[300,100]", "[300,100]")
    assert table.columns == ("rate", "widths", "seed", "accuracy", "note")


def test_numpy_scalars_become_plain_numbers():
    table = sweep(lambda seed, rate: {"a": np.float64(rate), "n": np.int64(3), "b": np.bool_(True)}, grid(rate=[0.5]))
    (row,) = table.rows
    assert [type(row[name]) for name in ("a", "n", "b")] == [float, int, bool]


def test_the_summary_is_students_over_the_seeds():
    table = sweep(noisy, SETTINGS, seeds=range(5))
    found = table.summary("accuracy")
    assert [summary.setting for summary in found] == list(SETTINGS)
    for summary in found:
        values = [noisy(seed, **summary.setting)["accuracy"] for seed in range(5)]
        low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
        assert (summary.mean, summary.deviation) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
        assert summary.interval is not None
        assert (summary.interval.low, summary.interval.high) == pytest.approx((low, high))
        assert (summary.n, summary.missing) == (5, 0)


def test_the_summary_by_some_columns_pools_the_others():
    table = sweep(noisy, SETTINGS, seeds=range(2))
    found = table.summary("size", by=["rate"])
    assert [(summary.setting, summary.n, summary.mean) for summary in found] == [
        ({"rate": 0.1}, 6, 20.0),
        ({"rate": 0.01}, 6, 20.0),
    ]
    (whole,) = table.summary("good", by=())
    assert whole.mean == np.mean(table.column("good"))


def test_the_summary_counts_what_is_missing_and_does_not_average_it():
    def train(seed, rate):
        return {"alpha": None if seed < rate else float(seed)}

    one, two, three = sweep(train, grid(rate=[1, 2, 3]), seeds=range(3)).summary("alpha")
    assert (one.n, one.missing, one.mean) == (2, 1, 1.5)
    assert (two.n, two.missing, two.mean, two.deviation, two.interval) == (1, 2, 2.0, None, None)
    assert (three.n, three.missing, three.mean) == (0, 3, None)


def test_true_and_one_are_different_settings():
    found = sweep(lambda seed, flag: {"value": 1.0}, grid(flag=[1, True])).summary("value")
    assert [summary.setting["flag"] for summary in found] == [1, True]
    assert len(found) == 2


def test_columns_are_asked_for_by_name():
    table = sweep(noisy, SETTINGS)
    with pytest.raises(UnknownName, match="did you mean 'accuracy'"):
        table.column("acuracy")
    with pytest.raises(UnknownName, match="unknown column 'depth'"):
        table.summary("accuracy", by=["depth"])
    with pytest.raises(UsageError, match="column 'kind' holds 'a': only numbers can be summarised"):
        sweep(lambda seed, kind: {}, grid(kind=["a"])).summary("kind")


# Refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "needs settings and seeds, not 0 setting"),
        ([{"seed": 1}], "'seed' cannot be part of a setting"),
        ([{"rate": 1}, {"width": 1}], "same names, not rate and width"),
        ([{"rate": 1}, {"rate": 1}], "holds rate=1, seed=0 twice"),
        ([{"rate": float("nan")}], "setting rate is nan"),
        ([{"rate": object()}], "setting rate is a object"),
        ([{"rate": [1, [2]]}], r"setting rate\[1\] is a list"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(settings, words):
    with pytest.raises(UsageError, match=words):
        sweep(lambda **_: pytest.fail("called"), settings)


@pytest.mark.parametrize("seeds", [[-1], [0.5], ["0"], [None]])
def test_wrong_seeds_are_refused(seeds):
    with pytest.raises(OptionError, match="seed must be a whole number ≥ 0"):
        sweep(noisy, SETTINGS, seeds=seeds)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"a": float("inf")}, "the result 'a' is inf"),
        ({"a": [1]}, "the result 'a' is a list"),
        ({"rate": 1}, "the name 'rate'"),
        ({"seed": 1}, "the name 'seed'"),
        ({1: 1}, "the name 1"),
        (3, "returned a int"),
    ],
)
def test_wrong_results_are_refused_with_their_setting(result, words):
    with pytest.raises(WeightsmithError, match=f"stopped at rate=2, seed=0: UsageError: .*{words}"):
        sweep(lambda seed, rate: result, grid(rate=[2]))


def test_rows_with_other_columns_are_refused_and_not_kept(tmp_path):
    def train(seed, rate):
        return {"a": 1} if rate < 2 else {"a": 1, "b": 2}

    with pytest.raises(UsageError, match="only one of rate=1, seed=0 and rate=2, seed=0 returned 'b'"):
        sweep(train, grid(rate=[1, 2]), journal=tmp_path / "journal.jsonl")
    assert len(read_journal(tmp_path / "journal.jsonl").values) == 1


def test_an_error_names_the_setting_and_keeps_what_is_done(tmp_path):
    journal, broken = tmp_path / "journal.jsonl", True

    def train(seed, rate):
        if rate == 3 and broken:
            raise ZeroDivisionError("no\nrate")
        return {"twice": rate * 2}

    with pytest.raises(WeightsmithError, match="stopped at rate=3, seed=0: ZeroDivisionError: no rate") as caught:
        sweep(train, grid(rate=[1, 2, 3, 4]), journal=journal)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert [value["twice"] for value in read_journal(journal).values.values()] == [2, 4]
    broken = False
    assert sweep(train, grid(rate=[1, 2, 3, 4]), journal=journal).column("twice") == (2, 4, 6, 8)


def test_an_interrupt_is_not_wrapped():
    def train(seed, rate):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(train, grid(rate=[1]))


# Journal


def test_finished_rows_are_not_computed_again(tmp_path):
    journal, count = tmp_path / "journal.jsonl", 0

    def train(seed, rate):
        nonlocal count
        count += 1
        if count == 4:
            raise RuntimeError("stop")
        return {"value": rate + seed / 3}

    settings, rows = grid(rate=[1, 2, 3]), []
    with pytest.raises(WeightsmithError, match="RuntimeError: stop"):
        sweep(train, settings, seeds=range(2), journal=journal)
    table = sweep(train, settings, seeds=range(2), journal=journal, on_row=rows.append)
    assert count == 7  # three before the stop, the one that stopped, three after
    assert tuple(rows) == table.rows
    assert sweep(train, settings, seeds=range(2), journal=journal) == table
    assert count == 7
    assert table.to_json() == sweep(train, settings, seeds=range(2)).to_json()
    assert "seconds" not in table.to_json()
    assert set(read_journal(journal).seconds) == set(read_journal(journal).values)


def test_a_journal_of_other_settings_seeds_or_inputs_is_refused(tmp_path):
    journal = tmp_path / "journal.jsonl"
    sweep(noisy, SETTINGS, journal=journal, inputs={"data": "aa"})
    for settings, seeds, inputs, words in (
        (SETTINGS[:-1], [0], {"data": "aa"}, "calls has 6 values in the journal and 5 in this call"),
        (SETTINGS, [1], {"data": "aa"}, r"calls\[0\].seed is 0 in the journal and 1 in this call"),
        (SETTINGS, [0], {"data": "bb"}, "inputs.data is 'aa' in the journal and 'bb' in this call"),
    ):
        with pytest.raises(UsageError, match=rf"another call \({words}\); use another folder"):
            sweep(noisy, settings, seeds=seeds, inputs=inputs, journal=journal)
    with pytest.raises(UsageError, match=r"function is '.*noisy' in the journal and '.*other' in this call"):

        def other(seed, rate, width):
            return {}

        sweep(other, SETTINGS, inputs={"data": "aa"}, journal=journal)


def test_a_partial_function_is_named_after_the_one_inside():
    assert sweep(functools.partial(noisy, width=2), grid(rate=[1])).function.endswith("test_sweep.noisy")


@pytest.mark.slow
def test_the_same_bytes_from_one_two_and_four_workers_and_after_a_stop(tmp_path):
    one = sweep(by_value(), SETTINGS, seeds=range(2)).to_json()
    for workers in (2, 4):
        journal = tmp_path / f"{workers}.jsonl"
        assert sweep(by_value(), SETTINGS, seeds=range(2), workers=workers, journal=journal).to_json() == one
    # Cut to five finished rows, whichever they were, and half a sixth.
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:6]) + lines[6][:20])
    rows = []
    assert sweep(by_value(), SETTINGS, seeds=range(2), journal=journal, on_row=rows.append).to_json() == one
    assert len(rows) == 12


@pytest.mark.slow
def test_an_error_in_a_worker_names_the_setting(tmp_path):
    def train(seed, rate):
        return {"value": 1 / rate}

    with pytest.raises(WeightsmithError, match="stopped at rate=0, seed=0: ZeroDivisionError: division by zero"):
        sweep(train, grid(rate=[0, 1]), workers=2)


@pytest.mark.slow
def test_a_setting_that_kills_its_workers_is_named_and_the_others_are_kept(tmp_path):
    def train(seed, rate):
        import os
        import signal

        if rate == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"value": rate}

    journal = tmp_path / "journal.jsonl"
    with pytest.raises(WorkerLost, match=r"task 1 \(rate=2, seed=0\) ended the worker process"):
        sweep(train, grid(rate=[1, 2, 3]), workers=2, journal=journal)
    assert sorted(value["value"] for value in read_journal(journal).values.values()) == [1, 3]


@pytest.mark.slow
def test_a_sweep_killed_in_mid_run_ends_with_the_same_bytes(tmp_path):
    script = textwrap.dedent(
        """
        import sys, time
        from weightsmith.core.sweep import grid, sweep

        def train(seed, rate):
            time.sleep(0.02)
            return {"value": (seed + 1) / (rate + 3)}

        journal = None if sys.argv[1] == "none" else sys.argv[1]
        print(sweep(train, grid(rate=range(20)), seeds=(0, 1), journal=journal, workers=int(sys.argv[2])).to_json())
        """
    )
    journal = tmp_path / "journal.jsonl"

    def start(path, workers):
        return subprocess.Popen([sys.executable, "-c", script, str(path), str(workers)], stdout=subprocess.PIPE)

    killed = start(journal, 2)
    try:
        end = time.monotonic() + 60
        while _rows(journal) < 5 and killed.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.005)
        killed.send_signal(signal.SIGKILL)
    finally:
        killed.kill()
        killed.communicate()
    assert 5 <= _rows(journal) < 40
    resumed, whole = start(journal, 1).communicate()[0], start("none", 1).communicate()[0]
    assert resumed == whole
    assert len(json.loads(whole)["rows"]) == 40
    assert _rows(journal) == 40


def _rows(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0


def test_results_of_an_edited_function_are_not_taken_for_its_own(tmp_path):
    def version(text):
        names = {}
        exec(f"def trial(seed, a):\n    return {{'x': {text}}}", names)
        return names["trial"]

    for text in ("a + 1", "a + 1"):
        sweep(version(text), grid(a=[1]), journal=tmp_path / "j.jsonl")
    with pytest.raises(UsageError, match="code is"):
        sweep(version("a + 1000"), grid(a=[1]), journal=tmp_path / "j.jsonl")
