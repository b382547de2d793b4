from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.core.text import quote, read_share, read_value, split_items

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@given(values)
def test_quote_and_read_are_inverse(value):
    back = read_value(quote(value))
    assert back == value
    assert type(back) is type(value)


@given(st.lists(values, max_size=4), st.dictionaries(st.from_regex(r"[a-z_][a-z_0-9]*", fullmatch=True), values))
def test_items_are_split_as_they_were_joined(plain, named):
    text = ",".join([*map(quote, plain), *(f"{key}={quote(value)}" for key, value in named.items())])
    positional, keyed = split_items(text, text)
    assert [read_value(item) for item in positional] == plain
    assert {key: read_value(item) for key, item in keyed} == named


@given(st.text())
def test_any_text_is_read_or_refused_by_name(text):
    message = repr(text)
    try:
        split_items(text, text)
    except OptionError as error:
        message = str(error)
    assert repr(text) in message


@pytest.mark.parametrize("text", ["", "%", "-5%", "0", "nan", "inf", "a third", True, None])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(OptionError, match="such as 0.3 or 30%"):
        read_share(text)


def test_a_percentage_without_its_sign_is_told():
    with pytest.raises(OptionError, match="did you mean 50%"):
        read_share(50)
