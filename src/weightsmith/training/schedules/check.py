"""Check before training whether a schedule fits the length of the run.

It detects mistakes of units and lengths. The course behind the slides (seed 002) computed s of the
exponential schedule from the number of batches where the number of samples was meant, so its run froze early:

>>> from weightsmith.training.schedules import Exponential
>>> course = Span(steps=2625, epochs=10)
>>> for sentence in check_schedule(Exponential(0.01, s=3281), course):
...     print(sentence)
exponential:0.01,3281.0: the rate falls below 1 % of 0.01 at step 6563 (epoch 3 of 10), before a third of the 26250
steps is over, so that the rest hardly learns; s=26250 would leave a tenth of it at the end
>>> check_schedule(Exponential(0.01, s=52500), course)
()
"""

from __future__ import annotations

import bisect
import math

from weightsmith.training.schedules import (
    Cosine,
    Exponential,
    OneCycle,
    OwnSchedule,
    Per,
    Piecewise,
    Plateau,
    Power,
    Schedule,
    Span,
    WarmUp,
)

__all__ = ["check_schedule"]

_FADED = 0.01  # the share of its highest value below which a rate hardly moves a weight
_SAMPLES = 2000  # steps sampled in a long run; the exact step is found between two of them


def check_schedule(schedule: Schedule | OwnSchedule, span: Span) -> tuple[str, ...]:
    """Problems of the schedule, one sentence each with the numbers and a remedy; empty if there are none."""
    faded = _first_faded(schedule, span)
    sentences = _misfits(schedule, span, "the run")
    return sentences if faded is None else (*sentences, *_fading_warnings(schedule, span, *faded))


def _first_faded(schedule: Schedule | OwnSchedule, span: Span) -> tuple[int, float] | None:
    """The first step of the first third at which the rate is below 1 % of the highest so far, and that highest."""
    until = math.ceil(span.total / 3)
    highest, last = 0.0, -1
    for step in range(0, until, max(1, until // _SAMPLES)):
        rate = schedule.at(step, span)
        if rate < _FADED * highest:
            limit, between = _FADED * highest, range(last + 1, step)
            return last + 1 + bisect.bisect_left(between, True, key=lambda t: schedule.at(t, span) < limit), highest
        highest, last = max(highest, rate), step
    return None


def _fading_warnings(schedule: Schedule | OwnSchedule, span: Span, step: int, highest: float) -> tuple[str, ...]:
    inner, rest = (schedule.following, schedule.rest(span)) if isinstance(schedule, WarmUp) else (schedule, span)
    match inner:
        case Cosine() | OneCycle():
            return ()  # they fade early only if they end early, which is reported already
        case Exponential(per=per, s=s):
            way_out = f"s={rest.length(per)} would leave a tenth of it at the end{_if_epochs(per, s, span)}"
        case Power(per=per, s=s, c=c):
            way_out = f"s={rest.length(per)} would end at {math.pow(0.5, c):.3g} of it{_if_epochs(per, s, span)}"
        case Piecewise(per=per, bounds=bounds):
            way_out = f"move the bounds to later {per}s{_if_epochs(per, bounds[-1], span)}"
        case _:
            way_out = "let it fall more slowly"
    return (
        f"{schedule}: the rate falls below 1 % of {highest:g} at step {step} "
        f"(epoch {step // span.steps + 1} of {span.epochs}), before a third of the {span.total} steps is over, "
        f"so that the rest hardly learns; {way_out}",
    )


def _if_epochs(per: Per, length: float, span: Span) -> str:
    """A length that small, counted in steps, was probably meant in epochs."""
    return ", or say per=epoch if epochs were meant" if per == "step" and length <= 3 * span.epochs else ""


def _misfits(schedule: Schedule | OwnSchedule, span: Span, run: str) -> tuple[str, ...]:
    """Lengths that do not fit the run (or the part after a warm-up)."""
    match schedule:
        case Exponential() | Power():
            return _still_warnings(schedule, span, run)
        case Piecewise():
            return _bounds_warnings(schedule, span, run)
        case Cosine():
            return _length_warnings(schedule, span, run, schedule.over, schedule.per)
        case OneCycle():
            return _length_warnings(schedule, span, run, schedule.over, "step") or _rise_warnings(schedule, span)
        case Plateau():
            return _patience_warnings(schedule, span)
        case WarmUp():
            return _warm_up_warnings(schedule, span, run)
        case _:
            return ()


def _still_warnings(schedule: Exponential | Power, span: Span, run: str) -> tuple[str, ...]:
    first, last = schedule.at(0, span), schedule.at(span.total - 1, span)
    if last < 0.99 * first or (isinstance(schedule, Power) and schedule.c == 0) or span.length(schedule.per) == 1:
        return ()
    hint = ", or say per=step if steps were meant" if schedule.per == "epoch" else ""
    length = _counted(span.length(schedule.per), schedule.per)
    return (
        f"{schedule}: s={schedule.s:g} is so long for {run} of {length} that the rate only falls from {first:g} to "
        f"{last:g}; take a smaller s{hint}",
    )


def _bounds_warnings(schedule: Piecewise, span: Span, run: str) -> tuple[str, ...]:
    length, bounds = span.length(schedule.per), schedule.bounds
    if bounds[-1] >= length:
        used = bisect.bisect_left(bounds, length)
        never = ", ".join(f"{rate:g}" for rate in schedule.rates[used + 1 :])
        hint = ", or say per=step if steps were meant" if schedule.per == "epoch" and bounds[-1] < span.total else ""
        return (
            f"{schedule}: {run} ends with {_counted(length, schedule.per)}, before the bound {bounds[used]}, so the "
            f"rate {never} is never used; move the bound or train longer{hint}",
        )
    if schedule.per == "step" and bounds[-1] <= min(span.epochs, span.steps - 1):
        return (
            f"{schedule}: the last bound is step {bounds[-1]} of {span.total}, within the first epoch; "
            f"say per=epoch if epochs were meant",
        )
    return ()


def _length_warnings(schedule: Cosine | OneCycle, span: Span, run: str, over: int | None, per: Per) -> tuple[str, ...]:
    """An ``over`` of its own that is shorter or longer than the run."""
    length = span.length(per)
    if over is None or over == length:
        return ()
    last = schedule.at(span.total - 1, span)
    if over < length:
        text = f"it ends after {over} of {_counted(length, per)} and leaves the rate at {last:g} for the rest of {run}"
    else:
        text = f"it takes {_counted(over, per)} and {run} has {length}, so the rate only comes to {last:g}"
    hint = _if_epochs(per, over, span) if isinstance(schedule, Cosine) else ""
    return (f"{schedule}: {text}; leave over out to follow {run}{hint}",)


def _rise_warnings(schedule: OneCycle, span: Span) -> tuple[str, ...]:
    length = schedule.over or span.total
    if schedule.warm == 0 or schedule.warm * length > 1:
        return ()
    share = f"{schedule.warm:g} of {_counted(length, 'step')} is no more than one step"
    return (f"{schedule}: {share}, so there is no rise and it starts at its peak; train longer or say warm=0",)


def _warm_up_warnings(schedule: WarmUp, span: Span, run: str) -> tuple[str, ...]:
    length, total = schedule.length(span), span.total
    if length < total:
        return _misfits(schedule.following, schedule.rest(span), "the run after the warm-up")
    reached, meant = schedule.at(total - 1, span), schedule.at(length, span)
    hint = ", or say per=step if steps were meant" if schedule.per == "epoch" else ""
    return (
        f"{schedule}: the warm-up takes {_counted(length, 'step')} and {run} has {total}, so the rate only rises to "
        f"{reached:g} of {meant:g}; make it shorter{hint}",
    )


def _patience_warnings(schedule: Plateau, span: Span) -> tuple[str, ...]:
    first = schedule.waits + 1  # the first epoch is the first best
    if first < span.epochs:
        return ()
    return (
        f"{schedule}: with patience {schedule.patience} the first cut can come after epoch {first}, and the run has "
        f"{span.epochs}, so the rate stays constant; lower the patience or train longer",
    )


def _counted(number: int, per: Per) -> str:
    return f"{number} {per}" if number == 1 else f"{number} {per}s"
