"""Resumable https downloads that are verified by digest before the file gets its final name; known remote files.

An unfinished download is kept as ``<file>.part``. The next call requests the rest (Range); if the server sends the
whole file again, the part starts over. Nothing is downloaded unless the user requests it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith._version import __version__
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.storage import file_digest
from weightsmith.data.arrays import LIMIT

if TYPE_CHECKING:
    import http.client

__all__ = ["REMOTES", "Progress", "Remote", "fetch"]


Progress = Callable[[int, int | None], None]
"""Called with the bytes so far and in total (None while unknown)."""

_BLOCK = 1 << 18
_DIGITS = 8


def fetch(
    url: str,
    path: str | Path,
    *,
    sha256: str,
    size: int | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    insecure: bool = False,
) -> Path:
    """Download ``url`` to ``path``, resuming an earlier call; return at once if the file is there already.

    The file is renamed into place when its SHA-256 is ``sha256``, or begins with it if only the first digits (eight
    or more) are published; otherwise it is removed and refused. Only https is used, also for redirects, unless
    ``insecure`` allows http (the digest still protects the content).
    """
    from http.client import HTTPException
    from urllib.error import HTTPError

    path = Path(path)
    if len(sha256) < _DIGITS:
        raise UsageError(
            f"{sha256!r} is too short: at least {_DIGITS} digits of a SHA-256 are needed to identify a file"
        )
    if path.is_file() and file_digest(path).startswith(sha256):
        return path
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(_Request(url, timeout, insecure), part, size, progress)
    except HTTPError as error:
        raise FileRefused(url, f"the server answered {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FileRefused(url, f"cannot be fetched ({reason}); the same call resumes where this one stopped") from error
    found = file_digest(part)
    if not found.startswith(sha256):
        part.unlink()
        raise FileRefused(url, f"the received file has the digest {found}, not {sha256}; it was removed")
    part.replace(path)
    return path


def _receive(request: _Request, part: Path, size: int | None, progress: Progress | None) -> None:
    """Append the missing bytes to ``part``; afterwards it is complete by its size and by what the server reported."""
    from urllib.error import HTTPError

    start = part.stat().st_size if part.is_file() else 0
    if start and start == size:
        return  # an earlier call was stopped after the last byte; the digest is checked next
    try:
        response = request.open(start)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return  # the server has nothing left to send; again the digest is checked next
        raise
    with response, part.open("ab") as file:
        start = _agreed_start(request.url, response, start)
        total = None if response.length is None else start + response.length
        if size is not None and total not in (None, size):
            raise FileRefused(request.url, f"the server offers {total:,} bytes, but the file must have {size:,}")
        file.truncate(start)
        done, most = start, size or total or LIMIT
        while block := response.read(_BLOCK):
            done += len(block)
            if done > most:
                file.truncate(0)
                raise FileRefused(request.url, f"sends more than {most:,} bytes; what arrived was removed")
            file.write(block)
            if progress is not None:
                progress(done, size or total)
        file.flush()
        os.fsync(file.fileno())
    expected = size or total
    if expected is not None and done < expected:
        raise ConnectionError(f"the connection ended after {done:,} of {expected:,} bytes")


def _agreed_start(url: str, response: http.client.HTTPResponse, asked: int) -> int:
    """The offset of the body in the file: the one we asked for, or 0 from a server that does not support ranges."""
    if response.status != HTTPStatus.PARTIAL_CONTENT:
        return 0
    sent = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if sent is None or int(sent[1]) != asked:
        raise FileRefused(url, f"the server was asked to resume at byte {asked:,} and sent another part")
    return asked


@dataclass(frozen=True)
class _Request:
    """One file to request, and how."""

    url: str
    timeout: float
    insecure: bool

    def open(self, start: int) -> http.client.HTTPResponse:
        """The response, its body from byte ``start`` on if the server agrees."""
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        request = self

        class Redirects(HTTPRedirectHandler):
            """Follows redirects, but not from https down to anything else."""

            def redirect_request(self, req: Any, fp: Any, code: int, *more: Any) -> Any:
                request.check_scheme(more[-1])
                return super().redirect_request(req, fp, code, *more)

        self.check_scheme(self.url)
        headers = {"User-Agent": f"weightsmith/{__version__}", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        opener = build_opener(Redirects)
        response: http.client.HTTPResponse = opener.open(Request(self.url, headers=headers), timeout=self.timeout)
        return response

    def check_scheme(self, url: str) -> None:
        """Refuse what is not https, or http if that was allowed."""
        scheme = url.partition(":")[0].lower()
        if scheme != "https" and not (self.insecure and scheme == "http"):
            raise FileRefused(url, f"only https is fetched, not {scheme}")


# The remote files of the data sets, pinned by size and SHA-256.
#
# The digests are those of the files at their official origins. (A distribution may pack the same IDX files with other
# gzip headers. Such files are read all the same: only downloaded files are checked by digest.)


@dataclass(frozen=True)
class Remote:
    """A file to fetch: where it is, and the size and SHA-256 it must have."""

    url: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """The file name."""
        return self.url.rpartition("/")[2]


def _at(base: str, *files: tuple[str, int, str]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{base}/{name}", size, sha256) for name, size, sha256 in files)


REMOTES = {
    "mnist": _at(
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        (
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion-mnist": _at(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/"
        "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion",
        (
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": _at(
        "https://www.cs.toronto.edu/~kriz",
        (
            "cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
    "cifar100": _at(
        "https://www.cs.toronto.edu/~kriz",
        (
            "cifar-100-python.tar.gz",
            169_001_437,
            "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
    ),
}
"""The files of each data set that can be fetched, by the set's name."""
