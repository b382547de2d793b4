"""``WeightWatcher(model=…).analyze()`` by our own grading, with the columns that scripts written for that tool read.

Numbers agree for layers with 20 eigenvalues or more (tests/reference/weightwatcher_layers.json), except for

- ``alpha`` and values derived from it: a layer without a fit has none here, and −1 there, which its means include;
- ``sv_min`` of a convolution: the smallest singular value of all kernel positions here; there the largest of the
  positions' smallest;
- ``matrix_rank`` and ``rank_loss``: singular values below some 10⁻⁷ of the largest count as zero, as the eigenvalues
  of the Gram matrix resolve no smaller ones; with ``svd_method="accurate"`` the limit is that tool's, N·ε;
- ``num_spikes``, ``bulk_max`` and the like (``mp_fit``), ``rand_distance`` and ``num_traps`` (``randomize``): the same
  quantities by other estimators (docs/grading.md).

``weak_rank_loss`` counts eigenvalues below ``tolerance`` itself, as there; ``layer.metrics.weak_rank_loss`` below a
millionth of the largest. ``warning`` looks at α alone, as there; ``verdict`` and the ends of the interval,
``alpha_low`` and ``alpha_high``, are added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import MissingExtra, UnknownName, UsageError
from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Grades, LayerGrade

if TYPE_CHECKING:
    from weightsmith.grading.grade import Network

__all__ = ["WeightWatcher"]

_TYPES = {"Linear": "dense", "Conv1d": "conv1d", "Conv2d": "conv2d", "Embedding": "embedding"}
_SUMMARY = ("log_norm", "alpha", "alpha_weighted", "log_alpha_norm", "log_spectral_norm", "stable_rank", "mp_softrank")
_METHODS = {"fast": "gram", "accurate": "svd"}

_INSTEAD = {
    "plot": "weightsmith grade NETWORK --figures FOLDER draws every layer",
    "savefig": "weightsmith grade NETWORK --figures FOLDER draws every layer",
    "fit": "truncated power laws are compared with the plain one in ws.grade(…).layers[i].alternatives",
    "peft": "ws.grade('ADAPTER_FOLDER') grades a LoRA adapter",
    "max_evals": "ws.grade has no size limit",
    "max_N": "ws.grade has no size limit",
    "ww2x": "use pool=False",
}

Row = dict[str, Any]


class WeightWatcher:
    """A network, analysed through the interface of WeightWatcher 0.7.

    >>> from weightsmith.networks import mlp
    >>> watcher = WeightWatcher(model=mlp(64, 32, 10, seed=0))
    >>> [(row["layer_id"], row["name"], row["num_evals"], round(row["alpha"], 2)) for row in watcher.rows()]
    [(2, 'dense1', 32, 5.35), (4, 'output', 10, 1.83)]
    """

    def __init__(self, model: Network | None = None) -> None:
        self.model = model
        self.details: Any = None

    def analyze(self, model: Network | None = None, **asked: Any) -> Any:
        """A pandas table with a row for each layer; the keywords are those of :meth:`rows`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra(
                "analyze(), which returns a pandas table (rows() is the same without pandas),", "compat"
            ) from error
        self.details = pd.DataFrame(self.rows(model, **asked))
        return self.details

    def rows(
        self,
        model: Network | None = None,
        *,
        layers: Sequence[int | str] = (),
        min_evals: int = 8,
        pool: bool = True,
        mp_fit: bool = False,
        randomize: bool = False,
        detX: bool = False,  # noqa: N803 (their name)
        ERG: bool = False,  # noqa: N803 (their name)
        svd_method: str = "fast",
        tolerance: float = 1e-6,
        start_ids: int = 0,
        base_model: Network | None = None,
        **others: Any,
    ) -> list[Row]:
        """The rows of :meth:`analyze`, without pandas. A keyword that has no meaning here is refused if it is set."""
        for name, value in others.items():
            if value:
                raise UsageError(f"{name}={value!r} is not supported: {_INSTEAD.get(name, 'see docs/coming_from.md')}")
        if svd_method not in _METHODS:
            raise UnknownName("svd_method", svd_method, list(_METHODS))
        self.model = self.model if model is None else model
        if self.model is None:
            raise UsageError("no model is given: use WeightWatcher(model=…) or analyze(model=…)")
        grades = grade(
            self.model,
            conv="pooled" if pool else "slices",
            cut="erg" if detX or ERG else "ks",
            method=_METHODS[svd_method],  # type: ignore[arg-type]
            evidence="full" if randomize else "fast",
            base=base_model,
        )
        ids = _ids(self.model, grades, start_ids)
        wanted = _wanted(layers, ids)
        return [
            _row(layer, ids[layer.name], tolerance)
            | (_noise(layer) if mp_fit else {})
            | (_twin(layer) if randomize else {})
            for layer in grades.layers
            if layer.evals >= min_evals and layer.name in wanted
        ]

    def get_details(self) -> Any:
        """The table of the last :meth:`analyze`."""
        return self.details

    def get_summary(self, details: Any = None) -> dict[str, float]:
        """The mean of each metric over the layers that have it: of a table, of rows, or of the last analysis."""
        found = self.details if details is None else details
        if found is None:
            found = self.rows()
        rows = found if isinstance(found, list) else found.to_dict("records")
        return {name: fmean(values) for name in _SUMMARY if (values := _numbers(row.get(name) for row in rows))}

    def get_ESD(self, layer: int | str) -> NDArray[np.float64]:  # noqa: N802 (their name)
        """All eigenvalues of a layer, by its id or its name, ascending, pooled over its kernel positions."""
        if self.model is None:
            raise UsageError("no model is given: use WeightWatcher(model=…)")
        grades = grade(self.model, evidence="none")
        (name,) = _wanted([layer], _ids(self.model, grades, 0))
        found = next(graded for graded in grades.layers if graded.name == name)
        return np.concatenate([np.zeros(found.evals - found.eigenvalues.size), found.eigenvalues])


def _ids(model: Any, grades: Grades, first: int) -> dict[str, int]:
    """A number for each graded layer: its place among the modules, or among the layers of a file."""
    names = list(dict.fromkeys(layer.name for layer in grades.layers))
    if not isinstance(model, nn.Module):
        return {name: first + place for place, name in enumerate(names)}
    places = {name: first + place for place, (name, _) in enumerate(model.named_modules(remove_duplicate=False))}
    return {name: places[max((owner for owner in places if _owns(owner, name)), key=len)] for name in names}


def _owns(owner: str, name: str) -> bool:
    return owner in ("", name) or name.startswith(f"{owner}.")


def _wanted(layers: Sequence[int | str], ids: Mapping[str, int]) -> set[str]:
    """The layer names selected by ids or names; negative ids exclude layers, as there. An empty selection means all."""
    for given in layers:
        if not any(_means(given, name, number) for name, number in ids.items()):
            raise UnknownName("layer", str(given), [f"{number} ({name})" for name, number in ids.items()][:12])
    left_out = [given for given in layers if isinstance(given, int) and given < 0]
    chosen = [given for given in layers if given not in left_out]
    return {
        name
        for name, number in ids.items()
        if (not chosen or any(_means(given, name, number) for given in chosen))
        and not any(_means(given, name, number) for given in left_out)
    }


def _means(given: int | str, name: str, number: int) -> bool:
    if isinstance(given, str):
        return given in (name, name.rpartition(".")[2])
    return abs(given) == number


def _row(layer: LayerGrade, number: int, tolerance: float) -> Row:
    metrics, fit = layer.metrics, layer.fit
    row: Row = {
        "layer_id": number,
        "name": layer.name.rpartition(".")[2],
        "D": None if fit is None else fit.D,
        "M": layer.M,
        "N": layer.N,
        "Q": layer.N / layer.M,
        "alpha": layer.alpha,
    }
    if layer.slice is not None:
        row["slice_id"] = layer.slice
    for name in ("alpha_weighted", "entropy", "lambda_max", "log_alpha_norm", "log_norm", "log_spectral_norm"):
        row[name] = None if metrics is None else getattr(metrics, name)
    row |= {
        "has_esd": metrics is not None,
        "layer_type": _TYPES.get(layer.kind, layer.kind.lower()),
        "longname": layer.name,
        "matrix_rank": None if metrics is None else metrics.rank,
        "norm": None if metrics is None else metrics.norm,
        "num_evals": layer.evals,
        "num_pl_spikes": None if fit is None else fit.tail,
        "rank_loss": None if metrics is None else metrics.rank_loss,
        "rf": layer.matrices,
        "sigma": None if fit is None else fit.sigma,
        "spectral_norm": None if metrics is None else metrics.lambda_max,
        "stable_rank": None if metrics is None else metrics.stable_rank,
        "status": "success" if layer.fitted else "failed",
        "sv_max": None if metrics is None else metrics.sv_max,
        "sv_min": None if metrics is None else metrics.sv_min,
        "warning": _warning(layer.alpha),
        "weak_rank_loss": layer.evals - int((layer.eigenvalues >= tolerance).sum()) if metrics is not None else None,
        "xmax": None if metrics is None else metrics.lambda_max,
        "xmin": None if fit is None else fit.xmin,
        "alpha_low": layer.alpha_low,
        "alpha_high": layer.alpha_high,
        "verdict": layer.words,
    }
    return row


def _warning(alpha: float | None) -> str:
    if alpha is None:
        return ""
    return "over-trained" if alpha < HEAVIEST else "under-trained" if alpha > LIGHTEST else ""


def _noise(layer: LayerGrade) -> Row:
    bulk = layer.bulk
    names = {
        "num_spikes": "spikes",
        "sigma_mp": "sigma",
        "mp_softrank": "soft_rank",
        "bulk_min": "low",
        "bulk_max": "high",
    }
    return {theirs: None if bulk is None else getattr(bulk, ours) for theirs, ours in names.items()}


def _twin(layer: LayerGrade) -> Row:
    twin = layer.twin
    return {
        "rand_distance": None if twin is None else twin.distance,
        "num_traps": None if twin is None else twin.traps,
        "max_rand_eval": None if twin is None else twin.lambda_max,
    }


def _numbers(cells: Iterable[Any]) -> list[float]:
    """The cells that are numbers: a missing cell is None in rows and NaN in a table."""
    return [float(cell) for cell in cells if cell is not None and not math.isnan(cell)]
