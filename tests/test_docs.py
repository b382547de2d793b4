"""Every code block in README, CONTRIBUTING and docs runs: Python in order, commands as a person would type them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from weightsmith.cli import main
from weightsmith.core.options import Option

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Whole chains, searches and pages; what they show in short stands in the README too.
LONG = {
    ROOT / "docs" / f"{name}.md"
    for name in ("grading", "pipeline", "reducing", "report", "spiking", "tailoring", "tour", "tutorial")
}
BLOCK = re.compile(
    r"(?P<mark><!-- needs: data -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass
class Block:
    language: str
    code: str
    line: int
    needs_data: bool


def blocks_of(text: str) -> list[Block]:
    found = BLOCK.finditer(text)
    return [Block(m["language"], m["code"], text.count("\n", 0, m.start("code")), bool(m["mark"])) for m in found]


@pytest.fixture
def only_our_options():
    """A page may add members to families of options; other tests do not know them. Ours register on first import."""
    before = {family: set(family.members) for family in Option.__subclasses__()}
    yield
    for family in Option.__subclasses__():
        added = set(family.members) - before.get(family, set())
        for name in added:
            if not family.members[name].__module__.startswith("weightsmith."):
                del family.members[name]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] * (page in LONG)) for page in PAGES],
)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys, only_our_options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(tmp_path / "cache"))
    real = os.environ.get("WEIGHTSMITH_DATA")
    if real:
        for file in (Path(real) / "weights").glob("*.safetensors"):
            (tmp_path / file.name).symlink_to(file)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text()):
        if block.needs_data and not real:
            continue
        if block.language == "python":
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
        elif block.language == "console":
            for line in block.code.splitlines():
                run_command(line, page)
        else:
            assert block.language in ("text", "mermaid"), (
                f"{page}:{block.line}: a block of {block.language!r} cannot run"
            )


def run_command(line: str, page: Path) -> None:
    if not line.startswith("$ "):
        raise AssertionError(f"{page}: {line!r} is no command; what a command prints stands in a text block")
    words = shlex.split(line[2:], comments=True)
    if words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
        return
    if words[:2] == ["pip", "install"]:
        return
    assert words[0] == "weightsmith", f"{page}: {line!r} is not a command of ours"
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert ended.value.code == 0, line


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_a_wrong_block_would_be_seen():
    assert [b.code for b in blocks_of("x\n```python\n1/0\n```\n\n<!-- needs: data -->\n```console\n$ a\n```\n")] == [
        "1/0\n",
        "$ a\n",
    ]
    with pytest.raises(AssertionError, match="not a command of ours"):
        run_command("$ rm -rf x", ROOT)
    with pytest.raises(AssertionError, match="no command"):
        run_command("printed text", ROOT)
