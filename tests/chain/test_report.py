from __future__ import annotations

import dataclasses
import html
import random
import re

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.chain import report as module
from weightsmith.chain.reading.results import Result
from weightsmith.chain.report import gather, report, report_page
from weightsmith.chain.results import ChainRecord, ChainRun, StageDone
from weightsmith.chain.tailor.tailoring import tailor
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.core.storage import file_digest, write_atomic
from weightsmith.papers.study.study import reduction_study
from weightsmith.reporting.parts import Drawing


@pytest.fixture(scope="module")
def made():
    """What the verbs return for one network, from its training on."""
    data = ws.data.load("digits")
    run = ws.train("mlp:12", data, epochs=2)
    small = ws.reduce(run, data, by="angles:60", random=2, rows=200, latency=False)
    return {
        "run": run,
        "grades": ws.grade(run.network, evidence="none"),
        "judged": ws.evaluate(run.network, data),
        "near": ws.angles(run, data, rows=200, top=2),
        "small": small,
        "snn": ws.spike(small.network, data, steps=4, test_rows=60, watch=0),
    }


@pytest.fixture
def sections(monkeypatch):
    """The sections of a page instead of the page, which takes its time to draw: ``sections(results)``."""
    seen = {}

    def render(title, several, *, lead=""):
        seen.update(title=title, sections=several)
        return title

    monkeypatch.setattr(module, "render", render)

    def of(results, title=None):
        report_page(gather(results), title)
        return seen["title"], [section.title for section in seen["sections"]], seen["sections"]

    of.seen = seen
    return of


def put(folder, record, name="record.json"):
    write_atomic(folder / name, record.to_json(indent=1) + "\n")
    return folder


def judged(made, right, network="ab" * 32):
    origin = Origin(inputs={"network": network}, versions={})
    return dataclasses.replace(made["judged"], correct=right, accuracy=wilson(right, 360), origin=origin)


@pytest.mark.slow
def test_a_page_of_all_kinds_needs_nothing_else_and_is_the_same_twice(made, tmp_path):
    paths = [report(list(made.values()), tmp_path / f"{name}.html") for name in "ab"]
    text = paths[0].read_text()
    assert text == paths[1].read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert not re.findall(r"(?:src|href|action)=\"(?!#|data:)", text)
    assert len(text.encode()) < 3_000_000
    for digest in (made["run"].record.network, made["small"].record.result, made["snn"].record.result):
        assert digest in text
    plain = html.unescape(text)
    assert "Angles in dense1" in plain  # the heat map, which no record holds
    assert f"weightsmith {ws.__version__}" in plain


def test_results_in_memory_are_named_by_kind_and_stand_in_the_order_of_the_chain(made, sections):
    mixed = random.Random(3).sample(list(made.values()), len(made))
    title, titles, _ = sections(mixed)
    assert title == "Report of 6 results"
    assert titles[0] == "Overview"
    assert titles[1:3] == ["Training: training", "Evaluation: evaluation"]
    assert set(titles[3:5]) == {"Grades: grades", "Angles: angles"}
    assert titles[5:] == ["Reduction: reduction", "Spiking: spiking"]


def test_a_mapping_names_its_results(made, sections):
    _, titles, _ = sections({"big": made["run"], "little": made["small"].record})
    assert titles == ["Overview", "Training: big", "Reduction: little"]


def test_one_result_alone_is_enough(made, sections):
    for given in (made["grades"], [made["grades"]], (made["grades"],), {"grades": made["grades"]}):
        assert sections(given)[:2] == ("Report of grades", ["Overview", "Grades: grades"])
    assert sections(made["grades"], title="")[0] == ""  # as it was asked for


def test_folders_give_what_is_in_memory(made, tmp_path, sections):
    put(tmp_path / "runs/big", made["run"].record)
    put(tmp_path / "runs/big", made["judged"], "evaluation.json")
    put(tmp_path / "runs/small", made["small"].record)
    put(tmp_path / "elsewhere", made["snn"].record)
    _, titles, _ = sections([tmp_path / "runs", str(tmp_path / "elsewhere"), made["grades"]])
    assert titles == [
        "Overview",
        "Training: big",
        "Evaluation: big, evaluated",
        "Grades: grades",
        "Reduction: small",
        "Spiking: elsewhere",
    ]
    named = gather({"mine": tmp_path / "runs/big", "others": tmp_path / "runs"})
    assert [each.name for each in named] == [
        "mine = others/big",
        "mine, evaluated = others/big, evaluated",
        "others/small",
    ]


def test_equal_records_are_one_result_with_both_names(made, tmp_path):
    for name in ("first", "again"):
        put(tmp_path / name, made["grades"])
    assert [each.name for each in gather([tmp_path / "first", tmp_path / "first"])] == ["first"]
    assert [each.name for each in gather(tmp_path)] == ["again = first"]


def test_equal_names_are_told_apart_by_their_folders_or_numbered(made, tmp_path):
    paths = [put(tmp_path / top / "run", judged(made, number)) for number, top in enumerate("ab")]
    assert [each.name for each in gather(paths)] == ["a/run", "b/run"]
    assert [each.name for each in gather([tmp_path / "a", tmp_path / "b"])] == ["a/run", "b/run"]
    far = [put(tmp_path / top / "same/run", judged(made, number)) for number, top in ((3, "c"), (4, "d"))]
    assert [each.name for each in gather(far)] == ["c/same/run", "d/same/run"]
    memory = [judged(made, number) for number in (1, 2)]
    assert [each.name for each in gather(memory)] == ["evaluation (1)", "evaluation (2)"]


def test_spiking_networks_have_the_classes_of_an_evaluation(made, sections, monkeypatch):
    calls = []
    monkeypatch.setattr(module, "spiking_section", lambda record, name, classes: calls.append(classes))
    monkeypatch.setattr(module, "render", lambda title, several: title)
    for others in ([], [made["judged"]]):
        report_page(gather([made["snn"], *others]))
    other = dataclasses.replace(made["judged"], classes=tuple("abcdefghij"))
    report_page(gather([made["snn"], made["judged"], other]))
    assert calls == [(), tuple(map(str, range(10))), ()]  # two that disagree tell nothing


def test_several_graded_networks_share_the_spectra(made, monkeypatch):
    calls = []
    monkeypatch.setattr(module, "grading_section", lambda record, name, spectra: calls.append(spectra))
    monkeypatch.setattr(module, "render", lambda title, several: title)
    several = [dataclasses.replace(made["grades"], notes=(str(number),)) for number in range(3)]
    report_page(gather(several[:1]))
    report_page(gather(several))
    assert calls == [module.MOST_SPECTRA, *[module.MOST_SPECTRA // 3] * 3]


def test_many_results_of_a_kind_share_a_section_where_one_is_chosen(made, sections):
    many = [judged(made, number) for number in range(7)]
    _, titles, found = sections([*many, made["run"]])
    assert sorted(titles) == ["Evaluation", "Overview", "Training: training"]
    (choice,) = next(section for section in found if section.title == "Evaluation").parts
    assert [name for name, _ in choice.options] == [f"evaluation ({number})" for number in range(1, 8)]
    _, parts = choice.options[3]
    assert "3 of 360" in parts[0].text or "0.8 %" in parts[0].text
    assert [title for title in sections(many[:6])[1] if title.startswith("Evaluation: ")] == [
        f"Evaluation: evaluation ({number})" for number in range(1, 7)
    ]


def test_a_chain_leads_with_its_recipe(made, tmp_path, sections):
    put(tmp_path / "out/train", made["run"].record)
    sha = file_digest(tmp_path / "out/train/record.json")
    recipe = {"data": "digits", "title": None, "stages": [{"kind": "train", "name": "train", "options": {"epochs": 2}}]}
    stage = StageDone("train", "train", None, 0, "train", sha, made["run"].record.network)
    chain = ChainRecord(recipe, (stage,), ("train: look at it",), Origin(inputs={"data": "d" * 64}))
    put(tmp_path / "out", chain)
    for given in (tmp_path / "out", ChainRun(chain, tmp_path / "out", {}, None)):
        title, titles, found = sections(given)
        assert (title, titles) == ("Report of out", ["Overview", "Chain: out", "Training: train"])
    assert [each.name for each in gather({"mine": tmp_path / "out"})] == ["mine", "train"]
    notes, stages, said, _ = found[1].parts
    assert notes.lines == ("train: look at it",)
    assert stages.rows == (("train", "train", None, 0, "train", made["run"].record.network[:12], sha[:12]),)
    assert said.pairs == (("data", "digits"), ("train train", "epochs = 2"))


@pytest.fixture
def chains(made, tmp_path):
    """Two chains of two stages each in folders of their own."""
    for number, name in enumerate(("one", "two")):
        out, stages = tmp_path / "runs" / name, []
        for stage in ("train", "check"):
            put(out / stage, judged(made, 10 * number + len(stages)))
            stages.append(StageDone(stage, stage, None, 0, stage, file_digest(out / stage / "record.json"), None))
        put(out, ChainRecord({"data": "digits", "title": name}, tuple(stages), (), Origin()))
    return tmp_path / "runs"


def test_stages_of_several_chains_are_told_apart_by_their_chains(chains):
    wanted = ["one", "one/check", "one/train", "two", "two/check", "two/train"]
    for given in (chains, [chains / "one", chains / "two"]):
        assert sorted(each.name for each in gather(given)) == wanted


def test_of_what_is_broken_the_rest_is_reported(chains, made, sections):
    put(chains / "good", made["run"].record)
    put(chains / "good", made["judged"], "evaluation.json")
    (chains / "good/evaluation.json").write_text("{")
    (chains / "one/check/record.json").unlink()
    (chains / "bad").mkdir()
    (chains / "bad/record.json").write_text("[]")
    with pytest.raises(FileRefused):
        gather(chains)
    refused = []
    results = gather(chains, refused)
    assert sorted(each.name for each in results) == ["check", "good", "one/train", "train", "two"]
    assert [error.path for error in refused] == [
        str(chains / way) for way in ("bad/record.json", "good/evaluation.json", "one/check")
    ]
    report_page(results, None, [str(error) for error in refused])
    overview = sections.seen["sections"][0]
    assert overview.parts[0].lines == tuple(f"left out: {error}" for error in refused)
    with pytest.raises(FileRefused, match="holds no record"):
        gather([chains / "bad"], [])
    with pytest.raises(FileRefused, match="no such file"):
        gather([chains / "good", chains / "typo"], [])


def test_a_stage_that_was_changed_is_reported_for_itself_and_named_once(chains, made):
    put(chains / "one/check", judged(made, 77))
    refused = []
    names = [each.name for each in gather(chains / "one", refused)]
    assert sorted(names) == ["check", "train"]
    (error,) = refused
    assert "was changed since the chain wrote it" in error.reason
    (chains / "one/check/record.json").write_text("{")
    refused.clear()
    assert [each.name for each in gather(chains / "one", refused)] == ["train"]
    assert len(refused) == 1


def test_a_network_is_no_result(tmp_path):
    path = ws.save(ws.networks.mlp(4, 3, 2), tmp_path / "network.safetensors")
    with pytest.raises(FileRefused, match="is a network, not a result: give the folder"):
        gather(path)


def test_too_many_folders_are_refused_or_told(chains, monkeypatch):
    monkeypatch.setattr("weightsmith.chain.reading._folders._MOST_FOLDERS", 2)
    with pytest.raises(FileRefused, match="has more than 2 folders in it"):
        gather(chains)
    refused = []
    assert [each.name for each in gather(chains, refused)] == ["one", "train", "check"]
    assert len(refused) == 1


def test_angles_of_a_stage_have_their_maps(made, tmp_path, sections):
    put(tmp_path / "near", made["near"].record)

    def drawn():
        choice = sections(tmp_path)[2][-1].parts[1]
        return [part.title for _, parts in choice.options for part in parts if isinstance(part, Drawing)]

    assert drawn() == []
    np.savez(tmp_path / "near/arrays.npz", dense1=made["near"].degrees("dense1").astype(np.float32))
    assert drawn() == ["Angles in dense1", "Groups in dense1"]


def test_a_search_stands_in_the_overview_and_in_its_own_section(made, sections):
    found = tailor(made["run"], "digits", accuracy=0.5, params=0.6, rows=200, test_rows=100)
    record = found.record
    _, titles, several = sections([made["run"], found])
    assert titles == ["In short: tailoring", "Overview", "Training: training", "Tailoring: tailoring"]
    networks = next(part for part in several[1].parts if getattr(part, "title", "") == "Networks")
    row = dict(zip([column.head for column in networks.columns], networks.rows[-1], strict=True))
    assert (row["network"], row["parameters"]) == ("tailoring", record.best.parameters)
    assert row["accuracy"].value == record.judged.accuracy.value
    whole = dict(zip([column.head for column in networks.columns], networks.rows[0], strict=True))
    assert (whole["network"], whole["MACs"], whole["energy"].value) == ("training", record.macs, record.energy)
    assert whole["accuracy"].value == record.whole.value  # nothing else has judged it
    section = several[-1]
    assert str(record.best) in section.lead
    front = next(part for part in section.parts if getattr(part, "title", "") == "The front")
    assert len(front.rows) == len(record.candidates)
    assert front.figure().axes
    networks = section["Networks"]
    rivals = [str(record.candidates[each.candidate]) for each in record.alone]
    assert [row[0] for row in networks.rows] == ["original", f"{record.best} (taken)", *rivals]


@pytest.mark.parametrize("given", [[], {}, ()])
def test_nothing_is_no_report(given):
    with pytest.raises(UsageError, match="no results were given"):
        gather(given)


@pytest.mark.parametrize("given", [3, None, [object()], Origin(), {"a": {"b": 1}}])
def test_what_is_no_result_is_named(given):
    with pytest.raises(
        UsageError, match=r"a \w+ cannot be reported: give results \(chain, training, .*or their folders"
    ):
        gather(given)


def test_a_folder_that_holds_nothing_is_refused_before_a_page_is_written(tmp_path):
    with pytest.raises(FileRefused, match="holds a record.json"):
        report([tmp_path], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_hostile_names_stay_text(made):
    name = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>=1+1\x1b[31m\u202e"
    grades = dataclasses.replace(made["grades"], source=name)
    before = report_page(gather({"plain": made["grades"]}), "plain")
    after = report_page(gather([Result(name, grades)]), name)
    assert after.count("<script") == before.count("<script") == 1
    assert after.count("<img") == before.count("<img")
    assert "\x1b" not in after
    assert "\u202e" not in after


def test_nothing_is_ranked_across_data_sets_or_splits(made, sections):
    other = dataclasses.replace(
        made["judged"],
        data="rows.csv",
        split="validation",
        origin=Origin(inputs={"network": "f" * 64, "data": "0" * 64}),
        accuracy=wilson(79, 80),
    )
    _, _, shown = sections({"small": made["small"].record, "tiny": other})
    lead = shown[0].lead
    assert "On the test rows of digits the most accurate" in lead
    assert "On the validation rows of rows.csv the most accurate" in lead
    assert "not ranked against each other" in lead
    assert dict(shown[0].chips).keys() == {"networks"}
    drawings = [part.title for part in shown[0].parts if isinstance(part, Drawing) and "against" in part.title]
    assert drawings
    assert all("on the test rows of digits" in title for title in drawings)


def test_the_folder_of_a_study_is_a_result(tmp_path):
    draw = np.random.default_rng(0)
    rows = (draw.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2)
    reduction_study(
        rows, hidden=(4,), methods=("angles:45",), epochs=1, folds=2, repeats=1, random=0, scratch=False,
        out=tmp_path / "study",
    )  # fmt: skip
    for given in (tmp_path / "study", tmp_path):
        (found,) = gather(given)
        assert type(found.record).__name__ == "Study"
        assert found.name == "study"
