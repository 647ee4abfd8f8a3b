"""What Kafka lets texts be: names of topics, and texts as clients and brokers write them.

Used where bytes may only be taken for a text if nothing speaks against it, as in frames whose records must not be kept.
"""

import string

from proxy.wire.errors import Malformed, in_bytes

# what Kafka lets a topic be called: `Topic.java`
TOPIC_LETTERS, LONGEST_TOPIC = string.ascii_letters + string.digits + "._-", 249
_LETTERS = TOPIC_LETTERS.encode()
# control characters, and bytes that no UTF-8 has. A text whose length is wrong, so that it takes in the fields behind
# it, holds some of them: the first bytes of an integer, a count or a null
_NEVER = frozenset({*range(0x20), 0x7F, 0xC0, 0xC1, *range(0xF5, 0x100)})
_USUAL = bytes(byte for byte in range(0x100) if byte not in _NEVER)


def is_topic(name: str) -> bool:
    """True for what Kafka lets a topic be called."""
    return 0 < len(name) <= LONGEST_TOPIC and {*name} <= {*TOPIC_LETTERS} and name not in (".", "..")


def check_text_piece(piece: bytes, *, is_topic: bool) -> None:
    """Checks bytes of a text, or of a topic's name. Errors: Malformed if no client writes them."""
    if piece.translate(None, _LETTERS if is_topic else _USUAL):
        raise Malformed("bytes that no topic's name has" if is_topic else "a text with control characters")


def check_topic_length(length: int) -> None:
    """Checks the bytes of a topic's name. Errors: Malformed if no topic has so many."""
    if not 0 < length <= LONGEST_TOPIC:
        raise Malformed(f"a topic's name of {in_bytes(length)}")


def whole_text(buf: bytes, at: int, length: int, is_topic: bool) -> bytes:
    """The text of `length` bytes at an offset, or a topic's name. Errors: Malformed."""
    if is_topic:
        check_topic_length(length)
    found = bytes(buf[at : at + length])
    check_text_piece(found, is_topic=is_topic)
    return found
