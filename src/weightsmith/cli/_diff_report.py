"""Print a comparison of two networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from weightsmith.cli.terminal import count_text, out, percent, table
from weightsmith.networks.family import one_line
from weightsmith.reporting.sections._wording import bytes_text

if TYPE_CHECKING:
    from weightsmith.chain.diff.differences import (
        LayerDiff,
        LayerFacts,
        LoneAccuracy,
        LoneLayer,
        NetworkDiff,
        PairedAccuracy,
    )

__all__ = ["show_diff"]

_GAP = (0, 2, 0, 0)
_INDENT = 12
_PREFIXES = ("", "k", "M", "G", "T")
_SMALL = ("", "m", "µ", "n", "p")
_MOST_NAMES, _LONGEST_NOTE = 6, 400
_GIVEN_UP = ("stable rank", "log Σλ", "angle", "shape")  # columns dropped by a narrow terminal, in this order


def show_diff(found: NetworkDiff, *, notes: bool = True) -> None:
    """Print a comparison: both networks, sizes, costs, answers, layers, settings, and ``notes``."""
    console = out()
    for which, facts in (("A", found.a), ("B", found.b)):
        about = [facts.kind, *([facts.architecture] if facts.architecture else []), facts.network[:12]]
        console.print(
            f"[bold]{which}[/bold]  {escape(one_line(facts.name))}  [dim]{escape(one_line(' · '.join(about)))}[/dim]"
        )
    if found.relation:
        console.print(escape(one_line(found.relation)))
    console.print(_totals(found))
    if found.accuracy is not None:
        for line in _answers(found.accuracy):
            console.print(line)
    elif found.lone_accuracy is not None:
        console.print(_lone_answers(found.lone_accuracy))
    if found.layers:
        console.print(_layers(found.layers, console.width))
        console.print(
            "[dim]A → B · λ are squares of singular values · angle: median/least between the incoming weights of two "
            "units, 0–90° · distance: ‖A − B‖/‖A‖[/dim]"
        )
    for which, lone in (("A", found.only_a), ("B", found.only_b)):
        if lone:
            console.print(f"{f'only in {which}':<{_INDENT}}{escape(_names(lone))}")
    if found.units:
        console.print(_units(found))
    if found.settings:
        rows = table("setting", "A", "B")
        for setting in found.settings:
            shown = (one_line("–" if value is None else value) for value in (setting.a, setting.b))
            rows.add_row(escape(one_line(setting.name)), *map(escape, shown))
        console.print(rows)
    for note in found.notes if notes else ():
        console.print(f"{'note':<{_INDENT}}{escape(one_line(note, _LONGEST_NOTE))}")


def _totals(found: NetworkDiff) -> Table:
    """Sizes, energy and time, with the ratio of B to A."""
    a, b = found.a, found.b
    rows = table("", "A", "B", "B/A", "", numbers=("A", "B", "B/A"))
    rows.padding = _GAP
    rows.add_row(
        "parameters", count_text(a.parameters), count_text(b.parameters), _ratio(a.parameters, b.parameters), ""
    )
    for name, first, second in (("MACs", a.macs, b.macs), ("file", a.file_bytes, b.file_bytes)):
        shown = [_bytes(each) if name == "file" else _count(each) for each in (first, second)]
        rows.add_row(name, *shown, _ratio(first, second), "")
    if a.picojoules is not None or b.picojoules is not None:
        bases = [a.energy_basis or ""]
        if a.energy_basis != b.energy_basis:
            bases = [f"{which}: {each.energy_basis}" for which, each in (("A", a), ("B", b)) if each.energy_basis]
        shown = [_small(each.picojoules, 1e-12, "J") for each in (a, b)]
        rows.add_row("energy", *shown, _ratio(a.picojoules, b.picojoules), f"[dim]{escape(', '.join(bases))}[/dim]")
    for time in found.latency:
        half = f"half of the samples {_number(time.low)} – {_number(time.high)}"
        rows.add_row(
            f"time, batch {time.batch}",
            _small(time.a, 1.0, "s"),
            _small(time.b, 1.0, "s"),
            _number(time.ratio),
            f"[dim]{half}; {escape(time.clock)}, best per image[/dim]",
        )
    return rows


def _answers(paired: PairedAccuracy) -> list[str]:
    change = paired.difference
    ends = f"({_points(change.low)} to {_points(change.high)})"
    chance = "p < 0.0001" if paired.p < 1e-4 else f"p = {paired.p:.2g}"
    counts = f"both {paired.both:,}, only A {paired.only_a:,}, only B {paired.only_b:,}, neither {paired.neither:,}"
    return [
        f"{'accuracy':<{_INDENT}}A {percent(paired.a)}, B {percent(paired.b)}  on {_where(paired)}",
        f"{'B − A':<{_INDENT}}[bold]{_points(change.value)} points[/bold] {ends}, {chance} (McNemar)",
        f"{'right':<{_INDENT}}{counts}",
        f"{'same answer':<{_INDENT}}{percent(paired.agreement)}",
    ]


def _lone_answers(lone: LoneAccuracy) -> str:
    other = "B" if lone.of == "A" else "A"
    return f"{'accuracy':<{_INDENT}}{lone.of} {percent(lone.accuracy)}, {other} –  on {_where(lone)}"


def _where(answered: PairedAccuracy | LoneAccuracy) -> str:
    return f"{escape(one_line(answered.data))} ({answered.split}, {count_text(answered.images)} images)"


def _points(share: float) -> str:
    return f"{100 * share:+.2f}".replace("-", "−")


def _layers(layers: Sequence[LayerDiff], width: int) -> Table:
    """A row per common layer, with the columns that fit into ``width``."""
    rows = [_cells(layer) for layer in layers]
    heads = list(rows[0])
    for head in _GIVEN_UP:
        widest = (max(cell_len(text) for text in (each, *(row[each] for row in rows))) for each in heads)
        if sum(widest) + _GAP[1] * (len(heads) - 1) > width:
            heads.remove(head)
    made = table(*heads, numbers=tuple(head for head in heads if head not in ("layer", "shape")))
    made.padding = _GAP
    for row in rows:
        made.add_row(*(escape(row[head]) for head in heads))
    return made


def _cells(layer: LayerDiff) -> dict[str, str]:
    a, b, distance = layer.a, layer.b, layer.distance.relative
    return {
        "layer": one_line(layer.name),
        "shape": _both(*("×".join(map(str, each.shape)) for each in (a, b))),
        "α": _both(*(_exponent(each) for each in (a, b))),
        "log λ_max": _both(_number(a.log_spectral_norm), _number(b.log_spectral_norm)),
        "log Σλ": _both(_number(a.log_norm), _number(b.log_norm)),
        "stable rank": _both(_number(a.stable_rank), _number(b.stable_rank)),
        "angle": _both(_angles(a.median_angle, a.least_angle), _angles(b.median_angle, b.least_angle)),
        "distance": _number(distance),
    }


def _units(found: NetworkDiff) -> Table:
    rows = table("activations", "units", "angle (median / least)", numbers=("units", "angle (median / least)"))
    rows.padding = _GAP
    for site in found.units:
        rows.add_row(
            escape(one_line(site.name)),
            _both(_count(site.units_a), _count(site.units_b)),
            _both(_angles(site.median_a, site.least_a), _angles(site.median_b, site.least_b)),
        )
    return rows


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} → {b}"


def _exponent(layer: LayerFacts) -> str:
    if layer.alpha is None:
        return layer.status
    if layer.alpha_low is None or layer.alpha_high is None:
        return f"{layer.alpha:.2f}"
    return f"{layer.alpha:.2f} [{layer.alpha_low:.2f}, {layer.alpha_high:.2f}]"


def _angles(median: float | None, least: float | None) -> str:
    return "–" if median is None or least is None else f"{median:.1f}/{least:.1f}°"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("-", "−")


def _count(value: int | None) -> str:
    return "–" if value is None else count_text(value)


def _ratio(a: float | None, b: float | None) -> str:
    return "–" if not a or b is None else _number(b / a)


def _bytes(count: int | None) -> str:
    return "–" if count is None else bytes_text(count)


def _small(value: float | None, unit: float, name: str) -> str:
    """A small quantity with its prefix: ``45.6 µs``."""
    if value is None:
        return "–"
    amount = value * unit
    step = min(max(0, math.ceil(-math.log10(amount) / 3)), len(_SMALL) - 1) if amount > 0 else 0
    return f"{_number(amount * 1000**step)} {_SMALL[step]}{name}"


def _names(layers: Sequence[LoneLayer]) -> str:
    shown = [f"{one_line(layer.name)} ({'×'.join(map(str, layer.shape))})" for layer in layers[:_MOST_NAMES]]
    more = f" and {len(layers) - _MOST_NAMES} more" if len(layers) > _MOST_NAMES else ""
    return f"{', '.join(shown)}{more}"
