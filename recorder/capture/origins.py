"""The origins of a replay's exchanges: which exchange of another capture each of them replays.

A table of its own beside `frames` and `events`, so that readers of these need not know it. What plays writes it, in a
thread, some rows at a time: never in the way, as all of a recording. A crash loses the rows of the last minute.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire.budget import Allowance
from recorder.capture import frames as c
from recorder.capture.frames import Origin
from recorder.capture.partitions import range_name
from recorder.capture.reader import files, row_groups
from recorder.capture.storage import RangeFile, ignore_step, publish

# rows of a file, and how long they may wait for others
MAX_ROWS, MAX_SECONDS = 100_000, 60.0
# rows that wait for a slow disk, some 200 bytes each; what is more is not kept
MAX_WAITING = 1_000_000
_NAMES = [name for name, _ in c.ORIGIN_COLUMNS]


class Origins:
    """Writes the origins of one session's exchanges.

    Resource handling: a thread runs until `close`.

    Attributes:
        lost: rows that are not kept; `error`: the last reason.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self._folder, self._session = folder, session
        self._rows: list[tuple[int, int, str, int, int]] = []
        self._files = 0
        self._is_closing = False
        self._due = threading.Event()
        self.lost = 0
        self.error = ""
        self._thread = threading.Thread(target=self._run, name="origins", daemon=True)
        self._thread.start()

    def add(self, connection: int, exchange: int, origin: Origin) -> None:
        """An exchange of this session replays `origin`. Never waits."""
        if len(self._rows) >= MAX_WAITING:
            self.lost += 1
            return
        self._rows.append((connection, exchange, *origin))
        if len(self._rows) == MAX_ROWS:
            self._due.set()

    def close(self, within: float) -> None:
        """Writes what waits. Blocks `within` seconds at most; what is not written by then is lost."""
        self._is_closing = True
        self._due.set()
        self._thread.join(within)
        if self._thread.is_alive():
            self.lost += len(self._rows)
            self.error = f"not written within {within:g} s"

    def _run(self) -> None:
        while not self._is_closing:
            self._due.wait(MAX_SECONDS)
            self._due.clear()
            self._write()
        self._write()

    def _write(self) -> None:
        """Writes the rows that wait by now. Others may come meanwhile: they stand behind them."""
        rows = self._rows[:]
        if not rows:
            return
        try:
            self._publish(rows)
        except (OSError, pa.ArrowException) as error:
            self.lost += len(rows)
            self.error = str(error)
        del self._rows[: len(rows)]

    def _publish(self, rows: list[tuple[int, int, str, int, int]]) -> None:
        self._files += 1
        name = range_name(self._session, self._files)
        file = RangeFile(self._folder, c.ORIGINS_FOLDER, time.time_ns() // c.HOUR_NS, name, c.origins_schema())
        try:
            for start in range(0, len(rows), MAX_ROWS):
                columns = zip(*rows[start : start + MAX_ROWS], strict=True)
                named = dict(zip(_NAMES[1:], map(list, columns), strict=True))
                named[c.SESSION] = [self._session] * len(rows[start : start + MAX_ROWS])
                file.write(pa.table(named, schema=c.origins_schema()))
            publish([file], ignore_step)
        except BaseException:
            file.discard()
            raise


def origin_of(folder: Path, session: str, connection: int, exchange: int, *, most: int) -> Origin | None:
    """The origin of an exchange; None for one that a replay made of its own, and in captures of no replay.

    `most`: bytes of memory that a file's rows may take. Errors: as of `reader.row_groups`.
    """
    where = (pc.field(c.CONNECTION) == connection) & (pc.field(c.EXCHANGE) == exchange)
    for file in files(folder, c.ORIGINS_FOLDER):
        if file.session == session:
            for table in row_groups(file, _NAMES[3:], where=where, allowance=Allowance("reading origins", most)):
                row = table.to_pylist()[0]
                values = [row[name] for name in _NAMES[3:]]
                return None if None in values else Origin(*values)
    return None
