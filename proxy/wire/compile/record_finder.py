"""Writes what finds the record data in a frame, topic by topic: a generator for one that arrives in pieces, and a plain
function, many times as fast, for one that is there.

The generator is sent the pieces, and returns the offset of the message's end. It calls `here.topic(name, topic_id)` for
each topic: the answer says which of the topic's record data is to be found. `here.found(start, stop)` is told each
stretch of it as soon as it has begun, `here.records(...)` walks through a field of batches, which is of
`here.partition`, `here.base` is the number of bytes before the newest piece, `here.judged` the offset of the first
array: what stands before it is no record data, whatever follows; `here.elements` the number of that array's elements.
No byte is kept but a topic's name and id, and heads of batches.

A field marked `record_data` is record data: its batches' records if it is of the type `records`, else the whole value.
So are tagged fields that the catalog doesn't know. A response that tells topics' ids with their names has its topics
told in the same way, whether it has record data or not.

The function is `find(buf, topic_of, found, batches)`, over the bytes of a whole frame with record data: it returns the
offset of the message's end, and calls `batches(buf, start, stop)` for a field of batches. Errors: IndexError and
struct.error where the frame ends too early; WireError. A twin of it also calls `judged(start, stop)` for all bytes that
it reads, and so steps over the others: frames of one size that are equal in these bytes have their record data in the
same places.

Where a message has record data, a wrong length would make records pass for other fields. So nothing passes unjudged: a
length or count that the frame has no room for, a text with control characters, a name that no topic has, an impossible
number of a partition, tags out of order: each is an error, behind which nobody can tell what the bytes are.
"""

from collections.abc import Callable, Iterator
from struct import calcsize
from typing import Any

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.searcher import REQUEST_HEAD, Searcher
from proxy.wire.compile.source import Source
from proxy.wire.compile.walker import PieceCursor
from proxy.wire.language import RECORD_DATA, Message
from proxy.wire.texts import LONGEST_TOPIC, whole_text

NAME, ID, PARTITION = "topic_name", "topic_id", "partition"
# the answers of `here.topic`, what of a topic's record data is to be found: nothing; texts that may quote records, and
# tagged fields; batches, too
NOTHING, TEXTS, ALL = 0, 1, 2
# no topic has so many partitions: what begins with another byte than 0 is no partition's number
TOO_MANY_PARTITIONS = 1 << 24


def record_finder(message: Message, version: int, header: int) -> Callable[..., Any]:
    """`find(here) -> generator`, over a whole frame with its length. `header`: the version of its header."""
    source = Source(f"find records in {message.name} v{version}", "def find(here):")
    is_judged = has_record_data(message, version)
    finder = _RecordFinder(source, PieceCursor(source), is_judged=is_judged)
    source.line("found = here.found")
    source.line("drops = usual = here.topic(None, None)")
    source.line("buf = yield")
    source.line("at, size = 0, len(buf)")
    finder.frame(message, version, header)
    source.line("return here.base + at")
    return source.function()


def whole_record_finder(
    message: Message, version: int, header: int, *, tells_judged: bool = False
) -> Callable[..., int]:
    """`find(buf, topic_of, found, batches)`, over a whole frame with its length. `header`: the version of its header.

    The message has record data. `tells_judged`: its twin, which has `judged` as a last argument.
    """
    arguments = "buf, topic_of, found, batches" + ", judged" * tells_judged
    title = f"find {'what decides about ' * tells_judged}records in a whole {message.name} v{version}"
    source = Source(title, f"def find({arguments}):")
    source.constant("text_of", whole_text)
    finder_type, cursor_type = (_JudgedFinder, _JudgedCursor) if tells_judged else (_WholeRecordFinder, Cursor)
    finder = finder_type(source, cursor_type(source), is_judged=True)
    source.line("drops = usual = topic_of(None, None)")
    source.line("at, frame_end = 0, len(buf)")
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


def _least(slot: Slot) -> int:
    """The fewest bytes that a value takes."""
    if slot.array or not (slot.code or slot.varint or slot.struct):
        is_short = slot.type == "string" and not slot.array
        return 1 if slot.compact else 2 if is_short else 4
    if slot.struct:
        return 1 if slot.nullable else sum(map(_least, slot.struct.slots)) + slot.struct.flexible
    return slot.size if slot.code else 1


class _RecordFinder(Searcher):
    """Writes the lines that step over values, tell of topics, and find the record data among the values.

    `is_judged`: the message has record data, so nothing that it steps over may be records.
    """

    # how the lines ask for a topic; the offset in the frame that `at` stands for; the bytes of the frame behind `at`
    topic_of, place, left = "here.topic", "here.base + at", "here.size - here.base - at"

    def __init__(self, source: Source, cursor: Cursor, *, is_judged: bool) -> None:
        super().__init__(source, cursor)
        self._is_judged = is_judged
        # the first array of the message, once its turn has come
        self._first_array: Slot | None = None

    def frame(self, message: Message, version: int, header: int) -> None:
        """Steps over a whole frame."""
        if message.kind == "request":
            self.request_header(header)
        else:
            self.response_header(header)
        self.struct(layout(message, version), is_message=True)

    def request_header(self, version: int) -> None:
        if not self._is_judged:
            super().request_header(version)
            return
        self.cursor.step(REQUEST_HEAD)
        self.cursor.length("h", 2)
        self._check_length(least=0)
        self._judged_text("n", least=0)
        if version >= 2:
            self.tags()

    def struct(self, struct: Struct, *, is_message: bool = False) -> None:
        names = _topic_slots(struct)
        first_array = next((slot for slot in struct.slots if slot.array), None) if is_message else None
        variables = dict.fromkeys((NAME, ID), "None")
        last = [slot for slot in struct.slots if slot in names.values()][-1:]
        for slot in struct.slots:
            if slot is first_array:
                self.cursor.flush()
                self._note_judged()
                self._first_array = slot
            if slot is names.get(NAME):
                variables[NAME] = self._topic_name(slot)
            elif slot is names.get(ID):
                variables[ID] = self._id(slot)
            elif RECORD_DATA in slot.field.marks:
                self._record_data(slot)
            elif slot.code and PARTITION in slot.field.marks and _holds_batches(struct):
                self.cursor.length(slot.code, slot.size)
                self.source.line(f"if not 0 <= n < {TOO_MANY_PARTITIONS}: raise no_partition(n)")
                self._note_partition()
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

    def slot(self, slot: Slot) -> None:
        if self._is_judged and slot.type == "string" and not slot.array:
            self._judged_text(self.length(slot), least=int(slot.compact))
        else:
            super().slot(slot)

    def length(self, slot: Slot) -> str:
        found = super().length(slot)
        if self._is_judged:
            width = _least(slot.element) if slot.array else 1
            self._check_length(least=int(slot.compact), width=width)
        if slot is self._first_array:
            self._note_elements(found)
        return found

    def tags(self) -> None:
        self._tags(None)

    def _check_length(self, *, least: int, width: int = 1) -> None:
        """Checks that the frame has room for what `n` says. `least`: what `n` is for nothing."""
        if not least:
            self.source.line("if n < -1: raise not_null(n, at)")
        count = f"(n - {least})" if least else "n"
        self.source.line(f"if {count} * {width} > {self.left}: raise beyond(at)")

    def _judged_text(self, length: str, *, least: int) -> None:
        with self.source.block(f"if n > {least}:"):
            self._read_text("_", length, is_topic=False)

    def _read_text(self, target: str, length: str, *, is_topic: bool) -> None:
        self.source.line(f"{target}, buf, at, size = yield from here.text({length}, {is_topic}, buf, at, size)")

    def _note_partition(self) -> None:
        self.source.line("here.partition = n")

    def _note_judged(self) -> None:
        self.source.line("here.judged = here.base + at")

    def _note_elements(self, count: str) -> None:
        self.source.line(f"here.elements = {count}")

    def _topic_name(self, slot: Slot) -> str:
        """Reads a topic's name; returns its variable."""
        if not self._is_judged:
            return self.text(slot, LONGEST_TOPIC)
        target, length = self.source.fresh(slot.name), self.length(slot)
        self._read_text(target, length, is_topic=True)
        return target

    def _tags(self, struct: Struct | None) -> None:
        """Steps over a tag buffer. `struct`: the struct whose tags they are; None: a header's, which has none."""
        if not self._is_judged:
            super().tags()
            return
        self.cursor.length("B", 1)
        with self.source.block("if n:"):
            self.source.line(self.cursor.rest_of_varint)
            self._check_length(least=1, width=2)
            before, tag, end = (self.source.fresh(name) for name in ("tag_before", "tag", "tag_end"))
            self.source.line(f"{before} = -1")
            with self.each("n"):
                self.cursor.count()
                self.source.line(f"{tag} = n")
                self.source.line(f"if {tag} <= {before}: raise unknown_tag({tag})")
                self.source.line(f"{before} = {tag}")
                self.cursor.count()
                self._check_length(least=1)
                self.source.line(f"{end} = {self.place} + n")
                for slot in struct.tagged if struct else ():
                    with self.source.block(f"if {tag} == {slot.tag}:"):
                        self.slot(slot)
                        self.cursor.flush()
                        self.source.line(f"if {self.place} != {end}: raise unknown_tag({tag})")
                        self.source.line("continue")
                with self.source.block("if n > 0 and drops:"):
                    self.source.line(f"found({self.place}, {self.place} + n)")
                self.source.line("at += n")

    def _id(self, slot: Slot) -> str:
        target = self.source.fresh(slot.name)
        self.cursor.raw("16", target)
        return target

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

    topic_of, place, left = "topic_of", "at", "frame_end - at"

    def _read_text(self, target: str, length: str, *, is_topic: bool) -> None:
        self.source.line(f"{target} = text_of(buf, at, {length}, {is_topic})")
        self.source.line(f"at += {length}")

    def _note_partition(self) -> None:
        # batches are not counted here
        pass

    def _note_judged(self) -> None:
        # nothing of a frame that can't be read is told here
        pass

    def _note_elements(self, count: str) -> None:
        # all topics of a whole frame are named at once
        pass

    def _batches(self) -> None:
        self.source.line("batches(buf, at, at + n)")
        self.source.line("at += n")


class _JudgedCursor(Cursor):
    """Writes the same reads, and tells of each."""

    rest_of_varint = "if n > 127: n, rest = read_uvarint(buf, at - 1); judged(at, rest); at = rest"
    rest_of_integer = "if n > 127: rest = skip({}, buf, at - 1); judged(at, rest); at = rest"

    def _read(self, codes: list[str], targets: list[str]) -> None:
        super()._read(codes, targets)
        at = 0
        for code in codes:
            size = calcsize(">" + code)
            if not code.endswith("x"):
                self.source.line(f"judged(at + {at}, at + {at + size})")
            at += size

    def raw(self, length: str, target: str) -> None:
        super().raw(length, target)
        self.source.line(f"judged(at - {length}, at)")


class _JudgedFinder(_WholeRecordFinder):
    """Writes the same lines, and tells of the texts."""

    def _read_text(self, target: str, length: str, *, is_topic: bool) -> None:
        super()._read_text(target, length, is_topic=is_topic)
        self.source.line(f"judged(at - ({length}), at)")
