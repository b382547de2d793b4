"""``export_nir``: write a spiking network in the exchange format NIR, with a test vector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Range
from weightsmith.core.verbs import Doc, Seed, verb

if TYPE_CHECKING:
    from torch import Tensor

    from weightsmith.spiking.network import SpikingNetwork
    from weightsmith.spiking.nir.exchange import NirExport

__all__ = ["STEPS", "export_nir"]

STEPS = 32


@verb
def export_nir(
    network: SpikingNetwork,
    path: str | Path,
    *,
    sumpool: Annotated[bool, Doc("keep pools as SumPool2d: smaller, but not every tool reads it")] = False,
    rounding: Annotated[
        int | None,
        Range(ge=1, le=20),
        Doc("binary digits of weights and thresholds (8: multiples of 1/256), for equal counts everywhere"),
    ] = None,
    x: Tensor | None = None,
    steps: Annotated[int | None, Range(ge=1), Doc("time steps of the test vector (those of the record, or 32)")] = None,
    seed: Seed = 0,
) -> NirExport:
    """Write ``network`` to ``path`` (``.nir``), and its test vector beside it (``.vector.npz``).

    ``sumpool`` keeps pools as SumPool2d: a much smaller file where a large dense layer follows. ``rounding`` is a
    number of binary digits: weights and thresholds become multiples of 2^−rounding, so that all simulators count the
    same spikes to the last one. The test vector is made from the images ``x`` as they come from the data, or from
    random spikes, over ``steps`` steps (32).
    """
    from weightsmith.spiking.files import checked_spiking
    from weightsmith.spiking.nir._vector import drive_for
    from weightsmith.spiking.nir.exchange import write_nir

    checked_spiking(network, "export_nir")
    path = Path(path)
    if path.suffix != ".nir":
        raise UsageError(f"{path}: NIR files end in .nir (a module in plain torch in .py)")
    return write_nir(
        network,
        path,
        drive_for(network, x, STEPS if steps is None else steps, seed),
        sumpool=sumpool,
        rounding=rounding,
    )
