"""Files that are in memory alone: what processes share.

Python's own `os.memfd_create` is missing from interpreters that were built for a C library older than glibc 2.27, on
whatever machine they run: python-build-standalone's, which `uv` installs. So the machine's C library is asked.
"""

from __future__ import annotations

import ctypes
import errno
import os

_libc = ctypes.CDLL(None, use_errno=True)
# Source: memfd_create(2)
_CLOSE_ON_EXEC = 1


def memory_file(name: str) -> int:
    """Returns the descriptor of a new, empty file; no child inherits it. Raises OSError.

    `name`: what `/proc/PID/fd` and `/proc/PID/maps` show.
    """
    try:
        descriptor: int = _libc.memfd_create(name.encode(), _CLOSE_ON_EXEC)
    except AttributeError as missing:
        raise OSError(errno.ENOSYS, "the machine's C library has no memfd_create") from missing
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor
