"""The settings of a training run: every option, parsed from its text form where one is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from torch import Tensor

from weightsmith.core.identity import identity_of
from weightsmith.core.options import check_int
from weightsmith.data.augment import Augment, NoAugment
from weightsmith.data.normalise import Normalisation
from weightsmith.training.clipping import Clip
from weightsmith.training.losses import Loss, LossFunction
from weightsmith.training.metrics import Metric, Metrics, read_metrics
from weightsmith.training.optimisers import Momentum, Optimiser, OwnOptimiser, read_optimiser
from weightsmith.training.penalties import Penalty
from weightsmith.training.schedules import OwnSchedule, Schedule, as_schedule
from weightsmith.training.starting import StartingChoice
from weightsmith.training.stopping import Stop
from weightsmith.training.targets import ClassWeights, read_class_weights

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The options of :func:`weightsmith.train` as objects.

    ``normalise`` None means the normalisation of network or data, ``loss`` None the usual loss of the targets.
    ``left_open``: neither optimiser nor schedule was given, and both are chosen when the network is known.
    """

    OPTIONS: ClassVar[tuple[str, ...]]
    """The names of all options."""

    optimiser: Optimiser | OwnOptimiser
    schedule: Schedule | OwnSchedule
    clip: Clip | None
    stop: Stop | None
    penalties: tuple[Penalty, ...]
    loss: LossFunction | None
    augment: Augment
    normalise: Normalisation | None
    batch: int
    epochs: int
    validation: float | None
    seed: int
    device: str
    class_weights: str | None = None
    metrics: tuple[Metric, ...] = ()
    left_open: bool = False

    @classmethod
    def read(
        cls,
        *,
        optimiser: Optimiser | OwnOptimiser | Callable[..., Any] | str | None = None,
        schedule: Schedule | OwnSchedule | Callable[[int], float] | float | str | None = None,
        loss: Loss | str | Callable[[Tensor, Tensor], Tensor] | None = None,
        clip: Clip | str | None = None,
        stop: Stop | str | None = None,
        penalties: Sequence[Penalty | str] | Penalty | str = (),
        augment: Augment | str | None = None,
        normalise: Normalisation | str | None = None,
        batch: int,
        epochs: int,
        validation: float | None = None,
        seed: int = 0,
        device: str = "cpu",
        class_weights: ClassWeights = None,
        metrics: Metrics = (),
    ) -> Self:
        """The settings from objects or text forms.

        >>> Settings.read(optimiser="sgd", schedule=0.1, loss="cross-entropy", batch=32, epochs=10).schedule
        Constant(rate=0.1)
        """
        chosen = Momentum() if optimiser is None else read_optimiser(optimiser)
        several = (penalties,) if isinstance(penalties, Penalty | str) else tuple(penalties)
        return cls(
            optimiser=chosen,
            schedule=as_schedule(schedule, chosen.usual_rate),
            clip=None if clip is None else Clip.of(clip),
            stop=None if stop is None else Stop.of(stop),
            penalties=tuple(Penalty.of(item) for item in several),
            loss=loss if loss is None or callable(loss) else Loss.of(loss),
            class_weights=read_class_weights(class_weights),
            metrics=read_metrics(metrics),
            augment=NoAugment() if augment is None else Augment.of(augment),
            normalise=Normalisation.of(normalise),
            batch=check_int("batch", batch),
            epochs=check_int("epochs", epochs),
            validation=validation or None,
            seed=check_int("seed", seed, least=0),
            device=device,
            left_open=optimiser is None and schedule is None,
        )

    def with_choice(self, choice: StartingChoice) -> Settings:
        """The settings with the chosen optimiser and schedule; a stop that was given stays."""
        return replace(
            self,
            optimiser=choice.optimiser,
            schedule=choice.schedule,
            stop=self.stop or choice.stop,
            left_open=False,
        )

    @property
    def watches_validation(self) -> bool:
        """Whether the schedule or the stop monitors the validation split."""
        columns = (self.schedule.monitor, None if self.stop is None else self.stop.monitor)
        return any(column is not None and column.startswith("validation") for column in columns)

    def written(self) -> dict[str, Any]:
        """Every option in its text form, as records keep them."""
        return {
            "optimiser": str(self.optimiser),
            "schedule": str(self.schedule),
            "clip": None if self.clip is None else str(self.clip),
            "stop": None if self.stop is None else str(self.stop),
            "penalties": [str(penalty) for penalty in self.penalties],
            "loss": str(self.loss)
            if isinstance(self.loss, Loss)
            else None
            if self.loss is None
            else identity_of(self.loss),
            "augment": str(self.augment),
            "batch": self.batch,
            "epochs": self.epochs,
            "validation": self.validation,
            "seed": self.seed,
            "device": self.device,
            **({} if self.class_weights is None else {"class_weights": self.class_weights}),
            **({"metrics": [metric.written for metric in self.metrics]} if self.metrics else {}),
        }


Settings.OPTIONS = tuple(field.name for field in fields(Settings) if field.name != "left_open")
