from __future__ import annotations

import numpy as np
import pytest

from weightsmith.papers.experiments.series import _FAMILIES, EXPERIMENT, MEASURES, _within_partial


def test_verdicts_follow_what_is_planted(verdicts):
    def world(alpha_of_error, norm_of_error):
        def planted(seed, family, **setting):
            place = EXPERIMENT.full.each.index({"family": family, **setting}) + seed / 3
            error = 0.1 + 0.001 * (place * 7 % 11) + 0.0001 * list(_FAMILIES).index(family)
            wobble = 0.0005 * np.sin(50 * place + len(family))
            row = dict.fromkeys(MEASURES, alpha_of_error * error + wobble)
            return {"error": error, **row, "log_norm": norm_of_error * error + 0.003 * np.cos(31 * place)}

        return planted

    found = verdicts(EXPERIMENT, world(1, 0))
    assert set(found.values()) == {"holds"}
    found = verdicts(EXPERIMENT, world(-1, 0))
    assert set(found.values()) == {"does not hold"}


def test_a_partial_correlation_takes_out_what_the_norm_tells():
    z = np.arange(12.0)
    x, y = z + 4 * np.sin(7 * z), z + 4 * np.cos(5 * z)
    families = np.array(["one"] * 12)
    from scipy.stats import kendalltau

    xy, xz, yz = (kendalltau(a, b).statistic for a, b in ((x, y), (x, z), (y, z)))
    want = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert _within_partial(x, y, z, families)[0] == pytest.approx(want)
    assert abs(want) < abs(xy)
