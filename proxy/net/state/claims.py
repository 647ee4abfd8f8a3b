"""Which state file a cluster has while the proxy runs: one that nobody else writes, and that is no other listener's.

A file that somebody has named is the one, or an error. Where its name is the proxy's own choice another one will do:
`_nodes.json` for the first proxy that records in a folder, `_nodes.2.json` for the next. A proxy that starts again
finds its own by what stands in it, whoever is there or gone meanwhile.

Locks are flocks on a file beside it: they end with their process, however it ends.
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
from proxy.net.state.file import Damaged, NotAState, Owner, State, read_state, unreadable
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

LOCK, DAMAGED = ".lock", ".damaged"
# proxies that keep their nodes in one folder, under names of the proxy's own choice
MOST_FILES = 1000


class Taken(Exception):
    """The file is another proxy's; the message says whose."""


class StateClaims:
    """The state files of a proxy's clusters, its own until `release`.

    `settings`: those of the proxy, each cluster with the file that it has, and with the ports that stand in it.

    Raises:
        BadSetting: a file that was named is another proxy's, or something else.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._claims: list[_Claim] = []
        try:
            self.settings = replace(settings, clusters=tuple(map(self._claimed, settings.clusters)))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Lets other proxies have them; nothing happens the second time."""
        while self._claims:
            self._claims.pop().release()

    def _claimed(self, cluster: ClusterSettings) -> ClusterSettings:
        if cluster.state is None:
            return cluster
        claim = (_any_claim if cluster.state_is_default else _only_claim)(cluster.state, cluster)
        if claim is None:
            return replace(cluster, state=None)
        self._claims.append(claim)
        ports = {number: node.port for number, node in claim.state.nodes.items() if node.port is not None}
        return replace(cluster, state=claim.path, remembered=ports)


class _Claim:
    """A file that is locked, and what stands in it. A damaged one is out of the way.

    Raises:
        Taken: it is another proxy's. NotAState: it is something else. OSError: it can't be read.
    """

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.state = _read(path)
            if self.state.owner is not None and not self.state.owner.is_same(owner):
                raise Taken(f"it is kept by {self.state.owner}")
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self._lock is not None:
            # while it is locked: see `_locked_in`
            with suppress(OSError), Folder.at(self.path.parent) as folder:
                folder.remove(self.path.name + LOCK)
            os.close(self._lock)
            self._lock = None


def _only_claim(path: Path, cluster: ClusterSettings) -> _Claim:
    """The file that somebody has named. Raises BadSetting."""
    try:
        return _Claim(path, Owner.of(cluster))
    except Taken as taken:
        own = Setting("state", path.with_stem(f"{path.stem}-{cluster.listen.port or 2}"))
        fault = Fault((Setting("state", path), f" is another proxy's ({taken})"), ("a file of its own, ", own))
    except (NotAState, OSError) as error:
        fault = unreadable(path, error)
    raise BadSetting(fault, cluster=cluster.name)


def _any_claim(path: Path, cluster: ClusterSettings) -> _Claim | None:
    """The proxy's own file, or a new one, named as `path` is. None: none can be had."""
    owner = Owner.of(cluster)
    names = _names_in(path)
    try:
        for one in (*_worth_a_try(names.values(), owner), *_free(path, names)):
            with suppress(Taken):
                return _Claim(one, owner)
    except (NotAState, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        log(WARNING, "no state file can be had: nodes are not kept", cluster=cluster.name, path=one, reason=reason)
    return None


def _names_in(path: Path) -> dict[int, Path]:
    """What there is of a file's name, and of its name with numbers from 2 on: `nodes.json`, `nodes.2.json`."""
    pattern = re.compile(rf"{re.escape(path.stem)}(?:\.([1-9][0-9]*))?{re.escape(path.suffix)}")
    found: dict[int, Path] = {}
    with suppress(OSError), Folder.at(path.parent) as folder:
        for name in folder.names():
            if match := pattern.fullmatch(name):
                found[int(match[1] or 1)] = path.with_name(name)
    return dict(sorted(found.items()))


def _free(path: Path, names: Mapping[int, Path]) -> Iterator[Path]:
    """Names that nobody has yet."""
    for number in range(1, MOST_FILES):
        if number not in names:
            yield path if number == 1 else path.with_stem(f"{path.stem}.{number}")


def _worth_a_try(paths: Iterable[Path], owner: Owner) -> list[Path]:
    """Those that are this owner's, before those that say nothing of whose they are."""
    ranked = []
    for path in paths:
        with suppress(NotAState, OSError):
            found = _owner_in(path)
            if found is None or found.is_same(owner):
                ranked.append((found is None, path))
    return [path for _, path in sorted(ranked, key=itemgetter(0))]


def _owner_in(path: Path) -> Owner | None:
    with suppress(Damaged):
        return read_state(path).owner
    return None


def _read(path: Path) -> State:
    """What stands in a file; nothing in a damaged one, which gets another name."""
    try:
        return read_state(path)
    except Damaged as damage:
        aside = path.with_name(path.name + DAMAGED)
        log(WARNING, "state file is damaged: it is set aside, and nodes are learned anew", now=aside, reason=damage)
        # one that stays is replaced, once there is something to be kept
        with suppress(OSError), Folder.at(path.parent) as folder:
            folder.rename(path.name, aside.name)
        return State()


def _locked(path: Path) -> int | None:
    """The descriptor of its lock. None: there is none, as where nothing can be written at all. Raises Taken."""
    # what keeps the folder from being made is said once there is something to be kept
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with Folder.at(path.parent) as folder:
            return _locked_in(folder, path.name + LOCK)
    return None


def _locked_in(folder: Folder, name: str) -> int | None:
    try:
        while True:
            descriptor = _opened_and_locked(folder, name)
            # who had it may have removed it just now, and then another one has that name
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)
    except OSError as error:
        told = "state file can't be locked: no other proxy may be given the same one"
        log(WARNING, told, lock=folder.path / name, reason=error.strerror)
        return None


def _opened_and_locked(folder: Folder, name: str) -> int:
    """Raises Taken; OSError: the file system knows no locks."""
    descriptor = folder.open(name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise Taken("it has it open now") from None
        raise
    return descriptor
