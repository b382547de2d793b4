"""Propose configurations from coarse to fine, cheap ones first, so that an early stop leaves a useful result.

    whole           the network as it is
    cutting         cuts to several sizes, without training
    converting      the network with each kind of input, then the Pareto-optimal cuts, as spiking networks
    tuning          the cuts that lost accuracy, fine-tuned; the Pareto-optimal ones, converted
    plans           other methods, and other plans for the layers, at the nearest sizes
    refining        sizes between the best and its neighbours, two times
    thresholds      other thresholds, the other kind of input, and the L4 adjustment for the best; sizes once more

Every stage uses the candidates found so far and proposes configurations; none is tried twice.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from weightsmith.chain.tailor.candidates import Candidate, on_front
from weightsmith.chain.tailor.choosing import Preference
from weightsmith.chain.tailor.configurations import Configuration, Conversion, Kind, PruningStep
from weightsmith.spiking.conversion.balance import Balance, MaxCurrent, Mse, Percentile

__all__ = ["Menu", "Proposer"]

_KEEPS = (0.5, 0.25, 0.1, 0.7, 0.35, 0.15)
_OTHERS = (("groups", "norm"), ("groups", "alpha"), ("magnitude", "uniform"), ("angles:90", "uniform"))
_THRESHOLDS = (0.7, 1.4)
_LOST = 0.005  # accuracy that a cut may lose before it is worth fine-tuning
_HOPELESS = 0.03  # below the accuracy limit by more than this, a network is not worth converting
_NEAR = 1.06  # neighbouring sizes within this factor count as equal
_HEADROOM = 1.5  # how far beyond the energy limit a spiking network is run
_FEWEST = 4  # steps
_IN_ANY_CASE = 0.15
_ADJUST = "l4:1.0"

SearchPhase = tuple[str, Callable[[], list[Configuration]]]


@dataclasses.dataclass(frozen=True)
class Menu:
    """The options of the search: the limits as shares of the whole (None: no limit), and the options of the chain."""

    energy: float | None
    params: float | None
    recover: str | None
    spiking: bool
    steps: int
    encodings: tuple[str, ...]
    balance: str

    @property
    def measure(self) -> Literal["params", "macs"]:
        """The measure of cuts: parameters if they are limited, else MACs."""
        return "macs" if self.params is None else "params"

    def keeps(self) -> list[float]:
        """The initial sizes, the limit first, without sizes beyond it."""
        limit = self.params if self.params is not None else self.energy
        found = [] if limit is None or limit >= 1 else [round(limit, 4)]
        # Sizes above the energy limit can still be converted; those above the parameter limit are useless.
        most = self.params if self.params is not None else 1.0 if self.spiking or self.energy is None else self.energy
        # Some are tried in any case: if the limit is too small for the network, they show the nearest result.
        return found + [keep for keep in _KEEPS if (keep < most or keep <= _IN_ANY_CASE) and keep not in found]


class Proposer:
    """Proposes configurations, stage by stage, from the candidates found."""

    def __init__(self, menu: Menu, preference: Preference, found: Sequence[Candidate]) -> None:
        self._menu, self._preference, self._found = menu, preference, found

    def stages(self) -> Iterator[SearchPhase]:
        """The stages with their proposing functions; call each one after the stages before it are done."""
        menu = self._menu
        yield "whole", lambda: [Configuration()]
        yield "cutting", lambda: [Configuration(self._cut(keep)) for keep in menu.keeps()]
        if menu.spiking:
            yield (
                "converting",
                lambda: [Configuration(None, Conversion(code, menu.balance, menu.steps)) for code in menu.encodings],
            )
            yield "converting cuts", self._conversions
        if menu.recover is not None:
            yield "tuning", self._tuned
            if menu.spiking:
                yield "converting the tuned", self._conversions
        yield "plans", self._plans
        yield "refining", self._refined
        yield "refining again", self._refined
        if menu.spiking:
            yield "thresholds", self._thresholds
        yield "refining at last", self._refined

    def best(self, kind: Kind) -> Candidate | None:
        """The best of a kind so far."""
        return self._preference.best(found for found in self._found if found.kind == kind)

    def _cut(self, keep: float, recover: str | None = None) -> PruningStep:
        return PruningStep("groups", self._menu.measure, keep, "uniform", recover)

    def _conversions(self) -> list[Configuration]:
        """Pareto-optimal cuts without spikes, from large to small, with the best conversion of the whole network.

        Empty if the whole network does not convert.
        """
        twin = self.best("spiking")
        if twin is None or twin.way.conversion is None:
            return []
        plain = [found for found in self._found if found.way.conversion is None]
        asked = self._preference.limits.accuracy
        promising = [found for found in on_front(plain) if asked is None or found.share >= asked - _HOPELESS]
        return [
            Configuration(
                found.way.cut, dataclasses.replace(twin.way.conversion, steps=self._steps(found.macs, twin.way))
            )
            for found in sorted(promising, key=lambda found: -found.macs)
            if found.way.cut is not None
        ]

    def _steps(self, macs: int, like: Configuration) -> int:
        """The number of steps to run a network of this size: only as long as its energy is useful.

        The energy per step is that of the configuration ``like``, from its first to its last useful step.
        """
        runs = [found for found in self._found if found.way == like and found.steps is not None]
        first, last = runs[0], runs[-1]
        whole = next(found for found in self._found if found.kind == "whole")
        if first.steps is None or last.steps is None or first.steps == last.steps or not macs:
            return self._menu.steps
        most = whole.energy if self._preference.limits.energy is None else self._preference.limits.energy
        each = (last.energy - first.energy) / (last.steps - first.steps)
        room = _HEADROOM * most * first.macs / macs - first.energy
        useful = first.steps + math.ceil(room / each) if each > 0 else self._menu.steps
        return max(_FEWEST, min(self._menu.steps, useful))

    def _tuned(self) -> list[Configuration]:
        """Cuts that lost accuracy, from small to large: small ones train faster, and need it most."""
        whole = next(found for found in self._found if found.kind == "whole")
        lost = [found for found in self._found if found.kind == "reduced" and found.share < whole.share - _LOST]
        return [
            Configuration(dataclasses.replace(found.way.cut, recover=self._menu.recover))
            for found in sorted(lost, key=lambda found: found.macs)
            if found.way.cut is not None
        ]

    def _plans(self) -> list[Configuration]:
        configs = []
        for kind in self._reducing_kinds():
            best = self.best(kind)
            if best is None or best.way.cut is None:
                continue
            for by, plan in _OTHERS:
                cut = dataclasses.replace(best.way.cut, by=by, plan=plan)
                configs.append(dataclasses.replace(best.way, cut=cut))
        return configs

    def _refined(self) -> list[Configuration]:
        """Sizes halfway between the best and its neighbours of the same family, on a logarithmic scale."""
        configs = []
        for kind in self._reducing_kinds():
            best = self.best(kind)
            if best is None or best.way.cut is None:
                continue
            keep = best.way.cut.keep
            keeps = sorted({*self._family(best), keep})
            index = keeps.index(keep)
            below = keeps[index - 1] if index else keep / 2
            above = keeps[index + 1] if index + 1 < len(keeps) else 1.0
            for other in (below, above):
                # A plain network that meets the limits only gets more expensive when it is larger.
                dearer = other > keep and kind == "reduced" and self._preference.met(best)
                if max(keep / other, other / keep) >= _NEAR and not dearer:
                    configs.append(self._resized(best, round(math.sqrt(keep * other), 4)))
        return configs

    def _resized(self, best: Candidate, keep: float) -> Configuration:
        assert best.way.cut is not None
        cut = dataclasses.replace(best.way.cut, keep=keep)
        if best.way.conversion is None:
            return Configuration(cut)
        steps = self._steps(round(best.macs * keep / best.way.cut.keep), best.way)
        return Configuration(cut, dataclasses.replace(best.way.conversion, steps=steps))

    def _family(self, best: Candidate) -> list[float]:
        """Sizes of candidates with the same configuration but for the number of steps."""
        return [
            found.way.cut.keep
            for found in self._found
            if found.kind == best.kind
            and found.way.cut is not None
            and best.way.cut is not None
            and dataclasses.replace(found.way.cut, keep=best.way.cut.keep) == best.way.cut
        ]

    def _thresholds(self) -> list[Configuration]:
        configs = []
        kinds: tuple[Kind, ...] = ("reduced and spiking", "spiking")
        for kind in kinds:
            best = self.best(kind)
            if best is None or best.way.conversion is None:
                continue
            plain = best.way.conversion
            changes: list[dict[str, str | None]] = [{"balance": _times(plain.balance, by)} for by in _THRESHOLDS]
            changes += [{"encode": code, "adjust": None} for code in self._menu.encodings if code != plain.encode]
            # The adjustment is for random input: a constant current has no variance to adjust for.
            changes += [{"adjust": _ADJUST}] if plain.encode.startswith("poisson") else []
            for change in changes:
                conversion = dataclasses.replace(plain, **change)  # type: ignore[arg-type]
                configs.append(dataclasses.replace(best.way, conversion=conversion))
        return configs

    def _reducing_kinds(self) -> tuple[Kind, ...]:
        return ("reduced and spiking", "reduced") if self._menu.spiking else ("reduced",)


def _times(balance: str, factor: float) -> str:
    """The thresholds multiplied by a factor.

    >>> _times("percentile:99.0", 1.4)
    'percentile:percent=99.0,factor=1.4'
    """
    option = Balance.parse(balance)
    assert isinstance(option, Percentile | Mse | MaxCurrent)  # the members of the family
    return str(dataclasses.replace(option, factor=option.factor * factor))
