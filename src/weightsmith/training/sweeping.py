"""The work of a training sweep: one row per run.

A setting may hold any option of :func:`~weightsmith.training.loop.train`, any parameter of the network (``activation``,
``dropout``, ``batch_norm`` …), and three shorthands for what is usually searched: ``rate`` (of any schedule), ``width``
and ``depth`` (of an MLP's hidden layers).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.core.identity import check_identity, identity_of
from weightsmith.core.options import Option
from weightsmith.core.sweep import SweepTable, sweep
from weightsmith.core.verbs import parameters
from weightsmith.data.datasets import Data, as_data, load_all
from weightsmith.networks.card import weights_digest
from weightsmith.networks.evaluating import evaluate
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.factories import Factory, is_factory
from weightsmith.networks.models.mlp import Mlp
from weightsmith.training.loop import train
from weightsmith.training.penalties import Penalty
from weightsmith.training.plan import TrainingWarning
from weightsmith.training.run import Stopped, TrainRun
from weightsmith.training.schedules import OwnSchedule, Schedule, as_schedule
from weightsmith.training.sweep import NOT_VARIED

__all__ = ["run_sweep", "train_once", "training_options"]

_OWN = ("network", "rate", "width", "depth", "penalty")
_OF_TRAIN = tuple(name for name in parameters(train) if name not in NOT_VARIED)


def run_sweep(
    data: Any, settings: Sequence[Mapping[str, Any]], path: str | Path | None, fixed: Mapping[str, Any], **how: Any
) -> SweepTable:
    """The work of :func:`weightsmith.training.sweep.train_sweep`; ``how`` are keywords of the sweep itself."""
    for setting in settings:
        _check(training_options({**fixed, **setting}))  # so that errors are raised before the first run
    digest = _read(data, path, None).digest()
    inputs = {"data": digest, **{name: _text(value) for name, value in fixed.items()}}
    function = functools.partial(train_once, data=data, path=path, digest=digest, **fixed)
    return sweep(function, settings, inputs=inputs, **how)


def train_once(
    *, data: Any, seed: int, path: str | Path | None = None, digest: str | None = None, **setting: Any
) -> dict[str, Any]:
    """One run as a flat row: epochs, why it ended, losses and accuracies (last and best), health of the gradients.

    The test accuracy is that of the final weights. A run that diverged has neither validation nor test figures: a mean
    over seeds must not include the chance score of an untrained network. With ``digest`` (of the data) a process reads
    data given by name once for all its runs, and refuses other data.
    """
    known = _read(data, path, digest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # they are in the row
        run = train(data=known, seed=seed, **training_options(setting))
    return _row(run, known)


def training_options(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of ``train`` for ``setting``, network included.

    >>> made = training_options({"network": "mlp:50,50", "width": 20, "depth": 3, "activation": "selu", "rate": 0.1})
    >>> str(made["network"]), str(made["schedule"])
    ('mlp:20,20,20,activation=selu', 'constant:0.1')
    """
    left = dict(setting)
    if "network" not in left:
        raise UsageError("a network is needed, such as network='mlp:50,50'")
    options = {name: left.pop(name) for name in _OF_TRAIN if name in left}
    network, rate, penalty = left.pop("network"), left.pop("rate", None), left.pop("penalty", None)
    if rate is not None:
        options["schedule"] = _with_rate(options.get("schedule"), rate)
    if penalty is not None:
        given = options.get("penalties", ())
        options["penalties"] = (*([given] if isinstance(given, str | Penalty) else given), penalty)
    options["network"] = _shaped(network, left) if left else network
    return options


def _check(options: Mapping[str, Any]) -> None:
    """Read every text form once."""
    known = parameters(train)
    for name, value in options.items():
        if name in known:
            known[name].check(value)
    network = options["network"]
    if isinstance(network, str) and not is_factory(network) and not Path(network).exists():
        Architecture.parse(network)


def _read(data: Any, path: str | Path | None, digest: str | None) -> Data:
    if not isinstance(data, str | Path):
        return as_data(data)
    return load_all(data, path=path) if digest is None else _read_once(data, path, digest)


@functools.lru_cache(maxsize=1)
def _read_once(name: str | Path, path: str | Path | None, digest: str) -> Data:
    known = load_all(name, path=path)
    if known.digest() != digest:
        raise DataMismatch(f"{name} has changed since the sweep began")
    return known


def _with_rate(schedule: Any, rate: float) -> Schedule:
    """The schedule with another first (or highest) rate."""
    given = as_schedule(schedule, rate)
    if isinstance(given, OwnSchedule) or "rate" not in {field.name for field in dataclasses.fields(given)}:
        raise OptionError(f"{given} has no single rate that could be varied; vary the schedule itself")
    return dataclasses.replace(given, rate=rate)  # type: ignore[call-arg]  # just checked


def _shaped(network: Any, changes: dict[str, Any]) -> Architecture | str:
    """The architecture with other parameters; ``width`` and ``depth`` make all hidden layers alike."""
    if isinstance(network, str) and is_factory(network):
        return str(Factory.parse(network).with_options(**changes))
    if not isinstance(network, Architecture):
        if not isinstance(network, str) or Path(network).exists():
            raise UsageError(f"{network} is no architecture, so {', '.join(changes)} cannot be varied; use mlp:50,50")
        network = Architecture.parse(network)
    architecture: Architecture = network
    width, depth = changes.pop("width", None), changes.pop("depth", None)
    if width is not None or depth is not None:
        if not isinstance(architecture, Mlp):
            raise UsageError(f"width and depth are those of an mlp, not of {architecture.name}")
        changes["hidden"] = _hidden(architecture.hidden, width, depth)
    known = {field.name for field in dataclasses.fields(architecture)}
    for name in changes:
        if name not in known:
            raise UnknownName("thing to vary", name, {*_OF_TRAIN, *_OWN, *known})
    return dataclasses.replace(architecture, **changes)


def _hidden(given: tuple[int, ...], width: int | None, depth: int | None) -> tuple[int, ...]:
    if width is None and len(set(given)) != 1:
        raise UsageError(f"the hidden layers {list(given)} differ, so width must be given beside depth")
    return (given[0] if width is None else width,) * (len(given) if depth is None else depth)


def _row(run: TrainRun, data: Data) -> dict[str, Any]:
    record, history = run.record, run.history
    sound = run.stopped is not Stopped.DIVERGED
    test = evaluate(run.network, data, split="test") if sound and "test" in data.splits else None
    losses = [value for value in history.column("validation_loss") if value is not None]
    accuracies = [value for value in history.column("validation_accuracy") if value is not None]
    return {
        "epochs": len(history.rows),
        "stopped": run.stopped.value,
        "restored": record.restored,
        "train_loss": history.rows[-1].train_loss if sound else None,
        "train_accuracy": history.rows[-1].train_accuracy if sound else None,
        "validation_loss": losses[-1] if sound and losses else None,
        "validation_accuracy": accuracies[-1] if sound and accuracies else None,
        "best_validation_loss": min(losses) if sound and losses else None,
        "best_validation_accuracy": max(accuracies) if sound and accuracies else None,
        "test_accuracy": test.accuracy.value if isinstance(test, Evaluation) else None,
        "test_correct": test.correct if isinstance(test, Evaluation) else None,
        "test_images": None if test is None else test.images,
        "gradients": None if record.gradients is None else record.gradients.health.value,
        "parameters": record.parameters,
        "warnings": "; ".join(record.warnings) or None,
    }


def _text(value: Any) -> str:
    """The text form of an option for the sweep's journal; refused if it could be confused with another."""
    if callable(value) and not isinstance(value, Option | nn.Module):
        check_identity(getattr(value, "__name__", type(value).__name__), value)
    if isinstance(value, nn.Module):
        return f"{identity_of(value)} {weights_digest(value)}"
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    return identity_of(value) if callable(value) and not isinstance(value, Option) else str(value)
