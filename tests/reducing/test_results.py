"""The record of a reduction survives JSON, and its one line says what matters."""

from __future__ import annotations

from weightsmith.data.tensors import Data
from weightsmith.reducing.reduce import reduce
from weightsmith.reducing.results import ReductionRecord
from weightsmith.training.run import TrainRun


def test_record_and_line(trained: TrainRun, digits: Data) -> None:
    small = reduce(trained.network, digits, by="genetic:50,population=20,generations=3", latency=False, random=2)
    record = small.record
    assert ReductionRecord.from_json(record.to_json()) == record
    assert record.trace is not None
    assert len(record.trace.rows) >= 3
    line = str(small)
    (site,) = small.sites
    assert f"40 → {site.after} units" in line
    assert f"{record.whole.parameters:,} → {record.reduced.parameters:,} parameters" in line
    assert f"{record.measured.reduced.value:.2%}" in line
    assert repr(small) == f"Reduction({line})"
    assert small.kept == {"dense1": site.kept}
