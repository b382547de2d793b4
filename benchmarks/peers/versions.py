"""Import every peer in a process of its own and print its version: ``python -m benchmarks.peers.versions``."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

from benchmarks.peers.settings import child_environment

__all__ = ["PEERS", "main"]

# Distribution name -> the module that is used of it.
PEERS = {
    "deap": "deap.tools",
    "jax": "jax",
    "joblib": "joblib",
    "keras": "keras",
    "lightning": "lightning.pytorch",
    "nir": "nir",
    "nirtorch": "nirtorch",
    "norse": "norse.torch",
    "powerlaw": "powerlaw",
    "pymoo": "pymoo.util.nds.non_dominated_sorting",
    "scikit-learn": "sklearn",
    "sinabs": "sinabs.layers",
    "skorch": "skorch",
    "snntorch": "snntorch",
    "spikingjelly": "spikingjelly.activation_based.neuron",
    "torch": "torch",
    "torch-pruning": "torch_pruning",
    "weightsmith": "weightsmith",
    "weightwatcher": "weightwatcher",
}


def main() -> int:
    """Print one line per peer; 1 if one of them is absent or does not import."""
    broken = 0
    for name, module in PEERS.items():
        problem = _problem_with(module)
        broken += problem is not None
        print(f"{name:14} {problem or importlib.metadata.version(name)}", flush=True)
    return min(broken, 1)


def _problem_with(module: str) -> str | None:
    """The last line of what went wrong when ``module`` was imported alone, or None."""
    run = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
    return None if run.returncode == 0 else lines[-1]


if __name__ == "__main__":
    sys.exit(main())
