from __future__ import annotations

import numpy as np
import pytest

from weightsmith.data.pixels import Pixels, cached_pixels

MADE = Pixels(np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2), 1)


class Decoder:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return MADE


def check(found):
    assert np.array_equal(found.pixels, MADE.pixels)
    assert found.pixels.dtype == np.uint8
    assert found.lossy == 1


def test_decoded_once_per_source(own_cache):
    decode = Decoder()
    for source in ("aa", "aa", "bb", "aa"):
        check(cached_pixels(source, decode))
    assert decode.calls == 2
    assert len(list(own_cache.glob("decoded/*.npz"))) == 2
    assert not list(own_cache.rglob("*.part"))


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:300] + b"?" + b[301:], lambda b: b"", lambda b: b + b"x"]
)
def test_a_damaged_cache_is_rebuilt(own_cache, damage):
    decode = Decoder()
    cached_pixels("aa", decode)
    (path,) = own_cache.glob("decoded/*.npz")
    path.write_bytes(damage(path.read_bytes()))
    check(cached_pixels("aa", decode))
    check(cached_pixels("aa", decode))
    assert decode.calls == 2
    assert len(list(own_cache.glob("decoded/*.npz"))) == 1


def test_a_cache_that_cannot_be_written_is_no_error(own_cache):
    own_cache.write_text("a file where the folder should be")
    decode = Decoder()
    check(cached_pixels("aa", decode))
    check(cached_pixels("aa", decode))
    assert decode.calls == 2


def test_a_folder_in_the_files_place_is_no_error(own_cache):
    (own_cache / "decoded" / "aa-bb.npz").mkdir(parents=True)
    check(cached_pixels("aa", Decoder()))
