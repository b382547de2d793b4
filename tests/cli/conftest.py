from __future__ import annotations

import dataclasses

import pytest

from weightsmith.cli import main


@dataclasses.dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


@pytest.fixture
def run(capfd, monkeypatch):
    """Run the command line in this process and give its exit code and what it printed."""
    monkeypatch.delenv("COLUMNS", raising=False)  # a test runner may set it; a pipe has no columns

    def call(*words: object) -> Answer:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        printed = capfd.readouterr()
        return Answer(ended.value.code, printed.out, printed.err)

    return call
