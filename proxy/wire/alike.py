"""Responses that are alike: equal but for numbers and texts that change nothing of what is asked of them.

Most responses of a connection differ in a correlation id, an offset or a partition alone. What was found out about one
of them (it names no broker, it has no error) is true of all that are alike, and one comparison tells:

    must be equal    lengths, counts, tags, all tagged fields, arrays of numbers, and the fields that are asked for
    may differ       the correlation id, all other numbers of fixed size and ids, what texts, bytes and records hold

A reader goes through frames with equal lengths, counts and tags in the same steps, so they have the same fields in the
same places. That holds for readers that step over what may differ: one that decodes texts may refuse some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import Struct, layout
from proxy.wire.errors import WireError
from proxy.wire.headers import response_head
from proxy.wire.language import SIZED_TYPES
from proxy.wire.primitives import Buffer

# bytes of a frame: for larger ones the comparison takes longer than reading what is asked
LARGEST = 512
# sizes of frames that are remembered, and forms of each: some 100 KiB at most for an API and version
MOST_SIZES, MOST_FORMS = 64, 2
# a form with more fields that may differ takes too long to learn: 25 fields take 5 ms when they are first looked for
_MOST_FIELDS = 25
# to learn a form takes as long as ten to twenty hits spare. Every hit earns 1, so forms that never come again are not
# learnt for long; what passes unknown for long is worth another try
_COST, _MOST_CREDIT, _MISSES_A_CREDIT = 16, 1024, 256
_CORRELATION_ID = 4


class AlikeResponses:
    """The responses of one API and version of which something is known. Frames are whole, without their length."""

    def __init__(self, codec: Codec, is_asked: Callable[[str], bool] = lambda name: False) -> None:
        """`is_asked`: True for the name of a field that must be equal."""
        self._codec = codec
        self._paths = tuple(_free(layout(codec.message, codec.version), is_asked))
        # sizes that were known since they were looked at for removal
        self._hit: set[int] = set()
        # by size: (mask of what must be equal, the frame's bytes there) of each form, as integers
        self._forms: dict[int, list[tuple[int, int]]] = {}
        self._credit, self._misses = _MOST_CREDIT // 4, 0

    def knows(self, frame: Buffer) -> bool:
        """True if the frame is alike one that was noted."""
        size = len(frame)
        forms = self._forms.get(size)
        if forms is not None:
            number = int.from_bytes(frame, "big")
            for mask, equal in forms:
                if number & mask == equal:
                    self._hit.add(size)
                    if self._credit < _MOST_CREDIT:
                        self._credit += 1
                    return True
        if size <= LARGEST:
            self._misses += 1
            if self._misses % _MISSES_A_CREDIT == 0:
                self._credit = min(self._credit + 1, _MOST_CREDIT)
        return False

    def note(self, frame: Buffer) -> None:
        """Notes a frame: what is true of it is true of all that are alike.

        Does nothing with a frame that is too large, and while too many were noted for nothing.
        """
        if self._credit < _COST or len(frame) > LARGEST or len(self._paths) > _MOST_FIELDS:
            return
        self._credit -= _COST
        try:
            mask = self._mask(frame)
        except WireError:
            return
        forms = self._forms.setdefault(len(frame), [])
        forms.append((mask, int.from_bytes(frame, "big") & mask))
        del forms[:-MOST_FORMS]
        if len(self._forms) > MOST_SIZES:
            self._remove_one()

    def _remove_one(self) -> None:
        """Removes the oldest size that was not known since this last passed over it."""
        while (oldest := next(iter(self._forms))) in self._hit:
            self._hit.remove(oldest)
            self._forms[oldest] = self._forms.pop(oldest)
        del self._forms[oldest]

    def _mask(self, frame: Buffer) -> int:
        """Ones for the bits of all bytes that must be equal. Errors: WireError."""
        mask = bytearray(b"\xff" * len(frame))
        mask[:_CORRELATION_ID] = bytes(_CORRELATION_ID)
        head = response_head(frame, self._codec.message.key or 0, self._codec.version)
        for found in self._codec.project(self._paths)(frame, head.body).values():
            for value, start, end in found:
                if isinstance(value, str):
                    start = end - len(value.encode())
                elif isinstance(value, bytes | memoryview):
                    start = end - len(value)
                elif value is None:
                    start = end
                mask[start:end] = bytes(end - start)
        return int.from_bytes(mask, "big")


def _free(struct: Struct, is_asked: Callable[[str], bool], above: str = "") -> Iterator[str]:
    """The paths of what may differ. Tagged fields must be equal: whether they are there changes the reader's steps."""
    for slot in struct.slots:
        if slot.struct is not None:
            yield from _free(slot.struct, is_asked, f"{above}{slot.name}.")
        elif not slot.array and not is_asked(slot.name) and (slot.code is not None or slot.type in SIZED_TYPES):
            yield above + slot.name
