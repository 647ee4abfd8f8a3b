"""Which stream owns a checkpoint: capture, output and checkpoint belong together, and to one process at a time.

Spark checks none of that. With another capture, the stream would continue with windows of other traffic. With another
output, the earlier windows would be missing. With an output of another checkpoint, the file sink would silently skip
the first batches, because its log already has batches with these numbers. So a file beside Spark's own names the owner.
It is written atomically, before Spark starts.

The file also has the number of the queries' form (`streaming.FORM`). A query of another form can't continue: Spark
would fail with an error about state schemas or numbers of sources.

Two processes that continue from one checkpoint would each take the other's batches for their own, and write windows
twice or never. So a stream locks both folders. The locks are flocks, which end with their process, even a killed one.
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
# The file's name until it is complete; Spark ignores names that begin with a dot.
_DRAFT = f".{OWNER}"
# The key of the form's number in that file; the first streams wrote none.
_FORM = "form"
LOCK = ".kafka-wiretap.lock"
# Spark's log of a file sink, in each table's folder
_SINK_LOG = "_spark_metadata"
_ANOTHER = "right would be another --output and --checkpoint"


class WrongCheckpoint(ValueError):
    """Capture, output and checkpoint are not of one stream, or are in use. The message says what to do."""


class StreamLocks:
    """The locks on a stream's folders. They are held until `release`, or until the process ends."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._held: dict[Path, Lock] = {}

    def take(self, *, make: bool) -> None:
        """Locks the existing folders. `make`: creates and locks the missing ones too.

        Errors: WrongCheckpoint if another stream holds a lock; OSError for a folder that can't be written or locked.
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


def claim(checkpoint: Path, facts: Mapping[str, Any], tables: Mapping[str, Path], *, form: int, write: bool) -> None:
    """Checks that the checkpoint belongs to this stream, or is new.

    Args:
        facts: values that must stay the same, by the names of the command's options and arguments.
        tables: the output's folders, by table.
        form: the number of the form of the stream's queries.
        write: write the owner file of a new checkpoint.
    Errors: WrongCheckpoint, OSError.
    """
    owner = _owner(checkpoint)
    if owner is None or _is_unused(checkpoint, tables):
        _check_new(checkpoint, tables)
        if write:
            _write(checkpoint, {_FORM: form, **facts})
        return
    _check_form(checkpoint, owner.get(_FORM, 0), form)
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


def _check_form(checkpoint: Path, there: Any, form: int) -> None:
    """Errors: WrongCheckpoint for the number of another form, or for no number."""
    if type(there) is not int:
        raise WrongCheckpoint(f"{checkpoint / OWNER} is damaged: {_ANOTHER}")
    if there != form:
        age = "an older" if there < form else "a newer"
        raise WrongCheckpoint(
            f"{checkpoint} was written by {age} kafka-wiretap, whose windows this one can't continue: {_ANOTHER}, or "
            "that kafka-wiretap"
        )


def _is_unused(checkpoint: Path, tables: Mapping[str, Path]) -> bool:
    """True if Spark has not used the checkpoint: a stream that never started may restart with other options."""
    return not _is_of_others(checkpoint) and not any(folder.exists() for folder in tables.values())


def _is_of_others(checkpoint: Path) -> bool:
    """True if the checkpoint holds other files than those that a stream writes before Spark starts."""
    return any(one.name not in (OWNER, _DRAFT, LOCK) for one in checkpoint.iterdir())


def _has_committed(commits: Path) -> bool:
    """True if a batch was committed. Spark keeps the numbers of the last hundred batches."""
    with suppress(FileNotFoundError):
        return any(one.name.isdigit() for one in commits.iterdir())
    return False


def _logs(query: Path) -> Iterator[Path]:
    """Yields the files from which Spark reads a query's progress. Spark's unfinished files begin with a dot."""
    for log in (query / "metadata", *(query / "offsets").glob("[0-9]*"), *(query / "commits").glob("[0-9]*")):
        if log.exists():
            yield log


def _check_log(log: Path) -> None:
    """Errors: WrongCheckpoint for a damaged log, such as an empty file after a power loss."""
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
