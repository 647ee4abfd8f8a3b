"""The messages of a 0.7 log, one behind the other, and their offsets: positions in the log, in bytes.

    length int32      of the rest of the message
    magic int8        0 (up to 0.6) or 1
    attributes int8   with magic 1 alone; its lowest two bits: 0 none, 1 gzip, 2 snappy (the page calls the byte
                      "compression"; two bits of it count)
    checksum int32    CRC-32 of the payload as it stands here
    payload           with a compression: messages again, compressed as one block (snappy: in xerial's framing)

- The next message's offset is this one's, plus 4, plus its length. Offsets are positions and don't count messages.
- A fetch ends where `max_size` bytes end: in the middle of a message, of its header, of its length. That is no error:
  `read` and `shallow` yield the whole messages, `tail` describes the cut one. A fetch never crosses into the next
  segment of the log, so few messages don't mean the end of the log.
- A nested message has no position of its own in the log; its offset is the wrapper's. A consumer that continues behind
  a nested message fetches the wrapper again, unless that message was the last one. So the `next_offset` of the last
  nested message is the offset behind the wrapper, and that of all others is the wrapper's own offset. Consumers of 0.7
  see only `next_offset`, and call it the message's offset.
- Wrappers may hold wrappers: a broker accepts them as they are, and consumers read them. Producers write one level.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from proxy.wire.budget import Allowance, Budget, of_a_batch
from proxy.wire.errors import Malformed, WireError, in_bytes, naming
from proxy.wire.kafka07.fields import INT32, put, put_block
from proxy.wire.primitives import Buffer
from proxy.wire.records.compression import DEEPEST, DEFAULT_LIMIT, compress, joined, unfold
from proxy.wire.records.kinds import CODECS, Compression

NAME = "0.7 message"
COMPRESSION_MASK = 0x03
# magic, checksum; magic, attributes, checksum
_HEADS = (Struct(">bI"), Struct(">bbI"))
# bytes between a message's length and its payload, by magic
HEAD_SIZES = {magic: head.size for magic, head in enumerate(_HEADS)}


class LogMessage(NamedTuple):
    """A message of the log.

    `offset`: of the message in the log. `next_offset`: where a consumer continues. `checksum`: as sent, 0 to 2**32 - 1.
    `attributes`: 0 with magic 0. `payload`: as in the log.
    """

    offset: int
    next_offset: int
    magic: int
    attributes: int
    checksum: int
    payload: bytes

    @property
    def codec(self) -> Compression:
        """NONE, GZIP or SNAPPY; UNKNOWN for the number 3, which 0.7 doesn't have."""
        code = self.attributes & COMPRESSION_MASK
        return CODECS[code] if code < COMPRESSION_MASK else Compression.UNKNOWN

    @property
    def intact(self) -> bool:
        """True if the checksum fits the payload."""
        return self.checksum == crc32(self.payload)


class Cut(Enum):
    """The place where a stretch of the log ends."""

    NOWHERE = "nowhere"
    LENGTH = "length"
    HEADER = "header"
    PAYLOAD = "payload"


class Tail(NamedTuple):
    """The end of a stretch of the log.

    `whole`: the bytes of whole messages; the next fetch begins at the stretch's offset plus `whole`. `cut`: the place
    where the message behind them is cut. `needs`: the size of that message, its length included; None if there is no
    cut message or its length is cut.

    A fetch that has only a cut message was too small: it needs at least `needs` bytes.
    """

    whole: int
    cut: Cut
    needs: int | None


def shallow(buf: Buffer, offset: int = 0) -> Iterator[LogMessage]:
    """The whole messages of a stretch of the log. Wrappers are not unfolded, and checksums are not checked.

    `offset`: of the stretch's first byte in the log. Errors: Malformed.
    """
    at = 0
    with naming(NAME):
        while isinstance(end := _end(buf, at), int):
            magic = buf[at + INT32.size]
            head = _HEADS[magic]
            _, *attributes, checksum = head.unpack_from(buf, at + INT32.size)
            payload = bytes(buf[at + INT32.size + head.size : end])
            yield LogMessage(offset + at, offset + end, magic, attributes[0] if attributes else 0, checksum, payload)
            at = end


def read(
    buf: Buffer,
    offset: int = 0,
    *,
    limit: int = DEFAULT_LIMIT,
    check_crc: bool = True,
    budget: Budget | None = None,
) -> Iterator[LogMessage]:
    """The whole messages of a stretch of the log as consumers see them: the nested messages instead of wrappers.

    `offset`: of the stretch's first byte in the log. `limit`: the bytes to which one wrapper may unfold, nested
    wrappers included. `budget`: pays for all wrappers, in place of `limit`. The module's text explains the offsets of
    nested messages. An empty wrapper yields nothing; `tail` counts it as whole.

    Errors: OverBudget, Malformed (also for a checksum that doesn't fit, unless `check_crc` is off). The error's
    `offset` is the position of the message or its outermost wrapper in `buf`.
    """
    for message in shallow(buf, offset):
        try:
            unfolding = _Unfolding(budget.unfolded if budget else of_a_batch(limit), check_crc)
            if unfolding.is_plain(message):
                yield message
            else:
                yield from _placed(message, unfolding.contents(message, 1))
        except WireError as fault:
            raise type(fault)(fault.reason, api=NAME, offset=message.offset - offset) from None


def _placed(message: LogMessage, contents: Iterator[LogMessage]) -> Iterator[LogMessage]:
    """The nested messages with the wrapper's offset, which is also the `next_offset` of all but the last of them."""
    latest = None
    for content in contents:
        if latest is not None:
            yield latest._replace(offset=message.offset, next_offset=message.offset)
        latest = content
    if latest is not None:
        yield latest._replace(offset=message.offset, next_offset=message.next_offset)


class _Unfolding:
    """Unfolds one message of the log; the allowance pays for the bytes."""

    def __init__(self, allowance: Allowance, check_crc: bool):
        self._allowance, self._check_crc = allowance, check_crc

    def is_plain(self, message: LogMessage) -> bool:
        """True for a message that is no wrapper. Errors: Malformed for a checksum that doesn't fit."""
        if self._check_crc and not message.intact:
            raise Malformed(f"checksum {message.checksum:#x} doesn't fit the payload")
        return not message.attributes & COMPRESSION_MASK

    def contents(self, message: LogMessage, depth: int) -> Iterator[LogMessage]:
        if depth > DEEPEST:
            raise Malformed(f"compressed more than {DEEPEST} times")
        plain, end = joined(unfold(message.codec, message.payload, self._allowance)), 0
        for nested in shallow(plain):
            end = nested.next_offset
            if self.is_plain(nested):
                yield nested
            else:
                yield from self.contents(nested, depth + 1)
        if end != len(plain):
            raise Malformed("a compressed message whose contents are cut")


def tail(buf: Buffer) -> Tail:
    """The end of a stretch of the log. Errors: Malformed."""
    at = 0
    with naming(NAME):
        while isinstance(end := _end(buf, at), int):
            at = end
    needs = INT32.size + INT32.unpack_from(buf, at)[0] if end in (Cut.HEADER, Cut.PAYLOAD) else None
    return Tail(at, end, needs)


def _end(buf: Buffer, at: int) -> int | Cut:
    """The offset behind the message at `at`, or the place where it is cut."""
    left = len(buf) - at - INT32.size
    if left < 0:
        return Cut.LENGTH if left > -INT32.size else Cut.NOWHERE
    length: int = INT32.unpack_from(buf, at)[0]
    shortest = _HEADS[_magic(buf[at + INT32.size], at) if left else 0].size
    if length < shortest:
        raise Malformed(f"a message of {in_bytes(length)}: its header has {shortest}", offset=at)
    if left < length:
        return Cut.PAYLOAD if left >= shortest else Cut.HEADER
    return at + INT32.size + length


def _magic(magic: int, at: int) -> int:
    if magic >= len(_HEADS):
        raise Malformed(f"magic {magic}: 0 and 1 are known", offset=at + INT32.size)
    return magic


def message(payload: bytes, *, magic: int = 1, codec: Compression = Compression.NONE) -> bytes:
    """One message of a log, with its length in front.

    With a codec, `payload` must be compressed already; `compressed` compresses messages and writes the wrapper.

    Errors: ValueError for a magic or a codec that 0.7 doesn't have, Malformed for a payload too long.
    """
    attributes = _attributes(magic, codec)
    return put_block(INT32, put(_HEADS[magic], magic, *attributes, crc32(payload)) + payload)


def message_set(payloads: Iterable[bytes], *, magic: int = 1) -> bytes:
    """The messages with these payloads, one behind the other, as in a PRODUCE. Errors: as `message`."""
    return b"".join(message(payload, magic=magic) for payload in payloads)


def compressed(messages: bytes, codec: Compression) -> bytes:
    """The messages in a wrapper of magic 1. Errors: as `message`."""
    _attributes(1, codec)
    return message(compress(codec, messages), codec=codec)


def _attributes(magic: int, codec: Compression) -> tuple[int, ...]:
    """The attributes byte of magic 1, () for magic 0. Errors: ValueError, as `message`."""
    if not 0 <= magic < len(_HEADS) or codec not in CODECS[: COMPRESSION_MASK if magic else 1]:
        raise ValueError(f"no message of 0.7 has magic {magic} and is compressed with {codec.value}")
    return (CODECS.index(codec),) if magic else ()
