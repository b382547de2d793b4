"""What is measured of a reduction is what the networks themselves give."""

from __future__ import annotations

import weightsmith as ws
from weightsmith.core.statistics import mcnemar
from weightsmith.data.tensors import Data
from weightsmith.networks.evaluation import scores
from weightsmith.networks.operations import count_operations, operations
from weightsmith.reducing.reduce import reduce
from weightsmith.training.run import TrainRun


def test_accuracies_sizes_and_cost(trained: TrainRun, digits: Data) -> None:
    small = reduce(
        trained, digits, by="random", target="params:0.4", recover="fine-tune:2,rate=0.05", latency=False, random=3
    )
    record, test = small.record, digits.split("test")
    assert record.measured.reduced == ws.evaluate(small.network, digits).accuracy
    assert record.measured.whole == ws.evaluate(trained.network, digits).accuracy
    right = [(scores(net, test.x).argmax(dim=1) == test.y).numpy() for net in (small.network, trained.network)]
    assert record.measured.cost == mcnemar(*right)
    x = test.x[:2].float()
    assert record.whole.macs == operations(trained.network, x)
    assert record.reduced.macs == operations(small.network, x)
    assert record.reduced.connections == count_operations(small.network, x, zeros=False).total
    assert record.reduced.parameters == sum(value.numel() for value in small.network.parameters())
    assert record.random is not None
    assert record.random.counts == (small.sites[0].after,)


def test_nothing_taken_out_has_no_masks_beside_it(trained: TrainRun, digits: Data) -> None:
    same = reduce(trained, digits, by="angles:0.01", latency=False, random=5)
    assert same.record.random is None
    assert same.record.measured.cost.difference == 0
    assert same.record.reduced.parameters == same.record.whole.parameters
