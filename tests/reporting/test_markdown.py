from __future__ import annotations

from weightsmith.reporting.markdown import markdown
from weightsmith.reporting.parts import Choice, Column, Drawing, Facts, Notes, Prose, Section, Shown, Table


def no_figure():
    raise AssertionError("a figure is drawn by its caller")


TABLE = Table("Sizes", (Column("layer"), Column("units", numeric=True)), (("a|b", 12345), ("c<d", Shown(0.5, "50 %"))))
SECTION = Section(
    "All *kinds*",
    "First.\n\nSecond.",
    (
        TABLE,
        Drawing("Curve", "How to read it.", no_figure, []),
        Facts("Made", (("seed", "0"),)),
        Notes(("one note",)),
        Choice("Layer", (("fc1", (Prose("inside"),)),)),
        Table("", (Column("page"),), ((Shown("page", "[page](a.md)"),), (Shown("evil", "[page](a.md)"),))),
    ),
    chips=(("accuracy", "91 %"),),
    about="About it.",
    look_at=("this",),
    try_next=("that",),
)


def test_everything_is_written_and_foreign_text_is_escaped():
    page = markdown(SECTION, {"Curve": "curve.svg"})
    assert page.startswith("# All \\*kinds\\*\n\nAbout it.\n\nFirst.\n\nSecond.\n\n- accuracy: 91 %\n\n## Sizes\n")
    assert "| layer | units |\n|---|---|\n| a\\|b | 12,345 |\n| c\\<d | 50 % |" in page
    assert "![Curve](curve.svg)\n\nHow to read it." in page
    for line in ("- seed: 0", "- one note", "### fc1", "inside", "## Look at\n\n- this", "## Try next\n\n- that"):
        assert line in page
    assert "| [page](a.md) |\n| \\[page\\](a.md) |" in page  # only a link whose words are the value is one


def test_drawings_without_a_file_are_left_out():
    assert "Curve" not in markdown(SECTION)
