"""The description of an export to NIR, and of what other simulators make of the file."""

from __future__ import annotations

from collections.abc import Sequence

from weightsmith.reporting.parts import Column, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import counted, significant
from weightsmith.spiking.nir.exchange import NirExport
from weightsmith.spiking.nir.handover import HandoverCheck
from weightsmith.spiking.portable.export import TorchExport

__all__ = ["export_section", "torch_export_section"]

_TOLERANCE = 1e-3  # share of a layer's spikes that may differ: float32 in another order shifts a few


def export_section(written: NirExport, name: str, *, checks: Sequence[HandoverCheck] = ()) -> Section:
    """The description of an export of the network ``name``, with the ``checks`` in other simulators."""
    nodes = tuple((node.name, node.kind, " × ".join(map(str, node.shape))) for node in written.nodes)
    parts: list[Part] = [Table("Nodes", (Column("node"), Column("type"), Column("gives")), nodes, file="nodes.csv")]
    parts += map(_check, checks)
    if written.notes:
        parts.append(Notes(written.notes))
    folded = [("folded", "; ".join(written.folded))] if written.folded else []
    return Section(
        f"Export: {name}",
        f"{written.file} holds {counted(len(written.nodes), 'node')}, and {written.vector} the spikes they must give.",
        tuple(parts),
        (*folded, ("test vector", _vector(written))),
        f"{written.neuron}, {written.reset} reset, dt {written.dt:g}",
        tuple(_mismatch(check) for check in checks if check.worst > _TOLERANCE),
    )


def torch_export_section(written: TorchExport, name: str) -> Section:
    """The description of an export of the network ``name`` as a module in plain torch."""
    heads = ("population", "ours", "theirs", "differ")
    columns = tuple(Column(head, numeric=head != "population") for head in heads)
    rows = tuple((each.name, each.ours, each.theirs, each.differ) for each in written.populations)
    look_at = (f"{written.differ} spikes of {written.file} differ from those of weightsmith",) * bool(written.differ)
    return Section(
        f"Export: {name}",
        f"{written.neuron}, a module in plain torch; spikes compared on {counted(written.images, 'image')} over "
        f"{counted(written.steps, 'step')}.",
        (Table(f"Spikes here and in {written.file}", columns, rows, file="spikes.csv"),),
        look_at=look_at,
    )


def _vector(written: NirExport) -> str:
    spikes, before = sum(written.spikes.values()), sum(written.before.values())
    text = f"{counted(written.images, 'image')}, {counted(written.steps, 'step')}, {counted(spikes, 'spike')}"
    return text if written.spikes == written.before else f"{text} ({before:,} before rounding)"


def _check(check: HandoverCheck) -> Table:
    package = f"{check.simulator} {check.versions.get(check.simulator, '')}".strip()
    heads = ("ours", "theirs", "differ", "share")
    rows = [
        (layer.name, layer.ours, layer.theirs, layer.difference, Shown(layer.relative, significant(layer.relative)))
        for layer in check.layers
    ]
    last = ("output sums", None, None, None, Shown(check.scores, significant(check.scores)))
    columns = (Column("layer"), *(Column(head, numeric=True) for head in heads))
    return Table(f"Spikes here and in {package}", columns, (*rows, last), file=f"{check.simulator}.csv")


def _mismatch(check: HandoverCheck) -> str:
    worst = max(check.layers, key=lambda layer: layer.relative)
    return f"{check.simulator} counts other spikes: {100 * worst.relative:.2g} % of those of {worst.name} differ"
