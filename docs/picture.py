"""Draw the README's picture from a real run of ``weightsmith demo``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 104
TARGET = Path(__file__).parent / "images" / "demo.svg"


def main() -> None:
    """Run the demo, keep its colours, write the SVG without a font from the web."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "weightsmith", "demo", "--out", "demo"]
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    # What a rerun cannot repeat does not belong in a committed picture.
    shown = re.sub(r", fitted in [\d.]+ s", "", answer.stdout)
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text("$ make demo", style="bold"))
        console.print(Text.from_ansi(shown.rstrip()))
        svg = console.export_svg(title="weightsmith demo", theme=MONOKAI, unique_id="demo")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code,", "")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(svg + "\n")


if __name__ == "__main__":
    main()
