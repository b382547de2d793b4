from __future__ import annotations

import pytest

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.data.datasets import Folder, Table
from weightsmith.data.sources import Source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("folder:photos", Folder("photos")),
        ("folder:photos,size=32", Folder("photos", (32,))),
        ("folder:my photos/a,size=[32,48]", Folder("my photos/a", (32, 48))),
        ("table:a.csv,label=emotion", Table("a.csv", "emotion")),
        ('table:"a,b.xlsx",sheet=Sheet 2,header=no', Table("a,b.xlsx", sheet="Sheet 2", header="no")),
    ],
)
def test_one_text_form(text, source):
    assert Source.parse(text) == source
    assert Source.parse(str(source)) == source
    assert Source.from_dict(source.to_dict()) == source


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("folder", OptionError, "needs path"),
        ("folder:a,size=0", OptionError, "≥ 1"),
        ("folder:a,size=[1,2,3]", OptionError, "not 3 numbers"),
        ("table:a.csv,header=maybe", OptionError, "auto, yes, no"),
        ("table:a.csv,lable=x", OptionError, "did you mean 'label'"),
        ("tables:a.csv", UnknownName, "did you mean 'table'"),
    ],
)
def test_wrong_text_is_named(text, error, message):
    with pytest.raises(error, match=message):
        Source.parse(text)
