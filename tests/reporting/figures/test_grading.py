"""All figures of grading are to be had under one name, and have the same bytes in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weightsmith.core.storage import file_digest
from weightsmith.reporting.figures import grading

DRAW = """
import sys
import numpy as np
from weightsmith.core.statistics import Interval
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.results import Coverage, Grades, LayerGrade, Status, Verdict, VerdictKind
from weightsmith.reporting.figures import grading

values = np.sort(np.random.default_rng(0).pareto(2.0, 400) + 1)
fit = fit_power_law(values)
layer = LayerGrade("a", "Linear", (9, 9), 81, 9, 9, 1, 400, Status.FITTED, Verdict(VerdictKind.WELL_TRAINED, "so"),
                   fit=fit, interval=Interval(fit.alpha, 2.5, 3.5, 0.95, "by hand"), eigenvalues=values)
network = Grades("net.pt", {}, (layer, layer), (), Coverage(2, 2, 162, 162))
figures = {"spectrum": grading.spectrum_figure(layer), "cut": grading.cut_figure(layer),
           "alpha": grading.alpha_figure(network), "histogram": grading.alpha_histogram([network, network])}
for name, figure in figures.items():
    for suffix in ("svg", "png", "pdf"):
        grading.save_figure(figure, f"{sys.argv[1]}/{name}.{suffix}")
assert "matplotlib.pyplot" not in sys.modules
"""


def test_the_list_is_what_the_command_line_draws():
    drawn = {"alpha_figure", "alpha_histogram", "comparison_figure", "cut_figure", "shares_figure", "spectrum_figure"}
    drawn |= {"epochs_figure"}
    assert set(grading.__all__) == {*drawn, "save_figure"}


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_process_or_the_users_settings(tmp_path):
    changed = "import matplotlib; matplotlib.rcParams.update({'font.size': 20, 'lines.linewidth': 9})\n"
    found = []
    for index, before in enumerate(("", changed)):
        folder = tmp_path / str(index)
        folder.mkdir()
        subprocess.run([sys.executable, "-c", before + DRAW, str(folder)], check=True)
        found.append({path.name: file_digest(path) for path in sorted(folder.iterdir())})
    assert found[0] == found[1]
    assert len(found[0]) == 12
