from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.papers import reproduction
from weightsmith.papers.experiments import series
from weightsmith.papers.experiments.heavy_tails import EXPERIMENT, ZOO, measure


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A server on this machine with two families of two small networks, and their names."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(tmp_path / "cache"))
    served, names = tmp_path / "served", []
    served.mkdir()
    for number in range(4):
        draw = torch.Generator().manual_seed(number)
        torch.save({"fc.weight": torch.randn(40 + 10 * number, 40, generator=draw)}, served / "new")
        digest = hashlib.sha256((served / "new").read_bytes()).hexdigest()
        names.append(f"net{number}-{digest[:8]}")
        (served / "new").rename(served / f"{names[-1]}.pth")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(served)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", names, served
    server.shutdown()
    server.server_close()


def test_weights_are_fetched_when_asked_graded_and_judged(host, monkeypatch):
    url, names, _ = host
    settings = [
        {"family": "a" if place < 2 else "b", "network": name, "accuracy": 70.0 + place}
        for place, name in enumerate(names)
    ]
    full = dataclasses.replace(EXPERIMENT.full, each=settings, all={"host": url})
    monkeypatch.setattr(reproduction, "experiment", lambda _: dataclasses.replace(EXPERIMENT, full=full))
    with pytest.raises(UsageError, match="--zoo"):
        reproduction.reproduce("heavy-tails")
    made = reproduction.reproduce("heavy-tails", zoo=True)
    assert [row["error"] for row in made.table.rows] == pytest.approx([0.30, 0.29, 0.28, 0.27])
    assert all(row[name] is not None for row in made.table.rows for name in series.MEASURES)


def test_a_file_with_another_digest_is_refused(host):
    url, names, served = host
    (served / "other-00000000.pth").write_bytes((served / f"{names[0]}.pth").read_bytes())
    with pytest.raises(FileRefused, match="digest"):
        measure(seed=0, family="a", network="other-00000000", accuracy=70.0, host=url)


def test_every_network_names_eight_digits_of_its_digest_and_is_judged_as_the_series_is():
    assert all(len(name.rpartition("-")[2]) == 8 for networks in ZOO.values() for name in networks)
    assert EXPERIMENT.judge is series.judge
    assert [claim.name for claim in EXPERIMENT.claims] == [claim.name for claim in series.EXPERIMENT.claims]
