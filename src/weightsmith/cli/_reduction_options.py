"""The options of ``weightsmith reduce``, parsed and checked before any work begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.core.errors import OptionError, UnknownName, UsageError

if TYPE_CHECKING:
    from weightsmith.reducing.criteria.method import Method
    from weightsmith.reducing.recovery.recover import Recover
    from weightsmith.reducing.refitting.options import Refit
    from weightsmith.reducing.surgery.sizes import Target

__all__ = ["Asked", "check_bar", "read_options"]

_PLANS = ("uniform", "norm", "alpha")


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options of a reduction as objects; ``plan`` is one of three words or a file."""

    methods: tuple[Method, ...]
    target: Target | None
    plan: str | Path | None
    refit: Refit
    recovery: Recover | None
    scratch: Recover | None

    @property
    def rewinds(self) -> bool:
        """Whether the training run of the network is needed."""
        from weightsmith.reducing.recovery.recover import Rewind

        return isinstance(self.recovery, Rewind)


def read_options(
    by: Sequence[str], target: str | None, plan: str | None, refit: str, recover: str | None, scratch: str | None
) -> Asked:
    """Parse every text form, so that a typing error in the last costs no work."""
    from weightsmith.reducing.methods import Method
    from weightsmith.reducing.recovery.recover import FineTune, Recover
    from weightsmith.reducing.refitting.options import Refit
    from weightsmith.reducing.surgery.sizes import Target

    asked = Asked(
        methods=tuple(map(Method.parse, by)),
        target=None if target is None else Target.parse(target),
        plan=None if plan is None else _plan(plan),
        refit=Refit.parse(refit),
        recovery=None if recover is None else Recover.parse(recover),
        scratch=None if scratch is None else Recover.parse(scratch),
    )
    if asked.scratch is not None and not isinstance(asked.scratch, FineTune):
        raise OptionError(f"--scratch takes fine-tune:…, how a network from scratch is trained, not {asked.scratch}")
    if asked.target is None and asked.plan in _PLANS:
        raise UsageError(f"--plan {asked.plan} says how much of each layer only with a target, as --target params:0.5")
    seen: set[str] = set()
    for method in asked.methods:
        if str(method) in seen:
            raise UsageError(f"--by {method} is given twice: nothing would be compared")
        seen.add(str(method))
        if method.needs_target and asked.target is None and asked.plan is None:
            raise UsageError(
                f"{method} cannot tell how much to take out; give a target, as --target params:0.5, or a plan"
            )
    return asked


def check_bar(accuracy: float | None) -> None:
    """The bar is in per cent: 0.9 would pass for any network."""
    if accuracy is not None and 0 < accuracy <= 1:
        raise OptionError(f"--least-accuracy is in per cent, as 90: {accuracy:g} would let any network pass")


def _plan(text: str) -> str | Path:
    if text in _PLANS:
        return text
    path = Path(text)
    if not path.exists() and not path.suffix and path.name == text:
        raise UnknownName("plan", text, [*_PLANS, "FILE"])
    return path
