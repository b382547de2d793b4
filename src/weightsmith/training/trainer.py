"""The epoch loop: shuffled batches, validation, hooks, checkpoints, stopping and progress."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.data.targets import Kind, kind_of, scoring_of
from weightsmith.networks.layers.modules import layer_kinds
from weightsmith.networks.models.dropout import reseed_dropout
from weightsmith.training.checkpoints import Checkpoints, TrainingState
from weightsmith.training.diagnosis.gradients import GradientDiagnosis
from weightsmith.training.diagnosis.probe import Probe
from weightsmith.training.distributed import Team
from weightsmith.training.drawing import batches_of, begin_epoch
from weightsmith.training.engines.stepping import NotFinite, Step, Stepper
from weightsmith.training.feeding import Feed, Weighted
from weightsmith.training.metrics import Answers, measure
from weightsmith.training.plan import TrainingPlan
from weightsmith.training.run import EpochEnd, EpochRow, Hook, Progress, Stopped, StopTraining
from weightsmith.training.schedules import Span
from weightsmith.training.stopping import EarlyStopping
from weightsmith.training.watching import improves

__all__ = ["Clock", "Ended", "Total", "Trainer"]


_PROBED_EARLY = frozenset((1, 2, 4, 8, 16))  # in addition to the first step of each epoch: most failing runs fail early
_NETWORK, _BEST, _OPTIMISER = "network/", "best/", "optimiser/"


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a run, and the epoch of its final weights (0: those before training)."""

    stopped: Stopped
    reason: str
    restored: int


class _Diverged(Exception):
    """The loss or the weights are no longer finite; the message says where."""


class Trainer:
    """Trains the network of a plan; ``state`` is the state so far."""

    def __init__(
        self,
        plan: TrainingPlan,
        members: Team,
        checkpoints: Checkpoints,
        *,
        keep: Sequence[int] = (),
        hooks: Sequence[Hook] = (),
        progress: Callable[[Progress], None] | None = None,
        diagnose: bool = True,
    ) -> None:
        self._plan, self._team, self._checkpoints = plan, members, checkpoints
        self._keep, self._hooks = frozenset(keep), tuple(hooks)
        self._stepper = Stepper(plan, members)
        self._feed = Feed(plan.train, plan.normalisation, plan.layout, plan.settings.augment)
        self._validation = None
        if plan.validation is not None and len(plan.validation) > members.rank:
            share = plan.validation.take(slice(members.rank, None, members.size))
            self._validation = Feed(share, plan.normalisation, plan.layout)
        # Rows of a regression that do not differ (a single one) have no R².
        differ = plan.validation is not None and bool((plan.validation.y != plan.validation.y[:1]).flatten().any())
        self._scoring = scoring_of(plan.validation.y) if plan.validation is not None and differ else None
        weights = any(value.dim() > 1 for value in plan.network.parameters())
        self._probe = Probe(plan.network) if diagnose and members.first and weights else None
        self._asked: str | None = None  # why a hook ends the run
        self._rates: dict[str, float] = {}  # factors by layer, which hooks may set
        self._probed = 0  # measured steps that the state holds already
        self._best = self._state()
        self._clock = Clock(progress if members.first else None, plan.span.epochs * plan.span.steps)
        self.state = TrainingState()
        self._persistent = frozenset(plan.network.state_dict())

    def run(self) -> Ended:
        """Run the remaining epochs."""
        self._resume()
        if not self.state.rows:
            self._keep_weights(0)
        while len(self.state.rows) < self._plan.span.epochs and not self.state.stopped_early:
            start = time.monotonic()
            try:
                row = self._epoch(len(self.state.rows) + 1)
            except _Diverged as error:
                return Ended(Stopped.DIVERGED, str(error), self.state.best_epoch)
            self._note(row)
            self._checkpoints.write(self._tensors(), self.state, time.monotonic() - start)
        done, best = len(self.state.rows), self.state.best_epoch
        stop = self._plan.settings.stop
        restores = stop is not None and stop.restore
        restored = best if restores else done
        if self.state.stopped_by_hook is not None:
            return Ended(Stopped.EARLY, f"a hook ended it after epoch {done}: {self.state.stopped_by_hook}", restored)
        if not self.state.stopped_early:
            return Ended(Stopped.DONE, f"all {done} epochs done", restored)
        watch = self.state.stop
        least = f" by more than {stop.min_delta:g}" if isinstance(stop, EarlyStopping) and stop.min_delta else ""
        since = f"since epoch {watch.best_epoch}"
        reason = f"{self._plan.monitor} has not improved{least} for {watch.waited} epochs, {since}"
        return Ended(Stopped.EARLY, reason, restored)

    def release(self, ended: Ended) -> tuple[nn.Module, tuple[str, ...]]:
        """The network with the weights that ``ended`` names, and what the penalties removed."""
        network = self._plan.network
        if ended.restored != len(self.state.rows) or ended.stopped is Stopped.DIVERGED:
            self._load(self._best)
        removed = tuple(sentence for penaliser in self._stepper.penalisers for sentence in penaliser.removed())
        self._stepper.flat.release()
        reseed_dropout(network, None)
        return network.to(memory_format=torch.contiguous_format), removed  # type: ignore[call-overload]

    def diagnosis(self) -> GradientDiagnosis | None:
        """The diagnosis of the probe; None if there was none or the run ended before its first step."""
        return self._probe.diagnosis() if self._probe is not None and self._probe.probes else None

    def _epoch(self, epoch: int) -> EpochRow:
        plan, network = self._plan, self._plan.network
        begin_epoch(plan, epoch, self._team.rank)
        self._stepper.start_epoch()
        batches = batches_of(plan, epoch)
        shares = tuple(self._team.share(rows) for rows in batches)
        rate, total = 0.0, Total()
        with self._feed.shuffled(shares, plan.settings.seed, epoch, self._team.rank) as feed:
            for number, (x, y) in enumerate(feed):
                step = (epoch - 1) * plan.span.steps + number
                rate = plan.settings.schedule.at(step, plan.span, self.state.schedule)
                try:
                    total.add(self._step(step, x, y, len(batches[number]), rate))
                except NotFinite:
                    raise _Diverged(_where("the loss", epoch, number, rate)) from None
                self._clock.tick(epoch, number, plan.span, total, rate)
        self._stepper.flat.check()
        self._team.average_buffers(network)
        if not bool(torch.isfinite(self._stepper.flat.parameter).all()):
            raise _Diverged(_where("the weights", epoch, len(batches) - 1, rate))
        return self._row(epoch, rate, total)

    def _step(self, number: int, x: Tensor, y: Tensor | Weighted, rows: int, rate: float) -> Step:
        """A step; chosen ones are probed, and one that fails is repeated under the probe before the run ends."""
        if self._probe is None:
            return self._stepper(x, y, rows, rate)
        if number % self._plan.span.steps == 0 or number in _PROBED_EARLY:
            with self._probe.step(number):
                return self._stepper(x, y, rows, rate, watched=True)
        try:
            return self._stepper(x, y, rows, rate)
        except NotFinite:
            if self._team.size == 1:  # other processes would wait forever
                with suppress(NotFinite), self._probe.step(number):
                    self._stepper(x, y, rows, rate, watched=True)
            raise

    def _row(self, epoch: int, rate: float, total: Total) -> EpochRow:
        plan, loss, score, extra = self._plan, None, None, dict[str, float]()
        if plan.validation is not None:
            answers = Answers() if plan.settings.metrics else None
            loss, score = measure(
                plan.network, self._validation, plan.loss, self._team, answers=answers, scoring=self._scoring
            )
            if not math.isfinite(loss):
                raise _Diverged(_where("the validation loss", epoch, plan.span.steps - 1, rate))
            if answers is not None:
                extra |= answers.measured(plan.settings.metrics, plan.card.outputs)
        if values := kind_of(plan.train.y) is Kind.VALUES:
            extra |= {"train_r2": total.accuracy} | ({} if score is None else {"validation_r2": score})
        penalisers = self._stepper.penalisers
        row = EpochRow(
            epoch=epoch,
            steps=plan.span.steps,
            rate=rate,
            train_loss=total.loss,
            train_accuracy=None if values else total.accuracy,
            validation_loss=loss,
            validation_accuracy=None if values else score,
            penalty=math.fsum(penaliser.value() for penaliser in penalisers) if penalisers else None,
            clipped=None if plan.settings.clip is None else self._stepper.clipped / plan.span.steps,
            extra=extra,
        )
        return dataclasses.replace(row, extra=self._measured_by_hooks(row))

    def _measured_by_hooks(self, row: EpochRow) -> dict[str, float]:
        measured = dict(row.extra)
        self._plan.network.eval()
        for hook in self._hooks:
            seen = dataclasses.replace(row, extra=dict(measured))  # including the values of earlier hooks
            try:
                found = hook(EpochEnd(self._plan.network, seen, self._rates)) or {}
            except StopTraining as asked:  # the hooks after it still see the epoch
                self._asked, found = str(asked) or type(hook).__name__, {}
            for name, value in found.items():
                if name in measured or name in {field.name for field in dataclasses.fields(row)}:
                    raise UsageError(f"a hook returns {name!r}, which is a column of the history already")
                if not math.isfinite(value):
                    raise UsageError(f"a hook returns {name} = {value}: leave out what could not be measured")
                measured[name] = float(value)
        return measured

    def _note(self, row: EpochRow) -> None:
        """Update the state after an epoch: the best so far, the watches of schedule and early stopping."""
        plan, before = self._plan, self.state
        value = _seen(row, plan.monitor)
        better = improves(value, before.best, plan.monitor) or self._breaks_tie(row, value)
        schedule, stop = before.schedule, before.stop
        if plan.settings.schedule.monitor is not None:
            schedule = plan.settings.schedule.observe(schedule, row.epoch, _seen(row, plan.settings.schedule.monitor))
        if plan.settings.stop is not None:
            stop = plan.settings.stop.observe(stop, row.epoch, value)
        # only the first process may have hooks
        asked, self._rates = self._team.from_first({}, [self._asked, self._rates])[1]
        self._stepper.scale(self._rates)
        if better:
            self._best = self._state()
        self._keep_weights(row.epoch)
        self.state = TrainingState(
            rows=(*before.rows, row),
            schedule=schedule,
            stop=stop,
            best=value if better else before.best,
            best_epoch=row.epoch if better else before.best_epoch,
            stopped_early=(plan.settings.stop is not None and plan.settings.stop.stops(stop)) or asked is not None,
            stopped_by_hook=asked,
            rates=dict(self._rates),
            probes=() if self._probe is None else (*before.probes, self._probe.to_state(since=self._probed)),
        )
        if self._probe is not None:
            self._probed = len(self._probe.probes)

    # the state of a run as tensors with names

    def _state(self) -> dict[str, Tensor]:
        """The weights and all buffers, including those that the network itself would not save."""
        network = self._plan.network
        state = {**dict(network.named_buffers()), **network.state_dict()}
        return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in state.items()}

    @torch.no_grad()
    def _load(self, state: dict[str, Tensor]) -> None:
        network = self._plan.network
        network.load_state_dict({name: state[name] for name in self._persistent})
        for name, buffer in network.named_buffers():
            buffer.copy_(state[name])

    def _breaks_tie(self, row: EpochRow, value: float) -> bool:
        """Whether an epoch as good as the best has the smaller validation loss, if that counts for the stop."""
        stop, best = self._plan.settings.stop, self.state.best_epoch
        if stop is None or not stop.breaks_ties or value != self.state.best or not best:
            return False
        loss = self.state.rows[best - 1].validation_loss
        return row.validation_loss is not None and loss is not None and row.validation_loss < loss

    def _keep_weights(self, epoch: int) -> None:
        if epoch in self._keep:
            state = {name: value for name, value in self._state().items() if name in self._persistent}
            self._checkpoints.keep(epoch, state, self._plan.card_after(epoch), layer_kinds(self._plan.network))

    def _tensors(self) -> dict[str, Tensor]:
        momenta = self._stepper.optimiser.state.get(self._stepper.flat.parameter, {})
        return {
            **_named(_NETWORK, self._state()),
            **({} if self._is_best else _named(_BEST, self._best)),
            **_named(_OPTIMISER, {name: value for name, value in momenta.items() if isinstance(value, Tensor)}),
        }

    @property
    def _is_best(self) -> bool:
        """Whether the last epoch is the best one, so that its weights need not be written twice."""
        return self.state.best_epoch == len(self.state.rows)

    def _resume(self) -> None:
        """Resume from the checkpoint, which the first process reads for all; without one, from its weights."""
        found = self._team.unless_first_refuses(self._checkpoints.read)
        stored, state = (self._tensors(), None) if found is None else (found[0], found[1].to_dict())
        tensors, facts = self._team.from_first(stored, state)
        self._load(_under(_NETWORK, tensors))
        if facts is None:
            return
        self.state = TrainingState.from_dict(facts)
        self._rates = dict(self.state.rates)
        self._stepper.scale(self._rates)
        self._best = self._state() if self._is_best else _under(_BEST, tensors)
        device = self._plan.layout.device
        momenta = {
            # A count of steps stays on the CPU, as torch has it.
            name: value.to(device) if value.dim() else value
            for name, value in _under(_OPTIMISER, tensors).items()
        }
        if momenta:
            self._stepper.optimiser.state[self._stepper.flat.parameter] = momenta
        if self._probe is not None:
            self._probe = Probe.from_state(self._plan.network, *self.state.probes)
            self._probed = len(self._probe.probes)
        self._clock.skip(len(self.state.rows) * self._plan.span.steps)


def _where(what: str, epoch: int, number: int, rate: float) -> str:
    verb = "are" if what.endswith("weights") else "is"
    return (
        f"{what} {verb} NaN or infinite in epoch {epoch}, step {number + 1} (rate {rate:.4g}); "
        "try a lower rate or clipping (global-norm:1), and see the gradient diagnosis"
    )


def _seen(row: EpochRow, column: str) -> float:
    value = row.value(column)
    return math.nan if value is None else value


def _named(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in state.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


# Progress within an epoch: the means so far, and the time left.


_REPORT = 0.1  # seconds between two reports


class Total:
    """Sums over the steps of an epoch."""

    def __init__(self) -> None:
        self._loss, self._correct, self._rows = 0.0, 0.0, 0

    def add(self, step: Step) -> None:
        """Add a step."""
        self._loss += step.loss * step.rows
        self._correct += step.correct
        self._rows += step.rows

    @property
    def loss(self) -> float:
        """The mean loss so far."""
        return self._loss / self._rows

    @property
    def accuracy(self) -> float:
        """The mean score of the rows: the share that was right, or R²."""
        return self._correct / self._rows


class Clock:
    """Reports progress at intervals, with an estimate of the time left."""

    def __init__(self, progress: Callable[[Progress], None] | None, steps: int) -> None:
        self._progress, self._steps = progress, steps
        self._skipped = self._done = 0
        self._began, self._last_report = time.monotonic(), 0.0

    def skip(self, steps: int) -> None:
        """Count steps that an earlier run has done."""
        self._skipped = self._done = steps

    def tick(self, epoch: int, number: int, span: Span, total: Total, rate: float) -> None:
        """Count a finished step, and report progress if it is due."""
        self._done += 1
        if self._progress is None:
            return
        now = time.monotonic()
        if now - self._last_report < _REPORT and number + 1 < span.steps:
            return
        self._last_report = now
        left = (now - self._began) / (self._done - self._skipped) * (self._steps - self._done)
        self._progress(Progress(epoch, span.epochs, number + 1, span.steps, total.loss, total.accuracy, rate, left))
