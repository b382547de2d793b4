"""The look and the bytes of figures do not depend on the user, the moment or the process; nothing global is changed."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import pytest

from weightsmith.core.errors import UsageError
from weightsmith.core.storage import file_digest
from weightsmith.reporting.figures.style import house_style, new_figure, save_figure

DRAW = """
import sys
from weightsmith.reporting.figures.style import house_style, new_figure, save_figure
with house_style():
    figure, axes = new_figure(3, 2, 2)
    axes[0].plot([1, 2, 3], [1.0, 4.0, 9.0], marker="o", label="a line")
    axes[1].axhspan(0, 1, alpha=0.1)
    axes[0].legend()
for path in sys.argv[1:]:
    save_figure(figure, path)
assert "matplotlib.pyplot" not in sys.modules
"""


def draw(folder, before=""):
    paths = [folder / f"figure.{suffix}" for suffix in ("png", "svg", "pdf")]
    subprocess.run([sys.executable, "-c", before + DRAW, *map(str, paths)], check=True)
    return paths


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("plain"))


@pytest.mark.slow
def test_the_same_bytes_whatever_the_process_and_the_users_settings(plain, tmp_path):
    changed = (
        "import matplotlib; matplotlib.rcParams.update({'font.size': 20, 'axes.grid': False, 'svg.hashsalt': 'x'})"
    )
    other = draw(tmp_path, changed)
    assert [file_digest(path) for path in plain] == [file_digest(path) for path in other]


def test_each_format_is_what_its_suffix_says_and_tells_no_date(plain):
    png, svg, pdf = (path.read_bytes() for path in plain)
    assert png.startswith(b"\x89PNG")
    assert b"<svg" in svg
    assert pdf.startswith(b"%PDF")
    for content in (png, svg, pdf):
        assert b"Date" not in content
        assert mpl.__version__.encode() not in content


def test_settings_of_matplotlib_are_put_back(tmp_path):
    before = dict(mpl.rcParams)
    with pytest.raises(ZeroDivisionError), house_style():
        assert mpl.rcParams["font.size"] == 8
        figure, _ = new_figure(2, 2)
        save_figure(figure, tmp_path / "figure.svg")
        raise ZeroDivisionError
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ["figure.gif", "figure"])
def test_other_suffixes_are_refused(tmp_path, name):
    with house_style():
        figure, _ = new_figure(2, 2)
    with pytest.raises(UsageError, match="written as .png, .svg or .pdf"):
        save_figure(figure, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_rows_share_their_x_axis_and_have_the_heights_asked_for():
    with house_style():
        figure, axes = new_figure(4, 4, 2, heights=(3, 1))
        axes[0].set_xlim(2, 5)
        figure.draw_without_rendering()
    assert axes[1].get_xlim() == (2, 5)
    heights = [one.get_position().height for one in axes]
    assert heights[0] == pytest.approx(3 * heights[1], rel=0.05)
