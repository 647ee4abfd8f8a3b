"""The private folder of a proxy and of the process that reads its traffic: in memory, and gone with both.

    kafka-wiretap-<user id>-<random>/     mode 0700
        owner.lock      held by the proxy
        live.sock       the process answers here
        feed/           the log of a proxy that records nothing (`feed`)

A proxy that is killed with its process leaves its folder; the next proxy of this user removes it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from proxy.files import Folder
from recorder.capture.lock import Lock, is_locked

# where Linux has a tmpfs that each user can write to
SHARED_MEMORY = Path("/dev/shm")
SOCKET, FEED = "live.sock", "feed"
_LOCK = "owner.lock"
# the mounts, and what they call a file system in memory
_MOUNTS, _TMPFS = Path("/proc/self/mounts"), "tmpfs"


class NoMemoryFolder(OSError):
    """There is no folder in memory for what must not be on a disk."""


class LiveFolder:
    """The folder, held by its proxy. `path`: where it is."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.path, self._lock = path, lock

    @classmethod
    def make(cls, *, in_memory: bool) -> Self:
        """A new folder. `in_memory`: it must be on a tmpfs. Removes those that nobody holds any more.

        Errors: NoMemoryFolder; OSError.
        """
        place = SHARED_MEMORY if _is_in_memory(SHARED_MEMORY) else Path(tempfile.gettempdir())
        if in_memory and place != SHARED_MEMORY:
            raise NoMemoryFolder(errno.ENOENT, f"{SHARED_MEMORY} is no tmpfs that can be written")
        prefix = f"kafka-wiretap-{os.geteuid()}-"
        _remove_left(place, prefix)
        # without its lock it would be taken for one that was left, by a proxy that starts at the same moment
        made = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=place))
        with Folder.at(made) as folder:
            lock = Lock.take(folder, _LOCK)
        assert lock is not None
        return cls(made.rename(place / made.name.removeprefix(".")), lock)

    def discard(self) -> None:
        """Removes the folder of a proxy that has not begun."""
        remove(self.path)
        self._lock.release()

    @property
    def socket(self) -> Path:
        """The path of the process's socket."""
        return self.path / SOCKET

    @property
    def feed(self) -> Path:
        """The folder of the feed's capture."""
        return self.path / FEED


def remove(path: Path) -> None:
    """Removes a folder that its proxy has left."""
    shutil.rmtree(path, ignore_errors=True)


def is_held(path: Path) -> bool:
    """True if its proxy holds the folder, or it is of another user."""
    try:
        with Folder.at(path) as folder:
            return folder.owner != os.geteuid() or is_locked(folder, _LOCK)
    except OSError:
        return True


def _remove_left(place: Path, prefix: str) -> None:
    with suppress(OSError):
        for path in place.glob(f"{prefix}*"):
            if not is_held(path):
                remove(path)


def _is_in_memory(place: Path) -> bool:
    try:
        mounts = (line.split() for line in _MOUNTS.read_text().splitlines())
        is_tmpfs = any(mount[1:3] == [str(place), _TMPFS] for mount in mounts)
    except OSError:
        return False
    return is_tmpfs and os.access(place, os.W_OK | os.X_OK)
