"""Draw the house: the rooms, what flows between them, what goes in and comes out.

    python docs/drawing.py        # writes docs/images/architecture.svg

The picture follows the reader's light or dark setting and needs no font and no script.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

TARGET = Path(__file__).parent / "images" / "architecture.svg"
WIDTH, HEIGHT = 1200, 1070
LEFT, RIGHT = 230, 990  # the walls of the house

STYLE = """
  .paper { fill: #ffffff; }
  .room { fill: #e6f2f0; stroke: #00796b; stroke-width: 1.5; }
  .bench { fill: #cfe8e4; }
  .thing { fill: #f4f4f2; stroke: #8a8a85; stroke-width: 1; }
  text { font-family: system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; font-size: 14px; fill: #1c2a28; }
  .name { font-size: 18px; font-weight: 600; }
  .flow { font-size: 13px; font-weight: 600; fill: #005a50; }
  .advice { font-size: 13px; font-style: italic; fill: #8a4b00; }
  .small { font-size: 13px; fill: #48534f; }
  path { fill: none; stroke-width: 2; }
  .flows { stroke: #00796b; marker-end: url(#flow); }
  .advises { stroke: #b26a00; stroke-dasharray: 5 4; marker-end: url(#advice); }
  .reads { stroke: #8a8a85; stroke-width: 1.5; marker-end: url(#thing); }
  #flow path { fill: #00796b; } #advice path { fill: #b26a00; } #thing path { fill: #8a8a85; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #16191d; }
    .room { fill: #1d312f; stroke: #4db6ac; }
    .bench { fill: #24453f; }
    .thing { fill: #23272c; stroke: #7d858c; }
    text { fill: #e8eeec; }
    .flow { fill: #80cbc4; }
    .advice { fill: #ffb74d; }
    .small { fill: #b4c0bc; }
    .flows { stroke: #4db6ac; } .advises { stroke: #ffa726; } .reads { stroke: #7d858c; }
    #flow path { fill: #4db6ac; } #advice path { fill: #ffa726; } #thing path { fill: #7d858c; }
  }
"""


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Words with their baseline at ``y``."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def room(y: float, height: float, name: str, *lines: str, left: float = LEFT, right: float = RIGHT) -> str:
    """A room with its name and what is done in it."""
    kind = "room" if right - left > 300 else "room bench"
    middle, first = (left + right) / 2, y + height / 2 - 10 * len(lines) + 7
    box = f'<rect x="{left:g}" y="{y:g}" width="{right - left:g}" height="{height:g}" rx="8" class="{kind}"/>'
    words = [text(middle, first + 20 * number + 2, line, "small") for number, line in enumerate(lines, start=1)]
    return "\n".join([box, text(middle, first, name, "name"), *words])


def thing(y: float, *lines: str, comes_in: bool) -> str:
    """A file or a command outside the house, and the arrow between."""
    height = 18 * len(lines) + 16
    x = 8 if comes_in else WIDTH - 178
    box = f'<rect x="{x}" y="{y - height / 2:g}" width="170" height="{height}" rx="3" class="thing"/>'
    words = [text(x + 85, y - height / 2 + 22 + 18 * number, line, "small") for number, line in enumerate(lines)]
    way = f"M178 {y:g} H{LEFT - 4}" if comes_in else f"M{RIGHT} {y:g} H{x - 4}"
    return "\n".join([box, *words, f'<path class="reads" d="{way}"/>'])


def up(x: float, low: float, high: float, words: str, *, advice: bool = False, side: str = "start") -> str:
    """An arrow from ``low`` up to ``high`` (or down, if that is lower) with a label beside its middle."""
    kind, label = ("advises", "advice") if advice else ("flows", "flow")
    tip = high + 4 if high < low else high - 4
    beside = x + 9 if side == "start" else x - 9
    return f'<path class="{kind}" d="M{x:g} {low:g} V{tip:g}"/>' + text(
        beside, (low + high) / 2 + 5, words, label, side
    )


def across(left: float, right: float, y: float, words: str, *, advice: bool = False) -> str:
    """An arrow from one workshop to its neighbour, with a label above it."""
    kind, label = ("advises", "advice") if advice else ("flows", "flow")
    tip = right - 4 if right > left else right + 4
    return f'<path class="{kind}" d="M{left:g} {y:g} H{tip:g}"/>' + text((left + right) / 2, y - 8, words, label)


def marker(name: str) -> str:
    """The head of an arrow."""
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 Z"/></marker>'
    )


def house() -> list[str]:
    """The rooms, from the roof down."""
    return [
        room(24, 58, "cli", "parse, call a verb, print"),
        room(118, 58, "papers", "one document only: the course's runs, the pruning study, figures of the L4 paper"),
        room(212, 70, "chain", "wiring only: recipes and chains, tailor, diff, report; the links between workshops"),
        room(318, 70, "reporting", "reads records, never tensors: figures, tables, one page"),
        room(460, 116, "grading", "spectra, power laws,", "noise, verdicts", right=LEFT + 190),
        room(460, 116, "reducing", "angles, groups, searches,", "surgery, recovery", left=515, right=705),
        room(460, 116, "spiking", "conversion, thresholds,", "simulation, energy, NIR", left=RIGHT - 190),
        room(658, 70, "training", "schedules, clipping, penalties, the loop, gradient diagnosis, transfer"),
        room(784, 58, "networks", "build, read, write, walk, recognise, evaluate; cards and ancestry"),
        room(878, 58, "data", "load, split, augment, normalise"),
        room(972, 58, "core", "errors, options, seeds, records, statistics, parallel map, sweep, journal"),
    ]


def flows() -> list[str]:
    """What goes from room to room."""
    middles = (LEFT + 95, 610, RIGHT - 95)
    records = ("Grades", "ReductionRecord", "SpikeRecord")
    return [
        *(up(x, 460, 388, record) for x, record in zip(middles, records, strict=True)),
        f'<path class="flows" d="M{LEFT} 678 H206 V366 H{LEFT - 4}"/>',
        text(198, 534, "TrainRecord", "flow", "end"),
        up(610, 318, 282, "Section, page"),
        up(610, 212, 176, "ChainRun, Tailored"),
        up(610, 118, 82, "Study, figures"),
        *(
            up(x, 658, 576, words)
            for x, words in zip(middles, ("nn.Module", "TrainRun, kept epochs", "nn.Module"), strict=True)
        ),
        up(middles[0] - 60, 576, 658, "live α", advice=True, side="end"),
        up(middles[1] - 60, 576, 658, "redundancy", advice=True, side="end"),
        across(LEFT + 190, 515, 498, "LayerPlan", advice=True),
        across(705, RIGHT - 190, 498, "nn.Module"),
        across(RIGHT - 190, 705, 546, "price", advice=True),
        up(610, 784, 728, "nn.Module, Architecture, Weights, Data"),
        up(610, 878, 842, "Data, Split"),
        up(610, 972, 936, "Option, Record, Interval"),
    ]


def outside() -> list[str]:
    """What comes in on the left and goes out on the right."""
    return [
        thing(53, "a command", comes_in=True),
        thing(247, "recipe.toml", comes_in=True),
        thing(813, "your network:", ".safetensors .pt .npz", ".onnx .keras", comes_in=True),
        thing(907, "images, tables,", "tensors, loaders", comes_in=True),
        thing(53, "terminal, JSON,", "exit code", comes_in=False),
        thing(247, "result folders,", "record.json", comes_in=False),
        thing(353, "report.html", comes_in=False),
        thing(518, "net.nir", "and its test vector", comes_in=False),
        thing(813, "network.safetensors,", "sealed, with ancestry", comes_in=False),
    ]


def legend() -> list[str]:
    """How to read it."""
    return [
        '<path class="flows" d="M14 1052 H54"/>',
        text(62, 1057, "what a verb takes and gives", "small", "start"),
        '<path class="advises" d="M270 1052 H310"/>',
        text(318, 1057, "advice, carried over by chain", "small", "start"),
        text(546, 1057, "A room imports from the floors below it; workshops never from each other.", "small", "start"),
    ]


def drawing() -> str:
    """The whole picture."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
        '<title id="t">The rooms of weightsmith</title>',
        '<desc id="d">From the roof down: cli, papers, chain, reporting; the workshops grading, reducing and spiking '
        "beside each other; training, networks, data, core. Records go up to reporting, networks from training to the "
        "workshops, advice between workshops by way of chain.</desc>",
        f"<style>{STYLE}</style>",
        f"<defs>{marker('flow')}{marker('advice')}{marker('thing')}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        *house(),
        *flows(),
        *outside(),
        *legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
