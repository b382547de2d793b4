"""Progress of long work: reported to a callback, or to a bar in a terminal or a notebook (``progress=True``)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

__all__ = [
    "ProgressCallback",
    "StepCallback",
    "as_callback",
    "for_stage",
    "progress_bar",
    "shows_progress",
    "time_text",
]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., None])

StepCallback = Callable[[int, int], None]
"""Called with the parts done and the parts in total."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of a stage, its parts done and its parts in total."""


def for_stage(progress: ProgressCallback | bool | None, stage: str) -> StepCallback | None:
    """The callback that reports one stage of the work to ``progress``; None without a callback.

    >>> for_stage(lambda stage, done, total: print(stage, done, "of", total), "balancing")(1, 3)
    balancing 1 of 3
    """
    report = as_callback(progress)
    return None if report is None else lambda done, total: report(stage, done, total)


def as_callback(progress: C | bool | None) -> C | None:
    """``progress`` as a callback or None: :func:`shows_progress` has already replaced True by a bar."""
    return None if isinstance(progress, bool) else progress


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` whose ``progress`` may be True: a bar during the call; False is None."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def showing(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        asked = given.arguments.get("progress")
        if not isinstance(asked, bool):
            return function(*args, **kwargs)
        if not asked:
            given.arguments["progress"] = None
            return function(*given.args, **given.kwargs)
        with progress_bar(function.__name__) as given.arguments["progress"]:
            return function(*given.args, **given.kwargs)

    return showing


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[..., None]]:
    """A bar on stderr, or below the cell of a notebook; yields the callback that moves it.

    It takes the report of any verb: parts done and in total, perhaps after a stage; or the ``Progress`` of training.
    """
    from rich import progress
    from rich.console import Console
    from rich.markup import escape

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(what), total=None)
        now = ""

        def report(*news: Any) -> None:
            nonlocal now
            stage, done, total = _read(news)
            if stage != now:
                now = stage
                bar.reset(task, description=escape(f"{what}: {stage}"))
            bar.update(task, completed=done, total=total)

        yield report


def _read(news: tuple[Any, ...]) -> tuple[str, int, int]:
    """Stage, parts done and parts in total, of any report."""
    if len(news) == 1:  # the Progress of training
        (at,) = news
        return "training", (at.epoch - 1) * at.steps + at.step, at.epochs * at.steps
    return news if len(news) == 3 else ("", *news)


def time_text(seconds: float) -> str:
    """``12 s``, ``3 min 05 s``, ``2 h 10 min``.

    >>> time_text(12.3), time_text(185), time_text(7830)
    ('12 s', '3 min 05 s', '2 h 10 min')
    """
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    minutes, rest = divmod(total, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
