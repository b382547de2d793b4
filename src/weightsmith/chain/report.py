"""Report: one page of any number of results, made from their records alone.

    overview      the networks of all results, how right, large and costly they are, who comes from whom
    compared      several results of one kind beside each other, and the same stage over several seeds
    a section     for every result, in the order of the chain

Nothing is computed anew and no weights are read, so that the same records give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weightsmith.chain._chain_section import chain_section
from weightsmith.chain._tailor_section import tailor_section, tailored_networks
from weightsmith.chain.reading import KINDS, RECORD, Result, read_results
from weightsmith.chain.results import ChainRecord, ChainRun
from weightsmith.chain.tailor_results import TailorRecord
from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.core.storage import write_atomic
from weightsmith.core.sweep import SweepTable
from weightsmith.grading.results import Grades
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reducing.study_table import Study
from weightsmith.reporting.overview import compared_section, graded_section, in_order, overview_section
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice, Part, Prose, Section
from weightsmith.reporting.sections.angles import angles_section
from weightsmith.reporting.sections.evaluating import evaluation_section
from weightsmith.reporting.sections.grading import MOST_SPECTRA, grading_section
from weightsmith.reporting.sections.reducing import reduction_section
from weightsmith.reporting.sections.spiking import spiking_section
from weightsmith.reporting.sections.studying import study_section
from weightsmith.reporting.sections.sweeping import sweep_section
from weightsmith.reporting.sections.tabulating import table_section
from weightsmith.reporting.sections.training import training_section
from weightsmith.reporting.sections.transferring import transfer_section
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.sweep_results import SpikeSweep
from weightsmith.training.run import TrainRecord
from weightsmith.training.transfer import TransferRecord

__all__ = ["gather", "report", "report_page"]

_SECTIONS: dict[type[Record], Callable[[Any, str], Section]] = {
    ChainRecord: chain_section,
    TrainRecord: training_section,
    TransferRecord: transfer_section,
    SweepTable: table_section,
    Grades: grading_section,
    Evaluation: evaluation_section,
    ReductionRecord: reduction_section,
    AnglesRecord: angles_section,
    Study: study_section,
    SpikeRecord: spiking_section,
    SpikeSweep: sweep_section,
    TailorRecord: tailor_section,
}
_MOST_SECTIONS = 6  # of a kind; more of them share one, where the reader chooses


def report(results: Any, path: str | Path, *, title: str | None = None) -> Path:
    """Write the page of ``results`` to ``path``.

    They are what the verbs return (a training run, grades, a reduction, …) or their records, folders they were written
    to, or folders of such folders; one of them, a list, or a mapping from names to them.

    >>> import tempfile, weightsmith as ws
    >>> folder = tempfile.TemporaryDirectory()
    >>> grades = ws.grade(ws.networks.mlp(64, 32, 10))
    >>> page = report({"untrained": grades}, f"{folder.name}/report.html")
    >>> page.read_text().startswith("<!DOCTYPE html>")
    True
    """
    return write_atomic(path, report_page(gather(results), title))


def gather(given: Any) -> list[Result]:
    """All results in ``given``, under names of their own, each once, in the order of the chain."""
    found: list[tuple[str, Result]] = []  # with the folder they lie in, which tells equal names apart
    for name, item in _items(given):
        place = item.folder if isinstance(item, ChainRun) else item
        if isinstance(place, str | Path):
            found += _read(Path(place), name)
        else:
            found.append(("", _in_memory(item, name)))
    if not found:
        raise UsageError("no results were given: there is nothing to report")
    named = _told_apart(_once(found))
    order = {name: place for place, (name, _) in enumerate(in_order([(each.name, each.record) for each in named]))}
    return sorted(named, key=lambda each: order[each.name])


def report_page(results: Sequence[Result], title: str | None = None) -> str:
    """The page of results that :func:`gather` gave, as text."""
    named = [(each.name, each.record) for each in results]
    searches = [(each.record, each.name) for each in results if isinstance(each.record, TailorRecord)]
    tailored = [network for record, name in searches for network in tailored_networks(record, name)]
    heads = (overview_section(named, tailored), compared_section(named), graded_section(named))
    sections = [*(section for section in heads if section is not None), *_sections(results)]
    return render(_title(results) if title is None else title, sections)


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


def _read(place: Path, name: str | None) -> list[tuple[str, Result]]:
    """The results in a folder, each with the folder that tells it from others of its name.

    A ``name`` stands for that of the result, or before those of the results in a folder of folders.
    """
    results, top = read_results(place), place.resolve()
    if top.is_dir() and not (top / RECORD).exists():
        return [(top.name, each if name is None else each._replace(name=f"{name}/{each.name}")) for each in results]
    # The first is the folder's own; of the others, its evaluation is called after it, stages of a chain are not.
    own = results[0].name
    called = {
        each.name: str(name) if each.name == own else each.name.replace(f"{own}, ", f"{name}, ", 1) for each in results
    }
    return [(top.parent.name, each if name is None else each._replace(name=called[each.name])) for each in results]


def _once(found: Sequence[tuple[str, Result]]) -> list[tuple[str, Result]]:
    """Every record once; equal ones, a run and its repetition, share their names."""
    kept: dict[tuple[type[Record], str], tuple[str, Result]] = {}
    for folder, result in found:
        key = type(result.record), result.record.digest()
        if key not in kept:
            kept[key] = folder, result
        elif result.name not in kept[key][1].name.split(" = "):
            first = kept[key][1]
            kept[key] = kept[key][0], first._replace(name=f"{first.name} = {result.name}")
    return list(kept.values())


def _told_apart(found: Sequence[tuple[str, Result]]) -> list[Result]:
    """Equal names with the folder before them, and numbered where that is equal too."""
    taken = Counter(result.name for _, result in found)
    names = [f"{folder}/{each.name}" if taken[each.name] > 1 and folder else each.name for folder, each in found]
    taken, seen = Counter(names), Counter[str]()
    told = []
    for name, (_, result) in zip(names, found, strict=True):
        seen[name] += 1
        told.append(result._replace(name=f"{name} ({seen[name]})" if taken[name] > 1 else name))
    return told


def _title(results: Sequence[Result]) -> str:
    chains = [each for each in results if isinstance(each.record, ChainRecord)]
    first = chains[0] if chains else results[0]
    if len(chains) == 1 or len(results) == 1:
        return f"Report of {first.name}"
    return f"Report of {len(results):,} results"


def _sections(results: Sequence[Result]) -> list[Section]:
    """A section for every result, or, of a kind that has many, one for all of them."""
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
            return _SECTIONS[type(record)](record if detail is None else detail, name)


def _shared(sections: Sequence[Section]) -> Section:
    """Sections of one kind as one, of which the reader chooses."""
    kind = sections[0].title.partition(":")[0]
    options: list[tuple[str, tuple[Part, ...]]] = []
    for section in sections:
        chips = " · ".join(f"{name} {value}" for name, value in section.chips)
        head = [Prose(text) for text in (section.lead, chips) if text]
        options.append((section.title.partition(": ")[2] or section.title, (*head, *section.parts)))
    return Section(kind, f"{len(sections):,} results of this kind: choose one.", (Choice(kind, tuple(options)),))


def _classes(record: SpikeRecord, results: Sequence[Result]) -> tuple[str, ...]:
    """What the outputs are called, where an evaluation tells of the same network, or of one with as many."""
    count = len(record.decisions.confusion.matrix)
    told = {each.record.classes for each in results if isinstance(each.record, Evaluation)}
    fitting = [names for names in told if len(names) == count]
    return fitting[0] if len(fitting) == 1 else ()
