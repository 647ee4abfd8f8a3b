"""Writes what finds the record data in a frame, topic by topic: a generator for one that arrives in pieces, and a plain
function, many times as fast, for one that is there.

The generator is sent the pieces, and returns the offset of the message's end. It calls `here.topic(name, topic_id)` for
each topic: the answer says which of the topic's record data is to be found. `here.found(start, stop)` is told each
stretch of it as soon as it has begun, `here.records(...)` walks through a field of batches, which is of
`here.partition`, and `here.base` is the number of bytes before the newest piece. No byte is kept but a topic's name and
id, and heads of batches.

A field marked `record_data` is record data: its batches' records if it is of the type `records`, else the whole value.
So are tagged fields that the catalog doesn't know. A response that tells topics' ids with their names has its topics
told in the same way, whether it has record data or not.

The function is `find(buf, topic, found, batches)`, over the bytes of a whole frame: it returns the offset of the
message's end, and calls `batches(buf, start, stop)` for a field of batches. Errors: IndexError and struct.error where
the frame ends too early.
"""

from collections.abc import Callable, Iterator
from typing import Any

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.searcher import Searcher
from proxy.wire.compile.source import Source
from proxy.wire.compile.walker import PieceCursor
from proxy.wire.language import RECORD_DATA, Message

NAME, ID, PARTITION = "topic_name", "topic_id", "partition"
# the answers of `here.topic`, what of a topic's record data is to be found: nothing; texts that may quote records, and
# tagged fields; batches, too
NOTHING, TEXTS, ALL = 0, 1, 2
# no topic has a longer name
LONGEST_NAME = 249


def record_finder(message: Message, version: int, header: int) -> Callable[..., Any]:
    """`find(here) -> generator`, over a whole frame with its length. `header`: the version of its header."""
    source = Source(f"find records in {message.name} v{version}", "def find(here):")
    finder = _RecordFinder(source, PieceCursor(source))
    source.line("found = here.found")
    source.line("drops = usual = here.topic(None, None)")
    source.line("buf = yield")
    source.line("at, size = 0, len(buf)")
    finder.frame(message, version, header)
    source.line("return here.base + at")
    return source.function()


def whole_record_finder(message: Message, version: int, header: int) -> Callable[..., int]:
    """`find(buf, topic, found, batches)`, over a whole frame with its length. `header`: the version of its header."""
    source = Source(f"find records in a whole {message.name} v{version}", "def find(buf, topic_of, found, batches):")
    finder = _WholeRecordFinder(source, Cursor(source))
    source.line("drops = usual = topic_of(None, None)")
    source.line("at = 0")
    finder.frame(message, version, header)
    source.line("return at")
    return source.function()


def has_record_data(message: Message, version: int) -> bool:
    """True if a field of the message is record data."""
    return any(RECORD_DATA in slot.field.marks for slot in _slots(layout(message, version)))


def tells_topic_ids(message: Message, version: int) -> bool:
    """True if the message tells the ids of topics with their names."""
    structs = [layout(message, version), *(slot.struct for slot in _slots(layout(message, version)) if slot.struct)]
    return any(len(_topic_slots(struct)) == len((NAME, ID)) for struct in structs)


def _slots(struct: Struct) -> Iterator[Slot]:
    for slot in struct.slots:
        yield slot
        if slot.struct:
            yield from _slots(slot.struct)


def _holds_batches(struct: Struct) -> bool:
    return any(slot.type == "records" and RECORD_DATA in slot.field.marks for slot in struct.slots)


def _topic_slots(struct: Struct) -> dict[str, Slot]:
    """The fields that name the topic of a struct, by their marks."""
    plain = [slot for slot in struct.slots if not slot.array]
    return {mark: slot for slot in plain for mark in (NAME, ID) if mark in slot.field.marks}


class _RecordFinder(Searcher):
    """Writes the lines that step over values, tell of topics, and find the record data among the values."""

    # how the lines ask for a topic, and the offset in the frame that `at` stands for
    topic_of, place = "here.topic", "here.base + at"

    def frame(self, message: Message, version: int, header: int) -> None:
        """Steps over a whole frame."""
        if message.kind == "request":
            self.request_header(header)
        else:
            self.response_header(header)
        self.struct(layout(message, version))

    def struct(self, struct: Struct) -> None:
        names = _topic_slots(struct)
        variables = dict.fromkeys((NAME, ID), "None")
        last = [slot for slot in struct.slots if slot in names.values()][-1:]
        for slot in struct.slots:
            if slot is names.get(NAME):
                variables[NAME] = self.text(slot, LONGEST_NAME)
            elif slot is names.get(ID):
                variables[ID] = self._id(slot)
            elif RECORD_DATA in slot.field.marks:
                self._record_data(slot)
            elif slot.code and PARTITION in slot.field.marks and _holds_batches(struct):
                self._partition(slot.code, slot.size)
            else:
                self.slot(slot)
            if slot in last:
                self.cursor.flush()
                self.source.line(f"drops = {self.topic_of}({variables[NAME]}, {variables[ID]})")
        if struct.flexible:
            self._tags(struct)
        self.cursor.flush()
        if names:
            self.source.line("drops = usual")

    def tags(self) -> None:
        self._tags(None)

    def _tags(self, struct: Struct | None) -> None:
        """Steps over a tag buffer. `struct`: the struct whose tags they are; None: a header's, which has none."""
        known = tuple(slot.tag for slot in struct.tagged) if struct else ()
        self.cursor.length("B", 1)
        with self.source.block("if n:"):
            self.source.line(self.cursor.rest_of_varint)
            with self.each("n"):
                tag = self.source.fresh("tag")
                self.cursor.count()
                self.source.line(f"{tag} = n")
                self.cursor.count()
                with self.source.block(f"if n > 0 and drops and {tag} not in {known}:"):
                    self.source.line(f"found({self.place}, {self.place} + n)")
                self.source.line("at += n")

    def _id(self, slot: Slot) -> str:
        target = self.source.fresh(slot.name)
        self.cursor.raw("16", target)
        return target

    def _partition(self, code: str, size: int) -> None:
        self.cursor.length(code, size)
        self.source.line("here.partition = n")

    def _batches(self) -> None:
        self.source.line("buf, at, size = yield from here.records(n, buf, at, size)")

    def _record_data(self, slot: Slot) -> None:
        length = self.length(slot)
        with self.source.block(f"if n > {int(slot.compact)}:"):
            self.source.line(f"n = {length}")
            if slot.type == "records":
                with self.source.block(f"if drops >= {ALL}:"):
                    self._batches()
                self.source.line("else: at += n")
            else:
                self.source.line(f"if drops: found({self.place}, {self.place} + n)")
                self.source.line("at += n")


class _WholeRecordFinder(_RecordFinder):
    """Writes the same lines for a frame that is there."""

    topic_of, place = "topic_of", "at"

    def _partition(self, code: str, size: int) -> None:
        self.cursor.step(size)

    def _batches(self) -> None:
        self.source.line("batches(buf, at, at + n)")
        self.source.line("at += n")
