from __future__ import annotations

import hashlib
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.data.catalogue import CATALOGUE
from weightsmith.data.download import REMOTES, fetch

CONTENT = np.random.default_rng(0).bytes(1_000_003)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT, with the faults that the server object asks for; notes each request."""

    def do_GET(self):
        fault = self.server.faults.pop(0) if self.server.faults else None
        wanted = self.headers.get("Range")
        self.server.seen.append((self.path, wanted))
        content = self.server.content
        if fault == "404":
            self.send_error(404)
        elif fault == "redirect":
            self.send_response(302)
            self.send_header("Location", self.server.location)
            self.end_headers()
        elif fault == "no length":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)
        elif wanted and fault not in ("no range", "wrong range"):
            self._send_range(content, int(wanted.removeprefix("bytes=").removesuffix("-")), fault)
        elif fault == "wrong range":
            self._send_range(content, 10, None)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:400_000] if fault == "cut" else content)

    def _send_range(self, content, start, fault):
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : start + 200_000] if fault == "cut" else content[start:])

    def log_message(self, *args):
        pass


@contextmanager
def running():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.faults, server.seen, server.content, server.location = [], [], CONTENT, ""
    server.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running() as one:
        yield one


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "file.bin"


def part_of(path):
    return path.with_name("file.bin.part")


def get(server, path, **options):
    return fetch(
        server.url, path, **{"sha256": DIGEST, "size": len(CONTENT), "insecure": True, "timeout": 5, **options}
    )


def test_the_whole_file_with_progress(server, path):
    calls = []
    assert get(server, path, progress=lambda done, total: calls.append((done, total))) == path
    assert path.read_bytes() == CONTENT
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert not part_of(path).exists()


def test_a_file_that_is_there_is_not_asked_for_again(server, path):
    get(server, path)
    get(server, path)
    assert len(server.seen) == 1


def test_a_damaged_file_in_place_is_fetched_again(server, path):
    get(server, path)
    path.write_bytes(CONTENT[:-1])
    get(server, path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_an_interrupted_fetch_goes_on_where_it_stopped(server, path, size):
    server.faults = ["cut", "cut"]
    with pytest.raises(FileRefused, match="ended after 400,000 of 1,000,003 bytes.*the same call resumes"):
        get(server, path, size=size)
    assert not path.exists()
    assert part_of(path).read_bytes() == CONTENT[:400_000]
    with pytest.raises(FileRefused, match="ended after 600,000 of 1,000,003 bytes"):
        get(server, path, size=size)
    calls = []
    get(server, path, size=size, progress=lambda done, total: calls.append(done))
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.seen] == [None, "bytes=400000-", "bytes=600000-"]
    assert calls[0] > 600_000


def test_a_server_without_ranges_sends_it_all_again(server, path):
    server.faults = ["cut", "no range"]
    with pytest.raises(FileRefused):
        get(server, path)
    get(server, path)
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_complete_needs_no_request(server, path):
    path.parent.mkdir()
    part_of(path).write_bytes(CONTENT)
    get(server, path)
    assert path.read_bytes() == CONTENT
    assert server.seen == []


def test_a_complete_part_of_unknown_size(server, path):
    path.parent.mkdir()
    part_of(path).write_bytes(CONTENT)
    get(server, path, size=None)
    assert path.read_bytes() == CONTENT
    assert server.seen == [("/file.bin", "bytes=1000003-")]


def test_a_part_longer_than_the_file_is_thrown_away(server, path):
    path.parent.mkdir()
    part_of(path).write_bytes(CONTENT + b"more")
    with pytest.raises(FileRefused, match="digest"):
        get(server, path)
    get(server, path)
    assert path.read_bytes() == CONTENT


def test_a_wrong_digest_is_refused_and_removed(server, path):
    with pytest.raises(FileRefused, match=f"has the digest {DIGEST}, not {'0' * 64}; it was removed"):
        get(server, path, sha256="0" * 64)
    assert list(path.parent.iterdir()) == []


def test_a_damaged_part_does_not_survive(server, path):
    path.parent.mkdir()
    part_of(path).write_bytes(b"x" * 1000)
    with pytest.raises(FileRefused, match="digest"):
        get(server, path)
    assert not part_of(path).exists()
    get(server, path)
    assert path.read_bytes() == CONTENT


def test_another_part_than_asked_for_is_refused(server, path):
    server.faults = ["cut", "wrong range"]
    with pytest.raises(FileRefused, match="cannot be fetched"):
        get(server, path)
    with pytest.raises(FileRefused, match="asked to resume at byte 400,000 and sent another part"):
        get(server, path)
    get(server, path)
    assert path.read_bytes() == CONTENT


def test_another_size_is_refused_before_it_is_fetched(server, path):
    with pytest.raises(FileRefused, match="the server offers 1,000,003 bytes, but the file must have 7"):
        get(server, path, size=7)
    assert part_of(path).stat().st_size == 0


def test_a_body_without_end_is_cut_off(server, path):
    server.faults = ["no length"]
    with pytest.raises(FileRefused, match="sends more than 500,000 bytes"):
        get(server, path, size=500_000)
    assert part_of(path).stat().st_size == 0
    server.faults = ["no length"]
    get(server, path)
    assert path.read_bytes() == CONTENT


def test_not_found(server, path):
    server.faults = ["404"]
    with pytest.raises(FileRefused, match=r"http://127\.0\.0\.1:\d+/file\.bin: the server answered 404 Not Found"):
        get(server, path)
    assert not path.exists()


def test_nobody_listens(server, path):
    with running() as gone:
        url = gone.url
    with pytest.raises(FileRefused, match="cannot be fetched .*refused"):
        fetch(url, path, sha256=DIGEST, insecure=True, timeout=5)


def test_redirects_are_followed_but_not_to_other_schemes(server, path):
    server.faults, server.location = ["redirect"], server.url + "?2"
    get(server, path)
    assert [where for where, _ in server.seen] == ["/file.bin", "/file.bin?2"]
    path.unlink()
    server.faults, server.location = ["redirect"], "ftp://127.0.0.1/file.bin"
    with pytest.raises(FileRefused, match="only https is fetched, not ftp"):
        get(server, path)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/f", "file:///etc/passwd", "ftp://127.0.0.1/f", "nonsense"])
def test_only_https_unless_http_is_allowed(path, url):
    with pytest.raises(FileRefused, match="only https is fetched"):
        fetch(url, path, sha256=DIGEST)
    if not url.startswith("http:"):
        with pytest.raises(FileRefused, match="only https is fetched"):
            fetch(url, path, sha256=DIGEST, insecure=True)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileRefused, match="cannot be fetched"):
        get(server, tmp_path / "file" / "deep" / "file.bin")


EVERY = [(name, remote) for name, remotes in REMOTES.items() for remote in remotes]


@pytest.mark.parametrize(("name", "remote"), EVERY, ids=lambda item: getattr(item, "file", item))
def test_every_file_is_pinned_and_fetched_over_https(name, remote):
    assert name in CATALOGUE
    assert remote.url.startswith("https://")
    assert re.fullmatch(r"[0-9a-f]{64}", remote.sha256)
    assert remote.size > 1000
    assert remote.url.endswith(f"/{remote.file}")


def test_no_file_is_pinned_twice():
    assert len({remote.sha256 for _, remote in EVERY}) == len(EVERY)


def test_what_can_be_fetched_would_be_found(tmp_path):
    """The file names are those the readers look for."""
    for name, remotes in REMOTES.items():
        folder = tmp_path / name
        folder.mkdir()
        for remote in remotes:
            (folder / remote.file).write_bytes(b"")
        assert CATALOGUE[name].find(folder, ("train", "test")) is not None


def test_published_first_digits_pin_a_file_and_fewer_than_eight_do_not(server, path):
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert fetch(server.url, path, sha256=digest[:8], insecure=True).read_bytes() == CONTENT
    with pytest.raises(UsageError, match="8 digits"):
        fetch(server.url, path, sha256=digest[:7], insecure=True)
