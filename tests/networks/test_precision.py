from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.networks import precision
from weightsmith.networks.operations import operations
from weightsmith.networks.precision import how_python_ends, like_of
from weightsmith.reducing.latency import latency

# What happens where a CPU announces instructions that it does not have.
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
DIES_UNLESS_EASED = f"import os\nif os.environ.get('ONEDNN_MAX_CPU_ISA') != 'AVX512_CORE_VNNI': {DIES}"


@pytest.fixture
def trial(monkeypatch):
    """Sets what the child process does, and counts the children."""
    how_python_ends.cache_clear()
    started = []
    run = precision.subprocess.run

    def counted(words, **more):
        started.append(words[-1])
        return run(words, **more)

    def chosen(text: str) -> list[str]:
        monkeypatch.setattr(precision, "_TRIAL", text)
        return started

    monkeypatch.setattr(precision.subprocess, "run", counted)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    yield chosen
    how_python_ends.cache_clear()


def half(kind: torch.dtype = torch.bfloat16) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2).to(kind))


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_type_that_ends_python_is_refused_with_layer_and_way_out(trial, kind):
    trial(DIES)
    with pytest.raises(UsageError) as told:
        like_of(half(getattr(torch, kind)))
    assert str(told.value) == (
        f"2 is of type {kind}, and products of that type crash Python on this CPU (illegal instruction); "
        "make it float32 with network.float()"
    )


def test_a_setting_is_named_where_it_helps(trial):
    trial(DIES_UNLESS_EASED)
    with pytest.raises(
        UsageError, match=r"network\.float\(\), or start Python with ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI$"
    ):
        like_of(half())


def test_the_trial_is_made_once_and_only_for_what_runs_on_the_cpu(trial):
    started = trial("")
    like_of(half(torch.float32))
    like_of(half(torch.float64))
    like_of(half(), torch.device("meta"))
    like_of(half().to("meta"))
    assert started == []
    for _ in range(3):
        like_of(half())
    assert started == ["bfloat16"]
    like_of(half(torch.float16))
    assert started == ["bfloat16", "float16"]


def test_a_child_with_a_python_error_has_survived(trial):
    trial("raise RuntimeError('not implemented for Half')")
    assert how_python_ends(torch.float16) is None


def test_the_trial_itself_multiplies_in_the_type_asked_for(trial, monkeypatch):
    seen = []
    for name, product in (("Linear", nn.Linear.forward), ("Conv2d", nn.Conv2d.forward)):
        monkeypatch.setattr(
            getattr(nn, name), "forward", lambda self, x, f=product: seen.append((type(self), x.dtype)) or f(self, x)
        )
    monkeypatch.setattr("sys.argv", ["", "float64"])
    exec(precision._TRIAL)
    assert seen == [(nn.Linear, torch.float64), (nn.Conv2d, torch.float64)]


def test_without_parameters_float32_is_taken():
    assert like_of(nn.ReLU()).dtype == torch.float32
    assert like_of(half(torch.float64)[2]).dtype == torch.float64


RUNNING = {
    "evaluate": ws.evaluate,
    "train": lambda network, data: ws.train(network, data, epochs=1),
    "find_rate": ws.find_rate,
    "diagnose": ws.diagnose,
    # A network of ours would be built anew in float32.
    "transfer": lambda network, data: ws.transfer(nn.Sequential(network.dense1, network.output), data),
    "monte_carlo": lambda network, data: ws.monte_carlo(network, data.test.x),
    "reduce": lambda network, data: ws.reduce(network, data, by="angles:45"),
    "angles": ws.angles,
    "spike": ws.spike,
    "spike_sweep": ws.spike_sweep,
    "tailor": lambda network, data: ws.tailor(network, data, params=0.5),
    "margins": ws.margins,
    "operations": lambda network, data: operations(network, data.test.x),
    "latency": lambda network, data: latency(network, data.test.x),
}


@pytest.fixture
def deadly(monkeypatch) -> nn.Module:
    """A network of a type that this CPU is said not to compute in; its products fail the test."""
    monkeypatch.setattr(precision, "how_python_ends", lambda dtype, eased=False: "illegal instruction")

    def never(*_):
        raise AssertionError("a product of a type that ends Python")

    network = ws.networks.mlp(64, 8, 10, dropout=0.5).bfloat16()
    monkeypatch.setattr(nn.Linear, "forward", never)
    return network


@pytest.mark.parametrize("verb", RUNNING)
def test_every_verb_that_runs_a_network_asks_first(verb, deadly):
    with pytest.raises(UsageError, match=r"(dense1|0) is of type bfloat16, .*illegal instruction"):
        RUNNING[verb](deadly, ws.data.load("digits"))


def test_a_difference_says_what_it_could_not_measure(deadly):
    found = ws.diff(deadly, deadly, data="digits")
    assert found.accuracy is None
    assert any("dense1 is of type bfloat16" in note for note in found.notes)


def test_a_chain_is_refused_before_its_first_stage(deadly, tmp_path):
    path = ws.save(deadly, tmp_path / "half.safetensors")
    recipe = {"data": "digits", "network": str(path), "reduce": [{"name": "small", "by": "angles:45"}]}
    with pytest.raises(UsageError, match=r"cannot be run on its data: dense1 is of type bfloat16"):
        ws.pipeline(recipe, tmp_path / "out")
