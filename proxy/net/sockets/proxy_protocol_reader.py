"""Reads the PROXY protocol's header from a client's socket. The header comes first, before a TLS handshake."""

from __future__ import annotations

import trio

from proxy.net.sockets.protocols import spoken
from proxy.net.sockets.proxy_protocol import ClientEndpoints, HeaderParser, Malformed
from proxy.net.sockets.streams import NothingSent, PeerLost, Stream


class NoHeader(Exception):
    """The connection does not begin with a whole header; the message says why. Close the connection.

    setting: the key of the settings that changes this.
    """

    def __init__(self, reason: str, setting: str = "proxy_protocol.accept") -> None:
        super().__init__(reason)
        self.setting = setting


async def read_header(client: Stream, seconds: float) -> ClientEndpoints | None:
    """Returns the client's endpoints; None if the header names no client. Reads no byte after the header.

    Raises:
        NoHeader: there is no whole header, or it did not come in time.
        NothingSent: the peer has ended the connection without sending a byte.
        PeerLost: the connection broke.
    """
    try:
        with trio.fail_after(seconds):
            return await _read(client)
    except trio.TooSlowError as error:
        raise NoHeader("it has not come in time", "proxy_protocol.timeout") from error


async def _read(client: Stream) -> ClientEndpoints | None:
    parser, begun = HeaderParser(), b""
    while parser.missing:
        # not `client.receive`: a TLS stream would decrypt, and the header comes before TLS
        try:
            piece = await Stream.receive(client, parser.missing)
        except PeerLost as lost:
            if begun or lost.vanished:
                raise
            raise NothingSent(lost, client) from lost
        if not piece:
            raise NoHeader("it ends in its middle") if begun else NothingSent("the connection ended", client)
        begun += piece
        try:
            parser.feed(piece)
        except Malformed as error:
            protocol = spoken(begun)
            raise NoHeader(f"the client speaks {protocol} instead" if protocol else str(error)) from error
    return parser.endpoints
