from __future__ import annotations

import re

import pytest

from weightsmith.data.catalogue import CATALOGUE
from weightsmith.data.remotes import REMOTES

EVERY = [(name, remote) for name, remotes in REMOTES.items() for remote in remotes]


@pytest.mark.parametrize(("name", "remote"), EVERY, ids=lambda item: getattr(item, "file", item))
def test_every_file_is_pinned_and_fetched_over_https(name, remote):
    assert name in CATALOGUE
    assert remote.url.startswith("https://")
    assert re.fullmatch(r"[0-9a-f]{64}", remote.sha256)
    assert remote.size > 1000
    assert remote.url.endswith(f"/{remote.file}")


def test_no_file_is_pinned_twice():
    assert len({remote.sha256 for _, remote in EVERY}) == len(EVERY)


def test_what_can_be_fetched_would_be_found(tmp_path):
    """The file names are those the readers look for."""
    for name, remotes in REMOTES.items():
        folder = tmp_path / name
        folder.mkdir()
        for remote in remotes:
            (folder / remote.file).write_bytes(b"")
        assert CATALOGUE[name].find(folder, ("train", "test")) is not None
