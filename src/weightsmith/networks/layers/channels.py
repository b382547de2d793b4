"""The groups of a convolution, which no file of tensors stores.

A convolution of C inputs in g groups has a weight of out × C/g × kernel, and C is not stored. Fewer inputs per filter
than the convolution before it has outputs may mean groups; but a gated unit (half of them), a pixel shuffle (a
quarter), a channel split or a branch that starts further back look the same. So the layer is not split on such a sign:
it is graded as stored, its note begins with ``GUESS``, and the user can set the groups (:func:`settle_groups`).
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.networks.layers.forms import Form
from weightsmith.networks.layers.pending import PendingLayer

__all__ = ["GUESS", "Channels", "fits_pattern", "settle_groups"]

GUESS = "a guess: "
"""The beginning of the note of a layer whose true matrices may differ from those that are graded."""

_COLOURS = 3  # inputs of a first layer
_NEAR = 4  # how many earlier convolutions are searched for a parallel branch of the same block


@dataclass
class Channels:
    """The channel counts of the convolutions so far, in their order."""

    first: int | None = None
    last: int = 0
    made: set[int] = field(default_factory=set)
    certain: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=_NEAR))
    """Names and inputs of the last convolutions whose number of inputs is certain."""
    widths: frozenset[int] = frozenset()
    """Outputs of all convolutions of a file with sorted names, in which the preceding layer may be anywhere."""

    def pass_through(self, name: str, form: Form, shape: tuple[int, ...]) -> None:
        """Record the input and output channels of a convolution."""
        if not form.kind.startswith("Conv"):
            return
        turned = form.kind.startswith("ConvTranspose")
        taken, made = (shape[0], shape[1] * form.groups) if turned else (shape[1] * form.groups, shape[0])
        if form.groups > 1 or not self.possible_groups(name, shape):
            self.certain.append((name, taken))
        self.first = taken if self.first is None else self.first
        self.last = made
        self.made.add(made)

    def possible_groups(self, name: str, shape: tuple[int, ...]) -> int:
        """The number of groups that a filter of this shape may have; 0 without a sign of groups.

        A sign is that the outputs of the layer before are a multiple of the inputs. It does not count in a branch,
        beside a convolution of the same block with as many inputs, nor in a 1 × 1 convolution that fits an earlier
        width.
        """
        groups, rest = divmod(self.last, shape[1])
        if rest or groups < 2 or shape[0] % groups:
            return self._groups_of_widths(shape)
        known = shape[1] == self.first or shape[1] in self.made | self.widths
        if (math.prod(shape[2:]) == 1 and known) or self._is_branch(name, shape[1]):
            return 0
        return groups

    def _groups_of_widths(self, shape: tuple[int, ...]) -> int:
        if shape[1] in self.widths or shape[1] <= _COLOURS:
            return 0
        counts = (width // shape[1] for width in self.widths if width % shape[1] == 0)
        return min((groups for groups in counts if shape[0] % groups == 0), default=0)

    def _is_branch(self, name: str, inputs: int) -> bool:
        parent = name.rpartition(".")[0]
        blocks = [f"{block}." for block in (parent, parent.rpartition(".")[0]) if block]
        return any(taken == inputs and other.startswith(tuple(blocks)) for other, taken in self.certain if blocks)


def fits_pattern(name: str, pattern: str) -> bool:
    """Whether a name equals ``pattern`` or matches it as a glob; names may contain brackets themselves."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def settle_groups(plans: Sequence[PendingLayer], given: str | Sequence[str]) -> list[PendingLayer]:
    """The layers with their groups as ``given``: ``NAME=N``, or several; a name may be a glob of convolutions."""
    settled = {plan.name: plan for plan in plans}
    for text in (given,) if isinstance(given, str) else given:
        pattern, groups = _read(text)
        found = [
            plan for plan in settled.values() if plan.form.kind.startswith("Conv") and fits_pattern(plan.name, pattern)
        ]
        if not found:
            known = [plan.name for plan in plans if plan.form.kind.startswith("Conv")]
            raise UnknownName("convolution", pattern, known[:12])
        for plan in found:
            form = dataclasses.replace(plan.form, groups=groups)
            if not form.fits(plan.shape):
                raise OptionError(
                    f"conv_groups {text}: the {plan.shape[0]} filters of {plan.name} do not form {groups} groups"
                )
            notes = [note for note in plan.notes if not note.startswith(GUESS)]
            settled[plan.name] = dataclasses.replace(plan, form=form, notes=[*notes, f"{groups} groups, as given"])
    return list(settled.values())


def _read(text: str) -> tuple[str, int]:
    pattern, _, number = text.rpartition("=")
    if not pattern or not number.isdecimal() or int(number) < 1:
        raise OptionError(f"conv_groups takes NAME=N, a convolution and its number of groups, not {text!r}")
    return pattern, int(number)
