from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats import images as module
from weightsmith.data.formats.folder import Folder

DRAW = np.random.default_rng(2)


def picture(path, height=4, width=5, mode="RGB"):
    """An image of random pixels at ``path``; returns them as (c, h, w) in the colours that are read."""
    shape = {"RGB": (height, width, 3), "RGBA": (height, width, 4), "L": (height, width)}[mode]
    pixels = DRAW.integers(0, 256, shape, np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels, mode).save(path)
    return pixels[None] if mode == "L" else pixels[..., :3].transpose(2, 0, 1)


def test_classes_and_images_in_name_order(tmp_path):
    dog = picture(tmp_path / "dog" / "1.png")
    cat_b = picture(tmp_path / "cat" / "b.bmp")
    cat_a = picture(tmp_path / "cat" / "a" / "z.PNG")
    part = Folder(str(tmp_path)).read()["train"]
    assert part.classes == ("cat", "dog")
    assert np.array_equal(part.x, np.stack([cat_a, cat_b, dog]))
    assert part.y.tolist() == [0, 0, 1]
    assert part.notes == ()


def test_grey_only_if_all_are(tmp_path):
    grey = picture(tmp_path / "a" / "1.png", mode="L")
    assert np.array_equal(Folder(str(tmp_path)).read()["train"].x, grey[None])
    coloured = picture(tmp_path / "b" / "1.png", mode="RGBA")
    part = Folder(str(tmp_path)).read()["train"]
    assert np.array_equal(part.x, np.stack([np.repeat(grey, 3, 0), coloured]))


def test_folders_named_after_splits(tmp_path):
    train = picture(tmp_path / "train" / "b" / "1.png")
    picture(tmp_path / "val" / "a" / "1.png")
    picture(tmp_path / "test" / "b" / "1.png")
    parts = Folder(str(tmp_path)).read()
    assert set(parts) == {"train", "validation", "test"}
    assert np.array_equal(parts["train"].x[0], train)
    assert parts["train"].classes == ("a", "b")
    assert (parts["train"].y.tolist(), parts["validation"].y.tolist()) == ([1], [0])


def test_a_class_called_train_is_a_class(tmp_path):
    picture(tmp_path / "train" / "1.png")
    picture(tmp_path / "plane" / "1.png")
    assert Folder(str(tmp_path)).read()["train"].classes == ("plane", "train")


def test_two_folders_for_one_split(tmp_path):
    picture(tmp_path / "val" / "a" / "1.png")
    picture(tmp_path / "valid" / "a" / "1.png")
    with pytest.raises(FileRefused, match="two folders for the validation split: val and valid"):
        Folder(str(tmp_path)).read()


def test_sizes_must_agree_or_be_given(tmp_path):
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "b" / "2.png", height=6)
    with pytest.raises(FileRefused, match=r"2\.png: has 5×6 pixels, but 1\.png 5×4; give size="):
        Folder(str(tmp_path)).read()
    assert Folder(str(tmp_path), (3,)).read()["train"].x.shape == (2, 3, 3, 3)
    assert Folder(str(tmp_path), (2, 7)).read()["train"].x.shape == (2, 3, 2, 7)


def test_resizing_keeps_a_plain_colour_and_where_things_are(tmp_path):
    image = np.zeros((8, 8, 3), np.uint8)
    image[:4] = (200, 100, 50)
    (tmp_path / "a").mkdir()
    Image.fromarray(image).save(tmp_path / "a" / "1.png")
    x = Folder(str(tmp_path), (2, 2)).read()["train"].x[0]
    assert abs(x[:, 0].astype(int) - np.array([[200], [100], [50]])).max() <= 30
    assert x[:, 1].max() <= 30


def test_files_that_are_no_images_are_reported(tmp_path):
    picture(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "notes.txt").write_text("hello")
    (tmp_path / "a" / ".DS_Store").write_text("")
    part = Folder(str(tmp_path)).read()["train"]
    assert part.notes == (f"{tmp_path}: 1 files that are not images were skipped, such as notes.txt",)


@pytest.mark.parametrize("damage", [lambda b: b[:60], lambda b: b[:20], lambda b: b"", lambda b: b"not an image"])
def test_a_broken_image_is_named(tmp_path, damage):
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "a" / "2.png")
    path = tmp_path / "a" / "2.png"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileRefused, match=r"2\.png: is not a readable image") as caught:
        Folder(str(tmp_path)).read()
    assert "\n" not in str(caught.value)


def test_huge_images_are_refused_by_their_header(tmp_path, monkeypatch):
    picture(tmp_path / "a" / "1.png")
    monkeypatch.setattr(module, "_MOST_PIXELS", 19)
    with pytest.raises(FileRefused, match="5×4 pixels, too many"):
        Folder(str(tmp_path)).read()


def test_sixteen_bit_images_are_refused_not_clipped(tmp_path):
    (tmp_path / "a").mkdir()
    Image.fromarray(np.full((3, 3), 4000, np.uint16)).save(tmp_path / "a" / "1.png")
    with pytest.raises(FileRefused, match="more than 8 bits"):
        Folder(str(tmp_path)).read()


def test_no_images_and_no_folder(tmp_path):
    with pytest.raises(FileRefused, match="no such folder"):
        Folder(str(tmp_path / "nothing")).read()
    (tmp_path / "1.png").write_bytes(b"")
    with pytest.raises(FileRefused, match="holds no images in subfolders"):
        Folder(str(tmp_path)).read()


def test_a_resize_to_more_than_memory_is_refused_first(tmp_path):
    picture(tmp_path / "a" / "1.png")
    with pytest.raises(FileRefused, match="a batch of 8 images of 100000×100000 would take"):
        Folder(str(tmp_path), (100_000,)).read()
