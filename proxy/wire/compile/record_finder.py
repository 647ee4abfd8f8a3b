"""Writes the generator that finds the record data in a frame that arrives in pieces, topic by topic.

The generator is sent the pieces, and returns the offset of the message's end. It calls `here.topic(name, topic_id)` for
each topic: the answer says which of the topic's record data is to be found. `here.found(start, stop)` is told each
stretch of it as soon as it has begun, `here.records(...)` walks through a field of batches, which is of
`here.partition`, and `here.base` is the number of bytes before the newest piece. No byte is kept but a topic's name and
id, and heads of batches.

A field marked `record_data` is record data: its batches' records if it is of the type `records`, else the whole value.
So are tagged fields that the catalog doesn't know. A response that tells topics' ids with their names has its topics
told in the same way, whether it has record data or not.
"""

from collections.abc import Callable, Iterator
from typing import Any

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
    if message.kind == "request":
        finder.request_header(header)
    else:
        finder.response_header(header)
    finder.struct(layout(message, version))
    source.line("return here.base + at")
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
                self.cursor.length(slot.code, slot.size)
                self.source.line("here.partition = n")
            else:
                self.slot(slot)
            if slot in last:
                self.cursor.flush()
                self.source.line(f"drops = here.topic({variables[NAME]}, {variables[ID]})")
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
                    self.source.line("found(here.base + at, here.base + at + n)")
                self.source.line("at += n")

    def _id(self, slot: Slot) -> str:
        target = self.source.fresh(slot.name)
        self.cursor.flush()
        self.source.line(f"if at + 16 <= size: {target}, at = bytes(buf[at : at + 16]), at + 16")
        self.source.line(f"else: {target}, buf, at, size = yield from split_bytes(16, buf, at, size)")
        return target

    def _record_data(self, slot: Slot) -> None:
        length = self.length(slot)
        with self.source.block(f"if n > {int(slot.compact)}:"):
            self.source.line(f"n = {length}")
            if slot.type == "records":
                with self.source.block(f"if drops >= {ALL}:"):
                    self.source.line("buf, at, size = yield from here.records(n, buf, at, size)")
                self.source.line("else: at += n")
            else:
                self.source.line("if drops: found(here.base + at, here.base + at + n)")
                self.source.line("at += n")
