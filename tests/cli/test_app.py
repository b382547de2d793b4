from __future__ import annotations

import subprocess
import sys

import pytest

import weightsmith.cli
from weightsmith.cli import app as module
from weightsmith.core.errors import FileRefused, UsageError


def test_version_and_help(run):
    assert run("--version").out == f"weightsmith {weightsmith.__version__}\n"
    single = (
        "train",
        "transfer",
        "grade",
        "evaluate",
        "inspect",
        "log",
        "demo",
        "data",
        "networks",
        "sweep",
        "reproduce",
    )
    double = (("data", "fetch"), ("sweep", "train"))
    for command in ((), *((word,) for word in single), *double):
        answer = run(*command, "--help")
        assert answer.code == 0
        assert "Usage: weightsmith" in answer.out


def test_help_does_not_wait_for_torch():
    code = (
        "import sys\nfrom weightsmith.cli import main\n"
        "try: main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evalute"], "Did you mean 'evaluate'"),
        (["transfer", "x.safetensors"], "Missing option '--data'"),
        (["inspect"], "Missing argument 'FILE'"),
        (["inspect", "x", "--colour"], "No such option"),
        (["evaluate", "x", "--data", "digits", "--removed", "perhaps"], "'--removed': 'perhaps' is not one of "),
        (
            ["spike", "x", "--data", "digits", "--for", "nri"],
            "'--for': 'nri' is not one of 'nir'; did you mean 'nir'? (",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, words, message):
    answer = run(*words)
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert answer.err.startswith("weightsmith: ")
    assert message in answer.err
    assert "--help" in answer.err


def test_a_value_out_of_range_is_one_line_with_the_range(run):
    answer = run("evaluate", "x", "--data", "digits", "--batch", "0")
    assert (answer.code, answer.err) == (2, "weightsmith: --batch must be a whole number ≥ 1, not 0\n")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (FileRefused("a.pt", "bad\nnews"), 3, "weightsmith: a.pt: bad news\n"),
        (UsageError("no"), 2, "weightsmith: no\n"),
        (KeyboardInterrupt(), 130, "weightsmith: interrupted\n"),
        (
            MemoryError("Unable to allocate 9. GiB"),
            1,
            "weightsmith: not enough memory: 5 bytes free (Unable to allocate 9. GiB)\n",
        ),
        (
            RuntimeError("can't allocate memory: you tried to allocate 7 bytes"),
            1,
            "weightsmith: not enough memory: 5 bytes free (can't allocate memory: you tried to allocate 7 bytes)\n",
        ),
        (PermissionError(13, "Permission denied", "there"), 3, "weightsmith: there: Permission denied\n"),
    ],
)
def test_errors_become_a_line_and_a_code(run, monkeypatch, error, code, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, "app", fail)
    monkeypatch.setattr(module, "free_memory", lambda: 5)
    answer = run("inspect", "a.pt")
    assert (answer.code, answer.err) == (code, line)


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"set -o pipefail; {sys.executable} -m weightsmith networks list | head -n 1"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_debug_shows_the_traceback(tmp_path):
    command = [sys.executable, "-m", "weightsmith", "inspect", str(tmp_path / "gone"), "--debug"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" in answer.stderr
    assert "FileRefused" in answer.stderr


def test_an_interrupt_during_the_imports_is_one_line_too(monkeypatch, capsys):
    class Importing:
        @property
        def main(self):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "weightsmith.cli.app", Importing())
    with pytest.raises(SystemExit) as ended:
        weightsmith.cli.main(["--help"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "weightsmith: interrupted\n"
