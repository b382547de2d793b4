from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.networks import Evaluation
from weightsmith.training.transfer import transfer
from weightsmith.training.transferring import TransferRecord


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    network = ws.networks.mlp(64, 16, 12, 10, seed=1)
    return ws.save(network, tmp_path_factory.mktemp("base") / "base.safetensors", normalisation="0.5/0.5")


QUICK = ("--data", "digits", "--rate", "0.05", "--epochs", "2,1")


def test_the_figures_are_those_of_the_library(run, base, tmp_path):
    options = ("--head", "9", "--unfreeze", "1", "--batch", "64", "--seed", "3", "--json", "--quiet")
    answer = run("transfer", base, *QUICK, *options, "--out", tmp_path)
    assert (answer.code, answer.err) == (0, "")
    report = json.loads(answer.out)
    expected = transfer(base, "digits", rate="0.05", epochs=(2, 1), head=(9,), unfreeze=1, batch=64, seed=3)
    assert TransferRecord.from_dict(report["record"]) == expected.record
    tested = ws.evaluate(expected.network, "digits")
    assert Evaluation.from_dict(report["test"]) == tested
    assert Evaluation.from_json((tmp_path / "evaluation.json").read_text()) == tested
    assert ws.evaluate(tmp_path, "digits") == tested


def test_what_is_shown(run, base, tmp_path):
    answer = run("transfer", base, *QUICK, "--out", tmp_path)
    assert answer.code == 0
    assert "frozen" in answer.out
    assert "top 2 unfrozen" in answer.out
    assert "← kept" in answer.out
    assert "130 of 1,374" in answer.out  # only the head: 12 × 10 + 10 parameters
    assert "of the validation images are right" in answer.out
    assert "test accuracy " in answer.out
    assert str(tmp_path / "network.safetensors") in "".join(answer.out.split())  # a long path is broken
    assert "epoch 2 of 2" in answer.err
    again = run("transfer", base, *QUICK, "--out", tmp_path)
    assert again.out == answer.out
    assert "epoch 2 of 2" not in again.err  # all was done


def test_a_validation_accuracy_that_is_not_reached_ends_with_code_1(run, base):
    answer = run(
        "transfer", base, *QUICK, "--unfreeze", "all", "--least-accuracy", "100", "--remedy", "drop", "--quiet"
    )
    assert answer.code == 1
    assert "is below the required 100 %" in answer.err
    assert answer.out.count("frozen") >= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--unfreeze", "some"), "--unfreeze must be a whole number ≥ 0 or all, not 'some'"),
        (("--unfreeze", "1,2"), "--unfreeze must be a whole number ≥ 0 or all, not '1,2'"),
        (("--epochs", "1,2,3"), "epochs takes one number or two"),
        (("--epochs", "0"), "--epochs must be a whole number ≥ 1, not 0"),
        (("--head", "a"), "--head must be a whole number ≥ 1, not 'a'"),
        (("--reuse", "7"), "has 2 blocks to reuse, not 7"),
        (("--remedy", "dropp"), "did you mean 'drop'"),
        (("--finer", "3"), "finer must be"),
        (("--data", "digit"), "did you mean 'digits'"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, base, options, message):
    answer = run("transfer", base, "--data", "digits", *options)
    assert answer.code == 2
    assert message in answer.lines[-1]
    assert "Traceback" not in answer.err


def test_a_base_that_is_not_there(run, tmp_path):
    answer = run("transfer", tmp_path / "none.safetensors", "--data", "digits")
    assert answer.code == 3
    assert "none.safetensors" in answer.lines[-1]
