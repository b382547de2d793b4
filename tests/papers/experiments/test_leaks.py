from __future__ import annotations

import pytest

from weightsmith.papers.experiments import resnet_leaks, vgg_leaks


def planted(gain_of, accuracy=0.5, half=0.004):
    def row(seed, leak, reset):
        gain = gain_of(leak, reset)
        return {
            "network_accuracy": 0.7,
            "baseline": accuracy,
            "adjusted": accuracy + gain,
            "gain": gain,
            "low": gain - half,
            "high": gain + half,
            "p": 0.01,
            "factor": 0.3,
            "adjusted_factor": 0.5,
            "smoothing": 2.0,
            "judged_images": 2000,
        }

    return row


@pytest.mark.parametrize("experiment", [resnet_leaks.EXPERIMENT, vgg_leaks.EXPERIMENT], ids=lambda each: each.name)
def test_verdicts_follow_what_is_planted(verdicts, experiment):
    found = verdicts(experiment, planted(lambda leak, reset: 0.2 * (1 - leak) + 0.02 * (reset == "hard")))
    assert {found[name] for name in ("slow-soft", "fast", "hard", "trend")} == {"holds"}
    against = verdicts(experiment, planted(lambda leak, reset: 0.3 * (leak - 0.94)))
    assert [against[name] for name in ("slow-soft", "fast", "trend")] == [
        "does not hold",
        "does not hold",
        "does not hold",
    ][:3]
    inside = verdicts(experiment, planted(lambda leak, reset: 0.004 - 0.001 * leak, half=0.009))
    assert inside["slow-soft"] == "cannot say"
