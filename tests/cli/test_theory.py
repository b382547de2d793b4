from __future__ import annotations

import functools
import json

import pytest

from weightsmith.papers.theory import dominance as theory_dominance
from weightsmith.papers.theory import example as theory_example
from weightsmith.papers.theory import threshold as theory_threshold

SHORT = (
    (theory_example, "above_threshold", {"trials": 2000, "points": 201}),
    (theory_dominance, "dominance", {"lengths": [0.5, 3.0], "points": 9, "duration": 1000.0}),
    (theory_threshold, "threshold_sweep", {"points": 5, "duration": 500.0}),
)


@pytest.fixture
def short(monkeypatch):
    """Simulations of a fraction of a second; gives the seeds they were called with."""
    seeds = []

    def shorter(function, options, **asked):
        seeds.append(asked["seed"])
        return function(**{**asked, **options})

    for module, name, options in SHORT:
        monkeypatch.setattr(module, name, functools.partial(shorter, getattr(module, name), options))
    return seeds


def test_five_figures_with_a_sentence_each(run, short, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run("theory", "--out", "f", "--seed", 3)
    assert answer.code == 0
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == [f"figure{n}.svg" for n in range(1, 6)]
    assert all((tmp_path / "f" / f"figure{n}.svg").read_text().startswith("<?xml") for n in range(1, 6))
    lines = answer.out.splitlines()
    assert len(lines) == 5
    assert "equal means (2 and 2) and unequal variances (2 and 1)" in lines[0]
    assert "the lognormal approximation gives 8.0 % and 4.4 %" in lines[1]
    assert "have their midpoint at 22.5°" in lines[2]
    assert "for inputs of length 0.5, up to" in lines[2]
    assert "up to 12.8° away" in lines[3]
    assert "the L4 norm misses it by up to 0." in lines[4]
    assert set(short) == {3}
    assert "theory: 5 of 5" in answer.err


def test_json_names_files_and_sentences(run, short, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run("theory", "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    report = json.loads(answer.out)["figures"]
    assert [each["file"] for each in report] == [f"theory/figure{n}.svg" for n in range(1, 6)]
    assert all((tmp_path / each["file"]).exists() and each["shows"] for each in report)


def test_a_place_that_cannot_be_is_told_before_the_work(run, tmp_path):
    (tmp_path / "f").write_text("")
    answer = run("theory", "--out", tmp_path / "f")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert "--out writes into a folder" in answer.err
