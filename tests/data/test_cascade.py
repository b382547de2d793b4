from __future__ import annotations

import builtins
import sys
import types

import numpy as np
import pytest

from weightsmith.core.errors import DataMismatch, MissingExtra, OptionError, UsageError
from weightsmith.data.cascade import crop_face, find_faces, require_opencv


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
    with pytest.raises(
        MissingExtra, match=r"finding faces needs an optional package: pip install 'weightsmith\[faces\]'"
    ):
        require_opencv()


def test_opencv_5_has_no_cascades(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", types.SimpleNamespace(__version__="5.0.0"))
    with pytest.raises(UsageError, match=r"OpenCV 5\.0\.0 has no cascade classifier"):
        require_opencv()
