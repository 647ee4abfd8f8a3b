"""Writes and reads the table `origins`: for each exchange of a replay, the recorded exchange that it replays.

Used by the player of a replay, and by `inspect`. The table is separate from `frames` and `events`, so that their
readers need not know it. A thread writes a file of rows at a time, so that the player never waits. A crash loses the
rows of the last minute.
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
from recorder.capture.remote import Place
from recorder.capture.storage import TableFile, ignore_step, publish

# a file is written when so many rows wait, or after so many seconds
MAX_ROWS, MAX_SECONDS = 100_000, 60.0
# rows that may wait for a slow disk, of some 200 bytes each; further rows are lost
MAX_WAITING = 1_000_000
_NAMES = [name for name, _ in c.ORIGIN_COLUMNS]


class Origins:
    """Writes the origins of one session's exchanges.

    Resource handling: a thread runs until `close`.

    Attributes:
        lost: the number of rows that were not written.
        error: why the newest failed write failed; "" if none failed. Rows are lost without it if too many wait.
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
        """Adds the origin of an exchange of this session. Never waits."""
        if len(self._rows) >= MAX_WAITING:
            self.lost += 1
            return
        self._rows.append((connection, exchange, *origin))
        if len(self._rows) == MAX_ROWS:
            self._due.set()

    def close(self, within: float) -> None:
        """Writes the waiting rows. Blocks `within` seconds at most; rows that are not written by then are lost."""
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
        """Writes the rows that wait now. Rows that are added meanwhile stand after them, and stay."""
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
        file = TableFile(self._folder, c.ORIGINS_FOLDER, time.time_ns() // c.HOUR_NS, name, c.origins_schema())
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


def origin_of(folder: Place, session: str, connection: int, exchange: int, *, most: int) -> Origin | None:
    """The origin of an exchange; None if the exchange has none, or the capture is not that of a replay.

    `most`: bytes of memory that the rows of one file may take. Errors: as of `reader.row_groups`.
    """
    where = (pc.field(c.CONNECTION) == connection) & (pc.field(c.EXCHANGE) == exchange)
    for file in files(folder, c.ORIGINS_FOLDER):
        if file.session == session:
            for table in row_groups(file, _NAMES[3:], where=where, allowance=Allowance("reading origins", most)):
                row = table.to_pylist()[0]
                values = [row[name] for name in _NAMES[3:]]
                return None if None in values else Origin(*values)
    return None
