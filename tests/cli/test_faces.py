from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image, ImageFilter

from weightsmith.data import load
from weightsmith.data.faces.describe import FaceFeatures


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twelve faces in two classes."""
    pytest.importorskip("cv2", reason="OpenCV (extra faces) is not installed")
    skimage = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    head = Image.fromarray(skimage.astronaut()).crop((120, 20, 340, 240)).resize((150, 150))
    root = tmp_path_factory.mktemp("photos")
    for name in ("left", "right"):
        (root / name).mkdir()
        for i in range(6):
            image = head.rotate(2 * i - 5).filter(ImageFilter.GaussianBlur(0.3 * i))
            (image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if name == "right" else image).save(
                root / name / f"{i}.png"
            )
    return root


def test_photographs_become_a_table_and_an_archive(run, photos, tmp_path):
    table, archive = tmp_path / "t.csv", tmp_path / "f.npz"
    answer = run("faces", photos, "--out", table, "--out", archive, "--test", 0.25, "--seed", 3)
    assert answer.code == 0, answer.err
    assert "12 faces" in answer.out
    assert "left 6, right 6" in answer.out
    assert "train 9, test 3" in answer.out
    assert "faces: 12 of 12" in answer.err
    rows = list(csv.DictReader(table.open()))
    assert list(rows[0]) == ["path", "label", "split"] + [f"{n}{i}" for n in ("lpq", "phog") for i in range(1, 6)]
    features = FaceFeatures.load(archive)
    splits = features.divided(0.25, seed=3)
    assert [row["split"] for row in rows] == list(splits)
    expected = features.components([split == "train" for split in splits])
    assert np.allclose([[float(v) for v in list(row.values())[3:]] for row in rows], expected, rtol=1e-8)
    data = load(table)
    assert (data.train.x.shape, data.test.x.shape) == ((9, 10), (3, 10))


def test_the_same_command_writes_the_same_bytes(run, photos, tmp_path):
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    assert run("faces", photos, "--out", files[0], "-q").code == 0
    assert run("faces", photos, "--out", files[1], "-q").code == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_is_left_out_is_listed_and_must_be_looked_at(run, photos, tmp_path):
    root = tmp_path / "more"
    (root / "left").mkdir(parents=True)
    (root / "right").symlink_to(photos / "right")
    for i in range(6):
        (root / "left" / f"{i}.png").symlink_to(photos / "left" / f"{i}.png")
    Image.new("L", (90, 90)).save(root / "left" / "blank.png")
    (root / "left" / "broken[red].jpg").write_bytes(b"x")
    answer = run("faces", root, "--out", tmp_path / "t.csv", "-q")
    assert answer.code == 1
    assert "left/blank.png" in answer.out
    assert "no face found" in answer.out
    assert "left/broken[red].jpg" in answer.out
    assert "not a readable image" in answer.out
    assert answer.lines == ["weightsmith: 2 of 14 images were left out, for the reasons listed"]
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 13
    report = json.loads(run("faces", root, "--out", tmp_path / "f.npz", "--json", "-q").out)
    assert [one["path"] for one in report["left_out"]] == ["left/blank.png", "left/broken[red].jpg"]
    assert report["classes"] == {"left": 6, "right": 6}
    assert "variance" not in report


def test_json_tells_split_and_variance(run, photos, tmp_path):
    words = ("faces", photos, "--out", tmp_path / "t.csv", "--components", "3,2", "--phog", "phog:2,edges=false")
    report = json.loads(run(*words, "--size", 64, "--json", "-q").out)
    assert report["splits"] == {"train": 10, "test": 2}
    assert report["recipe"] == "face 64×64, lpq, phog:levels=2,edges=false"
    assert [len(shares) for shares in report["variance"].values()] == [3, 2]
    assert all(0 < sum(shares) < 1 for shares in report["variance"].values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "t.xlsx"], "give a .csv file for the table or a .npz file"),
        (["--out", "t.csv", "--components", "5"], "--components takes two numbers"),
        (["--out", "t.csv", "--components", "0,0"], "--components takes two numbers"),
        (["--out", "t.csv", "--components", "30,5"], "LPQ: 30 components were requested"),
        (["--out", "t.csv", "--lpq", "lpq:window=4"], "lpq: window must be odd, not 4"),
        (["--out", "t.csv", "--lpq", "lqp"], "did you mean 'lpq'"),
        (["--out", "t.csv", "--test", "1"], "--test"),
        ([], "Missing option '--out'"),
    ],
)
def test_wrong_usage_is_one_line(run, photos, tmp_path, words, said):
    words = [tmp_path / word if word.startswith("t.") else word for word in words]
    answer = run("faces", photos, *words, "-q")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert said in answer.err
    assert list(tmp_path.iterdir()) == []


def test_folders_that_give_nothing(run, tmp_path):
    pytest.importorskip("cv2", reason="OpenCV (extra faces) is not installed")
    answer = run("faces", tmp_path / "gone", "--out", tmp_path / "t.csv")
    assert (answer.code, answer.lines) == (3, [f"weightsmith: {tmp_path / 'gone'}: no such folder"])
    (tmp_path / "in" / "a").mkdir(parents=True)
    Image.new("L", (90, 90)).save(tmp_path / "in" / "a" / "blank.png")
    answer = run("faces", tmp_path / "in", "--out", tmp_path / "t.csv", "-q")
    assert (answer.code, len(answer.lines)) == (3, 1)
    assert "none of its 1 images gave a face; a/blank.png: no face found" in answer.err
    (tmp_path / "t.csv").mkdir()
    assert "is a folder" in run("faces", tmp_path / "in", "--out", tmp_path / "t.csv").err


def test_help_names_every_option(run):
    answer = run("faces", "--help")
    assert answer.code == 0
    assert all(word in answer.out for word in ("--out", "--test", "--components", "--size", "--lpq", "--phog"))


def test_no_class_becomes_a_formula_and_the_table_reads_back(run, photos, tmp_path):
    for name, original in (("=cmd()", "left"), ("-x", "right")):
        (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p" / name).symlink_to(photos / original)
    assert run("faces", tmp_path / "p", "--out", tmp_path / "t.csv", "-q").code == 0
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert {row["label"] for row in rows} == {"'=cmd()", "'-x"}
    assert all(row["path"].startswith("'") for row in rows)
    assert any(float(row["lpq1"]) < 0 for row in rows)
    assert load(tmp_path / "t.csv").classes == ("-x", "=cmd()")
