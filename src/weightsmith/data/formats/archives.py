"""Read members of a folder or a tar archive by name into memory; nothing is ever extracted.

Only the last part of a member's name counts, so a path inside an archive cannot point elsewhere. Links and devices are
skipped. Sizes are checked before anything is read, also those of members that are not needed, since a compressed
archive must be unpacked to get past them.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.data.arrays import LIMIT

__all__ = ["is_archive", "read_members", "unzipped"]

_MOST_MEMBERS = 1000


@contextmanager
def unzipped(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked if the first bytes are those of gzip; a damaged stream is refused."""
    with reading(path), path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        try:
            with gzip.GzipFile(fileobj=raw) if zipped else nullcontext(raw) as stream:
                yield cast("BinaryIO", stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileRefused(path, f"the gzip stream is damaged or cut short ({error})") from error


def is_archive(path: Path) -> bool:
    """Whether the name is that of a tar archive."""
    return path.name.endswith((".tar.gz", ".tgz", ".tar")) and path.is_file()


def read_members(path: Path, wanted: Collection[str], largest: int) -> dict[str, bytes]:
    """Contents by name of the ``wanted`` files that the folder or archive holds, each ``largest`` bytes at most."""
    with reading(path):
        if is_archive(path):
            return _from_archive(path, wanted, largest)
        files = [path / name for name in wanted if (path / name).is_file()]
        for file in files:
            _check(file, file.stat().st_size, largest, "the file")
        return {file.name: file.read_bytes() for file in files}


def _from_archive(path: Path, wanted: Collection[str], largest: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with unzipped(path) as stream:
            guarded = _Guarded(stream, path, largest)
            with tarfile.open(fileobj=guarded, mode="r:") as archive:
                for number, member in enumerate(archive):
                    name = PurePosixPath(member.name).name
                    _check(path, member.size, largest, f"member {name!r}")
                    if number >= _MOST_MEMBERS:
                        raise FileRefused(path, f"holds more than {_MOST_MEMBERS} members")
                    if member.isreg() and name in wanted:
                        if name in found:
                            raise FileRefused(path, f"holds {name!r} twice")
                        found[name] = _content(path, archive, member)
            guarded.read_rest()
    except tarfile.TarError as error:
        raise FileRefused(path, f"the archive is damaged or cut short ({error})") from error
    return found


def _content(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    content = file.read() if file else b""
    if len(content) != member.size:
        raise FileRefused(path, f"member {member.name!r} is cut short")
    return content


def _check(path: Path, size: int, largest: int, what: str) -> None:
    if not 0 <= size <= largest:
        raise FileRefused(path, f"{what} claims {size:,} bytes; the limit is {largest:,}")


class _Guarded(io.RawIOBase):
    """The unpacked bytes of an archive: forward only, at most LIMIT of them, at most ``largest`` in one piece.

    tarfile trusts the sizes in extended headers: it would read gigabytes for a name, or loop for ever on a negative
    size. Both are refused here.
    """

    def __init__(self, stream: BinaryIO, path: Path, largest: int) -> None:
        self._stream, self._path = stream, path
        self._largest = max(largest, 1 << 16)
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= min(self._largest, LIMIT - self._position):
            raise FileRefused(self._path, f"claims {size:,} bytes in one piece, which is over the limit")
        block = self._stream.read(size)
        self._position += len(block)
        return block

    def seek(self, target: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or target < self._position:
            raise FileRefused(self._path, "points back to bytes that were already read")
        while self._position < target and self.read(min(1 << 16, target - self._position)):
            pass
        return self._position

    def read_rest(self) -> None:
        """Read to the very end, where gzip checks its checksum; tarfile stops earlier."""
        while self.read(1 << 16):
            pass

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
