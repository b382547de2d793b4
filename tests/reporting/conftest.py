"""Graded layers and networks built by hand, so that every number a figure shows is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weightsmith.core.records import Origin
from weightsmith.core.statistics import Interval
from weightsmith.grading.fits.cuts import SmallestDistance
from weightsmith.grading.fits.powerlaw import PowerLaw, fit_power_law
from weightsmith.grading.measures import measure_network
from weightsmith.grading.results import Coverage, Grades, LayerGrade, Omitted, Status, Verdict, VerdictKind
from weightsmith.grading.verdicts import not_fitted, verdict


def pareto(alpha: float, count: int, seed: int = 0) -> np.ndarray:
    """Eigenvalues with a tail of exponent α that begins at 1."""
    return np.sort(np.random.default_rng(seed).pareto(alpha - 1, count) + 1)


def layer(name: str, eigenvalues=(), *, interval: tuple[float, float] | None = None, **more) -> LayerGrade:
    """A layer with these eigenvalues and, if two of them differ, a fit."""
    values = np.sort(np.asarray(eigenvalues, np.float64))
    fit = fit_power_law(values) if values.size > 1 and "status" not in more else None
    about = {"kind": "Linear", "shape": (8, 8), "parameters": 64, "N": 8, "M": 8, "matrices": 1, "evals": values.size}
    if fit is None:
        status, reason = more.pop("status", Status.ZERO), more.pop("reason", "all weights are zero")
        shown = not_fitted(status, reason)
        return LayerGrade(
            name, **(about | {"status": status, "verdict": shown, "reason": reason} | more), eigenvalues=values
        )
    span = None if interval is None else Interval(fit.alpha, *interval, 0.95, "by hand")
    evidence = {"interval": span, "goodness": more.get("goodness"), "bulk": more.get("bulk")}
    shown = verdict(fit, evidence, float(values[-1]))
    about |= {"status": Status.FITTED, "verdict": shown, "fit": fit, "interval": span}
    return LayerGrade(name, **(about | more), eigenvalues=values)


def with_alpha(
    name: str, alpha: float, kind: VerdictKind = VerdictKind.WELL_TRAINED, low=None, high=None
) -> LayerGrade:
    """A layer of which only α, its interval and its verdict matter."""
    fit = PowerLaw(alpha, 0.1, 1.0, 0.05, 20, 30, SmallestDistance())
    span = None if low is None else Interval(alpha, low, high, 0.95, "by hand")
    return replace(layer(name, [1.0, 2.0]), fit=fit, interval=span, verdict=Verdict(kind, "by hand"))


def network(*layers: LayerGrade, source: str = "nets/small.safetensors", left_out: tuple[Omitted, ...] = ()) -> Grades:
    """A network of these layers."""
    fitted = [one for one in layers if one.fitted]
    sizes = [item.parameters for item in (*layers, *left_out)]
    coverage = Coverage(len(layers), len(fitted), sum(sizes), sum(one.parameters for one in fitted), left_out)
    origin = Origin(7, {"network": "0123456789abcdef" * 4}, {"weightsmith": "1.2.3", "numpy": "4.5.6"})
    settings = {"conv": "pooled", "evidence": "fast:200,0.95", "layers": None}
    return Grades(source, settings, layers, measure_network(layers), coverage, ("a note on the whole",), origin)


@pytest.fixture(scope="session")
def make_layer() -> Callable[..., LayerGrade]:
    return layer


@pytest.fixture(scope="session")
def make_alpha() -> Callable[..., LayerGrade]:
    return with_alpha


@pytest.fixture(scope="session")
def make_network() -> Callable[..., Grades]:
    return network


@pytest.fixture(scope="session")
def make_pareto() -> Callable[..., np.ndarray]:
    return pareto


@pytest.fixture(scope="session")
def hostile() -> str:
    """A name that means something to HTML, to matplotlib, to a terminal and to a spreadsheet."""
    return "=\"'><script>alert(1)</script>&amp;<!-- $\\frac{ ]]> 名\x1b[31m\u202e \ud800"


@pytest.fixture(scope="session")
def letters_of() -> Callable[[Any], list[str]]:
    """The texts that a figure draws, after drawing it."""

    def found(figure: Any) -> list[str]:
        from matplotlib.text import Text

        figure.draw_without_rendering()
        return [text.get_text() for text in figure.findobj(Text) if text.get_text()]

    return found
