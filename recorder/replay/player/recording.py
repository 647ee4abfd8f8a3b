"""Keeps all that a replay sends and receives as a capture of its own (`--record`), with the proxy's recorder.

    Recording   the session: its tap, the process that makes Parquet files of it, the origins of its exchanges
    Tape        one of its connections

The proxy's promises hold here too: secrets are masked, and a full or slow disk causes a gap, never a delay (unless the
replay is told to wait).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import trio

from proxy.conversation import Cause, Conversation, Direction, Routes, Step
from proxy.observer import OpenedConnection
from proxy.schema.flags import MAIN
from proxy.terminal import echo, printable
from proxy.wire.framing import FrameLimits
from recorder.capture.compactor import compact
from recorder.capture.compactor_child import CompactorChild
from recorder.capture.frames import Origin
from recorder.capture.origins import Origins
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.tap import Tap, compactor_command, open_tap
from recorder.ready import troubles
from recorder.terminal import console, size

# no limits: requests are the replay's own, and answers of any length are taken (`frames.LARGEST`)
_LIMITS = FrameLimits(0x7FFFFFFF, 0x7FFFFFFF)
# seconds that a disk has for the last origins
_LAST_WRITE = 20.0
# seconds between two looks of a replay that waits for the disk
_LOOK_AGAIN = 0.01


class Tape:
    """Records one connection. Bytes are recorded before they are written, and after they were read."""

    def __init__(
        self, tap: Tap, origins: Origins, facts: OpenedConnection, conversation: Conversation, unread: Counter[Cause]
    ) -> None:
        self._tap, self._origins, self._conversation, self._number = tap, origins, conversation, facts.connection
        self._ending: Cause | None = None
        self._unread = unread
        self._is_closed = False
        tap.opened(facts, conversation)

    def sends(self, data: bytes, origin: Origin | None = None) -> None:
        """A request, or a login's token, is about to be written."""
        if self._reads(data):
            number, now = self._conversation.next_request_number, time.monotonic_ns()
            self._arrived(Direction.REQUEST, data, now, self._conversation.requests(data, now))
            if origin is not None:
                self._origins.add(self._number, number, origin)

    def came(self, data: bytes) -> None:
        """Bytes were read. Empty: the target has ended the connection."""
        now = time.monotonic_ns()
        if not data:
            self._tap.half_closed(self._number, Direction.RESPONSE, now)
            self._ending = self._ending or Cause.BROKER_CLOSED
        elif self._reads(data):
            self._arrived(Direction.RESPONSE, data, now, self._conversation.responses(data, now))

    def _reads(self, data: bytes) -> bool:
        """False behind bytes that are no Kafka frame, where nothing can be read any more: such bytes are counted."""
        if self._ending is not None:
            self._unread[self._ending] += len(data)
        return self._ending is None

    async def room(self) -> None:
        """Waits while the disk is full, if the replay waits for it."""
        await _room(self._tap)

    def _arrived(self, direction: Direction, data: bytes, now: int, step: Step) -> None:
        self._tap.arrived(self._number, direction, data, now, step)
        self._ending = step.cause

    def broke(self) -> None:
        """The target has reset the connection."""
        self._ending = self._ending or Cause.BROKER_RESET

    def close(self) -> None:
        """The connection is gone. Further calls do nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._tap.closed(self._number, self._ending or Cause.CLIENT_CLOSED, time.monotonic_ns())


class Recording:
    """A session that a replay writes. Resource handling: threads and a child process run until `close`."""

    def __init__(self, folder: Path, when_full: WhenFull) -> None:
        """Errors: FolderError."""
        self._folder = folder
        self._tap = open_tap(folder, replace(RecordSettings(), cluster=MAIN, when_full=when_full))
        self._origins = Origins(folder, self._tap.session)
        self._routes = Routes.marking_secrets()
        self._numbers = count()
        self._nodes: dict[int, str] = {}
        # ids and addresses of the target that the session tells already
        self._identities: set[str] = set()
        # bytes behind those that could not be read
        self._unread: Counter[Cause] = Counter()
        self._compactor = CompactorChild(self._tap, compactor_command(folder, self._tap.session))

    def identified(self, cluster_id: str | None) -> None:
        """The target has told its cluster's id; None: it has none."""
        if cluster_id is not None and cluster_id not in self._identities:
            self._identities.add(cluster_id)
            self._tap.identified(MAIN, ids=[cluster_id])

    def opened(self, node: int | None, address: str, client: str, reached: str, tls: bool) -> Tape:
        """A connection to the target was opened.

        Args:
            address: the dialled one; `reached`: the one that it has led to.
            client: the address of the replay's socket.
        """
        if new := {address, reached} - self._identities:
            self._identities |= new
            self._tap.identified(MAIN, upstreams=sorted(new))
        if node is not None and self._nodes.get(node) != address:
            self._nodes[node] = address
            self._tap.node(node, address, address, MAIN)
        facts = OpenedConnection(next(self._numbers), time.monotonic_ns(), address, client, node, address, tls, MAIN)
        return Tape(self._tap, self._origins, facts, Conversation(self._routes, _LIMITS), self._unread)

    async def room(self) -> None:
        """Waits while the disk is full, if the replay waits for it."""
        await _room(self._tap)

    def close(self) -> list[str]:
        """Writes what is left and makes Parquet files of it. Blocks.

        Returns lines on where it is, and what is missing.
        """
        self._tap.close()
        self._origins.close(_LAST_WRITE)
        self._compactor.close()
        counted = self._tap.counters()
        return [*self._told(counted["dropped_bytes"], bool(counted["failed"])), *self._compacted()]

    def _compacted(self) -> list[str]:
        """Compacts what the session's compactor has left. Returns the troubles that it meets."""
        try:
            return troubles(compact(self._folder, only_own=True))
        except OSError as error:
            return [f"it is not compacted: {error}"]

    def _told(self, dropped: float, has_failed: bool) -> list[str]:
        lines = [f"recorded in {printable(self._folder)}, session {self._tap.session}"]
        if dropped:
            lines.append(f"{size(int(dropped))} are not in it: the disk was too slow (see its gaps)")
        lines += [f"{size(each)} are not in it: {why.value} before them" for why, each in self._unread.items()]
        if has_failed:
            lines.append("its end is not in it: the disk failed")
        if self._origins.lost:
            lines.append(f"{self._origins.lost} exchanges have no origin in it: {self._origins.error or 'a slow disk'}")
        return lines


async def _room(tap: Tap) -> None:
    while tap.must_wait:
        await trio.sleep(_LOOK_AGAIN)


@asynccontextmanager
async def recording(folder: Path | None, when_full: WhenFull) -> AsyncIterator[Recording | None]:
    """A recording into a folder, finished in the end; None without a folder. Errors: FolderError."""
    if folder is None:
        yield None
        return
    found = await trio.to_thread.run_sync(Recording, folder, when_full)
    try:
        yield found
    finally:
        with trio.CancelScope(shield=True), console(stderr=True).status("writing the recording ..."):
            lines = await trio.to_thread.run_sync(found.close, abandon_on_cancel=True)
        for line in lines:
            echo(f"note: {line}", err=True)
