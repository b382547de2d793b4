from __future__ import annotations

from weightsmith.papers.experiments.alpha_hat import _MEASURES, EXPERIMENT


def test_four_networks_decide_nothing(verdicts):
    def ordered(seed, network):
        size = len(network) + int(network[-2:])
        return {"error": 1 / size, **dict.fromkeys(_MEASURES, 1 / size)}

    found = verdicts(EXPERIMENT, ordered, seeds=(0,))
    assert set(found.values()) == {"cannot say"}
