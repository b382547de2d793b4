"""Records of sweeps: names of settings, round trips."""

from __future__ import annotations

import numpy as np

from weightsmith.core.records import Origin
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep


def choice(leak: float, right: int) -> Chosen:
    plain = np.arange(20) < 15
    given = np.arange(20) < right
    return Chosen(
        leak=leak,
        reset="soft",
        steps=10,
        baseline=Setting(leak, "soft", 0.5, None),
        adjusted=None,
        baseline_test=wilson(right, 20),
        adjusted_test=None,
        gain=None,
        cost=mcnemar(given, plain),
    )


def sweep() -> SpikeSweep:
    setting = Setting(1.0, "soft", 0.5, None)
    return SpikeSweep(
        settings={"leaks": [1.0, 0.9]},
        network="mlp:4",
        split="test",
        train_images=8,
        test_images=20,
        plain=wilson(15, 20),
        steps=(10,),
        table=(SettingResult(setting, 8, (7,), lost=False),),
        chosen=(choice(1.0, 14), choice(0.9, 16)),
        notes=(),
        origin=Origin(seed=0),
    )


def test_settings_have_names_of_their_own() -> None:
    settings = [Setting(leak, reset, factor, r) for leak in (1.0, 0.99) for reset in ("soft", "hard")
                for factor in (0.3, 1.0) for r in (None, 0.0, 1.0)]  # fmt: skip
    assert len({setting.key for setting in settings}) == len(settings)
    assert Setting(0.9, "hard", 0.5, None).key == "leak=0.9 reset=hard factor=0.5 smoothing=none"


def test_round_trip() -> None:
    assert SpikeSweep.from_json(sweep().to_json()).to_json() == sweep().to_json()
