"""Grade a network from its weights alone."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.parallel import completed, is_spread
from weightsmith.core.progress import StepCallback, as_callback
from weightsmith.core.records import Origin, versions
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.verbs import Cluster, Device, Doc, Seed, Threads, Workers, verb, written
from weightsmith.grading.choices import Conv, Method, Normalise, Precision
from weightsmith.grading.evidence import Evidence
from weightsmith.grading.fits.cuts import TailCut

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weightsmith.grading.layer import GradingOptions
    from weightsmith.grading.results import Coverage, Grades, LayerGrade
    from weightsmith.networks.layers.walk import Walk
    from weightsmith.networks.weights import Weights

    Network = nn.Module | Mapping[str, Tensor] | Weights | str | Path

__all__ = ["grade"]


@verb
def grade(
    network: Network,
    *,
    layers: Annotated[str | Sequence[str] | None, Doc("only layers whose name fits one of these patterns")] = None,
    conv: Annotated[
        Conv, Doc("a convolution as one spectrum of all kernel positions (pooled) or one per position (slices)")
    ] = "pooled",
    normalise: Annotated[
        Normalise, Doc("eigenvalues of WᵀW as other tools take them (none), or of WᵀW/N (seed)", rare=True)
    ] = "none",
    evidence: Annotated[
        Evidence | str, Doc("evidence computed for α: none, fast (interval, noise, other tails) or full (slower)")
    ] = "fast",
    cut: Annotated[
        TailCut | str, Doc("where the tail begins: ks (smallest distance), erg (unit determinant) or hill:share=0.5")
    ] = "ks",
    precision: Annotated[
        Precision, Doc("numbers of the spectrum; float32 takes about half the time", rare=True)
    ] = "float64",
    method: Annotated[
        Method, Doc("eigenvalues of the Gram matrix (gram) or singular values (svd)", rare=True)
    ] = "gram",
    fold: Annotated[bool, Doc("fold batch norms into the layers before them first")] = False,
    base: Annotated[
        nn.Module | Mapping[str, Tensor] | Weights | str | Path | None, Doc("grade the difference to this network")
    ] = None,
    conv_groups: Annotated[
        str | Sequence[str] | None,
        Doc("groups of convolutions, which a file of tensors does not store: NAME=N", rare=True),
    ] = None,
    seed: Seed = 0,
    workers: Workers = 1,
    cluster: Cluster = None,
    threads: Threads = 1,
    device: Device = "cpu",
    out: str | Path | None = None,
    progress: StepCallback | bool | None = None,
) -> Grades:
    """Grade every layer of ``network``: the power law in the tail of its spectrum, with evidence and a verdict.

    ``network`` is a module, a state dict, or a file or folder of weights (safetensors, sharded, torch, npz, ONNX,
    Keras, a LoRA adapter); of a file one layer is in memory at a time. ``layers``: a glob, or several.

    ``conv``: the eigenvalues of all kernel positions of a convolution in one fit (``pooled``), or one fit per position
    (``slices``). ``normalise``: ``none`` takes WᵀW, with convolutions scaled as in WeightWatcher; ``seed`` takes WᵀW/N
    (eq. 2). α is the same for both. ``cut`` is the rule for λ_min, ``evidence`` how much is computed beside α.
    ``conv_groups`` gives the groups of convolutions, which a file of tensors does not store, as
    ``"layer1.*.conv2=32"``. ``fold`` first folds batch norms into the layers before them; ``base`` grades the
    difference to another network. With ``workers`` or ``cluster`` layers are graded in parallel, with the same result.
    With ``out``, a folder, every finished layer is written to a journal there, and the same call resumes where it
    stopped.

    >>> import torch
    >>> from weightsmith.networks import mlp
    >>> grades = grade(mlp(64, 32, 10, seed=0))
    >>> [(layer.name, layer.status.value, layer.verdict.kind.value) for layer in grades.layers]
    [('dense1', 'fitted', 'looks like noise'), ('output', 'fitted', 'looks like noise')]
    >>> grades.coverage.line
    '2 of 2 layers fitted, with 2,368 of 2,410 parameters (98.26 %)'
    """
    settings = written(grade, locals(), surrounds=False)
    import scipy.linalg  # noqa: F401 (its BLAS can be pinned below only once it is loaded)

    from weightsmith.grading.layer import GradingOptions
    from weightsmith.grading.measures import measure_network
    from weightsmith.grading.results import Grades
    from weightsmith.networks.held import held_network

    how = GradingOptions(conv, normalise, Evidence.of(evidence), TailCut.of(cut), precision, method, seed, device)
    _check_device(device)
    network, base = held_network(network), held_network(base)
    source = _Source(network, base, layers, fold, conv_groups)
    walked = source.open()
    if threads != 1 and (workers != 1 or cluster is not None):
        raise UsageError("parallel workers use one thread each: give workers or threads, not both")
    settings["base"] = None if base is None else _name(base)
    with pinned_threads(threads), ExitStack() as stack:
        inputs = _digests(network, base, walked, chosen=layers is not None)
        kept = None
        if out is not None:
            call = {"settings": settings, "inputs": inputs, "seed": seed}
            kept = stack.enter_context(Journal(Path(out) / "journal.jsonl", call))
        graded = tuple(_graded(source, walked, how, progress=as_callback(progress), kept=kept))
    return Grades(
        source=_name(network),
        settings=settings,
        layers=graded,
        measures=measure_network(graded),
        coverage=_coverage(walked, graded),
        notes=_notes(walked, graded, precision),
        origin=Origin(seed=seed, inputs=inputs, versions=versions("scipy", "numba")),
    )


def _digests(network: Network, base: Network | None, walked: Walk, *, chosen: bool) -> dict[str, str]:
    """The digests of the graded weights. If only some layers of a file were ``chosen``, only these are read."""
    from weightsmith.networks.card import weights_digest
    from weightsmith.networks.layers.walk import network_digest
    from weightsmith.networks.weights import Weights

    if chosen and isinstance(network, str | Path | Weights):
        parts = (weights_digest({layer.name: layer.matrices}) for layer in walked)
        return {"layers": hashlib.sha256("".join(parts).encode()).hexdigest()}
    return {"network": network_digest(network)} | ({} if base is None else {"base": network_digest(base)})


@dataclass(frozen=True, eq=False)
class _Source:
    """The graded network in a form that another process can open."""

    network: Network
    base: Network | None
    layers: str | Sequence[str] | None
    fold: bool
    conv_groups: str | Sequence[str] | None

    @property
    def at_rest(self) -> bool:
        """Whether all weights are in files."""
        return not self.fold and all(isinstance(given, str | Path | None) for given in (self.network, self.base))

    @functools.cached_property
    def opened(self) -> Walk:
        """The walk of a worker, opened once for all layers that it grades."""
        return self.open()

    def open(self) -> Walk:
        from weightsmith.networks.layers.walk import walk

        network = _folded(self.network) if self.fold else self.network
        if self.base is None:
            return walk(network, layers=self.layers, conv_groups=self.conv_groups)
        from weightsmith.grading.differences import difference

        base = _folded(self.base) if self.fold else self.base
        return difference(network, base, layers=self.layers, conv_groups=self.conv_groups)


def _graded(
    source: _Source,
    walked: Walk,
    how: GradingOptions,
    *,
    progress: StepCallback | None,
    kept: Journal | None,
) -> Iterator[LayerGrade]:
    """The grades in the order of the layers; finished ones come from the journal, new ones are added to it."""
    from weightsmith.grading.results import LayerGrade

    total = len(walked)
    found = {
        index: tuple(map(LayerGrade.from_dict, kept[_key(walked, index)]))
        for index in (range(total) if kept is not None else ())
        if kept is not None and _key(walked, index) in kept
    }
    if progress is not None and total:
        progress(len(found), total)
    missing = [index for index in range(total) if index not in found]
    given, start = 0, time.perf_counter()
    for index, made in _finished(source, walked, how, missing):
        found[index] = made
        if kept is not None:
            kept.append(_key(walked, index), [layer.to_dict() for layer in made], time.perf_counter() - start)
            start = time.perf_counter()
        if progress is not None:
            progress(len(found), total)
        while given in found:  # a layer is not held longer than needed
            yield from found[given]
            given += 1
    while given in found:
        yield from found[given]
        given += 1


def _finished(
    source: _Source, walked: Walk, how: GradingOptions, missing: list[int]
) -> Iterator[tuple[int, tuple[LayerGrade, ...]]]:
    """Layers as they are finished, each with its index."""
    from weightsmith.grading.layer import grade_layer

    if not is_spread():
        for index in missing:
            yield index, grade_layer(walked.read(index), how)
    elif source.at_rest:
        for place, made in completed(functools.partial(_read_and_grade, source, how), missing):
            yield missing[place], made
    else:
        layers = [walked.read(index) for index in missing]
        for place, made in completed(functools.partial(grade_layer, how=how), layers):
            yield missing[place], made


def _key(walked: Walk, index: int) -> str:
    return f"{index} {walked.layers[index].name}"


def _read_and_grade(source: _Source, how: GradingOptions, index: int) -> tuple[LayerGrade, ...]:
    """In a worker: read one layer of a file and grade it."""
    from weightsmith.grading.layer import grade_layer

    return grade_layer(source.opened.read(index), how)


def _folded(network: Network) -> nn.Module:
    """A module with its batch norms folded; a file is loaded as a module first."""
    from torch import nn

    from weightsmith.networks.editing.fold import fold_batch_norm
    from weightsmith.networks.files import load

    if isinstance(network, str | Path):
        network = load(network)
    if not isinstance(network, nn.Module):
        raise UsageError("batch norms can be folded in a module or a file of a known network, not in a state dict")
    return fold_batch_norm(network).network


def _name(network: Network) -> str:
    from weightsmith.networks.weights import Weights

    if isinstance(network, str | Path):
        return str(network)
    if isinstance(network, Weights):
        return str(network.path)
    return "state dict" if isinstance(network, Mapping) else type(network).__name__


def _check_device(device: str) -> None:
    import torch

    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
        raise UsageError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]})") from error


def _coverage(walked: Walk, graded: tuple[LayerGrade, ...]) -> Coverage:
    from weightsmith.grading.results import Coverage, Omitted

    fitted = [layer for layer in graded if layer.fitted]
    unfitted = [
        Omitted(_layer_name(layer), layer.parameters, f"{layer.status.value}: {layer.reason}")
        for layer in graded
        if not layer.fitted
    ]
    left_out = [Omitted(item.name, item.parameters, item.reason) for item in walked.left_out]
    return Coverage(
        layers=len(graded),
        fitted=len(fitted),
        parameters=walked.parameters,
        graded=sum(layer.parameters for layer in fitted),
        left_out=(*unfitted, *left_out),
        unit="layers" if all(layer.slice is None for layer in graded) else "layers and kernel positions",
    )


def _layer_name(layer: LayerGrade) -> str:
    return layer.name if layer.slice is None else f"{layer.name}[{layer.slice}]"


def _notes(walked: Walk, graded: tuple[LayerGrade, ...], precision: Precision) -> tuple[str, ...]:
    from weightsmith.grading.results import Status

    if not len(walked):
        return ("the network has no layers that could be graded",)
    notes = []
    broken = [layer.name for layer in graded if layer.status is Status.NON_FINITE]
    if broken:
        notes.append(f"{len(broken)} of {len(graded)} layers hold NaN or infinity: {', '.join(broken[:5])}")
    fitted = [layer for layer in graded if layer.fitted]
    guessed = list(dict.fromkeys(layer.name for layer in fitted if layer.guessed))
    if guessed:
        notes.append(
            f"the groups of {len(guessed)} convolution{'' if len(guessed) == 1 else 's'} are a guess "
            f"({', '.join(guessed[:3])}{' …' if len(guessed) > 3 else ''}): grade the module, or set the groups "
            "with --conv-groups NAME=N"
        )
    all_parts, parts = sum(layer.matrices for layer in fitted), sum(len(layer.slices) for layer in fitted)
    if parts < all_parts:
        notes.append(
            f"alpha_hat counts {parts:,} of {all_parts:,} matrices (kernel positions, gates): the others are too small "
            "or zero"
        )
    lost = sum(layer.metrics.rank_loss for layer in graded if layer.metrics is not None)
    if precision == "float32" and lost:
        notes.append(f"{lost:,} eigenvalues are below what float32 resolves and count as zero; float64 resolves them")
    return tuple(notes)
