"""``evaluate``: the accuracy of a network on data, with its interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import StepCallback, as_callback
from weightsmith.core.verbs import Batch, Device, Seed, Split, TestRows, Threads, verb

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.networks.target_evaluation import RegressionEvaluation

__all__ = ["evaluate"]


@verb
def evaluate(
    network: nn.Module | str | Path,
    data: Any,
    *,
    split: Split = None,
    test_rows: TestRows = None,
    batch: Batch = 64,
    seed: Seed = 0,
    threads: Threads = 1,
    device: Device = "cpu",
    progress: StepCallback | bool | None = None,
) -> Evaluation | RegressionEvaluation:
    """Evaluate ``network`` on one split of ``data`` (a :class:`Data`, ``(x, y)``, a Dataset, a DataLoader or a name).

    The network may also be a result that holds one, or a file that ``load`` reads without further arguments. The
    default ``split`` is the test split, or the only one there is. With ``test_rows``, only that many of its rows are
    used, drawn by the seed. Inputs are normalised as the network's card says, and classes of network and data are
    matched by name. ``progress`` is called with (images done, images in all); True shows a bar.
    """
    from torch import nn

    from weightsmith.data.judging import draw_rows
    from weightsmith.networks.evaluation import evaluated
    from weightsmith.networks.files import load
    from weightsmith.networks.held import held_network

    network = held_network(network)
    if not isinstance(network, nn.Module):
        if not isinstance(network, str | Path):
            raise UsageError(
                f"evaluate takes a module, a result that holds one, or a file, not {type(network).__name__}; use run() "
                "of a spiking network, and ws.load(path, network=…) for weights alone"
            )
        network = load(network)
    rows = draw_rows(data, split, test_rows, seed)
    return evaluated(
        network,
        rows,
        seed=None if test_rows is None else seed,
        batch=batch,
        threads=threads,
        device=device,
        progress=as_callback(progress),
    )
