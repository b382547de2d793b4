"""Checks that every verb must pass, written once: what it may not change, what it must repeat, what it must refuse.

A verb is a row of VERBS, a check a function of it. Whatever is asked, the answer is a result or an error of ours.
"""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import WeightsmithError
from weightsmith.core.journal import Journal
from weightsmith.core.records import Record
from weightsmith.core.verbs import parameters
from weightsmith.data.coerce import as_data

Verb = Callable[..., Any]
ROWS, FEATURES, CLASSES = 60, 6, 3


def made_data(rows: int = ROWS, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % CLASSES
    centres = np.random.default_rng(9).normal(size=(CLASSES, FEATURES))
    values = np.clip((centres[labels] + 0.3 * generator.normal(size=(rows, FEATURES))) / 4, -1, 1)
    return values.astype(np.float32), labels


def made_network() -> nn.Sequential:
    return ws.networks.mlp(FEATURES, 12, CLASSES, seed=0).eval()


def with_test(data: Any) -> Any:
    """What tailor needs: rows set apart that judge."""
    return as_data(data).with_test(0.3) if isinstance(data, tuple) else data


VERBS: dict[str, Verb] = {
    "train": lambda net, data, **options: ws.train(net, data, **{"epochs": 1, **options}),
    "transfer": lambda net, data, **options: ws.transfer(net, data, **{"epochs": (1, 1), **options}),
    "evaluate": ws.evaluate,
    "reduce": lambda net, data, **options: ws.reduce(net, data, **{"by": "magnitude", "target": "params:0.7",
                                                                   "latency": False, **options}),
    "angles": ws.angles,
    "spike": lambda net, data, **options: ws.spike(net, data, **{"steps": 3, **options}),
    "spike_sweep": lambda net, data, **options: ws.spike_sweep(
        net, data, **{"leaks": (1.0,), "resets": ("soft",), "factors": (1.0,), "smoothings": (1.0,), "steps": (3,),
                      "balance": "percentile", **options}),
    "grade": lambda net, data, **options: ws.grade(net, **options),
    "tailor": lambda net, data, **options: ws.tailor(net, with_test(data), **{"params": 0.9, **options}),
    "diff": lambda net, data, **options: ws.diff(net, net, data, **{"latency": False, **options}),
}  # fmt: skip
FUNCTIONS = {name: getattr(ws, name) for name in VERBS}
WITH_DATA = [name for name in VERBS if name != "grade"]
WITH_OUT = [name for name in VERBS if "out" in FUNCTIONS[name].__wrapped__.__annotations__]

every = pytest.mark.parametrize("name", VERBS)
with_data = pytest.mark.parametrize("name", WITH_DATA)
with_out = pytest.mark.parametrize("name", WITH_OUT)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return made_network()


def record_of(result: Any) -> Record:
    return result if isinstance(result, Record) else result.record


def answered(name: str, *arguments: Any, **options: Any) -> Any:
    """The result, or the error of ours in its place; nothing else may come, and no error may be empty or long."""
    try:
        return VERBS[name](*arguments, **options)
    except WeightsmithError as error:
        text = str(error)
        assert text
        assert len(text) < 1_500
        assert "\n" not in text
        return error


def state_of(module: nn.Module) -> list[Any]:
    tensors = [(key, value.clone(), value.dtype, value.data_ptr()) for key, value in module.state_dict().items()]
    return [tensors, module.training, [p.requires_grad for p in module.parameters()], sorted(vars(module))]


def assert_same_state(before: list[Any], after: list[Any]) -> None:
    for (name, was, kind, place), (other, now, new_kind, new_place) in zip(before[0], after[0], strict=True):
        assert (name, kind, place) == (other, new_kind, new_place)
        assert torch.equal(was, now)
    assert before[1:] == after[1:]


@every
def test_network_data_random_numbers_and_threads_stay_as_they_were(name):
    """Checks 1 to 6: weights and flags, mode, data, the three global generators, torch's threads, warning filters."""
    module, (x, y) = made_network().train(), made_data()
    before, rows = state_of(module), (x.copy(), y.copy())
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    drawn = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    VERBS[name](made_network(), made_data())  # what is imported now may set filters of its own
    threads, filters = torch.get_num_threads(), list(warnings.filters)
    VERBS[name](module, (x, y))
    assert_same_state(before, state_of(module))
    assert np.array_equal(rows[0], x)
    assert np.array_equal(rows[1], y)
    assert torch.equal(drawn[0], torch.random.get_rng_state())
    assert np.array_equal(drawn[1], np.random.get_state()[1])
    assert drawn[2] == random.getstate()
    assert (threads, filters) == (torch.get_num_threads(), list(warnings.filters))


@every
def test_a_repeat_is_equal_and_its_record_survives_json(name, network):
    """Checks 7 to 9: same call, same record; exact JSON round trip; text for people."""
    first, second = (record_of(VERBS[name](network, made_data())) for _ in range(2))
    assert first.to_json() == second.to_json()
    assert type(first).from_json(first.to_json()) == first
    assert repr(first)


def strange_networks() -> dict[str, nn.Module]:
    usual = made_network()
    parted = made_network()
    for parameter in parted.parameters():
        parameter.data = torch.stack([parameter.data, parameter.data], -1)[..., 0]  # every second value in memory
    locked = made_network()
    locked.lock = threading.Lock()  # type: ignore[assignment]  # cannot be pickled or copied
    half, double = made_network().half(), made_network().double()
    broken = made_network()
    next(broken.parameters()).data[0, 0] = float("nan")
    zero = made_network()
    for parameter in zero.parameters():
        parameter.data.zero_()
    return {"usual": usual, "non-contiguous": parted, "unpicklable": locked, "float16": half, "float64": double,
            "NaN": broken, "zero": zero}  # fmt: skip


def assert_near(first: Any, second: Any) -> None:
    """Equal but for rounding: strided weights are multiplied in another order. Digests of inputs are exact."""
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_near(one, other)
    elif isinstance(first, float):
        assert first == pytest.approx(second, rel=1e-4, abs=1e-6)
    elif not isinstance(first, str):
        assert first == second


@every
def test_strange_networks_are_answered_or_refused_and_nothing_else(name):
    """Checks 10 to 15: memory layout, a module that cannot be pickled, half and double precision, NaN, zeros."""
    found = {kind: answered(name, module, made_data()) for kind, module in strange_networks().items()}
    assert not isinstance(found["usual"], WeightsmithError)
    same = record_of(found["usual"]).to_dict()
    again = record_of(found["non-contiguous"]).to_dict()
    assert_near(again, same)
    if not isinstance(found["NaN"], WeightsmithError) and name != "train":
        text = record_of(found["NaN"]).to_json().lower()
        assert any(word in text for word in ("nan", "non-finite", "finite")), "NaN weights pass without a word"


def strange_data() -> dict[str, Any]:
    x, y = made_data()
    frozen = x.copy()
    frozen.flags.writeable = False
    holed = x.copy()
    holed[3, 2] = np.nan
    return {
        "read-only": (frozen, y),
        "float64": (x.astype(np.float64), y),
        "float16": (x.astype(np.float16), y),
        "strided": (np.repeat(x, 2, axis=0)[::2], y),
        "empty": (x[:0], y[:0]),
        "one row": (x[:1], y[:1]),
        "one class": (x, np.zeros_like(y)),
        "NaN": (holed, y),
        "labels too large": (x, y + 7),
        "negative labels": (x, y - 1),
        "labels too few": (x, y[:-5]),
        "features too few": (x[:, :-1], y),
        "text": "no such data set",
        "number": 42,
        "nothing": None,
    }


REFUSED = ("empty", "NaN", "labels too large", "negative labels", "labels too few", "text", "number")


@with_data
@pytest.mark.parametrize("kind", strange_data())
def test_strange_data_are_used_exactly_or_refused(name, kind, network):
    """Checks 16 to 30: fifteen kinds of data."""
    data = strange_data()[kind]
    found = answered(name, network, data)
    if kind in REFUSED or (kind == "features too few" and name != "train"):
        if name == "transfer" and kind == "labels too large":
            return  # a new output layer: as many classes as the largest label asks for
        said = isinstance(found, WeightsmithError) or (name == "diff" and record_of(found).notes)  # compares the rest
        assert said, f"{kind} passes without a word"
    if kind in ("read-only", "strided", "float64", "float16"):  # the same numbers, half of them rounded beforehand
        x, y = made_data()
        alike = (x.astype(np.float16).astype(np.float32) if kind == "float16" else x, y)
        assert record_of(found).to_json() == record_of(VERBS[name](network, alike)).to_json()


@every
@pytest.mark.parametrize("given", [42, "no-such-file.safetensors", None])
def test_what_is_no_network_is_refused(name, given):
    """Check 31."""
    assert isinstance(answered(name, given, made_data()), WeightsmithError)


@with_out
def test_a_folder_that_cannot_be_used_is_refused(name, network, tmp_path):
    """Checks 32 to 34: a file in its place, a place where nobody may write, a folder that is in use."""
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", Path("/proc/weightsmith")):
        assert isinstance(answered(name, network, made_data(), out=out), WeightsmithError)
    assert (tmp_path / "file").read_text() == "mine"
    VERBS[name](network, made_data(), out=tmp_path / "used")
    from weightsmith.core.journal import read_journal

    call = read_journal(tmp_path / "used" / "journal.jsonl").call
    with Journal(tmp_path / "used" / "journal.jsonl", call):
        refused = answered(name, network, made_data(), out=tmp_path / "used")
    assert "in use by another process" in str(refused)


@with_out
def test_an_interrupted_call_goes_on_and_ends_alike(name, network, tmp_path):
    """Check 35: Ctrl-C from the first report of progress; the same call again gives the record of a whole one."""
    if "progress" not in FUNCTIONS[name].__wrapped__.__annotations__:
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        VERBS[name](network, made_data(), out=tmp_path / "a", progress=interrupt)
    except KeyboardInterrupt:
        assert not (tmp_path / "a" / "record.json").exists()
    resumed = VERBS[name](network, made_data(), out=tmp_path / "a")
    whole = VERBS[name](network, made_data(), out=tmp_path / "b")
    assert record_of(resumed).to_json() == record_of(whole).to_json()


@every
def test_every_number_is_checked_against_its_range_and_named(name, network):
    """Check 36: for every option with a range, a value beyond each end is refused by its name before any work."""
    for option, parameter in parameters(FUNCTIONS[name]).items():
        if parameter.several or not {int, float} & set(parameter.kinds):
            continue
        for value in (-7, float("nan"), float("inf"), -1e300):
            if parameter.range is None and value == -7:
                continue
            found = answered(name, network, made_data(), **{option: value})
            if isinstance(found, WeightsmithError):
                said = str(found).replace("_", " ").replace("-", " ")
                assert option.replace("_", " ") in said or str(value) in str(found), (option, said)


WORDS = ["", "x", "0", "-1", "nan", "1e999", "angles:45", "l4:1", "if", "sgd", ":", "a:b=c", "\x00", "é" * 50]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    10**30,
    0.5,
    -0.5,
    1e-300,
    float("nan"),
    (),
    (1,),
    ("a",),
    {},
    [[1]],
    object(),
]


@every
def test_generated_calls_end_in_a_result_or_in_an_error_of_ours(name, network):
    """Check 37: options of random values, one to three at a time; no traceback of anything else, nothing empty."""
    draws = random.Random(name)
    names = [option for option in parameters(FUNCTIONS[name]) if option not in ("workers", "cluster", "threads")]
    for _ in range(100):
        chosen = {option: draws.choice(VALUES + WORDS) for option in draws.sample(names, draws.randint(1, 3))}
        found = answered(name, network, made_data(), **chosen)
        assert isinstance(found, WeightsmithError) or record_of(found).to_json(), chosen
