from __future__ import annotations

import numpy as np
import pytest
import torch

import weightsmith as ws
from weightsmith.papers.study.batched import FoldNetwork, TrainingSettings, _groups, train_batched


def rows(count, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(count) % 3
    x = random.normal(size=(count, 4)) + 2 * np.eye(3, 4)[y]
    return x.astype(np.float32), y


@pytest.mark.parametrize(
    ("activation", "initialiser"), [("sigmoid", "torch-default"), ("tanh", "glorot-uniform"), ("relu", None)]
)
def test_each_goes_the_way_that_train_goes_alone(activation, initialiser):
    x, y = rows(70)
    others = rows(70, seed=1)
    recipe = TrainingSettings(rate=0.02, epochs=3, batch=16, activation=activation, initialiser=initialiser)
    tasks = [
        FoldNetwork(x, y, 5, 11),
        FoldNetwork(*others, 8, 12),
        FoldNetwork(x, y, 13, 13),
        FoldNetwork(x[:61], y[:61], 5, 14),
    ]
    for task, found in zip(tasks, train_batched(tasks, 3, recipe), strict=True):
        network = f"mlp:{task.units},activation={activation}"
        run = ws.train(
            network if initialiser is None else f"{network},initialiser={initialiser}",
            {"train": (task.x, task.y)},
            optimiser="adam",
            schedule=0.02,
            epochs=3,
            batch=16,
            normalise="none",
            seed=task.seed,
            diagnose=False,
        )
        alone = [value.detach().numpy() for value in run.network.parameters()]
        together = (found.inward, found.inward_bias, found.outward, found.outward_bias)
        for ours, theirs in zip(together, alone, strict=True):
            assert ours.shape == theirs.shape
            assert np.abs(ours - theirs).max() < 2e-5
        assert found.activation == activation


def test_the_same_seed_gives_the_same_bytes_and_touches_no_global_generator():
    x, y = rows(40)
    before = torch.random.get_rng_state()
    first, second = (
        train_batched([FoldNetwork(x, y, 4, 1), FoldNetwork(x, y, 6, 2)], 3, TrainingSettings(epochs=2))
        for _ in range(2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    for one, other in zip(first, second, strict=True):
        assert one.inward.tobytes() == other.inward.tobytes()
        assert one.outward.tobytes() == other.outward.tobytes()


def test_groups_have_equal_rows_similar_widths_and_everyone_once():
    x, y = rows(40)
    widths = [100, 3, 500, 5, 98, 7, 4000, 4100, 4200]
    tasks = [FoldNetwork(x[: 40 - index % 2], y, units, index) for index, units in enumerate(widths)]
    groups = _groups(tasks)
    assert sorted(index for group in groups for index in group) == list(range(len(tasks)))
    for group in groups:
        units = [tasks[index].units for index in group]
        assert len({len(tasks[index].x) for index in group}) == 1
        assert max(units) <= 1.25 * min(units) + 8
        assert max(units) * len(units) <= 8192 or len(units) == 1
    assert len(groups) < len(tasks)
