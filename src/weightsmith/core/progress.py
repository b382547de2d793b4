"""Callbacks by which long work reports how far it is."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ProgressCallback", "StepCallback", "for_stage"]

StepCallback = Callable[[int, int], None]
"""Called with the parts done and the parts in all."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of a stage, the parts of it done and the parts in all."""


def for_stage(progress: ProgressCallback | None, stage: str) -> StepCallback | None:
    """The callback that reports one stage of the work to ``progress``; None without a callback.

    >>> for_stage(lambda stage, done, total: print(stage, done, "of", total), "balancing")(1, 3)
    balancing 1 of 3
    """
    return None if progress is None else lambda done, total: progress(stage, done, total)
