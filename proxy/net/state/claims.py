"""Claims a state file for each cluster. While the proxy runs, no other proxy can claim that file.

The command line makes `StateClaims` before anything else starts. A claim has two conditions:

  * The file is free: this proxy gets the flock on a lock file beside it. The kernel releases the lock when the process
    ends, even by a crash.
  * The file names no owner, or this cluster as its owner. An owner is a bootstrap listener with its bootstrap servers.
    So a restarted proxy finds its own file again, whatever other proxies run by then.

If a file that the user has named can't be claimed, that is an error. If a default name is taken, the name gets a
number: `_nodes.json` for the first proxy that records in a folder, `_nodes.2.json` for the next.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from logging import WARNING
from operator import itemgetter
from pathlib import Path

from proxy.config import ClusterSettings, ProxySettings
from proxy.files import Folder
from proxy.log import log
from proxy.net.state.file import Damaged, NotAState, Owner, SavedState, read_state, unreadable
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

# added to a state file's name: its lock file, and the new name of a damaged file
LOCK_SUFFIX, DAMAGED_SUFFIX = ".lock", ".damaged"
# the numbers of new default names stay below this
NUMBER_LIMIT = 1000


class ClaimedElsewhere(Exception):
    """Another proxy has the file open, or owns it; the message says which."""


class StateClaims:
    """The state files of a proxy's clusters, locked until `release`.

    settings: the proxy's settings, with the path of each cluster's claimed file (None: no file) and the ports in it.

    Raises:
        BadSetting: a file that the user has named is another proxy's, unreadable, or no state file.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._claims: list[_Claim] = []
        try:
            self.settings = replace(settings, clusters=tuple(map(self._claimed, settings.clusters)))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Unlocks the files for other proxies; a second call does nothing."""
        while self._claims:
            self._claims.pop().release()

    def _claimed(self, cluster: ClusterSettings) -> ClusterSettings:
        if cluster.state is None:
            return cluster
        claim = (_claim_default if cluster.state_is_default else _claim_named)(cluster.state, cluster)
        if claim is None:
            return replace(cluster, state=None)
        self._claims.append(claim)
        return replace(cluster, state=claim.path, remembered=claim.state.ports)


class _Claim:
    """A claimed state file at `path`, and its content (`state`). A damaged file is renamed, and counts as empty.

    Raises:
        ClaimedElsewhere: the file is another proxy's. NotAState: it is no state file. OSError: it can't be read.
    """

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.state = _read(path)
            if self.state.owner is not None and not self.state.owner.is_same(owner):
                raise ClaimedElsewhere(f"it is kept by {self.state.owner}")
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self._lock is not None:
            # the lock file is removed while it is locked: a proxy that has opened it finds that out in `_locked_in`
            with suppress(OSError), Folder.at(self.path.parent) as folder:
                folder.remove(self.path.name + LOCK_SUFFIX)
            os.close(self._lock)
            self._lock = None


def _claim_named(path: Path, cluster: ClusterSettings) -> _Claim:
    """Claims the file that the user has named."""
    try:
        return _Claim(path, Owner.of(cluster))
    except ClaimedElsewhere as error:
        suggested = Setting("state", path.with_stem(f"{path.stem}-{cluster.listen.port or 2}"))
        fault = Fault((Setting("state", path), f" is another proxy's ({error})"), ("a file of its own, ", suggested))
    except (NotAState, OSError) as error:
        fault = unreadable(path, error)
    raise BadSetting(fault, cluster=cluster.name)


def _claim_default(path: Path, cluster: ClusterSettings) -> _Claim | None:
    """Claims a file named like `path`: the cluster's own, else an ownerless one, else a new one. None: none is left."""
    owner = Owner.of(cluster)
    numbered = _numbered_paths(path)
    try:
        for file in (*_candidates(numbered.values(), owner), *_unused_paths(path, numbered)):
            with suppress(ClaimedElsewhere):
                return _Claim(file, owner)
    except (NotAState, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        log(WARNING, "no state file can be had: nodes are not kept", cluster=cluster.name, path=file, reason=reason)
    return None


def _numbered_paths(path: Path) -> dict[int, Path]:
    """The existing files named like `path`, by number: 1 for `nodes.json` itself, 2 for `nodes.2.json`."""
    pattern = re.compile(rf"{re.escape(path.stem)}(?:\.([1-9][0-9]*))?{re.escape(path.suffix)}")
    numbered: dict[int, Path] = {}
    with suppress(OSError), Folder.at(path.parent) as folder:
        for name in folder.names():
            if match := pattern.fullmatch(name):
                numbered[int(match[1] or 1)] = path.with_name(name)
    return dict(sorted(numbered.items()))


def _unused_paths(path: Path, existing: Mapping[int, Path]) -> Iterator[Path]:
    """Paths named like `path`, with numbers that no existing file has."""
    for number in range(1, NUMBER_LIMIT):
        if number not in existing:
            yield path if number == 1 else path.with_stem(f"{path.stem}.{number}")


def _candidates(paths: Iterable[Path], owner: Owner) -> list[Path]:
    """The files of this owner, then the files without an owner. A damaged file counts as without one."""
    ranked = []
    for path in paths:
        with suppress(NotAState, OSError):
            named = _owner_in(path)
            if named is None or named.is_same(owner):
                ranked.append((named is None, path))
    return [path for _, path in sorted(ranked, key=itemgetter(0))]


def _owner_in(path: Path) -> Owner | None:
    """The owner that a state file names; None: it names none, or is damaged. Raises NotAState, OSError."""
    with suppress(Damaged):
        return read_state(path).owner
    return None


def _read(path: Path) -> SavedState:
    """The state in a file. A damaged file is renamed, and counts as empty."""
    try:
        return read_state(path)
    except Damaged as damage:
        renamed = path.with_name(path.name + DAMAGED_SUFFIX)
        log(
            WARNING,
            "state file is damaged: it is set aside, and nodes are learned anew",
            now=renamed,
            reason=damage,
        )
        # if the file can't be renamed, the first change replaces it
        with suppress(OSError), Folder.at(path.parent) as folder:
            folder.rename(path.name, renamed.name)
        return SavedState()


def _locked(path: Path) -> int | None:
    """Returns the descriptor of the locked lock file; None: it can't be locked, and the proxy works without a lock."""
    # if the folder can't be made, the first write logs the error
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with Folder.at(path.parent) as folder:
            return _locked_in(folder, path.name + LOCK_SUFFIX)
    return None


def _locked_in(folder: Folder, name: str) -> int | None:
    try:
        while True:
            descriptor = _opened_and_locked(folder, name)
            # 0 links: the former holder has removed this lock file, and another proxy may have made a new one
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)
    except OSError as error:
        event = "state file can't be locked: no other proxy may be given the same one"
        log(WARNING, event, lock=folder.path / name, reason=error.strerror)
        return None


def _opened_and_locked(folder: Folder, name: str) -> int:
    """Returns the descriptor. Raises ClaimedElsewhere; OSError: can't be opened, or the file system has no locks."""
    descriptor = folder.open(name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise ClaimedElsewhere("it has it open now") from None
        raise
    return descriptor
