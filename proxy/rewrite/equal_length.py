"""Rewrites addresses in the tail of a response whose length has already been sent.

A large Fetch, ShareFetch or ShareAcknowledge response streams. Its length is in front, and its addresses are behind all
record data, in the tail. So the tail is rewritten to exactly its former size. With the new addresses it may be:

- Up to 4 bytes too short: the sizes and counts around the addresses are written as longer varints than needed.
- Shorter: a tagged field full of zeros is added behind the others, with a number that Kafka has not assigned. Its size
  is written as a longer varint if the sum needs that (130 bytes can't be made with the shortest ones).
- Too long: the addresses are left out, as before KIP-951: the client then requests metadata. A tagged field of zeros
  takes their place; an array that must be there becomes empty.

Every reader skips unknown tagged fields (KIP-482), and accepts varints of up to 5 bytes. No byte of a broker's address
is ever left: all other bytes of the tail are zeros, or the broker's own bytes around the addresses.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from proxy.mapping.nodes import Node
from proxy.rewrite.addresses import (
    AddressSpan,
    Advertised,
    address_spans,
    known_codec,
    list_tag,
    replace_addresses,
    single_tag,
)
from proxy.wire.errors import Malformed, in_bytes
from proxy.wire.primitives import UVARINT_BYTES, Buffer, TagSpan, read_uvarint, uvarint

# Kafka has assigned only tag 0 in these bodies; this is the last number that takes one byte.
UNASSIGNED_TAG = 127

# Kafka's readers hold a tag's number in an int32.
TAG_LIMIT = 1 << 31

# Longer varints fill up to so many bytes: a tagged field may need more, because it may also lengthen the count.
WIDENED = 4

# A compact array's count is written plus one; 0 would be null.
EMPTY_ARRAY = 1


def tail_field(api_key: int) -> str:
    """Returns the name of the field at which the tail of a walked response begins; "tags": the body's tag buffer."""
    return "tags" if list_tag(api_key) is not None else "node_endpoints"


def nodes_in_tail(api_key: int, api_version: int, tail: Buffer) -> tuple[Node, ...]:
    """Returns the nodes in the tail; see `nodes_in`. Raises WireError: the tail can't be read."""
    return tuple(dict.fromkeys(span.node for span in _body(api_key, api_version, tail).nodes))


def rewrite_tail(api_key: int, api_version: int, tail: Buffer, advertised: Advertised) -> bytes:
    """Returns the tail with the advertised addresses, or without addresses if they don't fit: always len(tail) bytes.

    Raises WireError: the tail can't be read; and whatever `advertised` raises.
    """
    body = _body(api_key, api_version, tail)
    if not body.nodes:
        return bytes(tail)
    tag = list_tag(api_key)
    with_nodes, without = _array(body, advertised) if tag is None else _tagged(body, tag, advertised)
    return _filled(with_nodes if with_nodes.size <= len(tail) else without, len(tail), body.unassigned)


class _Body(NamedTuple):
    """A body without partitions, made so that the tail can be decoded. The tail begins in `buf` at `at`."""

    buf: bytes
    at: int
    nodes: list[AddressSpan]
    tags_at: int
    tags: list[TagSpan]

    @property
    def unassigned(self) -> bytes:
        """The encoded number of an unassigned tagged field behind all others: numbers must increase."""
        number = max([UNASSIGNED_TAG, *(span.tag + 1 for span in self.tags)])
        if number >= TAG_LIMIT:
            raise Malformed("no number is left for a tagged field behind the others", offset=self.tags_at)
        return uvarint(number)


class _Layout(NamedTuple):
    """A new tail: bytes, and integers to write as varints. `tag_count`: the number of `tagged_fields`."""

    before: tuple[int | Buffer, ...]
    tag_count: int
    tagged_fields: tuple[int | Buffer, ...]

    @property
    def pieces(self) -> tuple[int | Buffer, ...]:
        return *self.before, self.tag_count, *self.tagged_fields

    @property
    def size(self) -> int:
        return sum(len(uvarint(piece) if isinstance(piece, int) else piece) for piece in self.pieces)


def _body(api_key: int, api_version: int, tail: Buffer) -> _Body:
    before = _before_empty_tail(api_key, api_version)
    buf = before + tail
    spans = address_spans(api_key, api_version, buf, 0)
    if spans.end != len(buf):
        raise Malformed("the tail goes on behind its tagged fields", offset=spans.end - len(before))
    return _Body(buf, len(before), spans.nodes, spans.tags_at, spans.tags)


@cache
def _before_empty_tail(api_key: int, api_version: int) -> bytes:
    """Returns the body of a response without partitions, up to its tail."""
    codec = known_codec(api_key, api_version)
    empty = codec.encode({})
    return empty[: codec.walk(tail_field(api_key)).feed(empty)]


def _tagged(body: _Body, number: int, advertised: Advertised) -> tuple[_Layout, _Layout]:
    """Returns the layouts with and without addresses, for Fetch: its addresses are a tagged field."""
    tag = single_tag(body.tags, number)
    payload = replace_addresses(body.buf, tag.payload_start, tag.end, body.nodes, True, advertised)
    lower, higher = body.buf[body.tags[0].start : tag.start], body.buf[tag.end :]
    with_nodes = _Layout(
        (), len(body.tags), (lower, body.buf[tag.start : tag.size_start], len(payload), payload, higher)
    )
    return with_nodes, _Layout((), len(body.tags) - 1, (lower, higher))


def _array(body: _Body, advertised: Advertised) -> tuple[_Layout, _Layout]:
    """Returns the layouts with and without addresses, for ShareFetch and ShareAcknowledge: an array before the tags."""
    count, start = read_uvarint(body.buf, body.at)
    nodes = replace_addresses(body.buf, start, body.tags_at, body.nodes, True, advertised)
    tags = body.buf[body.tags[0].start :] if body.tags else b""
    return _Layout((count, nodes), len(body.tags), (tags,)), _Layout((EMPTY_ARRAY,), len(body.tags), (tags,))


def _filled(layout: _Layout, size: int, unassigned: bytes) -> bytes:
    """Returns the bytes of the layout, filled up to `size` bytes."""
    with_more = layout._replace(tag_count=layout.tag_count + 1)
    room = size - with_more.size
    if size - layout.size > WIDENED and room > len(unassigned):
        return _written(with_more.pieces, 0) + _blank(unassigned, room)
    return _written(layout.pieces, size - layout.size)


def _blank(number: bytes, size: int) -> bytes:
    """Returns a tagged field of zeros, `size` bytes in all. Its size is the shortest varint that makes the sum."""
    widths = range(1, UVARINT_BYTES + 1)
    rest = size - len(number)
    width = next(width for width in widths if len(uvarint(rest - width)) <= width)
    return number + uvarint(rest - width, width) + bytes(rest - width)


def _written(pieces: Iterable[int | Buffer], missing: int) -> bytes:
    """Returns the pieces joined. The varints take `missing` more bytes than they need, the first ones most."""
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
