"""The grid of a sweep shows the accuracy of every setting, and frames what was chosen."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.patches import Rectangle

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.reporting.figures.spiking.thresholds import draw_thresholds, threshold_cells
from weightsmith.reporting.figures.style import ORANGE
from weightsmith.spiking.sweep.results import Chosen, Setting, SettingResult, SpikeSweep


def result(leak, factor, correct, *, reset="soft", smoothing=None, seen=100):
    return SettingResult(Setting(leak, reset, factor, smoothing), seen, correct, seen < 100)


def chosen(leak, steps, baseline, adjusted=None, reset="soft"):
    same = mcnemar([1, 0], [1, 0])
    test = wilson(9, 10)
    more = (None, None, None) if adjusted is None else (adjusted, test, same)
    return Chosen(leak, reset, steps, baseline, more[0], test, more[1], more[2], same)


@pytest.fixture
def sweep():
    table = (
        result(0.9, 0.5, (10, 60)),
        result(0.9, 1.0, (5, 20), seen=50),
        result(1.0, 0.5, (30, 80)),
        result(1.0, 1.0, (20, 90)),
        result(0.9, 0.5, (11, 61), smoothing=1.0),
        result(0.9, 0.5, (15, 59), smoothing=5.0),
        result(1.0, 1.0, (40, 95), smoothing=1.0),
    )
    winners = (
        chosen(0.9, 8, table[0].setting, table[4].setting),
        chosen(1.0, 8, table[3].setting, table[6].setting),
        chosen(0.9, 4, table[0].setting, table[5].setting),
    )
    return SpikeSweep({}, "mlp:4", "test", 100, 10, wilson(9, 10), (4, 8), table, winners, (), Origin(0, {}, {}))


def test_cells_are_shares_of_the_images_seen_and_the_best_smoothing_counts(sweep):
    cells = threshold_cells(sweep, 8)
    assert list(cells) == [("soft", False), ("soft", True)]
    # Leaks from the largest, factors from the smallest.
    np.testing.assert_allclose(cells["soft", False], [[80, 90], [60, 40]])
    np.testing.assert_allclose(cells["soft", True], [[math.nan, 95], [61, math.nan]])
    np.testing.assert_allclose(threshold_cells(sweep, 4)["soft", True], [[math.nan, 40], [15, math.nan]])


def test_panels_show_the_cells_and_frame_the_chosen(sweep):
    figure = draw_thresholds(sweep)
    upper, lower, _ = figure.axes
    np.testing.assert_allclose(upper.images[0].get_array(), [[80, 90], [60, 40]])
    assert sorted(text.get_text() for text in upper.texts) == ["40.0", "60.0", "80.0", "90.0"]
    assert sorted(text.get_text() for text in lower.texts) == ["61.0", "95.0"]
    frames = [patch.get_xy() for patch in upper.patches if isinstance(patch, Rectangle)]
    assert frames == [(-0.5, 0.5), (0.5, -0.5)]  # leak 0.9 at factor 0.5, leak 1 at factor 1
    assert all(same_color(patch.get_edgecolor(), ORANGE) for patch in upper.patches)
    assert [text.get_text() for text in upper.get_yticklabels()] == ["1", "0.9"]
    assert [text.get_text() for text in lower.get_xticklabels()] == ["0.5", "1"]
    assert [panel.get_title(loc="left") for panel in (upper, lower)] == ["soft reset, baseline", "soft reset, adjusted"]
    assert "After 8 steps" in figure.get_suptitle()
    assert len(draw_thresholds(sweep, 4).axes[1].patches) == 1


def test_a_reset_that_lacks_a_kind_has_an_empty_panel_and_one_value_a_colour(sweep):

    one = dataclasses.replace(sweep, table=(result(1.0, 1.0, (0, 0)), result(1.0, 1.0, (0, 0), reset="hard")))
    one = dataclasses.replace(one, chosen=())
    figure = draw_thresholds(one)
    assert [panel.get_title(loc="left") for panel in figure.axes[:2]] == [
        "soft reset, baseline",
        "hard reset, baseline",
    ]
    mixed = dataclasses.replace(one, table=(*one.table, result(1.0, 1.0, (1, 2), smoothing=1.0)))
    figure = draw_thresholds(mixed)
    assert [len(panel.images) for panel in figure.axes[:4]] == [1, 1, 1, 0]
    figure.draw_without_rendering()


def test_a_large_grid_has_no_numbers_and_an_empty_one_is_refused(sweep):

    wide = tuple(result(1.0, factor / 10, (1, 2)) for factor in range(1, 40))
    figure = draw_thresholds(dataclasses.replace(sweep, table=wide, chosen=()))
    assert not figure.axes[0].texts
    assert len(figure.axes[0].get_xticks()) <= 24
    with pytest.raises(UsageError, match="no settings"):
        draw_thresholds(dataclasses.replace(sweep, table=()))
    with pytest.raises(UsageError, match="after 4, 8 steps, not after 5"):
        draw_thresholds(sweep, 5)
