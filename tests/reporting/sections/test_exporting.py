from __future__ import annotations

from weightsmith.reporting.describe import describe
from weightsmith.spiking.nir.exchange import NirExport, NirNode
from weightsmith.spiking.nir.handover import HandoverCheck, LayerCheck
from weightsmith.spiking.portable.export import PopulationCheck, TorchExport

WRITTEN = NirExport(
    file="net.nir",
    vector="net.vector.npz",
    neuron="if:reset=hard",
    reset="hard",
    dt=1.0,
    nodes=(NirNode("input", "Input", (1, 8, 8)),),
    folded=("pool1 into conv2",),
    notes=("a note",),
    images=2,
    steps=32,
    spikes={"a": 1500},
    before={"a": 1400},
    sha256="ab" * 32,
)


def check(theirs: int) -> HandoverCheck:
    layer = LayerCheck("a", 1500, theirs, abs(theirs - 1500))
    return HandoverCheck("net.nir", "norse", "if", "hard", 2, 32, (layer,), 0.0, {"norse": "1.2"})


def test_vector_nodes_and_what_was_folded():
    section = describe(WRITTEN, "runs/spiking")
    assert dict(section.chips) == {
        "folded": "pool1 into conv2",
        "test vector": "2 images, 32 steps, 1,500 spikes (1,400 before rounding)",
    }
    assert section.about == "if:reset=hard, hard reset, dt 1"
    assert section["Nodes"].to_rows() == [{"node": "input", "type": "Input", "gives": "1 × 8 × 8"}]


def test_other_spikes_elsewhere_must_be_looked_at():
    assert describe(WRITTEN, "n", checks=[check(1500), check(1501)]).look_at == ()  # as float32 may
    section = describe(WRITTEN, "n", checks=[check(1530)])
    assert section.look_at == ("norse counts other spikes: 2 % of those of a differ",)
    assert section["Spikes here and in norse 1.2"].to_rows()[0]["differ"] == 30


def test_a_torch_module_that_spikes_otherwise_must_be_looked_at():
    def of(differ: int) -> TorchExport:
        return TorchExport("net.py", "net.safetensors", "if", 2, 8, (PopulationCheck("a", 10, 10, differ),), 0.0)

    assert describe(of(0), "n").look_at == ()
    section = describe(of(3), "n")
    assert section.look_at == ("3 spikes of net.py differ from those of weightsmith",)
    assert section["Spikes here and in net.py"].to_rows() == [
        {"population": "a", "ours": 10, "theirs": 10, "differ": 3}
    ]
