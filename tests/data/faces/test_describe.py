from __future__ import annotations

import builtins
import sys
import types

import numpy as np
import pytest
from PIL import Image, ImageFilter

from weightsmith.core.errors import DataMismatch, FileRefused, MissingExtra, OptionError, UsageError
from weightsmith.data import load
from weightsmith.data.faces import describe as module
from weightsmith.data.faces.describe import crop_face, describe_faces, face_table, find_faces, read_grey, require_opencv
from weightsmith.data.faces.lpq import LPQ
from weightsmith.data.faces.phog import PHOG


@pytest.fixture(scope="module")
def head():
    pytest.importorskip("cv2", reason="OpenCV (extra faces) is not installed")
    skimage = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    return Image.fromarray(skimage.astronaut()).crop((120, 20, 340, 240)).resize((150, 150))


@pytest.fixture
def photos(head, tmp_path):
    """Eight faces in two classes, and four files that give none."""
    root = tmp_path / "photos"
    for name in ("left", "right"):
        (root / name).mkdir(parents=True)
        for i in range(4):
            image = head.rotate(2 * i - 3).filter(ImageFilter.GaussianBlur(0.4 * i))
            (image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if name == "right" else image).save(
                root / name / f"{i}.png"
            )
    Image.fromarray(np.full((100, 100), 200, np.uint8)).save(root / "left" / "blank.png")
    (root / "left" / "broken.jpg").write_bytes(b"not an image")
    (root / "right" / "cut.png").write_bytes((root / "left" / "0.png").read_bytes()[:5000])
    Image.fromarray(np.zeros((50, 50), np.uint16)).save(root / "right" / "deep.png")
    (root / "right" / "notes.txt").write_text("not meant as an image")
    return root


def test_every_face_is_described_and_every_other_image_listed(photos):
    calls = []
    features = describe_faces(photos, progress=lambda done, total: calls.append((done, total)))
    assert features.lpq.shape == (8, 4096)
    assert features.phog.shape == (8, 5456)
    assert features.labels.tolist() == [0] * 4 + [1] * 4
    assert features.classes == ("left", "right")
    assert features.paths == tuple(f"{name}/{i}.png" for name in ("left", "right") for i in range(4))
    assert features.splits == ("train",) * 8
    assert features.recipe == "face 128×128, lpq, phog"
    assert calls == [(i, 12) for i in range(1, 13)]
    reasons = dict(features.left_out)
    assert list(reasons) == ["left/blank.png", "left/broken.jpg", "right/cut.png", "right/deep.png"]
    assert reasons["left/blank.png"] == "no face found"
    assert "not a readable image" in reasons["left/broken.jpg"]
    assert "not a readable image" in reasons["right/cut.png"]
    assert "more than 8 bits" in reasons["right/deep.png"]
    assert "notes.txt" in features.notes[0]
    # One row, made step by step.
    crop = crop_face(np.asarray(Image.open(photos / "right" / "2.png").convert("L")))
    assert np.array_equal(features.lpq[6], LPQ()(crop))
    assert np.array_equal(features.phog[6], PHOG()(crop))


@pytest.mark.slow
def test_workers_give_the_same_bytes(photos, tmp_path):
    one = describe_faces(photos).save(tmp_path / "one.npz").read_bytes()
    two = describe_faces(photos, workers=2).save(tmp_path / "two.npz").read_bytes()
    assert one == two


def test_crops_can_be_looked_at(photos, tmp_path):
    describe_faces(photos, size=40, crops=tmp_path / "crops")
    written = sorted(path.relative_to(tmp_path / "crops").as_posix() for path in (tmp_path / "crops").rglob("*.*"))
    assert written == [f"{name}/{i}.png.png" for name in ("left", "right") for i in range(4)]
    crop = crop_face(read_grey(photos / "left" / "3.png"), 40)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "crops/left/3.png.png")), crop)
    with pytest.raises(UsageError, match="they would be read as a class"):
        describe_faces(photos, crops=photos / "crops")


def test_size_and_descriptors_can_be_chosen(photos):
    features = describe_faces(photos, size=48, lpq="lpq:2,window=5", phog=PHOG(1, bins=8, edges=False))
    assert features.lpq.shape == (8, 4 * 256)
    assert features.phog.shape == (8, 5 * 8)
    assert features.recipe == "face 48×48, lpq:blocks=2,window=5, phog:levels=1,bins=8,edges=false"
    with pytest.raises(OptionError, match="phog is needed here, such as phog, not lpq"):
        describe_faces(photos, phog="lpq")
    with pytest.raises(OptionError, match="size must be ≥ 16 for lpq and phog, not 8"):
        describe_faces(photos, size=8)


def test_a_divided_folder_keeps_its_division(photos, tmp_path):
    root = tmp_path / "divided"
    root.mkdir()
    photos.rename(root / "train")
    (root / "test" / "left").mkdir(parents=True)
    (root / "train" / "left" / "1.png").rename(root / "test" / "left" / "1.png")
    features = describe_faces(root)
    assert dict(zip(features.paths, features.splits, strict=True))["test/left/1.png"] == "test"
    assert features.splits.count("test") == 1
    assert features.divided(0.5) == features.splits
    assert features.classes == ("left", "right")


def test_a_face_without_edges_has_no_phog_and_is_left_out(photos, monkeypatch):
    real = crop_face

    def flat(grey, size):
        crop = real(grey, size)
        return None if crop is None else np.full_like(crop, 9)

    monkeypatch.setattr(module, "crop_face", flat)
    with pytest.raises(FileRefused, match=r"none of its 12 images gave a face; left/0\.png: the face has no edges"):
        describe_faces(photos)


def test_the_camera_says_which_way_is_up(head, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° clockwise to see it upright
    head.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "side.png", exif=exif)
    assert np.array_equal(read_grey(tmp_path / "side.png"), np.asarray(head.convert("L")))


def test_the_table_is_read_back_as_data(photos, tmp_path):
    features = describe_faces(photos)
    splits = features.divided(0.25, seed=1)
    path = tmp_path / "faces.csv"
    path.write_text(face_table(features, splits, 3, 2))
    assert path.read_text().splitlines()[0] == "path,label,split,lpq1,lpq2,lpq3,phog1,phog2"
    data = load(path)
    train = np.flatnonzero(np.array(splits) == "train")
    expected = features.components(train, 3, 2).astype(np.float32)
    assert (len(data.train), len(data.test)) == (6, 2)
    assert np.array_equal(data.train.x.numpy(), expected[train])
    assert np.array_equal(data.test.x.numpy(), np.delete(expected, train, axis=0))
    assert np.array_equal(data.train.y.numpy(), features.labels[train])
    assert data.classes == ("left", "right")


def test_odd_names_are_spelt_out(photos, tmp_path):
    odd = photos / "left" / "caf\udce9, 1.png"  # a byte that is no UTF-8, and a comma
    try:
        (photos / "left" / "1.png").rename(odd)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    features = describe_faces(photos)
    assert "left/caf\\udce9, 1.png" in features.paths
    (tmp_path / "t.csv").write_text(face_table(features, features.splits, 2, 2))
    assert len(load(tmp_path / "t.csv").train) == 8


def test_without_the_extra_nothing_is_begun(tmp_path, monkeypatch):
    def missing():
        raise MissingExtra("finding faces", "faces")

    monkeypatch.setattr(module, "require_opencv", missing)
    with pytest.raises(MissingExtra):
        describe_faces(tmp_path / "not looked at")


@pytest.fixture(scope="module")
def astronaut():
    pytest.importorskip("cv2", reason="OpenCV (extra faces) is not installed")
    skimage = pytest.importorskip("skimage.data", reason="scikit-image is not installed")
    from PIL import Image

    return np.asarray(Image.fromarray(skimage.astronaut()).convert("L"))


def test_the_face_of_the_astronaut(astronaut):
    (face,) = find_faces(astronaut)
    # Where the eyes, the nose and the mouth are was read off the photograph.
    for x, y in [(204, 101), (247, 103), (224, 125), (223, 143)]:
        assert face.left < x < face.left + face.width
        assert face.top < y < face.top + face.height
    assert 70 < face.width == face.height < 140


def test_the_threads_of_opencv_are_as_they_were(astronaut):
    import cv2

    before = cv2.getNumThreads()
    try:
        for threads in (1, 3):
            cv2.setNumThreads(threads)
            found = find_faces(astronaut[:256])
            assert cv2.getNumThreads() == threads
            assert len(found) == 1
    finally:
        cv2.setNumThreads(before)


@pytest.mark.parametrize("size", [64, 128])
def test_the_crop_is_that_face_and_nothing_else(astronaut, size):
    (face,) = find_faces(astronaut)
    crop = crop_face(astronaut, size)
    assert crop.shape == (size, size)
    assert crop.dtype == np.uint8
    cut = astronaut[face.top : face.top + face.height, face.left : face.left + face.width]
    assert abs(float(crop.mean()) - float(cut.mean())) < 1
    at = (np.arange(size) + 0.5) * face.width / size  # nearest pixels, by hand
    near = cut[np.ix_(at.astype(int), at.astype(int))].astype(float)
    assert np.corrcoef(near.ravel(), crop.ravel())[0, 1] > 0.98


def test_the_largest_face_comes_first(astronaut):
    from PIL import Image

    head = astronaut[20:220, 120:340]
    small = np.asarray(Image.fromarray(head).resize((132, 120)))
    scene = np.full((240, 400), 128, np.uint8)
    scene[60:180, 10:142] = small
    scene[20:220, 160:380] = head
    faces = find_faces(scene)
    assert len(faces) == 2
    assert faces[0].left > 160 > faces[1].left
    assert faces[0].width > faces[1].width
    again = find_faces(scene[:, ::-1])
    assert again[0].left < 240 - again[0].width < again[1].left


def test_no_face_no_crop(photo):
    pytest.importorskip("cv2", reason="OpenCV (extra faces) is not installed")
    assert find_faces(photo) == ()
    assert crop_face(photo) is None
    assert crop_face(np.zeros((200, 200), np.uint8)) is None
    assert crop_face(np.zeros((2, 2), np.uint8)) is None


def test_what_is_not_grey_pixels_is_refused(astronaut):
    with pytest.raises(DataMismatch, match=r"not in float64 \(512, 512\)"):
        find_faces(astronaut / 255)
    with pytest.raises(DataMismatch, match=r"not in uint8 \(3, 4, 3\)"):
        find_faces(np.zeros((3, 4, 3), np.uint8))
    with pytest.raises(OptionError, match="size must be ≥ 1, not 0"):
        crop_face(astronaut, 0)


def test_without_opencv_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "cv2":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"finding faces needs an optional package: pip install '\.\[faces\]'"):
        require_opencv()


def test_opencv_5_has_no_cascades(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", types.SimpleNamespace(__version__="5.0.0"))
    with pytest.raises(UsageError, match=r"OpenCV 5\.0\.0 has no cascade classifier"):
        require_opencv()
