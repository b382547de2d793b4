"""Baselines of a reduction: random masks of the same size, and the small network trained from scratch.

A method is useful only if it beats the same number of units chosen at random, and a reduction only if the small network
could not have been trained as well from the start (Liu et al., "Rethinking the value of network pruning", ICLR 2019).
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.core.options import check_int
from weightsmith.core.records import Lineage, Record
from weightsmith.core.seeds import stream, subseed, torch_stream
from weightsmith.core.statistics import Interval, mean_interval
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluating import evaluate
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.networks.models.initialisers import initialise
from weightsmith.reducing.recovery.recover import FineTune, fine_tuned
from weightsmith.training.drawing import own_random_state
from weightsmith.training.run import Progress

__all__ = ["RandomMasks", "Scratch", "from_scratch", "random_masks", "reinitialised"]


@dataclasses.dataclass(frozen=True, eq=False)
class RandomMasks(Record):
    """Accuracies in percent of masks of equal size; deviation and interval are None for a single mask."""

    counts: tuple[int, ...]
    accuracies: tuple[float, ...]
    mean: float
    deviation: float | None
    interval: Interval | None

    def as_good(self, accuracy: float) -> int:
        """How many of the masks reach this accuracy."""
        return sum(other >= accuracy for other in self.accuracies)


@dataclasses.dataclass(frozen=True, eq=False)
class Scratch(Record):
    """The small network trained from fresh weights, once per seed.

    ``accuracies`` are shares of the images, each with its Wilson interval; ``mean`` is over the seeds, with Student's
    interval, None for a single seed.
    """

    option: FineTune
    parameters: int
    split: str
    seeds: tuple[int, ...]
    accuracies: tuple[Interval, ...]
    mean: Interval | None


def random_masks(
    evaluate: Callable[[NDArray[np.bool_]], NDArray[Any]],
    slices: Sequence[slice],
    counts: Sequence[int],
    *,
    repeats: int = 10,
    seed: int = 0,
) -> RandomMasks:
    """Evaluate ``repeats`` masks with exactly ``counts[k]`` units on, drawn at random, in each site ``slices[k]``.

    ``evaluate`` takes masks (masks × bits) and gives an accuracy in percent for each. The sites are contiguous.

    >>> on = random_masks(lambda masks: 10.0 * masks[:, :4].sum(1), [slice(0, 4), slice(4, 9)], [2, 1], repeats=3)
    >>> on.accuracies, on.interval.low, on.as_good(20)
    ((20.0, 20.0, 20.0), 20.0, 3)
    """
    repeats = check_int("repeats", repeats)
    masks = np.zeros((repeats, _bits(slices, counts)), dtype=np.bool_)
    for number, mask in enumerate(masks):
        generator = stream(seed, "random masks", number)  # the first ten are the same if twenty are drawn
        for site, count in zip(slices, counts, strict=True):
            mask[site.start + generator.choice(site.stop - site.start, count, replace=False)] = True
    values = np.asarray(evaluate(masks), dtype=np.float64)
    if values.shape != (repeats,) or not np.isfinite(values).all():
        raise UsageError(f"evaluate must give a finite accuracy for each of {repeats} masks, not {values!r:.60}")
    found = tuple(values.tolist())
    several = repeats > 1
    return RandomMasks(
        counts=tuple(map(int, counts)),
        accuracies=found,
        mean=statistics.fmean(found),
        deviation=statistics.stdev(found) if several else None,
        interval=_within_percent(mean_interval(found), min(found)) if several else None,
    )


def _within_percent(interval: Interval, least: float) -> Interval:
    """Clip Student's interval, which is unbounded, to 0–100 percent; R² of a regression may be below 0."""
    low = max(0.0, interval.low) if least >= 0 else interval.low
    return dataclasses.replace(interval, low=low, high=min(100.0, interval.high))


def from_scratch(
    network: nn.Module,
    data: Any,
    option: FineTune,
    *,
    seeds: tuple[int, ...] = (0,),
    split: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> Scratch:
    """Train the layout of ``network`` with fresh weights, once per seed, and evaluate it on ``split`` of ``data``.

    ``option`` sets the training; for a fair comparison give it as many epochs as the large network had, including its
    recovery. With ``out`` every training has a folder there, and the same call resumes an interrupted one.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise UsageError(f"seeds must be distinct, and at least one, not {seeds}")
    answers = []
    for seed in seeds:
        run = fine_tuned(
            reinitialised(network, seed),
            data,
            option,
            seed=seed,
            out=None if out is None else Path(out) / f"seed-{seed}",
            progress=progress,
            threads=threads,
            device=device,
        )
        answers.append(evaluate(run.network, data, split=split, threads=threads, device=device))
    shares = [answer.score.value for answer in answers]
    return Scratch(
        option=option,
        parameters=sum(value.numel() for value in network.parameters()),
        split=answers[0].split,
        seeds=tuple(seeds),
        accuracies=tuple(answer.score for answer in answers),
        mean=mean_interval(shares) if len(shares) > 1 else None,
    )


def reinitialised(network: nn.Module, seed: int) -> nn.Module:
    """A copy of ``network`` with newly initialised, trainable weights; its card loses the lineage.

    One of our architectures gets the weights that its ``build(seed)`` would give. Any other module is reset layer by
    layer (``reset_parameters``); a layer with parameters but without that method is refused by name.
    """
    fresh, architecture = copied(network), architecture_of(network)
    if architecture is not None:
        scheme = architecture.initialiser or architecture.activation_option.initialiser
        initialise(fresh, scheme, torch_stream(seed, "initialise"))
    else:
        _reset(fresh, seed)
    for value in fresh.parameters():
        value.requires_grad_(value.is_floating_point())
    card = dataclasses.replace(card_of(network), lineage=Lineage(f"drawn anew from seed {seed}"))
    return with_card(fresh, card)


def _reset(network: nn.Module, seed: int) -> None:
    """Reset the parameters of every layer, inner modules first, so that the reset of an outer module takes effect."""
    layers = dict(network.named_modules())
    for name, layer in layers.items():
        if any(True for _ in layer.parameters(recurse=False)) and not callable(
            getattr(layer, "reset_parameters", None)
        ):
            raise UsageError(
                f"{name or 'the network itself'} ({type(layer).__name__}): has parameters but no reset_parameters(), "
                "so it cannot be re-initialised; add that method, or leave out training from scratch"
            )
    with own_random_state(), torch.no_grad():
        torch.manual_seed(subseed(seed, "initialise"))
        for layer in reversed(layers.values()):
            if callable(reset := getattr(layer, "reset_parameters", None)):
                reset()


def _bits(slices: Sequence[slice], counts: Sequence[int]) -> int:
    """The length of a mask over all sites, which must follow each other and have room for their counts."""
    if len(slices) != len(counts) or not slices:
        raise UsageError(f"{len(slices)} sites and {len(counts)} counts: give one count per site, for one site or more")
    end = 0
    for site, count in zip(slices, counts, strict=True):
        if site.start != end or site.stop is None or site.step not in (None, 1):
            raise UsageError(f"site {site} must begin at {end}, where the one before it ends, and have step 1")
        end = site.stop
        if not 1 <= count <= end - site.start:
            raise UsageError(f"cannot keep {count} of {end - site.start} units: keep 1 to {end - site.start}")
    return end
