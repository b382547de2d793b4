from __future__ import annotations

from weightsmith.networks.models.paper_resnet import PaperResnet
from weightsmith.papers.experiments.resnet_leaks import EXPERIMENT


def test_the_network_has_a_sixteenth_of_the_paper_s_channels():
    network = PaperResnet.of(EXPERIMENT.full.prepare["network"])
    assert tuple(16 * width for width in network.widths) == PaperResnet().widths


def test_fast_leaks_fail_where_little_more_than_chance_is_left(verdicts):
    def left(accuracy):
        def row(seed, leak, reset):
            found = {"baseline": accuracy, "adjusted": accuracy, "gain": leak / 100, "low": -0.01, "high": 0.01}
            return {**found, "p": 0.5, "factor": 0.3, "adjusted_factor": 0.3, "smoothing": 2.0, "judged_images": 2000}

        return row

    assert verdicts(EXPERIMENT, left(0.12))["fail"] == "holds"
    assert verdicts(EXPERIMENT, left(0.5))["fail"] == "does not hold"
