"""Tells what a peer speaks instead of Kafka, by its first bytes.

Four bytes suffice: a frame's length takes as many, so bytes that are no frame are never known to be so sooner. Asked
only once a connection has to end, because a length may look like anything.
"""

from __future__ import annotations

TLS, HTTP, HTTP2, SSH, REDIS, PROXY_HEADER = "TLS", "HTTP", "HTTP/2", "SSH", "Redis", "a PROXY header"
# another protocol that begins with a word: as a length, these bytes are 512 MiB at least
TEXT = "a text protocol"
# the first bytes of a TLS handshake record, whatever its version, and of an alert
HANDSHAKE, ALERT = b"\x16\x03", b"\x15\x03"

_BEGINNINGS: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    (TLS, (HANDSHAKE, ALERT)),
    # requests of every method, and a response
    (HTTP, (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN", b"HTTP")),
    # its preface, "PRI * HTTP/2.0"
    (HTTP2, (b"PRI ",)),
    (SSH, (b"SSH-",)),
    # versions 1 and 2 of the PROXY protocol
    (PROXY_HEADER, (b"PROX", b"\r\n\r\n")),
    # an array of up to nine texts, and commands of one line
    (REDIS, (*(b"*%d\r\n" % count for count in range(1, 10)), b"PING", b"AUTH", b"HELL", b"INFO", b"QUIT")),
)


def spoken(first_bytes: bytes) -> str | None:
    """The protocol that begins with these bytes; None: none of those that are known here."""
    for protocol, beginnings in _BEGINNINGS:
        if first_bytes.startswith(beginnings):
            return protocol
    word = first_bytes[:4]
    return TEXT if len(word) == 4 and word.isascii() and word.decode().isprintable() else None
