"""The description of a comparison of two networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weightsmith.chain.diff._records import (
    NO_LAYERS,
    LayerDiff,
    LayerFacts,
    LoneAccuracy,
    LoneLayer,
    NetworkDiff,
    NetworkFacts,
    PairedAccuracy,
)
from weightsmith.core.statistics import Comparison
from weightsmith.reporting._words import number_text
from weightsmith.reporting.parts import Cell, Column, Facts, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import (
    accuracy,
    bytes_text,
    chance,
    changed,
    conclusion,
    counted,
    energy_text,
    facts_of,
    percent_within,
    seconds_text,
    significant,
    some,
)

__all__ = ["diff_section"]


def diff_section(found: NetworkDiff, name: str = "") -> Section:
    """The description of the differences between A and B; ``name`` names the pair, by default by their own names."""
    parts: list[Part] = [_totals(found)]
    if found.layers:
        parts.append(_layers(found.layers))
    lone = [(f"only in {which}", _names(each)) for which, each in (("A", found.only_a), ("B", found.only_b)) if each]
    if lone:
        parts.append(Facts("Layers of one network alone", tuple(lone)))
    parts += [*_units(found), *_settings(found)]
    if found.notes:
        parts.append(Notes(found.notes))
    parts.append(facts_of({}, found.origin, before=_digests(found)))
    broken = [
        f"NaN or infinity in {layer.name} of {which}"
        for layer in found.layers
        for which, facts in (("A", layer.a), ("B", layer.b))
        if facts.status == "non-finite"
    ]
    return Section(
        f"Difference: {name or f'{found.a.name} → {found.b.name}'}",
        _lead(found),
        tuple(parts),
        tuple(_chips(found)),
        f"A: {_about(found.a)}; B: {_about(found.b)}",
        tuple(broken),
    )


def _about(facts: NetworkFacts) -> str:
    return " · ".join([facts.name, facts.kind, *filter(None, [facts.architecture]), facts.network[:12]])


def _digests(found: NetworkDiff) -> list[tuple[str, str]]:
    return [(f"network {which}", each.network) for which, each in (("A", found.a), ("B", found.b))]


def _lead(found: NetworkDiff) -> str:
    """The change in accuracy, then the size and how one network was made from the other."""
    lines = []
    if found.accuracy is not None:
        comparison = _comparison(found.accuracy)
        lines.append(
            f"On the same {counted(found.accuracy.images, 'row')} of {found.accuracy.data} ({found.accuracy.split}) "
            f"B − A is {changed(comparison)}, {chance(comparison.p)} (McNemar): {conclusion(comparison)}."
        )
    lines.append("Both have the same weights." if found.identical else _layers_told(found))
    if found.relation and not found.identical:
        lines.append(f"{found.relation[:1].upper()}{found.relation[1:]}.")
    return " ".join(lines)


def _layers_told(found: NetworkDiff) -> str:
    if not found.layers:
        why = [note.removeprefix(NO_LAYERS) for note in found.notes if note.startswith(NO_LAYERS)]
        return ": ".join(["No layers could be compared", *why[:1]]) + "."
    differ = sum(layer.changed for layer in found.layers)
    return f"{differ} of {counted(len(found.layers), 'common layer')} differ."


def _comparison(paired: PairedAccuracy) -> Comparison:
    """The paired difference as one comparison, in the words of all others."""
    ends = paired.difference
    return Comparison(ends.value, paired.p, paired.images, ends.method, interval=ends)


def _chips(found: NetworkDiff) -> Iterator[tuple[str, str]]:
    paired, lone = found.accuracy, found.lone_accuracy
    if paired is not None:
        yield "accuracy of A", accuracy(paired.a, paired.images, paired.split)
        yield "accuracy of B", accuracy(paired.b, paired.images, paired.split)
        yield "B − A", f"{changed(_comparison(paired))}, {chance(paired.p)} (McNemar)"
        yield (
            "right",
            (f"both {paired.both:,}, only A {paired.only_a:,}, only B {paired.only_b:,}, neither {paired.neither:,}"),
        )
        yield "same answer", percent_within(paired.agreement)
    elif lone is not None:
        yield from _lone_chips(lone)


def _lone_chips(lone: LoneAccuracy) -> Iterator[tuple[str, str]]:
    yield f"accuracy of {lone.of}", f"{accuracy(lone.accuracy, lone.images, lone.split)} of {lone.data}"
    yield f"accuracy of {'B' if lone.of == 'A' else 'A'}", "–"


def _totals(found: NetworkDiff) -> Table:
    """Sizes, energy and time, with the ratio of B to A."""
    a, b = found.a, found.b
    rows = [
        _total("parameters", a.parameters, b.parameters, _count),
        _total("MACs", a.macs, b.macs, _count, _padded(a, b)),
        _total("file", a.file_bytes, b.file_bytes, lambda size: bytes_text(int(size))),
    ]
    if a.picojoules is not None or b.picojoules is not None:
        bases = [a.energy_basis or ""]
        if a.energy_basis != b.energy_basis:
            bases = [f"{which}: {each.energy_basis}" for which, each in (("A", a), ("B", b)) if each.energy_basis]
        rows.append(_total("energy", a.picojoules, b.picojoules, energy_text, ", ".join(bases)))
    for time in found.latency:
        ends = f"half of the samples {significant(time.low)} – {significant(time.high)}; {time.clock}, best per image"
        first, *_, basis = _total(f"time, batch {time.batch}", time.a, time.b, seconds_text, ends)
        shown = (Shown(each, seconds_text(each)) for each in (time.a, time.b))
        rows.append((first, *shown, Shown(time.ratio, significant(time.ratio)), basis))
    columns = (
        Column(""),
        *(Column(head, numeric=True) for head in ("A", "B", "B/A")),
        Column("how", "the basis of the number", spare=1),
    )
    return Table("Size and cost", columns, tuple(rows), file="totals.csv")


def _padded(a: NetworkFacts, b: NetworkFacts) -> str:
    differ = any(each.connections not in (None, each.macs) for each in (a, b))
    return "those with zeros of the padding or of the weights included" if differ else ""


def _total(
    name: str, a: float | None, b: float | None, text: Callable[[float], str], how: str = ""
) -> tuple[Cell | Shown, ...]:
    shown = [None if each is None else Shown(each, text(each)) for each in (a, b)]
    ratio = None if not a or b is None else b / a
    return (name, *shown, Shown(ratio, significant(ratio)), how)


def _count(number: float) -> str:
    return number_text(int(number))


def _layers(layers: Sequence[LayerDiff]) -> Table:
    columns = (
        Column("layer"),
        Column("shape", spare=4),
        Column("α", "exponent of the spectrum's tail, with its interval", numeric=True),
        Column("log λ_max", "λ are squares of singular values", numeric=True, spare=5),
        Column("log Σλ", numeric=True, spare=2),
        Column("stable rank", numeric=True, spare=1),
        Column("angle", "median/least between the incoming weights of two units, 0–90°", numeric=True, spare=3),
        Column("distance", "‖A − B‖/‖A‖", numeric=True),
    )
    return Table("Layers, A → B", columns, tuple(map(_layer, layers)), file="layers.csv")


def _layer(layer: LayerDiff) -> tuple[Cell | Shown, ...]:
    a, b, distance = layer.a, layer.b, layer.distance.relative
    pairs = (
        ("×".join(map(str, a.shape)), "×".join(map(str, b.shape))),
        (_exponent(a), _exponent(b)),
        (significant(a.log_spectral_norm), significant(b.log_spectral_norm)),
        (significant(a.log_norm), significant(b.log_norm)),
        (significant(a.stable_rank), significant(b.stable_rank)),
        (_angles(a.median_angle, a.least_angle), _angles(b.median_angle, b.least_angle)),
    )
    changes = layer.changes
    values = (None, changes["alpha"], *(changes[key] for key in ("log_spectral_norm", "log_norm", "stable_rank")))
    cells = (Shown(value, _both(*pair)) for value, pair in zip((*values, changes["median_angle"]), pairs, strict=True))
    return (layer.name, *cells, Shown(distance, significant(distance)))


def _units(found: NetworkDiff) -> Iterator[Table]:
    if not found.units:
        return
    columns = (
        Column("layer"),
        Column("units", numeric=True),
        Column("angle (median / least)", "between the activations of two units, 0–90°", numeric=True),
    )
    rows = tuple(
        (
            site.name,
            _both(number_text(site.units_a), number_text(site.units_b)),
            _both(_angles(site.median_a, site.least_a), _angles(site.median_b, site.least_b)),
        )
        for site in found.units
    )
    yield Table("Activations, A → B", columns, rows, file="activations.csv")


def _settings(found: NetworkDiff) -> Iterator[Table]:
    if found.settings:
        rows = tuple((each.name, each.a, each.b) for each in found.settings)
        yield Table("Settings that differ", (Column("setting"), Column("A"), Column("B")), rows, file="settings.csv")


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


def _names(layers: Sequence[LoneLayer]) -> str:
    return some([f"{layer.name} ({'×'.join(map(str, layer.shape))})" for layer in layers])
