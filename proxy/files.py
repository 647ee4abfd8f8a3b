"""Files of this program in a folder that may come from anywhere: it follows no link, and waits for no FIFO.

A folder is held open, and its files are named relative to it, so that no path changes between two calls. This module
opens, replaces and removes only regular files and folders, because the program makes nothing else. Any other entry (a
symbolic link, a FIFO, a device) raises StrangeFileError and stays as it is. Links are followed only in the path of a
folder that the user has named.

Knows nothing of the files' content. All calls block.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self

# O_NONBLOCK: opening a FIFO must not wait for its other end; regular files ignore the flag
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# errors of opening an entry of the wrong kind: a link, no folder, a FIFO or a socket, a folder
_STRANGE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR})


class StrangeFileError(OSError):
    """An entry is of a kind that this program does not make. The message names its path and kind, in one line."""

    def __init__(self, path: Path, mode: int, wanted: int) -> None:
        kind, right = (_KINDS.get(stat.S_IFMT(one), "something else") for one in (mode, wanted))
        super().__init__(errno.EPERM, f"{path} is {kind}, not {right}")

    def __str__(self) -> str:
        return str(self.strerror)


class Folder:
    """A folder that is held open until `close`. `path`: its path when it was opened, for messages.

    Every `name` is that of an entry of the folder itself; a name that leads elsewhere raises ValueError. All calls may
    raise OSError, which includes StrangeFileError.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: Path) -> Self:
        """The folder at a path that the user has named; links are followed. FileNotFoundError if it is missing."""
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the folder. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def is_in_place(self) -> bool:
        """True if `path` still leads to this folder."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    @property
    def descriptor(self) -> int:
        """The open folder itself, for a caller that syncs it in its own way."""
        return self._descriptor

    @property
    def owner(self) -> int:
        """The user id of the folder's owner."""
        return os.fstat(self._descriptor).st_uid

    @property
    def changed_ns(self) -> int:
        """When an entry was added, renamed or removed last, in ns since 1970."""
        return os.fstat(self._descriptor).st_mtime_ns

    @property
    def is_writable(self) -> bool:
        """True if this process may create and remove entries in the folder."""
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self._descriptor, effective_ids=True)

    def lock(self) -> bool:
        """Locks the folder itself until `close`. False if it is locked already. True if folders have no locks here."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    # entries

    def names(self) -> list[str]:
        """The names of all entries, sorted."""
        # opened once more: a listing moves the offset of the descriptor, which threads share
        descriptor = os.open(".", _FOLDER, dir_fd=self._descriptor)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def stat(self, name: str) -> os.stat_result | None:
        """The status of an entry of any kind, links not followed; None if there is none."""
        try:
            return os.stat(_entry(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_file(self, name: str) -> bool:
        """True if a regular file has this name."""
        found = self.stat(name)
        return found is not None and stat.S_ISREG(found.st_mode)

    def is_folder(self, name: str) -> bool:
        """True if a folder, not a link to one, has this name."""
        found = self.stat(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def size(self, name: str) -> int:
        """The size of a file in bytes; 0 if there is none."""
        found = self._ours(name, stat.S_IFREG)
        return 0 if found is None else found.st_size

    # folders in it

    def folder(self, name: str) -> Folder:
        """A folder in this one, held open too. FileNotFoundError if it is missing."""
        try:
            descriptor = os.open(_entry(name), _FOLDER, dir_fd=self._descriptor)
        except OSError as error:
            self._raise_if_strange(name, error, stat.S_IFDIR)
            raise
        return Folder(self.path / name, descriptor)

    def make_folder(self, name: str, mode: int = 0o777, *, is_new: bool = False, owner: int | None = None) -> Folder:
        """A folder in this one, created and synced if it is missing.

        Args:
            is_new: raises FileExistsError if it exists.
            owner: the user id to whom a created folder belongs, where root creates it; None: to root then, too.
        """
        try:
            os.mkdir(_entry(name), mode, dir_fd=self._descriptor)
        except FileExistsError:
            if is_new:
                raise
            return self.folder(name)
        self.sync()
        made = self.folder(name)
        if owner is not None and os.geteuid() == 0 != owner:
            try:
                os.fchown(made.descriptor, owner, -1)
            except OSError:
                made.close()
                raise
        return made

    def remove_folder(self, name: str) -> None:
        """Removes an empty folder; does nothing if there is none."""
        if self._ours(name, stat.S_IFDIR) is not None:
            with suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=self._descriptor)

    # files in it

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """The descriptor of a regular file, closed on exec. `mode`: of a new file, before the umask."""
        try:
            descriptor = os.open(_entry(name), flags | _FILE, mode, dir_fd=self._descriptor)
        except OSError as error:
            self._raise_if_strange(name, error, stat.S_IFREG)
            raise
        found = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(found):
            os.close(descriptor)
            raise StrangeFileError(self.path / name, found, stat.S_IFREG)
        return descriptor

    def create(self, name: str, flags: int = os.O_WRONLY, mode: int = 0o600) -> int:
        """The descriptor of a new, empty file. An old file of that name, left by a crash, is removed first."""
        self.remove(name)
        return self.open(name, flags | os.O_CREAT | os.O_EXCL, mode)

    def read(self, name: str, max_bytes: int = -1) -> bytes:
        """A file's bytes, `max_bytes` of them at most. FileNotFoundError if it is missing."""
        with open(self.open(name), "rb") as file:
            return file.read(max_bytes)

    def replace(self, name: str, content: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
        """Replaces a file atomically: readers find the old content or the new one.

        `sync`: also after a crash of the machine. The new content is first written to a file named with a `.` in front.
        """
        hidden = "." + _entry(name)
        try:
            with open(self.create(hidden, mode=mode), "wb") as file:
                file.write(content)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            self.rename(hidden, name)
        except OSError:
            with suppress(OSError):
                self.remove(hidden)
            raise
        if sync:
            self.sync()

    def rename(self, name: str, new: str) -> None:
        """Renames a file or a folder. A file may replace a file, a folder an empty folder."""
        found = self.stat(name)
        if found is not None:
            self._ours(new, stat.S_IFMT(found.st_mode))
        os.rename(_entry(name), new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Removes a file; does nothing if there is none."""
        if self._ours(name, stat.S_IFREG) is not None:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Syncs the folder itself to the disk: the names of its entries."""
        os.fsync(self._descriptor)

    def _ours(self, name: str, wanted: int) -> os.stat_result | None:
        found = self.stat(name)
        if found is not None and stat.S_IFMT(found.st_mode) != wanted:
            raise StrangeFileError(self.path / name, found.st_mode, wanted)
        return found

    def _raise_if_strange(self, name: str, error: OSError, wanted: int) -> None:
        """Raises StrangeFileError if it explains `error`: what has the name is not of the kind `wanted`."""
        found = self.stat(name) if error.errno in _STRANGE else None
        if found is not None and stat.S_IFMT(found.st_mode) != wanted:
            raise StrangeFileError(self.path / name, found.st_mode, wanted) from error


def _entry(name: str) -> str:
    """Returns `name` if it is the name of an entry. Errors: ValueError for a path."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"not the name of a file: {name!r}")
    return name
