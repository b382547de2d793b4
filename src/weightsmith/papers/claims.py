"""Claims of a document, our findings, and the rules by which a verdict follows from the numbers.

    by_interval("rates", compared, "what was found")     the interval decides: beyond 0, below it, or neither
    by_parts("order", parts, "what was found", …)        all of several parts, some of them, or none

A verdict never follows from a difference inside the noise: an interval that contains the limit gives *cannot say*.
The index page counts all tests and corrects them together (Holm).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from weightsmith.core.records import Record
from weightsmith.core.statistics import Comparison, ComparisonStatus, Interval, mean_interval

__all__ = ["Claim", "Finding", "Verdict", "by_interval", "by_parts", "combined", "paired", "worded"]


class Verdict(enum.Enum):
    """Whether a claim stood the test."""

    HOLDS = "holds"
    IN_PART = "in part"
    FAILS = "does not hold"
    UNCLEAR = "cannot say"
    NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A testable sentence of a document: its place in the document, and the rule by which it is judged."""

    name: str
    where: str
    text: str
    rule: str


@dataclasses.dataclass(frozen=True, eq=False)
class Finding(Record):
    """The verdict on a claim: our number as text with its interval, the number of values behind it, and one sentence.

    ``p`` is the two-sided p-value of the test behind the verdict, None if no test is needed (algebra, counts).
    """

    claim: str
    verdict: Verdict
    ours: str
    n: int
    found: str
    p: float | None = None


def paired(a: ArrayLike, b: ArrayLike) -> Comparison:
    """How much larger the values ``a`` are than ``b``, pair by pair: Student's t of the differences, n − 1 degrees.

    >>> found = paired([3, 5, 4], [1, 2, 3])
    >>> round(found.difference, 3), round(found.p, 3)
    (2.0, 0.074)
    """
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    method = "paired t-test"
    if np.ptp(differences) == 0:
        return Comparison(float(differences[0]), None, differences.size, method, ComparisonStatus.NO_VARIANCE)
    from scipy.special import stdtr

    error = float(np.std(differences, ddof=1)) / differences.size**0.5
    statistic = float(np.mean(differences)) / error
    p = 2 * float(stdtr(differences.size - 1, -abs(statistic)))
    interval = mean_interval(differences)
    return Comparison(interval.value, p, differences.size, method, interval=interval, statistic=statistic)


def by_interval(
    claim: str,
    compared: Comparison,
    found: str,
    *,
    claimed: int = 1,
    least: float = 0.0,
    unit: str = "points",
    scale: float = 100.0,
) -> Finding:
    """The verdict on "the difference is above ``least``" (``claimed=-1``: below −``least``).

    The claim holds if the whole interval lies beyond ``least`` in the claimed direction, fails if it lies wholly on the
    other side, and is otherwise undecided, as without an interval (all differences equal).
    """
    verdict = Verdict.UNCLEAR
    if compared.interval is not None:
        low, high = sorted((claimed * compared.interval.low, claimed * compared.interval.high))
        verdict = Verdict.HOLDS if low > least else Verdict.FAILS if high < least else Verdict.UNCLEAR
    return Finding(claim, verdict, worded(compared, unit, scale), compared.n, found, compared.p)


def worded(number: Comparison | Interval, unit: str = "points", scale: float = 100.0) -> str:
    """A difference or an estimate with its 95 % interval, as text.

    >>> worded(mean_interval([0.01, 0.02, 0.03]))
    '+2.00 points (-0.48 to +4.48)'
    """
    interval = number.interval if isinstance(number, Comparison) else number
    value = number.difference if isinstance(number, Comparison) else number.value
    text = f"{scale * value:+.2f} {unit}".rstrip()
    if interval is None:
        return text
    return f"{text} ({scale * interval.low:+.2f} to {scale * interval.high:+.2f})"


def by_parts(
    claim: str, parts: Sequence[bool | None], found: str, *, ours: str, n: int, p: float | None = None
) -> Finding:
    """The verdict on a claim of several parts: all, some or none hold; None marks an undecided part."""
    known = [part for part in parts if part is not None]
    if not known:
        verdict = Verdict.UNCLEAR
    elif all(known):
        verdict = Verdict.HOLDS if len(known) == len(parts) else Verdict.IN_PART
    elif not any(known):
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.IN_PART
    return Finding(claim, verdict, ours, n, found, p)


def combined(claim: str, findings: Sequence[Finding], found: str, *, ours: str) -> Finding:
    """One verdict from several tests of the same claim, with the largest of their p-values."""
    meaning = {Verdict.HOLDS: True, Verdict.FAILS: False}
    ps = [finding.p for finding in findings if finding.p is not None]
    parts = [meaning.get(finding.verdict) for finding in findings]
    count = sum(finding.n for finding in findings)
    return by_parts(claim, parts, found, ours=ours, n=count, p=max(ps) if ps else None)
