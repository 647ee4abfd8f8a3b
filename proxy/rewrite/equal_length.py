"""New addresses in the tail of a response whose length has already been sent.

A large Fetch, ShareFetch or ShareAcknowledge response streams through; its length is in front, the addresses behind all
record data. So the tail, from the walk's stop to the frame's end, is rewritten to exactly its former size:

- Missing up to 4 bytes: the sizes and counts around the addresses are written as longer varints than they need.
- Missing more: one more tagged field, of a number that Kafka hasn't assigned, behind the others, full of zeros. Its
  size is written as a longer varint where the sum needs it (130 bytes can't be made with the shortest ones).
- Too long: the addresses are left out, as in a leader change before KIP-951: the client asks for metadata. Such a
  tagged field takes their place; an array that must be there becomes empty.

Every reader steps over unknown tagged fields (KIP-482) and accepts varints of up to 5 bytes. No byte of an upstream's
address is ever left: bytes that are not rewritten are zeros, or the broker's own bytes around the addresses.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from proxy.mapping.nodes import Node
from proxy.rewrite.addresses import AddressSpan, Advertised, known_codec, list_tag, places, replaced, single_tag
from proxy.wire.errors import Malformed, in_bytes
from proxy.wire.primitives import UVARINT_BYTES, Buffer, TagSpan, read_uvarint, uvarint

# Kafka has assigned only 0 in these bodies; of the numbers of one byte, this will be the last to be assigned.
UNASSIGNED_TAG = 127

# Kafka's readers hold a tag's number in an int32.
TAG_LIMIT = 1 << 31

# Up to so many bytes are filled by wider varints: a tagged field may not fit, because it may also widen the count.
WIDENED = 4

# A compact array's count is written plus one; 0 would be null.
EMPTY_ARRAY = 1


def tail_field(api_key: int) -> str:
    """The name of the field where the tail of a walked response begins, or "tags" for the body's tag buffer."""
    return "tags" if list_tag(api_key) is not None else "node_endpoints"


def nodes_in_tail(api_key: int, api_version: int, tail: Buffer) -> tuple[Node, ...]:
    """The nodes in the tail, as `nodes_in` returns them. Errors: WireError when the tail can't be read."""
    return tuple(dict.fromkeys(place.node for place in _body(api_key, api_version, tail).nodes))


def rewrite_tail(api_key: int, api_version: int, tail: Buffer, advertised: Advertised) -> bytes:
    """The tail with the advertised addresses, or without addresses if they don't fit: exactly len(tail) bytes.

    Errors: WireError when the tail can't be read; whatever `advertised` raises.
    """
    body = _body(api_key, api_version, tail)
    if not body.nodes:
        return bytes(tail)
    tag = list_tag(api_key)
    with_nodes, without = _array(body, advertised) if tag is None else _tagged(body, tag, advertised)
    return _filled(with_nodes if with_nodes.size <= len(tail) else without, len(tail), body.unassigned)


class _Body(NamedTuple):
    """A tail as the end of a body with nothing before it: it begins in `buf` at `at`."""

    buf: bytes
    at: int
    nodes: list[AddressSpan]
    tags_at: int
    tags: list[TagSpan]

    @property
    def unassigned(self) -> bytes:
        """The encoded number of a tagged field that may stand behind all others."""
        number = max([UNASSIGNED_TAG, *(span.tag + 1 for span in self.tags)])
        if number >= TAG_LIMIT:
            raise Malformed("no number is left for a tagged field behind the others", offset=self.tags_at)
        return uvarint(number)


class _Layout(NamedTuple):
    """A new tail: bytes, and numbers to write as varints. `tags`: the number of tagged fields, which `behind` holds."""

    before: tuple[int | Buffer, ...]
    tags: int
    behind: tuple[int | Buffer, ...]

    @property
    def pieces(self) -> tuple[int | Buffer, ...]:
        return *self.before, self.tags, *self.behind

    @property
    def size(self) -> int:
        return sum(len(uvarint(piece) if isinstance(piece, int) else piece) for piece in self.pieces)


def _body(api_key: int, api_version: int, tail: Buffer) -> _Body:
    before = _nothing_before(api_key, api_version)
    buf = before + tail
    found = places(api_key, api_version, buf, 0)
    if found.end != len(buf):
        raise Malformed("the tail goes on behind its tagged fields", offset=found.end - len(before))
    return _Body(buf, len(before), found.nodes, found.tags_at, found.tags)


@cache
def _nothing_before(api_key: int, api_version: int) -> bytes:
    """The body of a response without partitions, up to the tail: with the tail behind it, it can be decoded."""
    codec = known_codec(api_key, api_version)
    empty = codec.encode({})
    return empty[: codec.walk(tail_field(api_key)).feed(empty)]


def _tagged(body: _Body, number: int, advertised: Advertised) -> tuple[_Layout, _Layout]:
    """For Fetch, whose addresses are a tagged field: the layouts with and without it."""
    tag = single_tag(body.tags, number)
    payload = replaced(body.buf, tag.payload_start, tag.end, body.nodes, True, advertised)
    lower, higher = body.buf[body.tags[0].start : tag.start], body.buf[tag.end :]
    with_nodes = _Layout(
        (), len(body.tags), (lower, body.buf[tag.start : tag.size_start], len(payload), payload, higher)
    )
    return with_nodes, _Layout((), len(body.tags) - 1, (lower, higher))


def _array(body: _Body, advertised: Advertised) -> tuple[_Layout, _Layout]:
    """For ShareFetch and ShareAcknowledge, with an array of addresses before the tags: the layouts full and empty."""
    count, start = read_uvarint(body.buf, body.at)
    nodes = replaced(body.buf, start, body.tags_at, body.nodes, True, advertised)
    tags = body.buf[body.tags[0].start :] if body.tags else b""
    return _Layout((count, nodes), len(body.tags), (tags,)), _Layout((EMPTY_ARRAY,), len(body.tags), (tags,))


def _filled(layout: _Layout, size: int, unassigned: bytes) -> bytes:
    """The bytes of the layout, filled up to `size` bytes."""
    with_more = layout._replace(tags=layout.tags + 1)
    room = size - with_more.size
    if size - layout.size > WIDENED and room > len(unassigned):
        return _written(with_more.pieces, 0) + _blank(unassigned, room)
    return _written(layout.pieces, size - layout.size)


def _blank(number: bytes, size: int) -> bytes:
    """A tagged field of zeros, `size` bytes in all, its size no longer than needed."""
    widths = range(1, UVARINT_BYTES + 1)
    rest = size - len(number)
    width = next(width for width in widths if len(uvarint(rest - width)) <= width)
    return number + uvarint(rest - width, width) + bytes(rest - width)


def _written(pieces: Iterable[int | Buffer], missing: int) -> bytes:
    """The pieces joined; the varints among them take `missing` more bytes than they need, the first ones first."""
    written: list[Buffer] = []
    for piece in pieces:
        if isinstance(piece, int):
            least = len(uvarint(piece))
            width = min(UVARINT_BYTES, least + missing)
            missing -= width - least
            piece = uvarint(piece, width)
        written.append(piece)
    if missing:
        raise Malformed(f"{in_bytes(missing)} can't be made up")
    return b"".join(written)
