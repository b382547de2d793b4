from __future__ import annotations

import numpy as np

from weightsmith.papers.experiments import transfer
from weightsmith.papers.experiments.transfer import EXPERIMENT


def test_one_data_set_of_two_is_in_part(verdicts):
    def row(seed, task, arm):
        base = {"scratch": 0.4, "frozen": 0.3, "top 1": 0.45, "top 2": 0.5 if task == "cifar100" else 0.35, "all": 0.5}
        return {"test_accuracy": base[arm] + 0.001 * seed * (arm != "scratch")}

    assert verdicts(EXPERIMENT, row) == {"less-data": "in part", "unfreeze": "cannot say"}


def test_differences_between_seeds_give_the_interval(verdicts):
    def row(seed, task, arm):
        return {"test_accuracy": (0.6 if arm == "top 2" else 0.4) + 0.01 * seed * (arm == "top 2")}

    assert verdicts(EXPERIMENT, row) == {"less-data": "holds", "unfreeze": "holds"}


def test_every_fifth_class_is_renumbered():
    import torch

    from weightsmith.data.tensors import Split

    taken = transfer._fifth(Split(torch.arange(100.0)[:, None], torch.arange(100)))
    assert taken.y.tolist() == list(range(20))
    assert np.allclose(taken.x[:, 0], 5 * np.arange(20))
