"""Every vector file says how it was made, is finite, and belongs to the versions pinned for the peers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEERS = ROOT / "benchmarks" / "peers"
FILES = sorted(HERE.glob("*.json"))
TOPICS = [path.stem for path in FILES]

needs_peers = pytest.mark.skipif(not PEERS.is_dir(), reason="benchmarks/ is not part of the source archive")


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not a finite number")


@pytest.mark.parametrize("path", FILES, ids=TOPICS)
def test_names_its_command_and_versions(path: Path) -> None:
    content = json.loads(path.read_text(), parse_constant=_refuse)
    assert sorted(content) == ["command", "topic", "vectors", "versions"]
    assert content["topic"] == path.stem
    assert content["command"] == f"python -m benchmarks.peers.write {path.stem}"
    assert content["vectors"]
    assert content["versions"]["python"] == "3.11"
    assert all(re.fullmatch(r"\d+(\.\d+)+", version) for version in content["versions"].values())


@pytest.mark.parametrize("path", FILES, ids=TOPICS)
def test_is_small_sorted_and_exact(path: Path) -> None:
    text = path.read_text()
    assert len(text) < 16_000
    # Sorted keys and floats as repr writes them: reading and writing again gives the same characters.
    again = json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", again)


@needs_peers
def test_every_topic_has_its_file() -> None:
    modules = {path.stem for path in (PEERS / "vectors").glob("*.py") if not path.stem.startswith("_")}
    assert modules == set(TOPICS)


@needs_peers
@pytest.mark.parametrize("path", FILES, ids=TOPICS)
def test_versions_are_the_pinned_ones(path: Path) -> None:
    """A changed pin asks for the vectors to be written again."""
    lines = [
        line
        for name in ("requirements.txt", "nodeps.txt", "../../constraints.txt")
        for line in (PEERS / name).read_text().splitlines()
    ]
    pins = dict(match.groups() for line in lines if (match := re.match(r"([\w-]+)==([\w.]+)", line)))
    versions: dict[str, str] = json.loads(path.read_text())["versions"]
    del versions["python"]
    assert versions == {name: pins.get(name) for name in versions}


def _codes(count: int, salt: int, span: int = 127) -> list[int]:
    """The formula of the inputs in plain whole numbers: SplitMix64's output for the state salt·2³² + n."""
    mask, found = 2**64 - 1, []
    for n in range(count):
        z = (salt * 2**32 + n + 0x9E3779B97F4A7C15) & mask
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        found.append((z ^ (z >> 31)) % (2 * span + 1) - span)
    return found


@pytest.mark.parametrize(("layer", "salt"), [("conv", 1), ("wide", 2), ("tall", 3)])
def test_inputs_follow_their_formula(reference: Any, unpack: Any, layer: str, salt: int) -> None:
    array = unpack(reference("weightwatcher_layers")["layers"][layer])
    np.testing.assert_array_equal(array.ravel() * 64, _codes(array.size, salt))
