"""The way speed is measured: equal work or no figure, fair turns, children counted, exact records."""

from __future__ import annotations

import importlib
import operator
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not part of the source archive"
)


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.measure")


def _busy(rounds: int) -> int:
    return sum(number % 7 for number in range(rounds)) * 0


def test_unequal_work_is_refused_before_timing(measuring: Any) -> None:
    runs: list[str] = []
    arms = {"ours": lambda: runs.append("ours") or 1, "theirs": lambda: runs.append("theirs") or 2}
    with pytest.raises(measuring.UnequalWork, match="sum: 'theirs' and 'ours' gave different outputs"):
        measuring.measure(measuring.Case("sum", "add", arms, operator.eq))
    assert runs == ["ours", "theirs"]


def test_ratio_is_the_ratio_of_work(measuring: Any) -> None:
    arms = {"ours": lambda: _busy(20_000), "three times": lambda: _busy(60_000), "half": lambda: _busy(10_000)}
    measured = measuring.measure(measuring.Case("busy", "count", arms, operator.eq, repeats=2))
    assert list(measured.seconds) == ["ours", "three times", "half"]
    # Six times the work; a looser bound than that, because a busy machine decides the figure.
    assert measured.ratios["half"] < measured.ratios["three times"]
    assert measured.ratios["half"] == measured.seconds["half"] / measured.seconds["ours"]
    assert {"numpy", "torch", "weightsmith"} <= set(measured.versions)


def test_best_of_interleaved_rounds_in_turned_order(measuring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each run moves on by a known amount: the figure is the least, and the order turns."""
    now, order = [0.0], []
    costs: dict[str, Iterator[float]] = {"a": iter([9.0] * 3 + [5.0, 3.0] * 2), "b": iter([9.0] * 3 + [5.0, 6.0] * 2)}

    def arm(name: str) -> None:
        order.append(name)
        now[0] += next(costs[name])

    monkeypatch.setattr(measuring.time, "process_time", lambda: now[0])
    arms = {"a": lambda: arm("a"), "b": lambda: arm("b")}
    measured = measuring.measure(measuring.Case("turns", "-", arms, operator.eq, repeats=2))
    # One run to compare, two to find the count, then an untimed and a timed one per round.
    assert "".join(order) == "ab" + "aabb" + "aabb" + "bbaa"
    assert measured.seconds == {"a": 3.0, "b": 6.0}
    assert measured.ratios == {"b": 2.0}


@pytest.mark.slow
def test_children_count(measuring: Any) -> None:
    pytest.importorskip("psutil")
    code = "import time\nwhile time.process_time() < 0.4: pass"
    before = measuring._family_seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    ended = measuring._family_seconds()
    assert 0.38 < ended - before < 1.5
    with subprocess.Popen([sys.executable, "-c", f"{code}\nprint(flush=True)\ninput()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert 0.3 < measuring._family_seconds() - ended < 1.5
        child.communicate(b"\n")


def test_garbage_collection_is_as_before(measuring: Any) -> None:
    seen: list[bool] = []
    arms = {"ours": lambda: seen.append(measuring.gc.isenabled()), "theirs": lambda: None}
    measuring.measure(measuring.Case("gc", "-", arms, operator.eq, repeats=1))
    assert False in seen
    assert measuring.gc.isenabled()


def test_results_go_through_json_and_onto_a_page(measuring: Any) -> None:
    tables = importlib.import_module("benchmarks.tables")
    measured = measuring.Measurement(
        "sum", "add numbers", {"ours": 0.5, "theirs": 1.25}, {"theirs": 2.5}, 7, True, {"numpy": "2.0"}
    )
    results = measuring.Results("sums", "python -m benchmarks.run --only sums", "x86_64", (measured,))
    assert measuring.Results.from_json(results.to_json()) == results
    page = tables.page(results)
    assert "- **sum**: add numbers" in page
    assert "|      | theirs | 1.25        | 2.50          |" in page
    assert "numpy 2.0" in page
    assert results.command in page
    assert "of the process and its children" in page


def test_runner_finds_every_bench(measuring: Any) -> None:
    run = importlib.import_module("benchmarks.run")
    files = {path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*.py")}
    assert set(run.NAMES) == files
    with pytest.raises(SystemExit) as stopped:
        run.main(["--only", "nothing"])
    assert stopped.value.code == 2


def test_runner_names_what_is_left_out_and_fails_on_unequal_work(
    measuring: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = importlib.import_module("benchmarks.run")
    good, unequal = (
        measuring.Case(name, "add", {"ours": lambda: 1, "theirs": lambda total=total: total}, operator.eq, repeats=1)
        for name, total in (("good", 1), ("bad", 2))
    )

    def absent() -> Any:
        raise measuring.Unavailable("WEIGHTSMITH_DATA is not set")

    cases = {"good": lambda: [good], "absent": absent, "partly": lambda: [unequal, good], "unequal": lambda: [unequal]}
    modules = {f"benchmarks.bench_{name}": types.SimpleNamespace(cases=made) for name, made in cases.items()}
    monkeypatch.setattr(run, "importlib", types.SimpleNamespace(import_module=modules.__getitem__))
    monkeypatch.setattr(run, "NAMES", tuple(cases))
    assert run.main(["--only", "good", "absent", "--out", str(tmp_path)]) == 0
    assert "absent: left out, WEIGHTSMITH_DATA is not set" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.json", "good.md"]
    assert run.main(["--only", "partly", "unequal", "--out", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert "partly: FAILED, bad: 'theirs'" in errors
    assert "unequal: FAILED, bad: 'theirs'" in errors
    assert "| good | ours" in (tmp_path / "partly.md").read_text()
    assert not (tmp_path / "unequal.md").exists()


def test_long_work_runs_once_and_is_still_checked(measuring: Any) -> None:
    runs: list[str] = []
    arms = {name: (lambda name=name: runs.append(name) or sum(range(200_000))) for name in ("ours", "theirs")}
    measured = measuring.measure(measuring.Case("long", "-", arms, operator.eq, long=True))
    assert runs == ["ours", "theirs"]
    assert measured.repeats == 1
    assert measured.seconds["ours"] > 0
    with pytest.raises(measuring.UnequalWork):
        measuring.measure(measuring.Case("long", "-", {"ours": lambda: 1, "theirs": lambda: 2}, operator.eq, long=True))
