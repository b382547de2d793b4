"""Callbacks for other trainers: our verdict on gradients and α by epoch, without changes to their loops.

>>> from weightsmith.compat import lightning_callback, trainer_callback

Pass them to ``lightning.Trainer(callbacks=[lightning_callback()])`` or, for transformers, to
``Trainer(..., callbacks=[trainer_callback()])``.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from typing import TYPE_CHECKING, Any

from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.grading.grade import grade
from weightsmith.training.diagnosis.gradients import GradientDiagnosis, Health
from weightsmith.training.diagnosis.probe import Probe
from weightsmith.training.plan import TrainingWarning

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Watch", "lightning_callback", "trainer_callback"]


class Watch:
    """What a callback measures during training: gradients at single steps, and the α of every layer after each epoch.

    A step is measured if it is the first of an epoch or its number is 0 or a power of two, so that only a few steps are
    slower. ``alphas`` has a row for each epoch; a layer without a fit is not in it.
    """

    def __init__(self, *, alpha: bool = True) -> None:
        self.alphas: list[dict[str, float]] = []
        self._alpha = alpha
        self._probe: Probe | None = None
        self._open = contextlib.ExitStack()

    @property
    def gradients(self) -> GradientDiagnosis:
        """The verdict on the gradients of all steps measured so far."""
        if self._probe is None:
            raise UsageError("no step has been measured yet: give the callback to a trainer, and train")
        return self._probe.diagnosis()

    def begin(self, network: nn.Module, step: int, *, first: bool) -> None:
        """Call before the forward pass of step ``step``; ``first`` marks the first step of an epoch."""
        self._open.close()  # a step that the trainer skipped
        if first or step & (step - 1) == 0:
            self._probe = self._probe or Probe(network)
            if step not in self._probe.probes:
                self._open.enter_context(self._probe.step(step))

    def end(self) -> None:
        """Call after the update of that step."""
        self._open.close()

    def epoch(self, network: nn.Module) -> dict[str, float]:
        """Call after an epoch; returns the values to log."""
        if not self._alpha:
            return {}
        found = {layer.name: layer.alpha for layer in grade(network, evidence="none").layers if layer.alpha is not None}
        self.alphas.append(found)
        logged = {f"alpha/{name}": value for name, value in found.items()}
        return {"alpha": sum(found.values()) / len(found), **logged} if found else {}

    def finish(self) -> None:
        """Call after training; warns if the gradients are not healthy."""
        self._open.close()
        if self._probe is not None and self._probe.probes and self.gradients.health is not Health.HEALTHY:
            warnings.warn(self.gradients.sentence, TrainingWarning, stacklevel=2)


def lightning_callback(*, alpha: bool = True) -> Any:
    """A callback for Lightning's Trainer: ``callback.watch.gradients.sentence``, ``callback.watch.alphas``.

    The mean α and the α of each layer are logged after every epoch, as ``alpha`` and ``alpha/LAYER``.
    """
    base = _package("lightning.pytorch", "pytorch_lightning")

    class Callback(base.Callback):  # type: ignore[name-defined, misc]
        """Hands a LightningModule to a watch."""

        def __init__(self) -> None:
            self.watch = Watch(alpha=alpha)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, _batch: Any, batch_idx: int) -> None:
            self.watch.begin(pl_module, trainer.global_step, first=batch_idx == 0)

        def on_train_batch_end(self, *_: Any) -> None:
            self.watch.end()

        def on_train_epoch_end(self, _trainer: Any, pl_module: Any) -> None:
            for name, value in self.watch.epoch(pl_module).items():
                pl_module.log(name, value)

        def on_train_end(self, *_: Any) -> None:
            self.watch.finish()

    return Callback()


def trainer_callback(*, alpha: bool = True) -> Any:
    """A callback for the Trainer of Hugging Face's transformers, with the same ``watch``.

    The values are added to the trainer's ``state.log_history``.
    """
    base = _package("transformers")

    class Callback(base.TrainerCallback):  # type: ignore[name-defined, misc]
        """Hands the trainer's model to a watch."""

        def __init__(self) -> None:
            self.watch = Watch(alpha=alpha)
            self._first = True

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            self._first = True

        def on_step_begin(self, _args: Any, state: Any, _control: Any, model: Any, **_: Any) -> None:
            self.watch.begin(model, state.global_step, first=self._first)
            self._first = False

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.watch.end()

        def on_epoch_end(self, _args: Any, state: Any, _control: Any, model: Any, **_: Any) -> None:
            if found := self.watch.epoch(model):
                state.log_history.append({**found, "epoch": state.epoch, "step": state.global_step})

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.watch.finish()

    return Callback()


def _package(*names: str) -> ModuleType:
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    package = names[0].partition(".")[0]
    raise UsageError(
        f"a callback for {package} needs the package {package}, which is not installed: pip install {package}"
    )
