"""Cut a network to any size in seconds: the sensitivities of its units are measured once, readers are refitted.

What :func:`weightsmith.reduce` does with ``by="error"``, ``plan="error"`` and a least-squares refit, for several
targets with one measurement of what each unit costs.
"""

from __future__ import annotations

import dataclasses
import functools

from torch import nn

from weightsmith.chain.tailor.configurations import PruningStep
from weightsmith.data.tensors import Data
from weightsmith.networks.operations import count_operations
from weightsmith.reducing.budget import Sensitivities, best_budget, sensitivities
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.error import LeastError
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.rounds import Task, carry_out
from weightsmith.reducing.subject import Subject, read_subject
from weightsmith.reducing.surgery.sites import Site, find_sites
from weightsmith.reducing.surgery.sizes import SizeModel, Target

__all__ = ["Cutter"]

_SENSED = 1000  # rows on which sensitivities are measured, at most: some of them are held out to compare plans


class Cutter:
    """Cuts of one network; nothing is measured before the first one is asked for."""

    def __init__(self, network: nn.Module, data: Data, *, seed: int, batch: int, threads: int) -> None:
        self._network, self._data = network, data
        self._seed, self._batch, self._threads = seed, batch, threads

    def cut(self, step: PruningStep) -> nn.Module:
        """The network cut to the target of ``step``, and refitted."""
        target = Target.parse(step.target)
        budget, _ = best_budget(self._known, self._sizes, target)
        task = Task(
            method=LeastError(),
            target=target,
            refit=LeastSquares(),
            recovery=None,
            shares=None,
            budget=budget,
            fitness=None,
            price=None,
            seed=self._seed,
            batch=self._batch,
            threads=self._threads,
            device="cpu",
            folder=None,
            progress=None,
        )
        return carry_out(self._subject, self._sites, task).network

    def macs(self, network: nn.Module) -> int:
        """The operations of a network for one input, the zeros of the padding included, as reduce counts them."""
        return count_operations(network, self._subject.example[:1]).total

    @functools.cached_property
    def _subject(self) -> Subject:
        return read_subject(self._network, self._data, rows=None, seed=self._seed, test_rows=1)

    @functools.cached_property
    def _sites(self) -> tuple[Site, ...]:
        return find_sites(self._subject.network, self._subject.example[:2]).matching(None)

    @functools.cached_property
    def _sizes(self) -> SizeModel:
        return SizeModel(self._subject.network, self._sites, self._subject.example[:2])

    @functools.cached_property
    def _known(self) -> Sensitivities:
        subject = self._subject
        rows = dataclasses.replace(subject.train, x=subject.train.x[:_SENSED], y=subject.train.y[:_SENSED])
        return sensitivities(
            PruningContext(
                network=subject.network,
                sites=self._sites,
                x=rows.x,
                y=rows.y,
                seed=self._seed,
                batch=self._batch,
                calibration=rows.x,
            )
        )
