"""A folder as the Hugging Face Hub expects it: weights, configuration, and a model card with our figures.

    model.safetensors    the network, sealed like all files of weightsmith; plain safetensors for other tools
    config.json          architecture, input shape, normalisation, class names
    README.md            the model card: front matter, and the description of the result
    figures/             the drawings of that description

Nothing is uploaded: ``hf upload NAME FOLDER`` of huggingface_hub does that.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from weightsmith._version import __version__
from weightsmith.chain.report import gather
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.storage import write_atomic
from weightsmith.networks.card import Card, card_of
from weightsmith.networks.files import load, save
from weightsmith.networks.held import held_network
from weightsmith.reporting.describe import describe
from weightsmith.reporting.figures.style import save_figure
from weightsmith.reporting.markdown import markdown
from weightsmith.reporting.parts import Drawing, Section

__all__ = ["export_huggingface"]

_MOST_FIGURES = 6
_TASKS = {3: "image-classification", 1: "tabular-classification"}  # by the dimensions of an input


def export_huggingface(result: Any, folder: str | Path, *, network: str | None = None) -> Path:
    """Write ``result`` (what a verb returned, a result folder, a network or its file) to ``folder``.

    The card describes the result, if there is one beside the network. ``network`` is as in :func:`weightsmith.load`.

    >>> import tempfile, weightsmith as ws
    >>> made = tempfile.TemporaryDirectory()
    >>> out = export_huggingface(ws.train("mlp:8", "digits", epochs=1), made.name)
    >>> sorted(path.name for path in out.iterdir()), ws.load(out).architecture.hidden
    (['README.md', 'config.json', 'figures', 'model.safetensors'], (8,))
    """
    folder = Path(folder)
    module = load(result, network=network) if isinstance(result, str | Path) else held_network(result)
    save(module, folder / "model.safetensors")
    card, section = card_of(module), _described(result)
    write_atomic(folder / "config.json", json.dumps(_configuration(card), indent=2, ensure_ascii=False) + "\n")
    figures = {} if section is None else _figures(section, folder)
    text = "" if section is None else markdown(section, figures)
    write_atomic(folder / "README.md", "\n".join([_front_matter(card), text or "# A network\n", _usage(folder.name)]))
    return folder


def _described(result: Any) -> Section | None:
    """The description of the result, or None for a network without one."""
    try:
        found = gather(result)
    except (UsageError, FileRefused):
        return None
    return describe(found[-1].record, found[-1].name)


def _configuration(card: Card) -> dict[str, Any]:
    known = card.to_dict()
    return {
        "model_type": "weightsmith",
        "architectures": [str(card.architecture or card.factory or "unknown")],
        "id2label": dict(enumerate(card.classes)),
        "label2id": {name: number for number, name in enumerate(card.classes)},
        "weightsmith": {key: known[key] for key in ("architecture", "factory", "input_shape", "normalisation")},
        "weightsmith_version": __version__,
    }


def _figures(section: Section, folder: Path) -> dict[str, str]:
    """Write the first drawings and return their files by title."""
    made: dict[str, str] = {}
    for part in section.parts:
        if isinstance(part, Drawing) and len(made) < _MOST_FIGURES:
            name = re.sub(r"[^a-z0-9]+", "-", part.title.lower()).strip("-") or f"figure-{len(made) + 1}"
            made[part.title] = f"figures/{name}.png"
            save_figure(part.figure(), folder / made[part.title])
    return made


def _front_matter(card: Card) -> str:
    task = _TASKS.get(len(card.input_shape))
    lines = ["---", "library_name: weightsmith", "tags:", "- weightsmith"]
    return "\n".join([*lines, *([f"pipeline_tag: {task}"] if task else []), "---", ""])


def _usage(name: str) -> str:
    lines = ["## Use", "```python", "import weightsmith as ws", "", f'network = ws.load("{name}")', "```"]
    return "\n".join([*lines, "", f"Written by weightsmith {__version__}. Add a licence before you publish it.", ""])
