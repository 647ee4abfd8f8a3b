"""Bounds the memory of a process of our own that opens foreign frames: too much ends it, and nothing else."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

# bytes of data that a process has mapped, in pages
_STATM, _DATA_AT = Path("/proc/self/statm"), 5


def bound_memory(size: int) -> None:
    """Lets this process take so many bytes beyond what its libraries have mapped."""
    # numpy's library maps 41 MB for each core, and uses next to nothing of it
    mapped = 0
    with suppress(OSError):
        mapped = int(_STATM.read_text().split()[_DATA_AT]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (size + mapped,) * 2)
