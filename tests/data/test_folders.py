from __future__ import annotations

from pathlib import Path

import pytest

from weightsmith.data.folders import cache_folder, data_folders, fetched_folder


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WEIGHTSMITH_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/weightsmith"),
        ({"HOME": "/c"}, "/c/.cache/weightsmith"),
        ({"WEIGHTSMITH_CACHE": "~/d", "HOME": "/c"}, "/c/d"),
        ({"WEIGHTSMITH_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/weightsmith"),
    ],
)
def test_the_cache(monkeypatch, variables, expected):
    for name in ("WEIGHTSMITH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_the_users_folder_comes_before_the_cache(monkeypatch):
    monkeypatch.setenv("WEIGHTSMITH_CACHE", "/a")
    monkeypatch.setenv("WEIGHTSMITH_DATA", "/data")
    assert data_folders("mnist") == (Path("/data/mnist"), Path("/a/data/mnist"))
    assert fetched_folder("mnist") == Path("/a/data/mnist")
    monkeypatch.delenv("WEIGHTSMITH_DATA")
    assert data_folders("mnist") == (Path("/a/data/mnist"),)
