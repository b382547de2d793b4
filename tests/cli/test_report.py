from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.core.storage import write_atomic


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two results: the grades of a network, and how right it is."""
    top = tmp_path_factory.mktemp("runs")
    network = ws.networks.mlp(64, 12, 10, seed=1)
    made = {"graded": ws.grade(network, evidence="none"), "judged": ws.evaluate(network, "digits")}
    for name, record in made.items():
        write_atomic(top / name / "record.json", record.to_json(indent=1) + "\n")
    return top


def test_a_page_of_several_folders(run, runs, tmp_path):
    answer = run(
        "report", runs / "graded", runs / "judged", "--out", tmp_path / "new/page.html", "--title", "My <page>"
    )
    assert (answer.code, answer.err) == (0, "")
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert lines[:3] == ["result what it is", "judged evaluation", "graded grades"]
    assert " ".join(lines[3:]).endswith("MB; open it in a browser")  # a long path makes it two lines
    text = (tmp_path / "new/page.html").read_text()
    assert "<title>My &lt;page&gt;</title>" in text
    assert "Grades: graded" in text


def test_the_same_records_give_the_same_bytes_also_over_an_older_page(run, runs, tmp_path):
    pages = []
    for _ in range(2):
        answer = run("report", runs / "judged", "--out", tmp_path / "page.html", "--quiet")
        assert (answer.code, answer.out) == (0, "")
        pages.append((tmp_path / "page.html").read_bytes())
    assert pages[0] == pages[1]


def test_without_out_it_is_report_html_here(run, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run("report", runs / "graded" / "record.json", "--json")
    report = json.loads(answer.out)
    assert (tmp_path / "report.html").stat().st_size == report["bytes"]
    (result,) = report["results"]
    assert (report["file"], result["name"], result["kind"]) == ("report.html", "graded", "grades")
    assert len(result["digest"]) == 64


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "neither it nor a folder in it holds a record.json"),
        ("{}", "is not a record of a known kind"),
        ("x", "JSON"),
    ],
)
def test_what_cannot_be_read_ends_with_3_and_one_line(run, tmp_path, content, reason):
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run/record.json").write_text(content)
    answer = run("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert answer.code == 3
    (line,) = answer.lines
    assert line.startswith(f"weightsmith: {tmp_path / 'run'}")
    assert reason in line
    assert not (tmp_path / "page.html").exists()


def test_what_is_broken_is_left_out_and_named(run, runs, tmp_path):
    for name in ("graded", "judged", "broken", "again"):
        (tmp_path / "all" / name).mkdir(parents=True)
    for name in ("graded", "judged"):
        (tmp_path / "all" / name / "record.json").write_bytes((runs / name / "record.json").read_bytes())
    for name in ("broken", "again"):
        (tmp_path / "all" / name / "record.json").write_text("{}")
    words = ("report", tmp_path / "all", "--out", tmp_path / "page.html")
    answer = run(*words)
    assert answer.code == 1
    assert [line.split()[0] for line in answer.out.splitlines()[1:3]] == ["judged", "graded"]
    first, last = answer.lines
    assert first.startswith(f"left out: {tmp_path / 'all/broken/record.json'}: is not a record")
    assert last.startswith(f"weightsmith: left out of the page: {tmp_path / 'all/again/record.json'}: is not a record")
    assert last.endswith("(and 1 more)")
    text = (tmp_path / "page.html").read_text()
    assert text.count("left out: ") == 2
    answer = run(*words, "--json", "--quiet")
    assert len(answer.lines) == 1
    report = json.loads(answer.out)
    assert [len(report["results"]), len(report["left_out"])] == [2, 2]


def test_a_network_is_told_to_be_one(run, tmp_path):
    path = ws.save(ws.networks.mlp(4, 3, 2), tmp_path / "network.safetensors")
    answer = run("report", path, "--out", tmp_path / "page.html")
    assert answer.code == 3
    assert answer.lines[0].startswith(f"weightsmith: {path}: is a network, not a result")


@pytest.mark.parametrize("content", ["<!DOCTYPE html>\n<html><title>mine</title>", "words"])
def test_only_a_page_of_ours_is_written_over(run, runs, tmp_path, content):
    page = tmp_path / "page.html"
    page.write_text(content)
    answer = run("report", runs / "graded", "--out", page)
    assert answer.code == 2
    assert "is not a page of weightsmith and would be overwritten" in answer.lines[0]
    assert page.read_text() == content


def test_a_place_that_does_not_exist_ends_with_3(run, tmp_path):
    answer = run("report", tmp_path / "nowhere")
    assert (answer.code, answer.lines) == (3, [f"weightsmith: {tmp_path / 'nowhere'}: no such file"])


@pytest.mark.parametrize(
    ("out", "reason"),
    [("page.pdf", "a name that ends in .html"), (".", "--out writes a file"), ("page", "ends in .html")],
)
def test_a_page_that_cannot_be_written_is_refused_first(run, tmp_path, monkeypatch, out, reason):
    monkeypatch.chdir(tmp_path)
    answer = run("report", tmp_path / "nowhere", "--out", out)
    assert answer.code == 2
    assert reason in answer.lines[0]


def test_without_a_run_the_usage_is_told(run):
    answer = run("report")
    assert answer.code == 2
    assert "RUN" in answer.lines[0]
