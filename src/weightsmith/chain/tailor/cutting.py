"""Cut a network to any size in seconds: the sensitivities of its units are measured once, readers are refitted.

The same as :func:`weightsmith.reduce` with ``by="error"``, ``plan="error"`` and a least-squares refit, but for several
targets with one measurement of the units; a step may add the distillation of ``recover="distill"``.
"""

from __future__ import annotations

import dataclasses
import functools

from torch import nn

from weightsmith.chain.tailor.configurations import Measure, PruningStep
from weightsmith.data.tensors import Data
from weightsmith.reducing.budget import Sensitivities, best_budget, sensitivities
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.error import LeastError
from weightsmith.reducing.recovery.distilling import distilled, watched_layers
from weightsmith.reducing.recovery.recover import Distill
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.rounds import Outcome, Task, carry_out
from weightsmith.reducing.subject import Subject, read_subject
from weightsmith.reducing.surgery.probing import cuttable_sites
from weightsmith.reducing.surgery.sites import Site
from weightsmith.reducing.surgery.sizes import SizeModel, Target

__all__ = ["Cutter"]

_SENSED = 1000  # rows on which sensitivities are measured, at most: some of them are held out to compare plans


class Cutter:
    """Cuts of one network; nothing is measured before the first cut."""

    def __init__(self, network: nn.Module, data: Data, *, seed: int, batch: int, threads: int) -> None:
        self._network, self._data = network, data
        self._seed, self._batch, self._threads = seed, batch, threads
        self._outcomes: dict[str, Outcome] = {}

    def cut(self, step: PruningStep) -> nn.Module:
        """The network cut to the target of ``step``, refitted, and distilled if it requires that; no label is read."""
        if step.target not in self._outcomes:
            self._outcomes[step.target] = self._refitted(Target.parse(step.target))
        found = self._outcomes[step.target]
        if step.recover is None:
            return found.network
        data, sites = self._data, self._sites
        return distilled(
            self._subject.network,
            found.network,
            dataclasses.replace(data, validation=data.split("test")),
            Distill.parse(step.recover),
            watched_layers(sites, {site.name: site.kept for site in found.sites}),
            seed=self._seed,
            threads=self._threads,
        ).network

    def _refitted(self, target: Target) -> Outcome:
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
        return carry_out(self._subject, self._sites, task)

    def least(self, measure: Measure, multiple: int) -> float:
        """The share of parameters or operations left with one unit (or ``multiple``) of every layer that can be cut."""
        fewest = {name: min(multiple, units) for name, units in self._sizes.units.items()}
        return self._sizes.size(fewest, measure) / self._sizes.size({}, measure)

    @functools.cached_property
    def _subject(self) -> Subject:
        return read_subject(self._network, self._data, rows=None, seed=self._seed, test_rows=1)

    @functools.cached_property
    def _sites(self) -> tuple[Site, ...]:
        return cuttable_sites(self._subject.network, self._subject.example).matching(None)

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
