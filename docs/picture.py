"""Take the README's picture: the page that a real run of ``weightsmith demo`` ends with, in the browser of the machine.

make picture        needs Chromium (make browser)
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent / "images" / "report.png"
WIDTH, HEIGHT = 1280, 1000


def main() -> None:
    """Run the demo, open its page, keep what a reader sees first."""
    browser_file = next(
        path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "weightsmith", "demo", "--out", "demo", "--quiet"], cwd=folder, check=True
        )
        shot = Path(folder) / "report.png"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto((Path(folder) / "demo" / "report.html").as_uri())
            page.screenshot(path=shot)
            browser.close()
        TARGET.parent.mkdir(exist_ok=True)
        Image.open(shot).convert("RGB").save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
