"""A real browser for the pages: Chromium of the machine, driven by Playwright, with every request watched.

``make browser`` installs it where that is possible. Elsewhere these tests say why they are skipped; with
WEIGHTSMITH_BROWSER=required, as CI sets it, a missing browser is an error; with WEIGHTSMITH_BROWSER=none there is none.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def missing(what: str):
    said = f"{what} is not installed: make browser"
    if os.environ.get("WEIGHTSMITH_BROWSER") == "required":
        pytest.fail(said)
    pytest.skip(said)


@pytest.fixture(scope="session")
def chromium():
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None or os.environ.get("WEIGHTSMITH_BROWSER") == "none":
        missing("Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the package playwright")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core, which finds what people with a screen reader or a keyboard would stumble over."""
    if not AXE.exists():
        missing("axe-core")
    return AXE.read_text(encoding="utf-8")


class Visit:
    """A page that was opened from disk, and all that it said and asked for."""

    def __init__(self, browser, path: Path, **options) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda line: self.errors.append(line.text) if line.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def visit(chromium):
    """Open a page; at the end nothing was complained of, and nothing but the page itself was asked for."""
    visits: list[tuple[Visit, Path]] = []

    def opened(path: Path, **options) -> Visit:
        visits.append((Visit(chromium, path, **options), path))
        return visits[-1][0]

    yield opened
    for each, path in visits:
        each.context.close()
        assert each.errors == []
        assert [url for url in each.requests if url.partition("#")[0] != path.as_uri()] == []
