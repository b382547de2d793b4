from __future__ import annotations

import sys

import pytest
from torch import nn

from weightsmith.cli.tensorboard import tensorboard_log
from weightsmith.core.errors import MissingExtra
from weightsmith.training.run import EpochEnd, EpochRow


def test_without_a_folder_there_is_no_hook():
    with tensorboard_log(None) as hooks:
        assert hooks == ()


def test_what_is_measured_is_written_and_what_is_not_is_left_out(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tensorboard_log(tmp_path) as (hook,):
        for epoch in (1, 2):
            hook(EpochEnd(nn.Identity(), EpochRow(epoch, 10, 0.5, 0.25 * epoch, 0.75, extra={"alpha": 3.0})))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"loss/train", "accuracy/train", "rate", "alpha"}
    assert [(event.step, event.value) for event in events.Scalars("loss/train")] == [(1, 0.25), (2, 0.5)]


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"weightsmith\[tensorboard\]"), tensorboard_log(tmp_path):
        pass
