from __future__ import annotations

from weightsmith.networks.models.vgg import LISTS, Vgg
from weightsmith.papers.experiments.vgg_leaks import EXPERIMENT


def test_the_network_has_an_eighth_of_the_paper_s_channels():
    network = Vgg.of(EXPERIMENT.full.prepare["network"])
    assert [8 * width for width in network.widths] == [width for width in LISTS[11] if width != "A"]
    assert network.classifier == (1024 // 8, 1024 // 8)
