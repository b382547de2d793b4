"""How much memory is free: of the machine, of the container and within the limits of the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from weightsmith.core.errors import UsageError

__all__ = ["bytes_text", "check_memory", "free_memory"]

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_memory() -> int:
    """Bytes that this process can still allocate: the least that machine, container (cgroup) and ulimit leave."""
    return max(0, min(_of_machine(), _of_container(), _of_limits()))


def check_memory(what: str, size: float, way: str) -> None:
    """Refuse ``what`` before it starts if it needs ``size`` bytes and fewer are free; ``way`` is the way out."""
    if size > (free := free_memory()):
        raise UsageError(f"{what} needs {bytes_text(size)} of memory at once, but {bytes_text(free)} are free; {way}")


def bytes_text(size: float) -> str:
    """A size as people write it.

    >>> bytes_text(7_526_400_000), bytes_text(900), bytes_text(2.5e6)
    ('7.5 GB', '900 bytes', '2.5 MB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size:.0f} bytes"


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 4 << 30  # Windows does not report it: assume a small machine


def _of_container() -> int:
    for limit, used in _CGROUPS:
        try:
            return int(Path(limit).read_text("ascii")) - int(Path(used).read_text("ascii"))
        except (OSError, ValueError):  # no such container; "max": no limit
            continue
    return sys.maxsize


def _of_limits() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return sys.maxsize
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    except OSError:
        return limit
    return limit - pages * resource.getpagesize()
