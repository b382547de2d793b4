"""Results as a Markdown table, which is also what the terminal shows."""

from __future__ import annotations

from benchmarks.measure import Measurement, Results

__all__ = ["page", "table"]

_HEAD = ("case", "arm", "CPU seconds", "ratio to ours")


def table(measurements: tuple[Measurement, ...]) -> str:
    """One row per arm; the ratio says how many times our CPU seconds the arm takes.

    >>> print(table((Measurement("sum", "add", {"a": 0.5, "b": 1.0}, {"b": 2.0}, 7, False, {}),)))
    | case | arm | CPU seconds | ratio to ours |
    |------|-----|-------------|---------------|
    | sum  | a   | 0.5         | 1             |
    |      | b   | 1           | 2.00          |
    """
    rows = [_HEAD]
    for measured in measurements:
        for number, (arm, seconds) in enumerate(measured.seconds.items()):
            ratio = f"{measured.ratios[arm]:.2f}" if arm in measured.ratios else "1"
            rows.append((measured.name if number == 0 else "", arm, f"{seconds:.3g}", ratio))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def page(results: Results) -> str:
    """The whole Markdown page of one benchmark: what was done, the table, versions and the command."""
    work = [f"- **{measured.name}**: {measured.work}" for measured in results.measurements]
    packages = {name: version for m in results.measurements for name, version in m.versions.items()}
    versions = ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
    repeats = " or ".join(str(r) for r in sorted({measured.repeats for measured in results.measurements}))
    children = any(measured.children for measured in results.measurements)
    counted = " of the process and its children" if children else ""
    return "\n\n".join(
        [
            f"# {results.bench}",
            "\n".join(work),
            table(results.measurements),
            f"Best of {repeats} interleaved rounds, CPU seconds{counted}, one thread; outputs compared before timing.",
            f"{versions}; {results.machine}. Made by `{results.command}`.",
        ]
    )
