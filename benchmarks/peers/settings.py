"""What a process needs to be told before a peer is imported."""

from __future__ import annotations

import os

__all__ = ["child_environment"]

_SETTINGS = {
    "KERAS_BACKEND": "torch",
    # One thread: eigenvalues and convolutions differ in the last bits between thread counts.
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Otherwise the order of sets of names, and with it a peer's order of layers, changes from run to run.
    "PYTHONHASHSEED": "0",
}


def child_environment() -> dict[str, str]:
    """The environment of this process with the settings under which peers are run."""
    return {**os.environ, **_SETTINGS}
