"""Combine several records into networks: how they were made, their accuracy and their cost.

Records name networks by the digests of their weights: a training names the network it made, a reduction and a
conversion their input and output, an evaluation its subject. So results can be combined in any order and without names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Comparison, Interval
from weightsmith.grading.results import Grades
from weightsmith.networks.evaluation import Evaluation
from weightsmith.networks.family import Family, Member, family
from weightsmith.networks.target_evaluation import RegressionEvaluation
from weightsmith.reducing.results import ReductionRecord, Size
from weightsmith.reporting.figures.labels import network_labels
from weightsmith.reporting.parts import Shown
from weightsmith.reporting.sections._wording import chance, changed, counted
from weightsmith.spiking.energy.cost import Prices
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.sweep.results import SpikeSweep
from weightsmith.training.run import TrainRecord
from weightsmith.training.transferring import TransferRecord

__all__ = [
    "HOLM",
    "Judged",
    "KnownNetwork",
    "NamedRecord",
    "change_cells",
    "family_of",
    "in_order",
    "judged_alike",
    "known_networks",
    "network_in",
    "network_out",
    "operation_of",
    "reduced_how",
]

NamedRecord: TypeAlias = tuple[str, Record]
"""The name of a result, and its record."""

Making = Literal["given", "trained", "reduced", "spiking", "tailored"]
_MAKINGS: dict[type[Record], Making] = {
    TrainRecord: "trained",
    TransferRecord: "trained",
    ReductionRecord: "reduced",
    SpikeRecord: "spiking",
}


@dataclasses.dataclass(frozen=True)
class Judged:
    """An accuracy with its interval, and the rows it was measured on."""

    accuracy: Interval
    split: str
    images: int
    data: str = ""
    """The name of the data; empty in records of older versions."""
    metric: str = "accuracy"
    """What the number is: an accuracy, or R² of a regression."""


@dataclasses.dataclass(frozen=True)
class KnownNetwork:
    """One network: its name, how it was made, and its numbers in the records (None: unknown).

    ``cost`` compares its answers with its parent's, image by image. ``parameters`` of a spiking network are those of
    the network it was converted from. Energies are in picojoules per image; ``assumed`` says that no record counted
    the energy, so it is the default price of the MACs: of ``connections``, those without padding and weights of 0, as
    records count energies, or, in records of older versions, of all.
    """

    digest: str
    name: str
    making: Making
    operation: str
    parent: str | None = None
    seed: int | None = None
    judged: Judged | None = None
    cost: Comparison | None = None
    parameters: int | None = None
    macs: int | None = None
    connections: int | None = None
    accumulates: float | None = None
    energy: float | None = None
    assumed: bool = False


HOLM = "McNemar’s, of that difference, with Holm’s correction for the rows of this table"


def change_cells(cost: Comparison, corrected: float | None = None) -> tuple[Shown, Shown]:
    """A paired difference with its interval in points, and its p or the ``corrected`` one, as two cells of a table.

    >>> from weightsmith.core.statistics import mcnemar
    >>> [cell.text for cell in change_cells(mcnemar([1, 0, 0, 1], [1, 1, 1, 1]))]
    ['−50.0 [−93.0, +26.3]', '0.27']
    """
    points = changed(cost).replace(" points", "")
    p = cost.p if corrected is None else corrected
    return Shown(cost.difference, points), Shown(p, chance(p).removeprefix("p ").removeprefix("= "))


def network_in(record: Record) -> str | None:
    """The digest of the network that the result is made from or describes."""
    origin = getattr(record, "origin", None)
    given = "base" if isinstance(record, TransferRecord) else "network"
    return origin.inputs.get(given) if isinstance(origin, Origin) else None


def network_out(record: Record) -> str | None:
    """The digest of the resulting network, if there is one."""
    match record:
        case TrainRecord() | TransferRecord():
            return record.network
        case ReductionRecord() | SpikeRecord():
            return record.result
        case _:
            return None


def operation_of(record: Record) -> str:
    """How the result's network was made, in a few words.

    Settings come from files, which may leave them out.
    """
    settings = getattr(record, "settings", {})
    match record:
        case TrainRecord():
            epochs = len(record.history)
            what = f"{_short(settings.get('network'))} trained on {settings.get('data', 'data')}"
            return f"{what}, {epochs} epoch{'' if epochs == 1 else 's'}"
        case TransferRecord():
            return f"transferred to {settings.get('data', 'data')}, {len(record.stages)} stages"
        case ReductionRecord():
            return f"reduced by {reduced_how(settings)}"
        case SpikeRecord():
            more = [str(settings[key]) for key in ("adjust", "early", "mismatch") if settings.get(key) is not None]
            parts = [
                str(settings.get("neuron", "spiking")),
                str(settings.get("encode", "")),
                counted(record.steps, "step"),
                *more,
            ]
            return ", ".join(["spiking", *filter(None, parts)])
        case _:
            return ""


def reduced_how(settings: Mapping[str, Any]) -> str:
    """How units were chosen, in the form of the options; a price function by its name.

    >>> reduced_how({"by": "genetic:50.0", "target": None, "price": "weightsmith.chain.prices.SynapticPrice a80bcf44"})
    'genetic:50.0, price SynapticPrice'
    """
    words = [str(settings[key]) for key in ("by", "target", "plan", "recover") if settings.get(key) is not None]
    if (price := settings.get("price")) is not None:
        words.append(f"price {str(price).partition(' ')[0].rpartition('.')[2]}")
    return ", ".join(words)


def family_of(results: Sequence[NamedRecord], others: Sequence[KnownNetwork] = ()) -> Family:
    """The networks of all results, and the given ``others``, as a forest."""
    return family([*_members(results), *(Member(one.digest, one.parent, one.operation, one.name) for one in others)])


def in_order(results: Sequence[NamedRecord]) -> list[NamedRecord]:
    """The results in the order of the chain: the result that made a network, its evaluations, then its descendants.

    Results without a network come first if they contain others (the record of a chain), else last, in their
    original order, which also holds among siblings.
    """
    by_network: dict[str, list[NamedRecord]] = {}
    others: list[NamedRecord] = []
    for result in results:
        digest = network_out(result[1]) or network_in(result[1])
        if digest is None:
            others.append(result)
        else:
            by_network.setdefault(digest, []).append(result)
    ordered = [
        result for kin in family_of(results).kin for result in sorted(by_network.get(kin.network, ()), key=_turn)
    ]
    chains = [result for result in others if hasattr(result[1], "recipe")]
    return [*chains, *ordered, *(result for result in others if result not in chains)]


def _turn(result: NamedRecord) -> int:
    """The order for one network: what made it, its accuracy, then other results."""
    return (
        0
        if network_out(result[1]) is not None
        else 1
        if isinstance(result[1], Evaluation | RegressionEvaluation)
        else 2
    )


def known_networks(results: Sequence[NamedRecord], others: Sequence[KnownNetwork] = ()) -> list[KnownNetwork]:
    """The networks that any result describes, and ``others``, a parent before its children."""
    prices, more = _prices(results), {one.digest: one for one in reversed(others)}
    found: dict[str, KnownNetwork] = {}
    for kin in family_of(results, others).kin:
        made = [(name, record) for name, record in results if network_out(record) == kin.network]
        seen = [(name, record) for name, record in results if network_in(record) == kin.network]
        if made or any(not isinstance(record, TrainRecord) for _, record in seen):
            network = _filled(_known(kin.network, kin.parent, made, seen), more.get(kin.network))
            found[kin.network] = _completed(network, found.get(kin.parent or ""), prices)
        elif kin.network in more:
            found[kin.network] = more[kin.network]
    return list(found.values())


def _members(results: Sequence[NamedRecord]) -> Iterator[Member]:
    for name, record in results:
        made, given = network_out(record), network_in(record)
        if made is not None:
            yield Member(made, given, operation_of(record), name)
        elif given is not None:
            yield Member(given)


def _known(digest: str, parent: str | None, made: Sequence[NamedRecord], seen: Sequence[NamedRecord]) -> KnownNetwork:
    size, energy, macs = _size(made, seen), None, None
    judged = max(_judgements(made, seen), key=lambda each: (each.split == "test", each.images), default=None)
    network = KnownNetwork(digest, _name(digest, made, seen), "given", "original", parent, judged=judged)
    if made:
        record = made[0][1]
        origin = getattr(record, "origin", None)
        seed = origin.seed if isinstance(origin, Origin) else None
        network = dataclasses.replace(
            network, making=_MAKINGS[type(record)], operation=operation_of(record), cost=_cost(record), seed=seed
        )
        if isinstance(record, SpikeRecord):
            spent = record.cost
            return dataclasses.replace(network, accumulates=float(spent.accumulates[-1]), energy=spent.energy)
    converted = next((record.cost for _, record in seen if isinstance(record, SpikeRecord)), None)
    if converted is not None:
        energy, macs = converted.network_energy, converted.dense
    trained = next((record.parameters for record in _trainings(made)), None)
    return dataclasses.replace(
        network,
        parameters=trained if size is None else size.parameters,
        macs=macs if size is None else size.macs,
        connections=None if size is None else size.connections,
        energy=energy,
    )


def _filled(network: KnownNetwork, other: KnownNetwork | None) -> KnownNetwork:
    """The network completed by the values of the ``other``."""
    if other is None:
        return network
    gaps = [name for name in ("judged", "parameters", "macs", "energy") if getattr(network, name) is None]
    return dataclasses.replace(network, **{name: getattr(other, name) for name in gaps})


def _trainings(made: Sequence[NamedRecord]) -> Iterator[TrainRecord]:
    for _, record in made:
        if isinstance(record, TrainRecord):
            yield record
        elif isinstance(record, TransferRecord):
            yield from (stage.training for stage in record.stages[record.best : record.best + 1])


def _completed(network: KnownNetwork, parent: KnownNetwork | None, prices: Prices | None) -> KnownNetwork:
    """Fill in derived numbers: parameters of a converted network, the default price of MACs."""
    if network.making == "spiking" and parent is not None:
        return dataclasses.replace(network, parameters=parent.parameters)
    counted = network.macs if network.connections is None else network.connections
    if network.energy is None and counted is not None and prices is not None:
        return dataclasses.replace(network, energy=prices.mac * counted, assumed=True)
    return network


def _prices(results: Sequence[NamedRecord]) -> Prices | None:
    """The prices of all conversions, if they are the same; the default if there is none."""
    prices = {str(record.cost.prices): record.cost.prices for _, record in results if isinstance(record, SpikeRecord)}
    return Prices() if not prices else next(iter(prices.values())) if len(prices) == 1 else None


def _judgements(made: Sequence[NamedRecord], seen: Sequence[NamedRecord]) -> Iterator[Judged]:
    for _, record in made:
        match record:
            case ReductionRecord(measured=found):
                yield Judged(found.reduced, found.split, found.images, _data_of(record), found.metric)
            case SpikeRecord(decisions=answers):
                yield Judged(answers.spiking, answers.split, answers.images, _data_of(record))
            case TransferRecord(stages=stages, best=best):
                images = next((stage.gain.n for stage in stages if stage.gain is not None), None)
                if images is not None:
                    accuracies = [stage.accuracy for stage in stages[best : best + 1]]
                    yield from (Judged(each, "validation", images, _data_of(record)) for each in accuracies)
    for _, record in seen:
        match record:
            case RegressionEvaluation():
                yield Judged(record.r2, record.split, record.images, record.data, "R²")
            case Evaluation():
                yield Judged(record.accuracy, record.split, record.images, record.data)
            case ReductionRecord(measured=found):
                yield Judged(found.whole, found.split, found.images, _data_of(record), found.metric)
            case SpikeRecord(decisions=answers):
                yield Judged(answers.network, answers.split, answers.images, _data_of(record))
            case SpikeSweep():
                yield Judged(record.plain, record.split, record.test_images, _data_of(record))


def _data_of(record: Record) -> str:
    data = getattr(record, "settings", {}).get("data")
    return data if isinstance(data, str) else ""


def judged_alike(networks: Sequence[KnownNetwork]) -> dict[tuple[str, str], list[KnownNetwork]]:
    """The judged networks by data and split: only those of one group can be ranked.

    If all records that name their data name the same data, the others are assumed to use them too.
    """
    named = {each.judged.data for each in networks if each.judged is not None and each.judged.data}
    only = next(iter(named)) if len(named) == 1 else ""
    groups: dict[tuple[str, str], list[KnownNetwork]] = {}
    for each in networks:
        if each.judged is not None:
            groups.setdefault((each.judged.data or only, each.judged.split), []).append(each)
    return groups


def _size(made: Sequence[NamedRecord], seen: Sequence[NamedRecord]) -> Size | None:
    sizes = [record.reduced for _, record in made if isinstance(record, ReductionRecord)]
    sizes += [record.whole for _, record in seen if isinstance(record, ReductionRecord)]
    return sizes[0] if sizes else None


def _cost(record: Record) -> Comparison | None:
    match record:
        case ReductionRecord():
            return record.measured.cost
        case SpikeRecord():
            return record.decisions.cost
        case _:
            return None


def _name(digest: str, made: Sequence[NamedRecord], seen: Sequence[NamedRecord]) -> str:
    """The name of the result that made it; else the graded file; else its architecture and digest."""
    if made:
        return made[0][0]
    graded = next((record.source for _, record in seen if isinstance(record, Grades)), None)
    if graded is not None:
        return network_labels([graded])[0]
    told = (each.network for _, each in seen if isinstance(each, ReductionRecord | SpikeRecord | SpikeSweep))
    return f"{_short(next(told, 'network'))} ({digest[:6]})"


def _short(architecture: object) -> str:
    """An architecture without the shapes given by the data: ``mlp:64,32``."""
    return str(architecture or "a network").partition(",input_shape")[0]
