"""Reads a certificate's DER, up to its subject (RFC 5280, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator

# the places of fields, which come after serial number, algorithm and issuer
VALIDITY, SUBJECT = 3, 4
# the tag of a certificate's version, which certificates of version 1 lack
_VERSION = 0xA0


def fields(certificate: bytes) -> list[bytes]:
    """Returns the bytes of a certificate's fields. Raises ValueError, IndexError, StopIteration: it can't be read."""
    _, whole = next(elements(certificate))
    _, signed = next(elements(whole))
    return [value for tag, value in elements(signed) if tag != _VERSION]


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields (tag, value) of each DER element in `data`. Raises ValueError, IndexError: an element is cut short."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + size > len(data):
            raise ValueError("cut short")
        yield tag, data[at : at + size]
        at += size
