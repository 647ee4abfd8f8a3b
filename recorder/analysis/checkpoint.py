"""Whose checkpoint it is: a stream's checkpoint, output and capture belong together, and to one process at a time.

Spark looks at none of that. Another capture's checkpoint would go on with windows of other traffic; another output
would lack the windows of before; and an output of another checkpoint would silently take none of the first batches,
because its log has batches of these numbers. So a file beside Spark's own says what the checkpoint is of. It is
written before Spark starts, at once and whole.

Two processes that go on from one checkpoint would each write what the other has taken for its own: windows twice, or
none. So a stream locks both folders. Locks are flocks, which end with their process: a killed stream leaves none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from proxy.files import Folder
from recorder.capture.lock import Lock

OWNER = "kafka-wiretap.json"
# its name until it is whole; Spark passes over names that begin with a dot
_DRAFT = f".{OWNER}"
LOCK = ".kafka-wiretap.lock"
# Spark's log of a file sink, in each table's folder
_SINK_LOG = "_spark_metadata"
_ANOTHER = "right would be another --output and --checkpoint"


class WrongCheckpoint(ValueError):
    """Checkpoint, output and capture are not of one stream, or another has them. The message says what is right."""


class StreamLocks:
    """The locks on a stream's folders, held until `release` or the process's end."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._held: dict[Path, Lock] = {}

    def take(self, *, make: bool) -> None:
        """Locks the folders that are there. `make`: makes those that are missing, and locks these too.

        Errors: WrongCheckpoint while another stream has a folder; OSError where it can't be written or locked.
        """
        for folder in self._folders:
            if make:
                folder.mkdir(parents=True, exist_ok=True)
            if folder not in self._held and folder.exists():
                self._held[folder] = _lock_on(folder)

    def release(self) -> None:
        """Releases all locks; a second call does nothing."""
        for lock in self._held.values():
            lock.release()


def _lock_on(path: Path) -> Lock:
    try:
        with Folder.at(path) as folder:
            lock = Lock.take(folder, LOCK)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    if lock is None:
        raise WrongCheckpoint(
            f"another stream writes to {path} now: right would be to end it first, or another --output and --checkpoint"
        )
    return lock


def claim(checkpoint: Path, facts: Mapping[str, Any], tables: Mapping[str, Path], *, write: bool) -> None:
    """Makes sure that the checkpoint is this stream's, or is to be.

    Args:
        facts: what must be the same each time, by the names of the command's options and arguments.
        tables: the folders of the output.
        write: make a new one this stream's.
    Errors: WrongCheckpoint, OSError.
    """
    owner = _owner(checkpoint)
    if owner is None or _is_unused(checkpoint, tables):
        _check_new(checkpoint, tables)
        if write:
            _write(checkpoint, facts)
        return
    for name, value in facts.items():
        if owner.get(name) != value:
            there = _shown(owner.get(name))
            raise WrongCheckpoint(
                f"{checkpoint} is the checkpoint of another stream: its {name} is {there}, not {_shown(value)}; "
                f"right would be {name} {there}, or another --output and --checkpoint"
            )
    for name, folder in tables.items():
        if _has_committed(checkpoint / name / "commits") and not (folder / _SINK_LOG).is_dir():
            raise WrongCheckpoint(
                f"{folder} is gone, and {checkpoint} goes on behind it: right would be to remove the checkpoint too"
            )
        for log in _logs(checkpoint / name):
            _check_log(log)


def _is_unused(checkpoint: Path, tables: Mapping[str, Path]) -> bool:
    """True if Spark has not begun with it: a stream that did not start binds nobody to its options."""
    return not _is_of_others(checkpoint) and not any(folder.exists() for folder in tables.values())


def _is_of_others(checkpoint: Path) -> bool:
    """True if the checkpoint holds more than what a stream writes before Spark starts."""
    return any(one.name not in (OWNER, _DRAFT, LOCK) for one in checkpoint.iterdir())


def _has_committed(commits: Path) -> bool:
    """True if a batch was written. Spark keeps the newest hundred of their numbers."""
    with suppress(FileNotFoundError):
        return any(one.name.isdigit() for one in commits.iterdir())
    return False


def _logs(query: Path) -> Iterator[Path]:
    """The files that tell Spark how far a query is. Those that it has not named yet begin with a dot."""
    for log in (query / "metadata", *(query / "offsets").glob("[0-9]*"), *(query / "commits").glob("[0-9]*")):
        if log.exists():
            yield log


def _check_log(log: Path) -> None:
    """Spark would say which letter it did not expect. A machine that loses its power leaves empty files."""
    with log.open("rb") as file:
        begin = file.read(1)
    if begin != (b"{" if log.name == "metadata" else b"v"):
        raise WrongCheckpoint(f"{log} is damaged: {_ANOTHER}")


def _owner(checkpoint: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((checkpoint / OWNER).read_text())
    except FileNotFoundError:
        return None
    except (ValueError, UnicodeError):
        found = None
    if not isinstance(found, dict):
        raise WrongCheckpoint(f"{checkpoint / OWNER} is damaged: {_ANOTHER}")
    return found


def _check_new(checkpoint: Path, tables: Mapping[str, Path]) -> None:
    with suppress(FileNotFoundError):
        if _is_of_others(checkpoint):
            raise WrongCheckpoint(f"{checkpoint} is no checkpoint of kafka-wiretap: right would be an empty folder")
    for folder in tables.values():
        if folder.exists():
            raise WrongCheckpoint(
                f"{folder} is there already, of a stream with another checkpoint: right would be that checkpoint, "
                "or another --output"
            )


def _write(checkpoint: Path, facts: Mapping[str, Any]) -> None:
    checkpoint.mkdir(parents=True, exist_ok=True)
    draft = checkpoint / _DRAFT
    with draft.open("w") as file:
        json.dump(dict(facts), file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(checkpoint / OWNER)


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
