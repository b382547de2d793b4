"""The candidates to try, quick and safe ones first: each proposal follows from the results before it.

On the whole network, a way to compute (float32, int8, spikes) takes a share e of the energy and b of the bytes. A limit
on the energy then requires a cut to limit/e of the operations, a limit on the bytes a cut to limit/b of the parameters;
limits on operations and parameters apply directly. So every way needs at most one cut, and no search over sizes:

    keep of the operations = min(limit on operations, limit on energy / e)
    keep of the parameters = min(limit on parameters, limit on bytes / b)

If the best of these is a cut network that differs from the original on more selection rows than the limit on the
accuracy allows, it is also distilled: trained to match the original on the same unlabelled rows.

With a limit on the accuracy alone, ever smaller cuts are tried, in the way that costs least energy, until the answers
on the selection rows differ by more than the limit allows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import Preference
from weightsmith.chain.tailor.configurations import Configuration, Conversion, Measure, PruningStep
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.runner import CandidateRunner
from weightsmith.core.progress import ProgressCallback

__all__ = ["Search"]

_LADDER = (0.85, 0.7, 0.55, 0.4, 0.3, 0.2)
_FAST = 8  # channels in multiples of which a convolution runs fast
_TRIED = 3  # cuts tried for one limit
_SAFE = 0.995  # of the share needed: biases and norms are not cut by the same share
_A_STEP_MORE = 0.4  # energy of one more step as a fraction of the mean energy of a step: the first one costs most
_BELOW = 0.98  # of a share that was extrapolated
_ASKED = 1e-4  # a share this close to a round one is the limit's, up to the rounding to whole units
_DIGITS = 1e4  # a share is a multiple of 1/10,000
_NEAR = 0.02  # share of the answers that may differ if the accuracy has no limit
_DISTILL = "distill:epochs=4"
_GRADED = tuple(Conversion("constant", "percentile", steps, None, "graded:5", "weights") for steps in (2, 3, 4))
_SIGNED = tuple(Conversion("constant", "mse", steps, None, "if:signed=true", "weights") for steps in (4, 8, 16))


@dataclasses.dataclass
class Search:
    """One search: what ``runner`` tries under the limits of ``preference``."""

    runner: CandidateRunner
    preference: Preference
    progress: ProgressCallback | None = None

    @property
    def limits(self) -> Limits:
        """The limits."""
        return self.preference.limits

    def run(self, budget: float | None) -> tuple[str, ...]:
        """Try everything proposed; returns what the budget (CPU seconds) or an interruption left untried."""
        try:
            for stage, config in self._proposals():
                if self.runner.knows(config):
                    continue
                if budget is not None and self.runner.spent >= budget:
                    return (str(config),)
                if self.progress is not None:
                    done = len(self.runner.candidates)
                    self.progress(f"{stage}: {config}{self._so_far()}", done, done + 1)
                self.runner.go(config, stage)
        except KeyboardInterrupt:
            if not self.runner.candidates:
                raise
            return ("everything after the interruption: the same call resumes there",)
        return ()

    def _so_far(self) -> str:
        """The best so far, if it meets the limits on costs: the result of an interruption now."""
        best = self.preference.best(self.runner.candidates)
        return f" (best so far: {best})" if best is not None and not self.preference.missed(best) else ""

    def _proposals(self) -> Iterator[tuple[str, Configuration]]:
        yield "whole", Configuration()
        rounded, plain = Configuration(numbers="int8"), Configuration()
        yield "int8", rounded  # shown beside every result
        if not self.limits.costs:
            yield from self._descent()
            return
        yield from self._within(plain, rounded)
        yield from self._distilled()

    def _within(self, plain: Configuration, rounded: Configuration) -> Iterator[tuple[str, Configuration]]:
        """Configurations that meet the limits on costs."""
        if not self.preference.spiking:
            if {"energy", "bytes"} & set(self.limits.costs):
                yield from self._cut_for(rounded)
            if self.limits.time is not None:
                yield from self._timed()
            else:
                yield from self._cut_for(plain)
        if self.preference.spiking or set(self.limits.costs) == {"energy"}:
            for conversion in self._conversions():
                spikes = Configuration(None, conversion)
                yield "spiking", spikes
                if self.preference.spiking:
                    yield from self._cut_for(spikes)

    def _distilled(self) -> Iterator[tuple[str, Configuration]]:
        """The best so far once more, distilled, if it is a cut whose answers differ by more than is allowed."""
        best = self.preference.best(self.runner.candidates)
        if best is None or best.way.cut is None or self.preference.missed(best) or self._hopeful(best):
            return
        cut = dataclasses.replace(best.way.cut, recover=_DISTILL)
        yield "distilling", dataclasses.replace(best.way, cut=cut)

    def _conversions(self) -> Iterator[Conversion]:
        """More steps as long as the energy allows it; signed neurons if those with graded spikes are refused."""
        for family in (_GRADED, _SIGNED):
            known: list[Candidate] = []
            for conversion in family:
                yield conversion
                found = self.runner.find(Configuration(None, conversion))
                if found is None:
                    break  # refused
                known.append(found)
                if not self.preference.spiking or self._too_dear(found):
                    break  # one is enough as a rival
            if known:
                return

    def _too_dear(self, found: Candidate) -> bool:
        """Whether one more step would exceed the limit on the energy."""
        if self.limits.energy is None or found.steps is None:
            return False
        return found.energy * (1 + _A_STEP_MORE / found.steps) > self.limits.energy

    def _cut_for(self, way: Configuration) -> Iterator[tuple[str, Configuration]]:
        """The cut that ``way`` needs to meet the limits, if any; smaller ones while a limit is missed."""
        whole = self.runner.find(way)
        if whole is None or not self.preference.missed(whole):
            return
        needed = self._needed(whole)
        for measure in sorted(needed, key=lambda each: needed[each]):
            keep, known = needed[measure], [(1.0, self._over(whole))]
            for _ in range(_TRIED):
                step = self._step(measure, keep)
                if way != Configuration():
                    yield "cutting", Configuration(step)
                cut = dataclasses.replace(way, cut=step)
                yield "cutting", cut
                found = self.runner.find(cut)
                if found is None or not self.preference.missed(found):
                    return
                known.append((keep, self._over(found)))
                keep = _next_keep(*known[-2:])

    def _over(self, found: Candidate) -> float:
        """The largest excess of a candidate over a limit on a cost."""
        return max(self.preference.missed(found).values(), default=0.0)

    def _needed(self, whole: Candidate) -> dict[Measure, float]:
        """The share of operations and of parameters that a way may keep, where it is less than all."""
        asked = {name: limit / value for name, limit in self.limits.costs.items() if (value := whole.costs[name])}
        if whole.steps is not None and "energy" in asked:
            asked["energy"] = 1 / (1 + self.preference.missed(whole).get("energy", 0.0))
        shares: dict[Measure, float] = {
            "macs": min(asked.get("macs", 1.0), asked.get("energy", 1.0)),
            "params": min(asked.get("params", 1.0), asked.get("bytes", 1.0)),
        }
        return {measure: share for measure, share in shares.items() if share < 1}

    def _timed(self) -> Iterator[tuple[str, Configuration]]:
        """Cuts for a limit on the time: smaller ones while it is missed."""
        assert self.limits.time is not None
        whole = self.runner.candidates[0]
        keep, known = min(self.limits.time, *self._needed(whole).values(), 1.0), [(1.0, self._over(whole))]
        for _ in range(_TRIED):
            step = self._step("macs", keep, _FAST)
            yield "cutting", Configuration(step)
            found = self.runner.find(Configuration(step))
            if found is None or not self.preference.missed(found):
                return
            known.append((keep, self._over(found)))
            keep = _next_keep(*known[-2:])

    def _descent(self) -> Iterator[tuple[str, Configuration]]:
        """Ever smaller networks, in the way that costs least, while their answers stay near the network's."""
        ways: Sequence[Configuration] = [Configuration(numbers="int8")]
        if self.preference.spiking:
            ways = []
            for conversion in self._conversions():
                yield "spiking", Configuration(None, conversion)
                ways = [way for way in (Configuration(None, conversion),) if self.runner.find(way)] or ways
                if ways and self._hopeful(self.runner.find(ways[-1])):
                    break
        for way in ways:
            for keep in _LADDER:
                cut = self._step("macs", keep)
                yield "cutting", Configuration(cut)
                yield "cutting", dataclasses.replace(way, cut=cut)
                if not self._hopeful(self.runner.find(dataclasses.replace(way, cut=cut))):
                    break

    def _hopeful(self, found: Candidate | None) -> bool:
        """Whether the answers differ by no more than the limit allows: on training rows they differ least."""
        if found is None:
            return False
        points = self.limits.points
        if points is None:
            points = _NEAR if self.limits.accuracy is None else 1 - self.limits.accuracy
        return 1 - found.share <= points + 1e-9

    def _step(self, measure: Measure, keep: float, multiple: int = 1) -> PruningStep:
        """The cut to a share of the network, or the smallest possible one."""
        asked, least = round(keep, 3), self.runner.least(measure, multiple)
        keep = asked if abs(keep - asked) < _ASKED else round(min(0.999, keep * _SAFE), 4)
        keep = max(keep, math.ceil(least * _DIGITS) / _DIGITS, 1 / _DIGITS)
        return PruningStep("error", measure, keep, "error", None, multiple)


def _next_keep(before: tuple[float, float], last: tuple[float, float]) -> float:
    """The share at which the line through two (share, miss) reaches the limit, slightly reduced.

    Costs that do not shrink in proportion (a first layer, scales, time spent elsewhere) make the first cut miss.

    >>> round(_next_keep((1.0, 1.0), (0.6, 0.2)), 3)
    0.49
    """
    (larger, over), (keep, left) = before, last
    slope = (over - left) / (larger - keep) if larger > keep else 0.0
    aimed = keep - left / slope if slope > 0 else keep / (1 + left)
    return aimed * _BELOW if aimed > 0 else 0.0
