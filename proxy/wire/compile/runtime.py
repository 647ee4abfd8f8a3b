"""Functions that the written functions call: for rare cases, long lengths, and Python's errors as WireErrors.

Helpers that read a length again begin at the byte before `at`: the written function has taken the first byte already.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from struct import Struct, error
from typing import Any, NoReturn

from proxy.wire.errors import Malformed, Truncated, WireError, in_bytes
from proxy.wire.pieces import Pieces
from proxy.wire.primitives import Buffer, read_tags, read_uvarint, uvarint

# A string has at most 32767 bytes, also in versions whose length would hold more (Kafka's own readers refuse it).
STRING_MAX = 0x7FFF

READ_FAULTS = (WireError, error, IndexError, UnicodeDecodeError)
WRITE_FAULTS = (WireError, error, AttributeError, TypeError, ValueError, OverflowError, KeyError)

# Arrays of fixed elements are usually short (replicas of a partition): their readers are made in advance up to this.
READY = 33


def ready(code: str) -> list[Any]:
    """`unpack_from` for 0, 1, ... READY - 1 elements."""
    return [Struct(">" + code * count).unpack_from for count in range(READY)]


def ready_to_pack(code: str) -> list[Any]:
    """`pack` for 0, 1, ... READY - 1 elements."""
    return [Struct(">" + code * count).pack for count in range(READY)]


INT8S, INT16S, INT32S, INT64S, UUIDS = ready("b"), ready("h"), ready("i"), ready("q"), ready("16s")
PACK_INT8S, PACK_INT16S = ready_to_pack("b"), ready_to_pack("h")
PACK_INT32S, PACK_INT64S = ready_to_pack("i"), ready_to_pack("q")
READY_BY_CODE = {"b": "INT8S", "h": "INT16S", "i": "INT32S", "q": "INT64S", "16s": "UUIDS"}

# The varints of one byte: lengths below 127 are nearly all.
SHORT = [bytes([value]) for value in range(128)]


# The types of records that an encoder of pieces uses as they are.
WHOLE = frozenset({bytes, Pieces})


class LargeBody(Exception):
    """A buffer whose values may not fit the memory: they must be decoded with a budget."""


class Absent(dict[str, Any]):
    """The value of an absent tagged struct: one read-only object for all messages.

    It equals a dict of the same items, and every copy of it (`dict(value)`, `value | {}`, `copy`, `deepcopy`, `pickle`)
    is a plain dict.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the value of an absent struct is shared: change a copy of it, dict(value)")

    __setitem__ = __delitem__ = __ior__ = setdefault = update = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class Items:
    """An object whose `__dict__` is a value's dict: setting an attribute sets the item."""


def many(code: str, width: int, count: int, buf: Buffer, at: int) -> list[Any]:
    """An array of `count` fixed elements; checks the bytes left before anything is built."""
    if count * width > len(buf) - at:
        raise Truncated(f"{count} elements of {width} bytes go beyond the end", offset=at)
    codes = code * count if len(code) > 1 else f"{count}{code}"
    return list(Struct(">" + codes).unpack_from(buf, at))


def long(buf: Buffer, at: int) -> tuple[int, int]:
    """A compact length plus one, of several bytes; null is an error."""
    n, at = read_uvarint(buf, at - 1)
    if n == 0:
        raise Malformed("null where a value must stand", offset=at - 1)
    return n, at


def long_text_or_null(buf: Buffer, at: int) -> tuple[int, int]:
    """A compact string's length plus one, of several bytes; 0 for null."""
    n, at = read_uvarint(buf, at - 1)
    if n > STRING_MAX + 1:
        raise Malformed(f"a string of {in_bytes(n - 1)}: at most {STRING_MAX} may stand there", offset=at)
    return n, at


def long_text(buf: Buffer, at: int) -> tuple[int, int]:
    """A compact string's length plus one, of several bytes; null is an error."""
    n, at = long_text_or_null(buf, at)
    if n == 0:
        raise Malformed("null where a string must stand", offset=at - 1)
    return n, at


def not_null(n: int, at: int) -> WireError:
    """The error for a length below 0 of a value that is not nullable."""
    return Malformed("null where a value must stand" if n == -1 else f"a length of {n}", offset=at)


def present(n: int, at: int) -> bool:
    """Reads the byte before a nullable struct: 1, or -1 for null."""
    if n not in (1, -1):
        raise Malformed(f"{n} before a struct: 1 and -1 (null) are known", offset=at)
    return n == 1


def keep_tags(buf: Buffer, at: int, value: dict[str, Any]) -> int:
    """Puts the entries of a tag buffer, all of them unknown, under "_tags"; returns the offset behind it."""
    spans, at = read_tags(buf, at - 1)
    if spans:
        value["_tags"] = {span.tag: bytes(buf[span.payload_start : span.end]) for span in spans}
    return at


def present_tag(n: int, at: int) -> bool:
    """Reads the byte before a tagged nullable struct: 1, or 0 for null."""
    if n not in (0, 1):
        raise Malformed(f"{n} before a tagged struct: 1 and 0 (null) are known", offset=at)
    return n == 1


def pay_for_many(count: int, width: int, cost: int, left: int, spend: Callable[[int], None]) -> None:
    """Spends on `count` elements of at least `width` bytes; a count that the `left` bytes can't hold costs nothing."""
    if count * width > left:
        raise Truncated(f"{count} elements of {width} bytes go beyond the end")
    spend(count * cost)


def pay_for_tags(buf: Buffer, at: int, cost: int, spend: Callable[[int], None]) -> None:
    """Spends on the entries of a tag buffer, of two bytes at least; the first byte of its count is at `at - 1`."""
    count, at = read_uvarint(buf, at - 1)
    pay_for_many(count, 2, cost, len(buf) - at, spend)


def wrong_tag(tag: int, start: int, end: int, at: int) -> WireError:
    """The error for a tagged field whose value ended at `at`, not at `end`."""
    return Malformed(f"tag {tag} says {in_bytes(end - start)}, its value has {at - start}", offset=start)


def beyond(at: int) -> WireError:
    """The error for a value that would end behind the buffer."""
    return Truncated("the bytes end before the message does", offset=at)


def explain(fault: Exception, api: str, version: int, at: int, size: int) -> WireError:
    """The WireError for a fault that a reader met at `at` in a buffer of `size` bytes."""
    if isinstance(fault, WireError):
        at = at if fault.offset is None else fault.offset
        return type(fault)(fault.reason, api=api, version=version, offset=min(at, size))
    if isinstance(fault, UnicodeDecodeError) and at <= size:
        return Malformed("a string is not UTF-8", api=api, version=version, offset=at)
    return Truncated("the bytes end before the message does", api=api, version=version, offset=min(at, size))


def unfit(fault: Exception, api: str, version: int, misfit: str | None) -> WireError:
    """The error for values that can't be encoded. `misfit`: the wrong value, and why."""
    reason = misfit or (fault.reason if isinstance(fault, WireError) else f"values that don't fit: {fault}")
    return Malformed(reason, api=api, version=version)


def plain(value: Buffer | Pieces) -> Buffer:
    """The value as a buffer of single bytes: the `len()` of a memoryview counts items, which may be wider."""
    if isinstance(value, Pieces):
        return bytes(value)
    view = memoryview(value)
    return view if view.c_contiguous and view.itemsize == view.ndim == 1 else view.tobytes()


def uuid(value: Buffer) -> bytes:
    """The 16 bytes of an id. Errors: Malformed for another length, which `struct` would silently pad or cut."""
    if type(value) is not bytes:
        value = bytes(plain(value))
    if len(value) != 16:
        raise Malformed(f"an id of {in_bytes(len(value))}, not 16")
    return value


def pack_many(code: str, values: Sequence[Any]) -> bytes:
    """The fixed elements of an array, without its count."""
    if code == "16s":
        return b"".join(map(uuid, values))
    return Struct(f">{len(values)}{code}").pack(*values)


def text_size(size: int) -> bytes:
    """The compact length of a string of 127 bytes or more."""
    if size > STRING_MAX:
        raise Malformed(f"a string of {in_bytes(size)}: at most {STRING_MAX} may stand there")
    return uvarint(size + 1)


def write_tags(known: list[tuple[int, bytes]], unknown: Mapping[int, Buffer] | None) -> bytes:
    """A tag buffer, its tags ascending, as Kafka requires."""
    tags: dict[int, Buffer] = dict(known)
    for tag, payload in (unknown or {}).items():
        if tag in tags:
            raise Malformed(f"tag {tag} is given twice, as a field and under _tags")
        tags[tag] = payload if type(payload) is bytes else plain(payload)
    parts: list[Buffer] = [uvarint(len(tags))]
    for tag in sorted(tags):
        parts += [uvarint(tag), uvarint(len(tags[tag])), tags[tag]]
    return b"".join(parts)


def unknown_tag(tag: int) -> WireError:
    """A search's error for an unknown tagged field, or for a tagged field whose size is not its value's."""
    return Malformed(f"tag {tag} holds what its message does not have")


def no_partition(number: int) -> WireError:
    """The error for the number of a partition that no topic has."""
    return Malformed(f"a partition of number {number}")


# A value, and a walk's state behind it: the chunk, the offset in it, its size.
SplitRead = tuple[int, Buffer, int, int]


def split_uvarint(n: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, SplitRead]:
    """Completes a varint of several bytes whose first byte is `n`. Errors: Malformed, with the offset behind it."""
    first = bytes([n])
    while first[-1] > 0x7F and len(first) < 5:
        while at >= size:
            at -= size
            buf = yield
            size = len(buf)
        first += bytes([buf[at]])
        at += 1
    try:
        value, _ = read_uvarint(first, 0)
    except Malformed as fault:
        raise Malformed(fault.reason, offset=at) from None
    return value, buf, at, size


def split_bytes(count: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, tuple[bytes, Buffer, int, int]]:
    """`count` bytes that several chunks may share."""
    found = bytes(buf[at : at + count])
    at += len(found)
    while len(found) < count:
        at -= size
        buf = yield
        size = len(buf)
        piece = bytes(buf[at : at + count - len(found)])
        found, at = found + piece, at + len(piece)
    return found, buf, at, size


def split_int(width: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, SplitRead]:
    """A signed integer of `width` bytes that several chunks may share."""
    found, buf, at, size = yield from split_bytes(width, buf, at, size)
    return int.from_bytes(found, "big", signed=True), buf, at, size
