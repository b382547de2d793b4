"""Accumulates the results of a run: output sums, answers after each step, spike counts, early exits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.responses import UNDECIDED, Responses

__all__ = ["INPUTS", "Tally"]

INPUTS = "input"  # input spikes are counted under this name


class Tally:
    """Accumulates the parts of a run; memory grows with images and steps by only two bytes per answer."""

    def __init__(
        self,
        images: int,
        steps: int,
        classes: int,
        units: Mapping[str, int],
        early: Margin | None,
        *,
        settle: int = 0,
    ) -> None:
        self._steps, self._units, self._early, self._settle = steps, dict(units), early, settle
        self._answers = np.full((images, steps), UNDECIDED, np.int16)
        self._scores = np.zeros((images, classes))
        self._squares = np.zeros((images, classes))
        self._ended = np.full(images, steps, np.int32)
        self._per_step: dict[str, NDArray[np.int64]] = {}
        self._per_image: dict[str, NDArray[np.int64]] = {}

    def add(
        self,
        rows: NDArray[np.int64],
        step: int,
        outputs: NDArray[np.floating],
        counts: Mapping[str, NDArray[np.integer]],
    ) -> NDArray[np.bool_]:
        """Add outputs (rows, steps, classes) and spike counts (rows, steps); returns the rows that go on."""
        length = outputs.shape[1]
        running = np.ones((len(rows), length), bool)
        for offset in range(length):
            now = step + offset
            alive = running[:, offset]
            self._answer(rows, alive, now, outputs[:, offset].astype(np.float64))
            if self._early is not None and offset + 1 < length:
                running[:, offset + 1] = self._ended[rows] > now + 1
        for name, count in counts.items():
            kept = count * running
            self._per_step.setdefault(name, np.zeros(self._steps, np.int64))[step : step + length] += kept.sum(axis=0)
            self._per_image.setdefault(name, np.zeros(len(self._answers), np.int64))[rows] += kept.sum(axis=1)
        return np.asarray(self._ended[rows] > step + length)

    def _answer(self, rows: NDArray[np.int64], alive: NDArray[np.bool_], now: int, output: NDArray[np.float64]) -> None:
        if now < self._settle:
            return
        going = rows[alive]
        self._scores[going] += output[alive]
        scores = self._scores[going]
        silent = ~scores.any(axis=1)
        self._answers[going, now] = np.where(silent, UNDECIDED, scores.argmax(axis=1))
        if self._early is None:
            return
        self._squares[going] += output[alive] ** 2
        done = going[self._leads(going, now + 1 - self._settle) & ~silent]
        if now + 1 >= self._early.least and now + 1 < self._steps:
            self._ended[done] = now + 1
            self._answers[done, now + 1 :] = self._answers[done, now, None]

    def _leads(self, rows: NDArray[np.int64], steps: int) -> NDArray[np.bool_]:
        """The margin rule (:class:`Margin`)."""
        assert self._early is not None
        scores, squares = self._scores[rows], self._squares[rows]
        if scores.shape[1] < 2:
            return np.zeros(len(rows), bool)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :2]
        lead = -np.diff(np.take_along_axis(scores, order, axis=1), axis=1)[:, 0]
        spread = np.maximum(squares - scores**2 / steps, 0)
        noise = np.sqrt(np.take_along_axis(spread, order, axis=1).sum(axis=1))
        return np.asarray((lead > 0) & (lead >= self._early.errors * noise))

    def responses(self, paths: Mapping[str, str]) -> Responses:
        """The responses, once every image was run."""
        none = np.zeros(self._steps, np.int64)
        return Responses(
            steps=self._steps,
            answers=self._answers,
            scores=self._scores,
            ended=self._ended,
            units=self._units,
            spikes_per_step={name: self._per_step.get(name, none) for name in self._units},
            spikes_per_image={
                name: self._per_image.get(name, np.zeros(len(self._answers), np.int64)) for name in self._units
            },
            inputs_per_step=self._per_step.get(INPUTS),
            paths=dict(paths),
        )
