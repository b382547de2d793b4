"""The page of what was tried: one table of promises, then the files by format."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["holds", "page", "table"]

_PARTS = ("damage", "kills", "faults", "folders", "machines", "interrupts")


class Promise(NamedTuple):
    """A promise, how often it was tried, and how often it did not hold."""

    said: str
    tried: int
    broken: int


def _promises(results: dict[str, Any]) -> list[Promise]:
    """What every part says of the promises it tried."""
    made = _of_damage(results["damage"]["found"]) if "damage" in results else []
    for part in _PARTS[1:]:
        made += [Promise(*row) for row in results.get(part, {}).get("found", {}).get("promises", [])]
    return made


def _of_damage(found: list[dict[str, Any]]) -> list[Promise]:
    flips = [row for row in found if "flipped" in row["name"]]
    mutants = [row for row in found if row not in flips]
    files, own = sum(row["tried"] for row in mutants), sum(row["tried"] for row in flips)

    def counted(key: str, among: list[dict[str, Any]] = found) -> int:
        return sum(row[key] if isinstance(row[key], int) else sum(row[key].values()) for row in among)

    return [
        Promise("damaged files: no crash", files + own, counted("crashes")),
        Promise("damaged files: an answer in 5 seconds", files + own, counted("slow")),
        Promise("damaged files: nothing is run", files + own, counted("ran_code")),
        Promise("damaged files: read, or refused by our own exception (memory: twice the file + 256 MB)", files + own,
                counted("foreign")),
        Promise("damaged files: one line of at most 1,000 characters", files + own, counted("long_messages")),
        *([Promise("own files with one flipped bit: not read as something else", own, counted("accepted", flips))]
          if flips else []),
    ]  # fmt: skip


def holds(results: dict[str, Any]) -> bool:
    """Whether every promise was tried, and held each time."""
    return not any(promise.broken or not promise.tried for promise in _promises(results))


def table(results: dict[str, Any]) -> str:
    """The promises as a Markdown table."""
    rows = [f"| {said} | {tried:,} | {broken} |" for said, tried, broken in _promises(results)]
    return "\n".join(["| promise | tried | broken |", "|---|---:|---:|", *rows])


def page(results: dict[str, Any]) -> str:
    """The Markdown page."""
    lines = [
        "# Trust",
        "",
        "What is promised about files, kills and interrupts ([what a file cannot do](../safety.md)), tried in bulk by "
        "`make trust`.",
        "",
        table(results),
        "",
    ]
    spent = [f"{part} {results[part]['minutes']:g}" for part in _PARTS if results.get(part, {}).get("minutes")]
    earlier = [part for part in _PARTS if part in results and not results[part].get("minutes")]
    lines += [f"Minutes that the parts took: {', '.join(spent)}.", ""] if spent else []
    lines += [f"Of an earlier version, put together by hand from shorter runs: {', '.join(earlier)}.", ""] * bool(
        earlier
    )
    for part in _PARTS[1:]:
        if part in results:
            lines += [*results[part]["found"]["notes"], ""]
    if "damage" in results:
        lines += _files(results["damage"]["found"])
    return "\n".join(lines)


def _files(found: list[dict[str, Any]]) -> list[str]:
    rows = [
        f"| {row['name']} | {row['tried']:,} | {row['read']:,} | {row['refused']:,} | "
        f"{sum(row['other_codes'].values()) or ''} | {sum(row['foreign'].values())} | {row['crashes']} | "
        f"{row['slow']} |"
        for row in found
    ]
    foreign = [f"- {row['name']}: {name}, {count} times" for row in found for name, count in row["foreign"].items()]
    return [
        "## Damaged files by format",
        "",
        "Mutants of small valid files: flipped bits, random bytes, cuts, insertions, length fields, repeated parts, "
        "nesting; and files built to harm (pickles with payloads, zip bombs, links and paths that lead out of the "
        "folder, sizes beyond counting). Each is read in a child process that may take twice the file and 256 MB more "
        "than it has. *Read*: the damage did not matter, or the format cannot notice it (only our own files carry a "
        "digest). *Exit 2*: a recipe that is read, and asks for something that does not exist. *Foreign*: an exception "
        "that is not ours.",
        "",
        "| file | tried | read | refused | exit 2 | foreign | crashes | slow |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        *(["Foreign exceptions:", "", *foreign, ""] if foreign else []),
        "A flipped bit that leaves the values of a record as they were (an e of an exponent that becomes E) is read; a "
        "file counts as broken if it was read as something else.",
        "",
    ]
