from __future__ import annotations

import hashlib
import http.server
import json
import threading

import pytest

from weightsmith.data import datasets, known
from weightsmith.data.download import Remote


def test_list_and_info_tell_the_same(run):
    answer = run("data", "list")
    report = json.loads(run("data", "list", "--json").out)
    assert [one["name"] for one in report] == [one.name for one in known()]
    assert all(one["name"] in answer.out for one in report)
    info = json.loads(run("data", "info", "digits", "--json").out)
    assert info == next(one for one in report if one["name"] == "digits")
    assert "train 1,437, test 360" in run("data", "info", "digits").out


def test_an_unknown_set_suggests_the_nearest(run):
    for words in (("info", "cifar11"), ("fetch", "cifar11")):
        answer = run("data", *words)
        assert (answer.code, len(answer.lines)) == (2, 1)
        assert "did you mean 'cifar10'" in answer.err


def test_what_is_not_here_says_how_to_get_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path))
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(tmp_path))
    assert "weightsmith data fetch cifar10 downloads 170 MB" in run("data", "info", "cifar10").out


def test_fetch_downloads_and_says_where(run, tmp_path, monkeypatch):
    content = b"x" * 1000

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    remote = Remote(f"http://127.0.0.1:{server.server_port}/file.gz", len(content), hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(datasets.REMOTES, "mnist", (remote,))
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(tmp_path))
    real = datasets.fetch
    monkeypatch.setattr(datasets, "fetch", lambda *a, **k: real(*a, **k, insecure=True))
    try:
        answer = run("data", "fetch", "mnist")
    finally:
        server.shutdown()
        server.server_close()
    assert answer.code == 0, answer.err
    assert "fetch mnist: 1,000 of 1,000" in answer.err
    (found,) = tmp_path.rglob("file.gz")
    assert found.read_bytes() == content
    assert str(found.parent) in answer.out.replace("\n", "")


def test_digits_need_no_fetching(run):
    answer = run("data", "fetch", "digits")
    assert (answer.code, len(answer.lines)) == (2, 1)


@pytest.mark.data
def test_real_sets_are_found(run):
    report = {one["name"]: one for one in json.loads(run("data", "list", "--json").out)}
    assert all(report[name]["found"] for name in ("cifar10", "cifar100", "fashion-mnist", "digits"))


def test_info_takes_all_that_data_takes(run, tmp_path):
    (tmp_path / "parts.csv").write_text("a,b,status\n1,2,ok\n3,4,bad\n5,6,ok\n7,8,bad\n")
    for name in (tmp_path / "parts.csv", f"table:{tmp_path}/parts.csv"):
        answer = run("data", "info", name)
        assert answer.code == 0
        assert "2: bad, ok" in answer.out
        assert "the column 'status' is taken for the label" in answer.out.replace("\n", " ")
    found = json.loads(run("data", "info", f"table:{tmp_path}/parts.csv,test=0.5", "--json").out)
    assert (found["sizes"], found["shape"]) == ({"train": 2, "test": 2}, [2])
    missing = run("data", "info", tmp_path / "none.csv")
    assert (missing.code, "no such file" in missing.err) == (3, True)
