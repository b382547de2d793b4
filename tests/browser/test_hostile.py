"""Names come from files. Whatever they hold, they add no element and no attribute to the page, no formula to a CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import urllib.parse

import pytest
import torch

import weightsmith as ws

pytestmark = pytest.mark.slow

HOSTILE = (
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "</script><script>window.hit=1</script>",
    "</style><script>window.hit=1</script>",
    "</title><h1>taken</h1>",
    "</svg><script>window.hit=1</script>",
    "<svg onload=window.hit=1>",
    "<iframe src=javascript:window.hit=1>",
    "<a href=javascript:window.hit=1>x</a>",
    "<base href=https://example.org/>",
    "<meta http-equiv=refresh content=0;url=https://example.org>",
    "<link rel=stylesheet href=https://example.org/a.css>",
    "<!-- comment",
    "--><b>bold</b>",
    "]]><b>bold</b>",
    "<![CDATA[<b>bold</b>]]>",
    '" onmouseover="window.hit=1',
    "' onmouseover='window.hit=1",
    "` onmouseover=`window.hit=1",
    '"><b>bold</b>',
    "'><b>bold</b>",
    "&lt;b&gt;bold&lt;/b&gt;",
    "&#60;b&#62;bold",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "${window.hit=1}",
    "javascript:window.hit=1",
    "$\\frac{1}{$",
    "\\$ _ ^ % # ~",
    '=HYPERLINK("https://example.org")',
    "+1+cmd|'/C calc'!A0",
    "@SUM(1+1)",
    "-2+3",
    "\t=1+1",
    "line\nbreak\r\nand\x00nul\x07bell\x1b[31m",
    "\u202egnp.exe\u2066\u2069",
    "\u200b\u200d\ufeff",
    "e\u0301\u0327" * 20,
    "\ud800 half a pair",
    "long" * 2500,
)
# As wide as those, since wide tables leave columns out.
HARMLESS = tuple(f"{number:02d}{re.sub('[^a-z0-9 ]', 'x', name)[2:]}" for number, name in enumerate(HOSTILE))
CENSUS = """() => {
    const found = {};
    for (const element of document.querySelectorAll("*")) {
        if (element.tagName === "WBR") continue;  // where a long name may be broken
        const names = [...element.attributes].map(attribute => attribute.name).sort().join(" ");
        const key = element.tagName + " " + names;
        found[key] = (found[key] ?? 0) + 1;
    }
    return found;
}"""


def weights(names):
    made = torch.Generator().manual_seed(0)
    return {f"{name}.weight": torch.randn(12, 9, generator=made) for name in names}


def written(folder, names):
    """A page of a network whose layers have these names, reported under each of them."""
    plain = ws.grade(weights(HARMLESS), evidence="none")  # a file with such names is refused before it is graded
    layers = [dataclasses.replace(layer, name=name) for layer, name in zip(plain.layers, names, strict=True)]
    grades = dataclasses.replace(plain, layers=tuple(layers), source=names[0])
    evaluation = dataclasses.replace(
        ws.evaluate(ws.networks.mlp(64, 10, seed=0), ws.data.load("digits")), classes=tuple(names[-10:])
    )
    results = dict.fromkeys(names, evaluation) | {names[0]: grades}
    return ws.report(results, folder / "report.html")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return written(tmp_path_factory.mktemp("hostile"), HOSTILE)


def test_forty_names_that_would_be_code_are_only_text(visit, report, tmp_path):
    assert len(set(HOSTILE)) == 40
    harmless = visit(written(tmp_path, HARMLESS)).page
    hostile = visit(report).page
    assert hostile.evaluate("window.hit") is None
    expected, found = harmless.evaluate(CENSUS), hostile.evaluate(CENSUS)
    assert {key: count for key, count in found.items() if count != expected.get(key)} == {}
    assert set(found) == set(expected)
    assert report.stat().st_size < 3_000_000
    text = hostile.locator("body").inner_text()
    for shown in ("<script>window.hit=1</script>", "{{ 7 * 7 }}", '"><b>bold</b>', "&lt;b&gt;bold&lt;/b&gt;"):
        assert shown in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    for page in (harmless, hostile):
        width, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert width <= seen


def test_cells_of_csv_are_no_formulas(visit, report):
    page = visit(report).page
    links = page.locator("a.download").evaluate_all("links => links.map(link => link.href)")
    assert links
    seen = 0
    for address in links:
        for row in csv.reader(io.StringIO(urllib.parse.unquote(address.partition(",")[2]), newline="")):
            for cell in row:
                seen += 1
                begins = cell.lstrip()[:1]
                assert begins not in ("=", "@"), cell
                assert begins not in ("+", "-") or _is_number(cell), cell
    assert seen > 100


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True
