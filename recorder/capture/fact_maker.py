"""Makes the facts of a capture's files of frames (`recorder.facts`), each file's from its own frames and nothing else.

Used by `kafka-wiretap facts`, and by the compactor, in a process of its own (`main`):

    python -m recorder.capture.fact_maker FOLDER [--except STEM ...]

That process is niced, and its memory is bounded: a frame that unfolds to gigabytes, or a fault in a decoder, ends the
process and costs no recording. It prints a line of JSON for each stem: when it begins ("begun"), and how it ended
("made" or "failed"). So its parent knows which stem has ended it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.files import Folder
from proxy.niceness import yield_to_others
from proxy.terminal import harmless
from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture.bucket_facts import forget_gone_in, publish_in, state_in
from recorder.capture.fact_child import BEGUN, FAILED, MADE
from recorder.capture.fact_files import (
    HourFacts,
    State,
    Stem,
    TableFacts,
    digest_of,
    forget,
    forget_gone,
    hour_key,
    open_facts,
    publish_facts,
    state_of,
    stems,
)
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.memory import bound_memory
from recorder.capture.partitions import FACTS_FOLDER, hidden
from recorder.capture.reader import CaptureFile, row_count, row_groups
from recorder.capture.remote import Place, S3Path, size_of
from recorder.capture.remote import reason_of as reason_of_store
from recorder.capture.storage import BeforeStep, TableFile, ignore_step
from recorder.facts.rows import KIND, LARGEST_BODY, Decoder, DecoderIndex, decoded_together, unopened
from recorder.facts.schema import arrow_type
from recorder.facts.tables import NUMBER, TABLES

# rows and bytes of facts that wait in memory until they are a row group
MAX_ROWS, MAX_BYTES = 128 * 1024, 32 << 20
# rows of frames that are decoded at a time
BATCH_ROWS = 4096
# the key of a file's metadata that holds the facts' number
NUMBER_KEY = b"kafka_wiretap.facts"
# The memory of the compactor's child, beyond what its libraries have mapped: a row group of frames takes 64 MiB, and
# what may be made of one frame is bounded by `rows.FRAME_BUDGET`.
MEMORY = 2 << 30
# less urgent than the compactor
NICENESS = 15

# integers that grow from row to row
_DELTA = ("at", "sequence", "exchange", "base_offset", "last_offset", "fetch_offset", "high_watermark", "base_sequence")
_INTEGERS = ("bigint", "int", "smallint")


class Made(NamedTuple):
    """The facts of a stem: rows by table, and the bytes of their files."""

    rows: dict[str, int]
    bytes: int


class Failure(NamedTuple):
    """A stem without facts, and why."""

    stem: str
    reason: str


def missing(folder: Place, into: Path | None = None, *, checked: bool = False) -> Iterator[tuple[Stem, State]]:
    """The stems whose facts are to be made, and why. Args: as of `make_missing`. Errors: as of `reader.files`."""
    place = into or folder
    for stem in stems(folder):
        if isinstance(place, S3Path):
            state = state_in(place, stem, checked=checked)
        else:
            state = state_of(place, stem, checked=checked)
        if state is not State.CURRENT:
            yield stem, state


def make(folder: Path, done: Folder, stem: Stem, before_step: BeforeStep = ignore_step) -> Made:
    """Makes the facts of a stem's files, and publishes them in `folder`. The caller has locked `done`.

    Errors: DamagedFileError, UnknownFormatError, OverBudget for frames that can't be read; OSError. The stem then has
    no facts.
    """
    forget(folder, done, stem, before_step)
    made: list[_FactFile] = []
    hours: dict[str, HourFacts] = {}
    try:
        for file in stem.files:
            digest, size = digest_of(file.path), size_of(file.path)
            of_hour = _facts_of(folder, file, made, before_step)
            tables = {one.table: TableFacts(one.rows, one.size, one.digest) for one in of_hour}
            hours[hour_key(file)] = HourFacts(size, digest, tables)
        publish_facts(done, stem, [one.file for one in made], hours, before_step)
    except BaseException:
        for one in made:
            one.file.discard()
        raise
    rows = {decoder.name: sum(one.rows for one in made if one.table == decoder.name) for decoder in TABLES}
    return Made(rows, sum(one.size for one in made))


def _facts_of(folder: Path, file: CaptureFile, made: list[_FactFile], before_step: BeforeStep) -> list[_FactFile]:
    """Writes the facts of one file of frames. Adds the files, hidden and closed, to `made`, and returns them."""
    by_table: dict[str, _FactFile] = {}
    for decoder, batch in fact_rows(file):
        found = by_table.get(decoder.name)
        if found is None:
            before_step(f"write {decoder.name}")
            found = by_table[decoder.name] = _FactFile(folder, decoder, file)
            made.append(found)
        found.add(batch)
    for found in by_table.values():
        found.close()
    return [*by_table.values()]


def fact_rows(file: CaptureFile) -> Iterator[tuple[Decoder, Any]]:
    """The rows of all tables of a file of frames, in Arrow batches. Errors: as of `reader.row_groups`."""
    index = DecoderIndex(TABLES, for_facts=True)
    heads = [*dict.fromkeys((*index.copied, *KIND, c.SIZE, c.STORED))]
    seen = 0

    def small() -> Iterator[Any]:
        nonlocal seen
        for table in row_groups(file, [*{*index.reads, *heads}], where=pc.field(c.SIZE) <= LARGEST_BODY):
            seen += len(table)
            for batch in table.to_batches(BATCH_ROWS):
                yield without_parts(batch)

    yield from decoded_together(small(), index)
    if seen < row_count(file):
        large = row_groups(file, heads, where=pc.field(c.SIZE) > LARGEST_BODY)
        for batch in (batch for table in large for batch in table.to_batches(BATCH_ROWS)):
            yield from unopened(batch, index)


def without_parts(batch: Any) -> Any:
    """The batch, without the bytes of frames that are not stored whole."""
    whole = pc.fill_null(pc.equal(batch[c.STORED], batch[c.SIZE]), False)
    if pc.all(whole).as_py() is not False:
        return batch
    bodies = pc.if_else(whole, batch[c.FRAME], pa.scalar(None, pa.binary()))
    return batch.set_column(batch.schema.get_field_index(c.FRAME), c.FRAME, bodies)


class _FactFile:
    """One file of facts while it is written. `rows`: so far; `size`, `digest`: once it is closed."""

    def __init__(self, folder: Path, decoder: Decoder, file: CaptureFile) -> None:
        columns = decoder.table.columns
        fields = [pa.field(column.name, arrow_type(column.kind)) for column in columns]
        self._schema = pa.schema(fields, metadata={NUMBER_KEY: str(NUMBER).encode()})
        self.table = decoder.name
        self.rows = self.size = 0
        self.digest = ""
        self.file = TableFile(
            folder,
            f"{FACTS_FOLDER}/{decoder.name}",
            file.hour_ns // c.HOUR_NS,
            file.path.name,
            self._schema,
            dictionary=[one.name for one in columns if "array" not in one.kind and one.name not in _DELTA],
            delta=[one.name for one in columns if one.kind in (*_INTEGERS, "timestamp") and one.name in _DELTA],
        )
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0

    def add(self, batch: Any) -> None:
        """Adds rows. Writes a row group once there are enough."""
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= MAX_ROWS or self._waiting_bytes >= MAX_BYTES:
            self._write()

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting).cast(self._schema)
        self.file.write(table)
        self.rows += len(table)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def close(self) -> None:
        """Writes what waits, and closes the file, which stays hidden."""
        if self._waiting:
            self._write()
        self.file.close()
        self.size = self.file.folder.size(hidden(self.file.name))
        self.digest = digest_of(self.file.folder.path / hidden(self.file.name))


def reason_of(error: Exception) -> str:
    """Why a stem has no facts, in one line."""
    text = reason_of_store(error) if isinstance(error, OSError) else " ".join(f"{error}".split())
    return text or type(error).__name__


# Makes the facts of stems of a capture, and tells what became of each.
Elsewhere = Callable[[Place, Sequence[Stem]], Iterator[tuple[Stem, Made | str]]]
# what a stem costs at most: frames that can't be read, a full disk, too little memory
FAILURES = (DamagedFileError, UnknownFormatError, OverBudget, OSError, MemoryError, pa.ArrowException)


class Busy(Exception):
    """Another process makes facts of this capture."""


def make_missing(
    folder: Place,
    *,
    leave_out: Sequence[str] = (),
    say: Callable[[str, str, Any], None] = lambda *_: None,
    processes: int = 1,
    into: Path | None = None,
    checked: bool = False,
    elsewhere: Elsewhere | None = None,
) -> list[Failure]:
    """Makes all facts that are missing, but those of the stems `leave_out`. Returns those that could not be made.

    Args:
        folder: the capture.
        into: the folder whose `facts` they become; None: the capture itself.
        checked: whether the bytes of facts that are there are looked at, too.
        say: called with (BEGUN, stem, None), (MADE, stem, Made) and (FAILED, stem, reason).
        processes: 1: this process makes them. More: so many children, whose memory is bounded.
        elsewhere: what makes them in place of processes here.
    Errors: Busy; as of `reader.files`; OSError for a place that can't be written.
    """
    failures: list[Failure] = []
    place = into or folder
    with _to_be_made(place, stems(folder)):
        todo = [stem for stem, _ in missing(folder, into, checked=checked) if stem.name not in leave_out]
        if elsewhere is not None:
            outcomes = elsewhere(place, todo) if todo else iter(())
        elif processes == 1 or not todo:
            outcomes = _one_by_one(place, todo, say)
        else:
            outcomes = _by_children(place, todo, say, processes)
        for stem, outcome in outcomes:
            if isinstance(outcome, Made):
                say(MADE, stem.name, outcome)
            else:
                failures.append(Failure(stem.name, outcome))
                say(FAILED, stem.name, outcome)
    return failures


@contextmanager
def _to_be_made(place: Place, every: Sequence[Stem]) -> Iterator[None]:
    """Removes what counts for nothing any more. Within the block no other process makes facts of a folder.

    Errors: Busy; OSError.
    """
    if isinstance(place, S3Path):
        forget_gone_in(place, every)
        yield
        return
    with closing(open_facts(place)) as done:
        if not done.lock():
            raise Busy(f"another process makes facts of {place}")
        forget_gone(place, done, every)
        yield


def _one_by_one(
    place: Place, todo: Sequence[Stem], say: Callable[[str, str, Any], None]
) -> Iterator[tuple[Stem, Made | str]]:
    for stem in todo:
        say(BEGUN, stem.name, None)
        yield stem, made_or_reason(place, stem)


def made_or_reason(place: Place, stem: Stem) -> Made | str:
    """Makes a stem's facts, and publishes them in a capture; or tells why it can't.

    `place`: the capture. Of a folder, the caller or a process above it has locked the facts.
    """
    try:
        if not isinstance(place, S3Path):
            with closing(open_facts(place)) as done:
                return make(place, done, stem)
        with TemporaryDirectory(prefix="kafka-wiretap-facts-") as name:
            scratch = Path(name)
            with closing(open_facts(scratch)) as done:
                made = make(scratch, done, stem)
            publish_in(place, stem, scratch)
            return made
    except FAILURES as error:
        return reason_of(error)


def _by_children(
    place: Place, todo: Sequence[Stem], say: Callable[[str, str, Any], None], processes: int
) -> Iterator[tuple[Stem, Made | str]]:
    """Each stem by one of several processes. If a stem ends its process, the others' stems are made one at a time."""
    left = {stem.name: stem for stem in todo}
    try:
        with _children(min(processes, len(todo))) as pool:
            running = {pool.submit(made_or_reason, place, stem): stem for stem in todo}
            for future in as_completed(running):
                outcome = future.result()
                del left[running[future].name]
                yield running[future], outcome
    except BrokenProcessPool:
        pass
    for stem in left.values():
        say(BEGUN, stem.name, None)
        try:
            with _children(1) as pool:
                yield stem, pool.submit(made_or_reason, place, stem).result()
        except BrokenProcessPool:
            yield stem, "its frames ended the process that read them"


def _children(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=bound_memory, initargs=(MEMORY,))


def main(arguments: Sequence[str] | None = None) -> int:
    """The compactor's child. Exit code 0: all facts are made; 1: some could not be; 3: another process makes them."""
    parser = argparse.ArgumentParser(prog="recorder.capture.fact_maker", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the capture")
    parser.add_argument("--except", dest="leave_out", action="append", default=[], help="a stem to leave out")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    yield_to_others(NICENESS)
    bound_memory(MEMORY)

    def say(what: str, stem: str, more: Any) -> None:
        print(json.dumps([what, stem, more if isinstance(more, str) else None]), flush=True)

    try:
        return 1 if make_missing(options.folder, leave_out=options.leave_out, say=say) else 0
    except Busy:
        return 3
    except BrokenPipeError:
        # the compactor was killed; the next one makes what is left
        os._exit(1)
    except (OSError, DamagedFileError, UnknownFormatError) as error:
        print(f"facts: {harmless(reason_of(error))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
