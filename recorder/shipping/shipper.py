"""Ships a capture's files, oldest first: put, checked in the bucket, then recorded as shipped.

    put       after a crash here, the bucket has the file, or a part that nobody sees
    check     after a crash here, the next shipper finds the file in the bucket, and does not put it again
    record    after a crash here, it is shipped

Several files are on their way at a time, each in a thread: a segment makes seven to ten, most of them small, and a
distant store takes longer to answer than to take one. They begin in their order, but a marker begins once its facts are
recorded. Only the caller's thread records.

Nothing in the bucket is removed. A file that changes while it is read waits for the next round, and one whose rows are
still in the log waits for the compactor. A file that can't be read is named once and passed over. A store that fails
ends the round; the next one begins with the same file, unless that file alone fails again and again.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from proxy.files import Folder
from proxy.threads import NoThread, start_thread
from recorder.capture.held import Lister, opened_folder
from recorder.capture.shipped import Records, Shipped, ShipStatus, read_status, write_status
from recorder.capture.storage import BeforeStep, ignore_step
from recorder.capture.unshipped import ShippingList, Unshipped, stems_in_the_log
from recorder.shipping.store import Cause, Store, StoreError

# seconds between two looks at a capture of which all is shipped
LOOK_SECONDS = 5.0
# seconds between two records or statuses: what a crash leaves unrecorded is found in the bucket
RECORD_SECONDS, STATUS_SECONDS = 1.0, 1.0
# seconds before a store is tried again: doubled from the first to the longest, and up to half of it left off by chance
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# tries in turn after the proxy's end: some 15 s
LAST_TRIES = 5
# files on their way at a time, of which each holds a connection; the SDK's pool has ten
MOST_AT_A_TIME = 8
# failures in turn before the log has a line: a connection that breaks off now and then is no news
SAID_AFTER = 2
# after so many failures of a file the others go before it: a store may refuse one key alone
TRIES_IN_TURN = 3


class _End(Enum):
    """What became of a file on its way."""

    PUT = auto()
    THERE = auto()  # the bucket had it
    CHANGED = auto()  # it is another file than was listed: it waits for the next round
    NOT_AS_MADE = auto()


class Shipper:
    """Ships one capture into one folder of a bucket. The caller has locked `ship`.

    Args:
        folder, ship: the capture, and its folder of records.
        url: the target of `store`.
        say: called with a line when something fails, and when it works again.
        before_step: called before each step, with its name; tests crash there.

    Attributes:
        files, bytes: what this shipper has shipped.
        there: files of this capture that the bucket had before.
    """

    def __init__(
        self,
        folder: Path,
        ship: Folder,
        store: Store,
        url: str,
        say: Callable[[str], None] = ignore_step,
        *,
        before_step: BeforeStep = ignore_step,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder, self._ship, self._store, self._say = folder, ship, store, say
        self._before_step, self._sleep = before_step, sleep
        self._records = Records(ship, url)
        self._listing, self._list = Lister(), ShippingList()
        self._waiting: dict[str, Unshipped] = {}
        # files that the bucket may have, though no record says so
        self._in_doubt: set[str] | None = None
        self._failed = Counter[str]()
        self._passed_over = set[str]()
        # files whose rows are still in the log, as of the last round
        self._logged = 0
        # the cause of the last round's failure, and how many rounds in turn have failed without a file shipped
        self._failing, self._in_turn = "", 0
        self._reason = ""
        # the cause that was said, and has not passed
        self._said = ""
        self._before = read_status(folder) or ShipStatus()
        # each cause has a number from the start: a rate needs the 0 before the first failure
        self._failures = Counter({**dict.fromkeys(map(str, Cause), 0), **self._before.failures})
        self._next_save = self._next_status = 0.0
        # the files on their way, by path, and those that have arrived or failed
        self._on_their_way: dict[str, Unshipped] = {}
        self._ended = SimpleQueue[tuple[Unshipped, _End | BaseException]]()
        self.files = self.bytes = self.there = 0

    def close(self) -> None:
        """Waits for files on their way, without recording them, and closes the records."""
        while self._on_their_way:
            del self._on_their_way[self._ended.get()[0].path]
        self._records.close()

    def follow(self, is_over: Callable[[], bool]) -> bool:
        """Ships until `is_over()`, and then what is left (`ship_all`). True if all is shipped."""
        while True:
            # asked before the round, which then finds all that was published
            if is_over():
                return self.ship_all(LAST_TRIES)
            self.is_shipped()
            self._wait(pause_after(self._in_turn) if self._failing else LOOK_SECONDS, is_over)

    def ship_all(self, tries: int) -> bool:
        """Ships what is there. Gives up after so many failures in turn. True if all is shipped."""
        while not self.is_shipped() and self._failing and self._in_turn < tries:
            self._wait(pause_after(self._in_turn), lambda: False)
        if self._logged:
            files = "a file" if self._logged == 1 else f"{self._logged} files"
            self._say(f"{files} will be shipped once the log of their rows is compacted")
        return self._is_done

    def is_shipped(self) -> bool:
        """Ships what waits. True if all of it is shipped; a failure is said, counted, and left for the next call."""
        before = self.files + self.there
        try:
            self._round()
        except StoreError as error:
            self._fail(error.cause.value, str(error))
        except OSError as error:
            self._fail(Cause.LOCAL.value, f"{error.filename or self._folder}: {error.strerror or error}")
        else:
            self._failing, self._in_turn = "", 0
            if self._said:
                self._say("shipping goes on")
            self._said = ""
        if self._failing:
            self._in_turn = 1 if self.files + self.there > before else self._in_turn + 1
            if self._in_turn >= SAID_AFTER and self._said != self._failing:
                self._say(f"nothing is shipped ({self._failing}), and tried again: {self._reason}")
                self._said = self._failing
        self._tell(at_once=True)
        return self._is_done

    @property
    def _is_done(self) -> bool:
        return not self._waiting and not self._failing

    def _round(self) -> None:
        with Folder.at(self._folder) as capture:
            held = self._listing.files(capture)
            self._records.keep_only({f"{date}T{hour}" for date, hour in held})
            found = self._list.files(capture, held, self._records.has)
            self._waiting = {file.path: file for file in found}
            if self._in_doubt is None:
                self._in_doubt = {*self._waiting}
            try:
                logged = stems_in_the_log(capture, held)
                self._logged = sum(file.stem in logged for file in found)
                found = [file for file in found if file.stem not in logged]
                self._ship_in_order(sorted(found, key=lambda file: self._failed[file.path] // TRIES_IN_TURN))
            finally:
                self._before_step("record")
                self._records.save()

    def _ship_in_order(self, files: Iterable[Unshipped]) -> None:
        """Ships several files at a time. Once one fails, no other begins. Errors: StoreError, the first one.

        Begins with one file, so that a store that fails is asked for one; each that the store takes makes room for
        another one beside it.
        """
        left, failure, room = deque(files), None, 1
        while left or self._on_their_way:
            has_room = len(self._on_their_way) < room
            if has_room and (file := next((file for file in left if not self._is_behind_others(file)), None)):
                left.remove(file)
                self._begin(file)
                continue
            file, end = self._next_end()
            if isinstance(end, StoreError):
                failure = self._note_failure(file, end, failure)
                left.clear()
            else:
                self._note_end(file, end)
                room = min(room + 1, MOST_AT_A_TIME)
            self._save_if_due()
        if failure is not None:
            raise failure

    def _is_behind_others(self, file: Unshipped) -> bool:
        """True while files that are to be shipped before it are on their way."""
        return any(each.path in self._on_their_way for each in file.behind)

    def _begin(self, file: Unshipped) -> None:
        """Sends a file on its way, unless another must be shipped before it. Waits for it if there is no thread."""
        self._tell()
        if any(not self._records.has(each.path, each.hour, each.version) for each in file.behind):
            return
        assert self._in_doubt is not None
        in_doubt = file.path in self._in_doubt

        def ship() -> None:
            try:
                end: _End | BaseException = self._shipped(file, in_doubt)
            # the caller's thread raises it
            except BaseException as error:
                end = error
            self._ended.put((file, end))

        self._on_their_way[file.path] = file
        try:
            # the process may end meanwhile: no thread holds it
            start_thread(ship, "ship")
        except NoThread:
            ship()

    def _next_end(self) -> tuple[Unshipped, _End | BaseException]:
        """Waits until a file has arrived or failed. Keeps the status fresh."""
        while True:
            try:
                file, end = self._ended.get(timeout=STATUS_SECONDS)
            except Empty:
                self._tell()
            else:
                del self._on_their_way[file.path]
                return file, end

    # in a thread of its own

    def _shipped(self, file: Unshipped, in_doubt: bool) -> _End:
        """Ships a file, as far as it is still the one that was listed. Errors: StoreError; OSError of the file."""
        with Folder.at(self._folder) as capture, opened_folder(capture, *file.folders) as folder:
            if folder is None:
                raise FileNotFoundError
            with open(folder.open(file.name), "rb") as content:
                found = os.fstat(content.fileno())
                if Shipped(found.st_size, found.st_mtime_ns) != file.version:
                    return _End.CHANGED
                told = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
                if file.digest not in (None, told):
                    return _End.NOT_AS_MADE
                content.seek(0)
                return self._put(file, content, told, in_doubt)

    def _put(self, file: Unshipped, content: IO[bytes], digest: str, in_doubt: bool) -> _End:
        size = file.version.size
        if in_doubt and self._store.holds(file.path, size, digest):
            return _End.THERE
        self._before_step(f"put {file.path}")
        self._store.put(file.path, content, size, digest)
        self._before_step(f"check {file.path}")
        if not self._store.holds(file.path, size, digest):
            raise StoreError(Cause.WRONG_CONTENT, "the bucket does not hold what was put")
        return _End.PUT

    # in the caller's thread

    def _note_end(self, file: Unshipped, end: _End | BaseException) -> None:
        """Records a file that has arrived. Errors: what `_shipped` did not expect."""
        match end:
            case _End.PUT | _End.THERE:
                self._note_arrival(file, end)
            case _End.CHANGED:
                pass
            case _End.NOT_AS_MADE:
                self._pass_over(file, "it is not as it was made: `kafka-wiretap facts` makes facts anew")
            case FileNotFoundError():
                # retention has removed it, or facts are made anew
                del self._waiting[file.path]
            case OSError():
                self._pass_over(file, end.strerror or str(end))
            case _:
                raise end

    def _note_arrival(self, file: Unshipped, end: _End) -> None:
        if end is _End.THERE:
            self.there += 1
        else:
            self.files, self.bytes = self.files + 1, self.bytes + file.version.size
        assert self._in_doubt is not None
        self._in_doubt.discard(file.path)
        self._failed.pop(file.path, None)
        self._passed_over.discard(file.path)
        self._records.add(file.path, file.hour, file.version)
        del self._waiting[file.path]

    def _note_failure(self, file: Unshipped, error: StoreError, first: StoreError | None) -> StoreError:
        """Returns the first failure of the round, which the round's end counts; counts a further one."""
        self._failed[file.path] += 1
        assert self._in_doubt is not None
        self._in_doubt.add(file.path)
        if first is None:
            return error
        self._failures[error.cause.value] += 1
        return first

    def _pass_over(self, file: Unshipped, reason: str) -> None:
        if file.path not in self._passed_over:
            self._passed_over.add(file.path)
            self._failures[Cause.LOCAL.value] += 1
            self._say(f"{file.path} is not shipped: {reason}")

    def _save_if_due(self) -> None:
        now = time.monotonic()
        if now >= self._next_save:
            self._next_save = now + RECORD_SECONDS
            self._before_step("record")
            self._records.save()

    # what fails, and what is told

    def _fail(self, cause: str, reason: str) -> None:
        self._failures[cause] += 1
        self._failing, self._reason = cause, reason

    def _tell(self, *, at_once: bool = False) -> None:
        """Renews the status, if it is time. A full disk takes none; the metrics then show the lag by its age."""
        now = time.monotonic()
        if now < self._next_status and not at_once:
            return
        self._next_status = now + STATUS_SECONDS
        waiting = self._waiting.values()
        status = ShipStatus(
            files=self._before.files + self.files,
            bytes=self._before.bytes + self.bytes,
            waiting_files=len(waiting),
            waiting_bytes=sum(file.version.size for file in waiting),
            oldest_ns=min((file.version.at_ns for file in waiting), default=0),
            failures=dict(self._failures),
            failing=self._failing,
            at_ns=time.time_ns(),
        )
        try:
            write_status(self._ship, status)
        except OSError as error:
            self._pass_over_status(error)

    def _pass_over_status(self, error: OSError) -> None:
        if "" not in self._passed_over:
            self._passed_over.add("")
            self._say(f"the status can't be written: {error.strerror or error}")

    def _wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Waits, or until it is over. Keeps the status fresh."""
        while seconds > 0 and not is_over():
            self._sleep(min(seconds, STATUS_SECONDS))
            seconds -= STATUS_SECONDS
            self._tell()


def pause_after(failures: int) -> float:
    """Seconds before the next try, after so many failures in turn."""
    longest = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)
