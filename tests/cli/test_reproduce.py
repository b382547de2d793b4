from __future__ import annotations

import json

from weightsmith.papers.reproduction import EXPERIMENTS


def test_without_a_name_all_experiments_are_listed(run):
    answer = run("reproduce")
    assert answer.code == 0
    for name in EXPERIMENTS:
        assert name.replace("_", "-") in answer.out
    listed = json.loads(run("reproduce", "--json").out)
    assert [each["name"].replace("-", "_") for each in listed] == list(EXPERIMENTS)


def test_a_quick_run_prints_verdicts_and_writes_pages(run, tmp_path):
    answer = run("reproduce", "membrane", "--quick", "--out", tmp_path)
    assert answer.code == 0
    assert "in part" in answer.out
    assert "a quick run" in answer.out
    assert {"membrane.md", "membrane.csv", "membrane.json", "membrane.svg", "index.md", "reproduction.html"} <= {
        path.name for path in tmp_path.iterdir()
    }
    printed = run("reproduce", "membrane", "--quick", "--out", tmp_path, "--json", "--quiet")
    assert [finding["verdict"] for finding in json.loads(printed.out)[0]["findings"]] == ["holds", "holds", "in part"]


def test_an_unknown_name_suggests_the_nearest(run):
    answer = run("reproduce", "membran", "--quick")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert "did you mean 'membrane'" in answer.err
