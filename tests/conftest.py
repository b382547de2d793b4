"""Common ground of all tests: one thread, and real data where the machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need real data, saying so, on a machine that has none."""
    if os.environ.get("WEIGHTSMITH_DATA"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="needs WEIGHTSMITH_DATA: real data sets and pretrained networks"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets and pretrained networks (tests that take it are marked ``data``)."""
    return Path(os.environ["WEIGHTSMITH_DATA"])
