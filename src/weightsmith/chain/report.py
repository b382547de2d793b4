"""Report: one page for any number of results, made from their records alone.

    overview      the networks of all results: accuracy, size, cost, and lineage
    compared      several results of one kind side by side, and the same stage over several seeds
    a section     for every result, in the order of the chain

Nothing is recomputed and no weights are read, so the same records give the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weightsmith.chain.reading._gathering import Placed, results_at
from weightsmith.chain.reading.results import KINDS, Result
from weightsmith.chain.results import ChainRecord, ChainRun
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.chain.tailor.section import short_section, tailor_section, tailored_networks
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import Record
from weightsmith.core.storage import write_atomic
from weightsmith.grading.results import Grades
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reducing.inspecting import UnitAngles
from weightsmith.reporting.describe import describe
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice, Drawing, Notes, Part, Prose, Section
from weightsmith.reporting.sections.grading import MOST_SPECTRA, grading_section
from weightsmith.reporting.sections.overview import compared_section, graded_section, in_order, overview_section
from weightsmith.reporting.sections.spiking import spiking_section
from weightsmith.spiking.results import SpikeRecord

__all__ = ["gather", "report", "report_page"]


_MOST_SECTIONS = 6  # per kind; more of them share one section with a selector


def report(results: Any, path: str | Path, *, title: str | None = None) -> Path:
    """Write the page of ``results`` to ``path``.

    ``results`` is one result, a list, or a mapping from names to results. A result is what a verb returns (a training
    run, grades, a reduction, …), its record, the folder it was written to, or a folder of such folders.

    >>> import tempfile, weightsmith as ws
    >>> folder = tempfile.TemporaryDirectory()
    >>> grades = ws.grade(ws.networks.mlp(64, 32, 10))
    >>> page = report({"untrained": grades}, f"{folder.name}/report.html")
    >>> page.read_text().startswith("<!DOCTYPE html>")
    True
    """
    return write_atomic(path, report_page(gather(results), title))


def gather(given: Any, refused: list[FileRefused] | None = None) -> list[Result]:
    """All results in ``given``, with unique names, each once, in the order of the chain.

    An unreadable result raises, or is appended to ``refused`` if given and raises only if no result is left.
    """
    found: list[Placed] = []
    for name, item in _items(given):
        source = item.folder if isinstance(item, ChainRun) else item
        if isinstance(source, str | Path):
            found += results_at(Path(source), name, refused)
        else:
            found.append(Placed(_in_memory(item, name)))
    if not found:
        raise refused[0] if refused else UsageError("no results were given: there is nothing to report")
    named = _disambiguated(_once(found))
    order = {name: index for index, (name, _) in enumerate(in_order([(each.name, each.record) for each in named]))}
    return sorted(named, key=lambda each: order[each.name])


def report_page(results: Sequence[Result], title: str | None = None, left_out: Sequence[str] = ()) -> str:
    """The HTML page of the results of :func:`gather`; ``left_out`` lists what could not be read."""
    named = [(each.name, each.record) for each in results]
    searches = [(each.record, each.name) for each in results if isinstance(each.record, TailorRecord)]
    tailored = [network for record, name in searches for network in tailored_networks(record, name)]
    overview = overview_section(named, tailored)
    if left_out:
        lines = Notes(tuple(f"left out: {reason}" for reason in left_out))
        overview = dataclasses.replace(overview, parts=(lines, *overview.parts))
    short = short_section(*searches[0]) if len(searches) == 1 and len(results) > 1 else None
    heads = (short, overview, compared_section(named), graded_section(named))
    rest = _sections(results) if short is None else [_without(short.parts, each) for each in _sections(results)]
    sections = [*(section for section in heads if section is not None), *rest]
    return render(_title(results) if title is None else title, sections)


def _without(shown: Sequence[Part], section: Section) -> Section:
    """The section without drawings that the head of the page shows already."""
    titles = {part.title for part in shown if isinstance(part, Drawing)}
    parts = tuple(part for part in section.parts if not (isinstance(part, Drawing) and part.title in titles))
    return dataclasses.replace(section, parts=parts)


def _items(given: Any) -> list[tuple[str | None, Any]]:
    if isinstance(given, Mapping):
        return [(str(name), item) for name, item in given.items()]
    if isinstance(given, Result) or not isinstance(given, list | tuple):
        return [(None, given)]
    return [(None, item) for item in given]


def _in_memory(item: Any, name: str | None) -> Result:
    if isinstance(item, Result):
        return item
    record = item if isinstance(item, Record) else getattr(item, "record", None)
    if not isinstance(record, Record) or type(record) not in KINDS:
        known = ", ".join(KINDS.values())
        raise UsageError(f"a {type(item).__name__} cannot be reported: give results ({known}), or their folders")
    return Result(name or KINDS[type(record)], record, item if isinstance(item, UnitAngles) else None)


def _once(found: Sequence[Placed]) -> list[Placed]:
    """Every record once; the names of equal ones are joined."""
    kept: dict[tuple[type[Record], str], Placed] = {}
    for each in found:
        result = each.result
        first = kept.setdefault((type(result.record), result.record.digest()), each)
        if result.name not in first.result.name.split(" = "):
            both = first.result._replace(name=f"{first.result.name} = {result.name}")
            kept[type(result.record), result.record.digest()] = first._replace(result=both)
    return list(kept.values())


def _disambiguated(found: Sequence[Placed]) -> list[Result]:
    """Prefix equal names with as many parent folders as distinguish them, or number them."""
    alike: dict[str, list[Placed]] = {}
    for each in found:
        alike.setdefault(each.result.name, []).append(each)
    prefixes = {name: iter(_prefixes([each.before for each in same])) for name, same in alike.items()}
    names = ["/".join((*next(prefixes[each.result.name]), each.result.name)) for each in found]
    taken, seen = Counter(names), Counter[str]()
    results = []
    for name, each in zip(names, found, strict=True):
        seen[name] += 1
        results.append(each.result._replace(name=f"{name} ({seen[name]})" if taken[name] > 1 else name))
    return results


def _prefixes(befores: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The last folders of each path, as few as make all of them different; the last one if none do.

    >>> _prefixes([("runs", "a", "x"), ("runs", "b", "x")]), _prefixes([("a",)]), _prefixes([("a", "b"), ("a", "b")])
    ([('a', 'x'), ('b', 'x')], [()], [('b',), ('b',)])
    """
    for count in range(max(map(len, befores)) + 1):
        prefixes = [before[len(before) - count :] if count <= len(before) else before for before in befores]
        if len(set(prefixes)) == len(prefixes):
            return prefixes
    return [before[-1:] for before in befores]


def _title(results: Sequence[Result]) -> str:
    chains = [each for each in results if isinstance(each.record, ChainRecord)]
    first = chains[0] if chains else results[0]
    if len(chains) == 1 or len(results) == 1:
        return f"Report of {first.name}"
    return f"Report of {len(results):,} results"


def _sections(results: Sequence[Result]) -> list[Section]:
    """A section for every result, or one for all results of a kind that has many."""
    counts = Counter(type(each.record) for each in results)
    sections: list[Section] = []
    done: set[type[Record]] = set()
    for each in results:
        kind = type(each.record)
        if counts[kind] <= _MOST_SECTIONS:
            sections.append(_section(each, results))
        elif kind not in done:
            done.add(kind)
            sections.append(_shared([_section(one, results) for one in results if type(one.record) is kind]))
    return sections


def _section(result: Result, results: Sequence[Result]) -> Section:
    name, record, detail = result
    match record:
        case SpikeRecord():
            return spiking_section(record, name, _classes(record, results))
        case Grades():
            several = sum(isinstance(each.record, Grades) for each in results)
            return grading_section(record, name, spectra=max(1, MOST_SPECTRA // several))
        case _:
            if isinstance(record, TailorRecord):
                return tailor_section(record, name)
            return describe(record if detail is None else detail, name)


def _shared(sections: Sequence[Section]) -> Section:
    """One section with a selector for all sections of a kind."""
    kind = sections[0].title.partition(":")[0]
    options: list[tuple[str, tuple[Part, ...]]] = []
    for section in sections:
        chips = " · ".join(f"{name} {value}" for name, value in section.chips)
        head = [Prose(text) for text in (section.lead, chips) if text]
        options.append((section.title.partition(": ")[2] or section.title, (*head, *section.parts)))
    return Section(kind, f"{len(sections):,} results of this kind: choose one.", (Choice(kind, tuple(options)),))


def _classes(record: SpikeRecord, results: Sequence[Result]) -> tuple[str, ...]:
    """The names of the outputs, from an evaluation of the same network, or of one with the same number of classes."""
    count = len(record.decisions.confusion.matrix)
    known = {each.record.classes for each in results if isinstance(each.record, Evaluation)}
    fitting = [names for names in known if len(names) == count]
    return fitting[0] if len(fitting) == 1 else ()
