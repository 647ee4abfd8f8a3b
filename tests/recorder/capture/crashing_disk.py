"""A disk under a folder that forgets at a crash of the machine what was not synced.

While it is active, `os.fsync` notes what is durable: the bytes of a file, the names in a folder. `crash` makes a copy
of the folder as the disk may hold it afterwards: all that is durable, and of the rest nothing, all, or any part. Names
that were added, renamed or removed stay or go each on its own; bytes have holes, up to any length.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

import pytest

SECTOR = 512


class Rest(Enum):
    """What the disk keeps of what was not synced."""

    NOTHING = "nothing"
    ANY_PART = "any part"
    ALL = "all"


class CrashingDisk:
    """The disk of one folder, which is empty and durable at the beginning."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # inode -> a descriptor of it: while one is open, no other file gets the number
        self._pinned: dict[int, int] = {}
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self.syncs = 0
        self._sync_folder(self._pin(str(root)))

    def fsync(self, descriptor: int) -> None:
        """Stands in for `os.fsync`."""
        self.syncs += 1
        inode = self._pin(f"/proc/self/fd/{descriptor}")
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._sync_folder(inode)
        else:
            self._bytes[inode] = self._live_bytes(inode)

    def close(self) -> None:
        for descriptor in self._pinned.values():
            os.close(descriptor)

    def crash(self, target: Path, rng: random.Random, rest: Rest) -> None:
        """Makes `target` what the disk holds after a crash now."""
        target.mkdir(parents=True)
        self._rebuild(os.stat(self.root).st_ino, target, rng, rest)

    def _pin(self, path: str) -> int:
        descriptor = os.open(path, os.O_RDONLY)
        inode = os.fstat(descriptor).st_ino
        if inode in self._pinned:
            os.close(descriptor)
        else:
            self._pinned[inode] = descriptor
        return inode

    def _sync_folder(self, inode: int) -> None:
        self._names[inode] = self._live_names(inode)

    def _live_names(self, inode: int) -> dict[str, int]:
        folder = f"/proc/self/fd/{self._pinned[inode]}"
        while True:
            # another thread may rename a file behind the listing
            with suppress(FileNotFoundError):
                return {name: self._pin(f"{folder}/{name}") for name in os.listdir(folder)}

    def _live_bytes(self, inode: int) -> bytes:
        return Path(f"/proc/self/fd/{self._pinned[inode]}").read_bytes()

    def _rebuild(self, inode: int, target: Path, rng: random.Random, rest: Rest) -> None:
        durable, live = self._names.get(inode, {}), self._live_names(inode)
        for name in sorted(durable.keys() | live.keys()):
            found = _chosen(durable.get(name), live.get(name), rng, rest)
            if found is None:
                continue
            if stat.S_ISDIR(os.fstat(self._pinned[found]).st_mode):
                (target / name).mkdir()
                self._rebuild(found, target / name, rng, rest)
            else:
                (target / name).write_bytes(_torn(self._bytes.get(found, b""), self._live_bytes(found), rng, rest))


def _chosen(durable: int | None, live: int | None, rng: random.Random, rest: Rest) -> int | None:
    match rest:
        case Rest.NOTHING:
            return durable
        case Rest.ALL:
            return live
        case Rest.ANY_PART:
            return rng.choice([durable, live])


def _torn(durable: bytes, live: bytes, rng: random.Random, rest: Rest) -> bytes:
    """The bytes of a file to which was only ever appended."""
    assert live.startswith(durable)
    more = live[len(durable) :]
    match rest:
        case Rest.NOTHING:
            return durable
        case Rest.ALL:
            return live
        case Rest.ANY_PART:
            kept = bytearray(more[: rng.randint(0, len(more))])
            for at in range(0, len(kept), SECTOR):
                if rng.random() < 0.3:
                    kept[at : at + SECTOR] = bytes(len(kept[at : at + SECTOR]))
            return durable + bytes(kept)


@contextmanager
def crashing_disk(root: Path) -> Iterator[CrashingDisk]:
    """A disk under an empty folder, within the block."""
    disk = CrashingDisk(root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", disk.fsync)
        try:
            yield disk
        finally:
            disk.close()
