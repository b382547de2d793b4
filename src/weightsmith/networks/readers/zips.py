"""Read the directory of a zip archive, checked before a byte is unpacked.

An archive whose directory and content disagree is refused, because another reader (torch has its own) may use the
content: repeated names, members that overlap or leave the file, or names before the data that differ from those in the
directory.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import DAMAGED_ZIP, reading
from weightsmith.networks.readers.ranges import AGAIN, file_size, read_bytes, shown

__all__ = ["Member", "read_directory", "read_member"]

_MOST_DIRECTORY = 64 << 20
_MOST_EXPANSION = 200
_ALWAYS_ALLOWED = 64 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@dataclass(frozen=True)
class Member:
    """One file in the archive: its size unpacked and packed, and where its bytes begin."""

    name: str
    size: int
    packed: int
    offset: int
    stored: bool


def read_directory(path: Path) -> dict[str, Member]:
    """All members by name, every claim checked against the file."""
    length = file_size(path)
    _check_directory_size(path, length)
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.filename.endswith("/")]
            with path.open("rb") as file:
                members = [_member(path, file, info) for info in infos]
    except DAMAGED_ZIP as error:
        raise FileRefused(path, f"is a damaged or cut-off zip archive; {AGAIN}") from error
    seen: set[str] = set()
    for member in members:
        # Compared without case, because torch's reader finds members that way.
        if member.name.casefold() in seen:
            raise FileRefused(path, f"holds {shown(member.name)} twice")
        seen.add(member.name.casefold())
    _check_layout(path, members, length)
    return {member.name: member for member in members}


def read_member(path: Path, member: Member, most: int) -> bytes:
    """The unpacked content of a small member, at most ``most`` bytes of it."""
    if member.size > most:
        raise FileRefused(path, f"{shown(member.name)} claims {member.size / 1e6:,.0f} MB, more than it can need")
    if member.stored:
        return read_bytes(path, member.offset, member.size)
    with reading(path), zipfile.ZipFile(path) as archive:
        try:
            return archive.read(member.name)
        except DAMAGED_ZIP as error:
            raise FileRefused(path, f"{shown(member.name)} is damaged") from error


def _member(path: Path, file: BinaryIO, info: zipfile.ZipInfo) -> Member:
    if not info.filename:
        raise FileRefused(path, "holds a member without a name")
    if info.flag_bits & 1:
        raise FileRefused(path, f"{shown(info.filename)} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileRefused(path, f"{shown(info.filename)} uses a compression that weight files never have")
    file.seek(info.header_offset)
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    name = file.read(name_length)
    if signature != b"PK\x03\x04" or name != info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437"):
        raise FileRefused(path, f"{shown(info.filename)} has another name where its data begin")
    offset = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    stored = info.compress_type == zipfile.ZIP_STORED
    if stored and info.file_size != info.compress_size:
        raise FileRefused(path, f"{shown(info.filename)} is {info.compress_size:,} bytes and claims {info.file_size:,}")
    if info.file_size > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * info.compress_size):
        times = info.file_size / max(1, info.compress_size)
        raise FileRefused(path, f"{shown(info.filename)} expands {times:,.0f}× to {info.file_size / 1e9:,.1f} GB")
    return Member(info.filename, info.file_size, info.compress_size, offset, stored)


def _check_layout(path: Path, members: list[Member], length: int) -> None:
    end = 0
    for member in sorted(members, key=lambda member: member.offset):
        if member.offset < end:
            raise FileRefused(path, f"{shown(member.name)} overlaps the member before it")
        end = member.offset + member.packed
        if end > length:
            raise FileRefused(path, f"is cut short: {shown(member.name)} ends at {end:,} of {length:,} bytes; {AGAIN}")
    total = sum(member.size for member in members)
    if total > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * length):
        raise FileRefused(path, f"expands {total / length:,.0f}× to {total / 1e9:,.1f} GB")


def _check_directory_size(path: Path, length: int) -> None:
    """Check the claimed size of the directory first, because Python reads it in one piece."""
    tail = read_bytes(path, max(0, length - 22 - 0xFFFF))
    for size in _claimed_sizes(path, tail, length):
        if size > min(length, _MOST_DIRECTORY):
            raise FileRefused(path, f"its zip directory claims {size / 1e6:,.0f} MB")


def _claimed_sizes(path: Path, tail: bytes, length: int) -> Iterator[int]:
    begin = tail.rfind(b"PK\x05\x06")
    if begin < 0 or len(tail) < begin + 22:
        raise FileRefused(path, f"is a damaged or cut-off zip archive; {AGAIN}")
    size = int.from_bytes(tail[begin + 12 : begin + 16], "little")
    locator = tail[max(0, begin - 20) : begin]
    if locator.startswith(b"PK\x06\x07"):
        where = int.from_bytes(locator[8:16], "little")
        if where + 56 > length:
            raise FileRefused(path, f"is a damaged or cut-off zip archive; {AGAIN}")
        yield int.from_bytes(read_bytes(path, where, 56)[40:48], "little")
    if size != 0xFFFFFFFF:
        yield size
