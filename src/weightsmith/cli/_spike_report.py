"""Print a conversion: accuracy by steps, activity, cost, and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from weightsmith.cli._reduction_report import files_line, named_line, named_lines
from weightsmith.cli._spike_findings import advice
from weightsmith.cli._spike_rows import LayerRow, layer_rows, shown_steps, step_rows
from weightsmith.cli.terminal import count_text, out, percent, table
from weightsmith.reporting.sections._spiking_rivals import memory_text, rivals_text
from weightsmith.reporting.sections._wording import chance, conclusion, significant

if TYPE_CHECKING:
    from weightsmith.spiking.energy.cost import Prices
    from weightsmith.spiking.results import SpikeRecord

__all__ = ["accuracy_text", "points_text", "show_spike"]

_LAYERS = "rate: spikes per neuron and step · spikes and operations: per image"
_DIRECT = "(direct): spikes that reach neurons without weights between"
_PATHS = {
    "once": "once: a constant current, computed once for an image",
    "dense": "dense: all units at every step",
    "events": "events: a row of weights per spike",
    "steps": "steps: step by step in torch",
}
_MICROJOULE = 1e6  # in picojoules


def show_spike(record: SpikeRecord, source: str, data: str, written: Sequence[Path], *, kept: bool) -> None:
    """Print one conversion."""
    console, decisions = out(), record.decisions
    console.print(f"[bold]{escape(source)}[/bold]  {escape(record.network)} on {escape(data)}")
    console.print(escape(" · ".join(_settings(record))))
    console.print(_step_table(record))
    rows = f"{count_text(decisions.images)} rows ({decisions.split})"
    console.print(f"[dim]accuracy on {rows}, 95 % intervals; change in points against the network[/dim]")
    console.print(named_line("network", percent(decisions.network)))
    console.print(named_line("spiking", f"[bold]{percent(decisions.spiking)}[/bold]  after {_steps(record.steps)}"))
    console.print(named_line("change", _change(record)))
    layers = layer_rows(record)
    console.print(_layer_table(layers))
    console.print(f"[dim]{_layer_legend(layers)}[/dim]")
    console.print(named_line("energy", escape(_energy(record))))
    for name, text in (("memory", memory_text(record.cost)), ("rivals", rivals_text(record.cost))):
        if text is not None:
            console.print(named_line(name, escape(text)))
    console.print(named_line("decision", escape(_decision(record))))
    for line in named_lines("adjusted", _adjustments(record)):
        console.print(line)
    for line in named_lines("note", [escape(note) for note in record.notes]):
        console.print(line)
    for index, text in enumerate(advice(record, kept=kept)):
        console.print(named_line("" if index else "try next", escape(text)))
    if written:
        console.print(files_line(written))


def accuracy_text(row: Mapping[str, Any]) -> str:
    """``91.73 % (91.17 – 92.25)`` of a row with shares."""
    return f"{100 * row['accuracy']:.2f} % ({100 * row['low']:.2f} – {100 * row['high']:.2f})"


def points_text(share: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * share:+.2f}".replace("-", "−")


def _settings(record: SpikeRecord) -> list[str]:
    """The settings, in the order of the conversion."""
    settings = record.settings
    words = [settings["neuron"], settings["encode"], settings["balance"]]
    words += [settings[name] for name in ("adjust", "mismatch", "early") if settings[name] is not None]
    words += [settings["precision"]] if settings["precision"] != "float32" else []
    return [*words, _steps(record.steps), f"seed {settings['seed']}"]


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _step_table(record: SpikeRecord) -> Table:
    numbers = ("steps", "accuracy", "change", "undecided", "µJ per image", "of the network's")
    rows = table(*numbers, numbers=numbers)
    rows_by_step = step_rows(record)
    for steps in shown_steps(record.steps):
        row = rows_by_step[steps - 1]
        ratio = row["energy_ratio"]
        rows.add_row(
            str(steps),
            accuracy_text(row),
            points_text(row["difference"]),
            count_text(row["undecided"]),
            significant(row["energy_microjoule"]),
            "–" if ratio is None else f"{100 * ratio:.1f} %",
        )
    return rows


def _change(record: SpikeRecord) -> str:
    """The paired difference after the last step, with its interval and test."""
    cost = record.decisions.cost
    ends = cost.interval
    span = "" if ends is None else f" ({points_text(ends.low)} to {points_text(ends.high)})"
    return (
        f"{points_text(cost.difference)} points{span}, {chance(cost.p)} (McNemar, image by image): {conclusion(cost)}"
    )


def _layer_table(layers: Sequence[LayerRow]) -> Table:
    multiplies = any(row.multiplies for row in layers)
    heads = ["layer", "neurons", "thresholds", "rate", "spikes", "accumulates"]
    heads += [*(["multiplications"] if multiplies else []), "energy", "path"]
    rows = table(*heads, numbers=tuple(heads[1:-1]))
    for row in layers:
        name = f"{row.name} (direct)" if row.kind == "direct" else row.name
        cells = [
            "–" if row.neurons is None else count_text(row.neurons),
            _thresholds(row),
            significant(row.rate),
            significant(row.spikes),
            significant(row.accumulates),
            *([significant(row.multiplies)] if multiplies else []),
            "–" if row.energy_share is None else f"{100 * row.energy_share:.1f} %",
            row.path or "–",
        ]
        rows.add_row(escape(name), *cells)
    return rows


def _layer_legend(layers: Sequence[LayerRow]) -> str:
    """The meaning of the columns, and of the words that occur in them."""
    words = [_LAYERS, *([_DIRECT] if any(row.kind == "direct" for row in layers) else [])]
    paths = {word for row in layers if row.path for word in row.path.split()}
    return " · ".join([*words, *(_PATHS[path] for path in sorted(paths & set(_PATHS)))])


def _thresholds(row: LayerRow) -> str:
    if row.threshold_least == row.threshold_largest:
        return significant(row.threshold_least)
    return f"{significant(row.threshold_least)} – {significant(row.threshold_largest)}"


def _energy(record: SpikeRecord) -> str:
    cost = record.cost
    text = f"{significant(cost.energy / _MICROJOULE)} µJ per image"
    if cost.ratio is not None:
        network = significant(cost.network_energy / _MICROJOULE)
        numbers = " in int8" if cost.prices.numbers == "int8" else ""
        text += f", {significant(cost.ratio)} × the {network} µJ of the network{numbers}"
    estimated = "" if cost.basis == "counted" else "an estimate; "
    return f"{text} ({estimated}{_prices(cost.prices)})"


def _adjustments(record: SpikeRecord) -> list[str]:
    """The factors on the weights of each adjusted layer, unit by unit."""
    if record.adjustment is None:
        return []
    lines = []
    for each in record.adjustment.populations:
        scalars = [scalar * each.rescale for scalar in each.scalars]
        guarded = f"; {len(each.guarded)} at the guard" if each.guarded else ""
        units = f"{len(scalars)} unit{'s' * (len(scalars) != 1)}"
        span = f"{significant(min(scalars))} – {significant(max(scalars))}"
        lines.append(escape(f"{each.synapses}: weights of {units} times {span}{guarded}"))
    return lines


def _prices(prices: Prices) -> str:
    known = type(prices)(numbers=prices.numbers)
    node = " in 45 nm" if (prices.ac, prices.mac) == (known.ac, known.mac) else ""
    neurons = "updates of neurons included" if prices.neurons else "neurons"
    left_out = neurons if prices.neurons else f"{neurons} left out"
    return f"{prices.ac:g} pJ per addition, {prices.mac:g} pJ per multiplication with it{node}; {left_out}"


def _decision(record: SpikeRecord) -> str:
    decisions = record.decisions
    text = f"half of the images keep their answer from step {decisions.settled} on"
    if record.settings["early"] is not None:
        text += f"; an image ended after {decisions.ended:.1f} of {_steps(record.steps)} on average"
    left = int(decisions.undecided[-1])
    return text + (f"; {count_text(left)} of {count_text(decisions.images)} never had one" if left else "")
