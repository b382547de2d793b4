from __future__ import annotations

import subprocess
import sys

import pytest

from weightsmith.chain.linked_options import LINKS
from weightsmith.chain.prices import Synaptic, Units
from weightsmith.chain.stages import KINDS, VERBS
from weightsmith.core.errors import OptionError, UnknownName


def option(kind, name):
    return next(each for each in LINKS[kind] if each.name == name)


def test_a_link_is_an_option_of_its_stage_in_place_of_the_verbs():
    for kind, links in LINKS.items():
        assert kind in VERBS
        for link in links:
            assert KINDS[kind][link.name] is link


@pytest.mark.parametrize(
    ("kind", "name", "text", "value"),
    [
        ("reduce", "price", "units", Units()),
        ("reduce", "price", "synaptic:steps=8", Synaptic(steps=8)),
        ("train", "watch", "alpha,angles", ("alpha", "angles")),
        ("train", "preset", "spike-ready", "spike-ready"),
        ("train", "network", "mlp:8", "mlp:8"),
    ],
)
def test_text_is_read(kind, name, text, value):
    assert option(kind, name).read(text) == value


@pytest.mark.parametrize(
    ("kind", "name", "text", "error", "message"),
    [
        ("reduce", "price", "unit", UnknownName, "did you mean 'units'"),
        ("train", "watch", "alfa", OptionError, "watch must be one of alpha, angles, rates, not 'alfa'"),
        ("train", "network", " ", OptionError, "network must be text"),
    ],
)
def test_what_is_wrong_is_named(kind, name, text, error, message):
    with pytest.raises(error, match=message):
        option(kind, name).read(text)


def test_help_can_be_made_of_it_without_torch():
    program = "import sys, weightsmith.chain.linked_options; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
