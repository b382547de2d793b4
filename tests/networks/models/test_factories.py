"""Networks of the user's own by name: what is imported, with which options, and what a recipe may import."""

import sys

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.networks.card import card_of
from weightsmith.networks.models.building import build
from weightsmith.networks.models.factories import Factory, check_leave, is_factory

CODE = """
from torch import nn
from beside_nets import Wide

class PartNet(nn.Sequential):
    def __init__(self, width=8, kind="plain"):
        layers = [nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10)]
        super().__init__(*layers)
        self.kind = kind

def broken():
    raise KeyError("no such layer")

def number():
    return 7
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "part_nets.py").write_text(CODE)
    (tmp_path / "nets" / "beside_nets.py").write_text("Wide = 3\n")
    (tmp_path / "bad_nets.py").write_text("import torch\nraise RuntimeError('not today')\n")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition("_")[0] in ("part", "beside", "bad", "torchgen"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mynet:PartNet", True),
        ("package.mynet:PartNet,width=32", True),
        ("nets/mynet.py:PartNet", True),
        ("/a b/mynet.py:PartNet,width=3,kind=wide", True),
        ("mlp:300,100", False),
        ("mlp:a", False),
        ("mynet:300", False),
        ("mynet", False),
        ("runs/net.safetensors", False),
    ],
)
def test_what_is_the_name_of_a_class_or_function(text, expected):
    assert is_factory(text) is expected


@pytest.mark.parametrize(
    "text", ["mynet:PartNet", "nets/mynet.py:PartNet,width=32,kind=wide", 'm:F,sizes=[1,2],name="a,b"']
)
def test_the_text_form_survives(text):
    assert str(Factory.parse(text)) == text
    assert Factory.parse(str(Factory.parse(text))) == Factory.parse(text)


def test_a_file_of_python_is_imported_with_what_lies_beside_it(folder):
    network = build("nets/part_nets.py:PartNet,width=32,kind=wide")
    assert (network[1].out_features, network.kind) == (32, "wide")
    assert card_of(network).factory == "nets/part_nets.py:PartNet,width=32,kind=wide"
    assert type(build("nets/part_nets.py:PartNet")) is type(network)  # imported once
    assert str(folder / "nets") not in sys.path


def test_two_files_of_one_name_are_two_modules(folder):
    (folder / "part_nets.py").write_text(
        "from torch import nn\nclass PartNet(nn.Linear):\n    def __init__(self): super().__init__(2, 2)\n"
    )
    first, second = build("nets/part_nets.py:PartNet"), build("part_nets.py:PartNet")
    assert type(first).__mro__[1] is torch.nn.Sequential
    assert type(second).__mro__[1] is torch.nn.Linear


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nets/part_nets.py:PartNt", "has no 'PartNt'; did you mean 'PartNet'"),
        ("nets/part_nets.py:PartNet,wdth=3", r"unexpected keyword argument 'wdth'.*its parameters are \(width=8"),
        ("nets/part_nets.py:PartNet,3", "given by name"),
        ("nets/part_nets.py:broken", "fails .*no such layer"),
        ("nets/part_nets.py:number", "gives a int, not a torch.nn.Module"),
        ("nets/other.py:PartNet", "no such file"),
        ("nets/part_net.py:PartNet", "no such file; did you mean 'part_nets.py'"),
        ("nets/part_nets.py", "name its class: nets/part_nets.py:PartNet"),
        ("nets/part_nets.py:PartNet,width=abc", "width takes a number, such as its default 8, not 'abc'"),
        ("bad_nets:PartNet", "importing bad_nets fails .*not today"),
        ("missing_nets:PartNet", "no module 'missing_nets'"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_line(folder, text, message):
    with pytest.raises(UsageError, match=message):
        build(text)


def test_installed_packages_need_no_leave_and_are_not_looked_for_in_the_folder(folder):
    assert Factory.parse("torch.nn:Identity").is_installed
    assert not Factory.parse("part_nets:PartNet").is_installed
    assert not Factory.parse("nets/part_nets.py:PartNet").is_installed
    check_leave("torch.nn:Identity", allow_code=False, where="train.network")
    check_leave("mlp:3", allow_code=False, where="train.network")
    check_leave("part_nets:PartNet", allow_code=True, where="train.network")
    with pytest.raises(
        UsageError, match=r"train.network: would import part_nets, which is not an installed package.*--allow-code"
    ):
        check_leave("part_nets:PartNet", allow_code=False, where="train.network")
    (folder / "torchgen.py").write_text("raise RuntimeError('the file in the folder')\n")
    with pytest.raises(UsageError, match="has no 'PartNet'"):
        build("torchgen:PartNet")


def test_a_sweep_varies_the_options_of_a_class(folder):
    from weightsmith.training.sweep import train_sweep

    settings = ws.grid(width=(4, 6))
    found = train_sweep("digits", settings, seeds=(0,), network="nets/part_nets.py:PartNet", epochs=1, validation=0.1)
    assert [row["parameters"] for row in found.rows] == [64 * 4 + 4 + 4 * 10 + 10, 64 * 6 + 6 + 6 * 10 + 10]
