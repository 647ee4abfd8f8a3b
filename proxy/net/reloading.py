"""Reloads the settings at SIGHUP, while traffic goes on: all changes take effect, or none.

    read       a thread reads the settings' sources and the files that they name, because a disk may hang
    prepare    all that may fail or wait is done: new listeners are opened, the workers agree
    commit     the changes take effect without waiting. If a fault stops one, all are undone

Every failure is logged, and leaves the settings as they are. All SIGHUPs during a reload cause one further reload.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from logging import ERROR, INFO
from typing import Any, NamedTuple, TypeVar

import trio

from proxy.config import ProxySettings
from proxy.log import log
from proxy.net.blocking import in_thread
from proxy.net.change import Change, commit, do_nothing, drop
from proxy.net.systemd import Systemd
from proxy.schema.errors import BadSetting
from proxy.threads import NoThread

# reading takes milliseconds unless the disk hangs
READ_SECONDS = 10.0

T = TypeVar("T")


class ReloadedSettings(NamedTuple):
    """Settings that were read again. `recording`: the recorder's own settings.

    change: a change outside `net` that the settings cause (such as the log's level). It is committed after the changes
        of `net` in this process, and before workers take over the settings.
    """

    settings: ProxySettings
    recording: Any = None
    change: Change = Change(do_nothing, do_nothing)


# reads the settings again; blocks. Raises BadSetting
ReadSettings = Callable[[], ReloadedSettings]


class ReadingThread:
    """Runs calls that read settings, one at a time, in a thread. While a call hangs, later calls fail."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(1)

    async def call(self, blocking: Callable[[], T]) -> T:
        """Returns the result of a blocking call.

        Raises:
            BadSetting: the call raised it; this call or an earlier one hangs; or no thread can be had.
        """
        with trio.move_on_after(READ_SECONDS):
            try:
                return await in_thread(blocking, self._limiter)
            except NoThread as error:
                raise BadSetting(f"they can't be read: {error.strerror}") from error
        raise BadSetting(f"they can't be read within {READ_SECONDS:.0f} s: is their disk well?")


class Reloading:
    """Handles SIGHUP.

    Args:
        prepare: does the steps "read" and "prepare"; returns the changes to commit. Raises BadSetting.
        systemd: is notified when a reload begins and ends.
        stopping: once set, no setting changes.
    """

    def __init__(self, prepare: Callable[[], Awaitable[list[Change]]], systemd: Systemd, stopping: trio.Event) -> None:
        self._prepare = prepare
        self._systemd = systemd
        self._stopping = stopping
        self._requested = trio.Event()

    def request(self) -> None:
        """Requests a reload, after a SIGHUP."""
        self._requested.set()

    async def run(self) -> None:
        """Reloads after each request, until cancelled. Call it when all listeners are open.

        A SIGHUP before this call is handled once it runs.
        """
        while True:
            await self._requested.wait()
            self._requested = trio.Event()
            self._systemd.reloading()
            await self._reload()
            if not self._stopping.is_set():
                self._systemd.ready()

    async def _reload(self) -> None:
        try:
            changes = await self._prepare()
        except BadSetting as error:
            for line in error.lines:
                log(ERROR, "settings stay as they are", reason=line)
        except Exception:
            # a bug must not end the proxy's connections
            log(ERROR, "settings stay as they are: a fault", trace=True)
        else:
            self._commit(changes)

    def _commit(self, changes: list[Change]) -> None:
        if self._stopping.is_set():
            drop(changes)
            log(INFO, "settings stay as they are: the proxy stops")
        elif commit(changes):
            log(INFO, "settings were read again")
