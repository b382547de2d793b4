"""Fetching a file over https, resumable, and never in its place before its digest is right.

What has arrived is kept as ``<file>.part``. The next call asks the server for the rest (Range); a server that sends the
whole file again is taken at its word and the part starts anew. Nothing here is called unless the user asks for it.
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
from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import file_digest
from weightsmith.data.arrays import LIMIT

if TYPE_CHECKING:
    import http.client

__all__ = ["Progress", "fetch"]

Progress = Callable[[int, int | None], None]
"""Told bytes so far and bytes in all (None while unknown)."""

_BLOCK = 1 << 18


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
    """Fetch ``url`` into ``path``, going on where an earlier call stopped; at once if the file is there already.

    The file is renamed into place when its SHA-256 is ``sha256``; otherwise it is removed and refused. Only https
    is used, also when redirected, unless ``insecure`` says that http will do (the digest still guards the content).
    """
    from http.client import HTTPException
    from urllib.error import HTTPError

    path = Path(path)
    if path.is_file() and file_digest(path) == sha256:
        return path
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(_Request(url, timeout, insecure), part, size, progress)
    except HTTPError as error:
        raise FileRefused(url, f"the server answered {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FileRefused(url, f"cannot be fetched ({reason}); the same call goes on where this one stopped") from error
    found = file_digest(part)
    if found != sha256:
        part.unlink()
        raise FileRefused(url, f"what arrived has the digest {found}, not {sha256}; it was removed")
    part.replace(path)
    return path


def _receive(request: _Request, part: Path, size: int | None, progress: Progress | None) -> None:
    """Append to ``part`` what it lacks; it is complete when this returns, as far as size and server can tell."""
    from urllib.error import HTTPError

    start = part.stat().st_size if part.is_file() else 0
    if start and start == size:
        return  # an earlier call was stopped after the last byte; the digest decides
    try:
        response = request.open(start)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return  # the server has nothing left to send; again the digest decides
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
    """Where the body begins in the file: where we asked for, or 0 from a server that does not know ranges."""
    if response.status != HTTPStatus.PARTIAL_CONTENT:
        return 0
    told = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if told is None or int(told[1]) != asked:
        raise FileRefused(url, f"the server was asked to go on at byte {asked:,} and sent another part")
    return asked


@dataclass(frozen=True)
class _Request:
    """One file to ask for, and how."""

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
