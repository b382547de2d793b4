from __future__ import annotations

from weightsmith.papers.experiments.vgg5_leaks import EXPERIMENT


def planted(gain_of, baseline=lambda leak, reset: 0.8 - (1 - leak), half=0.004):
    def row(seed, leak, reset):
        gain, base = gain_of(leak), baseline(leak, reset)
        found = {"baseline": base, "adjusted": base + gain, "gain": gain, "low": gain - half, "high": gain + half}
        setting = {"factor": 0.3, "adjusted_factor": 0.5, "smoothing": 2.0, "edge": leak == 0.9}
        return {**found, **setting, "p": 0.01, "judged_images": 2000}

    return row


def test_gains_everywhere_and_losses_by_leak_and_reset_hold(verdicts):
    found = verdicts(
        EXPERIMENT,
        planted(lambda leak: 0.02 + 0.1 * (1 - leak), lambda leak, reset: 0.9 * leak - 0.1 * (reset == "hard")),
        seeds=(0,),
    )
    assert set(found.values()) == {"holds"}


def test_what_the_rows_speak_against_does_not_hold(verdicts):
    found = verdicts(
        EXPERIMENT,
        planted(lambda leak: -0.02 - 0.1 * (1 - leak), lambda leak, reset: 0.5 + 0.1 * (reset == "hard")),
        seeds=(0,),
    )
    assert set(found.values()) == {"does not hold"}


def test_inside_the_noise_there_is_no_verdict(verdicts):
    found = verdicts(EXPERIMENT, planted(lambda leak: 0.001, half=0.01), seeds=(0,))
    assert {found[name] for name in ("all", "trend", "no-leak", "hard")} == {"cannot say"}
