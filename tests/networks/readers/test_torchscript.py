"""TorchScript archives: the values of the state dict, read without the program that comes with them."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from weightsmith.core.errors import FileRefused
from weightsmith.grading.grade import grade
from weightsmith.networks.readers.torchscript import TorchScriptWeights
from weightsmith.networks.weights import open_weights


def saved(module: nn.Module, path: Path) -> dict[str, torch.Tensor]:
    """The archive of a scripted module, and its state dict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(str(path))
    return module.state_dict()


def network() -> nn.Module:
    torch.manual_seed(0)
    shared = nn.Linear(16, 16)
    inner = nn.Sequential(nn.BatchNorm1d(16), shared)
    return nn.Sequential(nn.Linear(20, 16).half().float(), inner, nn.ReLU(), shared)


def rewritten(path: Path, **members: bytes) -> Path:
    """The same archive with other content in some members."""
    target = path.with_name("other.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            own = info.filename.partition("/")[2].replace(".", "_")
            new.writestr(info.filename, members.get(own, old.read(info)))
    return target


def test_values_are_those_of_the_state_dict_and_nothing_is_run(tmp_path, monkeypatch):
    state = saved(network(), tmp_path / "n.pt")
    for name in ("load", "script"):
        monkeypatch.setattr(torch.jit, name, lambda *_, **__: pytest.fail("the program was loaded"))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("torch read the file"))
    found = open_weights(tmp_path / "n.pt")
    assert isinstance(found, TorchScriptWeights)
    assert list(found.entries) == list(state)
    for name, value in state.items():
        assert torch.equal(found.tensor(name), value), name
    assert found.aliases == {"3.weight": "1.1.weight", "3.bias": "1.1.bias"}
    assert [layer.name for layer in grade(tmp_path / "n.pt", evidence="none").layers] == ["0", "1.1"]


def test_a_view_with_strides_is_read_as_it_is(tmp_path):
    module = nn.Linear(3, 5)
    module.weight = nn.Parameter(torch.arange(40.0).reshape(5, 8)[:, 1:7:2])
    state = saved(module, tmp_path / "n.pt")
    assert torch.equal(open_weights(tmp_path / "n.pt").tensor("weight"), state["weight"])


def test_packed_weights_of_a_quantised_layer_are_named(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(16, 16), nn.Flatten()))
    quantised.add_module("plain", nn.Embedding(16, 16))  # left as it is
    saved_here = tmp_path / "n.pt"
    try:
        saved(quantised, saved_here)
    except RuntimeError as error:  # this build of torch has no engine for integers
        pytest.skip(str(error).splitlines()[0])
    found = open_weights(saved_here)
    assert list(found.entries) == ["plain.weight"]
    assert any("packed" in item.name for item in found.left_out)


class _Command:
    def __reduce__(self) -> Any:
        return print, ("run",)


def test_names_that_weights_never_need_are_refused(tmp_path, capsys):
    saved(network(), tmp_path / "n.pt")
    with pytest.raises(FileRefused, match="asks for"):
        open_weights(rewritten(tmp_path / "n.pt", data_pkl=pickle.dumps(_Command(), protocol=2)))
    assert capsys.readouterr().out == ""


def test_objects_that_contain_each_other_twice_are_refused(tmp_path):
    """Forty objects, each twice in the next, have 2⁴⁰ names."""
    saved(network(), tmp_path / "n.pt")
    new = b"c__torch__\nM\n)\x81"
    content = b"\x80\x02" + new + b"q\x00"
    for level in range(40):
        twice = b"".join(b"X\x01\x00\x00\x00" + key + b"h" + bytes([level]) for key in (b"a", b"b"))
        content += new + b"}(" + twice + b"ub" + b"q" + bytes([level + 1])
    with pytest.raises(FileRefused, match="more than 200,000 names"):
        open_weights(rewritten(tmp_path / "n.pt", data_pkl=content + b"."))


def test_a_damaged_or_foreign_archive_is_refused(tmp_path):
    saved(network(), tmp_path / "n.pt")
    with pytest.raises(FileRefused, match="big-endian"):
        open_weights(rewritten(tmp_path / "n.pt", byteorder=b"big"))
    with zipfile.ZipFile(tmp_path / "n.pt") as archive:
        size = len(archive.read("n/data/0"))
    with zipfile.ZipFile(tmp_path / "n.pt") as old, zipfile.ZipFile(tmp_path / "short.pt", "w") as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info.filename, content[:-4] if info.filename == "n/data/0" else content)
    with pytest.raises(FileRefused, match=f"claims {size:,} bytes and has {size - 4:,}"):
        open_weights(tmp_path / "short.pt")
    with zipfile.ZipFile(tmp_path / "empty.pt", "w") as new:
        new.writestr("n/constants.pkl", b"\x80\x02).")
    with pytest.raises(FileRefused, match=r"no data\.pkl"):
        open_weights(tmp_path / "empty.pt")
