"""The records of the diagnosis and the order of its verdicts."""

from __future__ import annotations

import pytest

from weightsmith.core.errors import UsageError
from weightsmith.training.diagnosis.gradients import (
    GROWN,
    LARGEST_FIRST_UPDATE,
    LARGEST_UPDATE,
    SHRUNK,
    GradientDiagnosis,
    Health,
    LayerGradients,
)


def diagnosis(**changes):
    layer = LayerGradients("a", (0.1, None), (1e-3, None), Health.NOT_FINITE, "why")
    return GradientDiagnosis(
        **{"probes": (0, 5), "layers": (layer,), "reference": "a", "health": Health.NOT_FINITE, "sentence": "so"}
        | changes
    )


def test_records_go_through_json_exactly():
    found = diagnosis()
    assert GradientDiagnosis.from_json(found.to_json()) == found
    assert '"health": "not finite"' in found.to_json()


def test_print_shows_the_sentence():
    assert str(diagnosis()) == "so"


def test_a_number_that_is_none_is_refused():
    layer = LayerGradients("a", (float("nan"),), (0.0,), Health.HEALTHY, "")
    with pytest.raises(UsageError, match="finite numbers or None"):
        diagnosis(layers=(layer,)).to_json()


def test_health_is_ordered_from_good_to_bad():
    severities = [health.severity for health in Health]
    assert severities == sorted(severities)
    assert Health.FROZEN.severity < Health.HEALTHY.severity < Health.VANISHING.severity < Health.EXPLODING.severity
    assert Health.NOT_FINITE.severity < Health.EXPLODING.severity


def test_limits_leave_room_for_what_was_measured():
    """The figures beside the limits: networks that train, and the worst of those that do not."""
    assert 7e-4 < SHRUNK < 0.003
    assert 240 < GROWN < 1e4
    assert 0.92 < LARGEST_UPDATE < 4.4 < LARGEST_FIRST_UPDATE
