"""The section of angles holds the pairs and the maps of every layer, and without matrices the pairs alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice, Drawing, Facts
from weightsmith.reporting.sections import angles as module
from weightsmith.reporting.sections.angles import angles_section


@pytest.fixture(scope="module")
def found():
    network = ws.networks.mlp(64, 14, 9, 10, activation="sigmoid")
    return ws.angles(network, "digits", angle=40, top=6)


def test_the_lead_and_chips_count_pairs_and_what_is_left(found, read):
    sites, section = found.record.sites, angles_section(found, "near")
    similar, complementary = sum(site.similar for site in sites), sum(site.complementary for site in sites)
    assert similar > 1  # else this test would say little
    assert section.title == "Angles: near"
    assert f"{similar} pairs of units lie within 40° of each other (similar) and {complementary} within" in section.lead
    assert f"would leave {sum(site.left for site in sites)} of 23 units" in section.lead
    chips = read(section).chips
    assert chips["units"] == "23"
    assert chips["similar pairs within 40°"] == str(similar)
    nearest = min((site.pairs[0].degrees for site in sites), key=lambda angle: min(angle, 180 - angle))
    assert chips["nearest pair"] == f"{nearest:.1f}°"


def test_no_pair_within_the_angle_is_said_so(found):
    sites = tuple(dataclasses.replace(site, similar=0, complementary=0, left=site.units) for site in found.record.sites)
    lead = angles_section(dataclasses.replace(found.record, sites=sites), "x").lead
    assert "has another within 40°; merging would leave 23 of 23 units" in lead
    assert lead.startswith("No unit of ")


def test_every_layer_has_its_map_its_tree_and_its_pairs(found, read):
    section = angles_section(found, "x")
    reader = read(section)
    (choice,) = reader.of(Choice)
    assert [label for label, _ in choice.options] == ["dense1", "dense2"]
    near = [site.similar + site.complementary for site in found.record.sites]
    assert choice.first == near.index(max(near))
    assert reader.drawings == ["Angles in dense1", "Groups in dense1", "Angles in dense2", "Groups in dense2"]
    for site in found.record.sites:
        rows = reader.table(f"Nearest pairs of {site.name}")
        assert [row["pair"] for row in rows] == [f"{pair.a}, {pair.b}" for pair in site.pairs]
        assert [row["angle"] for row in rows] == [pair.degrees for pair in site.pairs]
        within = [row["within 40°"] == "yes" for row in rows]
        assert within == [min(pair.degrees, 180 - pair.degrees) < 40 for pair in site.pairs]
    reader.draw_all()


def test_the_rows_of_the_map_are_the_angles_of_all_pairs(found, read):
    degrees = found.degrees("dense1")
    rows = read(angles_section(found, "x")).drawing("Angles in dense1").rows
    assert len(rows) == 14 * 13 // 2
    assert [row["degrees"] for row in rows] == pytest.approx(
        [degrees[row["unit"], row["other"]] for row in rows], rel=1e-5
    )


def test_of_many_pairs_those_furthest_from_a_right_angle_are_listed(monkeypatch, found, read):
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    degrees = found.degrees("dense1")[np.triu_indices(14, 1)]
    rows = read(angles_section(found, "x")).drawing("Angles in dense1").rows
    furthest = np.sort(np.abs(degrees - 90))[-5:]
    assert sorted(abs(row["degrees"] - 90) for row in rows) == pytest.approx(furthest, rel=1e-4)


def test_the_rows_of_the_tree_join_all_units_the_nearest_first(found, read):
    degrees = found.degrees("dense2")
    near = np.minimum(degrees, 180 - degrees)
    rows = read(angles_section(found, "x")).drawing("Groups in dense2").rows
    assert [row["join"] for row in rows] == list(range(9, 17))
    heights = [row["degrees"] for row in rows]
    assert heights == sorted(heights)
    assert heights[0] == pytest.approx(near[np.triu_indices(9, 1)].min(), rel=1e-5)
    assert rows[-1]["units"] == 9
    # The last join is as high as the furthest two units of its two groups, whose members the rows tell.
    members = {unit: [unit] for unit in range(9)}
    for row in rows:
        one, other = members[row["one"]], members[row["other"]]
        assert row["degrees"] == pytest.approx(near[np.ix_(one, other)].max(), rel=1e-5)
        members[row["join"]] = one + other


def test_the_overview_has_a_row_per_layer_and_no_empty_columns(found, read):
    rows = read(angles_section(found, "x")).table("Layers")
    for row, site in zip(rows, found.record.sites, strict=True):
        assert (row["layer"], row["units"], row["left"]) == (site.name, site.units, site.left)
        assert (row["similar"], row["complementary"]) == (site.similar, site.complementary)
        assert row["activation"] == "sigmoid, from 0.5"
    sites = tuple(dataclasses.replace(site, constant=(), short=(), combined=(1, 2)) for site in found.record.sites)
    (row, _) = read(angles_section(dataclasses.replace(found.record, sites=sites), "x")).table("Layers")
    assert row["joint"] == 2
    assert not {"constant", "short"} & set(row)


def test_a_record_without_matrices_has_pairs_but_no_maps(found, read):
    reader = read(angles_section(found.record, "x"))
    assert reader.drawings == []
    assert len(reader.table("Nearest pairs of dense1")) == 6
    assert "are drawn" not in reader.prose


def test_of_many_layers_those_with_most_near_pairs_are_drawn(monkeypatch, found, read):
    monkeypatch.setattr(module, "_MOST_DRAWN", 1)
    near = {site.name: site.similar + site.complementary for site in found.record.sites}
    reader = read(angles_section(found, "x"))
    assert reader.drawings == [f"{kind} in {max(near, key=near.get)}" for kind in ("Angles", "Groups")]
    assert "Of 2 layers the 1 with the most near pairs are drawn." in reader.prose


def test_units_that_could_go_are_named_and_notes_stand_first(found, read):
    first, second = found.record.sites
    sites = (
        dataclasses.replace(first, groups=((3, 5), (1, 7, 9)), constant=tuple(range(14)), notes=("odd",)),
        dataclasses.replace(second, groups=(), combined=(), constant=(), short=()),
    )
    reader = read(angles_section(dataclasses.replace(found.record, sites=sites), "x"))
    named = [pair for part in reader.of(Facts) if not part.detail for pair in part.pairs]
    assert ("groups that would be merged into their first unit", "2: 3 + 5, 1 + 7 + 9") in named
    assert ("units that hardly vary", "14: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more") in named
    assert reader.notes == ["dense1: odd"]


def test_a_network_without_hidden_units_has_a_section_too(found, read):
    record = dataclasses.replace(found.record, sites=())
    reader = read(angles_section(record, "x"))
    assert "has no hidden units" in reader.section.lead
    assert reader.table("Layers that are never cut") == [{"why": record.obstacles["output"], "layers": "output"}]
    assert reader.facts["angle"] == "40.0"


def test_a_single_unit_has_no_tree_and_names_cannot_act(hostile, read):
    network = ws.networks.mlp(64, 1, 3, 10, activation="sigmoid")
    found = ws.angles(network, "digits", angle=40, rows=50)
    names = {"dense1": f"{hostile}1", "dense2": f"{hostile}2"}
    sites = tuple(dataclasses.replace(site, name=names[site.name], notes=(hostile,)) for site in found.record.sites)
    record = dataclasses.replace(found.record, sites=sites, network=hostile, obstacles={hostile: hostile})
    changed = dataclasses.replace(found, record=record, grams={names[key]: gram for key, gram in found.grams.items()})
    section = angles_section(changed, hostile)
    assert len(read(section).of(Drawing)) == 3
    page = render("x", [section])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
