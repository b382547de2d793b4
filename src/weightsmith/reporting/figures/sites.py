"""The figure of a reduction layer by layer: how many units are left, and why the others went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._spiking_panels import layer_rows, legend_below
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.reducing.results import SiteReduction

__all__ = ["draw_sites", "gone_by_reason"]

_WRITTEN = 40  # rows up to which bars have their numbers written beside them
_COLOURS = (ORANGE, PURPLE, GREEN)  # of the commonest reasons; all others together are grey
_OTHERS = "other reasons"
_EARLIER = "earlier rounds"
_PALE = 0.55
_WIDTH = 5.5


def gone_by_reason(site: SiteReduction) -> dict[str, int]:
    """Units that went by why, the commonest reason first; what went in earlier rounds, whose reasons are not kept.

    >>> from weightsmith.reducing.results import Gone, SiteReduction
    >>> gone_by_reason(SiteReduction("fc", ("fc",), "dense", 5, (0, 4), (Gone(1, "similar", 0), Gone(2, "constant"))))
    {'constant': 1, 'similar': 1, 'earlier rounds': 1}
    """
    counts = Counter(removal.reason or "no reason given" for removal in site.removals)
    found = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    earlier = site.before - site.after - sum(counts.values())
    return found | ({_EARLIER: earlier} if earlier > 0 else {})


def draw_sites(sites: Sequence[SiteReduction]) -> Figure:
    """The units of every layer as a bar as long as they were before: those that are left, then those that went, by why.

    The three commonest reasons have a colour each. A layer where the method had chosen units that could not be taken
    out says so.
    """
    if not sites:
        raise UsageError("the reduction has no layers whose units could go: there is nothing to draw")
    gone = [gone_by_reason(site) for site in sites]
    total = sum((Counter(found) for found in gone), Counter[str]())
    common = sorted(total, key=lambda reason: (-total[reason], reason))
    named = [reason for reason in common if reason != _EARLIER][: len(_COLOURS)]
    others = [reason for reason in common if reason not in named]
    with house_style():
        figure, (axes,) = layer_rows([_name(site) for site in sites], 1, row=0.27)
        figure.set_figwidth(_WIDTH)
        places = range(len(sites))
        start = [site.after for site in sites]
        look: dict[str, Any] = {"height": 0.7, "linewidth": 0}
        axes.barh(places, start, color=BLUE, label="left", **look)
        parts = [([reason], shown(reason, 34), colour) for reason, colour in zip(named, _COLOURS, strict=False)]
        if others:
            parts.append((others, others[0] if len(others) == 1 else _OTHERS, GREY))
        for reasons, label, colour in parts:
            counts = [sum(found.get(reason, 0) for reason in reasons) for found in gone]
            axes.barh(places, counts, left=start, color=colour, alpha=_PALE, label=label, **look)
            start = [length + count for length, count in zip(start, counts, strict=True)]
        axes.set_xlim(0, 1.25 * max(site.before for site in sites))
        axes.set_xlabel("units")
        if len(sites) <= _WRITTEN:
            for place, site in enumerate(sites):
                words: dict[str, Any] = {"textcoords": "offset points", "xytext": (4, 0), "va": "center"}
                axes.annotate(_told(site), (site.before, place), fontsize=6.5, **words)
        before, after = sum(site.before for site in sites), sum(site.after for site in sites)
        axes.set_title(f"{after:,} of {before:,} units are left")
        legend_below(figure, axes.get_legend_handles_labels()[0])
    return figure


def _name(site: SiteReduction) -> str:
    """The first layer that writes the units, and how many others write them too."""
    return site.name if len(site.layers) < 2 else f"{site.name} (+{len(site.layers) - 1})"


def _told(site: SiteReduction) -> str:
    left = f"{site.after:,} of {site.before:,} ({100 * site.after / site.before:.0f} %)"
    return f"{left}, refused" if site.refused else left
