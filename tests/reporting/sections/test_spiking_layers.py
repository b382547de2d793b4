from __future__ import annotations

from weightsmith.reporting.sections._spiking_layers import shown_steps


def test_steps_that_are_shown():
    assert [shown_steps(n) for n in (1, 2, 3, 64)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8, 16, 32, 64]]
