from __future__ import annotations

from weightsmith.networks.models.vgg import LISTS, Vgg
from weightsmith.papers.experiments.vgg_leaks import EXPERIMENT


def test_the_network_has_an_sixteenth_to_an_eighth_of_the_paper_s_channels():
    network = Vgg.of(EXPERIMENT.full.prepare["network"])
    paper = [width for width in LISTS[11] if width != "A"]
    assert all(8 * width <= whole <= 16 * width for width, whole in zip(network.widths, paper, strict=True))
    assert network.classifier == (64, 64)
