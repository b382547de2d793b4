from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.options import check_int
from weightsmith.data.augment import CropFlip, NoAugment
from weightsmith.data.normalise import HALF
from weightsmith.training.clipping import ClipNorm
from weightsmith.training.losses import CrossEntropy
from weightsmith.training.optimisers import Momentum, Sgd
from weightsmith.training.penalties import L1, L2
from weightsmith.training.schedules import Constant, Plateau, Power
from weightsmith.training.settings import Settings
from weightsmith.training.stopping import EarlyStopping


def read(**changes):
    return Settings.read(
        **{"optimiser": "sgd", "schedule": 0.1, "loss": "cross-entropy", "batch": 4, "epochs": 3, **changes}
    )


def test_text_forms_and_objects_give_the_same():
    text = read(
        optimiser="momentum:0.5",
        schedule="power:0.1,s=20",
        clip="norm:2",
        stop="early:3",
        penalties=["l1:0.1", "l2:0.2"],
        augment="crop-flip:2",
        normalise="0.5/0.5",
    )
    objects = read(
        optimiser=Momentum(0.5),
        schedule=Power(0.1, s=20),
        clip=ClipNorm(2),
        stop=EarlyStopping(3),
        penalties=(L1(0.1), L2(0.2)),
        loss=CrossEntropy(),
        augment=CropFlip(2),
        normalise=HALF,
    )
    assert text == objects


def test_what_is_left_out_has_a_meaning():
    plain = read(schedule=None)
    assert plain.schedule == Constant(Sgd.usual_rate)
    assert (plain.clip, plain.stop, plain.penalties, plain.augment) == (None, None, (), NoAugment())


def test_one_penalty_needs_no_list():
    assert read(penalties="l2:0.5").penalties == read(penalties=L2(0.5)).penalties == (L2(0.5),)


def test_written_settings_read_back():
    first = read(optimiser="adam", schedule="cosine:0.2", clip="value:3", stop="early:2", penalties=["l1:0.5"])
    written = first.written()
    again = read(**{name: written[name] for name in ("optimiser", "schedule", "clip", "stop", "penalties", "augment")})
    assert again == first
    assert read(loss=F.cross_entropy).written()["loss"].startswith("torch.nn.functional.cross_entropy ")


@pytest.mark.parametrize(
    ("changes", "watches"),
    [
        ({}, False),
        ({"schedule": Plateau(0.1)}, True),
        ({"schedule": Plateau(0.1, monitor="train_loss")}, False),
        ({"stop": EarlyStopping()}, True),
        ({"stop": EarlyStopping(monitor="train_accuracy")}, False),
    ],
)
def test_who_watches_the_validation(changes, watches):
    assert read(**changes).watches_validation is watches


def test_whole_numbers_of_any_kind_pass_and_others_are_named():
    assert read(batch=np.int64(7), epochs=torch.tensor(2)).written()["batch"] == 7
    assert check_int("seed", 0, least=0) == 0
    for bad in (0, -1, 2.5, "32", True, None):
        with pytest.raises(UsageError, match=r"^batch must be a whole number ≥ 1, not "):
            read(batch=bad)


def test_what_is_no_option_is_refused_with_what_there_is():
    with pytest.raises(OptionError, match=r"^optimiser must be one of .*adam.*, not "):
        read(optimiser=7)
    with pytest.raises(OptionError, match=r"^clip must be one of value, norm, global-norm"):
        read(clip=1.0)
