"""The description of a search for a network within limits: the result, its accuracy and costs, and the rivals."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.drawing import (
    WORDS,
    draw_front_of,
    draw_kept_of,
    shares_of,
    taken_and_rivals,
)
from weightsmith.chain.tailor.findings import advice, amount_text, concerns, notes
from weightsmith.chain.tailor.judging import Judgement
from weightsmith.chain.tailor.limits import missed_text
from weightsmith.chain.tailor.results import Tailored, TailorRecord, Verdict
from weightsmith.networks.family import short_digest
from weightsmith.reporting.parts import Cell, Column, Drawing, Facts, Part, Section, Shown, Table
from weightsmith.reporting.sections._known_networks import Judged, KnownNetwork
from weightsmith.reporting.sections._wording import (
    accuracy,
    changed,
    counted,
    energy_text,
    facts_of,
    percent,
    percent_within,
    points,
    rounded,
    seconds_text,
    short_network,
)

__all__ = ["short_section", "tailor_section", "tailored_networks"]


def tailor_section(result: Tailored | TailorRecord, name: str, *, kept: bool = True) -> Section:
    """The description of a search named ``name``; ``kept``: the network was written."""
    record = result.record if isinstance(result, Tailored) else result
    parts: list[Part] = [*notes(record), _kept(record), _networks(record)]
    if isinstance(result, Tailored) and result.timeline:
        parts.append(_timeline(result))
    parts += [_front(record), _candidates(record)]
    if record.refused:
        parts.append(Facts("What could not be done", tuple(record.refused.items())))
    parts.append(_facts(record))
    return Section(
        f"Tailoring: {name}",
        _lead(record),
        tuple(parts),
        _chips(result),
        f"{short_network(record.network)} · {_limits_text(record)} · seed {record.origin.seed}",
        tuple(concerns(record)),
        tuple(advice(record, kept)),
    )


def short_section(record: TailorRecord, name: str) -> Section:
    """The summary of a search for the head of a page: three numbers and a figure."""
    judged, rows = record.judged, record.judging
    shares = shares_of(record, record.best, judged)
    chips = (
        (
            "accuracy",
            f"{percent(judged.accuracy.value)} of {counted(rows.rows, 'row')}, was {percent(record.whole.value)}",
        ),
        ("parameters", f"{percent(shares.get('parameters'))} of {record.parameters:,}"),
        ("energy per input", f"{percent(shares.get('energy'))} of {energy_text(record.energy)}"),
    )
    lead = (
        f"Original: {short_network(record.network)}. Result: {record.best}. Limits: {_limits_text(record)}. "
        f"{_opening(record)}; {changed(judged.cost)} on the same rows. {_rival(record)}"
    )
    return Section(f"In short: {name}", lead, (_kept(record),), chips)


def tailored_networks(record: TailorRecord, name: str) -> Iterator[KnownNetwork]:
    """The original and the resulting network, for the overview."""
    best, judged, rows = record.best, record.judged, record.judging
    data = str(record.settings.get("data", ""))
    parent = record.origin.inputs.get("network")
    if parent is not None:
        yield KnownNetwork(
            digest=parent,
            name=f"network ({parent[:6]})",
            making="given",
            operation="original",
            judged=Judged(record.whole, rows.split, rows.rows, data),
            parameters=record.parameters,
            macs=record.macs,
            energy=record.energy,
        )
    yield KnownNetwork(
        digest=record.result,
        name=name,
        making="tailored",
        operation=f"tailored: {best}",
        parent=parent,
        seed=record.origin.seed,
        judged=Judged(judged.accuracy, rows.split, rows.rows, data),
        cost=judged.cost,
        parameters=best.parameters,
        macs=best.macs if best.steps is None else None,
        energy=judged.energy,
    )


def _limits_text(record: TailorRecord) -> str:
    limits, parts = record.limits, []
    if limits.accuracy is not None:
        parts.append(f"accuracy at least {100 * limits.accuracy:g} %")
    if limits.points is not None:
        parts.append(f"at most {100 * limits.points:g} points below the network")
    parts += [f"{WORDS[name]} at most {amount_text(record, name, limit)}" for name, limit in limits.costs.items()]
    return ", ".join(parts)


def _lead(record: TailorRecord) -> str:
    best, judged = record.best, record.judged
    shares = shares_of(record, best, judged)
    told = ", ".join(f"{percent(share)} of the {word}" for word, share in shares.items() if word != "energy")
    sure = ""
    if judged.bound is not None and record.margin is not None:
        least = f"{points(judged.bound)} points" if record.limits.points is not None else percent(judged.bound)
        sure = f" (at least {least} at {100 * record.margin:g} %, exact)"
    return (
        f"{_opening(record)}: {best}. It has {told} and {percent(shares.get('energy'))} of the float32 energy. Its "
        f"accuracy is {accuracy(judged.accuracy, record.judging.rows, record.judging.split)}, that of the original "
        f"{percent(record.whole.value)}: {changed(judged.cost)}{sure}. {_rival(record)}"
    )


def _opening(record: TailorRecord) -> str:
    match record.verdict:
        case Verdict.MET:
            return "Within the limits"
        case Verdict.BY_ESTIMATE:
            return "Within the limits by the estimate, not with its interval"
        case Verdict.NOT_CONFIRMED:
            return "Not within the limit on the accuracy"
        case Verdict.NOT_MET:
            return "No network is within the limits; the nearest"


def _rival(record: TailorRecord) -> str:
    """The cost of the int8 network, shown beside every result."""
    if record.best.kind == "int8":
        tried = "no other network tried stays" if record.untried else "neither cutting nor spikes stay"
        return f"The int8 network wins: {tried} as close to the original within these limits."
    found = next((each for each in record.candidates if each.kind == "int8"), None)
    if found is None:
        return ""
    better = record.judged.energy < found.energy
    return f"The whole network in int8 costs {percent(found.energy_share)} of that energy" + (
        ", more than this one." if better else ": by energy alone it wins." if not record.limits.energy else "."
    )


def _chips(result: Tailored | TailorRecord) -> tuple[tuple[str, str], ...]:
    record = result.record if isinstance(result, Tailored) else result
    shares = shares_of(record, record.best, record.judged)
    limited = [WORDS[name] for name in record.limits.costs]
    words = dict.fromkeys(["parameters", "energy", *limited])
    costs = ((word, f"{percent(shares[word])} of the network’s") for word in words if word in shares)
    chips = [
        ("accuracy", f"{percent(record.whole.value)} → {percent_within(record.judged.accuracy)}"),
        *costs,
        ("limits", record.verdict.value),
    ]
    if isinstance(result, Tailored) and result.seconds is not None:
        chips.append(("CPU time", seconds_text(result.seconds)))
    return tuple(chips)


def _kept(record: TailorRecord) -> Drawing:
    rows: list[dict[str, Cell]] = [
        {
            "network": str(candidate),
            "accuracy": None if judged is None else judged.accuracy.value,
            **{f"share of {word}": share for word, share in shares_of(record, candidate, judged).items()},
        }
        for candidate, judged in taken_and_rivals(record)
    ]
    how = (
        "How to read it: left, the accuracy of the original network, of the chosen one and of other candidates "
        "that were tested, on rows not used for the choice; right, what each costs, relative to the original "
        "network (100 %)."
    )
    return Drawing("Accuracy and costs", how, functools.partial(draw_kept_of, record), rounded(rows), file="kept.csv")


def _networks(record: TailorRecord) -> Table:
    asked = "right" if record.labelled else "as the network"
    columns = (
        Column("network"),
        Column("accuracy", "on rows not used for the choice", numeric=True),
        Column("change", "in points against the network, on the same rows", numeric=True),
        Column(asked, f"of {record.selection.rows:,} selection rows ({record.selection.split})", numeric=True, spare=2),
        Column("parameters", "share of the network’s", numeric=True),
        Column("operations", "share of the network’s", numeric=True, spare=3),
        Column("bytes", "of its tensors, share of the network’s", numeric=True, spare=4),
        Column("energy", "share of the float32 network’s", numeric=True),
        Column("limits", "the limits it misses"),
    )
    rows = [_network_row(record, "original", record.candidates[0], record.original)]
    for number, (candidate, judged) in enumerate(taken_and_rivals(record)):
        name = f"{candidate} (taken)" if number == 0 else str(candidate)
        rows.append(_network_row(record, name, candidate, judged))
    caption = (
        f"Accuracies on {counted(record.judging.rows, 'row')} ({record.judging.split}) with 95 % Wilson intervals; "
        "only candidates that could be chosen were judged. Energy counts arithmetic, relative to the float32 network."
    )
    return Table("Networks", columns, tuple(rows), caption, file="networks.csv")


def _network_row(
    record: TailorRecord, name: str, candidate: Candidate, judged: Judgement | None
) -> tuple[Cell | Shown, ...]:
    shares = shares_of(record, candidate, judged)
    missed = candidate.excess(record.limits) if judged is None else judged.missed
    return (
        name,
        None if judged is None else Shown(judged.accuracy.value, percent_within(judged.accuracy)),
        None if judged is None or name == "original" else Shown(judged.cost.difference, points(judged.cost.difference)),
        Shown(candidate.share, percent(candidate.share)),
        *(
            Shown(shares[word], percent(shares[word])) if word in shares else None
            for word in ("parameters", "operations", "bytes", "energy")
        ),
        _standing(record, judged, missed),
    )


def _standing(record: TailorRecord, judged: Judgement | None, missed: dict[str, float]) -> str:
    if missed:
        return f"misses {missed_text(missed)}"
    if judged is None and record.limits.limits_accuracy:
        return "accuracy not judged"
    return "within" if judged is None or judged.holds(record.margin) else "within by the estimate"


def _timeline(result: Tailored) -> Table:
    columns = (
        Column("after", "CPU time of the search", numeric=True),
        Column("best so far"),
        Column("as the network", "share of the selection rows", numeric=True),
        Column("energy", "share of the float32 network’s", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for moment in result.timeline:
        found = result.record.candidates[moment.candidate]
        rows.append(
            (
                Shown(round(moment.seconds, 2), seconds_text(moment.seconds)),
                str(found),
                Shown(found.share, percent(found.share)),
                Shown(found.energy_share, percent(found.energy_share)),
            )
        )
    return Table("Timeline", columns, tuple(rows), file="timeline.csv", detail=True)


def _candidates(record: TailorRecord) -> Table:
    columns = (
        Column("network", "what was done to the original network"),
        Column("divergence", "squared distance of its outputs, as a share of their variance", numeric=True),
        Column("agreement", f"with the network on {record.selection.rows:,} rows", numeric=True),
        Column("energy", "per input", numeric=True),
        Column("share of energy", numeric=True),
        Column("parameters", numeric=True),
        Column("operations", numeric=True),
        Column("misses", "the limits on costs it misses"),
    )
    rows = tuple(
        (
            str(found),
            found.divergence,
            Shown(found.share, percent_within(found.accuracy)),
            Shown(found.energy, energy_text(found.energy)),
            Shown(found.energy_share, percent(found.energy_share)),
            found.parameters,
            found.macs,
            ", ".join(found.excess(record.limits)) or "nothing",
        )
        for found in (record.front if record.labelled else record.candidates)
    )
    return Table("Candidates", columns, rows, file="candidates.csv", detail=True)


def _facts(record: TailorRecord) -> Facts:
    rows = [
        (what, f"{used.rows:,} of {used.of:,} ({used.split}), SHA-256 {short_digest(used.sha256)}")
        for what, used in (
            ("rows looked at", record.train),
            ("selection rows", record.selection),
            ("judging rows", record.judging),
        )
    ]
    after = [("SHA-256 of the resulting network", record.result)]
    return facts_of(record.settings, record.origin, before=[("network", record.network), *rows], after=after)


def _front(record: TailorRecord) -> Drawing:
    rows: list[dict[str, Cell]] = [
        {
            "network": str(found),
            "kind": found.kind,
            "share": found.share,
            "low": found.accuracy.low,
            "high": found.accuracy.high,
            "energy_picojoule": found.energy,
            "parameters": found.parameters,
        }
        for found in record.candidates
    ]
    how = (
        "How to read it: each mark is a network that was tried; faint ones are worse than another in accuracy, "
        "energy and size at once. Networks within the limits (lines) lie in the shaded corner of both panels; the "
        "ring marks the chosen one, chosen on these rows and tested on others."
    )
    return Drawing("The front", how, functools.partial(draw_front_of, record), rounded(rows), file="front.csv")
